"""Identity of the RTL source: what a timing record was measured on."""

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent
PACKAGE = "package"
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


def _imports(tree: ast.Module) -> set[str]:
    """Names of modules under ``hw`` that may be imported, as paths without their suffix."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("hw.").replace(".", "/") for name in names if name.startswith("hw.")}


def _python_of_package() -> dict[str, ast.Module]:
    """Syntax of :data:`PACKAGE` and of all that it imports from here, by path."""
    found: dict[str, ast.Module] = {}
    wanted = {PACKAGE}
    while wanted:
        name = wanted.pop()
        for inside in (f"{name}.py", f"{name}/__init__.py"):
            path = ROOT / inside
            if inside in found or inside in NOT_RTL or not path.is_file():
                continue
            found[inside] = ast.parse(path.read_text())
            wanted |= _imports(found[inside])
    return found


@cache
def rtl_fingerprint() -> str:
    """Hash over the RTL of the package: ``hw/package.py`` and all it imports, without comments and
    docstrings, register maps without comments and descriptions, and Verilog.

    Prose edits leave it alone, and so do presets and blocks that stand beside the package; any
    change of logic or of a macro model changes it, the formulas of the machine description among
    them.
    """
    texts = {
        inside: ast.unparse(_DropDocstrings().visit(tree))
        for inside, tree in _python_of_package().items()
    }
    for path in ROOT.rglob("*.rdl"):
        texts[path.relative_to(ROOT).as_posix()] = RDL_PROSE.sub(" ", path.read_text())
    for path in ROOT.rglob("*.v"):
        texts[path.relative_to(ROOT).as_posix()] = path.read_text()
    digest = hashlib.sha256()
    for inside, text in sorted(texts.items()):
        digest.update(f"{inside}\n{text}\n".encode())
    return digest.hexdigest()[:16]
