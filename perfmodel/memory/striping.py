"""Where experts lie in a stack, and what that costs the sets of them that a router picks.

DASH (section V-A2) divides an expert over dies and planes; in every stack it then has consecutive
pages, or a few runs of them. An expert is rarely a whole number of page waves: one of Qwen3 takes
2.25 in each of two stacks, so a quarter of the subarrays give three pages and the rest two. Which
quarter that is for which expert is the policy. A set of experts is read as fast as its most asked
subarray senses, unless TSVs or links take longer.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from hw.address_map import AddressMap, Ints, Run
from hw.errors import InputError
from hw.params import Machine, Sensing
from perfmodel.models import ModelShape

Floats = npt.NDArray[np.float64]


def expert_pages(model: ModelShape, machine: Machine, stacks: int) -> int:
    """Pages of one routed expert in each of the stacks that it is striped over."""
    return -(-model.stored_bytes(model.expert) // (stacks * machine.geometry.page_bytes))


# Layouts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredExpert:
    """One expert in one stack.

    Attributes:
        body: Runs that are always read.
        tails: Copies of what is left over of whole waves; one of them is read. None where the
            body has everything.
    """

    body: tuple[Run, ...]
    tails: tuple[Run, ...] = ()

    def runs(self, copy: int = 0) -> tuple[Run, ...]:
        """What is read, with that copy of the tail."""
        return (*self.body, self.tails[copy]) if self.tails else self.body


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The experts of one layer in one stack.

    Attributes:
        policy: Name of the policy that made it.
        experts: Each expert, by number.
        rows: Rows of every subarray that they take, spaces and copies among them.
    """

    policy: str
    map: AddressMap
    experts: tuple[StoredExpert, ...]
    rows: int

    @property
    def stored_pages(self) -> int:
        """Pages without copies."""
        return sum(run.pages for expert in self.experts for run in expert.runs())

    @property
    def spare(self) -> float:
        """What the layout takes beyond the experts' own bytes, as a part of these."""
        taken = self.rows * self.map.geometry.wave_pages
        return taken / self.stored_pages - 1

    def loads(self) -> Ints:
        """Pages of each subarray, a line for each expert, with the first copy of its tail."""
        return np.stack([self.map.load(list(expert.runs())) for expert in self.experts])


def _packed(at: AddressMap, experts: int, pages: int) -> tuple[list[StoredExpert], int]:
    """Back to back."""
    return _spaced(experts, pages), _rows(at, experts * pages)


def _aligned(at: AddressMap, experts: int, pages: int) -> tuple[list[StoredExpert], int]:
    """All start at plane 0 of die 0, in a row of their own."""
    wave = at.geometry.wave_pages
    return _spaced(experts, _rows(at, pages) * wave, pages), experts * _rows(at, pages)


def _rotated(at: AddressMap, experts: int, pages: int) -> tuple[list[StoredExpert], int]:
    """Whole rows for each, starts turned by the golden ratio of a wave, in whole lines of dies."""
    g = at.geometry
    lines = g.subarrays_per_die
    step = round(lines * (5**0.5 - 1) / 2) | 1  # odd, so that all lines have their turn
    rows = _rows(at, pages) + 1
    starts = [k * rows * g.wave_pages + k * step % lines * g.dies for k in range(experts)]
    return [StoredExpert((Run(start, pages),)) for start in starts], experts * rows


def _shelved(at: AddressMap, experts: int, pages: int) -> tuple[list[StoredExpert], int]:
    """Whole waves from plane 0 on; what is left over packed into rows of its own."""
    waves, tail = divmod(pages, at.geometry.wave_pages)
    shelf = experts * waves * at.geometry.wave_pages
    stored = [
        StoredExpert(body, (Run(shelf + k * tail, tail),) if tail else ())
        for k, body in enumerate(_bodies(at, experts, waves))
    ]
    return stored, experts * waves + _rows(at, experts * tail)


