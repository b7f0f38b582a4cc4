"""``pagewave correlate`` as a user meets it."""

import json

import pytest

from scripts.main import main

OPTIONS = ["correlate", "--traces", "2", "--full-size", "0", "--topologies", "compact"]


def test_results_go_to_stdout_and_folder(verilator, capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- measured: correlation -->\n<!-- end of correlation -->\n")
    out = ["--out", str(tmp_path), "--docs", str(page)]
    assert main([*OPTIONS, *out, "--json"]) == 0
    first = capsys.readouterr()
    totals = json.loads(first.out)
    assert totals == json.loads((tmp_path / "correlation.json").read_text())
    assert {"n", "median_pct", "p99_pct", "max_pct", "worst"} <= set(totals)
    assert totals["traces"] == 2
    assert first.err.count(", kept") == 0
    assert (tmp_path / "correlation.png").read_bytes().startswith(b"\x89PNG")
    table = (tmp_path / "correlation.md").read_text().strip()
    assert f"{totals['n']:,}" in table
    assert table in page.read_text()
    # Again, with tables and one trace more: what was played is not played again.
    assert main([*OPTIONS[:2], "3", *OPTIONS[3:], *out]) == 0
    again = capsys.readouterr()
    assert again.err.count(", kept") == 2
    assert "Error by parameter" in again.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--traces", "-1"], "number of traces is -1"),
        (["--traces", "0", "--full-size", "0"], "no trace is asked for"),
        (["--topologies", "star"], "topologies has 'star'"),
        (["--topologies", ","], "topologies is empty"),
        (["--docs", "README.md"], "has no block"),
    ],
)
def test_wrong_options(capsys, options, message):
    assert main(["correlate", *options]) == 2
    assert message in capsys.readouterr().err
