"""Blocks with garbage collection against a model that follows every token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.errors import InputError
from perfmodel.tiers import FlashLog

CAPACITY = 40


class Tokens:
    """Every token by itself: who has it, in order of programming, and in which block it is."""

    def __init__(self, blocks, size):
        self.size = size
        self.blocks = [[] for _ in range(blocks)]  # of (session, serial), None when dead
        self.free, self.open = list(range(1, blocks)), 0
        self.erases = [0] * blocks
        self.serial = self.relocated = 0

    def live(self, block):
        return sum(token is not None for token in self.blocks[block])

    def append(self, session):
        if len(self.blocks[self.open]) == self.size:
            self.open = self.free.pop(0)
        self.serial += 1
        self.blocks[self.open].append((session, self.serial))

    def write(self, session, tokens):
        for _ in range(tokens):
            if len(self.blocks[self.open]) == self.size:
                while len(self.free) < 2:
                    self.collect()
            self.append(session)

    def collect(self):
        closed = [b for b in range(len(self.blocks)) if b != self.open and b not in self.free]
        victim = min(closed, key=lambda b: (self.live(b), self.erases[b], 0))
        moving = [token for token in self.blocks[victim] if token is not None]
        order = list(dict.fromkeys(session for session, _ in moving))
        self.blocks[victim] = []
        for session in order:
            for owner, _ in moving:
                if owner == session:
                    self.append(session)
                    self.relocated += 1
        self.erases[victim] += 1
        self.free.append(victim)


@st.composite
def histories(draw):
    """Writes within the capacity, and trims of what is there."""
    held, history = {}, []
    for _ in range(draw(st.integers(1, 60))):
        session = draw(st.integers(0, 3))
        space = CAPACITY - sum(held.values())
        if draw(st.booleans()) and space:
            tokens = draw(st.integers(1, space))
            held[session] = held.get(session, 0) + tokens
            history.append((session, tokens))
        elif held.get(session):
            tokens = draw(st.integers(1, held[session]))
            held[session] -= tokens
            history.append((session, -tokens))
    return history, held


@given(history=histories(), size=st.sampled_from([1, 3, 8, 50]), spare=st.sampled_from([0.0, 0.5]))
def test_nothing_is_lost_and_all_that_is_programmed_fits(history, size, spare):
    moves, held = history
    log = FlashLog(CAPACITY, size, spare=spare)
    for session, tokens in moves:
        if tokens > 0:
            log.write(session, tokens)
        else:
            log.trim(session, -tokens)
        assert log.live_tokens <= CAPACITY
    assert log.live_tokens == sum(held.values())
    for session, tokens in held.items():
        log.trim(session, tokens)  # all of it is found
    assert log.live_tokens == 0
    written = sum(tokens for _, tokens in moves if tokens > 0)
    programmed = written + log.relocated_tokens
    # What was programmed is in blocks that were erased since, or in those that there are.
    assert programmed <= size * (sum(log.erases) + log.blocks)
    assert programmed >= size * sum(log.erases)


@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=40), size=st.sampled_from([1, 3, 8]))
def test_blocks_are_collected_as_token_by_token(sizes, size):
    """Written whole and trimmed whole, oldest first or every other one."""
    log = FlashLog(CAPACITY, size, spare=0.0)
    tokens = Tokens(log.blocks, size)
    held = []
    for session, count in enumerate(sizes):
        while sum(kept for _, kept in held) + count > CAPACITY:
            owner, kept = held.pop(len(held) // 2)
            log.trim(owner, kept)
            for block in tokens.blocks:
                block[:] = [None if t is not None and t[0] == owner else t for t in block]
        held.append((session, count))
        log.write(session, count)
        tokens.write(session, count)
        assert sum(log.erases) == sum(tokens.erases)
        assert log.relocated_tokens == tokens.relocated


def test_what_dies_in_its_order_is_never_moved():
    log = FlashLog(100, 10, spare=0.0)
    for session in range(200):
        if session >= 10:
            log.trim(session - 10, 10)
        log.write(session, 10)
    assert log.write_amplification == 1.0
    assert max(log.erases) - min(log.erases) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 1), "capacity is 0"), ((1, 0), "block is 0"), ((1, 1, -1), "spare is -1")],
)
def test_bad_arguments_are_named(arguments, message):
    capacity, block, *spare = arguments
    with pytest.raises(InputError, match=message):
        FlashLog(capacity, block, **({"spare": spare[0]} if spare else {}))
