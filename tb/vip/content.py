"""What the NAND holds: a function of the address, so that any byte can be checked unstored.

The function is written twice, once as hardware for models and checkers at full speed and once in
plain integers for scoreboards, and tests hold the two together.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

WORD = (1 << 64) - 1
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xBF58476D1CE4E5B9)
STACK_SHIFT = 40  # beat numbers of a stack stay below
SALT = 1 << 63  # without it beat 0 of stack 0 would be zero in all lanes, as an empty memory is


def lane_rotations(lane: int) -> tuple[int, int]:
    """How far the two words of a beat are rotated for one lane; no two lanes are alike."""
    return lane % 64, (5 * lane + 7 * (lane // 64) + 3) % 64


def _rotate(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & WORD


def beat_words(stack: int, beat: int) -> tuple[int, int]:
    """The two 64-bit words that a beat's lanes are made of; ``beat`` counts from page 0."""
    x = (((stack << STACK_SHIFT) | beat) * MULTIPLIERS[0] + SALT) & WORD
    x = ((x ^ (x >> 32)) * MULTIPLIERS[1]) & WORD
    a = x ^ (x >> 32)
    b = ((a ^ (a >> 29)) * MULTIPLIERS[2]) & WORD
    return a, b


def beat_lanes(stack: int, beat: int, lanes: int) -> list[int]:
    """Content of one beat, lane by lane."""
    a, b = beat_words(stack, beat)
    return [
        _rotate(a, rotate_a) ^ _rotate(b, rotate_b)
        for rotate_a, rotate_b in map(lane_rotations, range(lanes))
    ]


class BeatContent(wiring.Component):
    """Content of beat number ``beat`` of one stack, combinational."""

    def __init__(self, *, stack: int, lanes: int) -> None:
        self._stack, self._lanes = stack, lanes
        super().__init__({"beat": In(STACK_SHIFT), "lanes": Out(64).array(lanes)})

    def elaborate(self, platform) -> Module:
        m = Module()
        key, x, a, b = (Signal(64, name=name) for name in ("key", "x", "a", "b"))
        m.d.comb += [
            key.eq((self.beat | (self._stack << STACK_SHIFT)) * MULTIPLIERS[0] + SALT),
            x.eq((key ^ (key >> 32)) * MULTIPLIERS[1]),
            a.eq(x ^ (x >> 32)),
            b.eq((a ^ (a >> 29)) * MULTIPLIERS[2]),
        ]
        for k in range(self._lanes):
            rotate_a, rotate_b = lane_rotations(k)
            m.d.comb += self.lanes[k].eq(a.rotate_left(rotate_a) ^ b.rotate_left(rotate_b))
        return m
