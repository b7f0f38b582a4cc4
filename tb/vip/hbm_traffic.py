"""Readers and writers of one pseudo-channel, in hardware: streams of accesses, their data checked.

Writes bring what the DRAM holds anyway (:func:`tb.vip.dram.preloaded`), so that every read can be
compared whatever went before it.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.address import HbmAddressMap, bits
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import ACCESS_LANES, place_layout
from hw.hbm.dram.pseudo_channel import read_layout, write_layout
from hw.hbm.dram.read_assembly import returned_layout
from tb.vip.dram import content
from tb.vip.xorshift import GOLDEN, SHIFTS

NUMBER_BITS = 32


class Pattern(enum.Enum, shape=2):
    """Where consecutive accesses of a stream lie."""

    SEQUENTIAL = 0
    RANDOM = 1  # anywhere in the channel
    ONE_BANK = 2  # rows of bank 0 in turn: a conflict each time


class AccessSource(wiring.Component):
    """Places of a stream of ``total`` accesses: the next after each ``take``.

    Sequential streams begin at access ``first`` of the channel.
    """

    def __init__(self, stack: HbmStack, *, seed: int) -> None:
        self._stack, self._seed = stack, seed
        self._local = bits(stack.accesses) - HbmAddressMap(stack).channel_bits
        super().__init__(
            {
                "pattern": In(Pattern),
                "first": In(self._local),
                "total": In(NUMBER_BITS),
                "take": In(1),
                "valid": Out(1),
                "place": Out(place_layout(stack)),
                "sent": Out(NUMBER_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        o = self._stack.organization
        # A state of xorshift that goes on with each access, so that the stream does not depend on
        # when they are taken. A power of two of rows is enough to be random.
        chosen = Signal(64, init=GOLDEN[64] * (2 * self._seed + 1) % 2**64)
        left, right, again = SHIFTS[64]
        x = chosen ^ (chosen << left)[:64]
        x = x ^ (x >> right)
        local = Signal(self._local)
        m.d.comb += [
            self.valid.eq(self.sent != self.total),
            local.eq(self.first + self.sent),
        ]
        with m.If(self.take):
            m.d.sync += [self.sent.eq(self.sent + 1), chosen.eq(x ^ (x << again)[:64])]
        bank, row, column = HbmAddressMap(self._stack).fields(local)
        row_bits = o.rows.bit_length() - 1
        with m.Switch(self.pattern):
            with m.Case(Pattern.SEQUENTIAL):
                m.d.comb += [
                    self.place.bank.eq(bank),
                    self.place.row.eq(row),
                    self.place.column.eq(column),
                ]
            with m.Case(Pattern.RANDOM):
                m.d.comb += [
                    self.place.bank.eq(chosen[8:]),
                    self.place.row.eq(chosen[20 : 20 + row_bits]),
                    self.place.column.eq(chosen[48:]),
                ]
            with m.Default():
                m.d.comb += self.place.row.eq(self.sent[:row_bits])
        return m


class ChannelTraffic(wiring.Component):
    """A stream of reads and one of writes for a :class:`hw.hbm.dram.pseudo_channel.PseudoChannel`.

    Members
    -------
    channel : In: its number
    reads, writes : In: how many; pattern : In; window : In: reads under way at most
    together : In: neither stream gets more than 64 accesses ahead of the other
    read, write, returned, lanes : the ports of the channel
    returned_count, written : Out: reads and writes so far; errors : Out: wrong, doubled or poisoned
    """

    LEAD = 64
    TAG_BITS = 8

    def __init__(self, stack: HbmStack, *, seed: int) -> None:
        self._stack, self._seed = stack, seed
        super().__init__(
            {
                "channel": In(range(max(2, stack.organization.pseudo_channels))),
                "reads": In(NUMBER_BITS),
                "writes": In(NUMBER_BITS),
                "pattern": In(Pattern),
                "window": In(self.TAG_BITS + 1),
                "together": In(1),
                "read": Out(stream.Signature(read_layout(stack, self.TAG_BITS))),
                "write": Out(stream.Signature(write_layout(stack))),
                "returned": In(returned_layout(self.TAG_BITS)),
                "lanes": In(64).array(ACCESS_LANES),
                "returned_count": Out(NUMBER_BITS),
                "written": Out(NUMBER_BITS),
                "errors": Out(NUMBER_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.reader = reader = AccessSource(self._stack, seed=2 * self._seed)
        m.submodules.writer = writer = AccessSource(self._stack, seed=2 * self._seed + 1)
        half = 1 << (len(writer.first) - 1)
        m.d.comb += [
            reader.pattern.eq(self.pattern),
            writer.pattern.eq(self.pattern),
            reader.total.eq(self.reads),
            writer.total.eq(self.writes),
            writer.first.eq(half),  # another part of the channel
        ]
        apart = Signal(NUMBER_BITS)
        ahead, behind = Signal(), Signal()
        m.d.comb += [
            apart.eq(reader.sent - writer.sent),
            ahead.eq(self.together & writer.valid & ~apart[-1] & (apart > self.LEAD)),
            behind.eq(
                self.together & reader.valid & apart[-1] & ((-apart)[:NUMBER_BITS] > self.LEAD)
            ),
        ]

        # Reads: their places wait by tag ----------------------------------------------------------
        tags = 1 << self.TAG_BITS
        busy = Signal(tags)
        tag = Signal(self.TAG_BITS)
        under_way = Signal(range(tags + 1))
        m.submodules.asked = asked = Memory(shape=place_layout(self._stack), depth=tags, init=[])
        store, lookup = asked.write_port(), asked.read_port(domain="comb")
        taken = self.read.valid & self.read.ready
        m.d.comb += [
            self.read.valid.eq(
                reader.valid & ~ahead & (under_way < self.window) & ~busy.bit_select(tag, 1)
            ),
            self.read.payload.place.eq(reader.place),
            self.read.payload.tag.eq(tag),
            reader.take.eq(taken),
            store.en.eq(taken),
            store.addr.eq(tag),
            store.data.eq(reader.place),
            lookup.addr.eq(self.returned.tag),
        ]
        with m.If(taken):
            m.d.sync += tag.eq(tag + 1)
        answered = Mux(self.returned.valid, 1 << self.returned.tag, 0)
        m.d.sync += [
            busy.eq((busy | Mux(taken, 1 << tag, 0)) & ~answered),
            under_way.eq(under_way + taken - self.returned.valid),
        ]
        right = content(m, self.channel, lookup.data)
        wrong = Cat(a != b for a, b in zip(right, self.lanes, strict=True)).any()
        with m.If(self.returned.valid):
            m.d.sync += self.returned_count.eq(self.returned_count + 1)
            with m.If(wrong | self.returned.poison | ~busy.bit_select(self.returned.tag, 1)):
                m.d.sync += self.errors.eq(self.errors + 1)

        # Writes -----------------------------------------------------------------------------------
        goes = self.write.valid & self.write.ready
        m.d.comb += [
            self.write.valid.eq(writer.valid & ~behind),
            self.write.payload.place.eq(writer.place),
            writer.take.eq(goes),
        ]
        for k, lane in enumerate(content(m, self.channel, writer.place)):
            m.d.comb += self.write.payload.lanes[k].eq(lane)
        m.d.sync += self.written.eq(self.written + goes)
        return m
