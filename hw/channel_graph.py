"""What waits for what over the links of a package: the channel dependency graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter

from hw.gpu.io_die import GpuIoDie
from hw.hbf.base_die import HbfBaseDie
from hw.hbm.base_die import HbmBaseDie
from hw.links import GPU, HBF, HBM, links_of
from hw.params import Topology

Waits = Mapping[str, tuple[str, ...]]

DIES: Mapping[str, type] = {GPU: GpuIoDie, HBM: HbmBaseDie, HBF: HbfBaseDie}
PARTS = {"": "request", "write": "write", "in": "write data", "data": "data", "reply": "reply"}


@dataclass(frozen=True, order=True)
class LinkChannel:
    """One direction of a port of a link, with credits of its own.

    Attributes:
        pair: Of stacks.
        link: Its letter.
        part: What it carries.
    """

    pair: int
    link: str
    part: str

    def __str__(self) -> str:
        return f"{self.link} {self.part}"


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Dies at the ends of a channel, and their ports."""

    sender: str
    sender_port: str
    receiver: str
    receiver_port: str


class ChannelGraph:
    """Channels of a topology, and for which others each may wait.

    A channel waits for another if its receiver may keep a credit until it can send on the other, or
    until something comes on the other. Which do is declared beside the ports of the dies, in their
    ``WAITS``; which ports a link joins is :data:`hw.links`, as the package joins them. Users and
    NAND always go on. Then no set of channels stands still for ever if the graph has no cycle: the
    first of :meth:`order` waits for no other, and each of the rest only for those before it.

    Args:
        topology: Its links and pairs.
        waits: By die, in place of what the dies declare.
    """

    def __init__(self, topology: Topology, waits: Mapping[str, Waits] | None = None) -> None:
        self._topology = topology
        self._declared = waits if waits is not None else declared()

    @property
    def topology(self) -> Topology:
        return self._topology

    @cached_property
    def channels(self) -> dict[LinkChannel, Ends]:
        found = {}
        for pair in range(self._topology.pairs):
            for link in links_of(self._topology):
                letter = link.name.removeprefix("link_").upper()
                for near, far, ports in (
                    (link.near, link.far, link.forward),
                    (link.far, link.near, link.backward),
                ):
                    for part, (out, into) in ports.items():
                        channel = LinkChannel(pair, letter, PARTS[part])
                        found[channel] = Ends(
                            sender=near, sender_port=out, receiver=far, receiver_port=into
                        )
        return found

    @cached_property
    def waits(self) -> dict[LinkChannel, tuple[LinkChannel, ...]]:
        """For each channel those for which it waits: within a pair, since dies declare no others.

        Raises:
            ValueError: a die does not declare a port that receives, or names one that is no port.
        """
        return {
            channel: tuple(
                other
                for other, at in self.channels.items()
                if other.pair == channel.pair
                and (
                    (at.sender == ends.receiver and at.sender_port in ports)
                    or (at.receiver == ends.receiver and at.receiver_port in ports)
                )
            )
            for channel, ends in self.channels.items()
            if (ports := self._ports(ends)) is not None
        }

    def _ports(self, ends: Ends) -> tuple[str, ...]:
        try:
            ports = self._declared[ends.receiver][ends.receiver_port]
        except KeyError:
            raise ValueError(
                f"the {ends.receiver} die does not declare what {ends.receiver_port} waits for"
            ) from None
        for port in ports:
            if port not in link_ports(ends.receiver):
                raise ValueError(f"{ends.receiver_port} of the {ends.receiver} die waits for "
                                 f"{port}, which is no port of a link")  # fmt: skip
        return ports

    def sends(self, channel: LinkChannel, other: LinkChannel) -> bool:
        """Whether the receiver of ``channel`` is the sender of ``other``, which it waits for."""
        return self.channels[other].sender == self.channels[channel].receiver

    def cycle(self) -> tuple[LinkChannel, ...] | None:
        """Channels of which each waits for the next and the last for the first, if there are."""
        try:
            self.order()
        except CycleError as error:
            # The last is the first again, and each comes before what waits for it.
            return tuple(reversed(error.args[1][1:]))
        return None

    def order(self) -> tuple[LinkChannel, ...]:
        """All channels, each behind those for which it waits.

        Raises:
            graphlib.CycleError: there is no such order.
        """
        return tuple(TopologicalSorter(self.waits).static_order())

    def ranks(self) -> dict[LinkChannel, int]:
        """How many channels wait for each other in a row behind each channel, at most."""
        ranks: dict[LinkChannel, int] = {}
        for channel in self.order():
            ranks[channel] = max((ranks[other] + 1 for other in self.waits[channel]), default=0)
        return ranks


def declared() -> dict[str, Waits]:
    """What the dies declare."""
    return {die: component.WAITS for die, component in DIES.items()}  # type: ignore[attr-defined]


@cache
def link_ports(die: str) -> dict[str, bool]:
    """Ports of a die that are joined by links of some topology: whether it sends there."""
    every = Topology(name="every link", pairs=1, direct=True, relay=True)
    found: dict[str, bool] = {}
    for link in links_of(every):
        for near, far, ports in (
            (link.near, link.far, link.forward),
            (link.far, link.near, link.backward),
        ):
            for out, into in ports.values():
                found |= {out: True} if near == die else {}
                found |= {into: False} if far == die else {}
    return found
