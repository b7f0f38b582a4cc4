"""``pagewave cells`` as a user meets it."""

import json
from collections import Counter

import pytest

from hw.presets import preset
from scripts import cells as command
from scripts.main import main
from tb.synthesis.netlist import Cells, Netlist, UnsynthesizableError
from tb.synthesis.report import report

# Two lanes of two registers and a queue each: 2 + 2 * (10 + 7) flip-flops.
NETLIST = Netlist(
    {
        "top": Cells(flip_flops=2, gates=1),
        "top.lane0": Cells(flip_flops=10, gates=5),
        "top.lane1": Cells(flip_flops=10, gates=5),
        "queue": Cells(flip_flops=7, memories=1, memory_bits=1_000),
    },
    {
        "top": Counter({"top.lane0": 1, "top.lane1": 1}),
        "top.lane0": Counter({"queue": 1}),
        "top.lane1": Counter({"queue": 1}),
        "queue": Counter(),
    },
)
PAGE = "before\n<!-- measured: mini -->\nold\n<!-- end of mini -->\nafter\n"


@pytest.fixture
def synthesized(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "BUILD", tmp_path / "build")
    monkeypatch.setattr(command, "count_cells", lambda machine, _: report(machine, NETLIST))


def test_counts_go_to_terminal_and_page(synthesized, capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert main(["cells", "--preset", "mini", "--docs", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "lane*" in shown and "36" in shown and "2,000" in shown
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| `lane*` | 2 | 10 | 5 | 0 | 0 |" in text
    assert "| `lane*` | 2 | 17 | 5 | 1,000 | 0 |" in text
    assert "| `queue` | 2 | 7 | 0 | 1,000 | 0 |" in text
    assert "| **die** |  | **36** | **11** | **2,000** | **0** |" in text


def test_json_is_the_only_thing_on_stdout(synthesized, capsys):
    assert main(["cells", "--preset", "mini", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["preset"] == "mini"
    assert found["machine_fingerprint"] == preset("mini").fingerprint
    assert found["total"]["flip_flops"] == 36
    assert [row["block"] for row in found["blocks"]] == ["the die itself", "lane*", "queue"]


def test_a_latch_ends_in_status_one(synthesized, monkeypatch, capsys):
    def found(machine, folder):
        raise UnsynthesizableError("latches: top/x[0]")

    monkeypatch.setattr(command, "count_cells", found)
    assert main(["cells", "--preset", "mini"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the HBF base die has latches: top/x[0]" in captured.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--preset", "formal"], "preset 'formal': cells takes mini or paper"),
        (["--preset", "big"], "preset 'big': cells takes mini or paper"),
        ([], "Missing option '--preset'"),
        (["--preset", "mini", "--docs", "missing.md"], "docs is 'missing.md': cannot be read"),
        (["--preset", "mini", "--docs", "empty.md"], "has no block <!-- measured: mini -->"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_in_one_line(options, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.md").write_text("")
    assert main(["cells", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1
