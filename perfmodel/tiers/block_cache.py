"""Caches of block hashes with a capacity: what FIFO, LRU and the optimum hit on a trace.

Requests come one after the other. A request hits its leading blocks that are in the cache when it
comes; then it uses all of its blocks. Under LRU it touches and inserts them last block first, so
that of one prompt the front, which more prompts share, leaves last; under FIFO they are inserted
front first and a hit moves nothing. These are the rules of kvcache-simulator 0.1.3.

The optimum is Belady's: of all blocks in the cache and that of the request, the one whose next use
is furthest away is left out. It does not know that hits have to be a prefix, but a block is never
used later than the blocks before it in its prompt.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hw.errors import InputError, named
from perfmodel.workload.trace import Trace

_NEVER = 2**62


@dataclass(frozen=True, kw_only=True)
class BlockCacheHits:
    """Input tokens hit, of those of the requests behind the warm-up."""

    hit_tokens: int
    input_tokens: int

    @property
    def rate(self) -> float:
        return self.hit_tokens / self.input_tokens


def block_cache_hits(
    trace: Trace, *, policy: str, capacity_blocks: int, warmup: int = 0
) -> BlockCacheHits:
    """What a cache hits on the turns of a trace, in its order.

    Args:
        trace: A trace with block hashes.
        policy: ``fifo``, ``lru`` or ``optimal``.
        capacity_blocks: Blocks that fit.
        warmup: First turns, which fill the cache and are not counted.

    Raises:
        InputError: no block hashes, an unknown policy, or a number out of range.
    """
    if trace.blocks is None:
        raise InputError(f"{trace.source}: the trace has no block hashes")
    if capacity_blocks < 1:
        raise InputError(f"capacity is {capacity_blocks} blocks: must be at least 1")
    if not 0 <= warmup < trace.turns:
        raise InputError(f"warmup is {warmup}: must be 0 to {trace.turns - 1}")
    hits = named("policy", policy, _POLICIES)(trace, capacity_blocks)
    size, inputs = trace.blocks.block_tokens, trace.input_tokens.tolist()
    tokens = [min(blocks * size, most) for blocks, most in zip(hits, inputs, strict=True)]
    return BlockCacheHits(hit_tokens=sum(tokens[warmup:]), input_tokens=sum(inputs[warmup:]))


def _prompts(trace: Trace) -> Iterator[list[int]]:
    """Block ids of every turn."""
    blocks = trace.blocks
    assert blocks is not None
    before: list[int] = []
    for turn, shared in enumerate(blocks.shared.tolist()):
        own = blocks.new_ids[blocks.first_new[turn] : blocks.first_new[turn + 1]].tolist()
        before = before[:shared] + own
        yield before


def _leading(prompt: list[int], cache: OrderedDict[int, None] | dict[int, int]) -> int:
    return next((at for at, block in enumerate(prompt) if block not in cache), len(prompt))


def _lru(trace: Trace, capacity: int) -> Iterator[int]:
    cache: OrderedDict[int, None] = OrderedDict()
    for prompt in _prompts(trace):
        yield _leading(prompt, cache)
        for block in reversed(prompt):
            if block in cache:
                cache.move_to_end(block)
                continue
            if len(cache) >= capacity:
                cache.popitem(last=False)
            cache[block] = None


def _fifo(trace: Trace, capacity: int) -> Iterator[int]:
    cache: OrderedDict[int, None] = OrderedDict()
    for prompt in _prompts(trace):
        yield _leading(prompt, cache)
        for block in prompt:
            if block in cache:
                continue
            if len(cache) >= capacity:
                cache.popitem(last=False)
            cache[block] = None


def _optimal(trace: Trace, capacity: int) -> Iterator[int]:
    prompts = list(_prompts(trace))
    next_use: list[list[int]] = [[]] * len(prompts)
    seen: dict[int, int] = {}
    for number in range(len(prompts) - 1, -1, -1):
        # At equal times the later block of the prompt goes first: it is of use only behind it.
        next_use[number] = [seen.get(block, _NEVER) for block in prompts[number]]
        seen.update((block, number) for block in prompts[number])
    cache: dict[int, int] = {}
    furthest: list[tuple[int, int, int]] = []
    for prompt, uses in zip(prompts, next_use, strict=True):
        yield _leading(prompt, cache)
        for at, (block, use) in enumerate(zip(prompt, uses, strict=True)):
            cache[block] = use
            heapq.heappush(furthest, (-use, -at, block))
        while len(cache) > capacity:
            use, _, block = heapq.heappop(furthest)
            if cache.get(block) == -use:
                del cache[block]


_POLICIES: dict[str, Callable[[Trace, int], Iterator[int]]] = {
    "fifo": _fifo,
    "lru": _lru,
    "optimal": _optimal,
}
