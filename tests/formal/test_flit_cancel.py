# amaranth: UnusedElaboratable=no
"""A cancelled group: all of it is dropped, nothing else is, and nothing of it is ever seen."""

import pytest
from amaranth.hdl import Assert, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from hw.ucie.flit_header import FlitHeader, FlitType, sequence_of
from tests.formal.harness import Counterexample, Properties, before, prove
from tests.formal.small_link import (
    FLITS,
    FORMAT,
    LAST,
    SLOT_BITS,
    SLOTS,
    adapter,
    link_end,
    wrong,
)

FLIT_BITS = 8 * FORMAT.flit_bytes
BAD = "bad = decoder.bad.any()"  # a line of the adapter
LATE = "late = Signal()\n        m.d.sync += late.eq(decoder.bad.any())"


class Cancelled(Properties):
    """An adapter that receives anything: what goes up is what a count of its own lets through."""

    def __init__(self, d2d: type | None = None) -> None:
        self._adapter = (d2d or adapter())(
            flit_format=FORMAT, flits=FLITS, payload_bits=SLOT_BITS * SLOTS, rows=1
        )
        super().__init__(
            {
                "receiving": In(1),
                "clear": In(1),
                "valid": In(1),
                "flits": In(FLIT_BITS).array(FLITS),
            }
        )

    def describe(self, m: Module) -> None:
        m.submodules.adapter = d2d = self._adapter
        m.d.comb += [
            d2d.receiving.eq(self.receiving),
            d2d.clear.eq(self.clear),
            d2d.rx.valid.eq(self.valid),
            *(to.eq(flit) for to, flit in zip(d2d.rx.flits, self.flits, strict=True)),
        ]
        comes, struck = Signal(), Signal()
        first = FlitHeader(self.flits[0][:16])
        payload = Signal(SLOT_BITS * SLOTS)
        expected = Signal(range(LAST + 1), init=1)
        parts = [flit[8 * p.start : 8 * p.stop] for flit in self.flits for p in FORMAT.protocol]
        m.d.comb += [
            comes.eq(self.valid & self.receiving & ~self.clear),
            struck.eq(Cat(*(wrong(flit) for flit in self.flits)).any()),
            payload.eq(Cat(*parts)),
        ]
        whole = before(m, comes & ~struck)
        carries = before(m, (first.protocol == 1) & (first.type == FlitType.NORMAL))
        number = before(m, sequence_of(first)[: len(expected)])
        goes_up = whole & carries & (number == expected)
        following = expected + FLITS
        with m.If(self.clear):
            m.d.sync += expected.eq(1)
        with m.Elif(goes_up):
            m.d.sync += expected.eq(Mux(following > LAST, following - LAST, following))
        m.d.comb += [
            Assert(d2d.cancel == before(m, comes & struck), "cancelled exactly if a CRC is wrong"),
            Assert(d2d.o.valid == goes_up, "goes up exactly if whole and in turn"),
            Assert(~goes_up | (d2d.o.payload == before(m, payload)), "as it came"),
            Cover(d2d.o.valid & before(m, d2d.cancel), "the group behind a cancelled one"),
            Cover(d2d.cancel & before(m, d2d.o.valid), "a cancelled one behind a group"),
            Cover(d2d.o.valid & (expected == 1) & before(m, before(m, d2d.o.valid)), "wraps"),
        ]


