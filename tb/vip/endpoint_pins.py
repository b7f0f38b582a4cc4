"""The endpoint at the pins of a design, with noise both ways and a monitor of the design."""

from random import Random
from typing import Any

from hw.ucie.link_end import Channel
from hw.ucie.link_shape import LinkShape
from tb.vip.agents import handles
from tb.vip.error_injector import ErrorInjector
from tb.vip.flit_model import Group
from tb.vip.link_monitor import LinkMonitor
from tb.vip.ucie_endpoint import UcieEndpoint


class FlitPins:
    """Ports of flits of a design: one that it drives, one that it reads."""

    def __init__(self, dut: Any, shape: LinkShape, *, tx: str = "tx", rx: str = "rx") -> None:
        self._bytes = shape.flit_format.flit_bytes
        places = range(shape.flits)
        self._tx = handles(dut, f"{tx}__flits", places)
        self._rx = handles(dut, f"{rx}__flits", places)
        self._tx_valid, self._rx_valid = (
            handles(dut, tx, ["valid"])[0],
            handles(dut, rx, ["valid"])[0],
        )
        self._valid = False
        self._rx_valid.value = 0
        for handle in self._rx:
            handle.value = 0

    def read(self) -> Group | None:
        """What the design drove at the last edge."""
        if not int(self._tx_valid.value):
            return None
        return tuple(int(handle.value).to_bytes(self._bytes, "little") for handle in self._tx)

    def write(self, group: Group | None) -> None:
        """What it reads at the next one."""
        if (group is not None) != self._valid:
            self._valid = group is not None
            self._rx_valid.value = int(self._valid)
        for handle, flit in zip(self._rx, group or (), strict=False):
            handle.value = int.from_bytes(flit, "little")


class EndpointPins:
    """An :class:`UcieEndpoint` that talks to a design; call ``clock`` just after each edge.

    ``sends`` and ``receives`` are those of the design. Everything that the design sends is checked
    by ``monitor`` before ``to_endpoint`` harms it.
    """

    def __init__(
        self,
        dut: Any,
        *,
        shape: LinkShape,
        sends: tuple[Channel, ...],
        receives: tuple[Channel, ...],
        random: Random,
        cycles: int = 1,
        pins: FlitPins | None = None,
    ) -> None:
        self.pins = FlitPins(dut, shape) if pins is None else pins
        self.endpoint = UcieEndpoint(shape=shape, sends=receives, receives=sends, random=random)
        self.monitor = LinkMonitor(shape=shape, sends=sends, receives=receives)
        self.to_design, self.to_endpoint = (
            ErrorInjector(
                flit_format=shape.flit_format, flits=shape.flits, random=random, cycles=cycles
            )
            for _ in range(2)
        )
        self.now = 0

    def clock(self) -> None:
        """Judge and take what the design sends, and send.

        Raises:
            RuleBroken: the design broke a rule of the link.
        """
        self.now += 1
        up = self.endpoint.active
        left = self.pins.read() if up else None
        self.monitor.left(self.now, left)
        sent = self.endpoint.clock(self.to_endpoint.passes(self.now, left))
        arrives = self.to_design.passes(self.now, sent)
        if not up:
            arrives = None
        self.monitor.delivered(self.now, arrives)
        self.pins.write(arrives)

    def down(self) -> None:
        """Nothing passes any more, either way, until :meth:`up`."""
        self.endpoint.active = False

    def up(self) -> None:
        """The link comes up after a reset, as the design does in this clock."""
        self.endpoint.clear()
        self.monitor.clear(self.now)
        self.endpoint.active = True

    @property
    def at_rest(self) -> bool:
        """Nothing is unacknowledged and all credits are home, on both sides."""
        return self.endpoint.at_rest and self.monitor.at_rest
