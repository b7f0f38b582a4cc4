"""What stands around the controller of a die, as free as its contract allows."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data

from hw.hbf.die_controller import DieController
from hw.hbf.layouts import MODES, Command, token_layout
from hw.hbf.read_issue import PATHS
from hw.params import Machine
from tests.formal.harness import anything, constant

LINKS = 2


class Surroundings:
    """NAND, TSV lane, drains, links and the rest of the stack around one die.

    The lane may have one page of each subarray under way and ends them in any order; a page that
    was read is drained by its path at any time after that. A page that was granted arrives on its
    link at any time, or is cut; writes become orphans at any time. NAND answers STATUS: an
    operation ends at any time, not while it is suspended.
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
        m.d.comb += die.number.eq(constant(m, "number", len(die.number)))
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
        anything(m, die.orphans)
        cut = anything(m, die.cut)
        of_1 = die.seen[3].of_link_1
        of_link = [~of_1, of_1]
        self.arrives = arrives = Signal(self.subarrays)
        for k, arrived in enumerate(die.arrived):
            at, now = Signal(range(self.subarrays)), Signal()
            anything(m, at)
            anything(m, now)
            anything(m, arrived.poison)
            others = [o.valid & (o.slot.subarray == at) for o in list(die.arrived)[:k]]
            m.d.comb += [
                arrived.valid.eq(
                    now
                    & (self.granted & of_link[k]).bit_select(at, 1)
                    & ~Cat(others).any()
                    & ~cut[k]  # what came is in its slot before the rest is given up
                ),
                arrived.slot.subarray.eq(at),
                arrived.slot.region.eq(self.grant_region.bit_select(at, 1)),
            ]
            with m.If(arrived.valid):
                m.d.comb += arrives.bit_select(at, 1).eq(1)
        self.cuts = Signal(self.subarrays)
        cuts = [Mux(cut[k], self.granted & of_link[k], 0) for k in range(LINKS)]
        m.d.comb += self.cuts.eq(cuts[0] | cuts[1])
        m.d.sync += self.granted.eq(self.granted & ~arrives & ~self.cuts)
        with m.If(die.grant.valid & die.grant.ready):
            m.d.sync += [
                self.granted.bit_select(token.subarray, 1).eq(1),
                self.grant_region.bit_select(token.subarray, 1).eq(token.region),
            ]

    def _nand(self, m: Module) -> None:
        port = self._die.command
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
