"""Wide values moved by whole slots."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def slots_up(m: Module, name: str, value: Value, by: Value, *, slot_bits: int, most: int) -> Value:
    """``value`` moved up by ``by`` slots, ``most`` at most; zeros come in below.

    A step for each bit of ``by`` and no ``<<``: Amaranth looks for combinational cycles through
    each pair of bits that a shift might connect, which takes many minutes at full size.
    """
    moved = Signal(len(value), name=f"{name}_moved")
    m.d.comb += moved.eq(value)
    for bit in range(most.bit_length()):
        width = len(value) + slot_bits * min((2 << bit) - 1, most)
        step = Signal(width, name=f"{name}_moved_{bit}")
        m.d.comb += step.eq(Mux(by[bit], Cat(Const(0, slot_bits << bit), moved), moved))
        moved = step
    return moved
