"""The command line as a whole: help, version and how it ends."""

import importlib.metadata
import subprocess
import sys

import pytest

from hw.errors import InputError
from scripts import main as command
from scripts.main import main

VERBS = [
    registered.callback.__name__.replace("_", "-") for registered in command.app.registered_commands
]


def raises(error, monkeypatch):
    def app(*_, **__):
        raise error

    monkeypatch.setattr(command, "app", app)


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_names_every_verb(arguments, capsys):
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert all(verb in printed for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_verb_has_help(verb, capsys):
    assert main([verb, "--help"]) == 0
    assert f"pagewave {verb}" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pagewave {importlib.metadata.version('pagewave')}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command 'nope'."),
        (["--nope"], "No such option: --nope"),
        (["generate", "--nope"], "No such option: --nope"),
        (["generate", "--tp", "many"], "Invalid value for '--tp'"),
        (["generate"], "Missing option '--model'."),
    ],
)
def test_usage_error_is_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pagewave: error: {message}")
    assert printed.err.count("\n") == 1


def test_wrong_input_is_one_line(monkeypatch, capsys):
    raises(InputError("trace.csv:3 is 'x': must be a number"), monkeypatch)
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == "pagewave: error: trace.csv:3 is 'x': must be a number\n"


def test_interrupt_ends_with_130(monkeypatch):
    raises(KeyboardInterrupt, monkeypatch)
    assert main(["serve"]) == 130


def test_defect_shows_its_traceback(monkeypatch):
    raises(ZeroDivisionError, monkeypatch)
    with pytest.raises(ZeroDivisionError):
        main(["serve"])


def test_installed_command_passes_the_status_on():
    ended = subprocess.run(
        [sys.executable, "-m", "scripts.main", "nope"], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert ended.stderr == "pagewave: error: No such command 'nope'.\n"
