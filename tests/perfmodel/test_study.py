"""A study over load: what it runs, what it summarises, and what it writes."""

import csv
import dataclasses
import json
import statistics

import numpy as np
import pytest

from hw.errors import InputError
from hw.presets import topology
from perfmodel.report import write_study
from perfmodel.report.study_tables import study_markdown
from perfmodel.serving import (
    POLICIES,
    Request,
    Schedule,
    Serial,
    Study,
    Workload,
    metrics,
    run_study,
    simulate,
)
from perfmodel.serving.passes import PassModel

SMALL = Study(
    workload=Workload(input_len=100, output_len=20, warmup=4, measured=24),
    loads=(0.5, 0.9),
    seeds=(3, 4, 5),
    policies=tuple(POLICIES.values()),
    limits=Schedule(max_batch=4, token_budget=128, chunk=32),
)


@pytest.fixture(scope="module")
def systems(tiny_system):
    return [
        dataclasses.replace(tiny_system, topology=topology(name))
        for name in ("dash", "direct-only")
    ]


@pytest.fixture(scope="module")
def result(systems):
    return run_study(systems, SMALL)


def test_load_is_a_fraction_of_the_backlog_of_relay_only_under_mixed(systems, result):
    relay = dataclasses.replace(systems[0], topology=topology("relay-only"))
    backlog = [Request(0.0, 100, 20)] * 32
    ends = np.sort(simulate(relay, backlog, SMALL.limits).finish_s)
    unit = 24 / (ends[27] - ends[3])
    assert result.labels["load_1_requests_per_s"] == pytest.approx(unit, rel=1e-12)
    found = {(row["policy"], row["topology"]): row for row in result.capacity}
    assert len(found) == 4
    for policy in POLICIES:
        rate = found[policy, "direct-only"]["requests_per_s"]
        schedule = dataclasses.replace(SMALL.limits, policy=POLICIES[policy])
        base = SMALL.workload.backlogged_rate(PassModel(relay), schedule)
        assert found[policy, "direct-only"]["over_relay_only"] == pytest.approx(rate / base)
    gain = found["mixed", "dash"]["requests_per_s"] / found["serial", "dash"]["requests_per_s"]
    assert found["mixed", "dash"]["over_serial"] == pytest.approx(gain)
    assert found["serial", "dash"]["over_serial"] == 1


def test_every_run_is_that_of_its_stream_alone(systems, result):
    """Shared pass models change nothing, and all topologies get the same arrivals."""
    assert len(result.runs) == 2 * 2 * 2 * 3
    unit = result.labels["load_1_requests_per_s"]
    for row in result.runs[::5]:
        system = next(s for s in systems if s.topology.name == row["topology"])
        stream = SMALL.workload.stream(row["load"] * unit, row["seed"])
        schedule = dataclasses.replace(SMALL.limits, policy=POLICIES[row["policy"]])
        expected = metrics(simulate(system, stream, schedule), warmup=4)
        assert row["p90_tpot_ms"] == expected["p90_tpot_ms"]
        assert row["request_throughput"] == expected["request_throughput"]


def test_one_seed_is_one_stream_at_every_rate():
    slow, fast = (SMALL.workload.stream(rate, 9) for rate in (1.0, 4.0))
    assert len(slow) == 28
    assert [4 * r.arrival_s for r in fast] == pytest.approx([r.arrival_s for r in slow])
    assert SMALL.workload.stream(1.0, 8) != slow


def test_summary_and_reductions_by_hand(result):
    def values(topology, metric):
        case = {"policy": "serial", "load": 0.9, "topology": topology}
        return [row[metric] for row in result.runs if case.items() <= row.items()]

    ours, theirs = values("dash", "p90_e2el_ms"), values("direct-only", "p90_e2el_ms")
    row = next(
        r
        for r in result.summary
        if (r["policy"], r["load"], r["topology"], r["metric"])
        == ("serial", 0.9, "dash", "p90_e2el_ms")
    )
    assert row["mean"] == pytest.approx(statistics.mean(ours))
    assert row["half_width"] == pytest.approx(4.3027 * statistics.stdev(ours) / 3**0.5, rel=1e-4)
    found = next(
        r
        for r in result.reductions
        if (r["policy"], r["load"], r["metric"]) == ("serial", 0.9, "p90_e2el_ms")
    )
    percent = [100 * (1 - a / b) for a, b in zip(ours, theirs, strict=True)]
    assert (found["topology"], found["against"]) == ("dash", "direct-only")
    assert found["mean_pct"] == pytest.approx(statistics.mean(percent))
    assert (found["least_pct"], found["most_pct"]) == (min(percent), max(percent))


