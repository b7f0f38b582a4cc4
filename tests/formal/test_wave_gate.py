# amaranth: UnusedElaboratable=no
"""Lockstep: a wave starts only when all is free, lasts its window, and regions alternate."""

import dataclasses

import pytest
from amaranth.hdl import Assert, Cover, Signal
from amaranth.lib.wiring import In

from hw.hbf.wave_gate import WaveGate
from hw.presets import preset
from tests.formal.harness import Counterexample, Properties, before, prove
from tests.formal.variants import variant


class Waves(Properties):
    def __init__(self, *, planes: int = 2, gate: type = WaveGate) -> None:
        machine = preset("formal")
        geometry = dataclasses.replace(machine.geometry, planes=planes)
        sram = dataclasses.replace(
            machine.sram, hbf_region_bytes=geometry.wave_pages * geometry.page_bytes
        )
        machine = dataclasses.replace(machine, geometry=geometry, sram=sram)
        self._window = geometry.subarrays_per_die
        self._gate = gate(machine)
        super().__init__({"sensing": In(1), "pending": In(1), "region_busy": In(2)})

    def describe(self, m) -> None:
        m.submodules.gate = gate = self._gate
        m.d.comb += [
            gate.sensing.eq(self.sensing),
            gate.pending.eq(self.pending),
            gate.region_busy.eq(self.region_busy),
        ]
        was_open = before(m, gate.open)
        may_open = before(
            m, self.pending & ~self.sensing & ~self.region_busy.bit_select(gate.region, 1)
        )
        lasted, waves = Signal(range(self._window + 2)), Signal()
        rises, falls = Signal(), Signal()
        m.d.comb += [rises.eq(gate.open & ~was_open), falls.eq(was_open & ~gate.open)]
        with m.If(gate.open):
            m.d.sync += lasted.eq(lasted + 1)
        with m.Else():
            m.d.sync += lasted.eq(0)
        with m.If(falls):
            m.d.sync += waves.eq(~waves)
        m.d.comb += [
            Assert(~rises | may_open, "opens only when all is free"),
            Assert(gate.open | ~may_open | was_open, "opens whenever all is free"),
            Assert(~falls | (lasted == self._window), "open for its window"),
            Assert(lasted <= self._window, "closes after its window"),
            Assert(gate.region == (waves ^ falls), "regions alternate"),
            Cover(falls & waves, "second wave"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("planes", [2, 4, 8])
def test_wave_gate(planes: int) -> None:
    prove(Waves(planes=planes), label=f"of {planes}")
    prove(Waves(planes=planes), mode="cover", depth=40, label=f"of {planes}")


@pytest.mark.formal
def test_wave_into_a_busy_region_is_found() -> None:
    with pytest.raises(Counterexample, match="opens_only_when_all_is_free"):
        prove(Waves(gate=variant(WaveGate, ("~self.sensing & ~busy", "~self.sensing"))))
