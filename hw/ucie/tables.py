"""Tables in the pages."""

from collections.abc import Sequence
from itertools import chain


def table(head: Sequence[str], align: str, rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; ``align`` has an ``l`` or ``r`` for each column."""
    ruler = ["---:" if side == "r" else "---" for side in align]
    return "\n".join("| " + " | ".join(row) + " |" for row in chain([head, ruler], rows))
