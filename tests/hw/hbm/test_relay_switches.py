"""Relay buffer with cut-through and early grants: sooner, and nothing else changes."""

import random
from itertools import accumulate

import pytest

from tests.hw.hbm.relay_bench import LONG, Chunk, Switches, checked, chunks, relayed

ONE = 65_536
USUAL = ONE * 25 // 32


def whole(count: int, pages: int = 32) -> list[Chunk]:
    """Chunks of whole pages that follow each other."""
    return [
        Chunk([[(n, k, j, 0, (n * pages + k) * 4 + j) for j in range(4)] for k in range(pages)], 0)
        for n in range(count)
    ]


def ends(work: list[Chunk]) -> list[int]:
    """Beats up to the end of each chunk."""
    return list(accumulate(chunk.beats for chunk in work))


@pytest.mark.parametrize("machine", [LONG, checked(LONG)], ids=["bare", "checked"])
@pytest.mark.parametrize(
    ("seed", "rate", "gap", "pause", "stall", "partial", "switches"),
    [
        (0, ONE, 0.0, 0.0, 0.0, 0.0, Switches(cut_through=1)),
        (1, USUAL, 0.2, 0.1, 0.2, 0.3, Switches(cut_through=1)),
        (2, ONE, 0.0, 0.0, 0.0, 1.0, Switches(early_pages=4)),
        (3, ONE, 0.0, 0.5, 0.0, 0.0, Switches(cut_through=1, early_pages=4)),
        (4, ONE, 0.1, 0.1, 0.3, 0.3, Switches(change=60)),
        (5, USUAL, 0.1, 0.0, 0.0, 1.0, Switches(change=25)),
    ],
)
def test_whatever_the_switches_pages_come_whole_and_in_order(
    seed, rate, gap, pause, stall, partial, switches, machine
):
    work = chunks(random.Random(seed), 5, partial=partial, most=32, full=0.5)
    run = relayed(
        work, seed=seed, rate=rate, gap=gap, pause=pause, stall=stall, switches=switches,
        machine=machine,
    )  # fmt: skip
    assert [beat for _, beat in run.came] == [beat for _, beat in run.sent], f"seed {seed}"
    assert len(run.credits) == len(work)  # one a chunk


def test_pages_of_one_beat_do_not_overtake_the_reader():
    """The fastest writer of slots, at the largest number of pages that may be left."""
    work = [Chunk([[(n, k, 0, 0, 32 * n + k)] for k in range(32)], False) for n in range(4)]
    for rate in (ONE, USUAL):
        run = relayed(work, seed=rate, rate=rate, switches=Switches(early_pages=4), machine=LONG)
        assert [beat for _, beat in run.came] == [beat for _, beat in run.sent], f"rate {rate}"


@pytest.mark.parametrize("late", [False, True])
def test_a_page_leaves_as_soon_as_it_is_whole(late):
    work = [*whole(1, 4), Chunk(whole(1, 8)[0].pages, late)]
    for delay in range(4):
        run = relayed(work, seed=delay, gap=0.3, switches=Switches(cut_through=1), machine=LONG)
        for first in range(0, len(run.sent), 4):
            # A clock until it is known, three to the link, at most three to a frame; and up to four
            # for a page before that has lost clocks to the writer.
            wait = run.came[first][0] - run.sent[first + 3][0]
            assert 4 <= wait <= 11, f"seed {delay}, beat {first}"


def test_a_chunk_that_closes_after_all_its_pages_left_gives_its_region_back():
    pages = whole(1, 3)[0].pages
    run = relayed(
        [Chunk(pages, True)] * 6, seed=1, gap=0.9, switches=Switches(cut_through=1), machine=LONG
    )
    assert len(run.credits) == 6 and not run.occupied[-1]
    after = [close for close, credit in zip(run.closed, run.credits, strict=True)
             if credit == close + 2]  # fmt: skip
    assert after  # some closed with nothing left to read


@pytest.mark.parametrize("early", [0, 1, 2, 4])
def test_a_region_is_given_back_while_that_many_pages_are_left(early):
    """Of 32 pages at full rate up to two may be left: 32 >= 8 (2 + 2)."""
    work = whole(4)
    run = relayed(work, seed=1, switches=Switches(early_pages=early), machine=LONG)
    assert [beat for _, beat in run.came] == [beat for _, beat in run.sent]
    left = min(early, 2)
    for chunk, end in enumerate(ends(work)[:-1]):
        # A page is taken three clocks before its first beat leaves, the grant is one clock later,
        # and the credit another. Pages behind an earlier tail may have lost clocks to its writer.
        taken = run.came[end - 4 * (left + 1)][0] - 3
        expected = taken + 2 if left else run.came[end - 1][0] - 1
        lost = 4 if left and chunk else 0
        assert expected - lost <= run.credits[chunk] <= expected, f"chunk {chunk}"
    assert max(run.reserved) == 4 * left


def test_early_grants_close_the_gap_of_a_credit_round_trip():
    """Beats of steady chunks follow each other at the rate; without early grants they do not."""
    periods = {}
    for early in (0, 2):
        work = whole(6)
        run = relayed(work, seed=1, switches=Switches(early_pages=early), machine=LONG)
        last = [run.came[end - 1][0] for end in ends(work)]
        periods[early] = (last[-2] - last[1]) / 3
    assert periods[2] == 128 < periods[0]


@pytest.mark.parametrize(("rate", "clocks"), [(USUAL, 4 * 32 / 25), (ONE, 4)])
def test_both_directions_stream_at_once_at_full_rate(rate, clocks):
    """Cut-through reads the region that is written; a writer at that rate never outruns it."""
    work = whole(6)
    run = relayed(
        work, seed=1, rate=rate, switches=Switches(cut_through=1, early_pages=2), machine=LONG
    )
    begin, end = 4 * 32 * 1, 4 * 32 * 5
    mean = (run.came[end][0] - run.came[begin][0]) / (end - begin)
    assert mean == pytest.approx(clocks / 4, rel=0.01)
