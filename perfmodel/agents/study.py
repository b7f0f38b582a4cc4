"""Several architectures under several policies on one trace, resumable.

Each run is a cell; with a folder, a finished cell is a file there, named by a digest of all its
settings and of the trace, and is not run again.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from hw.errors import InputError
from perfmodel.agents.architecture import Architecture
from perfmodel.agents.endurance import Endurance
from perfmodel.agents.energy import Prices
from perfmodel.agents.run import Setup, serve_agents
from perfmodel.files import write_atomically
from perfmodel.scheduler import Admission, Order
from perfmodel.workload import Trace

Cell = dict[str, Any]
Progress = Callable[[int, int], None]
_VERSION = 1  # of cells: change it when equal settings give other values


@dataclass(frozen=True, kw_only=True)
class AgentStudy:
    """What is run.

    Attributes:
        base: Settings of all cells beside architecture and policy.
        architectures, policies: Each with each.
        prices, endurance: Of all cells.

    Raises:
        InputError: a list is empty, or has two of one name.
    """

    base: Setup
    architectures: tuple[Architecture, ...]
    policies: tuple[Admission, ...]
    prices: Prices = field(default_factory=Prices)
    endurance: Endurance = field(default_factory=Endurance)

    def __post_init__(self) -> None:
        for what, names in (
            ("architecture", [each.name for each in self.architectures]),
            ("policy", [each.label for each in self.policies]),
        ):
            if not names:
                raise InputError(f"{what}: there is none: give at least one")
            if len(set(names)) < len(names):
                raise InputError(f"{what} is {', '.join(names)}: one is there twice")

    @property
    def setups(self) -> list[Setup]:
        """One for each cell."""
        return [
            replace(self.base, architecture=architecture, admission=policy)
            for architecture, policy in product(self.architectures, self.policies)
        ]


def run_cells(
    trace: Trace,
    study: AgentStudy,
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> list[Cell]:
    """Values of every cell, architecture by architecture.

    Args:
        trace: The sessions.
        study: What to run.
        folder: Where finished cells are kept and looked for.
        progress: Is told turns done and all turns.

    Raises:
        InputError: a model does not fit, or a context is larger than a device.
    """
    setups = study.setups
    for setup in setups:
        setup.flash()  # refuses what does not fit before the first run
    mark, cells, total = _digest(trace), [], len(setups) * trace.turns
    for number, setup in enumerate(setups):
        path = None if folder is None else folder / "cells" / f"{_key(setup, study, mark)}.json"
        if path is not None and path.exists():
            cells.append(json.loads(path.read_text(encoding="utf-8")))
        else:
            report = None if progress is None else _offset(progress, number * trace.turns, total)
            outcome = serve_agents(trace, setup, report)
            cells.append(outcome.values(study.prices, study.endurance))
            if path is not None:
                write_atomically(path, json.dumps(cells[-1], indent=2) + "\n")
        if progress is not None:
            progress((number + 1) * trace.turns, total)
    return cells


def policies(
    headrooms: Sequence[float], names: Sequence[str], *, budget: int, max_running: int
) -> list[Admission]:
    """FCFS and cache-aware without headroom, and cache-aware with each headroom.

    Args:
        headrooms: Of ``buffered``.
        names: Any of ``fcfs``, ``cache-aware`` and ``buffered``.
        budget, max_running: Of all.

    Raises:
        InputError: a name is unknown, or a value out of range.
    """
    limits = Admission(headroom=0.0, budget=budget, max_running=max_running)
    found: list[Admission] = []
    for name in names:
        if name == "buffered":
            found += [replace(limits, headroom=headroom) for headroom in headrooms]
        elif name in list(Order):
            found.append(replace(limits, order=Order(name)))
        else:
            raise InputError(f"policy {name!r} is unknown: choose fcfs, cache-aware, buffered")
    return found


def _digest(trace: Trace) -> str:
    digest = hashlib.sha256()
    for array in (
        trace.first_turn,
        trace.start_s,
        trace.gap_s,
        trace.input_tokens,
        trace.prefix_tokens,
        trace.output_tokens,
    ):
        digest.update(array.tobytes())
    return digest.hexdigest()


def _key(setup: Setup, study: AgentStudy, mark: str) -> str:
    settings = asdict(setup), asdict(study.prices), asdict(study.endurance), mark, _VERSION
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _offset(progress: Progress, before: int, total: int) -> Callable[[int], None]:
    return lambda done: progress(before + done, total)
