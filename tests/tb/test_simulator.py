"""The simulator runner: export, cached builds, runs, waves and failures."""

import dataclasses
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from vcdvcd import VCDVCD

from hw.errors import InputError
from tb.simulator import BenchFailed, Design, Simulator, ToolError, build, export, require, run
from tb.simulator.tools import REPOSITORY
from tb.simulator.verilog import imports
from tests.tb.accumulator import Accumulator

DESIGN = Design(component=Accumulator, params={"width": 16}, traced=True)
BENCH = "tests.tb.accumulator_bench"
FAILING = "tests.tb.failing_bench"


class NoBits(wiring.Component):
    nothing: In(0)

    def elaborate(self, platform):
        return Module()


class Unelaborated(Accumulator):
    def elaborate(self, platform):
        raise AssertionError("elaborated although the key cannot be made")


def samples(simulator, directory):
    result = run(build(DESIGN, simulator), BENCH, test="adds", directory=directory)
    return json.loads((result.directory / "samples.json").read_text())


def test_runs_all_tests_of_a_module(simulator):
    result = run(build(DESIGN, simulator), BENCH)
    assert result.tests == ("adds", "idles", "draws")
    assert result.sim_time_ns == pytest.approx((14 + 13 + 3) * 0.5, abs=2)


def test_both_simulators_sample_the_same(verilator, icarus, tmp_path):
    expected = [sum(range(x)) for x in range(1, 11)]
    assert samples(verilator, tmp_path / "verilator") == expected
    assert samples(icarus, tmp_path / "icarus") == expected


def test_second_build_is_found(simulator):
    first = build(DESIGN, simulator)
    second = build(DESIGN, simulator)
    assert not second.fresh
    assert second.directory == first.directory


def test_sources_edited_meanwhile_are_not_converted(tmp_path, monkeypatch):
    monkeypatch.setattr("tb.simulator.verilog._STARTED", 0.0)  # all sources are younger
    with pytest.raises(ToolError, match="was edited while this process ran"):
        export(DESIGN, cache=tmp_path)
    assert not list((tmp_path / "verilog").glob("Accumulator-*[0-9a-f]"))


def test_parameters_and_simulators_have_their_own_builds(icarus, tmp_path):
    narrow = Design(component=Accumulator, params={"width": 8})
    built = [build(design, icarus, cache=tmp_path) for design in (DESIGN, narrow)]
    assert all(b.fresh for b in built)
    assert built[0].directory != built[1].directory


def test_key_covers_what_the_component_imports():
    covered = {path.relative_to(REPOSITORY).as_posix() for path in imports(Path(__file__))}
    assert {"tests/tb/accumulator.py", "hw/errors.py"} <= covered
    assert not any(path.startswith(("hw/hbf", ".venv")) for path in covered)


def test_key_covers_register_maps():
    covered = imports(REPOSITORY / "tb" / "vip" / "registers.py")
    assert REPOSITORY / "hw" / "registers" / "hbf.rdl" in covered


def test_interrupted_build_is_not_reused(icarus, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tb.simulator.builds._compile_icarus", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build(DESIGN, icarus, cache=tmp_path)
    assert build(DESIGN, icarus, cache=tmp_path).fresh


def test_seed_decides_what_is_random(verilator, tmp_path):
    def draw(seed, name):
        ready = build(DESIGN, verilator)
        result = run(ready, BENCH, test="draws", seed=seed, directory=tmp_path / name)
        return (result.directory / "draw.json").read_text()

    assert draw(7, "first") == draw(7, "again")
    assert draw(7, "first") != draw(8, "other")


# Runs the bench of the seed until told to end, and says where.
OTHER_PROCESS = """
import sys
from tb.simulator import run
from tests.tb.test_simulator import BENCH, DESIGN, build
print(run(build(DESIGN), BENCH, test="draws", seed=int(sys.argv[1])).directory, flush=True)
sys.stdin.read()
"""


def test_runs_of_one_name_beside_each_other_keep_their_own_results(verilator):
    def draws(_):
        result = run(ready, BENCH, test="draws", seed=7)
        return result.directory, (result.directory / "draw.json").read_text()

    ready = build(DESIGN, verilator)
    directory, drawn = draws(0)
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, "8"], cwd=REPOSITORY, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        others = Path(other.stdout.readline().strip())
        with ThreadPoolExecutor(2) as workers:
            threads = list(workers.map(draws, range(2)))
        assert draws(0) == (directory, drawn)  # one after the other, in the same place
        other.stdin.close()
    assert others.name.startswith(BENCH) and others != directory
    assert {others, directory}.isdisjoint(where for where, _ in threads)
    assert {what for _, what in threads} == {drawn} != {(others / "draw.json").read_text()}
    assert all((where / "rerun.sh").exists() for where in (directory, others))


