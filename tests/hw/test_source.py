"""The fingerprint of the RTL source: blind to prose, sharp on logic."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hw import source

ARBITER = '''"""Docstring."""


class Arbiter:
    """Docstring."""

    def turn(self):
        """Docstring."""
        return 1
'''
MACRO = "module macro; endmodule\n"
MAP = """// Comment.
field wide { sw = r; name = "Words."; };
addrmap map {
    reg {
        wide count[7:0] = 3;
        count->desc = "Words; \\"more\\" // of them."; /* Comment. */
    } count @ 0x4;
};
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small source tree in place of the real one."""
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "arbiter.py").write_text(ARBITER)
    (tmp_path / "package.py").write_text(
        "from hw.part import arbiter\nfrom hw.params import DIES\n"
    )
    (tmp_path / "beside.py").write_text("from hw.part.arbiter import Arbiter\n")
    (tmp_path / "macro.v").write_text(MACRO)
    (tmp_path / "map.rdl").write_text(MAP)
    (tmp_path / "params.py").write_text("DIES = 16\n")
    (tmp_path / "presets.py").write_text("NAME = 'paper'\n")
    monkeypatch.setattr(source, "ROOT", tmp_path)
    return tmp_path


# Around the cache, which would keep the value of a temporary tree for other tests.
fingerprint = source.rtl_fingerprint.__wrapped__


def _rewrite(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new))

    return change


def _imported(name: str, line: str = "") -> Callable[[Path], None]:
    """A new file that the arbiter imports; a line that imports it, if not by its name."""

    def change(root: Path) -> None:
        (root / name).write_text("X = 1\n")
        line_ = line or f"import hw.{name.removesuffix('.py').replace('/', '.')}\n"
        with (root / "part" / "arbiter.py").open("a") as file:
            file.write(line_)

    return change


@pytest.mark.parametrize(
    "change",
    [
        _rewrite("part/arbiter.py", "Docstring.", "Other words."),
        _rewrite("part/arbiter.py", '        """Docstring."""\n', ""),
        _rewrite("part/arbiter.py", "return 1", "return (1)  # why\n\n"),
        _rewrite("map.rdl", "Comment.", "Other words."),
        _rewrite("map.rdl", "Words", "Other words"),
        _rewrite("map.rdl", 'count->desc = "Words; \\"more\\" // of them.";', ""),
        _rewrite("map.rdl", "reg {\n", "reg { "),
        lambda root: (root / "part" / "__main__.py").write_text("print(1)\n"),
        lambda root: (root / "notes.txt").write_text("x"),
        _rewrite("presets.py", "paper", "other"),
        _rewrite("beside.py", "Arbiter\n", "Arbiter\n\nX = 1\n"),
        lambda root: (root / "new.py").write_text("X = 1\n"),
    ],
    ids=[
        "words", "docstring dropped", "comment and layout", "comments of a map",
        "descriptions of a map", "description dropped", "layout of a map", "program", "other file",
        "presets", "block beside the package", "new file",
    ],
)  # fmt: skip
def test_prose_is_ignored(tree: Path, change: Callable[[Path], None]) -> None:
    before = fingerprint()
    change(tree)
    assert fingerprint() == before


@pytest.mark.parametrize(
    "change",
    [
        _rewrite("part/arbiter.py", "return 1", "return 2"),
        _rewrite("part/arbiter.py", "def turn", "def turns"),
        _rewrite("part/arbiter.py", "return 1", 'return "Docstring."'),
        _rewrite("macro.v", "module macro;", "module macro; // why"),
        _rewrite("params.py", "16", "32"),
        _rewrite("map.rdl", "sw = r;", "sw = rw;"),
        _rewrite("map.rdl", "= 3;", "= 4;"),
        _rewrite("map.rdl", "@ 0x4", "@ 0x8"),
        _rewrite("map.rdl", "wide count[", "wide number["),
        _rewrite("package.py", "from hw.part", "import hw.beside\nfrom hw.part"),
        _imported("part/presets.py"),
        _imported("part/__init__.py", "from hw import part\n"),
        lambda root: (root / "part" / "arbiter.py").rename(root / "arbiter.py"),
        lambda root: (root / "macro.v").unlink(),
    ],
    ids=[
        "constant", "name", "string", "verilog", "machine", "access in a map", "reset in a map",
        "address in a map", "field of a map", "one more import", "namesake of the presets",
        "package of modules", "moved file", "no file",
    ],
)  # fmt: skip
def test_logic_is_seen(tree: Path, change: Callable[[Path], None]) -> None:
    before = fingerprint()
    change(tree)
    assert fingerprint() != before


def test_place_of_the_tree_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    shutil.copytree(source.ROOT, tmp_path / "copy")
    monkeypatch.setattr(source, "ROOT", tmp_path / "copy")
    assert fingerprint() == before
