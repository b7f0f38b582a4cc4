"""Experiments on the RTL at full size: one module each, and what they share.

An experiment plays read runs, sets each figure beside its closed form and reports as JSON and as
tables; :data:`EXPERIMENTS` has them by name.
"""

from collections.abc import Callable

from hw.params import Machine
from tb.measurements import experts, first_byte, goodput, hbm, peers, programs, rates, relay
from tb.measurements.report import Measurement, find_pages, renew_page
from tb.measurements.runs import Progress

Experiment = Callable[[Machine, int, Progress], Measurement]


def _peers(machine: Machine, seed: int, progress: Progress) -> Measurement:
    """Peers bring machines of their own."""
    return peers.measure(seed, progress)


# Each takes a machine, a seed of the addresses and a function for lines of progress.
EXPERIMENTS: dict[str, Experiment] = {
    "rates": rates.measure,
    "first-byte": first_byte.measure,
    "relay": relay.measure,
    "peers": _peers,
    "programs": programs.measure,
    "experts": experts.measure,
    "goodput": goodput.measure,
    "hbm": hbm.measure,
}

__all__ = ["EXPERIMENTS", "Experiment", "Measurement", "Progress", "find_pages", "renew_page"]
