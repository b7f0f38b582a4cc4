"""Packets of the sideband over a narrow bus: the words of the cfg bus, or the serial wire."""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.sideband_packet import (
    CONTROL_PARITY_BIT,
    DATA_PARITY_BIT,
    HEADER_BITS,
    PacketPort,
    SidebandPacket,
    control_parity,
    with_parity,
)

GAP_UI = 32  # the wire is low for so long after each 64 bits
WIDTHS = (8, 16, 32)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How words follow each other.

    Attributes:
        word_clocks: Clocks that a word takes.
        gap_clocks: Quiet clocks after a header and after its data, unless performant.
        padded: Data of 32 bits goes as 64, the upper half zero.
    """

    word_clocks: int = 1
    gap_clocks: int = 0
    padded: bool = False

    def __post_init__(self) -> None:
        if self.word_clocks < 1:
            raise ValueError(f"a word takes at least one clock, not {self.word_clocks!r}")
        if self.gap_clocks < 0:
            raise ValueError(f"gap_clocks must not be negative, not {self.gap_clocks!r}")


CFG_BUS = Pace()  # one word a clock, packets without gaps


def wire_pace(width: int, *, lclk_mhz: int = 2000, wire_mhz: int = 800) -> Pace:
    """The pace of the serial wire, whose bits go ``width`` at a time.

    Raises:
        ValueError: a word does not take a whole number of clocks.
    """
    word, gap = (Fraction(ui * lclk_mhz, wire_mhz) for ui in (width, GAP_UI))
    if word.denominator != 1 or gap.denominator != 1:
        raise ValueError(f"{width} UI are {word} clocks, which is no whole number")
    return Pace(word_clocks=int(word), gap_clocks=int(gap), padded=True)


class SidebandBus(wiring.Signature):
    """``lp_cfg`` or ``pl_cfg``: a word of ``cfg`` in each clock of ``vld``, low bits first."""

    def __init__(self, width: int) -> None:
        if width not in WIDTHS:
            raise ValueError(f"width must be one of {WIDTHS}, not {width!r}")
        super().__init__({"vld": Out(1), "cfg": Out(width)})


class SidebandTransmitter(wiring.Component):
    """Sends packets word by word, their parities put in.

    Contract: header and data of a packet leave in consecutive words, ``word_clocks`` each, and a
    gap after each of both unless ``performant``; ``vld`` marks the last clock of a word's time, so
    that what comes out at the other end comes when its last bit would. Data that the opcode does
    not announce is not sent.

    Latency: ``word_clocks`` from a transfer on ``i`` to the first ``vld``. Throughput: the next
    packet is accepted in the clock of the last word, or after its gap. Source: UCIe 3.0 chapters 4
    and 7.

    Members
    -------
    i : stream of packets
    performant : In: no gaps, as negotiated
    bus : Out
    """

    def __init__(self, *, width: int = 32, pace: Pace = CFG_BUS) -> None:
        self._width, self._pace = width, pace
        super().__init__(
            {
                "i": In(stream.Signature(SidebandPacket)),
                "performant": In(1),
                "bus": Out(SidebandBus(width)),
            }
        )

    @property
    def width(self) -> int:
        return self._width

    @property
    def pace(self) -> Pace:
        return self._pace

    def elaborate(self, platform) -> Module:
        m = Module()
        width, pace = self._width, self._pace
        words = HEADER_BITS // width
        left = Signal(range(2 * words + 1))
        data_words = Signal(range(words + 1))  # that follow the header
        rest = Signal(2 * HEADER_BITS, reset_less=True)
        wait = Signal(range(pace.word_clocks + pace.gap_clocks + 1))  # clocks till the word is out
        gap = Signal.like(wait)
        emit = Signal()
        m.d.comb += [
            gap.eq(Mux(self.performant, 0, pace.gap_clocks)),
            emit.eq((left != 0) & (wait == 0)),
            self.bus.vld.eq(emit),
            self.bus.cfg.eq(rest[:width]),
            self.i.ready.eq(Mux(left == 0, wait <= 1, emit & (left == 1) & (gap == 0))),
        ]
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(emit):
            m.d.sync += [left.eq(left - 1), rest.eq(rest >> width)]
            with m.If(left == 1):
                m.d.sync += wait.eq(gap)
            with m.Else():
                header_ends = left == data_words + 1
                m.d.sync += wait.eq(pace.word_clocks - 1 + Mux(header_ends, gap, 0))

        header, given = self.i.payload.header, self.i.payload.data
        sent, follow = Signal(HEADER_BITS), Signal(range(words + 1))
        has_data, wide = header[0], header[3]
        m.d.comb += [
            sent.eq(Cat(Mux(has_data, given[:32], 0), Mux(has_data & wide, given[32:], 0))),
            follow.eq(Mux(has_data, words if pace.padded else Mux(wide, words, words // 2), 0)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                rest.eq(Cat(with_parity(header, sent), sent)),
                data_words.eq(follow),
                left.eq(words + follow),
                wait.eq(pace.word_clocks - 1),
            ]
        return m


class SidebandReceiver(wiring.Component):
    """Puts the words of a bus together to packets and checks their parities.

    Contract: a packet whose parities are right shows at ``o``; others are dropped and reported. A
    header of wrong parity may lie about its length, so all is dropped up to the first pause that is
    longer than any inside a packet. Such a pause inside a packet drops that packet.

    Latency: ``o`` and the errors come one clock after the last word. Back-pressure: none. Source:
    UCIe 3.0 chapter 7; the way back into step is a choice of this design.

    Members
    -------
    bus : In
    o : Out: packets
    control_error : Out: pulse, a header had a wrong parity
    data_error : Out: pulse, the data had
    framing_error : Out: pulse, a packet broke off
    """

    def __init__(self, *, width: int = 32, pace: Pace = CFG_BUS) -> None:
        self._width, self._pace = width, pace
        super().__init__(
            {
                "bus": In(SidebandBus(width)),
                "o": Out(PacketPort()),
                "control_error": Out(1),
                "data_error": Out(1),
                "framing_error": Out(1),
            }
        )

    @property
    def width(self) -> int:
        return self._width

    @property
    def pace(self) -> Pace:
        return self._pace

    def elaborate(self, platform) -> Module:
        m = Module()
        width, pace = self._width, self._pace
        words = HEADER_BITS // width
        longest = pace.word_clocks + pace.gap_clocks  # from word to word inside a packet
        header, payload = (
            Signal(HEADER_BITS, name=name, reset_less=True) for name in ("header", "payload")
        )
        count = Signal(range(2 * words))  # words of the packet that have come
        following = Signal(range(words + 1))  # words of data, once the header is there
        quiet = Signal(range(longest + 1), init=longest)
        lost, done = Signal(), Signal()

        whole = Cat(header[width:], self.bus.cfg)
        announced, last, broken = Signal(range(words + 1)), Signal(), Signal()
        with m.If(whole[0]):
            short = 0 if pace.padded else ~whole[3]
            m.d.comb += announced.eq(Mux(short, words // 2, words))
        m.d.comb += [
            last.eq(Mux(count < words, announced == 0, count == words - 1 + following)),
            broken.eq(control_parity(whole) != whole[CONTROL_PARITY_BIT]),
        ]
        m.d.sync += [done.eq(0), self.control_error.eq(0), self.framing_error.eq(0)]
        with m.If(self.bus.vld):
            m.d.sync += [quiet.eq(0), count.eq(count + 1)]
            with m.If(lost):
                m.d.sync += count.eq(0)
            with m.Elif(count < words):
                m.d.sync += header.eq(whole)
                with m.If(count == words - 1):
                    m.d.sync += [following.eq(announced), payload.eq(0)]
                    with m.If(broken):
                        m.d.sync += [self.control_error.eq(1), lost.eq(1), count.eq(0)]
                    with m.Elif(last):
                        m.d.sync += [done.eq(1), count.eq(0)]
            with m.Else():
                m.d.sync += payload.eq(Cat(payload[width:], self.bus.cfg))
                with m.If(last):
                    m.d.sync += [done.eq(1), count.eq(0)]
        with m.Elif(quiet != longest):
            m.d.sync += quiet.eq(quiet + 1)
            with m.If(quiet == longest - 1):
                m.d.sync += [lost.eq(0), self.framing_error.eq(count != 0), count.eq(0)]

        short = (following == words // 2) & (following != 0)
        right = Signal()
        m.d.comb += [
            self.o.packet.header.eq(header),
            self.o.packet.data.eq(Mux(short, payload[32:], payload)),
            right.eq(payload.xor() == header[DATA_PARITY_BIT]),
            self.o.valid.eq(done & right),
            self.data_error.eq(done & ~right),
        ]
        return m
