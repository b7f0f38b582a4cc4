"""The package under random reads, against NAND and consumers in plain Python."""

import json
import re

import pytest

from hw.package import Package
from hw.params import Sensing, preset, topology
from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from tb.reads import ReadRun, with_pairs
from tb.simulator import BenchFailed, Design, build, run
from tb.vip.agents import FAULTS

MACHINE = preset("mini")
LOCKSTEP = Sensing.LOCKSTEP

# One pair has the links of `compact`, so that is what it is called here; `dash` has its two pairs.
PAIRS = {"compact": 1, "direct-only": 1, "relay-only": 1, "dash": 2}


def play(simulator, name, *, seed=1, reads=16, fault=None, **settings):
    links = with_pairs(topology(name), PAIRS[name])
    machine = MACHINE.with_registers(**settings)
    route = "direct" if links.direct else "relay"
    plan = {
        "preset": MACHINE.name,
        "topology": name,
        "pairs": links.pairs,
        "reads": reads,
        "settings": {key: getattr(value, "value", value) for key, value in settings.items()},
        "registers": ReadRun(machine=machine, topology=links, route=route, waves=1).plan()[
            "registers"
        ],
        "fault": fault,
    }
    design = Design(
        component=Package,
        params={"machine": MACHINE, "topology": links},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
    )
    result = run(
        build(design, simulator),
        "tb.benches.package",
        seed=seed,
        env={"PAGEWAVE_PACKAGE_PLAN": json.dumps(plan)},
    )
    return json.loads((result.directory / "report.json").read_text())


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("compact", {}),
        ("direct-only", {"sensing": LOCKSTEP}),
        ("relay-only", {"cache_read": False}),
        ("dash", {"t_read_us": 0.05}),
    ],
)
def test_random_reads_on_every_topology(icarus, name, settings):
    report = play(icarus, name, **settings)
    assert len(report["completions"]) == 16
    assert {pair for _, pair, _ in report["beats"]} == set(range(PAIRS[name]))
    paths = {"direct-only": {0}, "relay-only": {1}}.get(name, {0, 1})
    assert {route for route, _, _ in report["beats"]} == paths


@pytest.mark.parametrize(
    ("seed", "settings"),
    [
        (2, {"sensing": LOCKSTEP, "cache_read": False}),
        (3, {"tsv_tbps": 0.05, "t_read_us": 0.75}),
        (4, {"link_tbps": 0.128, "t_read_us": 0.01}),
        (5, {"link_tbps": 0.03}),
    ],
    ids=str,
)
def test_random_reads_with_other_registers(verilator, seed, settings):
    report = play(verilator, "compact", seed=seed, **settings)
    assert len(report["completions"]) == 16


@pytest.mark.parametrize(("name", "seed"), [("compact", 1), ("relay-only", 4)])
def test_both_simulators_deliver_the_same_beats_at_once(verilator, icarus, name, seed):
    fast = play(verilator, name, seed=seed, reads=8)
    exact = play(icarus, name, seed=seed, reads=8)
    assert fast == exact  # the beats in their order, and the clocks that it took
    assert len(fast["beats"]) > 100


def test_seed_decides_what_is_read(verilator):
    first, again, other = (play(verilator, "compact", seed=seed, reads=4) for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_nand_is_found(verilator, fault):
    with pytest.raises(BenchFailed, match="wrong data in beat") as caught:
        play(verilator, "compact", seed=5, reads=8, fault=fault)
    assert re.search(r"^seed 5, repeat: bash /\S*/rerun\.sh$", str(caught.value), re.M)
