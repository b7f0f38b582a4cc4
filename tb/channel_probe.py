"""Which input channels of a die stand still for ever when another channel does.

The far ends of all links of a die are played so that traffic always waits. One channel is blocked:
of an output the credits never come back, on an input of write data nothing ever comes. In the end
those inputs stand still whose credits the die has kept for long.
"""

from random import Random
from typing import ClassVar

from amaranth.lib import data

from hw.gpu.local_layouts import local_request_layout
from hw.gpu.router import read_layout
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.transaction import MessageClass, Operation, Owner, Status
from hw.ucie.write_sender import write_request_layout
from tb.vip.credited import Receiver, Sender, Wires, page_beats

WRITE = {"operation": Operation.WRITE, "owner": Owner.KV}
BAD_UNITS = 0  # length of a read that is refused


class Probe:
    """Far ends of one die; ``clock`` once in every clock, just after the edge.

    Attributes:
        senders, receivers: By port of the die.
    """

    INPUTS: ClassVar[dict[str, str]] = {}  # by port: attribute of Credits, or "regions"
    OUTPUTS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, wires: Wires, machine: Machine, *, blocked: str, seed: int, pairs: int = 0
    ) -> None:
        self.wires, self.machine, self.random = wires, machine, Random(f"{seed}/{blocked}")
        self.blocked, self.now, self._tag = blocked, 0, 0
        self._units = machine.geometry.page_bytes // 64
        suffixes = [f"__{pair}" for pair in range(pairs)] or [""]
        depths = {**vars(machine.credits), "regions": machine.sram.relay_regions}
        self.senders = {
            name + suffix: Sender(wires, name + suffix, depths[depth], chunked=depth == "regions")
            for name, depth in self.INPUTS.items()
            for suffix in suffixes
        }
        self.receivers = {
            name + suffix: Receiver(
                wires,
                name + suffix,
                chunked=(type(self), name) == (HbfProbe, "c_data"),
                blocked=name + suffix == blocked,
            )
            for name in self.OUTPUTS
            for suffix in suffixes
        }
        if blocked and blocked not in self.senders and blocked not in self.receivers:
            raise ValueError(f"there is no port {blocked!r} to be blocked")

    def clock(self) -> None:
        self.now += 1
        came = {port: receiver.clock() for port, receiver in self.receivers.items()}
        for port, header in came.items():
            if header is not None:
                self.take(port, header)
        self.give()
        for port, sender in self.senders.items():
            sender.clock(may_send=self.may_send(port))

    def take(self, port: str, header: dict[str, int]) -> None:
        """Something came from an output of the die."""

    def give(self) -> None:
        """Offer what the senders shall send, so that each always has something."""

    def may_send(self, port: str) -> bool:
        return port != self.blocked

    def stand_still(self, clocks: int) -> set[str]:
        """Inputs whose credits the die has kept for so long."""
        return {port for port, sender in self.senders.items() if sender.stands >= clocks}

    def next_tag(self) -> int:
        self._tag = (self._tag + 1) % 4096
        return self._tag

    def span(self, *, most: int) -> tuple[int, int]:
        """First and number of some pages of the stack."""
        first = self.random.randrange(self.machine.geometry.stack_pages)
        return first, self.random.randint(1, min(most, self.machine.geometry.stack_pages - first))

    def request(self, operation: int, first: int, pages: int) -> dict[str, int]:
        return {
            "operation": operation,
            "address": first * self._units,
            "length": pages * self._units,
            "tag": self.next_tag(),
            "owner": Owner.KV if operation == Operation.WRITE else 0,
        }

    def pages_of(self, header: dict[str, int]) -> int:
        return header["length"] // self._units


