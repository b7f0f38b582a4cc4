"""What a run is blamed for, and what the faults it planted excuse."""

import dataclasses
from functools import cache

import pytest

from hw.presets import preset, topology
from hw.ucie.codes import Owner, Status
from tb.excuses import excused_beats
from tb.play import design, play
from tb.reads import ReadRun, with_pairs
from tb.settings import Faults, Modes
from tb.simulator import build
from tb.verdict import wrongs
from tb.writes import WriteRequest, kv_writes

MINI, ONE_PAIR = preset("mini"), topology("compact")
PAGE = 4  # beats
PLANES = range(MINI.geometry.planes)
OK, FAILED, OWNER = Status.OK, Status.PROGRAM_FAILED, Status.ILLEGAL_OWNER
DOUBLE = Faults(ecc_beats=3, ecc_bits=(5, 9), ecc_word=1)


@cache
def played():
    writes = kv_writes(MINI, waves=1, planes=PLANES)
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


def failed(**writes):
    """Writes of which a page failed, and said so."""
    return {"writes": {"statuses": {FAILED: 1}, "page_failures": 1, **writes}}


def test_a_run_as_it_should_be_is_blamed_for_nothing(verilator):
    assert wrongs(played()) == [] and excused_beats(played()) == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"data_errors": 1}, "1 beats are wrong, and erased pages and faults account for 0"),
        ({"violations": 2, "broken_rules": ("ORDER",)}, "2 NAND rules were broken (ORDER)"),
        ({"stale": True}, "pages did not come as they were written last"),
        ({"read_statuses": {Status.OK: 3}}, "reads ended with 3 OK, not 4 OK"),
        ({"writes": {"statuses": {Status.ORDER: 1}}}, "writes ended with 1 ORDER, not 1 OK"),
        ({"writes": {"erase_failures": 1}}, "1 erases failed, not 0 as asked for"),
        ({"corrected": 1}, "1 words of the SRAM were corrected, not 0 as asked for"),
        ({"uncorrected": 2}, "2 words of the SRAM were uncorrectable, not 0 as asked for"),
        (failed(program_failures=1), "1 programs failed, not 0 as asked for"),
        ({"writes": {"wrong_beats": 3}}, "3 wrong beats reached the NAND"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("pairs", [1, 2])
def test_each_wrong_has_its_sentence(verilator, pairs, fields, words):
    if pairs == 2 and "statuses" not in str(fields):
        fields = {"read_statuses": {OK: 4}, "writes": {"statuses": {OK: 2}}} | fields
        fields["writes"] = {"statuses": {OK: 2}} | fields["writes"]
        fields["run"] = {"topology": with_pairs(ONE_PAIR, 2)}
    assert wrongs(changed(**fields)) == [words]


@pytest.mark.parametrize(
    ("faults", "fields", "words"),
    [
        (Faults(program_at=1), failed(program_failures=2), "2 programs failed, not 1 as asked"),
        (Faults(erases=256), failed(program_failures=1), "1 programs failed, not 0 as asked"),
        (Faults(programs=256), failed(erase_failures=1), "1 erases failed, not 0 as asked for"),
        (DOUBLE, {"uncorrected": 4}, "4 words of the SRAM were uncorrectable, not 3 as asked"),
        (DOUBLE, {"corrected": 1}, "1 words of the SRAM were corrected, not 0 as asked for"),
        (Faults(ecc_beats=1), {"corrected": 2}, "2 words of the SRAM were corrected, not 1"),
        (DOUBLE, failed(wrong_beats=3) | {"uncorrected": 2},
         "3 wrong beats reached the NAND, and faults account for 2"),
        (Faults(programs=1), {"writes": {"statuses": {Status.ORDER: 1}}}, "not 1 OK"),
        (DOUBLE, {"writes": {"statuses": {FAILED: 1}}, "uncorrected": 3}, "not 1 OK"),
        (Faults(program_at=1), {"writes": {"program_failures": 1}}, "ended with 1 OK, not 1 OK"),
        (Faults(program_at=1), failed(program_failures=1, statuses={Status.OVERLAP: 1}), "1 OVER"),
        (Faults(program_at=1), failed(program_failures=1, statuses={FAILED: 2}), "not 1 OK"),
    ],
)  # fmt: skip
def test_faults_excuse_only_what_happened_and_was_asked_for(verilator, faults, fields, words):
    (wrong,) = wrongs(changed(run={"faults": faults}, **fields))
    assert words in wrong


ERASED = kv_writes(MINI, waves=1, planes=PLANES, rewrite=True)
TWICE = {OK: 1, FAILED: 1}


@pytest.mark.parametrize(
    ("run", "fields", "most"),
    [
        ({"faults": Faults(programs=1)}, failed(program_failures=2), 2 * PAGE),
        ({"faults": Faults(programs=1), "writes": ERASED},
         failed(program_failures=1, statuses=TWICE), PAGE),
        ({"faults": Faults(erases=1), "writes": ERASED},
         failed(erase_failures=1, statuses=TWICE), PAGE),
        ({"faults": Faults(erases=1), "writes": ERASED, "waves": 16},
         failed(erase_failures=1, statuses=TWICE), (15 * 128 + 1) * PAGE),
        ({"faults": DOUBLE}, {"uncorrected": 3}, 3),
        ({"faults": DOUBLE}, failed(wrong_beats=3) | {"uncorrected": 3}, PAGE),
        ({"faults": DOUBLE}, failed(wrong_beats=2) | {"uncorrected": 3}, PAGE + 1),
        ({"faults": Faults(ecc_beats=3, ecc_bits=(5,))}, {"corrected": 3}, 0),
        ({"writes": ERASED, "waves": 3}, {"writes": {"statuses": {OK: 2}}}, 2 * 128 * PAGE),
        ({"writes": kv_writes(MINI, waves=1, planes=range(2), rewrite=True),
          "planes": range(1), "waves": 1}, {"writes": {"statuses": {OK: 32}}}, 4 * 16 * PAGE),
    ],
    ids=["programs", "program before an erase", "erase", "erase of blocks that are read", "words",
         "words of a page written", "words written and read", "one bit", "rewrite", "planes"],
)  # fmt: skip
def test_faults_and_erases_excuse_the_beats_they_spoil_and_no_more(verilator, run, fields, most):
    def blamed(errors):
        result = changed(run=run, data_errors=errors, **fields)
        reads = {OK: len(result.run.requests())}
        return wrongs(dataclasses.replace(result, read_statuses=reads))

    assert blamed(most) == []
    (words,) = blamed(most + 1)
    assert words == f"{most + 1} beats are wrong, and erased pages and faults account for {most}"


def test_pages_read_twice_are_spoilt_twice(verilator):
    scattered = {"scatter": True, "waves": 100, "faults": Faults(program_at=1)}
    writes = kv_writes(MINI, waves=256, planes=PLANES)
    result = changed(run=scattered | {"writes": writes}, writes={"program_failures": 1})
    pages = [
        page for first, count, _ in result.run.requests() for page in range(first, first + count)
    ]
    often = max(map(pages.count, pages))
    assert often > 1 and excused_beats(result) == often * PAGE


def test_each_stack_may_have_its_failure(verilator):
    two = {"topology": with_pairs(ONE_PAIR, 2), "faults": Faults(programs=1), "pages": 1}
    for failures, most in ((1, PAGE), (2, 2 * PAGE), (3, 2 * PAGE)):
        result = changed(run=two, writes={"program_failures": failures})
        assert excused_beats(result) == most


# Statuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ({"trim": True}, [{OK: 2}], [{OK: 1, OWNER: 1}, {OK: 3}, {OK: 1}]),
        ({"trim": True, "owner": Owner.WEIGHT}, [{OK: 1, OWNER: 1}], [{OK: 2}, {OWNER: 2}]),
        ({"release": True}, [{OK: 1, OWNER: 1}], [{OK: 2}, {OK: 1, Status.ORDER: 1}]),
        ({"release": True, "owner": Owner.WEIGHT}, [{OK: 2}], [{OK: 1, OWNER: 1}]),
        ({"release": True, "trim": True}, [{OK: 3}], [{OK: 2, OWNER: 1}]),  # a block not full
        ({"release": True, "trim": True, "waves": 16}, [{OK: 3}, {OK: 2, OWNER: 1}],
         [{OK: 1, OWNER: 2}, {OK: 2, Status.ORDER: 1}, {OK: 2}, {OK: 4}]),
    ],
    ids=["TRIM", "TRIM of weights", "RELEASE", "RELEASE of weights", "both", "both, full blocks"],
)  # fmt: skip
def test_writes_end_as_their_operation_has_them(verilator, options, good, bad):
    writes = kv_writes(MINI, **({"waves": 1, "planes": PLANES} | options))

    def blamed(statuses):
        return wrongs(changed(run={"writes": writes}, writes={"statuses": statuses}))

    assert all(blamed(statuses) == [] for statuses in good)
    assert all(len(blamed(statuses)) == 1 for statuses in bad)


