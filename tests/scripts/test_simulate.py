"""``pagewave simulate`` as a user meets it."""

import json

import pytest

from hw.sram.secded import COLUMNS
from scripts.main import main

RUN = ["simulate", "--topology", "dash", "--preset", "mini", "--route", "dual", "--waves", "4"]
FIELDS = {
    "pairs",
    "bytes",
    "cycles",
    "clock_hz",
    "first_byte_ns",
    "steady_bytes_per_s",
    "data_errors",
    "wall_s",
    "cycles_per_wall_s",
}


def test_json_is_one_object_with_the_promised_fields(verilator, capsys, tmp_path):
    vcd = tmp_path / "dual.vcd"
    assert main([*RUN, "--json", "--waves-out", str(vcd)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result.keys() >= FIELDS
    assert result["pairs"] == 1
    assert result["bytes"] == 4 * 32 * 1024
    assert result["data_errors"] == 0
    assert result["cycles_per_wall_s"] == pytest.approx(result["cycles"] / result["wall_s"])
    assert {file.name for file in tmp_path.iterdir()} == {"dual.vcd", "dual.gtkw", "dual.sucl"}


def test_registers_reach_the_rtl(verilator, capsys):
    def seen(name, *options):
        assert main([*RUN, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)[name]

    def first_byte_ns(*options):
        return seen("first_byte_ns", *options)

    usual, clocks = first_byte_ns(), seen("cycles")
    # Pages leave in frames of four clocks, 2 ns.
    assert first_byte_ns("--t-read-us", "0.375") == pytest.approx(usual + 187.5, abs=2)
    assert first_byte_ns("--tsv-tbps", "0.1") > usual
    assert seen("cycles", "--link-tbps", "0.05") > 1.3 * clocks
    lockstep = seen("cycles", "--sense", "lockstep")
    assert lockstep != clocks
    assert seen("cycles", "--sense", "lockstep", "--no-cache-read") > 1.2 * lockstep


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--topology", "ring"], "topology 'ring' is unknown"),
        (["--preset", "huge"], "preset 'huge' is unknown"),
        (["--topology", "direct-only"], "topology 'direct-only' does not have"),
        (["--waves", "0"], "waves is 0"),
        (["--pairs", "0"], "Topology.pairs is 0"),
        (["--tsv-tbps", "9"], "Tsv.bytes_per_s"),
        (["--link-tbps", "0"], "Link.usable_bytes_per_s"),
        (["--t-read-us", "-1"], "t-read-us is -1.0: must be"),
        (["--sense", "half"], "sense 'half' is unknown"),
        (["--simulator", "spice"], "simulator 'spice' is unknown"),
        (["--simulator", "icarus", "--preset", "paper"], "use verilator"),
        (["--link-tbps", "1e-7"], "too slow for its rate register"),
        (["--tsv-tbps", "1e-7"], "too slow for its rate register"),
        (["--waves-out", "/dev/null/x.vcd"], "waves-out is '/dev/null/x.vcd'"),
        (["--waves-out", "/dev"], "waves-out is '/dev'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_in_one_line(options, words, capsys):
    assert main([*RUN, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "--preset", "mini", "--out", "/dev"], "out is '/dev'"),
        (["calibrate", "--preset", "mini", "--out", "/dev/null/x"], "out is '/dev/null/x'"),
        (["calibrate", "--preset", "formal", "--out", "x.json"], "calibration takes paper or mini"),
        (["demo", "--out", "/dev/null"], "out is '/dev/null'"),
    ],
    ids=" ".join,
)
def test_results_that_cannot_be_written_stop_before_work(
    arguments, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1


CORNER = ["simulate", "--topology", "dash", "--preset", "mini", "--route", "direct", "--waves", "1"]
WAVE_PAGES = 128


@pytest.fixture(scope="module")
def seen():
    """JSON of what was run, by its options."""
    return {}


@pytest.fixture
def corner(verilator, capsys, seen):
    """Runs one wave with some options and gives the JSON of the result."""

    def run(*options):
        if options not in seen:
            assert main([*CORNER, "--json", *options]) == 0
            seen[options] = json.loads(capsys.readouterr().out)
        return seen[options]

    return run


@pytest.mark.parametrize("source", ["gpu", "hbm"])
def test_writes_come_from_either_side(corner, source):
    seen = corner("--write-waves", "1", "--write-from", source, "--writes-first")
    assert seen["counters"]["pages_programmed"] == seen["writes"]["programs"] == WAVE_PAGES
    assert (seen["data_errors"], seen["stale"], seen["writes"]["wrong_beats"]) == (0, False, 0)


def test_rewritten_blocks_are_erased_and_read_back(corner):
    seen = corner("--write-waves", "1", "--rewrite", "--writes-first")
    assert seen["counters"]["erases"] == seen["writes"]["erases"] == WAVE_PAGES
    assert (seen["data_errors"], seen["stale"]) == (0, False)


def test_trimmed_blocks_are_collected(corner):
    # 3 waves are 24 pages in each subarray of one of 8 planes: a block of 16, and half of the next.
    seen = corner("--write-waves", "3", "--write-planes", "0:1", "--trim")
    # The last erases may still run when the reads and writes have ended.
    assert 0 < seen["counters"]["collected"] <= seen["writes"]["erases"]


def test_weights_are_not_collected_and_collection_may_be_off(corner):
    trimmed = ["--write-waves", "3", "--write-planes", "0:1", "--trim"]
    weight = corner(*trimmed, "--write-owner", "weight")
    assert weight["writes"]["refused"] > 0 == weight["writes"]["erases"]  # TRIM is for KV
    off = corner(*trimmed, "--no-collect")
    assert off["writes"]["refused"] == off["writes"]["erases"] == 0


def test_relocated_pages_are_counted(corner):
    seen = corner("--write-waves", "1", "--relocated")["counters"]
    assert seen["pages_relocated"] == seen["pages_programmed"] == WAVE_PAGES


def test_suspend_lets_reads_pass(corner):
    beside = ["--write-waves", "1", "--t-program-us", "20", "--waves", "2"]
    alone, suspended = corner(*beside), corner(*beside, "--suspend", "--suspend-slice-us", "1")
    assert alone["counters"]["suspends"] == 0 < suspended["counters"]["suspends"]
    last = "last_byte_ns"
    assert suspended["delivered"][last] < alone["delivered"][last]
    assert suspended["writes"]["end"] > alone["writes"]["end"]  # which pays for it


def test_reads_and_writes_keep_to_their_planes(corner):
    options = ["--write-waves", "1", "--write-planes", "2:4", "--t-program-us", "20"]
    apart, together = (corner(*options, "--read-planes", p) for p in ("0:2", "2:4"))
    assert apart["cycles_per_wall_s"] > 0
    end = "last_byte_ns"
    assert apart["delivered"][end] < together["delivered"][end]


def test_whole_regions_drain_later(corner):
    first = {drain: corner("--drain", drain)["first_byte_ns"] for drain in ("page", "region")}
    assert first["region"] > 2 * first["page"] - 187.5


def test_relayed_pages_cut_through_and_regions_are_given_back_early(corner):
    relay = ["--route", "relay", "--waves", "8"]
    usual, cut, early = (
        corner(*relay, *options)
        for options in ([], ["--relay-cut-through"], ["--early-grant", "4"])
    )
    first = "first_byte_ns"
    assert cut[first] < early[first] == usual[first]
    last = "last_byte_ns"
    assert early["delivered"][last] < usual["delivered"][last]


def test_small_reads_move_only_what_they_ask_for(corner):
    seen = corner("--read-bytes", "64")
    assert seen["bytes"] == WAVE_PAGES * 64 and seen["senses"] == WAVE_PAGES


@pytest.mark.parametrize(
    "option", ["--t-latch-ns", "--t-wb-ns", "--t-rr-ns", "--t-adl-ns", "--t-ccs-ns",
               "--t-plane-busy-ns", "--t-program-us", "--t-erase-us"],
)  # fmt: skip
def test_nand_times_reach_the_rtl(corner, option):
    writes = ["--write-waves", "1", "--rewrite", "--writes-first"]
    writes += ["--t-program-us", "0.1", "--t-erase-us", "0.1"]
    value = "1" if option.endswith("us") else "200"
    assert corner(*writes, option, value)["cycles"] > corner(*writes)["cycles"]


def test_slots_may_be_held_until_programs_end(corner):
    beside = ["--write-waves", "1", "--t-program-us", "10", "--waves", "4", "--suspend"]
    usual, held = corner(*beside), corner(*beside, "--hold-until-programmed")
    assert held["counters"]["blocked_sram"] > usual["counters"]["blocked_sram"]


def test_failed_programs_and_erases_are_told(corner):
    seen = corner("--write-waves", "1", "--fail-program-at", "3")["writes"]
    assert (seen["program_failures"], seen["page_failures"], seen["refused"]) == (1, 1, 1)
    every = corner("--write-waves", "1", "--fail-programs", "256")["writes"]
    assert every["program_failures"] == every["page_failures"] == WAVE_PAGES
    erases = corner("--write-waves", "1", "--rewrite", "--fail-erases", "256")["writes"]
    assert erases["erase_failures"] > 0 < erases["page_failures"]


REFUSALS = {
    "read-address": "BAD_ADDRESS",
    "read-piece": "BAD_ADDRESS",
    "write-address": "BAD_ADDRESS",
    "overlap": "OVERLAP",
    "order": "ORDER",
    "owner": "ILLEGAL_OWNER",
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_cannot_be_is_refused_and_does_no_harm(corner, refusal):
    # 17 rows: the second erase block of each subarray holds one page.
    seen = corner("--write-waves", "17", "--write-planes", "0:8", "--t-program-us", "1",
                  "--writes-first", "--refuse", refusal)  # fmt: skip
    of_read = refusal.startswith("read")
    status = {REFUSALS[refusal]: 1}
    assert seen["read_statuses"] == {"OK": 4} | (status if of_read else {})
    assert seen["writes"]["statuses"] == {"OK": 1} | ({} if of_read else status)
    assert seen["counters"]["pages_programmed"] == 17 * WAVE_PAGES
    assert (seen["data_errors"], seen["stale"]) == (0, False)


def test_all_refusals_together_over_both_links(corner):
    every = [part for name in REFUSALS for part in ("--refuse", name)]
    seen = corner("--write-waves", "1", "--write-from", "hbm", "--route", "relay", *every)
    assert seen["read_statuses"] == {"OK": 4, "BAD_ADDRESS": 2}
    statuses = {"OK": 1, "BAD_ADDRESS": 1, "OVERLAP": 1, "ORDER": 1, "ILLEGAL_OWNER": 1}
    assert seen["writes"]["statuses"] == statuses


def test_a_refusal_that_does_not_come_is_seen(corner, capsys, monkeypatch):
    monkeypatch.setattr("tb.refusals._out_of_turn", lambda machine, write: WAVE_PAGES)
    assert main([*CORNER, "--write-waves", "1", "--refuse", "order"]) == 1
    assert "writes ended with 2 OK, not 1 OK, 1 ORDER" in capsys.readouterr().err


def test_blocks_are_asked_for_and_released(corner):
    blocks = ["--block", "0:0:0", "--block", "0:0:1", "--block", "3:7:0"]
    written = ["--write-waves", "3", "--write-planes", "0:1", "--t-program-us", "1"]

    def states(*options, name):
        return [block[name] for block in corner(*written, *blocks, *options)["blocks"]]

    # 24 pages in each subarray of plane 0: a block of 16 and half of the next; plane 7 has none.
    assert states(name="next") == states(name="live") == [16, 8, 0]
    assert states(name="owner") == [2, 2, 0]
    assert states("--write-owner", "weight", name="owner") == [1, 1, 0]
    assert states("--write-owner", "weight", "--release", name="owner") == [0, 0, 0]
    assert states("--release", name="owner") == [2, 2, 0]  # live pages
    trimmed = ["--trim", "--no-collect", "--release"]
    assert states(*trimmed, name="owner") == states(*trimmed, name="live") == [0, 0, 0]
    assert states("--write-planes", "0:2", "--rewrite", name="cycles") == [1, 0, 0]


def test_paths_may_stall_apart(corner):
    def bytes_per_s(*options):
        return corner("--route", "dual", "--waves", "8", *options)

    usual, slow = (bytes_per_s(*o)["cycles"] for o in ([], ["--stall-relay", "240"]))
    assert slow > 2 * usual
    assert corner("--stall", "240", "--stall-direct", "0")["cycles"] == corner()["cycles"]
    assert corner("--stall-direct", "240")["cycles"] > corner()["cycles"]


def test_bit_errors_are_corrected_or_poison(corner):
    one = corner("--ecc-beats", "3", "--ecc-bits", "5")
    assert (one["ecc_corrected"], one["ecc_uncorrected"], one["data_errors"]) == (3, 0, 0)
    (status,) = one["status"]
    # A syndrome is that of its bit alone, so three errors of one bit show one.
    assert status["ecc_first_valid"] and not status["ecc_first_uncorrected"]
    assert status["ecc_first_syndrome"] == COLUMNS[5]
    assert status["ecc_first_word"] == 0
    (last,) = corner("--ecc-beats", "1", "--ecc-word", "7")["status"]
    assert last["ecc_first_word"] == 7
    two = corner("--ecc-beats", "3", "--ecc-bits", "5,70")
    assert two["status"][0]["ecc_first_syndrome"] == COLUMNS[5] ^ COLUMNS[70]
    assert (two["ecc_corrected"], two["ecc_uncorrected"]) == (0, 3)
    assert two["poisoned"] >= 1 and two["data_errors"] == 3
