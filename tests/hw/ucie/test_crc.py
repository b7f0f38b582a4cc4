# amaranth: UnusedElaboratable=no
"""The CRC: its reference against another implementation, its matrix, its RTL, what it detects."""

import random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.crc import catalog

from hw.ucie.crc import (
    INJECTION,
    MAX_PIPELINE,
    MESSAGE_BITS,
    Crc16,
    crc16,
    crc_columns,
    crc_rows,
)
from hw.ucie.flit import LATENCY_OPTIMISED
from tests.formal.variants import variant
from tests.hw.pysim import simulate
from tests.hw.ucie.flits import other_crc

BYTES = MESSAGE_BITS // 8
LENGTHS = [1, 114, 126, 128]


def reflected(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def messages(length: int, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(length) for _ in range(50)] + [bytes(length), b"\xff" * length]


def test_reference_agrees_with_another_implementation() -> None:
    for length in LENGTHS:
        for message in messages(length, seed=length):
            assert crc16(message) == other_crc(message), message.hex()


@pytest.mark.parametrize(
    ("name", "reflect_message", "reflect_crc"),
    [("CRC16_ARC", False, True), ("CRC16_UMTS", True, False)],
)
def test_published_check_values(name: str, reflect_message: bool, reflect_crc: bool) -> None:
    """The check values of the catalogue are those of this CRC but for the order of bits.

    CRC-16/ARC takes bits in the same order and reflects the result, CRC-16/UMTS takes the high bit
    of a byte first. Zeros before a message leave an initial CRC of zero as it is, so a message of
    nine bytes goes to the end of the 128.
    """
    check = {"CRC16_ARC": 0xBB3D, "CRC16_UMTS": 0xFEE8}[name]
    assert getattr(catalog, name)(8).compute(b"123456789") == check
    message = b"123456789".rjust(BYTES, b"\0")
    if reflect_message:
        message = bytes(reflected(byte, 8) for byte in message)
    crc = crc16(message)
    assert (reflected(crc, 16) if reflect_crc else crc) == check


def test_columns_are_the_crcs_of_single_bits() -> None:
    for bit in [0, 1, 7, 8, 500, 1007, 1008, 1022, 1023]:
        message = (1 << bit).to_bytes(BYTES, "little")
        assert crc_columns()[bit] == crc16(message), bit


def test_the_matrix_times_a_message_is_its_crc() -> None:
    for message in messages(BYTES, seed=1):
        bits = int.from_bytes(message, "little")
        by_rows = sum(((row & bits).bit_count() & 1) << k for k, row in enumerate(crc_rows()))
        assert by_rows == crc16(message), message.hex()


def stream(crc: Any, length: int) -> list[tuple[int, int]]:
    """CRC of the RTL and of the reference for each of a stream of messages, one a clock."""
    # Every message is a sum of single bits, so these say all about a block that only adds.
    step = 1 if length == BYTES else 7
    sent = [(1 << bit).to_bytes(length, "little") for bit in range(0, 8 * length, step)]
    sent += messages(length, seed=2)
    seen: list[int] = []

    async def bench(ctx: Any) -> None:
        for message in [*sent, *[bytes(length)] * crc.pipeline]:
            ctx.set(crc.i, int.from_bytes(message, "little"))
            seen.append(ctx.get(crc.o))
            await ctx.tick()

    simulate(crc, bench, clocks=len(sent) + 10)
    return list(zip(seen[crc.pipeline :], map(crc16, sent), strict=True))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("pipeline", range(1, MAX_PIPELINE + 1))
def test_one_message_a_clock_after_constant_latency(pipeline: int, length: int) -> None:
    for place, (seen, expected) in enumerate(
        stream(Crc16(pipeline=pipeline, message_bytes=length), length)
    ):
        assert seen == expected, place


def test_without_registers_it_is_combinational() -> None:
    # A clocked counter beside it, since the simulator wants something to clock.
    m, count = Module(), Signal(8)
    m.submodules.crc = crc = Crc16(pipeline=0)
    m.d.sync += count.eq(count + 1)
    message = messages(BYTES, seed=4)[0]

    async def bench(ctx: Any) -> None:
        ctx.set(crc.i, int.from_bytes(message, "little"))
        assert ctx.get(crc.o) == crc16(message)

    simulate(m, bench, clocks=1)


@pytest.mark.parametrize(
    "edit",
    [
        ("_FACTOR = 0x8003", "_FACTOR = 0x8001"),
        ("low << (15 * fold - moved)", "low << (15 * fold - moved - 1)"),
        ("parity.eq(odd ^ low.xor())", "parity.eq(low.xor())"),
        ("POLYNOMIAL = 0x8005", "POLYNOMIAL = 0x1021"),
    ],
)
def test_wrong_taps_are_noticed(edit: tuple[str, str]) -> None:
    broken = variant(Crc16, edit)(pipeline=2)
    assert any(seen != expected for seen, expected in stream(broken, BYTES))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pipeline": -1}, "0 to 3 clocks, not -1"),
        ({"pipeline": 4}, "0 to 3 clocks, not 4"),
        ({"pipeline": 1, "message_bytes": 0}, "1 to 128 bytes, not 0"),
        ({"pipeline": 1, "message_bytes": 129}, "1 to 128 bytes, not 129"),
    ],
)
def test_wrong_parameters_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Crc16(**fields)


