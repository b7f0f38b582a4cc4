# amaranth: UnusedElaboratable=no
"""A die's controller between neighbours that do whatever their contracts allow."""

from amaranth.hdl import Array, Assert, Assume, Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.array_operations import ArrayOperations
from hw.hbf.block_port import BlockPort
from hw.hbf.die_controller import DieController
from hw.hbf.layouts import MODES, Command, token_layout
from hw.hbf.pending import PendingPages
from hw.hbf.read_issue import PATHS, ReadIssue
from hw.hbf.subarray_state import SubarrayState
from hw.hbf.write_admission import WriteAdmission
from hw.params import Machine
from tests.formal.harness import anything, constant
from tests.formal.test_page_walk import AnyWalk
from tests.formal.variants import variant

LINKS = 2
Edits = tuple[tuple[str, str], ...]


class Bag:
    """Items, one a subarray at most, that may be taken at any time and in any order.

    It states that never more come, so a queue that has room for all subarrays holds them.
    """

    def __init__(self, shape, *, subarrays: int) -> None:
        self.held = Signal(subarrays)
        self.items = [Signal(shape, name=f"item{k}") for k in range(subarrays)]

    def describe(self, m: Module, *, key, item, put, take) -> tuple[Signal, Value]:
        """Whether there is one to take now, and which."""
        chosen, comes, there = Signal(range(len(self.held))), Signal(), Signal()
        anything(m, chosen)
        anything(m, comes)
        m.d.comb += [
            there.eq(comes & self.held.bit_select(chosen, 1)),
            Assert(~(put & self.held.bit_select(key, 1)), "one item a subarray"),
        ]
        with m.If(there & take):
            m.d.sync += self.held.bit_select(chosen, 1).eq(0)
        with m.If(put):
            m.d.sync += self.held.bit_select(key, 1).eq(1)
        for k, kept in enumerate(self.items):
            with m.If(put & (key == k)):
                m.d.sync += kept.eq(item)
        return there, Array(Value.cast(kept) for kept in self.items)[chosen]


