"""Systems and a timing record that several tests use."""

import dataclasses
import json

import pytest

from hw.presets import preset, topology
from perfmodel.gpu import gpu_named
from perfmodel.memory import MemoryTiming, PathTiming, link_limited
from perfmodel.models import load_model
from perfmodel.system import System

MEASURED = MemoryTiming(
    label="measured-like",
    provenance="made up: all rates differ",
    direct=PathTiming(first_byte_s=3.3e-6, bytes_per_s=1.55e12, request_gap_s=20e-9),
    relay=PathTiming(first_byte_s=3.3e-6, bytes_per_s=1.45e12, request_gap_s=30e-9),
    dual_bytes_per_s=2.7e12,
    gpu_hbm_link_bytes_per_s=1.6e12,
    hbm_local_bytes_per_s=1.1776e12,
)
TINY = {
    "model_type": "deepseek_v2",
    "hidden_size": 512,
    "vocab_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "q_lora_rank": 128,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "intermediate_size": 1024,
    "moe_intermediate_size": 256,
    "n_routed_experts": 16,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def make_system(tmp_path):
    """A system by names; ``model="tiny"`` is a four-layer model with every feature."""

    def make(model="qwen3-235b-a22b", top="dash", timing=None, gpu="h100-pcie", **options):
        if model == "tiny":
            path = tmp_path / "tiny.json"
            path.write_text(json.dumps(TINY))
            model = str(path)
        machine = preset("paper")
        return System(
            model=load_model(model),
            topology=topology(top),
            timing=timing or link_limited(machine),
            gpu=gpu_named(gpu),
            machine=machine,
            **options,
        )

    return make


@pytest.fixture(scope="module")
def tiny_system(tmp_path_factory):
    """The four-layer model on DASH, one for all tests of a file."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.json"
    path.write_text(json.dumps(TINY))
    machine = preset("paper")
    return System(
        model=load_model(str(path)),
        topology=topology("dash"),
        timing=link_limited(machine),
        gpu=gpu_named("h100-pcie"),
        machine=machine,
    )


@pytest.fixture
def repackaged():
    """The same system with other sizes in its placement."""

    def change(system, **sizes):
        copy = dataclasses.replace(system)
        copy.__dict__["placement"] = dataclasses.replace(system.placement, **sizes)
        return copy

    return change


@pytest.fixture
def measured():
    """Timing in which no two rates are equal."""
    return MEASURED


@pytest.fixture
def faster_links():
    """Link-limited timing of a machine with links 1.25 times as fast."""
    machine = preset("paper").with_registers(link_tbps=2.0)
    return dataclasses.replace(link_limited(machine), label="faster")


@pytest.fixture
def record_json():
    """A complete timing record of preset ``paper``, as JSON values."""
    observation = {
        "id": "direct-36MiB",
        "topology": "dash",
        "route": "direct",
        "waves": 4,
        "pairs": 1,
        "request_bytes": 37748736,
        "t_read_us": 3.0,
        "tsv_tbps": 3.2,
        "link_tbps": 1.6,
        "sense": "independent",
        "cache_read": True,
        "bytes": 37748736,
        "cycles": 54000,
        "first_byte_ns": 3012.0,
        "steady_bytes_per_s": 1.59e12,
        "data_errors": 0,
        "waveform": {
            "signals": ["gpu.i.valid", "gpu.o.valid"],
            "accepted_ns": 10.0,
            "first_beat_ns": 3022.0,
            "first_wave_end_ns": 8300.0,
            "last_beat_ns": 26900.0,
        },
    }

    def fit(rate):
        return {
            "first_byte_ns": 3012.0,
            "steady_bytes_per_s": rate,
            "request_gap_ns": 12.5,
            "residual_pct": 0.4,
            "from": ["direct-36MiB"],
        }

    return {
        "schema": "pagewave.timing/1",
        "preset": "paper",
        "machine_fingerprint": preset("paper").fingerprint,
        "rtl_fingerprint": "0123456789abcdef",
        "simulator": {"name": "verilator", "version": "5.038"},
        "seed": 7,
        "clock_hz": 2e9,
        "observations": [observation],
        "fitted": {"direct": fit(1.59e12), "relay": fit(1.57e12), "dual": fit(2.8e12)},
        "valid": {
            "request_bytes": [4096, 67108864],
            "t_read_us": [1, 8],
            "tsv_tbps": [1.6, 4.0],
            "link_tbps": [0.8, 2.0],
        },
    }


@pytest.fixture
def rtl_is_current(monkeypatch):
    """The RTL has the fingerprint of the record above."""
    monkeypatch.setattr("hw.source.rtl_fingerprint", lambda: "0123456789abcdef")
