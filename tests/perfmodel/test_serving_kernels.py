"""Serving on other sources of kernel times: how stages take their answers."""

import dataclasses
import math

import numpy as np
import pytest

from hw.errors import InputError
from hw.presets import preset, topology
from perfmodel.gpu import gpu_named
from perfmodel.kernels import Gemm, GqaDecode, GqaPrefill, KernelTime, Moe
from perfmodel.kernels.fits import Fits, shipped_fits
from perfmodel.kernels.profile_csv import Measurement, ProfileFile, write_profile_file
from perfmodel.kernels.source import FittedSource, TableSource
from perfmodel.memory import link_limited
from perfmodel.models import load_model
from perfmodel.serving import Request, generate, serve
from perfmodel.serving.arithmetic import rests_on
from perfmodel.serving.passes import Batch, PassModel
from perfmodel.system import System, build_system

SIZE = {"batch": 4, "input_len": 1024, "output_len": 128}


def system_on(source, gpu="h200", model="qwen3-235b-a22b", **options):
    machine = preset("paper")
    return System(
        model=load_model(model),
        topology=topology("dash"),
        timing=link_limited(machine),
        gpu=gpu_named(gpu),
        machine=machine,
        kernels=source,
        **options,
    )


@dataclasses.dataclass
class Fixed:
    """Answers by kernel; notes what it was asked."""

    times: dict
    proportional: bool = False
    label: str = "fixed"
    provenance: str = "made up"
    asked: list = dataclasses.field(default_factory=list)

    def time(self, kernel):
        self.asked.append(kernel)
        start_s, busy_s = self.times.get(kernel.NAME, (0.0, 0.0))
        return KernelTime(
            seconds=start_s + busy_s,
            start_s=start_s,
            busy_s=busy_s,
            source="fixed",
            status="measured",
            provenance="made up",
            distance_octaves=0.0,
        )


def pass_seconds(times, batch):
    return float(PassModel(system_on(Fixed(times))).stretch(batch).seconds[0])


def test_a_stage_starts_and_then_takes_the_longer():
    """Each start counts in full; arithmetic only as far as it exceeds the delivery."""
    batch = Batch(decode_rows=4, samples=4, prompt_tokens=4 * 1024)
    idle = pass_seconds({}, batch)
    attention_s = 4 * 1025 * 2048 / 6.4e12
    experts_s = 16 * 3 * 4096 * 1536 * 2 / 3.2e12
    for name, layer_s in (("gqa_decode", attention_s), ("moe", experts_s)):
        start = pass_seconds({name: (5e-6, 0.0)}, batch) - idle
        assert start == pytest.approx(94 * 5e-6)
        hidden = pass_seconds({name: (0.0, 0.9 * layer_s)}, batch) - idle
        assert hidden == pytest.approx(0, abs=1e-12)
    shown = pass_seconds({"moe": (0.0, experts_s + 7e-6)}, batch) - idle
    assert shown == pytest.approx(94 * 7e-6)
    # At this size attention is asked with the very operations that it has: its latency is kept.
    shown = pass_seconds({"gqa_decode": (0.0, attention_s + 7e-6)}, batch) - idle
    assert shown == pytest.approx(94 * 7e-6)
    # Two projections a layer and the head.
    start = pass_seconds({"gemm": (5e-6, 0.0)}, batch) - idle
    assert start == pytest.approx((2 * 94 + 1) * 5e-6)


def test_a_table_is_asked_for_every_context():
    source = Fixed({})
    batch = Batch(decode_rows=2, samples=2, prompt_tokens=2000, decoded_tokens=10)
    PassModel(system_on(source)).stretch(batch, passes=4)
    lengths = [kernel.kv_len for kernel in source.asked if isinstance(kernel, GqaDecode)]
    assert lengths == [1006, 1007, 1008, 1009]
    roofline = Fixed({}, proportional=True)
    PassModel(system_on(roofline)).stretch(batch, passes=4)
    lengths = [kernel.kv_len for kernel in roofline.asked if isinstance(kernel, GqaDecode)]
    assert lengths == [1024]


