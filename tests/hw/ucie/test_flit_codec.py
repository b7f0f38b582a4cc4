# amaranth: UnusedElaboratable=no
"""Encoder and decoder of flits against flits that are made in plain Python."""

import random
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.ucie.flit import FORMATS, LATENCY_OPTIMISED, STANDARD, FlitFormat
from hw.ucie.flit_codec import FlitDecoder, FlitEncoder
from tests.formal.variants import variant
from tests.hw.pysim import simulate
from tests.hw.ucie.flits import PROTECTED, make_flit

SIZES = [(1, 1), (1, 2), (2, 3), (4, 2)]  # flits a clock, pipeline
Sent = list[tuple[int, bytes]]  # header and payload of each flit of a clock

both_formats = pytest.mark.parametrize("flit_format", FORMATS, ids=lambda f: f"format {f.number}")
all_sizes = pytest.mark.parametrize(("flits", "pipeline"), SIZES)


def random_clocks(rng: random.Random, flit_format: FlitFormat, flits: int) -> list[Sent | None]:
    """Clocks with and without flits."""

    def flit() -> tuple[int, bytes]:
        if rng.random() < 0.1:
            return 0, bytes(flit_format.payload_bytes)
        return rng.getrandbits(16), rng.randbytes(flit_format.payload_bytes)

    return [[flit() for _ in range(flits)] if rng.random() < 0.7 else None for _ in range(25)]


def drive(ctx: Any, port: Any, clock: Sent | None) -> None:
    ctx.set(port.valid, clock is not None)
    for k, (header, payload) in enumerate(clock or []):
        ctx.set(port.headers[k].as_value(), header)
        ctx.set(port.payloads[k], int.from_bytes(payload, "little"))


def taken(ctx: Any, port: Any, flit_format: FlitFormat) -> Sent | None:
    """What ``port`` shows in this clock."""
    if not ctx.get(port.valid):
        return None
    return [
        (
            ctx.get(header.as_value()),
            ctx.get(payload).to_bytes(flit_format.payload_bytes, "little"),
        )
        for header, payload in zip(port.headers, port.payloads, strict=True)
    ]


def encode(encoder: Any, clocks: list[Sent | None]) -> list[list[bytes] | None]:
    """Flits of each clock, ``pipeline`` clocks later."""
    seen: list[list[bytes] | None] = []

    async def bench(ctx: Any) -> None:
        for clock in [*clocks, *[None] * encoder.pipeline]:
            drive(ctx, encoder.i, clock)
            flits = [ctx.get(flit).to_bytes(256, "little") for flit in encoder.o.flits]
            seen.append(flits if ctx.get(encoder.o.valid) else None)
            await ctx.tick()

    simulate(encoder, bench, clocks=len(clocks) + 10)
    assert seen[: encoder.pipeline] == [None] * encoder.pipeline
    return seen[encoder.pipeline :]


@both_formats
@all_sizes
def test_flits_are_those_of_the_specification(
    flit_format: FlitFormat, flits: int, pipeline: int
) -> None:
    clocks = random_clocks(random.Random(flits), flit_format, flits)
    expected = [
        clock and [make_flit(flit_format.number, payload, header) for header, payload in clock]
        for clock in clocks
    ]
    encoder = FlitEncoder(flit_format=flit_format, flits=flits, pipeline=pipeline)
    assert encode(encoder, clocks) == expected


def decode(decoder: Any, clocks: list[list[bytes] | None]) -> list[tuple[Sent | None, int]]:
    """What comes out for each clock, with the ``bad`` of the clock after."""
    seen: list[tuple[Sent | None, int]] = []

    async def bench(ctx: Any) -> None:
        for clock in [*clocks, *[None] * decoder.pipeline]:
            ctx.set(decoder.i.valid, clock is not None)
            for k, flit in enumerate(clock or []):
                ctx.set(decoder.i.flits[k], int.from_bytes(flit, "little"))
            seen.append((taken(ctx, decoder.o, decoder.flit_format), ctx.get(decoder.bad)))
            await ctx.tick()

    simulate(decoder, bench, clocks=len(clocks) + 10)
    data = [sent for sent, _ in seen[decoder.pipeline - 1 : -1]]
    assert [bad for _, bad in seen[: decoder.pipeline]] == [0] * decoder.pipeline
    return list(zip(data, [bad for _, bad in seen[decoder.pipeline :]], strict=True))


