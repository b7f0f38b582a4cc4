"""What ``pagewave simulate`` refuses before it runs, and in which words."""

import pytest

from scripts.main import main

CORNER = ["simulate", "--topology", "dash", "--preset", "mini", "--route", "direct", "--waves", "1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rewrite"], "rewrite is given: goes with --write-waves, which is 0"),
        (["--write-waves", "-1"], "write-waves is -1: must be 0 or more\n"),
        (["--write-waves", "1", "--write-from", "cpu"], "write-from 'cpu' is unknown"),
        (["--write-waves", "1", "--write-owner", "me"], "write-owner 'me' is unknown"),
        (["--write-waves", "1", "--write-planes", "0:3"], "must fill whole rows"),
        (["--read-planes", "0:3"], "must fill whole rows"),
        (["--write-waves", "1", "--write-planes", "3:9"], "write-planes is '3:9'"),
        (["--write-waves", "1", "--writes-first", "--trim"], "trim is given with --writes-first"),
        (
            ["--write-waves", "1", "--writes-first", "--rewrite", "--waves", "2"],
            "128 would be blank",
        ),
        (["--read-planes", "1"], "read-planes is '1'"),
        (["--read-bytes", "65"], "read-bytes is 65"),
        (["--drain", "half"], "drain 'half' is unknown"),
        (
            ["--write-waves", "1", "--fail-programs", "257"],
            "fail-programs is 257: must be 0 to 256",
        ),
        (["--ecc-beats", "1", "--ecc-bits", "a"], "ecc-bits is 'a'"),
        (["--ecc-bits", "5"], "ecc-bits is '5': goes with --ecc-beats"),
        (["--ecc-word", "0"], "ecc-word is 0: goes with --ecc-beats"),
        (["--ecc-beats", "1", "--ecc-word", "8"], "ecc-word is 8: must be 0 to 7"),
        (["--release"], "release is given: goes with --write-waves, which is 0"),
        (["--refuse", "all"], "refuse 'all' is unknown"),
        (["--refuse", "order"], "refuse is 'order': needs writes"),
        (["--block", "0:0"], "block is '0:0': must be DIE:SUBARRAY:BLOCK"),
        (["--block", "0:99:0"], "block 0:99:0 has subarray 99: must be 0 to 31"),
        (["--ecc-beats", "1", "--ecc-bits", "5,72"], "ecc-bits is '5,72': must be one"),
        (
            ["--write-waves", "1", "--suspend", "--suspend-slice-us", "0"],
            "suspend-slice-us is 0.0: must be more than 0",
        ),
        (["--sideband-timeout-us", "9"], "sideband-timeout-us is given: goes with --sideband"),
        (["--sideband", "--sideband-timeout-us", "0"], "timeout-us is 0.0: must be at least 1.0"),
        (["--sideband", "--sideband-timeout-us", "0.1"], "timeout-us is 0.1: must be at least"),
        (["--sideband", "--sideband-timeout-us", "nan"], "sideband_timeout_us is nan: must be"),
        (["--sideband", "--sideband-timeout-us", "1e7"], "sideband_timeout_us is 10000000.0: must"),
        (["--suspend-slice-us", "1"], "suspend-slice-us is 1.0: goes with --suspend"),
        (["--t-wb-ns", "-1"], "t-wb-ns is -1.0: must be"),
        (
            ["--write-waves", "1", *["--rewrite", "--writes-first", "--read-planes", "0:1"]],
            "112 would be blank",
        ),
        (
            ["--write-waves", "1", *["--rewrite", "--writes-first", "--scatter", "--waves", "64"]],
            "would be blank",
        ),
        (
            ["--preset", "formal", "--write-waves", "1", "--refuse", "order"],
            "refuse is 'order': the writes end with page 0 of blocks of 2 pages",
        ),
        (["--write-waves", "100000"], "write-waves is 100000: must be 1 to 256 in planes 0 to 7"),
        (
            ["--write-waves", "1", "--topology", "relay-only", "--route", "relay"],
            "write-from 'gpu' needs the direct path",
        ),
        (
            ["--write-waves", "1", "--fail-erases", "1"],
            "fail-erases is 1: goes with --rewrite or --trim",
        ),
        (["--read-bytes", "99999999744"], "read-bytes is 99999999744: must be at most 1048576"),
        (["--ecc-beats", "1", "--ecc-bits", "5,5"], "ecc-bits is '5,5': must be one number or two"),
        (["--ecc-beats", "65536"], "ecc-beats is 65536: must be 0 to 65535"),
        (["--t-read-us", "1e12"], "t-read-us is 1000000000000.0: must be under 524.3 us"),
        (["--stall-relay", "9"], "stall-relay is 9: no read takes that path with --route direct"),
        (["--stall-direct", "255", "--route", "relay"], "stall-direct is 255: no read takes that"),
        (["--relay-cut-through"], "relay-cut-through is True: no read takes the relay path with"),
        (["--relay-ecc"], "relay-ecc is True: no read takes the relay path with --route direct"),
        (["--early-grant", "4"], "early-grant is 4: no read takes the relay path with --route"),
        (
            ["--early-grant", "17", "--route", "relay"],
            "early-grant is 17: must be 0 to 16, for which link B has credits",
        ),
        (["--early-grant", "0", "--route", "relay"], "early-grant is 0: must be at least 1 page"),
        (
            ["--early-grant", "1", "--route", "relay", "--preset", "formal"],
            "early-grant is 1: must be 0, as chunks of 2 pages are too short at 0.7812 beats",
        ),
        (["--write-planes", "xyz"], "write-planes is 'xyz': must be FIRST:END within 0:8"),
        *(
            (option, f"{option[0][2:]} is ")
            for option in (
                ["--write-planes", "0:1"],
                ["--write-owner", "weight"],
                ["--write-from", "hbm"],
                ["--hold-until-programmed"],
                ["--suspend"],
                ["--fail-erases", "256"],
                ["--trim"],
                ["--fail-program-at", "5"],
                ["--fail-programs", "9"],
                ["--relocated"],
                ["--writes-first"],
            )
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_corners_end_in_one_line(options, words, capsys):
    assert main([*CORNER, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1
