"""Block caches against enumeration, against each other, and against an independent simulator.

With ``PAGEWAVE_TRACES``, a folder with the Mooncake conversation trace and result files of
kvcache-simulator, every published point of FIFO, LRU and optimum is compared.
"""

import json
import os
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.tiers import block_cache_hits
from perfmodel.workload import Blocks, Trace, block_hits, read_trace

FOLDER = os.environ.get("PAGEWAVE_TRACES")
TRACE = "mooncake_conversation_trace.jsonl.gz"
SIZE = 4


def trace_of(prompts):
    count = len(prompts)
    return Trace(
        source="by hand",
        session_ids=tuple(map(str, range(count))),
        first_turn=np.arange(count + 1),
        start_s=np.arange(count, dtype=float),
        gap_s=np.zeros(count),
        input_tokens=np.array([SIZE * len(prompt) - 1 for prompt in prompts]),
        prefix_tokens=np.zeros(count, np.int64),
        output_tokens=np.ones(count, np.int64),
        blocks=Blocks(
            block_tokens=SIZE,
            shared=np.zeros(count, np.int64),
            first_new=np.cumsum([0, *map(len, prompts)]),
            new_ids=np.array([block for prompt in prompts for block in prompt], np.int64),
        ),
    )


@st.composite
def prompt_lists(draw):
    """Prompts that are paths from the root of a tree, as those of hashed prefixes are."""
    prompts = []
    for branches in draw(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), max_size=7)):
        path, node = [], 1
        for branch in branches:
            node = 2 * node + branch
            path.append(node)
        prompts.append(path)
    return prompts or [[2]]


def hit_blocks(prompts, contents):
    """Leading blocks of each prompt that a cache holds, whose contents before it are given."""
    return sum(
        next((at for at, block in enumerate(prompt) if block not in held), len(prompt))
        for prompt, held in zip(prompts, contents, strict=True)
    )


def best(prompts, capacity):
    """Most blocks that any choice of what to keep can hit."""

    @cache
    def most(number, held):
        if number == len(prompts):
            return 0
        hits = hit_blocks([prompts[number]], [held])
        pool = sorted(held | set(prompts[number]))
        size = min(capacity, len(pool))
        return hits + max(most(number + 1, frozenset(kept)) for kept in combinations(pool, size))

    return most(0, frozenset())


def hits(trace, policy, capacity):
    return block_cache_hits(trace, policy=policy, capacity_blocks=capacity).hit_tokens


@settings(max_examples=80)
@given(prompts=prompt_lists(), capacity=st.integers(1, 6))
def test_the_optimum_is_that_of_enumeration_and_bounds_the_others(prompts, capacity):
    # One token less than whole blocks: a prompt that is hit whole loses it.
    trace = trace_of(prompts)
    optimum = hits(trace, "optimal", capacity)
    most = SIZE * best(prompts, capacity)
    assert most - len(prompts) <= optimum <= most
    assert max(hits(trace, "lru", capacity), hits(trace, "fifo", capacity)) <= optimum


@given(prompts=prompt_lists())
def test_a_cache_that_never_fills_hits_what_a_limitless_one_does(prompts):
    trace = trace_of(prompts)
    limitless = int(block_hits(trace).sum())
    assert {hits(trace, policy, 10**6) for policy in ("fifo", "lru", "optimal")} == {limitless}


def test_lru_keeps_fronts_and_fifo_what_came_last():
    trace = trace_of([[2, 4, 8], [2, 4, 8]])
    assert (hits(trace, "lru", 2), hits(trace, "fifo", 2)) == (8, 0)
    # FIFO does not touch: the front of the first prompt leaves although it was just used.
    trace = trace_of([[2], [3], [2], [4], [2]])
    assert (hits(trace, "lru", 2), hits(trace, "fifo", 2)) == (6, 3)


def test_the_warmup_is_not_counted():
    trace = trace_of([[2], [2], [2]])
    found = block_cache_hits(trace, policy="lru", capacity_blocks=1, warmup=2)
    assert (found.hit_tokens, found.input_tokens, found.rate) == (3, 3, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity_blocks": 0}, "capacity is 0 blocks"),
        ({"policy": "clock"}, "policy 'clock' is unknown"),
        ({"warmup": 1}, "warmup is 1: must be 0 to 0"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    arguments = {"policy": "lru", "capacity_blocks": 4} | changes
    with pytest.raises(InputError, match=message):
        block_cache_hits(trace_of([[2]]), **arguments)
    with pytest.raises(InputError, match="no block hashes"):
        block_cache_hits(trace_of([[2]]).without_blocks(), policy="lru", capacity_blocks=4)


@pytest.mark.slow
@pytest.mark.skipif(FOLDER is None, reason="PAGEWAVE_TRACES names no folder of traces")
def test_every_point_of_the_independent_simulator():
    folder = Path(FOLDER)
    trace = read_trace(folder / TRACE)
    files = sorted(folder.glob("ref_kvcachesim_mooncake_conv_*.json"))
    assert files
    known = {}
    for file in files:
        reference = json.loads(file.read_text())
        assert reference["metadata"]["blockSize"] == trace.blocks.block_tokens
        for point in reference["points"]:
            for policy in ("fifo", "lru", "optimal"):
                key = policy, point["cacheBlocks"], reference["metadata"]["warmupRequests"]
                known[key] = point["results"][policy]["hitTokens"]
    for (policy, capacity, warmup), expected in sorted(known.items()):
        found = block_cache_hits(trace, policy=policy, capacity_blocks=capacity, warmup=warmup)
        assert found.hit_tokens == expected, (policy, capacity)
    print(f"{len(known)} points of {len(files)} files equal")
