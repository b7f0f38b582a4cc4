# amaranth: UnusedElaboratable=no
"""Lockstep: a wave starts only when all is free, lasts its window, and regions alternate."""

import dataclasses

import pytest
from amaranth.hdl import Assert, Cover, Module, Signal
from amaranth.lib.wiring import In

from hw.hbf.wave_gate import WaveGate
from hw.presets import preset
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.variants import variant

CLOCK_BITS = 5  # the clock count wraps, so a narrow one shows the same


def small(*edits: tuple[str, str]) -> type:
    """With a narrow clock; the gate subtracts and compares, whatever the width."""
    return variant(WaveGate, *edits, CLOCK_BITS=CLOCK_BITS)


class Waves(Properties):
    """The stack does as it likes; ``sensing`` stays while the pages of a wave are sensed.

    ``since`` counts the clocks from the first in which the gate was open, when pages are issued.
    """

    def __init__(self, *, planes: int = 2, gate: type | None = None) -> None:
        machine = preset("formal")
        geometry = dataclasses.replace(machine.geometry, planes=planes)
        sram = dataclasses.replace(
            machine.sram, hbf_region_bytes=geometry.wave_pages * geometry.page_bytes
        )
        machine = dataclasses.replace(machine, geometry=geometry, sram=sram)
        self._window = 2 * geometry.subarrays_per_die
        self._gate = (gate or small())(machine)
        super().__init__({"sensing": In(1), "stuck": In(1), "pending": In(1), "region_busy": In(2)})

    def describe(self, m: Module) -> None:
        m.submodules.gate = gate = self._gate
        t_read, cache_read = constant(m, "t_read", 3), constant(m, "cache_read", 1)
        clock, since = Signal(CLOCK_BITS), Signal(4, init=15)
        m.d.sync += clock.eq(clock + 1)
        m.d.comb += [
            gate.clock.eq(clock),
            gate.t_read.eq(t_read),
            gate.cache_read.eq(cache_read),
            gate.sensing.eq(self.sensing),
            gate.stuck.eq(self.stuck),
            gate.pending.eq(self.pending),
            gate.region_busy.eq(self.region_busy),
        ]
        was_open = before(m, gate.open)
        free = self.pending & ~self.region_busy.bit_select(gate.region, 1)
        rises, falls = Signal(), Signal()
        m.d.comb += [rises.eq(gate.open & ~was_open), falls.eq(was_open & ~gate.open)]
        with m.If(rises):
            m.d.sync += since.eq(1)
        with m.Elif(since != 15):
            m.d.sync += since.eq(since + 1)
        sensed = Signal()  # the first pages of the wave before
        m.d.comb += sensed.eq((since >= t_read) & ~self.stuck)
        over = before(m, ~self.sensing | (cache_read & sensed))
        lasted, waves = Signal(range(self._window + 2)), Signal()
        with m.If(gate.open):
            m.d.sync += lasted.eq(lasted + 1)
        with m.Else():
            m.d.sync += lasted.eq(0)
        with m.If(falls):
            m.d.sync += waves.eq(~waves)
        waited = before(m, ~gate.open & free & ~self.sensing)
        m.d.comb += [
            Assert(~rises | before(m, free), "opens only for a page and a free region"),
            Assert(~rises | over, "opens only when the wave before is sensed"),
            Assert(~waited | gate.open, "opens whenever all is free"),
            Assert(~falls | (lasted == self._window), "open for its window"),
            Assert(lasted <= self._window, "closes after its window"),
            Assert(gate.region == (waves ^ falls), "regions alternate"),
            Cover(falls & waves, "second wave"),
            Cover(rises & before(m, self.sensing), "opens while pages sense or leave"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("planes", [2, 4, 8])
def test_wave_gate(planes: int) -> None:
    prove(Waves(planes=planes), label=f"of {planes}")
    prove(Waves(planes=planes), mode="cover", depth=60, label=f"of {planes}")


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new", "violated"),
    [
        ("self.pending & ~waits & ~busy", "self.pending & ~waits", "free_region"),
        ("(~self.cache_read | senses | self.stuck)", "(~self.cache_read | self.stuck)", "sensed"),
        ("(~self.cache_read | senses | self.stuck)", "(~self.cache_read | senses)", "sensed"),
        ("(~self.cache_read | senses | self.stuck)", "(senses | self.stuck)", "sensed"),
        ("left.eq(self._window)", "left.eq(self._window - 1)", "window"),
        ("self.region.eq(~self.region)", "self.region.eq(0)", "alternate"),
    ],
)
def test_broken_gates_are_found(old: str, new: str, violated: str) -> None:
    with pytest.raises(Counterexample, match=violated):
        prove(Waves(gate=small((old, new))))
