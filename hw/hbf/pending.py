"""Pages of one source that wait for their subarray, one a subarray."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import MAX_PAGES
from hw.hbf.page_walk import PageWalk, rest_layout
from hw.params import Machine


class PendingPages(wiring.Component):
    """Spreads the pages of one source over the subarrays of one die.

    Promise: each page of the source waits at its subarray, so that a busy subarray holds up only
    its own pages; the walk stops when the next page finds its place taken, up to a whole page wave
    ahead. Pages of a subarray are taken in order.

    Members
    -------
    i : In(stream): descriptors, broadcast to all dies
    waiting : Out: one bit a subarray, a page waits there
    subarray : In; row, page, rest : Out, combinational: the page that waits there
    take : In(1): that page is issued
    """

    def __init__(
        self, machine: Machine, *, die: int | Value, depth: int, descriptor: data.StructLayout
    ) -> None:
        self._machine, self._die, self._depth = machine, die, depth
        self._descriptor = descriptor
        g = machine.geometry
        super().__init__(
            {
                "i": In(stream.Signature(descriptor)),
                "waiting": Out(g.subarrays_per_die),
                "subarray": In(range(g.subarrays_per_die)),
                "row": Out(range(g.rows)),
                "page": Out(range(MAX_PAGES)),
                "rest": Out(rest_layout(descriptor)),
                "take": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        subarrays = g.subarrays_per_die
        m.submodules.walk = walk = PageWalk(
            self._machine, die=self._die, depth=self._depth, descriptor=self._descriptor
        )
        wiring.connect(m, wiring.flipped(self.i), walk.i)

        entry_type = data.StructLayout(
            {
                "row": range(g.rows),
                "page": range(MAX_PAGES),
                "rest": rest_layout(self._descriptor),
            }
        )
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
            write.data.page.eq(page.page),
            write.data.rest.eq(page.rest),
            read.addr.eq(self.subarray),
            self.row.eq(read.data.row),
            self.page.eq(read.data.page),
            self.rest.eq(read.data.rest),
        ]
        one, none = Const(1, subarrays), Const(0, subarrays)
        stored = Mux(stores, one << page.subarray, none)
        taken = Mux(self.take, one << self.subarray, none)
        m.d.sync += self.waiting.eq((self.waiting & ~taken) | stored)
        return m
