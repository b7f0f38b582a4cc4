"""Two users of one HBM controller: the GPU, and writeback to the HBF."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin
from hw.hbm.dram.beats import TAG_BITS, LaneStream, request_layout
from hw.hbm.dram.description import HbmStack
from hw.weighted import WEIGHT_BITS, WeightedPair


class ControllerShare(wiring.Component):
    """Joins the requests of both users and parts the beats of their reads.

    Promise: requests leave in the order in which they are taken, those of a port in its own. While
    both users ask, each gets its ``weight`` of the requests (:class:`hw.weighted.WeightedPair`);
    reads and writes of the GPU take turns at its share. Tags have 11 bits at the users: the top bit
    of that of the controller names the user, so that every beat finds its own.

    Latency: a request 1 clock, beats none. Throughput: one request and one beat a clock.
    Back-pressure: a request that was taken waits for the controller, and all behind it wait, too.
    Beats come in the order of requests, so a user that stalls its beats stalls those of the other
    behind them: writeback always takes its own.

    Members
    -------
    read, write : In(stream): of the GPU; page : In(stream): reads of writeback
    weight : In, one a user: of the GPU, of writeback
    request : Out(stream); beats : In(LaneStream): the controller
    local_beats, page_beats : Out(LaneStream): of ``read``, of ``page``
    """

    def __init__(self, stack: HbmStack) -> None:
        self._stack = stack
        request, beats = stream.Signature(request_layout(stack)), LaneStream(stack, labelled=True)
        super().__init__(
            {
                "read": In(request),
                "write": In(request),
                "page": In(request),
                "weight": In(WEIGHT_BITS).array(2),
                "request": Out(request),
                "beats": In(beats),
                "local_beats": Out(beats),
                "page_beats": Out(beats),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.users = users = WeightedPair()
        m.submodules.kinds = kinds = RoundRobin(width=2)
        lines = (  # port, its turn, its user
            (self.read, users.grant[0] & kinds.grant[0], 0),
            (self.write, users.grant[0] & kinds.grant[1], 0),
            (self.page, users.grant[1], 1),
        )
        room = ~self.request.valid | self.request.ready
        m.d.comb += [
            kinds.request.eq(Cat(self.read.valid, self.write.valid)),
            kinds.take.eq(room & users.grant[0]),
            users.request.eq(Cat(kinds.request.any(), self.page.valid)),
            users.take.eq(room),
            *(users.weight[k].eq(self.weight[k]) for k in range(2)),
        ]
        with m.If(room):
            m.d.sync += self.request.valid.eq(users.grant.any())
        for port, granted, user in lines:
            tag = Cat(port.payload.tag[: TAG_BITS - 1], Const(user, 1))
            m.d.comb += port.ready.eq(room & granted)
            with m.If(port.ready):
                m.d.sync += [
                    self.request.payload.eq(port.payload),
                    self.request.payload.tag.eq(tag),
                ]

        # Beats ------------------------------------------------------------------------------------
        beats, label = self.beats, self.beats.label
        of_page = label.tag[-1]
        m.d.comb += beats.ready.eq(Mux(of_page, self.page_beats.ready, self.local_beats.ready))
        for out, mine in ((self.local_beats, ~of_page), (self.page_beats, of_page)):
            m.d.comb += [
                out.valid.eq(beats.valid & mine),
                out.label.eq(label),
                out.label.tag.eq(label.tag[: TAG_BITS - 1]),
                *(lane.eq(own) for lane, own in zip(out.lanes, beats.lanes, strict=True)),
            ]
        return m
