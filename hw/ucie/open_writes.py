"""Writes that are open on one link, by their tags."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.arbiter import select
from hw.bits import position


class OpenWrites(wiring.Component):
    """Remembers operation and tag of each request from ``begin`` to its ``end``.

    Promise: ``end`` forgets one open request of its tag, from the next clock on. ``some`` shows one
    that is open, if there is one, and ``drop`` forgets that one. Each request has a ``slot`` of its
    own while it is open: that of ``begin``, which ``gone`` names when the request is forgotten.

    Contract: ``begin`` only with ``room``; ``drop`` only with ``some.valid`` and not with ``end``.

    Members
    -------
    begin : In: operation and tag; end : In: tag
    room : Out: one more may begin; slot : Out: the one that ``begin`` takes
    gone : Out: slot that is forgotten in this clock
    some : Out: operation and tag; drop : In
    """

    def __init__(self, *, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        self._depth = depth
        request = data.StructLayout({"valid": 1, "operation": 4, "tag": 12})
        super().__init__(
            {
                "begin": In(request),
                "end": In(data.StructLayout({"valid": 1, "tag": 12})),
                "room": Out(1),
                "slot": Out(range(depth)),
                "gone": Out(data.StructLayout({"valid": 1, "slot": range(depth)})),
                "some": Out(request),
                "drop": In(1),
            }
        )

    @property
    def depth(self) -> int:
        return self._depth

    def elaborate(self, platform) -> Module:
        m = Module()
        entries = [Signal(16, name=f"entry{n}") for n in range(self._depth)]
        live, tagged, place, one, gone = (
            Signal(self._depth, name=name) for name in ("live", "tagged", "place", "one", "gone")
        )
        some, end = self.some, self.end
        m.d.comb += [
            self.room.eq(~live.all()),
            place.eq(~live & (live + 1)),
            tagged.eq(live & Cat(entry[4:] == end.tag for entry in entries)),
            one.eq(live & (~live + 1)),
            gone.eq(Mux(end.valid, tagged & (~tagged + 1), Mux(self.drop, one, 0))),
            self.slot.eq(position(m, place)),
            self.gone.valid.eq(gone.any()),
            self.gone.slot.eq(position(m, gone)),
            some.valid.eq(live.any()),
            Cat(some.operation, some.tag).eq(select(one, entries)),
        ]
        m.d.sync += live.eq((live & ~gone) | Mux(self.begin.valid, place, 0))
        for n, entry in enumerate(entries):
            with m.If(self.begin.valid & place[n]):
                m.d.sync += entry.eq(Cat(self.begin.operation, self.begin.tag))
        return m
