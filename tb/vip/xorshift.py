"""Random bits in hardware: Marsaglia, "Xorshift RNGs", 2003."""

from amaranth.hdl import Module, Signal

SHIFTS = {32: (13, 17, 5), 64: (13, 7, 17)}  # left, right, left
GOLDEN = {32: 0x9E3779B9, 64: 0x9E3779B97F4A7C15}  # of the golden ratio


def xorshift(m: Module, name: str, *, bits: int, stream: int) -> Signal:
    """A state of 32 or 64 bits that is new in each clock.

    Args:
        stream: Not zero; each begins elsewhere.
    """
    left, right, again = SHIFTS[bits]
    state = Signal(bits, init=GOLDEN[bits] * stream % 2**bits, name=name)
    x = state ^ (state << left)[:bits]
    x = x ^ (x >> right)
    m.d.sync += state.eq((x ^ (x << again))[:bits])
    return state
