"""Sets of subarrays as bit vectors: one line of many, and the choice of one."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.utils import ceil_log2


def line(when: Value, position: Value, width: int) -> Value:
    """A vector of ``width`` bits with bit ``position`` set, or none unless ``when``.

    A position beyond the vector sets none. Only as many bits of it are shifted by as ``width``
    needs: Amaranth looks for combinational cycles through each pair of bits that a shift might
    connect, 2^24 of them for a position of 12 bits.
    """
    position = Value.cast(position)
    bits = ceil_log2(width)
    beyond = position[bits:]
    if len(beyond):
        when = when & ~beyond.any()
    return Mux(when, Const(1, width) << position[:bits], Const(0, width))[:width]


def lowest(m: Module, lines: Value) -> Signal:
    """The position of the lowest set line, zero if none is set."""
    one_hot = Signal(len(lines))
    m.d.comb += one_hot.eq(lines & (~lines + 1))
    return position(m, one_hot)


def position(m: Module, one_hot: Value) -> Signal:
    """The position of the one set line, zero if none is set."""
    width = len(one_hot)
    number = Signal(range(width))
    for bit in range(len(number)):
        mask = sum(1 << k for k in range(width) if k >> bit & 1)
        m.d.comb += number[bit].eq((one_hot & mask) != 0)
    return number
