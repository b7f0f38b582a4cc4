# amaranth: UnusedElaboratable=no
"""The SECDED code and its RTL: every single and double error, every syndrome, many words."""

import random
from itertools import combinations
from typing import Any

import pytest
from amaranth.hdl import Cat
from amaranth.sim import Simulator

from hw.sram import secded
from hw.sram.secded import COLUMNS, BeatDecoder, BeatEncoder
from tests.hw.pysim import simulate

# Vectors of 8, of 32, and of twice 64 words.
LANES = [8, 32, 128]
SINGLES = [(k,) for k in range(72)]
DOUBLES = list(combinations(range(72), 2))
ONES = (1 << 64) - 1
Beat = tuple[list[int], list[secded.Decoded]]  # words as read, and what is to come of them


def parity(bits: int) -> int:
    return bits.bit_count() & 1


def right_word(word: int) -> int:
    """The 72 bits of a word, by the rows of the parity check matrix."""
    checks = 0
    for row in range(8):
        members = sum((COLUMNS[s] >> row & 1) << s for s in range(64))
        checks |= parity(word & members) << row
    return word | checks << 64


def flipped(stored: int, bits: tuple[int, ...]) -> int:
    for bit in bits:
        stored ^= 1 << bit
    return stored


# Code ---------------------------------------------------------------------------------------------


def test_the_matrix_is_the_one_of_hsiao() -> None:
    weights = [column.bit_count() for column in COLUMNS]
    assert len(set(COLUMNS)) == 72
    assert sorted(weights) == [1] * 8 + [3] * 56 + [5] * 8
    assert list(COLUMNS[64:]) == [1 << row for row in range(8)]
    for row in range(8):
        assert sum(column >> row & 1 for column in COLUMNS[:64]) == 26


def test_no_three_wrong_bits_look_right() -> None:
    """Distance 4, by enumeration: up to three columns never add up to zero, two never to one."""
    columns = set(COLUMNS)
    pairs = {a ^ b for a, b in combinations(COLUMNS, 2)}
    assert 0 not in columns and 0 not in pairs and not pairs & columns
    assert all(a ^ b ^ c for a, b, c in combinations(COLUMNS, 3))


def test_reference_takes_back_one_wrong_bit_and_flags_two() -> None:
    for word in (0, ONES, 0x0123_4567_89AB_CDEF, random.Random(0).getrandbits(64)):
        right = right_word(word)
        assert secded.encode(word) == right >> 64
        assert secded.decode(word, right >> 64) == secded.Decoded(word, right >> 64, None, False)
        for (bit,) in SINGLES:
            read = flipped(right, (bit,))
            found = secded.decode(read & ONES, read >> 64)
            assert (found.data | found.check << 64) == right
            assert found.position == bit and not found.uncorrectable
        for bits in DOUBLES:
            read = flipped(right, bits)
            found = secded.decode(read & ONES, read >> 64)
            assert found.uncorrectable and found.position is None and found.data == read & ONES


@pytest.mark.parametrize("words", [8, 64, 128])
def test_word_j_is_every_wth_bit(words: int) -> None:
    beat = random.Random(words).getrandbits(64 * words)
    parts = secded.words_of(beat, words=words, bits=64)
    bits = f"{beat:0{64 * words}b}"[::-1]
    assert parts == [int(bits[j::words][::-1], 2) for j in range(words)]
    assert secded.beat_of(parts, bits=64) == beat


@pytest.mark.parametrize("lanes", [0, 4, 12, 7])
def test_lanes_that_check_lanes_do_not_divide_are_refused(lanes: int) -> None:
    with pytest.raises(ValueError, match=f"a power of two, at least 8, not {lanes}"):
        BeatEncoder(lanes=lanes)


# RTL ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", LANES)
def test_encoder_writes_the_check_bits_of_every_word(lanes: int) -> None:
    rng, encoder = random.Random(lanes), BeatEncoder(lanes=lanes)

    async def bench(ctx: Any) -> None:
        for words in (
            [0] * lanes,
            [ONES] * lanes,
            [1 << rng.randrange(64) for _ in range(lanes)],
            *([rng.getrandbits(64) for _ in range(lanes)] for _ in range(6)),
        ):
            ctx.set(Cat(*encoder.lanes), secded.beat_of(words, bits=64))
            check = secded.words_of(ctx.get(Cat(*encoder.check)), words=lanes, bits=8)
            assert check == [right_word(word) >> 64 for word in words]

    simulator = Simulator(encoder)
    simulator.add_testbench(bench)
    simulator.run()


