"""Result folders and the comparison figure."""

import csv
import json

import pytest

from hw.errors import InputError
from hw.presets import TOPOLOGIES
from perfmodel.report import plot_topologies, write_folder
from perfmodel.serving import Request, generate, metrics, serve

LOAD = [Request(0.0, 100, 5), Request(0.5, 50_000, 5), Request(1.0, 100, 1)]


def test_folder_holds_result_and_requests(make_system, tmp_path):
    result = serve(make_system(), LOAD, seed=4, load="three requests")
    folder = write_folder(result, tmp_path / "a" / "b")
    assert sorted(path.name for path in folder.iterdir()) == ["requests.csv", "result.json"]
    values = json.loads((folder / "result.json").read_text())
    assert values == json.loads(json.dumps(result.values))
    labels = ("model", "topology", "timing", "gpu", "gpu_kernels", "seed", "load")
    assert [values[label] for label in labels] == [
        "qwen3-235b-a22b",
        "dash",
        "link-limited",
        "h100-pcie",
        "base",
        4,
        "three requests",
    ]
    with (folder / "requests.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["completed", "rejected", "completed"]
    assert "exceeds the context" in rows[1]["reason"]
    mean = (float(rows[0]["ttft_ms"]) + float(rows[2]["ttft_ms"])) / 2
    assert mean == pytest.approx(metrics(result.outcome)["mean_ttft_ms"])
    assert rows[2]["tpot_ms"] == ""
    tpot = (float(rows[0]["e2el_ms"]) - float(rows[0]["ttft_ms"])) / 4
    assert float(rows[0]["tpot_ms"]) == pytest.approx(tpot)


def test_the_same_run_writes_the_same_bytes(make_system, tmp_path):
    for name in ("a", "b"):
        write_folder(serve(make_system(), LOAD), tmp_path / name)
    for file in ("result.json", "requests.csv"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_folder_that_cannot_be_made(make_system, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_folder(serve(make_system(), LOAD), tmp_path / "file" / "out")


def test_figure_of_the_topologies(make_system, measured, tmp_path):
    results = [
        generate(make_system(top=top, timing=timing), batch=2, input_len=64, output_len=8)
        for top in TOPOLOGIES
        for timing in (None, measured)
    ]
    path = plot_topologies(results, tmp_path / "topologies.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no result for topology and timing"):
        plot_topologies(results[:-1], path)
    other = generate(make_system(), batch=3, input_len=64, output_len=8)
    with pytest.raises(ValueError, match="one model, batch, input and output length"):
        plot_topologies([*results, other], path)
