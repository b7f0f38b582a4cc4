"""Drives packer and unpacker in whole messages, beats and groups."""

import random
import sys
from collections.abc import Sequence

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ucie.packer import GroupPacker
from hw.ucie.unpacker import GroupUnpacker
from tb.vip.group_codec import Beat

# Amaranth's simulator writes masks in decimal, and those of a full group are long.
sys.set_int_max_str_digits(0)

FULL = {6: {"lanes": 128, "slots": 62}, 3: {"lanes": 128, "slots": 60}}
SMALL = [
    {"lanes": lanes, "slots": slots} for lanes, slots in [(8, 5), (8, 6), (8, 2), (4, 3), (2, 2)]
]


def name_of(sizes: dict) -> str:
    return "{lanes} lanes, {slots} slots".format(**sizes)


class Pair(wiring.Component):
    """Every group of the packer goes into the unpacker; the bench says when."""

    def __init__(self, *, lanes: int, slots: int, flush: int = 3) -> None:
        self.packer = GroupPacker(lanes=lanes, slots=slots, flush=flush)
        self.unpacker = GroupUnpacker(lanes=lanes, slots=slots)
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.packer, m.submodules.unpacker = self.packer, self.unpacker
        m.d.comb += [
            self.unpacker.i.valid.eq(self.packer.o.valid & self.packer.o.ready),
            self.unpacker.i.payload.eq(self.packer.o.payload),
        ]
        return m


def random_header(pick: random.Random) -> bytes:
    return pick.getrandbits(127).to_bytes(16, "little")


def random_beat(pick: random.Random, lanes: int) -> Beat:
    """Header and eight lanes differ from beat to beat; all lanes of a beat differ.

    The simulator settles the whole design for each lane that changes.
    """
    data = bytearray(random.Random(0).randbytes(8 * lanes))
    for lane in pick.sample(range(lanes), min(lanes, 8)):
        data[8 * lane : 8 * lane + 8] = pick.randbytes(8)
    return Beat(random_header(pick), bytes(data))


class Feed:
    """Offers messages and beats to a packer and keeps offering each until it is taken."""

    def __init__(self, packer: GroupPacker, messages: Sequence, beats: Sequence) -> None:
        self.packer, self.messages, self.beats = packer, list(messages), list(beats)
        self.messages_taken = self.beats_taken = 0
        self._lanes = [0] * len(packer.beat.lanes)
        self._shown: dict[int, int] = {}

    @property
    def done(self) -> bool:
        return self.messages_taken == len(self.messages) and self.beats_taken == len(self.beats)

    def offer(self, ctx, *, message: bool, beat: bool) -> tuple[bool, bool]:
        """What of both is taken in this clock; call it once, after ``o.ready`` is set."""
        for stream, wanted, count, things in (
            (self.packer.message, message, self.messages_taken, self.messages),
            (self.packer.beat, beat, self.beats_taken, self.beats),
        ):
            offered = (wanted or ctx.get(stream.valid)) and count < len(things)
            ctx.set(stream.valid, offered)
            if offered and self._shown.get(id(stream)) != count:
                self._show(ctx, stream, things[count])
                self._shown[id(stream)] = count
        ports = (self.packer.message, self.packer.beat)
        taken = tuple(bool(ctx.get(port.valid) and ctx.get(port.ready)) for port in ports)
        self.messages_taken += taken[0]
        self.beats_taken += taken[1]
        return taken

    def after(self, ctx, taken: tuple[bool, bool]) -> None:
        """Call it behind the clock edge."""
        for port, gone in zip((self.packer.message, self.packer.beat), taken, strict=True):
            if gone:
                ctx.set(port.valid, 0)

    def _show(self, ctx, stream, thing) -> None:
        if isinstance(thing, Beat):
            ctx.set(stream.header.as_value(), int.from_bytes(thing.header, "little"))
            for k, lane in enumerate(stream.lanes):
                value = int.from_bytes(thing.data[8 * k : 8 * k + 8], "little")
                if value != self._lanes[k]:
                    ctx.set(lane, value)
                    self._lanes[k] = value
        else:
            ctx.set(stream.payload.as_value(), int.from_bytes(thing, "little"))


def group_of(ctx, packer: GroupPacker) -> bytes:
    return ctx.get(packer.o.payload).to_bytes(16 * packer.layout.slots, "little")


def message_of(ctx, unpacker: GroupUnpacker) -> bytes | None:
    if not ctx.get(unpacker.message.valid):
        return None
    return ctx.get(unpacker.message.header.as_value()).to_bytes(16, "little")


def beat_of(ctx, unpacker: GroupUnpacker) -> Beat | None:
    if not ctx.get(unpacker.beat.valid):
        return None
    header = ctx.get(unpacker.beat.header.as_value()).to_bytes(16, "little")
    return Beat(
        header, b"".join(ctx.get(lane).to_bytes(8, "little") for lane in unpacker.beat.lanes)
    )