@both_formats
@all_sizes
def test_right_flits_come_apart_and_wrong_ones_are_bad_a_clock_later(
    flit_format: FlitFormat, flits: int, pipeline: int
) -> None:
    rng = random.Random(10 + flits)
    clocks = random_clocks(rng, flit_format, flits)
    arriving: list[list[bytes] | None] = []
    bad: list[int] = []
    for clock in clocks:
        arriving.append(None)
        bad.append(0)
        if clock is None:
            continue
        made = [make_flit(flit_format.number, payload, header) for header, payload in clock]
        for k in range(flits):
            if rng.random() < 0.3:
                wrong = rng.sample(PROTECTED[flit_format.number], rng.randint(1, 3))
                made[k] = flipped(made[k], wrong)
                bad[-1] |= 1 << k
        arriving[-1] = made
    decoder = FlitDecoder(flit_format=flit_format, flits=flits, pipeline=pipeline)
    found = decode(decoder, arriving)
    assert [wrong for _, wrong in found] == bad
    for sent, (got, wrong) in zip(clocks, found, strict=True):
        assert (sent is None) == (got is None)
        for k in range(flits if sent is not None and got is not None else 0):
            assert wrong >> k & 1 or got[k] == sent[k]


def flipped(flit: bytes, bits: list[int]) -> bytes:
    wrong = sum(1 << bit for bit in bits)
    return (int.from_bytes(flit, "little") ^ wrong).to_bytes(256, "little")


def bits_that_are_missed(decoder: Any, bits: list[int]) -> set[int]:
    """Those of ``bits`` of a flit that may be wrong without its being bad."""
    payload = random.Random(5).randbytes(decoder.flit_format.payload_bytes)
    flit = make_flit(decoder.flit_format.number, payload, 0x8521)
    size = decoder.flits
    rounds = [bits[k : k + size] for k in range(0, len(bits), size)]
    found = decode(decoder, [[flipped(flit, [bit]) for bit in some] for some in rounds])
    return {
        bit
        for some, (_, bad) in zip(rounds, found, strict=True)
        for k, bit in enumerate(some)
        if not bad >> k & 1
    }


@both_formats
def test_every_single_wrong_bit_is_found(flit_format: FlitFormat) -> None:
    decoder = FlitDecoder(flit_format=flit_format, flits=4, pipeline=2)
    reserved = {8 * place + k for part in flit_format.reserved for place in part for k in range(8)}
    assert bits_that_are_missed(decoder, list(range(8 * 256))) == reserved


def finds_right_flits_right(decoder: Any) -> bool:
    rng = random.Random(6)
    number, size = decoder.flit_format.number, decoder.flit_format.payload_bytes
    flits = [[make_flit(number, rng.randbytes(size), rng.getrandbits(16))] for _ in range(5)]
    return all(not bad for _, bad in decode(decoder, flits))


class Pair(wiring.Component):
    """Encoder and decoder, with wires between them."""

    def __init__(self, encoder: Any, decoder: Any) -> None:
        self.encoder, self.decoder = encoder, decoder
        super().__init__({})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.encoder, m.submodules.decoder = self.encoder, self.decoder
        wiring.connect(m, self.encoder.o, self.decoder.i)
        return m


