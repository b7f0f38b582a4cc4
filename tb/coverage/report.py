"""Sums coverage over runs: ``python -m tb.coverage.report RUN_DIRECTORY ...`` prints the table."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from tb.coverage.goals import goals
from tb.coverage.points import Coverage
from tb.simulator.tools import REPOSITORY

REPORTS = REPOSITORY / "build" / "coverage"
FILE = "coverage.json"  # in the directory of a run


def merge(directories: Iterable[str | Path], name: str, *, resets: bool = False) -> Coverage:
    """The sum over runs, which is also left in ``build/coverage``, as JSON and as a table.

    ``resets`` as the runs had them, see :func:`tb.coverage.goals.goals`.
    """
    coverage = goals(resets=resets)
    for directory in directories:
        coverage.add(json.loads((Path(directory) / FILE).read_text()))
    coverage.save(REPORTS / f"{name}.json")
    (REPORTS / f"{name}.txt").write_text(coverage.table() + "\n")
    return coverage


def main(directories: list[str]) -> None:
    print(merge(directories, "package").table())


if __name__ == "__main__":
    main(sys.argv[1:])
