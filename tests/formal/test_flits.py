# amaranth: UnusedElaboratable=no
"""Encoder and decoder of flits together: nothing is lost, and only wrong CRCs are bad.

The flits here are of 16 bytes, laid out like those of 256: bytes go their way whatever they hold,
and a wrong layout of 256 bytes is found in simulation. The codec does not care what a CRC is, as
long as both ends take it of the same message, so the CRC here is one word of the message, any one:
ends that agree about each word agree about whatever is computed of all.

Neither block has a loop: what comes out depends on what came in a known number of clocks before,
and on nothing older. So runs of a few clocks from reset stand for runs of any length.
"""

import pytest
from amaranth.hdl import Assert, Cat, Cover, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.flit import FlitFormat
from hw.ucie.flit_codec import FlitDecoder, FlitEncoder
from hw.ucie.flit_header import FlitHeader
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.variants import variant

BYTES = 16
LIKE_6 = FlitFormat(
    number=6,
    flit_bytes=BYTES,
    name="like format 6",
    header=range(0, 2),
    protocol=(range(2, 4), range(4, 6), range(8, 12), range(12, 14)),
    crc=(range(6, 8), range(14, 16)),
    covered=(range(0, 6), range(8, 14)),
)
LIKE_3 = FlitFormat(
    number=3,
    flit_bytes=BYTES,
    name="like format 3",
    header=range(8, 10),
    protocol=(range(0, 8), range(10, 11)),
    reserved=(range(11, 12),),
    crc=(range(12, 14), range(14, 16)),
    covered=(range(0, 7), range(7, 11)),
)


def word_instead_of_crc(word: Signal) -> type:
    """Stands in for ``Crc16``: the 16 bits of the message that ``word`` chooses."""

    class Word(wiring.Component):
        def __init__(self, *, pipeline: int, message_bytes: int) -> None:
            self._pipeline = pipeline
            super().__init__({"i": In(8 * message_bytes), "o": Out(16)})

        def elaborate(self, platform) -> Module:
            m = Module()
            value: Value = Signal(16, name="chosen")
            m.d.comb += value.eq(self.i.word_select(word, 16))
            for _ in range(self._pipeline):
                value = before(m, value)
            m.d.comb += self.o.eq(value)
            return m

    return Word


class Pair(Properties):
    """Any payload and header, with and without corrupted CRCs, goes through both blocks."""

    def __init__(
        self, *, flit_format: FlitFormat, pipeline: int, edits: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._word = Signal(2)
        crc = word_instead_of_crc(self._word)
        sizes = {"flit_format": flit_format, "flits": 1, "pipeline": pipeline}
        self._encoder = variant(FlitEncoder, Crc16=crc)(**sizes)
        self._decoder = variant(FlitDecoder, *edits, Crc16=crc)(**sizes)
        self._pipeline = pipeline
        super().__init__(
            {
                "valid": In(1),
                "header": In(FlitHeader),
                "payload": In(8 * flit_format.payload_bytes),
                "corrupt": In(2),
            }
        )

    @property
    def depth(self) -> int:
        """Clocks from reset until a second flit is out and judged."""
        return 2 * self._pipeline + 3

    def describe(self, m: Module) -> None:
        m.submodules.encoder = encoder = self._encoder
        m.submodules.decoder = decoder = self._decoder
        wiring.connect(m, encoder.o, decoder.i)
        m.d.comb += [
            self._word.eq(constant(m, "word", 2)),
            encoder.i.valid.eq(self.valid),
            encoder.i.headers[0].eq(self.header),
            encoder.i.payloads[0].eq(self.payload),
            encoder.corrupt[0].eq(self.corrupt),
        ]

        sent: Value = Cat(self.header.as_value(), self.payload)
        valid: Value = self.valid
        wrong: Value = self.valid & self.corrupt.any()
        for _ in range(2 * self._pipeline - 1):
            sent, valid, wrong = before(m, sent), before(m, valid), before(m, wrong)
        received = Cat(decoder.o.headers[0].as_value(), decoder.o.payloads[0])
        judged = before(m, wrong)
        m.d.comb += [
            Assert(decoder.o.valid == valid, "comes out in its clock"),
            Assert(~valid | (received == sent), "header and payload unharmed"),
            Assert(decoder.bad[0] == judged, "bad exactly if corrupted"),
            Cover(valid & judged, "a flit after a bad one"),
            Cover(valid & ~judged & before(m, valid), "two good flits"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("pipeline", [1, 2])
@pytest.mark.parametrize("flit_format", [LIKE_3, LIKE_6], ids=lambda f: f.name)
def test_pair(flit_format: FlitFormat, pipeline: int) -> None:
    label = f"like format {flit_format.number}, {pipeline} stages"
    for mode in ("bmc", "cover"):
        pair = Pair(flit_format=flit_format, pipeline=pipeline)
        prove(pair, mode=mode, depth=pair.depth, label=label)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("edit", "violated"),
    [
        # Only here is the message of a CRC one byte further on.
        (("_bytes(flit, message)", "_bytes(flit, range(message[0] + 1, message[-1] + 2))"), "bad"),
        # The last bytes of the payload come from elsewhere.
        (("in self._format.protocol)", "in (range(8), range(11, 12)))"), "unharmed"),
        # The payload is that of the clock after.
        (("payload, clocks - 1)", "payload, clocks - 2)"), "unharmed"),
    ],
    ids=["wrong message", "wrong byte", "wrong clock"],
)
def test_wrong_decoders_are_found(edit: tuple[str, str], violated: str) -> None:
    pair = Pair(flit_format=LIKE_3, pipeline=2, edits=(edit,))
    with pytest.raises(Counterexample, match=violated):
        prove(pair, mode="bmc", depth=pair.depth)
