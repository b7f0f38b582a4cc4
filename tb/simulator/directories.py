"""Where runs work that are given no directory: one of that name for each run at a time."""

import itertools
import os
import re
import threading
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from tb.simulator.builds import Build
from tb.simulator.tools import REPOSITORY

RUNS = REPOSITORY / "build" / "runs"


class _Seat(threading.local):
    """The number of this thread among all threads of all processes that run at the moment.

    A thread holds the lock of its number as long as it lives, so that what a run left can be read
    after it. A process that forks gives its number to no child.
    """

    def __init__(self) -> None:
        self._process, self._number = 0, 0
        self._lock: BaseFileLock | None = None

    def number(self, runs: Path) -> int:
        if self._process != os.getpid():
            runs.mkdir(parents=True, exist_ok=True)
            for number in itertools.count():
                lock = FileLock(runs / f".seat-{number}.lock", timeout=0)
                try:
                    lock.acquire()
                except Timeout:
                    continue
                self._process, self._lock, self._number = os.getpid(), lock, number
                break
        return self._number


_seat = _Seat()


def default_directory(build: Build, module: str, test: str | None, seed: int) -> Path:
    """The directory of a run, named after it; no other thread or process uses it meanwhile.

    The first at work has the plain name, others that work beside it have their number behind it.
    """
    name = f"{module}.{test or 'all'}-{build.design.name}-{build.simulator}-{seed}"
    # Several runs of one bench differ only in `env`; pytest's test tells them apart, with its file,
    # since tests of two files may run at once.
    pytest_test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    name = re.sub(r"[^\w.-]+", "-", f"{name}-{pytest_test}").strip("-")
    number = _seat.number(RUNS)
    return RUNS / (f"{name}-beside-{number}" if number else name)
