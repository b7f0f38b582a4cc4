"""``pagewave measure`` as a user meets it."""

import json
import re

import pytest

from scripts.main import main
from tb.measurements import EXPERIMENTS, Measurement

BLOCK = "<!-- measured: first-byte -->\n<!-- end of first-byte -->\n"


def test_results_go_to_stdout_folder_and_page(verilator, capsys, tmp_path, monkeypatch):
    measure, kept = EXPERIMENTS["first-byte"], []

    def once(machine, seed, progress):
        if not kept:
            kept.append(measure(machine, seed, progress))
        return kept[0]

    monkeypatch.setitem(EXPERIMENTS, "first-byte", once)
    page, out = tmp_path / "page.md", tmp_path / "out"
    page.write_text(BLOCK)
    options = ["--preset", "mini", "--out", str(out), "--docs", str(page), "--json"]
    assert main(["measure", "first-byte", *options]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)["first-byte"]
    assert found == json.loads((out / "first-byte.json").read_text())
    rows = len(found["rows"])
    assert rows > 0
    table = (out / "first-byte.md").read_text().strip()
    assert table in page.read_text()
    # Each row is one run, and each run ends in one line of progress.
    progress = re.findall(r"^ *(\d+) of (\d+): ", captured.err, re.M)
    assert progress == [(str(run), str(rows)) for run in range(1, rows + 1)]
    # The terminal shows the same figures, of these runs.
    (measured,) = kept
    assert main(["measure", "first-byte", *options[:4]]) == 0
    assert kept == [measured]
    shown = capsys.readouterr().out
    assert all(f"{row['first_byte_ns']:,.1f}" in shown for row in found["rows"])


def test_a_figure_off_its_closed_form_ends_in_status_one(monkeypatch, capsys, tmp_path):
    def off(machine, seed, progress):
        return Measurement(
            name="rates", presets=(machine.name,), seed=seed, rows=(), tables=(), misses=("x: off",)
        )

    monkeypatch.setitem(EXPERIMENTS, "rates", off)
    assert main(["measure", "rates", "--out", str(tmp_path)]) == 1
    assert "off its closed form: rates: x: off" in capsys.readouterr().err
    assert json.loads((tmp_path / "rates.json").read_text())["misses"] == ["x: off"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["speeds"], "experiment 'speeds' is unknown: choose rates, first-byte, relay, peers"),
        (["rates", "--preset", "formal"], "preset 'formal': measure takes paper or mini"),
        (["rates", "--out", "/dev/null"], "out is '/dev/null'"),
        (["rates", "--docs", "missing.md"], "docs is 'missing.md': cannot be read"),
        (["rates", "--seed", "x"], "'--seed'"),
        (["--fast"], "--fast"),
    ],
    ids=" ".join,
)
def test_bad_input_ends_in_one_line(options, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["measure", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1
