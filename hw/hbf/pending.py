"""Pages of one path that wait for their subarray, one a subarray."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import descriptor_layout, label_layout
from hw.hbf.page_walk import PageWalk
from hw.params import Machine


class PendingPages(wiring.Component):
    """Spreads the pages of one path over the subarrays of one die.

    Promise: each page of the path waits at its subarray, so that a busy subarray holds up only its
    own pages; the walk stops when the next page finds its place taken, up to a whole page wave
    ahead. Pages of a subarray are taken in order.

    Members
    -------
    i : In(stream): descriptors, broadcast to all dies
    waiting : Out: one bit a subarray, a page waits there
    subarray : In; row, label : Out, combinational: the page that waits there
    take : In(1): that page is issued
    """

    def __init__(self, machine: Machine, *, die: int, depth: int) -> None:
        self._machine, self._die, self._depth = machine, die, depth
        g = machine.geometry
        super().__init__(
            {
                "i": In(stream.Signature(descriptor_layout(machine))),
                "waiting": Out(g.subarrays_per_die),
                "subarray": In(range(g.subarrays_per_die)),
                "row": Out(range(g.rows)),
                "label": Out(label_layout()),
                "take": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        subarrays = g.subarrays_per_die
        m.submodules.walk = walk = PageWalk(self._machine, die=self._die, depth=self._depth)
        wiring.connect(m, wiring.flipped(self.i), walk.i)

        entry_type = data.StructLayout({"row": range(g.rows), "label": label_layout()})
        m.submodules.pages = pages = Memory(shape=entry_type, depth=subarrays, init=[])
        write, read = pages.write_port(), pages.read_port(domain="comb")
        page = walk.o.payload
        stores = Signal()
        m.d.comb += [
            walk.o.ready.eq(~self.waiting.bit_select(page.subarray, 1)),
            stores.eq(walk.o.valid & walk.o.ready),
            write.en.eq(stores),
            write.addr.eq(page.subarray),
            write.data.row.eq(page.row),
            write.data.label.tag.eq(page.tag),
            write.data.label.page.eq(page.page),
            read.addr.eq(self.subarray),
            self.row.eq(read.data.row),
            self.label.eq(read.data.label),
        ]
        one, none = Const(1, subarrays), Const(0, subarrays)
        stored = Mux(stores, one << page.subarray, none)
        taken = Mux(self.take, one << self.subarray, none)
        m.d.sync += self.waiting.eq((self.waiting & ~taken) | stored)
        return m
