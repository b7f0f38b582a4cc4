"""The terminal: results to stdout, everything else to stderr."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# Where no terminal says how wide it is, tables get room enough.
_WIDTH = None if sys.stdout.isatty() else 120
out = Console(width=_WIDTH)
err = Console(stderr=True)

# Seconds between two lines of progress where no bar can be drawn.
_LINE_PERIOD_S = 10.0


def print_json(value: object) -> None:
    """Write ``value`` to stdout as one JSON object, the only thing a verb writes there.

    Raises:
        ValueError: it holds an infinity or a NaN, which JSON has no word for.
    """
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far long work is; yields a function that takes the number of steps done.

    A terminal gets a bar on stderr that disappears at the end, anything else a plain line now and
    then.

    Args:
        what: What the steps are, in the plural: "requests".
        total: Number of steps.
    """
    if not err.is_terminal:
        yield _Lines(what, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


class _Lines:
    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._next_s = time.monotonic() + _LINE_PERIOD_S

    def __call__(self, done: int) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _LINE_PERIOD_S
            err.print(f"{self._what}: {done} of {self._total}")
