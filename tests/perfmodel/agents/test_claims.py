"""Verdicts on made-up cells."""

from perfmodel.agents.claims import CLAIMS, NEEDED, verdicts


def made_up(**changes):
    """All cells; ``changes`` are values of buffered 4+4."""
    cells = []
    for number, (architecture, policy) in enumerate(NEEDED, 1):
        cells.append(
            {
                "architecture": architecture,
                "policy": policy,
                "clock_s": 100.0,
                "device_hits_pct": 10.0 * number,
                "hbm_written_bytes": 1000,
                "hbf_written_bytes": 1000,
                "lifetime_years": 2.0,
            }
        )
    cells[-1] |= changes
    return cells


def verdict(text, **changes):
    return next(row for row in verdicts(made_up(**changes)) if row.claim.text == text)


def test_a_change_is_in_per_cent_and_judged_by_its_distance():
    text = "4+4 HBF writes, by the buffer"
    close = verdict(text, hbf_written_bytes=100)
    assert (round(close.ours, 9), close.verdict) == (-90.0, "agrees")
    assert verdict(text, hbf_written_bytes=500).verdict == "direction"
    assert verdict(text, hbf_written_bytes=2000).verdict == "misses"


def test_a_bound_is_no_value():
    cells = made_up()
    text = "HBM-only KV writes, buffered over unbuffered (paper: less)"
    buffered = next(c for c in cells if c["policy"] == "cache-aware, 10 %")
    for written, expected in ((499, "agrees"), (501, "misses")):
        buffered["hbm_written_bytes"] = written
        found = {row.claim.text: row.verdict for row in verdicts(cells)}
        assert found[text] == expected


def test_what_hangs_on_open_settings_is_no_reproduction():
    row = verdict("4+4 time against HBM-only, both buffered", clock_s=101.84)
    assert abs(row.ours - row.claim.paper) < 1e-9
    assert row.verdict == "sensitive: HBF bandwidth, mean output"


def test_claims_need_all_cells():
    assert len(verdicts(made_up())) == len(CLAIMS)
    assert verdicts(made_up()[1:]) == []
