"""What lies between the dies: the lanes of the modules, as a delay."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.sram.macro import Sram1r1w
from hw.ucie.modules import ModulePort


class ModuleWires(wiring.Component):
    """Carries the words of all modules for ``cycles`` clocks, two at least.

    Contract: ``o`` is what ``i`` was ``cycles`` clocks ago. Words under way stand still in a ring,
    which simulates faster than as many registers; ports cannot tell the difference.
    """

    def __init__(self, *, modules: int, word_bytes: int, cycles: int) -> None:
        if cycles < 2:
            raise ValueError(f"cycles must be at least 2, not {cycles!r}")
        self._modules, self._word_bytes, self._cycles = modules, word_bytes, cycles
        port = ModulePort(word_bytes=word_bytes)
        super().__init__({"i": In(port).array(modules), "o": Out(port).array(modules)})

    def elaborate(self, platform) -> Module:
        m = Module()
        cycles = self._cycles
        row, oldest = Signal(range(cycles)), Signal(range(cycles))
        m.d.comb += oldest.eq(Mux(row == cycles - 1, 0, row + 1))
        m.d.sync += row.eq(oldest)
        for k, (i, o) in enumerate(zip(self.i, self.o, strict=True)):
            early: Value = i.valid
            for stage in range(cycles - 1):
                later = Signal(name=f"valid{k}_{stage}")
                m.d.sync += later.eq(early)
                early = later
            width = len(i.number) + len(i.word)
            m.submodules[f"ring{k}"] = ring = Sram1r1w(width=width, depth=cycles)
            m.d.comb += [
                ring.w_en.eq(i.valid),
                ring.w_addr.eq(row),
                ring.w_data.eq(Cat(i.number, i.word)),
                ring.r_en.eq(early),
                ring.r_addr.eq(oldest),
                o.number.eq(ring.r_data[: len(i.number)]),
                o.word.eq(ring.r_data[len(i.number) :]),
            ]
            m.d.sync += o.valid.eq(early)
        return m
