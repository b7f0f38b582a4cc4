"""Beat-wide SRAM: a row of macros in lockstep that stores one beat an access."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.sram.macro import Sram1r1w, Sram1rw


def _lanes_per_bank(lanes: int, bank_bytes: int) -> int:
    if bank_bytes < 8 or bank_bytes % 8 or lanes % (bank_bytes // 8):
        raise ValueError(f"a bank of {bank_bytes!r} bytes must hold a divisor of {lanes} lanes")
    return bank_bytes // 8


class BeatSram1rw(wiring.Component):
    """Single-port storage of whole beats in banks of ``bank_bytes``.

    Contract: that of :class:`hw.sram.macro.Sram1rw`, with ``d`` and ``q`` as 64-bit lanes.
    """

    def __init__(self, *, lanes: int, depth: int, bank_bytes: int) -> None:
        self._lanes_per_bank = _lanes_per_bank(lanes, bank_bytes)
        self._lanes, self._depth = lanes, depth
        super().__init__(
            {
                "en": In(1),
                "we": In(1),
                "addr": In(range(depth)),
                "d": In(64).array(lanes),
                "q": Out(64).array(lanes),
            }
        )

    @property
    def banks(self) -> int:
        return self._lanes // self._lanes_per_bank

    def elaborate(self, platform) -> Module:
        m = Module()
        step = self._lanes_per_bank
        for index in range(self.banks):
            bank = Sram1rw(width=64 * step, depth=self._depth)
            m.submodules[f"bank{index}"] = bank
            lanes = range(index * step, (index + 1) * step)
            m.d.comb += [
                bank.en.eq(self.en),
                bank.we.eq(self.we),
                bank.addr.eq(self.addr),
                bank.d.eq(Cat(self.d[k] for k in lanes)),
                *(self.q[k].eq(bank.q.word_select(k % step, 64)) for k in lanes),
            ]
        return m


class BeatSram1r1w(wiring.Component):
    """Two-port storage of whole beats in banks of ``bank_bytes``.

    Contract: that of :class:`hw.sram.macro.Sram1r1w`, with data as 64-bit lanes.
    """

    def __init__(self, *, lanes: int, depth: int, bank_bytes: int) -> None:
        self._lanes_per_bank = _lanes_per_bank(lanes, bank_bytes)
        self._lanes, self._depth = lanes, depth
        super().__init__(
            {
                "w_en": In(1),
                "w_addr": In(range(depth)),
                "w_data": In(64).array(lanes),
                "r_en": In(1),
                "r_addr": In(range(depth)),
                "r_data": Out(64).array(lanes),
            }
        )

    @property
    def banks(self) -> int:
        return self._lanes // self._lanes_per_bank

    def elaborate(self, platform) -> Module:
        m = Module()
        step = self._lanes_per_bank
        for index in range(self.banks):
            bank = Sram1r1w(width=64 * step, depth=self._depth)
            m.submodules[f"bank{index}"] = bank
            lanes = range(index * step, (index + 1) * step)
            m.d.comb += [
                bank.w_en.eq(self.w_en),
                bank.w_addr.eq(self.w_addr),
                bank.w_data.eq(Cat(self.w_data[k] for k in lanes)),
                bank.r_en.eq(self.r_en),
                bank.r_addr.eq(self.r_addr),
                *(self.r_data[k].eq(bank.r_data.word_select(k % step, 64)) for k in lanes),
            ]
        return m
