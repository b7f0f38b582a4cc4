"""Identity of the RTL source: what a timing record was measured on."""

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent
# A record names its machine by a fingerprint of its own, so presets need none here.
NOT_RTL = ("errors.py", "presets.py", "source.py")
RDL_PROSE = re.compile(
    r"""(//[^\n]*|/\*.*?\*/|([\w.]+\s*->\s*)?\b(name|desc)\s*=\s*"([^"\\]|\\.)*"\s*;|\s)+""",
    re.DOTALL,
)


class _DropDocstrings(ast.NodeTransformer):
    def _visit_body(self, node):
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:] or [ast.Pass()]
        return node

    visit_Module = visit_ClassDef = visit_FunctionDef = _visit_body


@cache
def rtl_fingerprint() -> str:
    """Hash over all RTL under ``hw/``: Python code without comments and docstrings, register maps
    without comments and descriptions, and Verilog.

    Prose edits leave it alone, and so do presets; any change of logic or of a macro model changes
    it, the formulas of the machine description among them.
    """
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and inside not in NOT_RTL and path.name != "__main__.py":
            tree = _DropDocstrings().visit(ast.parse(path.read_text()))
            text = ast.unparse(tree)
        elif path.suffix == ".rdl":
            text = RDL_PROSE.sub(" ", path.read_text())
        elif path.suffix == ".v":
            text = path.read_text()
        else:
            continue
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n{text}\n".encode())
    return digest.hexdigest()[:16]
