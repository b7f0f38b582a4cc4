"""The stopwatch at the TSV ports, against a count in Python and against the waveform of a run."""

import random

import numpy as np
import pytest
from vcdvcd import VCDVCD

from hw.presets import preset, topology
from tb.play import design, play
from tb.reads import ReadRun, with_pairs
from tb.simulator import build
from tb.vip.fill import FillMonitor
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

MINI = preset("mini")


@pytest.mark.parametrize("stacks", [1, 2])
def test_fill_stamps_first_last_and_wave_ends(stacks):
    pick = random.Random(stacks)
    dut = FillMonitor(TINY, stacks=stacks)
    wave_beats = 16 * 4 * stacks  # a page from each subarray of 4 dies of 4

    async def bench(ctx):
        ctx = Quiet(ctx)
        arrivals, ends = [], []  # clocks
        total = 0
        for clock in range(100, 1100):
            names = ("beats", "first", "last", "wave_end", "waves")
            assert [ctx.get(getattr(dut, name)) for name in names] == [
                total,
                arrivals[0] if arrivals else 0,
                arrivals[-1] if arrivals else 0,
                ends[-1] if ends else 0,
                len(ends),
            ], f"clock {clock}, stacks {stacks}"
            ctx.set(dut.clock, clock)
            beats = pick.randint(0, 4 * stacks) if clock > 110 and pick.random() < 0.7 else 0
            ctx.set(dut.readouts, beats)
            if beats:
                arrivals.append(clock)
            if (total + beats) // wave_beats > total // wave_beats:
                ends.append(clock)
            total += beats
            await ctx.tick()
        assert len(ends) > 5

    simulate(dut, bench, clocks=2000)


def test_stamps_are_those_of_the_waveform(verilator, tmp_path):
    links = with_pairs(topology("dash"), 1)
    what = ReadRun(machine=MINI, topology=links, route="dual", waves=3)
    result = play(build(design(MINI, links)), what, tmp_path / "read.vcd")
    vcd = VCDVCD(str(result.waveform))

    def samples(name):
        """The signal just before each rising edge of the clock."""
        times, values = zip(*((t, int(v, 2)) for t, v in vcd[f"top.{name}"].tv), strict=True)
        return np.array(values)[np.searchsorted(times, edges, side="left") - 1]

    edges = np.array([t for t, value in vcd["top.clk"].tv if value == "1" and t > 0])
    edges = edges[samples("rst") == 0]  # the first of them is that of clock 0
    writes = sum(samples(f"package.hbf0.tsv.write__{group}__en") for group in range(4))
    # The SRAM is written one clock after the read-out is asked for.
    clocks = np.flatnonzero(writes) - 1
    assert (result.fill.first, result.fill.last) == (clocks[0], clocks[-1])
    assert result.fill.bytes == writes.sum() * MINI.link.beat_bytes == result.bytes
    ends = np.searchsorted(np.cumsum(writes), 128 * 4 * np.arange(1, 4)) - 1
    assert result.fill.wave_ends == tuple(ends)
    assert result.fill.accepted == result.delivered.accepted < result.fill.first
    assert result.fill.last < result.delivered.last == result.last_beat
    both = result.as_json()
    assert both["fill"]["last_byte_ns"] == (result.fill.last - result.accepted) / 2
    assert both["delivered"]["first_byte_ns"] == both["first_byte_ns"]
    assert both["delivered"]["steady_bytes_per_s"] == both["steady_bytes_per_s"]
