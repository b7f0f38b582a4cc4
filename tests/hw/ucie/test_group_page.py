"""The tables of groups in the page are right and are those of the layouts."""

from pathlib import Path

from hw.ucie.group_page import groups
from hw.ucie.page import BLOCKS

PAGE = Path(__file__).parents[3] / "docs" / "ucie.md"


def test_page_has_each_block_once():
    page = PAGE.read_text()
    assert list(BLOCKS) == ["transactions", "layouts", "groups"]
    for begin, end, _ in BLOCKS.values():
        assert page.count(begin) == page.count(end) == 1


def test_tables_have_the_figures_of_both_formats():
    text = groups()
    lines = text.splitlines()
    assert "| 6 | 1000 | 62 | 1-61 | 65 | 8 |" in lines
    assert "| 3 | 960 | 60 | 1-59 | 65 | 0 |" in lines
    # Beat A: 65 slots, of which 61 fit into the first group; beat B follows in slot 5.
    assert "| 0 | 1-61: A header, lanes 0-119 |" in lines
    assert "| 1 | 1-4: A lanes 120-127; 5-61: B header, lanes 0-111 |" in lines
    assert "61/65 = 0.9385 beats" in text and "26.64 groups hold 25 beats" in text
    assert "59/65 = 0.9077 beats" in text and "27.54 groups hold 25 beats" in text
    assert "| header of the beat | 64/65 = 98.46 % | 1.922 TB/s |" in lines  # 2.048 x 61/65
    assert "| header of the beat | 64/65 = 98.46 % | 1.859 TB/s |" in lines  # 2.048 x 59/65
