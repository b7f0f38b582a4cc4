"""Relay buffer: stores whole chunks, forwards them in order, frees a region after its last beat."""

import random
from itertools import accumulate

import pytest

from tests.hw.hbm.relay_bench import Chunk, chunks, relayed


def sizes(work: list[Chunk]) -> list[int]:
    """Beats up to the end of each chunk."""
    return list(accumulate(chunk.beats for chunk in work))


@pytest.mark.parametrize(
    ("seed", "rate", "gap", "stall", "partial"),
    [
        (0, 65_536, 0.0, 0.0, 0.0),  # both links at full rate
        (1, 65_536, 0.0, 0.9, 0.3),  # the GPU side is what is waited for
        (2, 65_536, 0.95, 0.2, 0.0),  # the HBF side is what is waited for
        (3, 51_200, 0.3, 0.3, 1.0),
        (4, 20_000, 0.0, 0.0, 0.5),
    ],
)
def test_chunks_are_stored_and_forwarded_whole_and_in_order(seed, rate, gap, stall, partial):
    work = chunks(random.Random(seed), 25, partial=partial)
    run = relayed(work, seed=seed, rate=rate, gap=gap, stall=stall)
    assert [beat for _, beat in run.came] == [beat for _, beat in run.sent], f"seed {seed}"
    begins = 0
    for chunk, (closed, end) in enumerate(zip(run.closed, sizes(work), strict=True)):
        first, last = run.came[begins][0], run.came[end - 1][0]
        assert first > closed, f"chunk {chunk} left before it was whole, seed {seed}"
        # The region is free again only after its last read, which the beat follows by two clocks.
        assert run.credits[chunk] >= last - 1, f"chunk {chunk}, seed {seed}"
        begins = end


def test_no_region_is_written_before_it_was_emptied():
    """Seen from outside: of the third chunk nothing is sent before the first one's credit."""
    work = chunks(random.Random(7), 25)
    run = relayed(work, seed=7, stall=0.8)
    for chunk, end in enumerate(sizes(work)[1:-1], 2):
        opened = run.sent[end][0]
        assert opened >= run.credits[chunk - 2], f"chunk {chunk}"
        # The buffer knows itself occupied meanwhile, by two chunks at most.
        assert run.occupied[opened + 1].bit_count() >= 1


def test_a_beat_waits_for_its_chunk_and_then_little():
    pages = [[(k, 0, j, 0, 4 * k + j) for j in range(4)] for k in range(3)]
    for delay in range(4):  # all positions relative to the frame
        shift = [Chunk([[(9, 9, j, 0, 99) for j in range(4)]], False)] if delay else []
        run = relayed([*shift, Chunk(pages, False)], seed=delay, gap=0.25 * bool(delay))
        first = run.came[4 * len(shift)][0]
        # Three clocks from the choice of a frame, and at most four to that.
        assert 3 < first - run.closed[-1] <= 8


@pytest.mark.parametrize(("rate", "turn"), [(65_536, 4), (51_200, 0)])
def test_full_chunks_keep_the_link_at_its_rate(rate, turn):
    """With time to spare, receiving hides behind forwarding; at full rate a credit's turn shows."""
    work = [chunk for chunk in chunks(random.Random(1), 200) if len(chunk.pages) == 4][:30]
    run = relayed(work, seed=1, rate=rate)
    ends = [run.came[end - 1][0] for end in sizes(work)]
    ideal = 16 * 65_536 / rate * 27
    assert ideal - 4 <= ends[-2] - ends[1] <= ideal + 27 * turn + 4


def test_a_full_gpu_side_stops_forwarding_but_not_receiving():
    work = chunks(random.Random(3), 4)
    run = relayed(work, seed=3, stall=0.97)
    # Two chunks are in before the first beat's credit can have come back.
    second = sizes(work)[1]
    assert run.sent[second - 1][0] - run.sent[0][0] == second - 1 + work[0].late
    assert run.came[8][0] > run.sent[second - 1][0]