def _two_choice(at: AddressMap, experts: int, pages: int) -> tuple[list[StoredExpert], int]:
    """As shelved, with a second copy of each tail in other subarrays; the reader takes either.

    Tails that share a row in the first copy lie in another order in the second, and each row turns
    them on by one place more, so that the pairs of places that two copies have are all alike.
    """
    wave = at.geometry.wave_pages
    waves, tail = divmod(pages, wave)
    if not tail:
        return _shelved(at, experts, pages)
    in_row = wave // tail
    rows = -(-experts // in_row)
    first = experts * waves * wave
    second = first + rows * wave

    def tails(k: int) -> tuple[Run, Run]:
        row, place = divmod(k, in_row)
        other = (place + 1 + row % (in_row - 1)) % in_row if in_row > 1 else 0
        # A tail alone in its row: the other copy ends where the row does.
        begin = other * tail if in_row > 1 else wave - tail
        return Run(first + row * wave + place * tail, tail), Run(second + row * wave + begin, tail)

    stored = [StoredExpert(body, tails(k)) for k, body in enumerate(_bodies(at, experts, waves))]
    return stored, experts * waves + 2 * rows


def _spaced(experts: int, stride: int, pages: int | None = None) -> list[StoredExpert]:
    return [StoredExpert((Run(k * stride, pages or stride),)) for k in range(experts)]


def _bodies(at: AddressMap, experts: int, waves: int) -> list[tuple[Run, ...]]:
    size = waves * at.geometry.wave_pages
    return [(Run(k * size, size),) if size else () for k in range(experts)]


def _rows(at: AddressMap, pages: int) -> int:
    return -(-pages // at.geometry.wave_pages)


POLICIES: dict[str, Callable[[AddressMap, int, int], tuple[list[StoredExpert], int]]] = {
    "packed": _packed,
    "aligned": _aligned,
    "rotated": _rotated,
    "shelved": _shelved,
    "two-choice": _two_choice,
}


def lay_out(policy: str, at: AddressMap, *, experts: int, pages: int, first_row: int = 0) -> Layout:
    """Place ``experts`` of ``pages`` each into a stack, from ``first_row`` on.

    Raises:
        InputError: no such policy, sizes that are not positive, or no room.
    """
    if policy not in POLICIES:
        raise InputError(f"policy {policy!r} is unknown: choose {', '.join(POLICIES)}")
    for name, value in (("experts", experts), ("pages", pages)):
        if value < 1:
            raise InputError(f"{name} is {value!r}: must be at least 1")
    stored, rows = POLICIES[policy](at, experts, pages)
    if not 0 <= first_row <= at.geometry.rows - rows:
        raise InputError(
            f"first_row is {first_row!r}: {experts} experts of {pages} pages take {rows} rows of "
            f"{at.geometry.rows} under policy {policy!r}"
        )
    offset = first_row * at.geometry.wave_pages

    def moved(runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(Run(first + offset, pages) for first, pages in runs)

    placed = tuple(StoredExpert(moved(e.body), moved(e.tails)) for e in stored)
    return Layout(policy=policy, map=at, experts=placed, rows=rows)


# Reading a set of experts -------------------------------------------------------------------------


def choose_copies(layout: Layout, picked: Sequence[int]) -> list[int]:
    """Which copy of its tail each picked expert reads, so that the most asked place has the least.

    Places are where tails begin in a wave. From the place with most tails, chains of tails that can
    change over are followed to a place with two fewer; when there is none the choice is the best.
    """
    wave = layout.map.geometry.wave_pages
    options = [[tail.first % wave for tail in layout.experts[k].tails] for k in picked]
    choice = [0] * len(picked)
    if not any(len(places) > 1 for places in options):
        return choice
    places = sorted({place for row in options for place in row})
    while True:
        users: dict[int, list[int]] = {place: [] for place in places}
        for k, row in enumerate(options):
            if row:
                users[row[choice[k]]].append(k)
        most = max(places, key=lambda place: len(users[place]))
        came: dict[int, tuple[int, int, int]] = {}  # place -> expert, copy, place before
        queue, goal = deque([most]), None
        while queue and goal is None:
            place = queue.popleft()
            for k in users[place]:
                for copy, other in enumerate(options[k]):
                    if other != most and other not in came:
                        came[other] = (k, copy, place)
                        queue.append(other)
                        if len(users[other]) <= len(users[most]) - 2:
                            goal = goal if goal is not None else other
        if goal is None:
            return choice
        while goal != most:
            k, copy, goal = came[goal]
            choice[k] = copy


def runs_of(layout: Layout, picked: Sequence[int]) -> list[tuple[Run, ...]]:
    """What to read for each picked expert, copies chosen."""
    copies = choose_copies(layout, picked)
    return [layout.experts[k].runs(copy) for k, copy in zip(picked, copies, strict=True)]


@dataclass(frozen=True)
class Reading:
    """A set of experts in an order of reading.

    Attributes:
        experts: Numbers of the experts.
        runs: What each of them reads.
        group: Of the experts of a path, how many read their whole waves one after the other and
            then their tails, which together make a whole wave.
    """

    experts: tuple[int, ...]
    runs: tuple[tuple[Run, ...], ...]
    group: int = 1


def as_given(layout: Layout, picked: Sequence[int]) -> Reading:
    """One expert after the other."""
    return Reading(tuple(picked), tuple(runs_of(layout, picked)))


def dealt(layout: Layout, picked: Sequence[int], paths: int) -> Reading:
    """Experts that take ``paths`` in turn, each path's in groups with tails in different places.

    A path walks its pages in order and no more than a wave ahead. What it asks for is even only if
    it is so within about a wave: tails alone between whole waves are not, tails that fill a wave
    are. An expert is then complete with its group.
    """
    wave = layout.map.geometry.wave_pages
    runs = dict(zip(picked, runs_of(layout, picked), strict=True))
    at: dict[int, list[int]] = {}
    for k in picked:
        at.setdefault(runs[k][-1].first % wave, []).append(k)
    by_place = [at[place] for place in sorted(at)]
    rounds = [[k for k in line if k is not None] for line in zip_longest(*by_place)]
    order = []
    for begin in range(0, len(rounds), paths):
        for line in zip_longest(*rounds[begin : begin + paths]):
            order += [k for k in line if k is not None]
    return Reading(tuple(order), tuple(runs[k] for k in order), len(by_place))


@dataclass(frozen=True, kw_only=True)
class ReadBound:
    """Least time of reading some pages of a stack, by what sets it; and of as many well spread.

    Attributes:
        sense_s: The most asked subarray, page after page.
        tsv_s: The lane of the most asked die.
        link_s: All pages over all paths.
        balanced_s: The time if every subarray had the same share.
    """

    sense_s: float
    tsv_s: float
    link_s: float
    balanced_s: float

    @property
    def seconds(self) -> float:
        return max(self.sense_s, self.tsv_s, self.link_s)

    @property
    def loss(self) -> float:
        """Part of the balanced rate that the imbalance costs."""
        return 1 - self.balanced_s / self.seconds


def read_bound(machine: Machine, load: Ints, paths: int) -> ReadBound:
    """Bound of reads that ask ``load`` pages of each subarray, pipelines full.

    Raises:
        InputError: sensing in lockstep, which whole waves bound and not subarrays.
    """
    if machine.nand.sensing is not Sensing.INDEPENDENT:
        raise InputError(
            f"sensing is {machine.nand.sensing.value!r}: the load bound holds for "
            f"{Sensing.INDEPENDENT.value!r} only"
        )
    g = machine.geometry
    t_page_s = g.page_bytes * g.dies / machine.tsv.bytes_per_s
    t_sense_s = machine.nand.t_read_ns * 1e-9 + (0.0 if machine.nand.cache_read else t_page_s)
    per_die = load.reshape(-1, g.dies).sum(axis=0)
    pages = int(load.sum())
    t_link_s = pages * g.page_bytes / (paths * machine.link.usable_bytes_per_s)
    return ReadBound(
        sense_s=int(load.max()) * t_sense_s,
        tsv_s=int(per_die.max()) * t_page_s,
        link_s=t_link_s,
        balanced_s=max(pages / g.wave_pages * t_sense_s, pages / g.dies * t_page_s, t_link_s),
    )


def random_sets(experts: int, count: int, sets: int, seed: int) -> Ints:
    """Sets of ``count`` different experts, all equally likely, one a line."""
    if not 1 <= count <= experts:
        raise InputError(f"count is {count!r}: must be 1 to {experts}, the experts there are")
    random = np.random.default_rng(seed)
    return random.permuted(np.tile(np.arange(experts), (sets, 1)), axis=1)[:, :count]


def losses(layout: Layout, machine: Machine, picks: Ints, paths: int) -> Floats:
    """Loss of each set of experts (a line of ``picks``), as :class:`ReadBound` has it."""
    at = layout.map
    if any(len(expert.tails) > 1 for expert in layout.experts):
        found = []
        for picked in picks.tolist():
            runs = [run for of_expert in runs_of(layout, picked) for run in of_expert]
            found.append(read_bound(machine, at.load(runs), paths).loss)
        return np.array(found)
    loads = layout.loads()
    return np.array([read_bound(machine, loads[p].sum(axis=0), paths).loss for p in picks])
