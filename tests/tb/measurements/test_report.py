"""Tables as Markdown, and blocks of a page that take them."""

import json

import pytest

from hw.errors import InputError
from hw.presets import preset
from tb.measurements import EXPERIMENTS, find_pages, renew_page
from tb.measurements.report import Measurement, Table

TABLE = Table(
    title="Rates",
    columns=("case", "TB/s"),
    rows=(("one", "**1.6**"), ("two", "2.8")),
)
RATES = Measurement(
    name="rates", presets=("mini",), seed=3, rows=({"x": 1.5},), tables=(TABLE, TABLE)
)
PAGE = """\
before
<!-- measured: rates -->
old
<!-- end of rates -->
between
<!-- measured: peers -->
stays
<!-- end of peers -->
after
"""


def test_table_is_markdown():
    lines = TABLE.markdown().splitlines()
    assert lines == [
        *("Rates:", "", "| case | TB/s |", "| --- | ---: |"),
        *("| one | **1.6** |", "| two | 2.8 |"),
    ]


def test_page_changes_only_in_its_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert find_pages([page], ["rates", "peers"]) == {"rates": page, "peers": page}
    renew_page(page, [RATES])
    text = page.read_text()
    assert text == PAGE.replace("old", f"\n{RATES.markdown()}\n")
    renew_page(page, [RATES])
    assert page.read_text() == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PAGE.replace("<!-- end of peers -->", ""), "has no block <!-- measured: peers -->"),
        (PAGE.replace("measured: rates", "measured: other"), "<!-- measured: rates -->"),
        ("<!-- end of rates --><!-- measured: rates -->", "<!-- measured: rates -->"),
        (None, "cannot be read"),
    ],
)
def test_page_without_its_block_is_refused(tmp_path, text, words):
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(InputError, match=words):
        find_pages([page], ["rates", "peers"])


def test_results_tell_what_they_were_measured_on(tmp_path):
    RATES.write(tmp_path)
    found = json.loads((tmp_path / "rates.json").read_text())
    assert found == RATES.as_json()
    assert found["machine_fingerprints"] == {"mini": preset("mini").fingerprint}
    assert (found["seed"], found["rows"]) == (3, [{"x": 1.5}])
    assert (tmp_path / "rates.md").read_text() == RATES.markdown() + "\n"


def test_pages_of_the_documentation_have_all_blocks():
    from tb.simulator.tools import REPOSITORY

    names = ("measurements.md", "placement.md", "ucie.md", "hbm.md")
    pages = [REPOSITORY / "docs" / name for name in names]
    found = find_pages(pages, list(EXPERIMENTS))
    assert {name for name, page in found.items() if page == pages[1]} == {"experts"}
    assert {name for name, page in found.items() if page == pages[2]} == {"goodput"}
