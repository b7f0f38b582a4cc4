"""Groups in plain Python: known bytes, round trips, and what no sender may send."""

import random

import pytest

from tb.vip.group_codec import Beat, GroupDecoder, GroupEncoder, WrongGroup, decode, encode

SIZES = {"data_bytes": 64, "slots": 5}


def header(n: int) -> bytes:
    return bytes([n]) + bytes(15)


def marked(n: int) -> bytes:
    return bytes([n]) + bytes(14) + b"\x80"


def beat(n: int) -> Beat:
    return Beat(header(n), bytes(range(n, n + 64)))


def slots_of(group: bytes) -> list[bytes]:
    return [group[at : at + 16] for at in range(0, len(group), 16)]


def test_two_beats_and_a_message_byte_by_byte():
    groups = encode([header(9)], [beat(1), beat(100)], **SIZES)
    first, second, third = map(slots_of, groups)
    assert first[:3] == [marked(9), marked(1), bytes(range(1, 17))]
    assert second[:3] == [bytes(16), bytes(range(49, 65)), marked(100)]
    assert second[3:] == [bytes(range(100, 116)), bytes(range(116, 132))]
    assert third == [
        bytes(16),
        *(bytes(range(k, k + 16)) for k in (132, 148)),
        bytes(16),
        bytes(16),
    ]


@pytest.mark.parametrize("slots", [2, 4, 5, 6])
def test_what_is_encoded_is_decoded(slots):
    pick = random.Random(1)
    heads = [pick.getrandbits(127).to_bytes(16, "little") for _ in range(60)]
    beats = [Beat(head, pick.randbytes(64)) for head in heads[20:]]
    groups = encode(heads[:20], beats, data_bytes=64, slots=slots)
    assert len(groups) == -(-len(beats) * 5 // (slots - 1))
    assert decode(groups, data_bytes=64, slots=slots) == (heads[:20], beats)


def test_a_sender_that_does_not_wait_leaves_slots_empty():
    encoder, decoder = GroupEncoder(**SIZES), GroupDecoder(**SIZES)
    encoder.put_beat(beat(1))
    assert decoder.group(encoder.group()) == (None, []) and decoder.under_way
    assert not encoder.full and encoder.pending == 1
    assert decoder.group(encoder.group()) == (None, [beat(1)])
    assert encoder.idle and not decoder.under_way
    assert decoder.group(encoder.group()) == (None, [])


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ([header(1), *[bytes(16)] * 4], "no message"),
        ([bytes(16), header(1), *[bytes(16)] * 3], "slot 1"),
        ([bytes(16), bytes(16), marked(1), *[bytes(16)] * 2], "slot 2"),
        ([bytes(16)] * 4, "5 slots"),
        ([bytes(16), marked(1), *[bytes(16)] * 3], "does not end"),
    ],
)
def test_wrong_groups_are_refused(slots, words):
    with pytest.raises(WrongGroup, match=words):
        decode([b"".join(slots)], **SIZES)


def test_headers_and_beats_of_another_size_are_refused():
    encoder = GroupEncoder(**SIZES)
    with pytest.raises(ValueError, match="highest bit zero"):
        encoder.put_message(marked(1))
    with pytest.raises(ValueError, match="64 bytes, not 32"):
        encoder.put_beat(Beat(header(1), bytes(32)))