class HbfProbe(Probe):
    """Far ends of an HBF base die of both links: reads, writes and their data, trims, refusals.

    Write data keep back until ``late``, so that they come when all else stands still.
    """

    INPUTS: ClassVar = {
        f"{link}_{part}": depth
        for link in "ac"
        for part, depth in (
            ("request", "descriptors"),
            ("write", "writes"),
            ("write_data", "rx_beats"),
        )
    }
    OUTPUTS: ClassVar = tuple(f"{link}_{part}" for link in "ac" for part in ("data", "reply"))

    def __init__(self, wires: Wires, machine: Machine, *, late: int, **options) -> None:
        super().__init__(wires, machine, **options)
        self._late = late
        for die in range(machine.geometry.dies):
            wires.set(f"command__{die}__ready", 1)  # each operation is over at its first STATUS

    def take(self, port: str, header: dict[str, int]) -> None:
        if header["message_class"] == MessageClass.GRANT:
            place = {name: header[name] for name in ("tag", "page", "credit")}
            label = {**WRITE, "message_class": MessageClass.WRITE_DATA, **place}
            self.senders[f"{port[0]}_write_data"].offer(*page_beats(label))

    def give(self) -> None:
        for link in "ac":
            if (reads := self.senders[f"{link}_request"]).idle:
                first, pages = self.span(most=8)
                pages = BAD_UNITS if self.random.random() < 0.05 else pages
                reads.offer(self.request(Operation.READ, first, pages))
            if (writes := self.senders[f"{link}_write"]).idle:
                # From the first row of a block on: then most of them may be written.
                rows = self.machine.geometry.pages_per_block
                block = self.machine.geometry.wave_pages * rows
                first = self.random.randrange(0, self.machine.geometry.stack_pages, block)
                first += self.random.randrange(self.machine.geometry.wave_pages)
                kind = Operation.TRIM if self.random.random() < 0.1 else Operation.WRITE
                pages = self.random.randint(1, block // 2)
                writes.offer(self.request(kind, first, pages))

    def may_send(self, port: str) -> bool:
        return super().may_send(port) and (self.now >= self._late or "write_data" not in port)


class HbmProbe(Probe):
    """Far ends of an HBM base die: the GPU's reads, the HBF die's data, grants and answers.

    The GPU has no more reads under way than it has slots, which are as many as link C has credits
    for their requests. Only to see what happens without such a credit it has twice as many.
    """

    INPUTS: ClassVar = {"b_request": "descriptors", "c_data": "regions", "c_reply": "descriptors"}
    OUTPUTS: ClassVar = ("b_data", "b_reply", "c_request", "c_write", "c_write_data")

    def __init__(self, wires: Wires, machine: Machine, **options) -> None:
        super().__init__(wires, machine, **options)
        more = 2 if self.blocked == "c_request" else 1
        self._slots = more * machine.credits.descriptors
        self._left: dict[int, int] = {}  # pages of the reads under way, by tag
        self._writes: dict[int, int] = {}
        self._host = _Host(wires, "writeback", write_request_layout(machine))
        wires.set("link_rate", 1 << 16)

    def take(self, port: str, header: dict[str, int]) -> None:
        tag = header["tag"]
        match port:
            case "c_request":
                self._answer(tag, self.pages_of(header))
            case "c_write":
                _grant(self.senders["c_reply"], self._writes, header, self.pages_of(header))
            case "c_write_data" if header["page_end"]:
                _written(self.senders["c_reply"], self._writes, tag)
            case "b_data" if header["page_end"]:
                self._left[tag] -= 1
            case "b_reply":
                self._left[tag] = 0
        self._left = {tag: left for tag, left in self._left.items() if left}

    def _answer(self, tag: int, pages: int) -> None:
        if self.random.random() < 0.4:
            self.senders["c_reply"].offer(_refusal(tag))
            return
        for page in range(pages):
            label = {"message_class": MessageClass.RELAY_DATA, "tag": tag, "page": page}
            ends = page == pages - 1 or page % self.machine.relay_chunk_pages != 0
            self.senders["c_data"].offer(*page_beats(label, chunk_end=ends))

    def give(self) -> None:
        reads = self.senders["b_request"]
        if reads.idle and len(self._left) < self._slots:
            request = self.request(Operation.READ, *self.span(most=6))
            self._left[request["tag"]] = self.pages_of(request)
            reads.offer(request)
        self._host.clock(_host_write(self))


class GpuProbe(Probe):
    """Far ends of a GPU I/O die and its host; of the pairs only one port is blocked."""

    INPUTS: ClassVar = {
        "direct_data": "rx_beats",
        "direct_reply": "descriptors",
        "relay_data": "rx_beats",
        "relay_reply": "descriptors",
    }
    OUTPUTS: ClassVar[tuple[str, ...]] = (
        "direct_request",
        "direct_write",
        "direct_write_data",
        "relay_request",
    )

    def __init__(self, wires: Wires, machine: Machine, *, pairs: int, **options) -> None:
        super().__init__(wires, machine, pairs=pairs, **options)
        self._writes: list[dict[int, int]] = [{} for _ in range(pairs)]
        self._reads = _Host(wires, "i", read_layout(machine))
        self._host = _Host(wires, "write", write_request_layout(machine))
        wires.set("link_rate", 1 << 16)
        wires.set("window", 1000)
        for name in ("direct", "relay"):
            for pair in range(pairs):
                wires.set(f"{name}_o__{pair}__ready", 1)

    def take(self, port: str, header: dict[str, int]) -> None:
        name, pair = port.split("__")
        path = name.split("_")[0]
        replies, tag = self.senders[f"{path}_reply__{pair}"], header["tag"]
        writes = self._writes[int(pair)]
        if name.endswith("request"):
            if header["address"] // self._units % 2 == 0:  # by all pairs
                replies.offer(_refusal(tag))
                return
            for page in range(self.pages_of(header)):
                label = {"message_class": self._path_data(path), "tag": tag, "page": page}
                self.senders[f"{path}_data__{pair}"].offer(*page_beats(label))
        elif name.endswith("write"):
            _grant(replies, writes, header, self.pages_of(header))
        elif header["page_end"]:
            _written(replies, writes, tag)

    def _path_data(self, path: str) -> int:
        """Message class of data that come over a path."""
        return MessageClass.READ_DATA

    def give(self) -> None:
        first, pages = self.span(most=4)
        read = {"first": first, "pages": pages, "choice": self.random.randrange(2)}
        self._reads.clock({**read, "tag": self.next_tag()})
        self._host.clock(_host_write(self))


class GpuHbmProbe(GpuProbe):
    """The same of a GPU I/O die with HBM stacks, whose hosts read and write those, too."""

    OUTPUTS: ClassVar = (*GpuProbe.OUTPUTS, "relay_local", "relay_in")

    def __init__(
        self, wires: Wires, machine: Machine, *, pairs: int, stack: HbmStack, **options
    ) -> None:
        super().__init__(wires, machine, pairs=pairs, **options)
        self._stack = stack
        request = local_request_layout(stack)
        self._locals = [
            _Host(wires, f"{name}__{pair}", request)
            for name in ("local", "local_write")
            for pair in range(pairs)
        ]
        wires.set("local_window", 1000)
        for pair in range(pairs):
            wires.set(f"local_o__{pair}__ready", 1)

    def take(self, port: str, header: dict[str, int]) -> None:
        name, pair = port.split("__")
        if name not in ("relay_local", "relay_in"):
            super().take(port, header)
            return
        data, replies = self.senders[f"relay_data__{pair}"], self.senders[f"relay_reply__{pair}"]
        tag, operation = header["tag"], header["operation"]
        end = {"message_class": MessageClass.COMPLETION, "operation": operation, "tag": tag}
        accesses, end_of_stack = self._stack.beat_accesses, self._stack.accesses
        first, length = header["address"], header["length"]
        if name == "relay_in":
            if header["page_end"]:
                replies.offer(end)
        elif length == 0 or first + length > end_of_stack:
            replies.offer({**end, "status": Status.BAD_ADDRESS})
        elif operation == Operation.READ:
            beats = (first + length - 1) // accesses - first // accesses + 1
            data.offer(*[{"message_class": MessageClass.READ_DATA, "tag": tag}] * beats)

    def _path_data(self, path: str) -> int:
        return MessageClass.RELAY_DATA if path == "relay" else super()._path_data(path)

    def give(self) -> None:
        super().give()
        for host in self._locals:
            address = self.random.randrange(self._stack.accesses)
            host.clock({"address": address, "length": self.random.randrange(8)})


def _host_write(probe: Probe) -> dict[str, int]:
    first, pages = probe.span(most=4)
    return {**WRITE, "first": first, "pages": pages, "tag": probe.next_tag()}


def _refusal(tag: int) -> dict[str, int]:
    return {
        "message_class": MessageClass.READ_DATA,
        "operation": Operation.READ,
        "tag": tag,
        "status": Status.BAD_ADDRESS,
    }


def _completion(tag: int, status: int = Status.OK) -> dict[str, int]:
    return {
        **WRITE,
        "message_class": MessageClass.COMPLETION,
        "tag": tag,
        "chunk_end": 1,
        "status": status,
    }


def _grant(replies: Sender, left: dict[int, int], header: dict[str, int], pages: int) -> None:
    """Grants of all pages of a write, or its refusal."""
    tag = header["tag"]
    if tag % 5 == 0:
        replies.offer(_completion(tag, Status.OVERLAP))
        return
    left[tag] = pages
    for page in range(pages):
        replies.offer({**WRITE, "message_class": MessageClass.GRANT, "tag": tag, "page": page})


def _written(replies: Sender, left: dict[int, int], tag: int) -> None:
    """A page of a write has come; with the last one it is complete."""
    left[tag] -= 1
    if not left[tag]:
        replies.offer(_completion(tag))


class _Host:
    """Offers something at a stream of the die in every clock, over a simulator that settles."""

    def __init__(self, wires: Wires, port: str, layout: data.StructLayout) -> None:
        self._wires, self._port, self._layout = wires, port, layout
        self._taken = True

    def clock(self, fields: dict[str, int]) -> None:
        if self._taken:
            self._wires.set(f"{self._port}__payload", self._layout.const(fields).as_bits())
        self._wires.set(f"{self._port}__valid", 1)
        self._taken = bool(self._wires.get(f"{self._port}__ready"))
