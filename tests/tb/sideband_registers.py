"""The register file of the HBF base die at the far end of a sideband."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.params import Machine
from hw.registers.description import Description
from hw.registers.hbf import hbf_description, hbf_resets
from hw.registers.register_file import RegisterFile
from hw.ucie.sideband_link import SidebandPair
from hw.ucie.sideband_requester import Access, Response


class SidebandRegisters(wiring.Component):
    """A pair of sideband ends and a register file, that of the base die unless another is given.

    Members
    -------
    access, tag, response : of the host
    """

    def __init__(
        self,
        *,
        machine: Machine | None = None,
        description: Description | None = None,
        resets: dict[str, int] | None = None,
        **pair,
    ) -> None:
        if machine is not None:
            description, resets = hbf_description(), hbf_resets(machine)
        assert description is not None
        self.pair = SidebandPair(**pair)
        self.file = RegisterFile(description, resets=resets)
        super().__init__(
            {
                "access": In(stream.Signature(Access)),
                "tag": Out(5),
                "response": Out(stream.Signature(Response)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pair, m.submodules.file = self.pair, self.file
        connect(m, self.pair.port, self.file.port)
        connect(m, flipped(self.access), self.pair.access)
        connect(m, self.pair.response, flipped(self.response))
        m.d.comb += self.tag.eq(self.pair.tag)
        return m