@both_formats
@all_sizes
def test_a_corrupted_crc_is_found_in_its_flit(
    flit_format: FlitFormat, flits: int, pipeline: int
) -> None:
    sizes = {"flit_format": flit_format, "flits": flits, "pipeline": pipeline}
    pair = Pair(FlitEncoder(**sizes), FlitDecoder(**sizes))
    rng = random.Random(20 + flits)
    clocks = random_clocks(rng, flit_format, flits)
    corrupt = [[rng.choice([0, 0, 1, 2, 3]) for _ in range(flits)] for _ in clocks]
    delay = 2 * pipeline
    seen: list[tuple[Sent | None, int]] = []

    async def bench(ctx: Any) -> None:
        for clock, halves in zip(
            [*clocks, *[None] * delay], [*corrupt, *[[3] * flits] * delay], strict=True
        ):
            drive(ctx, pair.encoder.i, clock)
            for k, half in enumerate(halves):
                ctx.set(pair.encoder.corrupt[k], half)
            seen.append((taken(ctx, pair.decoder.o, flit_format), ctx.get(pair.decoder.bad)))
            await ctx.tick()

    simulate(pair, bench, clocks=100)
    assert [sent for sent, _ in seen[delay - 1 : -1]] == clocks
    assert [bad for _, bad in seen[delay:]] == [
        sum((half != 0) << k for k, half in enumerate(halves)) if clock else 0
        for clock, halves in zip(clocks, corrupt, strict=True)
    ]


def test_injection_adds_the_constant_of_the_specification() -> None:
    encoder = FlitEncoder(flit_format=LATENCY_OPTIMISED, flits=1, pipeline=1)
    payload = random.Random(7).randbytes(250)
    made = int.from_bytes(make_flit(6, payload, 0x4001), "little")
    seen: dict[int, int] = {}

    async def bench(ctx: Any) -> None:
        drive(ctx, encoder.i, [(0x4001, payload)])
        for halves in range(4):
            ctx.set(encoder.corrupt[0], halves)
            await ctx.tick()
            seen[halves] = ctx.get(encoder.o.flits[0])

    simulate(encoder, bench, clocks=10)
    first, second = 0x138E << 8 * 126, 0x138E << 8 * 254
    assert seen == {0: made, 1: made ^ first, 2: made ^ second, 3: made ^ first ^ second}


def without_last_byte(flit_format: FlitFormat, half: int) -> FlitFormat:
    """A format in which the CRC of ``half`` leaves out the last byte of its message."""
    broken = object.__new__(FlitFormat)
    broken.__dict__.update(flit_format.__dict__)
    covered = list(flit_format.covered)
    covered[half] = covered[half][:-1]
    broken.__dict__["covered"] = tuple(covered)
    return broken


@both_formats
@pytest.mark.parametrize("half", [0, 1])
def test_a_byte_missing_from_a_message_is_noticed(flit_format: FlitFormat, half: int) -> None:
    broken = without_last_byte(flit_format, half)
    payload = random.Random(8).randbytes(broken.payload_bytes)
    encoder = FlitEncoder(flit_format=broken, flits=1, pipeline=1)
    assert encode(encoder, [[(0x4001, payload)]]) != [[make_flit(broken.number, payload, 0x4001)]]
    decoder = FlitDecoder(flit_format=broken, flits=1, pipeline=1)
    assert not finds_right_flits_right(decoder)


def test_a_decoder_that_checks_one_crc_is_noticed() -> None:
    edit = ("(received != right)", "(received[:16] != right[:16])")
    broken = variant(FlitDecoder, edit)(flit_format=STANDARD, flits=1, pipeline=2)
    bits = [8 * 127 + 7, 8 * 128, 8 * 252, 8 * 254]
    assert bits_that_are_missed(broken, bits) == {8 * 128, 8 * 254}


def test_a_decoder_that_checks_another_clock_is_noticed() -> None:
    edit = ("received, clocks)", "received, clocks - 1)")
    assert finds_right_flits_right(FlitDecoder(flit_format=STANDARD, flits=1, pipeline=2))
    broken = variant(FlitDecoder, edit)(flit_format=STANDARD, flits=1, pipeline=2)
    assert not finds_right_flits_right(broken)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"flits": 0, "pipeline": 1}, "at least 1, not 0"),
        ({"flits": 1, "pipeline": 0}, "1 to 3 clocks, not 0"),
        ({"flits": 1, "pipeline": 4}, "1 to 3 clocks, not 4"),
    ],
)
@pytest.mark.parametrize("codec", [FlitEncoder, FlitDecoder])
def test_wrong_parameters_are_refused(codec: Any, fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codec(flit_format=STANDARD, **fields)
