"""What comes out is what went in: the same things, once each, in the same order."""

from amaranth.hdl import Assert, Cover, Module, Signal, Value


def in_order(
    m: Module, *, pick, put, sent, take, received, limit: int, clear: Value | None = None
) -> Signal:
    """States that the k-th thing taken is the k-th thing put, and that ``limit`` is never exceeded.

    ``pick``, a free input, chooses any one thing to follow; since it may be each, all of them obey.
    With ``clear`` nothing is put, and all that is inside behind that clock is gone. Returns how
    many are inside.
    """
    inside, ahead = Signal(range(limit + 2)), Signal(range(limit + 2))
    following, value = Signal(), Signal.like(sent)
    m.d.sync += inside.eq(inside + put - take)
    m.d.comb += [
        Assert(inside <= limit, "never more than fit"),
        Assert(~take | (inside != 0), "nothing out of nothing"),
        Cover(inside == limit, "full"),
    ]
    with m.If(pick & put & ~following):
        m.d.sync += [following.eq(1), value.eq(sent), ahead.eq(inside - take)]
    with m.Elif(following & take):
        m.d.sync += ahead.eq(ahead - 1)
        with m.If(ahead == 0):
            m.d.sync += following.eq(0)
            m.d.comb += [
                Assert(received == value, "the thing followed comes in its turn"),
                Cover(value != 0, "a thing followed comes out"),
            ]
    if clear is not None:
        m.d.comb += Assert(~(clear & put), "nothing is put while all is forgotten")
        with m.If(clear):
            m.d.sync += [inside.eq(0), following.eq(0)]
    return inside
