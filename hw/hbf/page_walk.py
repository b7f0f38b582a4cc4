"""Address map: which pages of a transaction one die owns, in order."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import MAX_PAGES, descriptor_layout
from hw.params import Machine


def log2(n: int) -> int:
    """Bits that count ``n`` things, a power of two."""
    return n.bit_length() - 1


def locate(machine: Machine, page: int) -> tuple[int, int, int]:
    """Where a page of the stack lives: (die, subarray of the die, row of the subarray).

    Consecutive pages go to consecutive dies, then planes, then subarrays, so that any 2,048
    consecutive pages of ``paper`` form one full page wave (DASH section V-A2).
    """
    geometry = machine.geometry
    local, die = divmod(page, geometry.dies)
    row, subarray = divmod(local, geometry.subarrays_per_die)
    return die, subarray, row


class PageWalk(wiring.Component):
    """Queue of descriptors of one path, cut into the pages of one die.

    Contract: every descriptor is broadcast to all dies; die ``die`` presents exactly the pages of
    it that :func:`locate` gives to that die, in rising order, one a clock. Latency 3 clocks from an
    idle queue; two clocks between descriptors. A descriptor that holds no page of this die
    disappears.
    """

    def __init__(self, machine: Machine, *, die: int, depth: int) -> None:
        self._machine, self._die, self._depth = machine, die, depth
        g = machine.geometry
        page = data.StructLayout(
            {
                "subarray": range(g.subarrays_per_die),
                "row": range(g.rows),
                "tag": 12,
                "page": range(MAX_PAGES),
            }
        )
        super().__init__(
            {
                "i": In(stream.Signature(descriptor_layout(machine))),
                "o": Out(stream.Signature(page)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        dies, die_bits = g.dies, log2(g.dies)
        layout = descriptor_layout(self._machine)
        m.submodules.queue = queue = SyncFIFOBuffered(
            width=data.Layout.cast(layout).size, depth=self._depth
        )
        head = layout(queue.r_data)
        m.d.comb += [
            queue.w_data.eq(self.i.payload.as_value()),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(queue.w_rdy),
        ]

        # Die-local page numbers: this die owns stack pages local * dies + die.
        local_shape = range(g.stack_pages // dies + 1)
        local, end = Signal(local_shape), Signal(local_shape)
        first, tag = Signal(range(g.stack_pages)), Signal(12)
        round_up = dies - 1 - self._die
        active = Signal()
        m.d.comb += [
            active.eq(local != end),
            self.o.valid.eq(active),
            self.o.payload.subarray.eq(local[: log2(g.subarrays_per_die)]),
            self.o.payload.row.eq(local[log2(g.subarrays_per_die) :]),
            self.o.payload.tag.eq(tag),
            self.o.payload.page.eq((local << die_bits) + self._die - first),
        ]
        with m.If(active):
            with m.If(self.o.ready):
                m.d.sync += local.eq(local + 1)
        with m.Elif(queue.r_rdy):
            m.d.comb += queue.r_en.eq(1)
            m.d.sync += [
                local.eq((head.first + round_up) >> die_bits),
                end.eq((head.first + head.pages + round_up) >> die_bits),
                first.eq(head.first),
                tag.eq(head.tag),
            ]
        return m
