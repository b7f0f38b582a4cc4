"""Runs of an HBF base die whose links are reset in the middle of their traffic, in cocotb."""

import dataclasses
import json
from dataclasses import dataclass

from tb.channel_runs import hbf_build
from tb.simulator import run


@dataclass(frozen=True, kw_only=True)
class ResetRun:
    """One run.

    Attributes:
        resets: How often links are reset.
        links: Which, of ``a`` and ``c``.
    """

    resets: int = 30
    links: str = "ac"
    seed: int = 1


def play_resets(what: ResetRun) -> dict:
    """What passed in a run, by name; the bench itself fails at the first thing that is wrong."""
    result = run(
        hbf_build(),
        "tb.benches.resets",
        seed=what.seed,
        env={"PAGEWAVE_PLAN": json.dumps(dataclasses.asdict(what))},
    )
    return json.loads((result.directory / "report.json").read_text())