def test_without_collection_nothing_races(verilator):
    writes = kv_writes(MINI, waves=16, planes=PLANES, trim=True, release=True)
    run = {"writes": writes, "modes": Modes(collect=False)}
    assert wrongs(changed(run=run, writes={"statuses": {OK: 3}})) == []
    assert wrongs(changed(run=run, writes={"statuses": {OK: 2, OWNER: 1}}))


# What an erase leaves blank, against what the RTL delivers ---------------------------------------

FAST = dataclasses.replace(
    MINI, nand=dataclasses.replace(MINI.nand, t_program_ns=500, t_erase_ns=2000)
)


@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize(
    ("writes", "fields"),
    [
        (kv_writes(MINI, waves=1, planes=PLANES, rewrite=True), {"waves": 256}),
        (kv_writes(MINI, waves=2, planes=range(4), rewrite=True),
         {"waves": 256, "scatter": True}),
        (kv_writes(MINI, waves=16, planes=PLANES, trim=True), {"waves": 256}),
        (kv_writes(MINI, waves=1, planes=PLANES, rewrite=True),
         {"waves": 4, "writes_first": True}),
        (kv_writes(MINI, waves=1, planes=PLANES, rewrite=True),
         {"planes": range(1), "waves": 1, "writes_first": True}),
    ],
    ids=["rewrite", "rewrite of planes", "trim", "read after rewrite", "planes after rewrite"],
)  # fmt: skip
def test_reads_beside_erases_may_be_blank(verilator, writes, fields, suspend):
    run = ReadRun(machine=FAST, topology=ONE_PAIR, route="direct", writes=writes,
                  modes=Modes(suspend=suspend), **fields)  # fmt: skip
    result = play(build(design(MINI, ONE_PAIR)), run)
    assert wrongs(result) == []
    assert 0 < result.data_errors <= excused_beats(result)
    if run.writes_first:  # all of them, then
        assert result.data_errors == excused_beats(result)


