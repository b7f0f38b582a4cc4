"""A whole HBF base die whose links are reset at random: it settles, and nothing else is touched."""

import pytest

from tb.channel_runs import MACHINE
from tb.reset_runs import ResetRun, play_resets


@pytest.mark.parametrize(
    ("links", "resets", "seed"),
    [
        ("ac", 8, 1),
        pytest.param("a", 20, 2, marks=pytest.mark.slow),
        pytest.param("c", 20, 3, marks=pytest.mark.slow),
        pytest.param("ac", 100, 4, marks=pytest.mark.slow),
    ],
)
def test_a_die_settles_and_goes_on(verilator, links, resets, seed):
    """The bench checks each beat, grant, answer and credit as it comes, and what the NAND holds."""
    print(f"seed {seed}")
    report = play_resets(ResetRun(links=links, resets=resets, seed=seed))
    for link in "ac":
        counts = report[link]
        assert (counts.get("resets", 0) > 0) == (link in links)
        assert min(counts["reads"], counts["beats"]) > 30 and counts["writes"] > 2
    assert min(report[link][f"{what} lost"] for link in links for what in ("reads", "writes")) > 3
    assert report["whole"] > 0
    # Every credit is there after the last reset, and every slot.
    chunk, regions = MACHINE.relay_chunk_pages, MACHINE.sram.relay_regions
    pages = {"a": MACHINE.credits.rx_beats // 4, "c": chunk * regions}
    assert report["came"] == {link: 4 * count for link, count in pages.items()}
    assert report["senses"] == 2 * MACHINE.geometry.wave_pages + sum(pages.values())