def test_base_is_the_default(make_system):
    base = build_system(model="qwen3-235b-a22b", topology_name="dash", timing="link-limited")
    default = make_system()
    assert generate(base, **SIZE) == generate(default, **SIZE)
    assert base.labels()["gpu_kernels"] == "base"
    kernels = generate(base, **SIZE).kernels
    assert {row["kernel"] for row in kernels} == {"gemm", "gqa_decode", "gqa_prefill", "moe"}
    assert {row["status"] for row in kernels} == {"assumed"}


def test_fitted_rooflines_by_hand():
    """One decode pass of Qwen3 on H200 fits: starts, items, whole tiles of rows of experts."""
    fits = shipped_fits()
    found = PassModel(system_on(FittedSource("h200", fits)))
    batch = Batch(decode_rows=4, samples=4, prompt_tokens=4 * 1024)

    def parameters(family, *labels):
        return fits.find("h200", family, labels).parameters

    def busy(fit, flops):
        return flops / (fit.compute_efficiency * 989e12)

    gemm, moe = parameters(Gemm, "bf16"), parameters(Moe, "bf16", "balanced")
    decode = parameters(GqaDecode, "bf16")
    layer_s = 2 * gemm.start_s + 6e-6 + (2 * 4096 + 2 * 128) * 2 / 3.2e12 + 4096 * 256 / 3.2e12
    for n, k in ((72 * 128, 4096), (4096, 64 * 128)):
        layer_s += max(busy(gemm, 2 * 4 * n * k), 2 * n * k / 6.4e12)
    layer_s += decode.start_s + 4 * 4 * decode.item_s
    layer_s += max(busy(decode, 4 * 64 * 128 * 4 * 1025), 4 * 1025 * 2048 / 6.4e12)
    expert = 3 * 4096 * 1536
    layer_s += moe.start_s + 32 * moe.item_s
    layer_s += max(busy(moe, 2 * expert * 32 * 64), 16 * 2 * expert / 3.2e12)
    head = 151_936 * 4096
    head_s = gemm.start_s + max(busy(gemm, 2 * 4 * head), 2 * head / 3.2e12)
    seconds = found.stretch(batch).seconds[0]
    assert seconds == pytest.approx(94 * layer_s + head_s, rel=1e-9)


@pytest.fixture
def profile(tmp_path):
    """A profile of all kernels of Qwen3: latencies that are power laws of the sizes."""

    def write(kernels=("gemm", "moe", "gqa_decode", "gqa_prefill")):
        rows = [1, 4, 16, 64, 256, 1024, 4096]
        shape = {"hidden": 4096, "inner": 1536, "top_k": 8, "experts": 128, "tp": 1, "ep": 1}
        heads = {"kv_dtype": "bf16", "q_heads": 64, "kv_heads": 4, "head_dim": 128}
        widths = ((9216, 4096), (4096, 8192), (151_936, 4096))
        calls = {
            "gemm": [Gemm(dtype="bf16", m=m, n=n, k=k) for m in rows for n, k in widths],
            "moe": [Moe(dtype="bf16", distribution="balanced", **shape, tokens=m) for m in rows],
            "gqa_decode": [
                GqaDecode(**heads, batch=b, kv_len=k) for b in (1, 4) for k in (256, 1024, 4096)
            ],
            "gqa_prefill": [
                GqaPrefill(**heads, batch=b, length=n) for b in (1, 4) for n in (256, 1024, 4096)
            ],
        }
        for name in kernels:
            file = ProfileFile(
                kernel=type(calls[name][0]),
                gpu="h200",
                source="a law",
                rows=tuple(Measurement(call, law_us(call)) for call in calls[name]),
            )
            write_profile_file(tmp_path / "h200" / f"{name}.csv", file)
        return tmp_path / "h200"

    return write


