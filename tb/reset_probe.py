"""Both links of an HBF base die, its NAND and its memory in plain Python, with links that are lost.

Link A works in the lower half of the stack and link C in the upper half, so that each knows what it
must read whatever happens to the other. Of each half the lower part is only read and holds what a
stack holds that nobody wrote to; blocks of the upper part are written, always from their first page
on, trimmed and read.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hw.hbf.layouts import Command
from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.transaction import MessageClass, Operation, Owner, Status
from hw.ucie.ucie_end import QUIET_CLOCKS
from tb.vip.content import beat_lanes
from tb.vip.credited import Fields, Sender, Wires, page_beats, unpack
from tb.vip.nand_model import NandModel

LATE = 3  # clocks after the loss in which what had come to the port still comes
LEAVING = 16  # clocks in which what the die had begun to send leaves it
SETTLES = 3_000  # clocks at most
Read = tuple[int, int, set[tuple[int, int]]]  # first page, pages, beats to come


class Nand:
    """The NAND dies at the ports of a base die; ``clock`` just after the edge."""

    def __init__(self, wires: Wires, machine: Machine) -> None:
        self._wires, self._machine = wires, machine
        self.model = NandModel(machine)

    def clock(self) -> None:
        wires, model = self._wires, self.model
        model.step()
        for group in range(GROUPS):
            port = f"readout__{group}"
            if wires.get(f"{port}__valid"):
                names = ("die", "subarray", "beat", "last")
                die, subarray, beat, last = (wires.get(f"{port}__{name}") for name in names)
                _, lanes = model.readout(die, subarray, beat, bool(last))
                for k, lane in enumerate(lanes):
                    wires.set(f"{port}__lanes__{k}", lane)
        for die in range(self._machine.geometry.dies):
            port = f"command__{die}"
            if wires.get(f"{port}__valid"):
                asked = (wires.get(f"{port}__{name}") for name in ("command", "subarray", "row"))
                command, subarray, row = asked
                if reply := model.command(die, Command(command), subarray, row):
                    wires.set(f"{port}__ready", int(reply[0]))
                    wires.set(f"{port}__fail", int(reply[1]))
        if wires.get("writein__valid"):
            die, subarray, beat = (wires.get(f"writein__{n}") for n in ("die", "subarray", "beat"))
            lanes = [wires.get(f"writein__lanes__{k}") for k in range(self._machine.lanes)]
            model.writein(die, subarray, beat, lanes)


class Source(Sender):
    """A sender whose link may be lost: then what waits is.

    Attributes:
        last: What goes in this clock.
    """

    last: Fields | None = None

    def lose(self) -> None:
        self._waiting.clear()

    def clock(self, *, may_send: bool = True) -> None:
        before, head = self.sent, self._waiting[0] if self._waiting else None
        super().clock(may_send=may_send)
        self.last = head if self.sent > before else None


class Sink:
    """Takes what comes from an output port; what was sent into a lost link costs credits, too.

    Attributes:
        generous: Gives credits back.
        came: Messages or beats so far.
        owed: Credits that the die has spent and not got back, but that of an open chunk.
    """

    def __init__(self, wires: Wires, port: str, credits: int, *, chunked: bool) -> None:
        self._wires, self._port, self._credits, self._chunked = wires, port, credits, chunked
        self._opens = False  # a chunk
        self.generous = True
        self.came = self.owed = 0

    def clock(self, *, lost: bool) -> dict[str, int] | None:
        """What came."""
        header = None
        if self._wires.get(f"{self._port}__valid"):
            header = unpack(self._wires.get(f"{self._port}__header"))
            self.came += 1
            beat = header["message_class"] == MessageClass.RELAY_DATA
            ends = header["chunk_end"] and (header["page_end"] or not beat)
            assert not self._chunked or beat or self._opens, f"{self._port}: nothing to be closed"
            self.owed += bool(not self._chunked or ends)
            self._opens = self._chunked and not ends
            assert self.owed + self._opens <= self._credits, f"{self._port}: beyond its credits"
        gives = self.owed > 0 and self.generous and not lost
        self.owed -= gives
        self._wires.set(f"{self._port}__credit", int(gives))
        return header

    def lanes(self, count: int) -> list[int]:
        return [self._wires.get(f"{self._port}__lanes__{k}") for k in range(count)]

    def refund(self) -> None:
        """The link is up again: it returns the credit of a chunk that was cut, too."""
        self.owed += self._opens
        self._opens = False


@dataclass
class Written:
    """A write or trim under way, or what a block holds of the last one."""

    first: int
    pages: int
    version: int = 0  # of a write
    granted: set[int] = field(default_factory=set)


class Link:
    """The far end of one link: its traffic, its resets and what it must see."""

    def __init__(self, wires: Wires, machine: Machine, name: str, random: Random) -> None:
        credits, g = machine.credits, machine.geometry
        self._wires, self._machine, self.name, self._random = wires, machine, name, random
        self._half = g.stack_pages // 2 * (name == "c")
        self._block = g.wave_pages * g.pages_per_block
        self._units = g.page_bytes // 64
        self.reads, self.writes, self.data = (
            Source(wires, f"{name}_{part}", count)
            for part, count in (
                ("request", credits.descriptors),
                ("write", credits.writes),
                ("write_data", credits.rx_beats),
            )
        )
        relay = name == "c"
        regions = machine.sram.relay_regions
        self.beats = Sink(wires, f"{name}_data", regions if relay else credits.rx_beats,
                          chunked=relay)  # fmt: skip
        self.replies = Sink(wires, f"{name}_reply", credits.descriptors, chunked=False)
        self.read_of: dict[int, Read] = {}
        self.write_of: dict[int, Written] = {}
        self._sent: dict[int, Written] = {}  # by tag, those that were lost included
        self.holds: dict[int, Written | None] = {}  # by block: what was written last, if known
        self.orphaned: set[int] = set()  # blocks of writes that were lost
        self.busy = True  # asks for more
        self.state, self._since, self._version, self._tag = "up", 0, 0, 0
        self._quiet_at = self._comes = 0
        self.counts: Counter[str] = Counter()

    @property
    def idle(self) -> bool:
        return self.state == "up" and not (self.read_of or self.write_of)

    # Resets ---------------------------------------------------------------------------------------

    def lose(self) -> None:
        self.state, self._since = "lost", 0
        self._quiet_at = QUIET_CLOCKS + self._random.randrange(20)
        self.counts["resets"] += 1
        self.counts["reads lost"] += len(self.read_of)
        self.counts["writes lost"] += len(self.write_of)
        self.read_of.clear()
        for write in self.write_of.values():
            self.orphaned.add(write.first // self._block)
            self.holds[write.first // self._block] = None
        self.write_of.clear()
        self._wires.set(f"{self.name}_reset__lost", 1)

    def _reset(self) -> None:
        self._since += 1
        settled = self._wires.get(f"{self.name}_reset__settled")
        sources = (self.reads, self.writes, self.data)
        if self._since == LATE:
            for source in sources:
                source.lose()
        if self.state == "lost" and self._since >= self._quiet_at:
            self.state = "quiet"
        self._wires.set(f"{self.name}_reset__quiet", int(self.state in ("quiet", "settled")))
        if self.state == "quiet" and settled:
            self.state, self._comes = "settled", self._since + self._random.randint(2, 20)
            self.counts["longest"] = max(self.counts["longest"], self._since)
        elif self.state == "settled":
            assert settled, f"link {self.name} is not settled any more"
            if self._since >= self._comes:
                for source in sources:
                    assert not source.owed, f"{source.port}: {source.owed} credits are missing"
                self.beats.refund()
                self._wires.set(f"{self.name}_reset__lost", 0)
                self._wires.set(f"{self.name}_reset__quiet", 0)
                self.state = "up"
        assert self._since < SETTLES, f"link {self.name} does not settle"

    # Traffic --------------------------------------------------------------------------------------

    def clock(self) -> None:
        if self.state != "up":
            self._reset()
        lost = self.state != "up"
        header, reply = self.beats.clock(lost=lost), self.replies.clock(lost=lost)
        if not lost:
            if header and header["message_class"] != MessageClass.COMPLETION:
                self._beat(header)
            if reply:
                self._reply(reply)
            if self.busy:
                self._ask()
        elif self._since > LEAVING:
            assert header is None and reply is None, f"link {self.name} is lost"
        for source in (self.reads, self.writes, self.data):
            source.clock(may_send=not lost or self._since < LATE)
            if source is self.data and source.last is not None:
                for k, lane in enumerate(self._content(source.last)):
                    self._wires.set(f"{self.name}_write_data__lanes__{k}", lane)

    def _content(self, header: Fields) -> list[int]:
        write = self._sent[header["tag"]]
        number = 4 * (write.first + header["page"]) + header["beat"]
        return beat_lanes(0, number, self._machine.lanes, write.version)

    def next_tag(self) -> int:
        self._tag = (self._tag + 1) % 4096
        return self._tag

    def read(self, first: int, pages: int) -> None:
        tag = self.next_tag()
        beats = {(page, beat) for page in range(pages) for beat in range(4)}
        self.read_of[tag] = first, pages, beats
        self.reads.offer(
            {"operation": Operation.READ, "address": first * self._units, "tag": tag,
             "length": pages * self._units}
        )  # fmt: skip

    def _ask(self) -> None:
        pick, quarter = self._random, self._machine.geometry.stack_pages // 4
        if self.reads.idle and len(self.read_of) < 6 and pick.random() < 0.1:
            written = pick.random() < 0.3  # behind a write, perhaps
            first = pick.randrange(quarter - 12)
            self.read(self._half + quarter * written + first, pick.randint(1, 12))
        taken = {write.first // self._block for write in self.write_of.values()}
        blocks = range(
            (self._half + quarter) // self._block, (self._half + 2 * quarter) // self._block
        )
        free = [block for block in blocks if block not in taken]
        if self.writes.idle and free and pick.random() < 0.05:
            block = pick.choice(free)
            if (held := self.holds.get(block)) and pick.random() < 0.3:
                self.write(block, held.pages, trim=True)
            else:
                self.write(block, pick.choice((1, 3, 8, self._block)))

    def write(self, block: int, pages: int, trim: bool = False) -> None:
        tag = self.next_tag()
        self._version = 1 + self._version % 255
        write = Written(block * self._block, pages, 0 if trim else self._version)
        self.write_of[tag] = self._sent[tag] = write
        self.holds[block] = None
        operation = Operation.TRIM if trim else Operation.WRITE
        self.writes.offer(
            {"operation": operation, "address": write.first * self._units, "tag": tag,
             "length": pages * self._units, "owner": 0 if trim else Owner.KV}
        )  # fmt: skip

    def _beat(self, header: dict[str, int]) -> None:
        first, _, left = self.read_of[header["tag"]]
        page, beat = header["page"], header["beat"]
        left.remove((page, beat))
        assert not header["poison"]
        quarter = self._machine.geometry.stack_pages // 4
        if first - self._half < quarter:
            lanes = beat_lanes(0, 4 * (first + page) + beat, self._machine.lanes)
            assert self.beats.lanes(self._machine.lanes) == lanes, f"page {first + page}"
            self.counts["beats"] += 1
        if not left:
            del self.read_of[header["tag"]]
            self.counts["reads"] += 1

    def _reply(self, header: dict[str, int]) -> None:
        write = self.write_of[header["tag"]]
        block = write.first // self._block
        if header["message_class"] == MessageClass.GRANT:
            assert write.version and header["page"] not in write.granted
            write.granted.add(header["page"])
            label = {name: header[name] for name in ("tag", "page", "credit")}
            label |= {"message_class": MessageClass.WRITE_DATA, "operation": Operation.WRITE}
            self.data.offer(*page_beats(label))
            return
        assert header["chunk_end"], f"a page failed: {header}"
        del self.write_of[header["tag"]]
        if header["status"] == Status.OVERLAP:
            assert block in self.orphaned, f"block {block} is not written"
            self.counts["overlaps"] += 1
            return
        assert header["status"] == Status.OK
        self.orphaned.discard(block)
        if write.version:
            assert len(write.granted) == write.pages
            self.holds[block] = write
            self.counts["writes"] += 1
        else:
            self.counts["trims"] += 1

    def check(self, nand: NandModel) -> int:
        """Blocks whose last write went well hold it; how many."""
        whole = [write for write in self.holds.values() if write]
        for write in whole:
            for page in range(write.first, write.first + write.pages):
                for beat in range(4):
                    want = beat_lanes(0, 4 * page + beat, self._machine.lanes, write.version)
                    assert nand.stored(page)(beat) == want, f"page {page}"
        return len(whole)
