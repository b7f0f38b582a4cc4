# amaranth: UnusedElaboratable=no
"""A whole UCIe link between two dies."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.link_end import Channel, check_channels
from hw.ucie.link_shape import LinkShape
from hw.ucie.transaction import ResetPort
from hw.ucie.ucie_end import UcieEnd
from hw.ucie.wires import ModuleWires

SIDEBAND_CLOCKS = 8  # of what the link states tell each other, each way


class UcieLink(wiring.Component):
    """Two ends, the wires of their modules and those of the sideband.

    Promise: what a die sends on a channel comes out at the other, once and in order, with the
    credits of its receiver going back. Nothing is lost while the link comes up after reset.
    Latency, throughput and back-pressure: as :class:`hw.ucie.ucie_end.UcieEnd`, and ``cycles`` of
    the wires each way.

    Members
    -------
    near_NAME, far_NAME : ports of the dies: of ``forward`` channels ``near_NAME`` is In and
        ``far_NAME`` Out, of ``backward`` ones the other way round
    near_reset, far_reset : Out(ResetPort)
    reset : In: asks for a link reset, here for the near end
    """

    def __init__(
        self,
        *,
        shape: LinkShape,
        cycles: int,
        forward: tuple[Channel, ...],
        backward: tuple[Channel, ...],
    ) -> None:
        check_channels("forward", forward, lanes=shape.lanes)
        check_channels("backward", backward, lanes=shape.lanes)
        both = {channel.name for channel in forward} & {channel.name for channel in backward}
        if both:
            raise ValueError(f"channels of both directions are called {', '.join(sorted(both))}")
        if not 1 <= cycles < shape.training_clocks:
            raise ValueError(
                f"cycles must be 1 to less than the training, {shape.training_clocks} clocks, not "
                f"{cycles!r}"
            )
        if shape.timeout_clocks < 2 * SIDEBAND_CLOCKS:
            raise ValueError(
                f"timeout_clocks must be at least {2 * SIDEBAND_CLOCKS}, the sideband there and "
                f"back, not {shape.timeout_clocks!r}"
            )
        self._shape, self._cycles = shape, cycles
        self._forward, self._backward = forward, backward
        super().__init__(
            {
                **{f"near_{channel.name}": In(channel.port()) for channel in forward},
                **{f"far_{channel.name}": Out(channel.port()) for channel in forward},
                **{f"far_{channel.name}": In(channel.port()) for channel in backward},
                **{f"near_{channel.name}": Out(channel.port()) for channel in backward},
                "near_reset": Out(ResetPort()),
                "far_reset": Out(ResetPort()),
                "reset": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = self._shape
        near = UcieEnd(shape=shape, sends=self._forward, receives=self._backward)
        far = UcieEnd(shape=shape, sends=self._backward, receives=self._forward)
        m.submodules.near, m.submodules.far = near, far
        wiring.connect(m, near.die, wiring.flipped(self.near_reset))
        wiring.connect(m, far.die, wiring.flipped(self.far_reset))
        m.d.comb += near.reset.eq(self.reset)
        for side, end, sends, receives in (
            ("near", near, self._forward, self._backward),
            ("far", far, self._backward, self._forward),
        ):
            for channel in sends:
                port = getattr(self, f"{side}_{channel.name}")
                wiring.connect(m, wiring.flipped(port), getattr(end, f"tx_{channel.name}"))
            for channel in receives:
                port = getattr(self, f"{side}_{channel.name}")
                wiring.connect(m, getattr(end, f"rx_{channel.name}"), wiring.flipped(port))
        for name, end, other in (("forward", near, far), ("backward", far, near)):
            wires = ModuleWires(
                modules=shape.modules,
                word_bytes=shape.group_bytes // shape.modules,
                cycles=self._cycles,
            )
            m.submodules[f"wires_{name}"] = wires
            for k in range(shape.modules):
                wiring.connect(m, end.tx[k], wires.i[k])
                wiring.connect(m, wires.o[k], other.rx[k])
            told = end.peer_o
            for stage in range(SIDEBAND_CLOCKS):
                later = Signal.like(end.peer_o, name=f"told_{name}_{stage}")
                m.d.sync += later.eq(told)
                told = later
            m.d.comb += other.peer_i.eq(told)
        return m
