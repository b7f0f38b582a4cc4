# amaranth: UnusedElaboratable=no
"""The DRAM of one pseudo-channel: it remembers, and answers after its latency. It checks nothing:
that is what :mod:`tb.vip.dram_checker` is for."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.address import Place
from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import (
    ACCESS_LANES,
    BURST_BITS,
    BURST_CHECK_BITS,
    DramPort,
    RowCommand,
    place_layout,
)
from hw.sram.macro import Sram1r1w
from hw.sram.secded import BeatEncoder

FLIPPED = (17, 25)  # bits of a first burst that errors strike: of one word of 64 bits


def preloaded(stack: HbmStack, place: Place) -> list[int]:
    """The lanes of an access that was never written."""
    at = place_layout(stack).const(
        {"bank": place.bank, "row": place.row, "column": place.column}
    ).as_bits()  # fmt: skip
    x = place.channel << 26 | at
    word = x ^ 0xFFFFFFFF | (x ^ _rotated(x, 13, 32)) << 32
    return [_rotated(word, 7 * k, 64) for k in range(ACCESS_LANES)]


def content(m: Module, channel, place) -> list[Value]:
    """The same as logic."""
    x = Signal(32, name="x")
    m.d.comb += x.eq((channel << 26) | place.as_value())
    # No bit of a lane is a bit of x: a vector that depends on itself stops Verilator.
    word = Cat(~x, x ^ x.rotate_left(13))
    return [word.rotate_left(7 * k) for k in range(ACCESS_LANES)]


def _rotated(word: int, by: int, width: int) -> int:
    return (word << by | word >> (width - by)) & (1 << width) - 1


class DramModel(wiring.Component):
    """Contents and latency of one pseudo-channel.

    Contract: what was never written reads as :func:`preloaded` with right check bits. Of every bank
    ``kept_rows`` rows of different low bits are remembered: a write to a row that takes the place
    of another counts in ``overflow``, and the run cannot be judged. A burst comes ``read_latency``
    clocks after its READ. With ``flip`` of 1 or 2 so many bits of one word of every access that is
    read are wrong.
    """

    def __init__(self, stack: HbmStack, *, kept_rows: int = 4) -> None:
        self._stack, self._kept = stack, min(kept_rows, stack.organization.rows)
        super().__init__(
            {
                "dram": In(DramPort(stack)),
                "channel": In(range(max(2, stack.organization.pseudo_channels))),
                "flip": In(2),
                "overflow": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        o, latency = self._stack.organization, clocks_of(self._stack).read_latency
        row, column = self.dram.row, self.dram.column
        m.submodules.rows = rows = Memory(shape=range(o.rows), depth=o.bank_count, init=[])
        opens, opened = rows.write_port(), rows.read_port(domain="comb")
        m.d.comb += [
            opens.en.eq(row.valid & (row.command == RowCommand.ACTIVATE)),
            opens.addr.eq(row.bank),
            opens.data.eq(row.row),
            opened.addr.eq(column.bank),
        ]

        # Clock 0: the array -----------------------------------------------------------------------
        width = BURST_BITS + BURST_CHECK_BITS
        cell = data.StructLayout({"burst": width, "row": range(o.rows), "valid": 1})
        low = (self._kept - 1).bit_length()
        at = Cat(column.half, column.column, column.bank, opened.data[:low])
        m.submodules.cells = cells = Sram1r1w(width=cell.size, depth=1 << len(at), zeroed=True)
        new = cell(cells.w_data)
        m.d.comb += [
            cells.r_en.eq(column.valid),
            cells.r_addr.eq(at),
            cells.w_en.eq(column.valid & column.write),
            cells.w_addr.eq(at),
            new.burst.eq(self.dram.write_data),
            new.row.eq(opened.data),
            new.valid.eq(1),
        ]

        # Clock 1: what it held --------------------------------------------------------------------
        place = Signal(place_layout(self._stack))
        half, reads, writes, flip = Signal(), Signal(), Signal(), Signal(2)
        m.d.sync += [
            reads.eq(column.valid & ~column.write),
            writes.eq(column.valid & column.write),
        ]
        with m.If(column.valid):
            m.d.sync += [
                place.bank.eq(column.bank),
                place.row.eq(opened.data),
                place.column.eq(column.column),
                half.eq(column.half),
                flip.eq(self.flip),
            ]
        old, burst = cell(cells.r_data), Signal(width)
        m.submodules.encoder = encoder = BeatEncoder(lanes=ACCESS_LANES)
        stored = content(m, self.channel, place)
        m.d.comb += [to.eq(lane) for to, lane in zip(encoder.lanes, stored, strict=True)]
        whole = Cat(*encoder.lanes)
        with m.If(old.valid & (old.row == place.row)):
            m.d.comb += burst.eq(old.burst)
        with m.Else():
            m.d.comb += burst.eq(
                Cat(
                    whole.word_select(half, BURST_BITS),
                    encoder.check[0].word_select(half, BURST_CHECK_BITS),
                )
            )
        with m.If(writes & old.valid & (old.row != place.row)):
            m.d.sync += self.overflow.eq(self.overflow + 1)
        wrong = sum(((flip > k) & ~half) << bit for k, bit in enumerate(FLIPPED))

        # The way back: a ring of as many rows as clocks -------------------------------------------
        waits = latency - 2  # the look-up took one clock, reading the ring takes another
        depth = 1 << (waits + 1).bit_length()
        now, coming = Signal(range(depth)), Signal(waits)
        m.submodules.ring = ring = Sram1r1w(width=width, depth=depth)
        m.d.sync += [now.eq(now + 1), coming.eq(Cat(reads, coming))]
        m.d.comb += [
            ring.w_en.eq(reads),
            ring.w_addr.eq(now),
            ring.w_data.eq(burst ^ wrong),
            ring.r_en.eq(coming[-1] if waits else 0),
            ring.r_addr.eq(now - waits),
            self.dram.read_data.eq(ring.r_data),
        ]
        m.d.sync += self.dram.read_valid.eq(ring.r_en)
        return m
