"""Registers of the base die over the sideband, by the port that benches use."""

from hw.presets import preset
from hw.ucie.sideband_serial import CFG_BUS
from tb.simulator import Design, build, run
from tests.tb.sideband_registers import SidebandRegisters

DESIGN = Design(
    component=SidebandRegisters,
    params={"machine": preset("mini"), "pace": CFG_BUS, "tags": 4, "credits": 4, "timeout": 2000},
)


def test_registers_over_the_sideband(icarus):
    result = run(build(DESIGN, icarus), "tests.tb.sideband_bench")
    assert result.tests == ("registers_by_name", "many_at_once")