def test_pages_of_a_request_that_erases_are_never_seen_blank(verilator):
    writes = kv_writes(MINI, waves=16, planes=PLANES, rewrite=True)
    run = ReadRun(machine=FAST, topology=ONE_PAIR, route="direct", waves=256, writes=writes)
    result = play(build(design(MINI, ONE_PAIR)), run)
    assert result.writes.erases == 128
    assert excused_beats(result) == result.data_errors == 0


def test_a_block_of_two_requests_is_blank_between_them(verilator):
    wave = MINI.geometry.wave_pages
    first, second = (WriteRequest(first=row * wave, pages=wave) for row in range(2))
    again = [dataclasses.replace(write, version=2) for write in (first, second)]
    run = ReadRun(machine=MINI, topology=ONE_PAIR, route="direct", waves=256,
                  writes=(first, second, *again))  # fmt: skip
    result = changed(
        run=dataclasses.asdict(run)
        and {"writes": run.writes, "waves": 256, "writes_first": False, "request_pages": wave}
    )
    assert excused_beats(result) == 15 * wave * PAGE
    after = dataclasses.replace(result, run=dataclasses.replace(result.run, writes_first=True))
    assert excused_beats(after) == 14 * wave * PAGE


# Bit errors of written pages, as the RTL has them -----------------------------------------------


@pytest.mark.parametrize(
    ("word", "bits", "writes_first"),
    [(0, (5, 9), True), (0, (5, 9), False), (1, (0, 1), True), (7, (0, 63), True),
     (1, (64, 70), True)],
    ids=["data", "data, reads beside", "version", "version, of the last word", "check bits"],
)  # fmt: skip
def test_uncorrectable_words_of_written_pages_are_excused(verilator, word, bits, writes_first):
    faults = Faults(ecc_beats=3, ecc_bits=bits, ecc_word=word)
    run = dataclasses.replace(played().run, machine=FAST, faults=faults, writes_first=writes_first)
    result = play(build(design(MINI, ONE_PAIR)), run)
    assert result.uncorrected == 3 and result.writes.statuses == {FAILED: 1}
    assert wrongs(result) == []
    more = dataclasses.replace(result.writes, wrong_beats=result.writes.wrong_beats + 10)
    assert len(wrongs(dataclasses.replace(result, writes=more))) == 1
