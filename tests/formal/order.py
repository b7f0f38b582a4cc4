"""What comes out is what went in: the same things, once each, in the same order."""

from amaranth.hdl import Assert, Cover, Module, Signal


def in_order(m: Module, *, pick, put, sent, take, received, limit: int) -> Signal:
    """States that the k-th thing taken is the k-th thing put, and that ``limit`` is never exceeded.

    ``pick``, a free input, chooses any one thing to follow; since it may be each, all of them obey.
    Returns how many are inside.
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
    return inside
