"""Which path a read takes whose path is left to the router."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

OUTSTANDING_BITS = 24


class PathPolicy(wiring.Component):
    """What a policy sees, and its choice of one of two paths.

    Contract of every policy: ``path`` is combinational, says nothing of whether the path has room,
    and is a path that is not lost unless both are. Paths are numbered as in
    :class:`hw.ucie.transaction.Route`; both exist. A read waits for the path that is chosen, and is
    chosen for anew in each clock in which it waits.

    Members
    -------
    outstanding : In, one a path: pages that were asked for and have not come
    lost : In(2): a link of the path is being reset
    last : In: the path of the last read that the policy chose for
    path : Out
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "outstanding": In(OUTSTANDING_BITS).array(2),
                "lost": In(2),
                "last": In(1),
                "path": Out(1),
            }
        )


class LeastOutstanding(PathPolicy):
    """The path with fewer pages, hence bytes, outstanding; Direct on a tie.

    Source: DASH section V-B, a path with buffer space.
    """

    def elaborate(self, platform) -> Module:
        m = Module()
        direct, relay = self.outstanding
        m.d.comb += self.path.eq(self.lost[0] | ((relay < direct) & ~self.lost[1]))
        return m


class Alternate(PathPolicy):
    """The path that the last read did not take, whatever is outstanding."""

    def elaborate(self, platform) -> Module:
        m = Module()
        other = ~self.last
        m.d.comb += self.path.eq(other ^ self.lost.bit_select(other, 1))
        return m
