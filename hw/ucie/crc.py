"""The CRC of a half-flit: its plain reference, its matrix, and RTL that computes one a clock.

A message of up to 128 bytes starts at bit 0 of byte 0, is extended with zeros at its end to 1024
bits, and is divided by ``x^16 + x^15 + x^2 + 1``. Bit ``k`` of the CRC is the coefficient of
``x^k``; bits 7:0 are sent in the first byte.

Source: UCIe 3.0 chapter 3. The golden Verilog of that specification is not at hand here.
"""

from functools import cache

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

CRC_BITS = 16
MESSAGE_BITS = 1024
POLYNOMIAL = 0x8005
INJECTION = 0x138E  # what `lp_corrupt_crc` adds to a CRC, so that the receiver finds it wrong

# The polynomial is (x + 1) (x^15 + x + 1). Squaring k times gives x^(15 K) = x^K + 1 with K = 2^k,
# modulo the second factor: the first bits of a message move to two places further on.
_FACTOR = 0x8003
_FOLDS = (64, 32, 16, 8, 4)
_REGISTERS_AFTER: tuple[tuple[int, ...], ...] = ((), (), (16,), (32, 8))
MAX_PIPELINE = len(_REGISTERS_AFTER) - 1


def _shift(register: int, bit: int) -> int:
    """The register after one more bit of the message."""
    feedback = (register >> 15 ^ bit) & 1
    return (register << 1) & 0xFFFF ^ (POLYNOMIAL if feedback else 0)


def crc16(message: bytes) -> int:
    """CRC of at most 128 bytes, bit by bit."""
    if 8 * len(message) > MESSAGE_BITS:
        raise ValueError(f"a message has at most 128 bytes, not {len(message)}")
    register = 0
    for byte in message.ljust(MESSAGE_BITS // 8, b"\0"):
        for k in range(8):
            register = _shift(register, byte >> k & 1)
    return register


@cache
def crc_columns() -> tuple[int, ...]:
    """What each bit of the message adds to the CRC."""
    columns = [_shift(0, 1)]  # of the last bit
    while len(columns) < MESSAGE_BITS:
        columns.append(_shift(columns[-1], 0))
    return tuple(reversed(columns))


@cache
def crc_rows() -> tuple[int, ...]:
    """The bits of the message, as a mask, whose sum is each bit of the CRC."""
    columns = crc_columns()
    return tuple(
        sum((column >> k & 1) << place for place, column in enumerate(columns))
        for k in range(CRC_BITS)
    )


class Crc16(wiring.Component):
    """CRC of one message a clock.

    Contract: ``o`` is :func:`crc16` of ``i`` that came ``pipeline`` clocks before, bit 0 of the
    message lowest. Latency ``pipeline`` clocks, 0 being combinational; one message a clock, without
    stall. Levels of XOR of two bits between registers: 14, 11 and 10 for 1, 2 and 3 stages.

    The message is folded to 60 bits, then each bit of the CRC is the tree of its row of the matrix
    over those. Trees over the whole message would have 10 levels, but more than twice the gates
    (16 trees of some 512 inputs), and Verilator takes ten times as long for them.

    Members
    -------
    i : In(8 * message_bytes)
    o : Out(16)
    """

    def __init__(self, *, pipeline: int, message_bytes: int = MESSAGE_BITS // 8) -> None:
        if not 0 <= pipeline <= MAX_PIPELINE:
            raise ValueError(f"pipeline must be 0 to {MAX_PIPELINE} clocks, not {pipeline!r}")
        if not 1 <= message_bytes <= MESSAGE_BITS // 8:
            raise ValueError(f"a message has 1 to 128 bytes, not {message_bytes!r}")
        self._pipeline = pipeline
        super().__init__({"i": In(8 * message_bytes), "o": Out(CRC_BITS)})

    @property
    def pipeline(self) -> int:
        return self._pipeline

    def elaborate(self, platform) -> Module:
        m = Module()
        rest: Value = Signal(MESSAGE_BITS, name="message")
        m.d.comb += rest.eq(self.i)
        # A fold is right modulo one factor only. Each bit that it moves leaves the polynomial of
        # that factor behind, modulo the other: `odd` says whether they are odd in number.
        odd: Value = Const(0, 1)
        for fold in _FOLDS:
            rest, odd = _fold(m, rest, odd, fold)
            if fold in _REGISTERS_AFTER[self._pipeline]:
                rest, odd = _register(m, rest, f"rest{fold}"), _register(m, odd, f"odd{fold}")

        first = MESSAGE_BITS - len(rest)
        bits = [(rest & (row >> first)).xor() for row in crc_rows()]
        crc = Cat(*(bit ^ odd if _FACTOR >> k & 1 else bit for k, bit in enumerate(bits)))
        m.d["sync" if self._pipeline else "comb"] += self.o.eq(crc)
        return m


def _fold(m: Module, rest: Value, odd: Value, fold: int) -> tuple[Value, Value]:
    """Moves the first bits of ``rest`` on, until ``15 * fold`` are left."""
    while len(rest) > 15 * fold:
        moved = min(len(rest) - 15 * fold, 14 * fold)
        low = rest[:moved]
        folded = Signal(len(rest) - moved, name=f"folded{len(rest) - moved}")
        parity = Signal(name=f"parity{len(folded)}")
        m.d.comb += [
            folded.eq(rest[moved:] ^ low << (14 * fold - moved) ^ low << (15 * fold - moved)),
            parity.eq(odd ^ low.xor()),
        ]
        rest, odd = folded, parity
    return rest, odd


def _register(m: Module, value: Value, name: str) -> Value:
    register = Signal(len(value), name=name)
    m.d.sync += register.eq(value)
    return register
