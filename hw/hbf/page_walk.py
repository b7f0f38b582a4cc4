"""Address map: which pages of a transaction one die owns, in order."""

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.address_map import AddressMap
from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine


def log2(n: int) -> int:
    """Bits that count ``n`` things, a power of two."""
    return n.bit_length() - 1


def die_number(machine: Machine, die: int | Value) -> Value:
    """A die of the stack as a signal knows it, so that it can stand in an address."""
    return Const(die, log2(machine.geometry.dies)) if isinstance(die, int) else die


def locate(machine: Machine, page: int) -> tuple[int, int, int]:
    """Where a page of the stack lives: (die, subarray of the die, row of the subarray)."""
    at = AddressMap(machine.geometry)
    return page % machine.geometry.dies, int(at.die_subarray(page)), int(at.row(page))


def rest_layout(descriptor: data.StructLayout) -> data.StructLayout:
    """What a descriptor says beside its pages: every page of it carries that along."""
    return data.StructLayout(
        {name: field.shape for name, field in descriptor if name not in ("first", "pages")}
    )


class PageWalk(wiring.Component):
    """Queue of descriptors of one source, cut into the pages of one die.

    Contract: every descriptor is broadcast to all dies; die ``die`` presents exactly the pages of
    it that :func:`locate` gives to that die, in rising order, one a clock. Latency 3 clocks from an
    idle queue; two clocks between descriptors. A descriptor that holds no page of this die
    disappears. ``descriptor`` has the fields ``first`` and ``pages``; ``o`` names the page of the
    transaction and carries the others in ``rest``.
    """

    def __init__(
        self, machine: Machine, *, die: int | Value, depth: int, descriptor: data.StructLayout
    ) -> None:
        self._machine, self._die, self._depth = machine, die_number(machine, die), depth
        self._descriptor = descriptor
        g = machine.geometry
        page = data.StructLayout(
            {
                "subarray": range(g.subarrays_per_die),
                "row": range(g.rows),
                "page": range(MAX_PAGES),
                "rest": rest_layout(descriptor),
            }
        )
        super().__init__({"i": In(stream.Signature(descriptor)), "o": Out(stream.Signature(page))})

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        die_bits = log2(g.dies)
        layout = self._descriptor
        m.submodules.queue = queue = SyncFIFOBuffered(width=layout.size, depth=self._depth)
        head = layout(queue.r_data)
        m.d.comb += [
            queue.w_data.eq(self.i.payload.as_value()),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(queue.w_rdy),
        ]

        # Die-local page numbers: this die owns stack pages local * dies + die.
        local_shape = range(g.stack_pages // g.dies + 1)
        local, end = Signal(local_shape), Signal(local_shape)
        first, rest = Signal(range(g.stack_pages)), Signal(rest_layout(layout))
        round_up = ~self._die  # dies - 1 - die
        active = Signal()
        m.d.comb += [
            active.eq(local != end),
            self.o.valid.eq(active),
            self.o.payload.subarray.eq(local[: log2(g.subarrays_per_die)]),
            self.o.payload.row.eq(local[log2(g.subarrays_per_die) :]),
            self.o.payload.page.eq((local << die_bits) + self._die - first),
            self.o.payload.rest.eq(rest),
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
                *(rest[name].eq(head[name]) for name, _ in rest_layout(layout)),
            ]
        return m
