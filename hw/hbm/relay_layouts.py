"""What the blocks of the relay buffer tell each other."""

from amaranth.lib import data

from hw.sram.regions import GROUPS


def place_layout(pages: int) -> data.StructLayout:
    """Where a beat is stored: the slot of its page, and its bank group."""
    return data.StructLayout({"region": 1, "page": range(pages), "group": range(GROUPS)})


def span_layout() -> data.StructLayout:
    """Where the beats of a page lie: group of the first one, and their number less one."""
    return data.StructLayout({"first": range(GROUPS), "last": range(GROUPS)})


def message_layout() -> data.StructLayout:
    """What a word of link C means to the regions; ``beat`` if it carries data."""
    return data.StructLayout({"valid": 1, "beat": 1, "page_end": 1, "chunk_end": 1})


def write_layout(pages: int) -> data.StructLayout:
    return data.StructLayout({"valid": 1, "place": place_layout(pages)})


def stored_layout() -> data.StructLayout:
    """A page is whole in its region, the chunk of the region closes, or both."""
    return data.StructLayout({"page": 1, "close": 1, "region": 1})


def page_layout(pages: int) -> data.StructLayout:
    """A page to read.

    Members
    -------
    region, page : its slot
    frees : its region is free when it has been read
    """
    return data.StructLayout({"region": 1, "page": range(pages), "frees": 1})


def read_layout(pages: int) -> data.StructLayout:
    """A beat to read: the last one of its page has ``page_end``."""
    return data.StructLayout(
        {"valid": 1, "place": place_layout(pages), "page_end": 1, "dropped": 1}
    )