class DecoderBench:
    """Has a decoder read beats of given 72-bit words, one a clock, and looks at all it tells."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.dut = BeatDecoder(lanes=lanes, place=16)
        self.corrected = self.poisoned = 0  # beats

    def run(self, beats: list[Beat]) -> None:
        dut, lanes = self.dut, self.lanes

        async def bench(ctx: Any) -> None:
            last: tuple[int, list[int], list[int], list[int]] | None = None
            ctx.set(dut.en, 1)
            for number, (stored, expected) in enumerate([*beats, beats[-1]]):
                data = secded.beat_of([word & ONES for word in stored], bits=64)
                ctx.set(Cat(*dut.lanes), data)
                check = secded.beat_of([word >> 64 for word in stored], bits=8)
                ctx.set(Cat(*dut.check), check)
                ctx.set(dut.place, number)
                await ctx.tick()
                found = secded.words_of(ctx.get(Cat(*dut.o_lanes)), words=lanes, bits=64)
                assert found == [word.data for word in expected], number
                single = [j for j, word in enumerate(expected) if word.position is not None]
                double = [j for j, word in enumerate(expected) if word.uncorrectable]
                assert ctx.get(dut.corrected) == bool(single)
                assert ctx.get(dut.poison) == bool(double)
                self.corrected += bool(single)
                self.poisoned += bool(double)
                if last:
                    self.judge(ctx.get(dut.report), *last)
                last = number, stored, single, double

        simulate(dut, bench, clocks=len(beats) + 3)

    @staticmethod
    def judge(
        report: Any, number: int, stored: list[int], single: list[int], double: list[int]
    ) -> None:
        assert report.valid == bool(single or double)
        if report.valid:
            assert report.place == number
            assert (report.corrected, report.uncorrectable) == (len(single), len(double))
            word = min(double or single)
            assert report.word == word
            assert report.syndrome == (stored[word] ^ right_word(stored[word] & ONES)) >> 64


def words_with(errors: list[tuple[int, ...]], lanes: int, rng: random.Random) -> list[Beat]:
    """Beats of random words in which word after word has the next of ``errors``."""
    beats = []
    for first in range(0, len(errors), lanes):
        stored, expected = [], []
        for bits in errors[first : first + lanes] + [()] * (first + lanes - len(errors)):
            word = rng.getrandbits(64)
            read = flipped(right_word(word), bits)
            stored.append(read)
            match len(bits):
                case 0 | 1:
                    found = secded.Decoded(word, right_word(word) >> 64, *(bits or (None,)), False)
                case _:
                    found = secded.Decoded(read & ONES, read >> 64, None, True)
            expected.append(found)
        beats.append((stored, expected))
    return beats


@pytest.mark.parametrize(("lanes", "seeds"), [(8, 2), (128, 4)])
def test_every_single_error_is_corrected_and_every_double_flagged(lanes: int, seeds: int) -> None:
    bench, beats = DecoderBench(lanes), []
    for seed in range(seeds):
        rng = random.Random(seed)
        beats += words_with(SINGLES, lanes, rng)
        beats += words_with(DOUBLES, lanes, rng)
    bench.run(beats)
    assert bench.corrected >= seeds * len(SINGLES) // lanes
    assert bench.poisoned >= seeds * len(DOUBLES) // lanes


@pytest.mark.parametrize("lanes", LANES)
def test_words_do_not_touch_each_other(lanes: int) -> None:
    """Clean, single and double errors mixed in one beat, each decoded as if alone."""
    rng = random.Random(lanes)
    errors = [
        rng.choice(((), (), rng.choice(SINGLES), rng.choice(DOUBLES))) for _ in range(16 * lanes)
    ]
    # And beats with one wrong word only.
    for _ in range(12):
        alone = [()] * lanes
        alone[rng.randrange(lanes)] = rng.choice((rng.choice(SINGLES), rng.choice(DOUBLES)))
        errors += alone
    DecoderBench(lanes).run(words_with(errors, lanes, rng))


def test_every_syndrome_is_judged_as_by_the_reference() -> None:
    """Triple errors may be miscorrected; those that look like no single error must be flagged."""
    rng, beats, lanes = random.Random(3), [], 8
    for first in range(0, 256, lanes):
        words = [rng.getrandbits(64) for _ in range(lanes)]
        stored = [right_word(word) ^ (first + j) << 64 for j, word in enumerate(words)]
        beats.append((stored, [secded.decode(word & ONES, word >> 64) for word in stored]))
    flagged = sum(word.uncorrectable for _, expected in beats for word in expected)
    assert flagged == 256 - 1 - 72
    DecoderBench(lanes).run(beats)


def test_what_is_held_does_not_change() -> None:
    decoder = BeatDecoder(lanes=8, place=1)

    async def bench(ctx: Any) -> None:
        ctx.set(decoder.lanes[0], 1)  # a single wrong bit of an empty beat
        ctx.set(decoder.en, 1)
        await ctx.tick()
        ctx.set(decoder.en, 0)
        ctx.set(decoder.lanes[1], 3)
        for clock in range(4):
            assert ctx.get(decoder.corrected) and not ctx.get(Cat(*decoder.o_lanes))
            await ctx.tick()
            assert ctx.get(decoder.report.valid) == (clock == 0)

    simulate(decoder, bench, clocks=10)
