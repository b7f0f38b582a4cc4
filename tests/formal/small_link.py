# amaranth: UnusedElaboratable=no
"""A link end small enough for proofs: flits of eight bytes, slots of ten bits, a CRC of one bit.

Codec, retry, framing and credits move what they carry as a whole and look at a few bits of it, so
these are left and the others are few.
"""

from functools import partial
from types import SimpleNamespace

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.adapter import D2DAdapter
from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from hw.ucie.flit import FlitFormat
from hw.ucie.flit_codec import FlitDecoder, FlitEncoder
from hw.ucie.framing import LANES_PER_SLOT, GroupPort
from hw.ucie.link_end import LinkEnd
from hw.ucie.packer import GroupPacker
from hw.ucie.retry import RetryReceiver, RetrySender
from hw.ucie.unpacker import GroupUnpacker
from tests.formal.harness import before
from tests.formal.variants import variant

FLITS, ROWS, LAST = 2, 1, 15  # flits of a group, groups unacknowledged, last sequence number
FORMAT = FlitFormat(
    number=6,
    flit_bytes=8,
    name="small",
    header=range(0, 2),
    protocol=(range(2, 3), range(5, 6)),
    crc=(range(3, 5), range(6, 8)),
    covered=(range(0, 3), range(5, 6)),
)
SLOT_BITS, SLOTS, LANES = 10, 2, 2
COUNT_BITS = 2  # of a buffer of one place
Edits = tuple[tuple[str, str], ...]


class Parity(wiring.Component):
    """In place of ``Crc16``: whether a message has an odd number of ones."""

    def __init__(self, *, pipeline: int, message_bytes: int) -> None:
        self._pipeline = pipeline
        super().__init__({"i": In(8 * message_bytes), "o": Out(16)})

    def elaborate(self, platform) -> Module:
        m = Module()
        value: Value = Signal(name="odd")
        m.d.comb += value.eq(self.i.xor())
        for _ in range(self._pipeline):
            value = before(m, value)
        m.d.comb += self.o.eq(value)
        return m


def wrong(flit: Value) -> Value:
    """Whether a CRC of ``flit`` is not that of its message."""

    def part(at: range) -> Value:
        return flit[8 * at.start : 8 * at.stop]

    halves = zip(FORMAT.covered, FORMAT.crc, strict=True)
    return sum(part(crc) != part(message).xor() for message, crc in halves) != 0


class Header(data.Struct):
    """What a link end looks at in a header, where a CREDIT message has it, too."""

    message_class: 3
    content: 4
    spare: 3


class Request(wiring.Signature):
    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "header": Out(Header), "credit": In(1)})


class Beat(wiring.Signature):
    """A beat of lanes of half a slot, as a stream, or without ``ready``, or as a port."""

    def __init__(self, lanes: int, **more) -> None:
        lane = Out(SLOT_BITS // LANES_PER_SLOT).array(lanes)
        super().__init__({"valid": Out(1), "header": Out(Header), "lanes": lane, **more})


def credit_message(*, channels: int, bits: int, epoch_bits: int) -> data.StructLayout:
    counts = data.ArrayLayout(bits, channels)
    return data.StructLayout(
        {"message_class": 3, "epoch": epoch_bits, "freed": counts, "received": counts, "spare": 2}
    )


def adapter(*edits: tuple[str, str], receiver: Edits = ()) -> type:
    """The D2D adapter with small sequence numbers and one bit for a CRC."""
    return variant(
        D2DAdapter,
        *edits,
        SEQUENCE_LAST=LAST,
        FlitEncoder=variant(FlitEncoder, Crc16=Parity),
        FlitDecoder=variant(FlitDecoder, Crc16=Parity),
        RetrySender=partial(RetrySender, last=LAST),
        RetryReceiver=partial(variant(RetryReceiver, *receiver), last=LAST),
    )


def link_end(
    *edits: tuple[str, str], d2d: type | None = None, unpacker: Edits = ()
) -> wiring.Component:
    """One that sends and receives requests and receives beats, each in a buffer of one place."""
    framing = {"SLOT_BITS": SLOT_BITS, "FILLED": SLOT_BITS - 1}
    small = {"credit_message_layout": credit_message, "check_ledger": lambda *sizes: None}
    ledger = {"bits": COUNT_BITS, "epoch_bits": 1}
    message = wiring.Signature({"valid": Out(1), "header": Out(Header)})
    end = variant(
        LinkEnd,
        *edits,
        Header=Header,
        RequestPort=Request,
        DataPort=lambda lanes: Beat(lanes, credit=In(1), hold=In(1)),
        D2DAdapter=d2d or adapter(),
        GroupPacker=variant(
            GroupPacker,
            **framing,
            Header=Header,
            BeatStream=lambda lanes: Beat(lanes, ready=In(1)),
        ),
        GroupUnpacker=variant(
            GroupUnpacker,
            *unpacker,
            **framing,
            MessagePort=lambda: message,
            BeatPort=Beat,
            GroupPort=variant(GroupPort, SLOT_BITS=SLOT_BITS),
        ),
        CreditGiver=partial(variant(CreditGiver, **small), **ledger, period=1, refresh=None),
        CreditTaker=partial(variant(CreditTaker, **small), **ledger),
    )
    channel = end.__init__.__globals__["Channel"]
    shape = SimpleNamespace(
        flit_format=FORMAT,
        flits=FLITS,
        payload_bits=SLOT_BITS * SLOTS,
        pipeline=1,
        rows=ROWS,
        modules=1,
        lanes=LANES,
        slots=SLOTS,
        flush=0,
    )
    return end(
        shape=shape,
        sends=(channel(name="request", depth=1),),
        receives=(channel(name="reply", depth=1), channel(name="data", depth=1, lanes=LANES)),
    )
