"""SRAM macros: one wrapper per port style, so that real macros can replace them in one place.

Converted with a :class:`MacroPlatform` a wrapper becomes an instance of the Verilog model beside
this file (or of a foundry macro with its ports); otherwise it is an Amaranth memory, for pysim and
formal proofs of small sizes. A multi-megabyte Amaranth memory converts bit by bit and never ends.
"""

from pathlib import Path

from amaranth.hdl import ClockSignal, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.shared import ModuleCollector

VERILOG_MODELS = tuple(Path(__file__).with_name(name) for name in ("sram_1rw.v", "sram_1r1w.v"))


class MacroPlatform(ModuleCollector):
    """Conversion target whose SRAMs are macro instances, and whose like modules are one."""


class _Macro(wiring.Component):
    def __init__(self, *, width: int, depth: int, ports: dict) -> None:
        if width < 1:
            raise ValueError(f"SRAM width must be at least 1 bit, not {width!r}")
        if depth < 2:
            raise ValueError(f"SRAM depth must be at least 2 rows, not {depth!r}")
        self._width, self._depth = width, depth
        super().__init__(ports)

    @property
    def width(self) -> int:
        return self._width

    @property
    def depth(self) -> int:
        return self._depth

    def _instance(self, model: str, **ports) -> Instance:
        return Instance(
            model,
            p_WIDTH=self._width,
            p_DEPTH=self._depth,
            p_ADDR_BITS=(self._depth - 1).bit_length(),
            i_clk=ClockSignal(),
            **ports,
        )


class Sram1rw(_Macro):
    """Single-port SRAM.

    Contract: with ``en``, writes ``d`` to row ``addr`` if ``we``, else reads it; ``q`` is valid one
    clock after a read and stays until the next. One access a clock.
    """

    def __init__(self, *, width: int, depth: int) -> None:
        ports = {
            "en": In(1),
            "we": In(1),
            "addr": In(range(depth)),
            "d": In(width),
            "q": Out(width),
        }
        super().__init__(width=width, depth=depth, ports=ports)

    def elaborate(self, platform) -> Module:
        m = Module()
        if isinstance(platform, MacroPlatform):
            m.submodules.macro = self._instance(
                "sram_1rw", i_en=self.en, i_we=self.we, i_addr=self.addr, i_d=self.d, o_q=self.q
            )
            return m
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(self.en & self.we),
            write.addr.eq(self.addr),
            write.data.eq(self.d),
            read.en.eq(self.en & ~self.we),
            read.addr.eq(self.addr),
            self.q.eq(read.data),
        ]
        return m


class Sram1r1w(_Macro):
    """Two-port SRAM: one read and one write a clock.

    Contract: ``r_data`` is valid one clock after ``r_en`` and stays until the next read. Reading a
    row while it is written returns the old data. With ``zeroed`` the model of the macro comes up
    all zero; a chip has to clear or load it before the reset ends.
    """

    def __init__(self, *, width: int, depth: int, zeroed: bool = False) -> None:
        self._zeroed = zeroed
        ports = {
            "w_en": In(1),
            "w_addr": In(range(depth)),
            "w_data": In(width),
            "r_en": In(1),
            "r_addr": In(range(depth)),
            "r_data": Out(width),
        }
        super().__init__(width=width, depth=depth, ports=ports)

    def elaborate(self, platform) -> Module:
        m = Module()
        if isinstance(platform, MacroPlatform):
            m.submodules.macro = self._instance(
                "sram_1r1w",
                p_ZEROED=int(self._zeroed),
                i_w_en=self.w_en,
                i_w_addr=self.w_addr,
                i_w_data=self.w_data,
                i_r_en=self.r_en,
                i_r_addr=self.r_addr,
                o_r_data=self.r_data,
            )
            return m
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(self.w_en),
            write.addr.eq(self.w_addr),
            write.data.eq(self.w_data),
            read.en.eq(self.r_en),
            read.addr.eq(self.r_addr),
            self.r_data.eq(read.data),
        ]
        return m
