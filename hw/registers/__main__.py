"""Writes the page of the register map: ``python -m hw.registers docs/registers.md``."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from peakrdl_markdown.exporter import MarkdownExporter

from hw.registers.hbf import hbf_tree

INTRODUCTION = """\
# Registers of the HBF base die

Made by `make docs` from `hw/registers/hbf.rdl`; the RTL (`hw/registers/register_file.py`) and the
access layer of benches (`tb/vip/registers.py`) come from the same file.

Accesses are of 32-bit words. One that is not aligned, or reaches no field that software can read or
write, is answered with an error and changes nothing. A field of access `w` is a pulse: it does its
work when it is written with one. Where the reset of an `rw` field or of the identification is `—`,
the machine gives it (`hw/registers/hbf.py`).
"""


def page() -> str:
    """The whole page."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "registers.md"
        MarkdownExporter().export(hbf_tree(), str(file))
        table = file.read_text()
    return INTRODUCTION + table[table.index("-->\n") + len("-->\n") :].rstrip() + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