def test_a_longer_message_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 128 bytes, not 129"):
        crc16(bytes(129))


# What is detected. A pattern of wrong bits, in the message or in the CRC itself, is found exactly
# if its syndrome, the sum of the columns of its bits, is not zero.
SYNDROMES = np.array([*crc_columns(), *(1 << k for k in range(16))], dtype=np.uint16)


def test_one_two_and_three_wrong_bits_are_found() -> None:
    assert len(SYNDROMES) == 1024 + 16
    assert np.all(SYNDROMES != 0)  # one
    assert len(np.unique(SYNDROMES)) == len(SYNDROMES)  # two: no syndromes of one are equal
    # Three: each syndrome has an odd number of ones, so a sum of any three is not zero.
    assert np.all(np.bitwise_count(SYNDROMES) % 2 == 1)


def test_four_wrong_bits_may_pass() -> None:
    """The bound is exact: the polynomial has four terms, and it is itself a wrong pattern."""
    last = MESSAGE_BITS - 1
    bits = [last - 16, last - 15, last - 2, last]
    message = sum(1 << bit for bit in bits).to_bytes(BYTES, "little")
    assert crc16(message) == crc16(bytes(BYTES)) == 0


def span(bits: list[int]) -> np.ndarray:
    """Syndromes of all patterns of ``bits``, by index."""
    sums = np.zeros(1, dtype=np.uint16)
    for bit in bits:
        sums = np.concatenate([sums, sums ^ SYNDROMES[bit]])
    return sums


def test_bursts_of_up_to_16_bits_are_found() -> None:
    # Windows of 16 bits: no pattern within one sums to zero, whatever its length and place.
    for start in range(MESSAGE_BITS - 15):
        assert independent(list(range(start, start + 16))), start
    assert independent(list(range(MESSAGE_BITS, MESSAGE_BITS + 16)))


def independent(bits: list[int]) -> bool:
    return bool(np.all(span(bits)[1:] != 0))


def test_bursts_over_the_border_of_message_and_crc() -> None:
    """In a latency-optimised flit the CRC follows its message, but not in the order of division.

    So the bound of 16 bits holds on either side of the border. Over it 7 bits are certain.
    """
    end = 8 * LATENCY_OPTIMISED.crc[0].start

    def certain(burst: int) -> bool:
        windows = (
            [*range(end - inside, end), *range(MESSAGE_BITS, MESSAGE_BITS + burst - inside)]
            for inside in range(1, burst)
        )
        return all(map(independent, windows))

    assert [burst for burst in range(2, 17) if certain(burst)] == [2, 3, 4, 5, 6, 7]


def test_the_injected_error_is_found() -> None:
    assert INJECTION == 0x138E
    assert 0 < INJECTION < 1 << 16
    rng = random.Random(3)
    for message in (rng.randbytes(BYTES) for _ in range(20)):
        crc = crc16(message)
        assert crc ^ INJECTION != crc
