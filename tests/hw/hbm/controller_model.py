"""A plain memory behind the ports of an HBM controller: ready, valid and latencies by dice."""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hw.hbm.dram.description import HbmStack

LANES = 8  # of an access


def pattern(access: int, version: int) -> list[int]:
    """Lanes of an access that was written as ``version``."""
    return [version << 40 | access << 8 | k for k in range(LANES)]


@dataclass
class ControllerModel:
    """What :class:`hw.hbm.dram.controller.HbmController` promises at its ports, and no more.

    Reads bring their beats in order; a beat is looked up when it is first offered. Writes take
    their beats in order and are done in order. ``beat_share`` and the like are chances a clock;
    ``latency`` is the most clocks that a read waits.

    Attributes:
        requests, write_data, beats, done: Ports of the design that the controller would be at.
        versions: Of the accesses that were written.
        poisoned: Accesses that no read can correct.
        taken: All requests, in order.
    """

    stack: HbmStack
    ctx: Any
    request: Any
    beats: Any
    write_data: Any = None
    done: Any = None
    rng: random.Random = field(default_factory=random.Random)
    latency: int = 20
    request_share: float = 0.8
    beat_share: float = 0.8
    write_share: float = 0.8
    versions: dict[int, int] = field(default_factory=dict)
    poisoned: set[int] = field(default_factory=set)
    taken: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._clock = 0
        self._reads: deque[dict[str, Any]] = deque()  # beats
        self._writes: deque[dict[str, Any]] = deque()
        self._done: deque[int] = deque()
        self._offered = False

    @property
    def idle(self) -> bool:
        return not (self._reads or self._writes or self._done)

    @property
    def writing(self) -> bool:
        return bool(self._writes or self._done)

    def outputs(self) -> None:
        """Sets what the controller drives in this clock."""
        ctx, rng = self.ctx, self.rng
        ctx.set(self.request.ready, rng.random() < self.request_share)
        due = bool(self._reads) and self._reads[0]["due"] <= self._clock
        self._offered = due and (self._offered or rng.random() < self.beat_share)
        ctx.set(self.beats.valid, self._offered)
        if self._offered:
            beat = self._reads[0]
            if "lanes" not in beat:
                beat["lanes"] = [
                    word
                    for access in beat["accesses"]
                    for word in (self.read(access) if access in beat["wanted"] else [0] * LANES)
                ]
            ctx.set(self.beats.label, beat["label"])
            for lane, word in zip(self.beats.lanes, beat["lanes"], strict=True):
                ctx.set(lane, word)
        if self.write_data is not None:
            ctx.set(self.write_data.ready, bool(self._writes) and rng.random() < self.write_share)
            ctx.set(self.done.valid, bool(self._done))
            if self._done:
                ctx.set(self.done.payload, {"tag": self._done[0], "write": 1, "refused": 0})

    def inputs(self) -> None:
        """Looks at what was handed over; before the tick."""
        ctx = self.ctx
        if self._offered and ctx.get(self.beats.ready):
            self._reads.popleft()
            self._offered = False
        if self.write_data is not None:
            if self._done and ctx.get(self.done.ready):
                self._done.popleft()
            if ctx.get(self.write_data.valid) and ctx.get(self.write_data.ready):
                self._store([ctx.get(lane) for lane in self.write_data.lanes])
        if ctx.get(self.request.valid) and ctx.get(self.request.ready):
            payload = ctx.get(self.request.payload)
            names = ("write", "address", "length", "tag")
            self._take({name: payload[name] for name in names})
        self._clock += 1

    def read(self, access: int) -> list[int]:
        return pattern(access, self.versions.get(access, 0))

    def _take(self, request: dict[str, int]) -> None:
        self.taken.append(request)
        first, length, per = request["address"], request["length"], self.stack.beat_accesses
        assert 0 < length <= self.stack.accesses - first, request
        due = self._clock + self.rng.randint(1, self.latency)
        numbers = range(first // per, (first + length - 1) // per + 1)
        for n, number in enumerate(numbers):
            accesses = range(number * per, (number + 1) * per)
            wanted = range(max(first, accesses.start), min(first + length, accesses.stop))
            label = {
                "tag": request["tag"],
                "beat": n,
                "wanted": sum(1 << access - accesses.start for access in wanted),
                "last": number == numbers[-1],
                "poison": bool(self.poisoned & set(wanted)),
            }
            queue = self._writes if request["write"] else self._reads
            queue.append({"label": label, "accesses": accesses, "wanted": wanted, "due": due})

    def _store(self, lanes: list[int]) -> None:
        beat = self._writes.popleft()
        for access in beat["wanted"]:
            at = LANES * (access - beat["accesses"].start)
            version = lanes[at] >> 40
            assert lanes[at : at + LANES] == pattern(access, version), hex(lanes[at])
            self.versions[access] = version
        if beat["label"]["last"]:
            self._done.append(beat["label"]["tag"])