def test_warmup_is_left_out(tiny_system):
    """Metrics are those of the other requests, and time begins with the last one left out."""
    load = Workload(input_len=90, output_len=9, warmup=5, measured=20).stream(500.0, 1)
    outcome = simulate(tiny_system, load)
    found = metrics(outcome, warmup=5)
    latency = (outcome.finish_s - [r.arrival_s for r in load])[5:]
    first = (outcome.first_token_s - [r.arrival_s for r in load])[5:]
    assert found["completed"] == 20
    assert found["mean_e2el_ms"] == pytest.approx(1e3 * latency.mean())
    assert found["p90_tpot_ms"] == pytest.approx(np.percentile(1e3 * (latency - first) / 8, 90))
    assert found["mean_itl_ms"] == pytest.approx(1e3 * (latency - first).sum() / (20 * 8))
    assert found["duration"] == outcome.finish_s[5:].max() - load[4].arrival_s
    assert found["total_output_tokens"] == 180
    for warmup in (-1, 25):
        with pytest.raises(InputError, match=f"warmup is {warmup}: must be 0 to 24"):
            metrics(outcome, warmup)


def test_files(result, tmp_path):
    folder = write_study(result, tmp_path / "study")
    assert sorted(path.name for path in folder.iterdir()) == [
        "capacity.csv", "reductions.csv", "runs.csv", "study.json", "study.md", "study.png",
        "summary.csv",
    ]  # fmt: skip
    values = json.loads((folder / "study.json").read_text())
    assert values == json.loads(json.dumps(result.as_dict()))
    with (folder / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert float(rows[7]["p99_ttft_ms"]) == result.runs[7]["p99_ttft_ms"]
    assert (folder / "study.png").read_bytes().startswith(b"\x89PNG")
    text = (folder / "study.md").read_text()
    assert text == study_markdown(result)
    rate = next(r for r in result.capacity if (r["policy"], r["topology"]) == ("serial", "dash"))
    assert f"| serial | dash | {rate['requests_per_s']:.4f} |" in text
    again = write_study(result, tmp_path / "again")
    for name in ("study.json", "runs.csv", "study.md"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_a_single_topology_and_seed_is_a_study_too(systems, tmp_path):
    study = dataclasses.replace(SMALL, seeds=(0,), policies=(Serial(),), loads=(0.3,))
    seen = []
    found = run_study(systems[:1], study, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1)]
    assert found.reductions == []
    assert found.summary[0]["half_width"] is None
    assert (write_study(found, tmp_path) / "reductions.csv").read_text() == ""


def test_the_reference_is_refused_by_name_where_the_model_does_not_fit(systems, make_system):
    assert systems[0].on("relay-only").topology.name == "relay-only"
    big = make_system("llama4-maverick", decode_kv_budget_bytes=1)
    with pytest.raises(InputError, match="in topology 'relay-only'"):
        big.on("relay-only")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loads": ()}, "load: there is none"),
        ({"loads": (0.5, 0.5)}, "load is 0.5, 0.5: one is there twice"),
        ({"loads": (0.0,)}, "load is 0.0: must be a fraction above 0"),
        ({"loads": (float("nan"),)}, "load is nan: must be a fraction above 0"),
        ({"seeds": ()}, "seeds: there is none"),
        ({"policies": (Serial(), Serial())}, "policy is serial, serial: one is there twice"),
    ],
)
def test_lists_are_checked(changes, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(SMALL, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_len": 0}, "input-len is 0: must be at least 1"),
        ({"warmup": -1}, "warmup is -1: must be at least 0"),
        ({"measured": 0}, "requests is 0: must be at least 1"),
    ],
)
def test_workload_is_checked(changes, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(SMALL.workload, **changes)


def test_requests_too_long_for_the_model_are_refused(systems):
    study = dataclasses.replace(SMALL, workload=Workload(input_len=5000))
    with pytest.raises(InputError, match="input-len is 5000, output-len 128: input \\+ output ex"):
        run_study(systems, study)
    with pytest.raises(InputError, match="topology is dash, dash: one is there twice"):
        run_study([systems[0], systems[0]], SMALL)
