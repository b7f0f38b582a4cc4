"""Packets of the sideband on the wire, in plain Python and in RTL."""

import random
from typing import Any

import pytest
from amaranth.hdl import Module, Signal

from hw.ucie.sideband_packet import (
    Completion,
    CompletionHeader,
    CompletionStatus,
    Message,
    MessageHeader,
    Opcode,
    ParityError,
    Request,
    RequestHeader,
    unpack,
    with_parity,
)
from tests.hw.pysim import simulate
from tests.hw.ucie.sideband import (
    COMPLETION,
    MESSAGE,
    OPCODES,
    REQUEST,
    checked,
    fields_of,
    header_of,
    random_packet,
)


@pytest.mark.parametrize(
    ("header", "places"),
    [(RequestHeader, REQUEST), (CompletionHeader, COMPLETION), (MessageHeader, MESSAGE)],
)
def test_every_field_is_where_the_specification_has_it(header, places):
    layout = header.as_shape()
    assert layout.size == 64
    found = [(n, f.offset, f.width) for n, f in layout if not n.startswith("reserved")]
    assert sorted(found) == sorted(places)


def test_opcodes_are_those_of_the_specification():
    assert {int(code): code.data_bits for code in Opcode} == OPCODES
    assert [code for code in Opcode if code.is_request] == list(Opcode)[:8]
    assert [code.name for code in Opcode if code.is_completion] == [
        "COMPLETION",
        "COMPLETION_32",
        "COMPLETION_64",
    ]
    assert [int(status) for status in CompletionStatus] == [0, 1, 4]


def random_kind(pick: random.Random) -> tuple[Request | Completion | Message, list]:
    opcode = Opcode(pick.choice(list(OPCODES)))
    data = pick.getrandbits(opcode.data_bits) if opcode.data_bits else 0
    ids = {"srcid": pick.randrange(8), "dstid": pick.randrange(8), "data": data}
    more = {"opcode": opcode, "tag": pick.randrange(32), "be": pick.randrange(256)}
    more |= {"ep": pick.randrange(2), "cr": pick.randrange(2)}
    if opcode.is_request:
        return Request(address=pick.getrandbits(24), **ids, **more), REQUEST
    if opcode.is_completion:
        return Completion(status=pick.randrange(8), **ids, **more), COMPLETION
    message = Message(
        msgcode=pick.randrange(256), subcode=pick.randrange(256), info=pick.getrandbits(16), **ids
    )
    return message, MESSAGE


def test_packets_are_packed_at_their_places_and_unpacked_again():
    pick = random.Random(1)
    for _ in range(1000):
        packet, places = random_kind(pick)
        header, data = packet.pack()
        values = fields_of(places, header)
        for name in values.keys() - {"cp", "dp"}:
            assert values[name] == getattr(packet, name)
        assert header == checked(header_of(places, **values), data)
        assert unpack(header, data) == packet


def test_every_single_wrong_bit_is_a_parity_error():
    packet = Request(
        opcode=Opcode.MEMORY_WRITE_64, tag=21, address=0xABCDE8, be=255, data=0x0123_4567_89AB_CDEF
    )
    header, data = packet.pack()
    for bit in range(64):
        with pytest.raises(ParityError):
            unpack(header ^ 1 << bit, data)
        with pytest.raises(ParityError, match="data parity"):
            unpack(header, data ^ 1 << bit)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tag": 32}, "tag has 5 bits and cannot be 32"),
        ({"address": -1}, "address has 24 bits"),
        ({"data": 1}, "MEMORY_READ_32 cannot carry the data 0x1"),
    ],
)
def test_values_that_do_not_fit_are_refused(change, words):
    values: dict[str, Any] = {"opcode": Opcode.MEMORY_READ_32, "tag": 0, "address": 0, "be": 15}
    with pytest.raises(ValueError, match=words):
        Request(**values | change).pack()


def test_unknown_opcodes_are_refused():
    with pytest.raises(ValueError, match="not a valid Opcode"):
        unpack(checked(0b00010, 0))


def test_parity_in_hardware_is_that_of_the_specification():
    m, pick = Module(), random.Random(2)
    header, payload, out = Signal(64), Signal(64), Signal(64)
    m.d.comb += out.eq(with_parity(header, payload))

    async def bench(ctx):
        for _ in range(200):
            right, data = random_packet(pick)
            ctx.set(header, right ^ pick.randrange(4) << 62)
            ctx.set(payload, data)
            await ctx.delay(1e-9)
            assert ctx.get(out) == right

    m.d.sync += Signal().eq(1)
    simulate(m, bench, clocks=400)
