"""Runs of the small machine, built and played once."""

from functools import cache

from hw.params import Machine
from hw.presets import preset
from tb.measurements.runs import ONE_PAIR, read_run
from tb.play import design, play
from tb.read_result import ReadResult
from tb.simulator import build

MINI = preset("mini")
LINK = MINI.link.usable_bytes_per_s / 1e12


@cache
def played(machine: Machine, route: str, waves: int) -> ReadResult:
    return play(build(design(MINI, ONE_PAIR)), read_run(machine, route, waves, seed=1))
