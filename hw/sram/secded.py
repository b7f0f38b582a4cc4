"""SECDED over beats: the Hsiao (72,64) code, its plain reference, encoder and decoder.

A word is 64 data and 8 check bits. The words of a beat are bit-sliced: with ``W = beat_bytes / 8``
words, word ``j`` is the data bits ``j, j + W, j + 2 W ...`` of the beat and the same bits of its
check lanes. Adjacent bits belong to different words, so a burst of up to ``W`` wrong bits stays
correctable, and all words are handled at once by operations on vectors of up to 64 of them.

Source: M. Y. Hsiao, "A class of optimal minimum odd-weight-column SEC-DED codes", 1970.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import and_, or_, xor

from amaranth.hdl import Cat, Module, ShapeLike, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.bits import position

DATA_BITS, CHECK_BITS = 64, 8
WORD_BITS = DATA_BITS + CHECK_BITS


def _columns() -> tuple[int, ...]:
    """All 56 columns of weight 3, the 8 rotations of five ones in a row, and the identity.

    A column of weight 5 is known by three neighbouring zeros, which keeps the decoder small.
    """
    three = [sum(1 << row for row in rows) for rows in combinations(range(CHECK_BITS), 3)]
    five = [sum(1 << (first + k) % CHECK_BITS for k in range(5)) for first in range(CHECK_BITS)]
    return (*three, *five, *(1 << row for row in range(CHECK_BITS)))


COLUMNS = _columns()  # of the parity check matrix, data bits first; bit ``c`` is its row ``c``


# Reference ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decoded:
    """What the decoder makes of a word: ``position`` is the bit of the 72 that was wrong."""

    data: int
    check: int
    position: int | None
    uncorrectable: bool


def encode(word: int) -> int:
    """Check bits of a word."""
    return reduce(xor, (COLUMNS[s] for s in range(DATA_BITS) if word >> s & 1), 0)


def decode(word: int, check: int) -> Decoded:
    """A word with a single wrong bit corrected, or found to have more of them."""
    syndrome = encode(word) ^ check
    if not syndrome:
        return Decoded(word, check, None, False)
    if syndrome not in COLUMNS:
        return Decoded(word, check, None, True)
    position = COLUMNS.index(syndrome)
    right = (word | check << DATA_BITS) ^ 1 << position
    return Decoded(right & (1 << DATA_BITS) - 1, right >> DATA_BITS, position, False)


def words_of(beat: int, *, words: int, bits: int) -> list[int]:
    """The words of a bit-sliced beat, or of its check lanes: ``bits`` are 64 or 8."""
    slices = [beat >> s * words & (1 << words) - 1 for s in range(bits)]
    return [sum((part >> j & 1) << s for s, part in enumerate(slices)) for j in range(words)]


def beat_of(words: Sequence[int], *, bits: int) -> int:
    """The inverse of :func:`words_of`."""
    return sum(
        (word >> s & 1) << s * len(words) + j for j, word in enumerate(words) for s in range(bits)
    )


def encode_beat(beat: int, *, words: int) -> int:
    """Check lanes of a beat."""
    parts = words_of(beat, words=words, bits=DATA_BITS)
    return beat_of([encode(word) for word in parts], bits=CHECK_BITS)


# Bit slices ---------------------------------------------------------------------------------------


def check_lanes(lanes: int) -> int:
    """64-bit lanes of check bits beside ``lanes`` lanes of data."""
    if lanes < CHECK_BITS or lanes & (lanes - 1):
        raise ValueError(f"lanes must be a power of two, at least {CHECK_BITS}, not {lanes!r}")
    return lanes // CHECK_BITS


def slices(lanes: Sequence, count: int) -> list[list[Value]]:
    """``lanes`` as ``count`` slices of one bit a word, each as vectors of at most 64 words."""
    words = 64 * len(lanes) // count
    width = min(64, words)

    def vector(first: int) -> Value:
        lane = lanes[first // 64]
        return lane if width == 64 else lane[first % 64 : first % 64 + width]

    return [[vector(s * words + part) for part in range(0, words, width)] for s in range(count)]


def _tree(operator, terms: Iterable) -> Value:
    """``terms`` joined in a balanced tree."""
    terms = list(terms)
    while len(terms) > 1:
        terms = [reduce(operator, terms[k : k + 2]) for k in range(0, len(terms), 2)]
    return terms[0]


# Encoder and decoder ------------------------------------------------------------------------------


class BeatEncoder(wiring.Component):
    """Check lanes of a beat, combinational: one tree of 26 inputs a check bit."""

    def __init__(self, *, lanes: int) -> None:
        super().__init__(
            {
                "lanes": In(64).array(lanes),
                "check": Out(64).array(check_lanes(lanes)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        inputs, outputs = slices(self.lanes, DATA_BITS), slices(self.check, CHECK_BITS)
        for c, row in enumerate(outputs):
            for part, vector in enumerate(row):
                terms = [inputs[s][part] for s in range(DATA_BITS) if COLUMNS[s] >> c & 1]
                m.d.comb += vector.eq(_tree(xor, terms))
        return m


def report_layout(*, lanes: int, place: ShapeLike) -> data.StructLayout:
    """What a decoder tells of a beat with errors.

    Members
    -------
    valid : in this clock
    corrected, uncorrectable : number of words
    place : of the beat
    word, syndrome : of its first uncorrectable word, else of its first corrected one
    """
    return data.StructLayout(
        {
            "valid": 1,
            "corrected": range(lanes + 1),
            "uncorrectable": range(lanes + 1),
            "place": place,
            "word": range(lanes),
            "syndrome": CHECK_BITS,
        }
    )


class BeatDecoder(wiring.Component):
    """Corrects a beat: any number of words with one wrong bit each.

    Contract: one clock after ``en``, ``o_lanes`` is the beat, until the next. ``poison`` goes with
    it: the beat has a word with two wrong bits, or with more that look like no single one; such a
    word is handed on as it was read. Three wrong bits of a word may look like one, and are then
    miscorrected: no code of this distance can tell. ``report`` follows one clock later, with the
    ``place`` that came with ``en``. Throughput: one beat a clock.
    """

    def __init__(self, *, lanes: int, place: ShapeLike) -> None:
        self._lanes = lanes
        self._report = report_layout(lanes=lanes, place=place)
        super().__init__(
            {
                "en": In(1),
                "lanes": In(64).array(lanes),
                "check": In(64).array(check_lanes(lanes)),
                "place": In(place),
                "o_lanes": Out(64).array(lanes),
                "corrected": Out(1),
                "poison": Out(1),
                "report": Out(self._report),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        inputs, checks = slices(self.lanes, DATA_BITS), slices(self.check, CHECK_BITS)
        corrected = [Signal(64, name=f"corrected{k}", reset_less=True) for k in range(self._lanes)]
        outputs = slices(corrected, DATA_BITS)
        parts = range(len(checks[0]))
        width = len(checks[0][0])

        # Syndromes: bit c of all words of a part --------------------------------------------------
        syndromes = []  # by part, then by check bit
        for part in parts:
            row = []
            for c in range(CHECK_BITS):
                syndrome = Signal(width, name=f"syndrome{c}_{part}")
                terms = [inputs[s][part] for s in range(DATA_BITS) if COLUMNS[s] >> c & 1]
                m.d.comb += syndrome.eq(_tree(xor, [*terms, checks[c][part]]))
                row.append(syndrome)
            syndromes.append(row)
        dirty = Signal()
        m.d.comb += dirty.eq(_tree(or_, [bit for row in syndromes for bit in row]) != 0)

        # Correction: simulators skip it while all is clean ----------------------------------------
        m.d.comb += [out.eq(lane) for out, lane in zip(self.o_lanes, corrected, strict=True)]
        with m.If(self.en):
            for lane, raw in zip(corrected, self.lanes, strict=True):
                m.d.sync += lane.eq(raw)
            m.d.sync += [self.corrected.eq(0), self.poison.eq(0)]
        kept = [[Signal(width, reset_less=True) for _ in row] for row in syndromes]
        single = [Signal(width, name=f"single{part}", reset_less=True) for part in parts]
        double = [Signal(width, name=f"double{part}", reset_less=True) for part in parts]
        found, place = Signal(), Signal(self.place.shape(), reset_less=True)
        m.d.sync += found.eq(self.en & dirty)
        with m.If(self.en & dirty):
            any_single, any_double = [], []
            for part, row in enumerate(syndromes):
                for s in range(DATA_BITS):
                    wrong = _tree(
                        and_, [bit if COLUMNS[s] >> c & 1 else ~bit for c, bit in enumerate(row)]
                    )
                    m.d.sync += outputs[s][part].eq(inputs[s][part] ^ wrong)
                one, more = Signal(width, name=f"one{part}"), Signal(width, name=f"more{part}")
                m.d.comb += [one.eq(_single(row)), more.eq(_tree(or_, row) & ~one)]
                m.d.sync += [
                    single[part].eq(one),
                    double[part].eq(more),
                    *(old.eq(new) for old, new in zip(kept[part], row, strict=True)),
                ]
                any_single.append(one)
                any_double.append(more)
            m.d.sync += [
                self.corrected.eq(_tree(or_, any_single) != 0),
                self.poison.eq(_tree(or_, any_double) != 0),
                place.eq(self.place),
            ]

        # Report -----------------------------------------------------------------------------------
        report = self.report
        m.d.sync += report.valid.eq(found)
        with m.If(found):
            m.d.sync += [
                report.corrected.eq(sum(population(vector) for vector in single)),
                report.uncorrectable.eq(sum(population(vector) for vector in double)),
                report.place.eq(place),
            ]
            # What is told of the first word: the last of these Ifs that holds counts.
            for vectors in (single, double):
                for part in reversed(parts):
                    first = Signal(width)
                    m.d.comb += first.eq(vectors[part] & (~vectors[part] + 1))
                    syndrome = Cat((bits & first).any() for bits in kept[part])
                    with m.If(first.any()):
                        m.d.sync += [
                            report.word.eq(position(m, first) + part * width),
                            report.syndrome.eq(syndrome),
                        ]
        return m


def _single(syndrome: Sequence[Value]) -> Value:
    """Words with one wrong bit, by bit-sliced syndromes.

    A syndrome of even weight is never one wrong bit. Of the odd ones those of weight 1 and 3 all
    are columns, those of weight 5 if they have three zeros in a row, those of weight 7 never.
    """
    s = syndrome

    def add(a, b, c):
        return a ^ b ^ c, a & b | c & (a | b)

    ones, twos = [], []
    for terms in (s[0:3], s[3:6]):
        total, carry = add(*terms)
        ones.append(total)
        twos.append(carry)
    total, carry = add(s[6], s[7], ones[0])
    odd = total ^ ones[1]
    twos += [carry, total & ones[1]]
    four = (twos[0] & twos[1]) | (twos[2] & twos[3]) | ((twos[0] | twos[1]) & (twos[2] | twos[3]))
    zeros = [~(s[k] | s[(k + 1) % CHECK_BITS] | s[(k + 2) % CHECK_BITS]) for k in range(CHECK_BITS)]
    return odd & (~four | _tree(or_, zeros))


def population(vector: Value) -> Value:
    """Number of set bits of a vector of 2, 4 .. 64 bits, by adding halves of fields in place."""
    width = len(vector)
    field = 1
    while field < width:
        mask = sum(((1 << field) - 1) << at for at in range(0, width, 2 * field))
        vector = ((vector & mask) + ((vector >> field) & mask))[:width]
        field *= 2
    return vector[: width.bit_length()]
