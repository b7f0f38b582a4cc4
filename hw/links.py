"""The links of a stack pair: which ports of which dies they join."""

from dataclasses import dataclass

from hw.params import Topology

GPU, HBM, HBF = "gpu", "hbm", "hbf"  # dies; the GPU I/O die has each port once a pair

PortNames = dict[str, tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class LinkPorts:
    """A link between two dies and its channels.

    Attributes:
        name: Of the link.
        near, far: The dies.
        path: The attribute of :class:`hw.params.Topology` with which the link is there.
        forward: Channels from near to far: ports of sender and receiver, by what they carry.
        backward: Channels from far to near, likewise.
        reset: The reset ports of near and far.
        chunked: A credit of ``data`` stands for a chunk of the relay buffer, not for a beat.
    """

    name: str
    near: str
    far: str
    path: str
    forward: PortNames
    backward: PortNames
    reset: tuple[str, str]
    chunked: bool = False


LINK_A = LinkPorts(
    name="link_a",
    near=GPU,
    far=HBF,
    path="direct",
    forward={
        "": ("direct_request", "a_request"),
        "write": ("direct_write", "a_write"),
        "in": ("direct_write_data", "a_write_data"),
    },
    backward={
        "data": ("a_data", "direct_data"),
        "reply": ("a_reply", "direct_reply"),
    },
    reset=("direct_reset", "a_reset"),
)
LINK_B = LinkPorts(
    name="link_b",
    near=GPU,
    far=HBM,
    path="relay",
    forward={"": ("relay_request", "b_request")},
    backward={
        "data": ("b_data", "relay_data"),
        "reply": ("b_reply", "relay_reply"),
    },
    reset=("relay_reset", "b_reset"),
)
LINK_C = LinkPorts(
    name="link_c",
    near=HBM,
    far=HBF,
    path="relay",
    forward={
        "": ("c_request", "c_request"),
        "write": ("c_write", "c_write"),
        "in": ("c_write_data", "c_write_data"),
    },
    backward={
        "data": ("c_data", "c_data"),
        "reply": ("c_reply", "c_reply"),
    },
    reset=("c_reset", "c_reset"),
    chunked=True,
)


def links_of(topology: Topology) -> tuple[LinkPorts, ...]:
    """The links that each pair of a topology has."""
    return tuple(link for link in (LINK_A, LINK_B, LINK_C) if getattr(topology, link.path))
