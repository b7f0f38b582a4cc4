"""Parts the beats that link B brings: relayed data, and data of the HBM stack."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.transaction import BeatStream, MessageClass


class BeatSplit(wiring.Component):
    """Gives READ_DATA to ``local`` and all else to ``relay``.

    Promise: each beat goes to one of them, in order, in the clock in which it comes. Both share the
    receive queue before it and hence its credits, so that neither needs a buffer of its own.
    Back-pressure: a beat waits for its consumer and holds up those behind it, also of the other
    kind: a consumer that stalls stalls the link.

    Members
    -------
    i : In(BeatStream)
    relay, local : Out(BeatStream)
    """

    def __init__(self, *, lanes: int) -> None:
        self._lanes = lanes
        super().__init__(
            {
                "i": In(BeatStream(lanes)),
                "relay": Out(BeatStream(lanes)),
                "local": Out(BeatStream(lanes)),
            }
        )

    @property
    def lanes(self) -> int:
        return self._lanes

    def elaborate(self, platform) -> Module:
        m = Module()
        local = Signal()
        m.d.comb += [
            local.eq(self.i.header.message_class == MessageClass.READ_DATA),
            self.relay.valid.eq(self.i.valid & ~local),
            self.local.valid.eq(self.i.valid & local),
            self.i.ready.eq(Mux(local, self.local.ready, self.relay.ready)),
        ]
        for out in (self.relay, self.local):
            m.d.comb += out.header.eq(self.i.header)
            m.d.comb += [out.lanes[k].eq(self.i.lanes[k]) for k in range(self._lanes)]
        return m
