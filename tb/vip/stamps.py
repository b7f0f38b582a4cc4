"""Stamps of transactions, by tag: kept in RTL while a run goes on, read back after it."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

TAGS = 4096


class StampTable(wiring.Component):
    """Remembers for every tag the clock of its last event, or with ``first`` of its first.

    An event is in clocks with ``en``. ``stamp`` answers one clock after ``query``; zero means that
    there was no event, so clock zero must have none.
    """

    def __init__(self, *, first: bool = False) -> None:
        self._first = first
        super().__init__(
            {"clock": In(32), "en": In(1), "tag": In(12), "query": In(12), "stamp": Out(32)}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.stamps = stamps = Memory(shape=32, depth=TAGS, init=[])
        write, read = stamps.write_port(), stamps.read_port()
        m.d.comb += [
            write.addr.eq(self.tag),
            write.data.eq(self.clock),
            write.en.eq(self.en),
            read.addr.eq(self.query),
            self.stamp.eq(read.data),
        ]
        if self._first:
            known = stamps.read_port(domain="comb")
            m.d.comb += [
                known.addr.eq(self.tag),
                write.en.eq(self.en & (known.data == 0)),
            ]
        return m