def test_runs_of_one_name_at_the_same_time_do_not_meet(verilator):
    ready = build(DESIGN, verilator)
    begin = threading.Barrier(2)

    def both(_):
        begin.wait()
        return run(ready, BENCH, seed=7)

    with ThreadPoolExecutor(2) as workers:
        first, second = workers.map(both, range(2))
    assert first.tests == second.tests and first.directory != second.directory


def test_waves_hold_control_signals(simulator, tmp_path):
    waves = tmp_path / "adds.vcd"
    run(build(DESIGN, simulator), BENCH, test="adds", waves=waves, directory=tmp_path / "run")
    vcd = VCDVCD(str(waves))
    assert "top.count[15:0]" in vcd.signals
    total = [int(value, 2) for _, value in vcd["top.total[15:0]"].tv if "x" not in value]
    assert total[-1] == 55
    if simulator is Simulator.VERILATOR:
        assert all(int(vcd[signal].size) < 64 for signal in vcd.signals)


def test_waves_of_every_run_can_be_asked_for(verilator, tmp_path, monkeypatch):
    untraced = dataclasses.replace(DESIGN, traced=False)
    without = build(untraced, verilator)
    with pytest.raises(ValueError, match=r"Accumulator has no waves: set Design\.traced"):
        run(without, BENCH, test="adds", waves=tmp_path / "no.vcd", directory=tmp_path / "no")
    monkeypatch.setenv("WAVES_DIR", str(tmp_path / "waves"))
    result = run(build(untraced, verilator), BENCH, test="adds", directory=tmp_path / "one")
    assert result.waves == tmp_path / "waves" / "one.vcd"
    assert result.waves.stat().st_size > 0


def test_failed_test_raises_and_says_how_to_repeat(simulator, tmp_path):
    directory = tmp_path / "run"
    with pytest.raises(BenchFailed, match="fails: AssertionError: one is not two") as caught:
        run(build(DESIGN, simulator), FAILING, seed=99, directory=directory)
    assert f"seed 99, repeat: bash {directory}/rerun.sh" in str(caught.value)
    assert "COCOTB_RANDOM_SEED=99" in (directory / "rerun.sh").read_text()


@pytest.mark.parametrize(("module", "test"), [(BENCH, "absent"), ("absent", None)])
def test_no_test_is_a_failure(verilator, tmp_path, module, test):
    with pytest.raises(BenchFailed, match="no test ran"):
        run(build(DESIGN, verilator), module, test=test, directory=tmp_path / "run")


def test_port_without_bits_is_refused(tmp_path):
    with pytest.raises(ValueError, match="port nothing of NoBits has no bits"):
        export(Design(component=NoBits), cache=tmp_path)


def test_parameter_without_identity_is_refused(tmp_path):
    design = Design(component=Unelaborated, params={"width": object()})
    with pytest.raises(TypeError, match="parameter of type object"):
        export(design, cache=tmp_path)


def test_missing_simulator_says_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="iverilog is not on PATH: apt-get install iverilog"):
        require(Simulator.ICARUS)
