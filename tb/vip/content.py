"""What the NAND holds: a function of address and version, so that any byte can be checked unstored.

Version 0 is what a stack holds that nobody wrote to. Whoever writes a page takes another version;
it stands in plain in the low bits of the first lane of each beat, and all other bits depend on it.

The function is written twice, once as hardware for models and checkers at full speed and once in
plain integers for scoreboards, and tests hold the two together.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

WORD = (1 << 64) - 1
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xBF58476D1CE4E5B9)
STACK_SHIFT = 40  # beat numbers of a stack stay below
VERSION_SHIFT = 48  # stack numbers stay below, shifted
VERSION_BITS = 8
VERSION_MASK = (1 << VERSION_BITS) - 1
SALT = 1 << 63  # without it beat 0 of stack 0 would be zero in all lanes, as an empty memory is


class Form(enum.Enum, shape=2):
    """What kind of content a page has."""

    WRITTEN = 0  # the function of its address and version
    BLANK = 1  # all ones, as an erase leaves it
    GARBAGE = 2  # the inverse of version 0: never what anyone wrote


def lane_rotations(lane: int) -> tuple[int, int]:
    """How far the two words of a beat are rotated for one lane; no two lanes are alike."""
    return lane % 64, (5 * lane + 7 * (lane // 64) + 3) % 64


def _rotate(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & WORD


def beat_words(stack: int, beat: int, version: int = 0) -> tuple[int, int]:
    """The two 64-bit words that a beat's lanes are made of; ``beat`` counts from page 0."""
    key = (version << VERSION_SHIFT) | (stack << STACK_SHIFT) | beat
    x = (key * MULTIPLIERS[0] + SALT) & WORD
    x = ((x ^ (x >> 32)) * MULTIPLIERS[1]) & WORD
    a = x ^ (x >> 32)
    b = ((a ^ (a >> 29)) * MULTIPLIERS[2]) & WORD
    return a, b


def beat_lanes(stack: int, beat: int, lanes: int, version: int = 0) -> list[int]:
    """Content of one beat, lane by lane."""
    a, b = beat_words(stack, beat, version)
    words = [
        _rotate(a, rotate_a) ^ _rotate(b, rotate_b)
        for rotate_a, rotate_b in map(lane_rotations, range(lanes))
    ]
    words[0] = words[0] & ~VERSION_MASK | version
    return words


def blank_lanes(lanes: int) -> list[int]:
    """A beat of a page that was erased and not programmed since."""
    return [WORD] * lanes


def garbage_lanes(stack: int, beat: int, lanes: int) -> list[int]:
    """A beat that cannot be read, as after a program that failed."""
    return [word ^ WORD for word in beat_lanes(stack, beat, lanes)]


class BeatContent(wiring.Component):
    """Content of beat number ``beat`` of one stack, combinational.

    ``version`` counts for form WRITTEN only, and must be zero for the others.
    """

    def __init__(self, *, stack: int, lanes: int) -> None:
        self._stack, self._lanes = stack, lanes
        super().__init__(
            {
                "beat": In(STACK_SHIFT),
                "version": In(VERSION_BITS),
                "form": In(Form),
                "lanes": Out(64).array(lanes),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        key, x, a, b = (Signal(64, name=name) for name in ("key", "x", "a", "b"))
        blank, garbage = self.form == Form.BLANK, self.form == Form.GARBAGE
        number = Cat(self.beat, (self._stack | (self.version << (VERSION_SHIFT - STACK_SHIFT))))
        m.d.comb += [
            key.eq(number * MULTIPLIERS[0] + SALT),
            x.eq((key ^ (key >> 32)) * MULTIPLIERS[1]),
            a.eq(x ^ (x >> 32)),
            b.eq((a ^ (a >> 29)) * MULTIPLIERS[2]),
        ]
        # The other forms are made here, once, and not in each lane: a lane is a rotated ``first``
        # XOR a rotated ``second``.
        first, second = Signal(64), Signal(64)
        plain = Signal(VERSION_BITS)
        m.d.comb += [
            first.eq(Mux(blank, WORD, Mux(garbage, ~a, a))),
            second.eq(Mux(blank, 0, b)),
            plain.eq(Mux(blank | garbage, VERSION_MASK, self.version)),
        ]
        for k in range(self._lanes):
            rotate_a, rotate_b = lane_rotations(k)
            word = first.rotate_left(rotate_a) ^ second.rotate_left(rotate_b)
            m.d.comb += self.lanes[k].eq(Cat(plain, word[VERSION_BITS:]) if k == 0 else word)
        return m
