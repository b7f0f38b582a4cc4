"""First bytes on the small machine, against the times that make them up."""

import pytest

from tb.measurements import first_byte
from tests.tb.measurements.mini import MINI


@pytest.fixture(scope="module")
def rows(verilator):
    lines = []
    measurement = first_byte.measure(MINI, 1, lines.append)
    assert lines[-1].startswith("12 of 12: ")
    assert measurement.misses == ()
    (table,) = measurement.tables
    assert len(table.rows) == len(measurement.rows) == 12
    return {
        (row["route"], row["pages"], row["drain_whole_region"]): row for row in measurement.rows
    }


def test_first_byte_is_the_sum_of_what_it_waits_for(rows):
    # By hand: tR 187.5 ns, 4 beats of 64 B on a lane of 50 GB/s, a chunk of 64 pages of 256 B at
    # 100 GB/s. What is left is the way: two or three links of 6 clocks each way and queues.
    for (route, pages, whole), row in rows.items():
        fill_ns = 5.12 * (-(-pages // 4) if whole else 1)  # of the four dies, each its pages
        chunk_ns = min(pages, 64) * 2.56 if route == "relay" else 0
        assert row["fill_ns"] == pytest.approx(fill_ns)
        assert row["chunk_ns"] == pytest.approx(chunk_ns)
        least, most = (6, 25) if route == "direct" else (12, 40)
        assert least < row["first_byte_ns"] - 187.5 - fill_ns - chunk_ns < most
        parts = sum(row[name] for name in ("t_read_ns", "fill_ns", "chunk_ns", "rest_ns"))
        assert parts == pytest.approx(row["first_byte_ns"])


def test_direct_does_not_wait_for_the_rest_of_the_read(rows):
    page_by_page = {rows["direct", pages, False]["first_byte_ns"] for pages in (1, 64, 128)}
    assert len(page_by_page) == 1
    # All of the wave behind it still comes at the rate of the link, 2.56 ns a page.
    wave = rows["direct", 128, False]
    assert wave["last_byte_ns"] - wave["first_byte_ns"] == pytest.approx(128 * 2.56, rel=0.01)
