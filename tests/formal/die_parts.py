# amaranth: UnusedElaboratable=no
"""The controller of a die, with parts that do whatever the contracts of the real ones allow."""

from amaranth.hdl import Array, Assert, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.array_operations import ArrayOperations
from hw.hbf.block_port import BlockPort
from hw.hbf.die_controller import DieController
from hw.hbf.pending import PendingPages
from hw.hbf.read_issue import ReadIssue
from hw.hbf.subarray_state import SubarrayState
from hw.hbf.write_admission import WriteAdmission
from hw.params import Machine
from tests.formal.harness import anything
from tests.formal.test_page_walk import AnyWalk
from tests.formal.variants import variant

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
        ReadIssue=variant(
            ReadIssue,
            (
                "        m.d.comb += self.wants.eq(wants[0] | wants[1])\n",
                "        m.d.comb += self.wants.eq(wants[0] | wants[1])\n"
                "        self.slot_gate = slot\n",
            ),
            *edits.get("ReadIssue", ()),
            PendingPages=pending,
        ),
        SubarrayState=variant(SubarrayState, *edits.get("SubarrayState", ())),
        WriteAdmission=variant(
            WriteAdmission,
            ("with m.FSM():", "with m.FSM() as fsm:"),
            (
                "        busy = active != 0\n",
                "        busy = active != 0\n"
                "        self.seen = active, collecting, reserved, region, there, at, fsm, ended\n"
                "        self.pending, self.job = pending, job\n"
                "        self.granted, self.of_link_1 = granted, of_1\n",
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
