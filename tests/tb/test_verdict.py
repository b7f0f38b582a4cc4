"""What a run is blamed for, and what the faults it planted excuse."""

import dataclasses
from functools import cache

import pytest

from hw.presets import preset, topology
from hw.ucie.codes import Status
from tb.play import design, play
from tb.reads import ReadRun
from tb.settings import Faults
from tb.simulator import build
from tb.verdict import excused_beats, wrongs
from tb.writes import kv_writes

MINI, ONE_PAIR = preset("mini"), topology("compact")
PAGE = 4  # beats


@cache
def played():
    writes = kv_writes(MINI, waves=1, planes=range(MINI.geometry.planes))
    run = ReadRun(machine=MINI, topology=ONE_PAIR, route="direct", waves=1, writes=writes,
                  writes_first=True)  # fmt: skip
    return play(build(design(MINI, ONE_PAIR)), run)


def changed(*, run=None, writes=None, **fields):
    good = played()
    return dataclasses.replace(
        good,
        run=dataclasses.replace(good.run, **(run or {})),
        writes=dataclasses.replace(good.writes, **(writes or {})),
        **fields,
    )


def test_a_run_as_it_should_be_is_blamed_for_nothing(verilator):
    assert wrongs(played()) == [] and excused_beats(played()) == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"data_errors": 1}, "1 beats are wrong, and the faults account for 0"),
        ({"violations": 2, "broken_rules": ("ORDER",)}, "2 NAND rules were broken (ORDER)"),
        ({"writes": {"wrong_beats": 3}}, "3 wrong beats reached the NAND"),
        ({"stale": True}, "pages did not come as they were written last"),
        ({"read_statuses": {Status.OK: 3}}, "reads ended with 3 OK, not 4 OK"),
        ({"writes": {"statuses": {Status.ORDER: 1}}}, "writes ended with 1 ORDER, not 1 OK"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_wrong_has_its_sentence(verilator, fields, words):
    assert wrongs(changed(**fields)) == [words]


@pytest.mark.parametrize(
    ("faults", "fields", "most"),
    [
        (Faults(program_at=1), {"writes": {"program_failures": 2}}, 2 * PAGE),
        (Faults(erases=1), {"writes": {"erase_failures": 1}}, 16 * PAGE),
        (Faults(ecc_beats=3, ecc_bits=(5, 9)), {"uncorrected": 3}, 3),
        (Faults(ecc_beats=3, ecc_bits=(5,)), {"uncorrected": 3}, 0),
    ],
    ids=["program", "erase", "two bits", "one bit"],
)
def test_faults_excuse_the_beats_they_spoil_and_no_more(verilator, faults, fields, most):
    def blamed(errors):
        return wrongs(changed(run={"faults": faults}, data_errors=errors, **fields))

    assert blamed(most) == []
    assert blamed(most + 1) == [f"{most + 1} beats are wrong, and the faults account for {most}"]


def test_pages_read_twice_are_spoilt_twice(verilator):
    scattered = {"scatter": True, "waves": 100, "faults": Faults(program_at=1)}
    result = changed(run=scattered, writes={"program_failures": 1})
    pages = [
        page for first, count, _ in result.run.requests() for page in range(first, first + count)
    ]
    often = max(map(pages.count, pages))
    assert often > 1 and excused_beats(result) == often * PAGE
