"""Choice of the next page that a die senses, and what holds up the others."""

import itertools

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bits import line, lowest
from hw.hbf.layouts import descriptor_layout, label_layout, slot_layout
from hw.hbf.page_walk import die_number
from hw.hbf.pending import PendingPages
from hw.hbf.write_acceptance import range_layout
from hw.params import Machine
from hw.ucie.transaction import PATHS

DESCRIPTORS_PER_DIE = 8


class Blocked(enum.IntFlag, shape=4):
    """What keeps the next page of a die waiting."""

    DIE = 1  # the command port carries something else
    PLANE = 2  # plane or subarray is busy
    SRAM = 4  # the subarray has no free slot
    PATH = 8  # the path of the page is not available


class ReadIssue(wiring.Component):
    """Picks pages of both paths for the SENSE commands of one die.

    Promise: a page is issued only if the command port, its plane and subarray, a slot of the
    subarray and its path are available. Pages are issued out of order over subarrays, in order
    within a path and subarray; when both paths have a page that can go, they alternate. While the
    other path waits for the same subarray, a path that holds one of its slots leaves the second to
    it; while a write waits there, reads leave it the last free slot. A page that an unfinished
    write covers is held until that write retires, unless its read is older.

    ``blocked_on`` is one-hot while pages stay behind: the gate at which the one that came furthest
    stands, in the order plane, SRAM, path, die. It is zero if no page waits but one issued in this
    clock. Throughput: one page a clock, combinational from the gates.

    Members
    -------
    direct, relay : In(stream of descriptors), broadcast to all dies
    port_free : In: the command port can take a SENSE in this clock
    plane_free : In: one bit a subarray that may sense now
    slot_free : In, one a region: one bit a subarray whose slot there may be reserved
    holds : In, one a path: one bit a subarray in which the path holds a slot
    write_waits : In: one bit a subarray at which a write wants a slot
    path_open : In(2): one bit a path that may have more pages under way
    ranges, retired, ordering, ordered, epoch : In
        Unfinished writes, and the order of reads to the entry ``ordering`` while it waits.
    issue : Out: a page is issued, with ``path``, ``slot``, ``row``, ``label``, its beats and epoch
    waiting : Out, one a path: one bit a subarray at which a page waits
    wants : Out: one bit a subarray at which a page waits for nothing but its plane and subarray
    held : Out: a page was found to be covered by a write
    """

    def __init__(self, machine: Machine, *, die: int | Value) -> None:
        self._machine, self._die = machine, die
        g = machine.geometry
        subarrays = g.subarrays_per_die
        descriptors = stream.Signature(descriptor_layout(machine))
        super().__init__(
            {
                "direct": In(descriptors),
                "relay": In(descriptors),
                "port_free": In(1),
                "plane_free": In(subarrays),
                "slot_free": In(subarrays).array(2),
                "holds": In(subarrays).array(2),
                "write_waits": In(subarrays),
                "path_open": In(2),
                "ranges": In(range_layout(machine)).array(machine.credits.writes),
                "retired": In(1),
                "ordering": In(machine.credits.writes),
                "ordered": In(1),
                "epoch": In(1),
                "issue": Out(1),
                "path": Out(1),
                "slot": Out(slot_layout(machine)),
                "row": Out(range(g.rows)),
                "label": Out(label_layout()),
                "first_beat": Out(2),
                "last_beat": Out(2),
                "page_epoch": Out(1),
                "waiting": Out(subarrays).array(2),
                "wants": Out(subarrays),
                "held": Out(1),
                "blocked_on": Out(Blocked),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        subarrays = machine.geometry.subarrays_per_die

        queues = []
        for p, name in enumerate(PATHS):
            queue = PendingPages(
                machine,
                die=self._die,
                depth=DESCRIPTORS_PER_DIE,
                descriptor=descriptor_layout(machine),
            )
            m.submodules[f"pending_{name}"] = queue
            wiring.connect(m, wiring.flipped(getattr(self, name)), queue.i)
            m.d.comb += self.waiting[p].eq(queue.waiting)
            queues.append(queue)

        # Gates: pages that passed each, a bit a subarray ------------------------------------------
        any_slot, both_slots, slot = (Signal(subarrays) for _ in range(3))
        m.d.comb += [
            any_slot.eq(self.slot_free[0] | self.slot_free[1]),
            both_slots.eq(self.slot_free[0] & self.slot_free[1]),
            slot.eq(any_slot & ~(self.write_waits & ~both_slots)),
        ]
        passed: dict[str, list[Signal]] = {
            gate: [Signal(subarrays, name=f"{gate}_{name}") for name in PATHS]
            for gate in ("waiting", "plane", "sram", "path")
        }
        go, covered = Signal(2), Signal(2)  # one bit a path: its choice can go; must be held
        wants = []
        for p, queue in enumerate(queues):
            held = Signal(subarrays, name=f"held_{PATHS[p]}")
            waiting, plane, sram, path = (passed[gate][p] for gate in passed)
            shares = self.holds[p] & queues[1 - p].waiting
            m.d.comb += [
                waiting.eq(queue.waiting),
                plane.eq(waiting & ~held & self.plane_free),
                sram.eq(plane & slot),
                path.eq(Mux(self.path_open[p], sram & ~shares, 0)),
                queue.subarray.eq(lowest(m, path)),
                covered[p].eq((path != 0) & self._covered(queue)),
                go[p].eq((path != 0) & ~covered[p] & self.port_free),
            ]
            wants.append(Mux(self.path_open[p], waiting & ~held & slot & ~shares, 0))
            with m.If(self.retired):
                m.d.sync += held.eq(0)
            with m.Elif(covered[p]):
                m.d.sync += held.eq(held | line(covered[p], queue.subarray, subarrays))

        m.d.comb += self.wants.eq(wants[0] | wants[1])

        # Choice -----------------------------------------------------------------------------------
        last_path = Signal()
        m.d.comb += [
            self.path.eq(Mux(go.all(), ~last_path, go[1])),
            self.issue.eq(go.any()),
            self.held.eq(covered.any()),
            self.slot.region.eq(~self.slot_free[0].bit_select(self.slot.subarray, 1)),
        ]
        with m.If(self.issue):
            m.d.sync += last_path.eq(self.path)
        for p, queue in enumerate(queues):
            m.d.comb += queue.take.eq(go[p] & (self.path == p))
            with m.If(self.path == p):
                m.d.comb += [
                    self.slot.subarray.eq(queue.subarray),
                    self.row.eq(queue.row),
                    self.label.tag.eq(queue.rest.tag),
                    self.label.page.eq(queue.page),
                    self.first_beat.eq(queue.rest.first_beat),
                    self.last_beat.eq(queue.rest.last_beat),
                    self.page_epoch.eq(queue.rest.epoch),
                ]

        # What stays behind, and where -------------------------------------------------------------
        taken = [line(queue.take, queue.subarray, subarrays) for queue in queues]
        gates = [*passed.values(), taken]
        stays = Signal(4)
        for gate, (before, after) in enumerate(itertools.pairwise(gates)):
            m.d.comb += stays[gate].eq(((before[0] & ~after[0]) | (before[1] & ~after[1])) != 0)
        for gate, reason in enumerate((Blocked.PLANE, Blocked.SRAM, Blocked.PATH, Blocked.DIE)):
            with m.If(stays[gate]):  # the last assignment counts: the gate furthest on
                m.d.comb += self.blocked_on.eq(reason)
        return m

    def _covered(self, queue: PendingPages) -> Value:
        """Whether an unfinished write that the page is not older than covers the chosen page."""
        page = Cat(die_number(self._machine, self._die), queue.subarray, queue.row)
        hits = []
        for k, pages in enumerate(self.ranges):
            older = self.ordering[k] & ~(self.ordered & (queue.rest.epoch == self.epoch))
            inside = (page >= pages.first) & (page < pages.end)
            hits.append(pages.valid & inside & ~older)
        return Cat(hits).any()
