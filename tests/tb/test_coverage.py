"""Cover points, crosses, sums over runs and reports."""

import json

import pytest

from tb.coverage.goals import STATES, STEPS, goals
from tb.coverage.points import Coverage, CoverPoint, Cross
from tb.coverage.report import FILE, merge


def test_point_counts_what_it_knows():
    point = CoverPoint("weather", ["sun", "rain", "snow"])
    point.hit("sun")
    point.hit("rain", 3)
    point.hit("snow", 0)
    assert point.bins == {"sun": 1, "rain": 3, "snow": 0}
    assert point.missed == ["snow"]
    with pytest.raises(KeyError, match="'weather' has no bin 'fog'"):
        point.hit("fog")
    with pytest.raises(ValueError, match="has no bins"):
        CoverPoint("empty", [])


def test_cross_has_all_combinations_but_those_that_cannot_be():
    cross = Cross("c", [("a", "b"), ("x", "y", "z")], never=[("a", "z"), ("b", "x")])
    assert list(cross.bins) == ["a/x", "a/y", "b/y", "b/z"]
    cross.hit("b/z")
    with pytest.raises(KeyError, match="a/z"):
        cross.hit("a/z")
    with pytest.raises(ValueError, match="no combination"):
        Cross("c", [("a",), ("x",)], never=[("x", "a")])


def test_sum_of_runs_and_its_table():
    def run(**hits):
        coverage = Coverage([CoverPoint("p", ["one", "two"]), CoverPoint("q", ["three"])])
        coverage.add({"p": hits})
        return coverage

    total = run(one=2)
    total.add(run(one=1, two=4).as_dict())
    assert total.as_dict() == {"p": {"one": 3, "two": 4}, "q": {"three": 0}}
    assert total.missed == {"q": ["three"]}
    lines = total.table().splitlines()
    assert lines[1].split() == ["p", "2/2", "7"]
    assert lines[2].split() == ["q", "0/1", "0", "three"]
    with pytest.raises(KeyError):
        total.add({"r": {"one": 1}})


def test_report_of_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("tb.coverage.report.REPORTS", tmp_path / "reports")
    for run, status in (("a", "OK"), ("b", "ORDER")):
        coverage = goals()
        coverage.points["write_status"].hit(status, 2)
        coverage.save(tmp_path / run / FILE)
    total = merge([tmp_path / "a", tmp_path / "b"], "both")
    assert total.points["write_status"].bins["OK"] == 2
    assert "ORDER" not in total.missed["write_status"]
    saved = json.loads((tmp_path / "reports" / "both.json").read_text())
    assert saved == total.as_dict()
    assert (tmp_path / "reports" / "both.txt").read_text().startswith("point")


def test_goals_have_every_combination_that_can_be():
    points = goals().points
    # Four gates alone and together: all sets but the empty one.
    assert len(points["gates"].bins) == 2**4 - 1
    # 3 states of a write that is under way see no step of a second write.
    assert len(points["slot_beside"].bins) == len(STATES) * len(STEPS) - 3 * 5
    assert len(points["small_read"].bins) == 2 * (4 + 3 + 2)
