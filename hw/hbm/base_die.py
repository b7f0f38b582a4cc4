"""The HBM base die: relays reads of the HBF to the GPU and writes HBM data back to the HBF."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay import RelayBuffer
from hw.params import Machine
from hw.ucie.credit import RequestReceiver, RequestSender
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import DataPort, RequestPort
from hw.ucie.write_sender import (
    WriteSender,
    done_layout,
    fetch_layout,
    write_request_layout,
)


class HbmBaseDie(wiring.Component):
    """Relay router of one HBM stack.

    Promise: requests that come over link B leave over link C in order; data that comes over link C
    leaves over link B as :class:`hw.hbm.relay.RelayBuffer` says. Requests take 3 clocks. Writes of
    HBM data to the HBF stack leave over link C as :class:`hw.ucie.write_sender.WriteSender` says.

    Members
    -------
    b_request, b_data : link B, to the GPU
    c_request, c_data : link C, to the HBF base die
    c_write, c_write_data, c_reply : writes over link C
    writeback, fetch, fetch_lanes, write_done : requests and data of those writes
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
                "c_write": Out(RequestPort()),
                "c_write_data": Out(DataPort(machine.lanes)),
                "c_reply": In(RequestPort()),
                "writeback": In(stream.Signature(write_request_layout(machine))),
                "fetch": Out(fetch_layout()),
                "fetch_lanes": In(64).array(machine.lanes),
                "write_done": Out(done_layout()),
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
        m.submodules.writer = writer = WriteSender(self._machine)
        wiring.connect(m, wiring.flipped(self.writeback), writer.i)
        wiring.connect(m, writer.request, wiring.flipped(self.c_write))
        wiring.connect(m, writer.data, wiring.flipped(self.c_write_data))
        wiring.connect(m, wiring.flipped(self.c_reply), writer.reply)
        m.d.comb += [
            writer.rate.eq(self.link_rate),
            self.fetch.eq(writer.fetch),
            self.write_done.eq(writer.done),
            *(lane.eq(own) for lane, own in zip(writer.fetch_lanes, self.fetch_lanes, strict=True)),
            relay.rate.eq(self.link_rate),
            self.relay_occupied.eq(relay.occupied),
        ]
        return m
