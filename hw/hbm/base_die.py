"""The HBM base die: forwards relay requests to the HBF die and relayed data to the GPU."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay import RelayBuffer
from hw.params import Machine
from hw.ucie.credit import RequestReceiver, RequestSender
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import DataPort, RequestPort


class HbmBaseDie(wiring.Component):
    """Relay router of one HBM stack.

    Promise: requests that come over link B leave over link C in order; data that comes over link C
    leaves over link B as :class:`hw.hbm.relay.RelayBuffer` says. Requests take 3 clocks.

    Members
    -------
    b_request, b_data : link B, to the GPU
    c_request, c_data : link C, to the HBF base die
    link_rate : beats a clock on link B, in 1/65536
    relay_occupied : one bit a relay region
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "link_rate": In(RATE_BITS + 1),
                "b_request": In(RequestPort()),
                "b_data": Out(DataPort(machine.lanes)),
                "c_request": Out(RequestPort()),
                "c_data": In(DataPort(machine.lanes)),
                "relay_occupied": Out(2),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = self._machine.credits.descriptors
        m.submodules.receiver = receiver = RequestReceiver(credits=depth)
        m.submodules.sender = sender = RequestSender(credits=depth)
        m.submodules.relay = relay = RelayBuffer(self._machine)
        wiring.connect(m, wiring.flipped(self.b_request), receiver.port)
        wiring.connect(m, receiver.o, sender.i)
        wiring.connect(m, sender.port, wiring.flipped(self.c_request))
        wiring.connect(m, wiring.flipped(self.c_data), relay.c_data)
        wiring.connect(m, relay.b_data, wiring.flipped(self.b_data))
        m.d.comb += [
            relay.rate.eq(self.link_rate),
            self.relay_occupied.eq(relay.occupied),
        ]
        return m