class AnyDelay(wiring.Component):
    """In place of a delay queue: an item leaves after any time, and before or behind others."""

    def __init__(self, shape, *, depth: int, delay_bits: int) -> None:
        self._shape = data.Layout.cast(shape)
        self.bag = Bag(self._shape, subarrays=depth)
        super().__init__(
            {
                "clock": In(1),
                "delay": In(delay_bits),
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        item = self.i.payload
        names = [name for name, _ in self._shape]
        key = item.slot.subarray if "slot" in names else item[names[0]]
        valid, payload = self.bag.describe(
            m, key=key, item=item, put=self.i.valid, take=self.o.ready
        )
        m.d.comb += [
            self.i.ready.eq(1),
            self.o.valid.eq(valid),
            self.o.payload.as_value().eq(payload),
        ]
        return m


class AnyOrder(wiring.Component):
    """In place of a queue of ended pages, whose lowest bits name the subarray."""

    def __init__(self, *, width: int, depth: int) -> None:
        self.bag = Bag(width, subarrays=depth - 1)
        super().__init__(
            {
                "w_data": In(width),
                "w_en": In(1),
                "r_data": Out(width),
                "r_rdy": Out(1),
                "r_en": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        key = self.w_data[: (len(self.bag.items) - 1).bit_length()]
        valid, item = self.bag.describe(m, key=key, item=self.w_data, put=self.w_en, take=self.r_en)
        m.d.comb += [self.r_rdy.eq(valid), self.r_data.eq(item)]
        return m


class AnyBlocks(wiring.Component):
    """In place of the block table and its port: takes, answers and offers at any time, anything."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(dict(BlockPort(machine).signature.members))

    def elaborate(self, platform) -> Module:
        m = Module()
        for target in (
            self.op.ready,
            self.query.ready,
            self.sensed.ready,
            self.answer,
            self.dead.valid,
            self.dead.payload,
            self.max_cycles,
        ):
            anything(m, target)
        return m


def _open(name: str, construction: str) -> tuple[str, str]:
    """An edit that elaborates a submodule at once, so that what it shows can be looked at."""
    return (
        f"m.submodules.{name} = {name} = {construction}",
        f'{name} = {construction}\n        m.submodules.{name} = {name}.elaborate("formal")\n'
        f"        {name}._MustUse__used = True",  # in place of it, its module is
    )


def controller(**edits: Edits) -> type:
    """The controller of a die without walks, block table and times; ``edits`` by class name.

    That walks cut descriptors into their pages, what the table decides and that queues keep their
    times is proved on its own. The parts show their registers as ``seen``.
    """
    pending = variant(PendingPages, *edits.get("PendingPages", ()), PageWalk=AnyWalk)
    reads = "ReadIssue(machine, die=self.number)"
    writes = "WriteAdmission(machine, die=self.number, links=self._links)"
    return variant(
        DieController,
        _open("state", "SubarrayState(machine)"),
        _open("reads", reads),
        _open("array", "ArrayOperations(machine)"),
        _open("writes", writes),
        (
            "m.submodules.blocks = blocks = BlockPort(machine)",
            "m.submodules.blocks = blocks = BlockPort(machine)\n"
            "        self.seen = state, reads, array, writes, m.submodules",
        ),
        *edits.get("DieController", ()),
        ReadIssue=variant(ReadIssue, *edits.get("ReadIssue", ()), PendingPages=pending),
        SubarrayState=variant(SubarrayState, *edits.get("SubarrayState", ())),
        WriteAdmission=variant(
            WriteAdmission,
            ("with m.FSM():", "with m.FSM() as fsm:"),
            (
                "        busy = active != 0\n",
                "        busy = active != 0\n"
                "        self.seen = active, collecting, reserved, region, there, at, fsm, ended\n"
                "        self.picks, self.clears = picks, clears\n",
            ),
            *edits.get("WriteAdmission", ()),
            PendingPages=pending,
            SyncFIFOBuffered=AnyOrder,
        ),
        ArrayOperations=variant(
            ArrayOperations,
            (
                "wiring.connect(m, to_lane.o, wiring.flipped(self.loaded))",
                "wiring.connect(m, to_lane.o, wiring.flipped(self.loaded))\n"
                "        self.seen = (\n"
                "            to_erase, to_load, to_program, running, pausing, paused, is_erase,\n"
                "            region, over, dues, to_lane, asked, asked_at, asked_suspend\n"
                "        )",
            ),
            *edits.get("ArrayOperations", ()),
            DelayQueue=AnyDelay,
        ),
        DelayQueue=AnyDelay,
        BlockPort=AnyBlocks,
    )


class Surroundings:
    """NAND, TSV lane, drains, links and the rest of the stack around one die.

    The lane may have one page of each subarray under way and ends them in any order; a page that
    was read is drained by its path at any time after that. A page that was granted arrives on
    either link at any time. NAND answers STATUS: an operation ends at any time, not while it is
    suspended.
    """

    def __init__(self, m: Module, die: DieController, machine: Machine) -> None:
        self._machine, self._die = machine, die
        self.subarrays = machine.geometry.subarrays_per_die
        n, slots = self.subarrays, 2 * self.subarrays
        self.under_way, self.lane_writes = Signal(n), Signal(n)
        self.lane_region, self.lane_path = Signal(n), Signal(n)
        self.filled, self.path = Signal(slots), Signal(slots)  # by slot: in SRAM, for which path
        self.granted, self.grant_region = Signal(n), Signal(n)
        self.operates, self.suspended = Signal(n), Signal(n)
        for name in (
            "slice_tick", "wave_open", "wave_region", "region_open", "path_open", "retired",
            "ordering", "ordered", "epoch", "label_slot",
        ):  # fmt: skip
            anything(m, getattr(die, name))
        for pages in die.ranges:
            anything(m, pages)
        for port in (die.direct, die.relay, die.write, die.query):
            anything(m, port.valid)
            anything(m, port.payload)
        for mode in (*MODES, "t_plane_busy"):
            m.d.comb += getattr(die.registers, mode).eq(constant(m, mode, 1))
        self._lane(m)
        self._drains(m)
        self._links(m)
        self._nand(m)

    def _lane(self, m: Module) -> None:
        die = self._die
        anything(m, die.transfer.ready)
        page = die.transfer.payload
        accept = die.transfer.valid & die.transfer.ready
        ends = []
        for event, write in ((die.transferred, 0), (die.written_in, 1)):
            at, now = Signal(range(self.subarrays)), Signal()
            anything(m, at)
            anything(m, now)
            can = self.under_way.bit_select(at, 1) & (self.lane_writes.bit_select(at, 1) == write)
            m.d.comb += [
                event.valid.eq(now & can),
                event.slot.subarray.eq(at),
                event.slot.region.eq(self.lane_region.bit_select(at, 1)),
            ]
            ends.append(event)
        anything(m, die.written_in.poison)
        for s in range(self.subarrays):
            left = [end.valid & (end.slot.subarray == s) for end in ends]
            with m.If(accept & (page.slot.subarray == s)):
                m.d.sync += [
                    self.under_way[s].eq(1),
                    self.lane_writes[s].eq(page.write),
                    self.lane_region[s].eq(page.slot.region),
                    self.lane_path[s].eq(page.path),
                ]
            with m.Elif(left[0] | left[1]):
                m.d.sync += self.under_way[s].eq(0)

    def _drains(self, m: Module) -> None:
        die = self._die
        frees = []
        for p, name in enumerate(PATHS):
            event, now = getattr(die, f"free_{name}"), Signal()
            number = anything(m, event.slot)
            anything(m, now)
            ready = self.filled.bit_select(number, 1) & (self.path.bit_select(number, 1) == p)
            m.d.comb += event.valid.eq(now & ready)
            frees.append((event.valid, number))
        left = die.transferred
        for k in range(2 * self.subarrays):
            with m.If(left.valid & (left.slot.as_value() == k)):
                at = left.slot.subarray
                m.d.sync += [
                    self.filled[k].eq(1),
                    self.path[k].eq(self.lane_path.bit_select(at, 1)),
                ]
            with m.Elif(Cat(valid & (number == k) for valid, number in frees).any()):
                m.d.sync += self.filled[k].eq(0)

    def _links(self, m: Module) -> None:
        die = self._die
        layout = token_layout(self._machine)
        self.token = token = data.View(layout, die.grant.payload.token[: layout.size])
        anything(m, die.grant.ready)
        anything(m, die.event.ready)
        arrives = Signal(self.subarrays)
        for k, arrived in enumerate(die.arrived):
            at, now = Signal(range(self.subarrays)), Signal()
            anything(m, at)
            anything(m, now)
            anything(m, arrived.poison)
            others = [o.valid & (o.slot.subarray == at) for o in list(die.arrived)[:k]]
            m.d.comb += [
                arrived.valid.eq(now & self.granted.bit_select(at, 1) & ~Cat(others).any()),
                arrived.slot.subarray.eq(at),
                arrived.slot.region.eq(self.grant_region.bit_select(at, 1)),
            ]
            with m.If(arrived.valid):
                m.d.comb += arrives.bit_select(at, 1).eq(1)
        m.d.sync += self.granted.eq(self.granted & ~arrives)
        with m.If(die.grant.valid & die.grant.ready):
            m.d.sync += [
                self.granted.bit_select(token.subarray, 1).eq(1),
                self.grant_region.bit_select(token.subarray, 1).eq(token.region),
            ]

    def _nand(self, m: Module) -> None:
        die, port = self._die, self._die.command
        over, asked = Signal(self.subarrays), Signal(range(self.subarrays))
        anything(m, over)
        anything(m, port.fail)
        m.d.sync += asked.eq(port.subarray)
        m.d.comb += port.ready.eq(~self.operates.bit_select(asked, 1))
        for s in range(self.subarrays):
            here = port.valid & (port.subarray == s)
            begins = (port.command == Command.PROGRAM) | (port.command == Command.ERASE)
            with m.If(here & begins):
                m.d.sync += [self.operates[s].eq(1), self.suspended[s].eq(0)]
            with m.Elif(here & (port.command == Command.SUSPEND)):
                m.d.sync += self.suspended[s].eq(self.operates[s])
            with m.Elif(here & (port.command == Command.RESUME)):
                m.d.sync += self.suspended[s].eq(0)
            with m.Elif(over[s] & ~self.suspended[s]):
                m.d.sync += self.operates[s].eq(0)
        m.d.comb += Assume(self._die.number == constant(m, "number", len(die.number)))
