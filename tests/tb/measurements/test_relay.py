"""Rate and first byte of the relay path on the small machine, against closed forms."""

import pytest

from tb.measurements import relay
from tests.tb.measurements.mini import LINK, MINI

FRAME_NS = 4 / 2  # a page begins with a frame of four clocks, at the HBF and at the HBM


pytestmark = pytest.mark.slow  # a simulator of its own


@pytest.fixture(scope="module")
def rows(verilator):
    lines = []
    measurement = relay.measure(MINI, 1, lines.append)
    assert lines[-1].startswith("10 of 10: ")
    assert measurement.misses == ()
    (table,) = measurement.tables
    assert len(table.rows) == len(measurement.rows) == 5
    return {(row["path"], row["cut_through"], row["early_pages"]): row for row in measurement.rows}


def test_early_grants_and_cut_through_bring_the_rate_of_the_link(rows):
    # By hand: 64 pages at 1.28 frames, so the last begins 81 frames after the first, which makes
    # 162 with the fill. The turn of a credit is 12 clocks of links, 8 of registers and SRAM and 3
    # of the rest of a page, which are 6 frames. 128 pages of 4 beats at 25/32 are 163.84 frames.
    assert rows["relay", False, 0]["bound_tbps"] == pytest.approx(LINK * 163.84 / 168)
    for key, row in rows.items():
        assert row["delivered_tbps"] == pytest.approx(row["bound_tbps"], rel=0.005), key
    assert rows["relay", False, 0]["delivered_tbps"] < 0.985 * LINK
    for key in (("relay", False, 4), ("relay", True, 0), ("relay", True, 4)):
        assert rows[key]["delivered_tbps"] > 0.99 * LINK, key


def test_first_byte_of_cut_through_is_that_of_direct_and_the_way(rows):
    # By hand: 12 clocks of links, 3 for the request, 3 for the rest of the page, 1 to store and 3
    # to read it, at 2 GHz; a chunk instead of a page takes 63 times 5.12 clocks more.
    direct = rows["direct", False, 0]["first_byte_ns"]
    for early in (0, 4):
        cut, stored = (rows["relay", way, early]["first_byte_ns"] for way in (True, False))
        assert 0 <= cut - direct - 22 / 2 < 2 * FRAME_NS
        assert 0 <= stored - direct - (22 + 63 * 5.12) / 2 < 2 * FRAME_NS
