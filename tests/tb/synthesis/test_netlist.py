"""Cells of planted designs, of which all is known."""

import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.sram.macro import Sram1rw
from tb.synthesis.netlist import Cells, UnsynthesizableError, convert, examine, synthesize

LATCH = "module top(input en, d, output reg q); always @* if (en) q = d; endmodule\n"
LATCH_BELOW = f"""{LATCH.replace("top", "part")}
module top(input en, d, output q); part x(.en(en), .d(d), .q(q)); endmodule
"""
MUX_LOOP = "module top(input en, d, output q); assign q = en ? d : q; endmodule\n"
LOOP_ACROSS = """
module part(input x, d, output y); assign y = x ^ d; endmodule
module top(input d, output q); wire back;
  part ahead(.x(back), .d(d), .y(q)); part behind(.x(q), .d(d), .y(back));
endmodule
"""
TWO_DRIVERS = "module top(input a, b, output q); assign q = ~a; assign q = ~b; endmodule\n"
# The same two parts, with a register in the way.
NO_LOOP = """
module part(input clk, x, d, output y, output reg r);
  assign y = x ^ d; always @(posedge clk) r <= d;
endmodule
module top(input clk, d, output q); wire back;
  part ahead(.clk(clk), .x(back), .d(d), .y(q), .r());
  part behind(.clk(clk), .x(d), .d(q), .r(back));
endmodule
"""


class Part(wiring.Component):
    """Three bits behind an enable, one gate, a memory of 5 x 7 and a macro of 8 x 6 bits."""

    en: In(1)
    d: In(6)
    q: Out(3)
    both: Out(1)
    row: Out(7)
    macro: Out(6)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=7, depth=5, init=[])
        m.submodules.macro = macro = Sram1rw(width=6, depth=8)
        read, write = memory.read_port(domain="comb"), memory.write_port()
        with m.If(self.en):
            m.d.sync += self.q.eq(self.d)
        m.d.comb += [
            self.both.eq(self.q[0] & self.q[1]),
            read.addr.eq(self.q),
            write.addr.eq(self.q),
            write.data.eq(self.d),
            write.en.eq(self.en),
            self.row.eq(read.data),
            macro.en.eq(self.en),
            macro.addr.eq(self.q),
            macro.d.eq(self.d),
            self.macro.eq(macro.q),
        ]
        return m


class Twice(wiring.Component):
    """Two such parts and a register of their sum."""

    en: In(1)
    d: In(6)
    q: Out(1)

    def elaborate(self, platform) -> Module:
        m = Module()
        parts = [Part(), Part()]
        for k, part in enumerate(parts):
            m.submodules[f"part{k}"] = part
            m.d.comb += [part.en.eq(self.en), part.d.eq(self.d)]
        # All outputs matter: those that nobody reads are not converted.
        m.d.sync += self.q.eq(Cat((p.q, p.both, p.row, p.macro) for p in parts).xor())
        return m


@pytest.mark.parametrize(
    ("verilog", "words"),
    [
        (LATCH, "latches: top/"),
        (LATCH_BELOW, "latches: part/"),
        (MUX_LOOP, "found logic loop in module top"),
        (LOOP_ACROSS, "found logic loop in module top"),
        (TWO_DRIVERS, "multiple conflicting drivers for top"),
    ],
    ids=["latch", "latch below", "loop", "loop across modules", "two drivers"],
)
def test_what_cannot_be_synthesized_is_found(verilog, words, tmp_path):
    (tmp_path / "planted.v").write_text(verilog)
    with pytest.raises(UnsynthesizableError, match=words):
        examine([tmp_path / "planted.v"], tmp_path)


def test_a_way_through_a_register_is_no_loop(tmp_path):
    (tmp_path / "planted.v").write_text(NO_LOOP)
    examine([tmp_path / "planted.v"], tmp_path)


def test_every_cell_is_counted_in_its_module(tmp_path):
    convert(Twice(), tmp_path / "top.il")
    examine([tmp_path / "top.il"], tmp_path)
    found = synthesize(tmp_path)
    part = sum((found.cells[n] for n in found.cells if n.startswith("top.part0")), Cells())
    assert part == Cells(
        flip_flops=3, gates=1, memories=1, memory_bits=5 * 7, macros=1, macro_bits=6 * 8
    )
    assert found.cells["top"].flip_flops == 1
    assert found.places["top"] == {"top.part0": 1, "top.part1": 1}
