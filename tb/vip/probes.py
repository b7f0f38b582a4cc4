"""Signals inside the HBF base dies that the package bench looks at, and their handles.

Outcomes are judged at the ports. These signals tell the order in which the base die took things
up, which ports do not show, and what functional coverage counts.
"""

from typing import Any

from hw.links import links_of
from hw.params import Machine, Topology
from hw.ucie.transaction import PATHS


def _of_die(links: int) -> dict[str, tuple[str, ...]]:
    """Names by scope below a die."""
    return {
        "": (
            "answer",
            "issued",
            "free_direct",
            "free_relay",
            "direct__valid",
            "relay__valid",
            "direct__payload",
            "relay__payload",
        ),
        "writes.": (
            *("op__valid", "op__ready", "op__payload", "reserve", "free", "left"),
            *("grant__valid", "grant__ready", "grant__payload"),
            *(f"arrived__{k}" for k in range(links)),
        ),
        "reads.": (
            *("port_free", "plane_free", "slot_free__0", "slot_free__1", "path_open"),
            *("blocked_on", "held", "covered", "waiting_direct", "waiting_relay"),
        ),
    }


def _of_stack(paths: list[str], *, writes: int) -> tuple[str, ...]:
    return (
        *("tracker.acceptance.accepted", "tracker.retired"),
        *(f"tracker.ranges__{n}" for n in range(writes)),
        *(f"regions.report__{k}" for k in range(3)),
        *(f"drain_{p}.{name}" for p in paths for name in ("label_en", "label_slot", "die_lines")),
    )


def probes(machine: Machine, topology: Topology) -> tuple[str, ...]:
    """All of them, as :class:`tb.simulator.Design` takes them."""
    links = topology.direct + topology.relay
    dies = range(machine.geometry.dies)
    paths = [name for name in PATHS if getattr(topology, name)]
    below = [
        *_of_stack(paths, writes=machine.credits.writes),
        *(f"tsv.filled__{d}" for d in dies),
        *(
            f"die{d}.{scope}{name}"
            for d in dies
            for scope, names in _of_die(links).items()
            for name in names
        ),
    ]
    pairs = range(topology.pairs)
    of_links = [
        f"{link.name}{pair}.{end}.die__lost"
        for pair in pairs
        for link in links_of(topology)
        for end in ("near", "far")
    ]
    return (
        "gpu.router.accepted",
        *(of_links if topology.flits else ()),
        *(f"hbf{pair}.{name}" for pair in pairs for name in below),
    )


class Probes:
    """Handles of the signals of one stack, looked up once."""

    def __init__(self, dut: Any, pair: int) -> None:
        self._scope = getattr(dut, f"hbf{pair}")

    def __call__(self, path: str) -> Any:
        """Handle of a signal below the base die."""
        at = self._scope
        for name in path.split("."):
            at = getattr(at, name)
        return at
