"""What reaches stdout and stderr."""

import json

import pytest

from scripts import console


def test_json_is_one_object_on_stdout(capsys):
    console.print_json({"tokens": 3, "rate": 0.5})
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"tokens": 3, "rate": 0.5}
    assert printed.err == ""


def test_json_refuses_what_json_cannot_say():
    with pytest.raises(ValueError, match="not JSON compliant"):
        console.print_json({"rate": float("inf")})


def test_progress_off_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    seconds = iter([0.0, 1.0, 10.0, 10.0, 11.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(seconds))
    with console.progress("requests", 30) as show:
        for done in (10, 20, 30):
            show(done)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "requests: 20 of 30\n"
