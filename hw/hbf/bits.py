"""Sets of subarrays as bit vectors: one line of many, and the choice of one."""

from amaranth.hdl import Const, Module, Mux, Signal, Value


def line(when: Value, position: Value, width: int) -> Value:
    """A vector of ``width`` bits with bit ``position`` set, or none unless ``when``."""
    return Mux(when, Const(1, width) << position, Const(0, width))[:width]


def lowest(m: Module, lines: Value) -> Signal:
    """The position of the lowest set line, zero if none is set."""
    width = len(lines)
    one_hot, position = Signal(width), Signal(range(width))
    m.d.comb += one_hot.eq(lines & (~lines + 1))
    for bit in range(len(position)):
        mask = sum(1 << k for k in range(width) if k >> bit & 1)
        m.d.comb += position[bit].eq((one_hot & mask) != 0)
    return position
