# amaranth: UnusedElaboratable=no
"""Packer and unpacker together: every message and every beat comes out once and in order.

A slot here is of 4 bits, the highest of which says that a header is there, and a lane of 2. The
blocks move slots as a whole and look at no other bit, so what holds of these holds of all widths.
"""

import pytest
from amaranth.hdl import Assert, Cat, Cover, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.framing import LANES_PER_SLOT, GroupPort
from hw.ucie.packer import GroupPacker
from hw.ucie.unpacker import GroupUnpacker
from tests.formal.harness import Counterexample, Properties, before, prove
from tests.formal.order import in_order
from tests.formal.variants import variant

SLOT_BITS = 4


class SmallHeader(data.Struct):
    content: 3
    spare: 1


class SmallBeatStream(wiring.Signature):
    def __init__(self, lanes: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "header": Out(SmallHeader),
                "lanes": Out(SLOT_BITS // LANES_PER_SLOT).array(lanes),
            }
        )


class SmallBeatPort(wiring.Signature):
    def __init__(self, lanes: int) -> None:
        members = SmallBeatStream(lanes).members
        super().__init__({name: members[name] for name in ("valid", "header", "lanes")})


class SmallMessagePort(wiring.Signature):
    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "header": Out(SmallHeader)})


SMALL = {"SLOT_BITS": SLOT_BITS, "FILLED": SLOT_BITS - 1}


def packer(*edits: tuple[str, str]) -> type:
    return variant(GroupPacker, *edits, **SMALL, Header=SmallHeader, BeatStream=SmallBeatStream)


def unpacker(*edits: tuple[str, str]) -> type:
    ports = {"BeatPort": SmallBeatPort, "MessagePort": SmallMessagePort}
    return variant(
        GroupUnpacker, *edits, **SMALL, **ports, GroupPort=variant(GroupPort, SLOT_BITS=SLOT_BITS)
    )


class Framing(Properties):
    """A packer whose groups go into an unpacker; inputs, stalls and clears of both are free.

    ``beats`` chooses what is followed: beats, of which up to ``limit`` are inside, or messages.
    """

    def __init__(
        self,
        *,
        lanes: int,
        slots: int,
        beats: bool,
        limit: int,
        tx: type | None = None,
        rx: type | None = None,
    ) -> None:
        self._beats, self._limit = beats, limit
        self._packer = (tx or packer())(lanes=lanes, slots=slots, flush=1)
        self._unpacker = (rx or unpacker())(lanes=lanes, slots=slots)
        content = {"message": In(SLOT_BITS - 1), "header": In(SLOT_BITS - 1)}
        lane_bits = SLOT_BITS // LANES_PER_SLOT
        names = ("message_valid", "beat_valid", "ready", "pick", "clear")
        super().__init__(
            {name: In(1) for name in names} | content | {"data": In(lane_bits * lanes)}
        )

    def describe(self, m: Module) -> None:
        m.submodules.packer, m.submodules.unpacker = tx, rx = self._packer, self._unpacker
        m.d.comb += [
            tx.message.valid.eq(self.message_valid),
            tx.message.payload.eq(self.message),
            tx.beat.valid.eq(self.beat_valid),
            tx.beat.header.eq(self.header),
            Cat(*tx.beat.lanes).eq(self.data),
            tx.o.ready.eq(self.ready),
            rx.i.valid.eq(tx.o.valid & tx.o.ready),
            rx.i.payload.eq(tx.o.payload),
            tx.clear.eq(self.clear),
            rx.clear.eq(self.clear),
        ]
        cleared, forgotten = before(m, self.clear), Signal()
        with m.If(self.clear):
            m.d.sync += forgotten.eq(tx.o.valid)  # a group was there to forget
        stalled = before(m, tx.o.valid & ~tx.o.ready & ~self.clear)
        if self._beats:
            put, take = tx.beat.valid & tx.beat.ready, rx.beat.valid
            sent = Cat(self.header, self.data)
            received = Cat(rx.beat.header.as_value()[:-1], *rx.beat.lanes)
            spare = rx.beat.header.spare
        else:
            put, take = tx.message.valid & tx.message.ready, rx.message.valid
            sent, received = self.message, rx.message.header.as_value()[:-1]
            spare = rx.message.header.spare
        in_order(
            m,
            pick=self.pick,
            put=put,
            sent=sent,
            take=take,
            received=received,
            limit=self._limit,
            clear=self.clear,
        )
        m.d.comb += [
            Assert(~(cleared & (tx.o.valid | take)), "what was taken before is forgotten"),
            Cover(take & forgotten, "goes on behind it"),
            Assert(~take | (spare == 0), "the mark is taken off"),
            Assert(~stalled | tx.o.valid, "a group stays"),
            Assert(~stalled | (tx.o.payload == before(m, tx.o.payload)), "a group stays as it is"),
            Cover(take & put, "one in as another comes out"),
        ]


# Lanes, slots, and the most beats inside: one begins and one ends in the group on `o` or on the
# way, and where more than half of a beat fits into a group, one more can be taken meanwhile.
SIZES = [(2, 2, 2), (2, 3, 2), (4, 3, 2), (8, 4, 2), (8, 5, 3)]


@pytest.mark.formal
@pytest.mark.parametrize(("lanes", "slots", "limit"), SIZES)
@pytest.mark.parametrize("beats", [True, False], ids=["beats", "messages"])
def test_everything_comes_out_once_and_in_order(
    lanes: int, slots: int, limit: int, beats: bool
) -> None:
    limit = limit if beats else 2
    label = f"{'beats' if beats else 'messages'}, {lanes} lanes, {slots} slots"
    for mode in ("prove", "cover"):
        pair = Framing(lanes=lanes, slots=slots, beats=beats, limit=limit)
        prove(pair, mode=mode, depth=16, label=label)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("end", "beats", "old", "new"),
    [
        ("packer", True, "Mux(full, kept - region, 0)", "0"),
        ("packer", True, "self.beat.ready.eq(free & ~full)", "self.beat.ready.eq(free)"),
        ("packer", False, "self.message.ready.eq(free & leave)", "self.message.ready.eq(free)"),
        ("packer", True, "with m.If(free & leave):\n            m.d.sync += payload",
         "with m.If(leave):\n            m.d.sync += payload"),
        ("unpacker", True, "(known >= beat_slots)", "(known > beat_slots)"),
        ("unpacker", True, "ends & ~begins", "0"),
        ("unpacker", True, "carries.eq(data[FILLED])", "carries.eq(1)"),
        ("unpacker", False, "take & slot[FILLED]", "slot[FILLED]"),
        # Clears that leave something: a group, the rest of a beat, an offer that is taken.
        ("packer", False, "[self.o.valid.eq(0), kept", "[kept"),
        ("packer", True, "kept.eq(0), pause", "pause"),
        ("packer", False, "(~self.o.valid | self.o.ready) & ~self.clear",
         "(~self.o.valid | self.o.ready)"),
        ("unpacker", True, "with m.If(self.clear):", "with m.If(0):"),
        ("unpacker", False, "take.eq(self.i.valid & ~self.clear)", "take.eq(self.i.valid)"),
    ],
)  # fmt: skip
def test_broken_ends_are_found(end: str, beats: bool, old: str, new: str) -> None:
    broken = {"tx": packer((old, new))} if end == "packer" else {"rx": unpacker((old, new))}
    with pytest.raises(Counterexample):
        prove(Framing(lanes=8, slots=4, beats=beats, limit=2, **broken), mode="bmc", depth=14)