def law_us(call):
    match call:
        case Gemm():
            return 40.0 * math.sqrt(call.m) * (call.n * call.k / 2**25) ** 0.5
        case Moe():
            return 700.0 * call.tokens**0.5
        case GqaDecode():
            return 30.0 * call.batch**0.5 * (call.kv_len / 1024) ** 0.5
    return 900.0 * call.batch * (call.length / 1024) ** 1.5


NO_FITS = Fits(schema="pagewave.kernel-fits/1", fits=[])


def test_a_profile_serves_a_model(profile):
    """Latencies of the law where they exceed the delivery: with few rows they all do."""
    system = system_on(TableSource(profile(), NO_FITS))
    result = generate(system, **SIZE)
    steps = np.arange(1, 128)
    decode_s = 30e-6 * 2 * ((1024 + steps) / 1024) ** 0.5
    layer_s = 6e-6 + (2 * 4096 + 2 * 128) * 2 / 3.2e12 + 4096 * 256 / 3.2e12 + 1400e-6
    layer_s += 80e-6 * ((9216 * 4096 / 2**25) ** 0.5 + 1)
    head_s = 80e-6 * (151_936 * 4096 / 2**25) ** 0.5
    expected = 94 * (layer_s + decode_s.mean()) + max(head_s, 2 * 151_936 * 4096 / 3.2e12)
    assert result.tpot_s == pytest.approx(expected, rel=1e-6)
    rows = {row["kernel"]: row for row in result.kernels}
    assert rows["gqa_decode"]["status"] == "interpolated"
    assert 0 < rows["gqa_decode"]["distance_octaves"] <= 1
    assert rows["moe"] == {
        "kernel": "moe",
        "status": "measured",
        "distance_octaves": 0.0,
        "p90_error_pct": None,
        "provenance": "a law",
    }
    assert result.labels["gpu_provenance"] == "a law"


def test_results_of_a_load_tell_their_kernels(profile):
    path = str(profile())
    system = system_on(TableSource(path, NO_FITS))
    load = [Request(0.0, 1024, 20), Request(0.1, 1500, 5)]
    values = serve(system, load).values
    assert values["gpu_kernels"] == path
    assert [row["kernel"] for row in values["kernels"]] == [
        "gemm", "gqa_decode", "gqa_prefill", "moe",
    ]  # fmt: skip


def test_what_a_profile_lacks_is_refused_or_marked(profile):
    path = str(profile(("gemm", "gqa_decode", "gqa_prefill")))
    options = {
        "model": "qwen3-235b-a22b",
        "topology_name": "dash",
        "timing": "link-limited",
        "gpu": "h200",
        "kernels": path,
    }
    with pytest.raises(InputError, match="nothing was measured for dtype=bf16 distribution=bal"):
        generate(build_system(**options), **SIZE)
    result = generate(build_system(**options, outside="roofline"), **SIZE)
    rows = {row["kernel"]: row for row in result.kernels}
    assert rows["moe"]["status"] == "extrapolated"
    assert "the table does not reach" in rows["moe"]["provenance"]
    with pytest.raises(InputError, match=r"gpu is 'b200': .* was measured on 'h200'"):
        build_system(**(options | {"gpu": "b200"}))


def test_the_least_sure_answer_is_told():
    def answer(status, distance, error):
        return KernelTime(
            seconds=1.0, start_s=0.0, busy_s=1.0, source="s", status=status, provenance=status,
            distance_octaves=distance, p90_error_pct=error,
        )  # fmt: skip

    gemm = Gemm(dtype="bf16", m=1, n=1, k=1)
    decode = GqaDecode(kv_dtype="bf16", q_heads=1, kv_heads=1, head_dim=1, batch=1, kv_len=1)
    found = rests_on(
        [
            (gemm, answer("interpolated", 0.4, 9.0)),
            (decode, answer("measured", 0.0, None)),
            (gemm, answer("extrapolated", 0.2, None)),
            (gemm, answer("measured", 0.0, None)),
        ]
    )
    assert [list(row.values()) for row in found] == [
        ["gemm", "extrapolated", 0.4, 9.0, "extrapolated"],
        ["gqa_decode", "measured", 0.0, None, "measured"],
    ]