class Unseen(Properties):
    """Two link ends, alike but for the groups that are cancelled: to one of them these never come.

    All that is above the flits is then the same in both, in the same clock, for ever: what goes up,
    the credits of what was sent, what is told of the own buffers, what may be forgotten because it
    was acknowledged. Only answers differ: one end asks for the group again.
    """

    def __init__(self, end=link_end) -> None:
        self._ends = [end(), end()]
        flags = ("active", "receiving", "clear", "put", "free_reply", "free_data", "valid")
        super().__init__({name: In(1) for name in flags} | {"flits": In(FLIT_BITS).array(FLITS)})

    def describe(self, m: Module) -> None:
        struck = Signal()
        m.d.comb += struck.eq(Cat(*(wrong(flit) for flit in self.flits)).any())
        m.submodules.real, m.submodules.ideal = real, ideal = self._ends
        for end, valid in ((real, self.valid), (ideal, self.valid & ~struck)):
            m.d.comb += [
                end.active.eq(self.active),
                end.receiving.eq(self.receiving),
                end.clear.eq(self.clear),
                end.rx.valid.eq(valid),
                *(to.eq(flit) for to, flit in zip(end.rx.flits, self.flits, strict=True)),
                end.tx_request.valid.eq(self.put),
                end.rx_reply.credit.eq(self.free_reply),
                end.rx_data.credit.eq(self.free_data),
            ]

        def same(name: str, *values: tuple[Value, Value]) -> None:
            for k, (a, b) in enumerate(values):
                m.d.comb += Assert(a == b, f"{name} {k}" if k else name)

        reply, data = (real.rx_reply, ideal.rx_reply), (real.rx_data, ideal.rx_data)
        same("messages", (reply[0].valid, reply[1].valid))
        same("beats", (data[0].valid, data[1].valid))
        for a, b, name in ((*reply, "header"), (*data, "header of a beat")):
            m.d.comb += Assert(
                ~a.valid | (a.header.as_value() == b.header.as_value()), f"the {name}"
            )
        lanes = zip(data[0].lanes, data[1].lanes, strict=True)
        for k, (a, b) in enumerate(lanes):
            m.d.comb += Assert(~data[0].valid | (a == b), f"lane {k}")
        same("credits", (real.tx_request.credit, ideal.tx_request.credit))
        same("both at rest", (real.at_rest, ideal.at_rest))
        same("both send", (real.tx.valid, ideal.tx.valid))
        for k, (a, b) in enumerate(zip(real.tx.flits, ideal.tx.flits, strict=True)):
            heads = [FlitHeader(flit[:16]) for flit in (a, b)]
            for part in FORMAT.protocol:
                at = slice(8 * part.start, 8 * part.stop)
                m.d.comb += Assert(a[at] == b[at], f"payload {k} from {part.start} on")
            for field in ("protocol", "type", "sequence_low"):
                ours, theirs = (getattr(head, field) for head in heads)
                m.d.comb += Assert(ours == theirs, f"{field} of flit {k}")
        m.d.comb += [
            Cover(real.cancel & real.tx_request.credit, "a credit beside a cancelled group"),
            Cover(data[0].valid & real.cancel, "a beat beside one"),
            Cover(reply[0].valid & real.cancel, "a message beside one"),
        ]


@pytest.mark.formal
def test_exactly_the_groups_with_a_wrong_crc_are_dropped() -> None:
    prove(Cancelled())
    prove(Cancelled(), mode="cover", depth=24)


@pytest.mark.formal
def test_nothing_of_a_cancelled_group_is_seen() -> None:
    prove(Unseen())
    prove(Unseen(), mode="cover", depth=24)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("edits", "receiver", "violated"),
    [
        # Of one flit only, though all flits of the clock must go.
        ([(BAD, "bad = decoder.bad[0]")], [], "exactly_if"),
        # In the clock after, when the group has gone up.
        ([(BAD, f"{LATE}\n        bad = late")], [], "exactly_if"),
        ([], [("self.valid & ~self.bad", "self.valid")], "goes_up"),
        # The group behind a cancelled one goes, too.
        ([(BAD, f"{BAD}\n        {LATE}"),
          ("receiver.valid.eq(came)", "receiver.valid.eq(came & ~late)")], [], "goes_up"),
    ],
    ids=["one flit", "a clock late", "none", "the next group"],
)  # fmt: skip
def test_wrong_cancels_are_found(edits: list, receiver: list, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Cancelled(adapter(*edits, receiver=receiver)), mode="bmc", depth=10)


@pytest.mark.formal
@pytest.mark.parametrize(
    "broken",
    [
        {"d2d": adapter(("came & ~bad & answers", "came & answers"))},
        {"d2d": adapter(receiver=[("self.valid & ~self.bad", "self.valid")])},
        {"d2d": adapter(("self.o.valid.eq(receiver.take)", "self.o.valid.eq(came)"))},
        {"unpacker": [("take & slot[FILLED]", "slot[FILLED]")]},
        {"unpacker": [("with m.If(take):", "with m.If(1):")]},
        {"edits": [("message.valid & is_credit", "is_credit")]},
    ],
    ids=["answer", "group", "all that comes", "message", "rest of a beat", "credit"],
)
def test_what_shows_of_a_cancelled_group_is_found(broken: dict) -> None:
    blocks = {name: of for name, of in broken.items() if name != "edits"}
    edits = broken.get("edits", ())
    with pytest.raises(Counterexample):
        prove(Unseen(lambda: link_end(*edits, **blocks)), mode="bmc", depth=16)
