"""Times of steps against sums over steps, and against the paper's and the GPU's figures."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.agents import Host, Machine, WeightTier, architecture_named
from perfmodel.agents.architecture import Composition
from perfmodel.agents.machine import Moved
from perfmodel.models.dense import load_dense_model

QWEN, LLAMA = load_dense_model("qwen3-32b"), load_dense_model("llama-3.1-405b")


@given(
    composition=st.sampled_from(Composition),
    steps=st.integers(1, 50),
    rows=st.integers(0, 9),
    hbm=st.integers(0, 300),
    hbf=st.integers(0, 300),
)
def test_reads_of_many_steps_are_the_sum_over_steps(
    composition, steps, rows, hbm, hbf, make_machine
):
    machine = make_machine(1000, 1000, composition=composition)
    total = 0.0
    for step in range(1, steps + 1):
        one = machine.hbm_token_s * (hbm + rows * step)
        total += composition.seconds(one, machine.hbf_token_s * hbf)
    found = machine.decode_read_s(steps, rows, hbm, hbf)
    assert math.isclose(found, total, rel_tol=1e-12, abs_tol=1e-18)


def test_kv_space_is_what_weights_leave():
    hbm, hbf, dram, ssd = Machine(model=QWEN, architecture=architecture_named("h3")).kv_bytes
    assert (hbm, hbf) == (8 * 24 * 10**9 - QWEN.stored_bytes, 3 * 10**12)
    assert (dram, ssd) == (16 * 64 * 10**9, 32 * 10**12)
    shared = Machine(model=QWEN, architecture=architecture_named("4+4"), weights=WeightTier.HBF)
    assert shared.kv_bytes[:2] == (4 * 24 * 10**9, 4 * 375 * 10**9 - QWEN.stored_bytes)
    half = Machine(model=QWEN, architecture=architecture_named("4+4"), host_share=0.5)
    assert half.kv_bytes[2:] == (dram // 2, ssd // 2)


def test_one_row_is_bound_by_weights_and_many_by_arithmetic():
    machine = Machine(model=QWEN, architecture=architecture_named("hbm-only"))
    gemm = machine.gpu.gemm
    start_s = (4 * 64 + 1) * gemm.start_s + 64 * machine.gpu.layer_overhead_s
    read_s = QWEN.read_bytes / (8e12 * gemm.memory_efficiency)
    assert math.isclose(machine.gemm_s(1, 1), start_s + read_s, rel_tol=1e-12)
    flops = 2 * QWEN.gemm_params * 2048
    busy_s = flops / (2250e12 * gemm.compute_efficiency)
    assert math.isclose(machine.gemm_s(2048, 0), start_s + busy_s, rel_tol=1e-12)


def test_tensor_parallelism_divides_work_and_adds_collectives():
    machine = Machine(model=LLAMA, architecture=architecture_named("h3"), gpus=8)
    assert machine.hbm_token_s == pytest.approx(LLAMA.kv_token_bytes / (64e12 * 0.949))
    reduce = machine.gpu.all_reduce
    message = 100 * LLAMA.hidden * 2
    expected = 2 * LLAMA.layers * reduce.seconds(8, message)
    assert machine.collectives_s(100) == pytest.approx(expected)
    assert Machine(model=QWEN, architecture=architecture_named("h3")).collectives_s(100) == 0


def test_movement_takes_as_long_as_its_slowest_part():
    machine = Machine(model=QWEN, architecture=architecture_named("h3"))
    token = QWEN.kv_token_bytes
    times = {
        "to_hbf": token / (8 * 20e9),
        "from_host": token / 63e9,
        "to_host": token / 63e9,
        "dram": token / (16 * 57.6e9),
        "ssd": token / (32 * 8e9),
    }
    nothing = dict.fromkeys(times, 0)
    for name, seconds in times.items():
        assert machine.movement_s(Moved(**nothing | {name: 1000})) == pytest.approx(1000 * seconds)
    together = machine.movement_s(Moved(**dict.fromkeys(times, 1000)))
    assert together == pytest.approx(1000 * max(times.values()))


def test_the_host_has_the_figures_of_its_parts():
    host = Host()
    assert host.dram_channel_bytes_per_s == 7200e6 * 8
    assert host.pcie_bytes_per_s == pytest.approx(32e9 * 16 * 128 / 130 / 8, rel=1e-3)
    assert host.dram_channels * host.dram_channel_bytes == 1024 * 10**9
    assert host.ssds * host.ssd_bytes_per_s == 256e9
