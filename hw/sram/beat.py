"""Beat-wide SRAM: a row of macros in lockstep that stores one beat an access."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.sram.macro import Sram1r1w, Sram1rw
from hw.sram.secded import check_lanes


def _lanes_per_bank(lanes: int, bank_bytes: int) -> int:
    if bank_bytes < 8 or bank_bytes % 8 or lanes % (bank_bytes // 8):
        raise ValueError(f"a bank of {bank_bytes!r} bytes must hold a divisor of {lanes} lanes")
    return bank_bytes // 8


class BeatSram1rw(wiring.Component):
    """Single-port storage of whole beats in banks of ``bank_bytes``.

    Contract: that of :class:`hw.sram.macro.Sram1rw`, with ``d`` and ``q`` as 64-bit lanes. With
    ``check`` each bank is an eighth wider, and ``d_check`` and ``q_check`` are the lanes of that.
    """

    def __init__(self, *, lanes: int, depth: int, bank_bytes: int, check: bool = False) -> None:
        self._lanes_per_bank = _lanes_per_bank(lanes, bank_bytes)
        self._lanes, self._depth, self._bank_bytes, self._check = lanes, depth, bank_bytes, check
        members = {
            "en": In(1),
            "we": In(1),
            "addr": In(range(depth)),
            "d": In(64).array(lanes),
            "q": Out(64).array(lanes),
        }
        if check:
            members["d_check"] = In(64).array(check_lanes(lanes))
            members["q_check"] = Out(64).array(check_lanes(lanes))
        super().__init__(members)

    @property
    def banks(self) -> int:
        return self._lanes // self._lanes_per_bank

    @property
    def bank_bits(self) -> int:
        """Width of a bank, with its check bits."""
        return self._bank_bytes * (9 if self._check else 8)

    def elaborate(self, platform) -> Module:
        m = Module()
        step = self._lanes_per_bank
        for index in range(self.banks):
            bank = Sram1rw(width=self.bank_bits, depth=self._depth)
            m.submodules[f"bank{index}"] = bank
            lanes = range(index * step, (index + 1) * step)
            m.d.comb += [
                bank.en.eq(self.en),
                bank.we.eq(self.we),
                bank.addr.eq(self.addr),
                *(self.q[k].eq(bank.q.word_select(k % step, 64)) for k in lanes),
            ]
            d = [self.d[k] for k in lanes]
            if self._check:
                # One check bit for each byte of data: those of a bank are part of a lane, a lane,
                # or several lanes.
                first, bits, at = index * self._bank_bytes, self._bank_bytes, 64 * step
                while bits:
                    lane, offset = divmod(first, 64)
                    here = slice(offset, offset + min(bits, 64 - offset))
                    width = here.stop - here.start
                    d.append(self.d_check[lane][here])
                    m.d.comb += self.q_check[lane][here].eq(bank.q[at : at + width])
                    first, bits, at = first + width, bits - width, at + width
            m.d.comb += bank.d.eq(Cat(d))
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
