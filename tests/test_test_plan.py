"""``docs/test-plan.md`` against the blocks and the tests that there are, without running any."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PLAN = (REPOSITORY / "docs" / "test-plan.md").read_text()
SIMULATORS = {"verilator", "icarus", "simulator"}


@dataclass(frozen=True)
class Row:
    promise: str
    tests: tuple[str, ...]
    kinds: tuple[str, ...]


@cache
def blocks() -> set[str]:
    """Public classes of ``hw/`` that have an ``elaborate``."""
    return {
        node.name
        for file in (REPOSITORY / "hw").rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if any(isinstance(f, ast.FunctionDef) and f.name == "elaborate" for f in node.body)
    }


@cache
def kinds() -> dict[str, str]:
    """Kind of every test function, by ``file::name``."""
    found = {}
    for file in (REPOSITORY / "tests").rglob("test_*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                place = file.relative_to(REPOSITORY)
                found[f"{place.as_posix()}::{node.name}"] = kind(place, node)
    return found


def kind(place: Path, test: ast.FunctionDef) -> str:
    if "formal" in place.parts:
        return "formal"
    if place.stem.endswith("full_size"):
        return "full-size"
    return "cocotb" if SIMULATORS & {a.arg for a in test.args.args} else "pysim"


def sections(plan: str) -> list[tuple[str, list[Row]]]:
    """Blocks of the plan with their rows, in order."""
    found = []
    for section in re.split(r"^### ", plan, flags=re.M)[1:]:
        name, _, body = section.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")]
        rows = []
        for line in lines[2:]:  # below head and ruler
            promise, tests, kinds = (cell.strip() for cell in line.strip("|").split(" | "))
            rows.append(Row(promise, tuple(re.findall(r"`(.*?)`", tests)), words(kinds)))
        found.append((name.strip(), rows))
    return found


def words(cell: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in cell.split(","))))


def problems(plan: str) -> list[str]:
    """A line for each thing in which the plan is not that of the repository."""
    there, known = blocks(), kinds()
    found = sections(plan)
    names = [name for name, _ in found]
    lines = [f"{name} has no section" for name in sorted(there - set(names))]
    lines += [f"{name} is no block of hw/" for name in names if name not in there]
    lines += [f"{name} has two sections" for name in sorted(set(names)) if names.count(name) > 1]
    for name, rows in found:
        if not rows:
            lines.append(f"{name} has no promise")
        for row in rows:
            where = f"{name}, {row.promise!r}"
            if not row.promise:
                lines.append(f"{name} has a row without a promise")
            if not row.tests:
                lines.append(f"{where} has no test")
            missing = [test for test in row.tests if test not in known]
            lines += [f"{where}: no test {test}" for test in missing]
            expected = {known[test] for test in row.tests if test in known}
            if not missing and expected != set(row.kinds):
                lines.append(f"{where} is {', '.join(sorted(expected))}")
    return lines


def test_the_plan_is_that_of_blocks_and_tests():
    assert problems(PLAN) == []


def test_blocks_are_found():
    found = blocks()
    assert {"HbfBaseDie", "Sram1rw", "RoundRobin", "Package"} <= found
    assert not {"MacroPlatform", "Machine", "RequestPort"} & found


ROW = "| grants | `tests/hw/test_arbiter.py::test_select_gives_the_value_of_the_line` | pysim |"
ROWS = re.search(r"(?<=### DelayQueue\n\n\| promise \| tests \| kind \|\n)(\|.*\n)+", PLAN)[0]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("### DelayQueue\n", "### Queue\n", "DelayQueue has no section"),
        ("### DelayQueue\n", "### Queue\n", "Queue is no block of hw/"),
        ("### DelayQueue\n", f"### RoundRobin\n\n|\n|\n{ROW}\n\n### DelayQueue\n", "two sections"),
        (ROWS, "| --- | --- | --- |\n", "DelayQueue has no promise"),
        ("::test_items_are_offered", "::test_items_offered", "no test tests/hw/hbf/"),
        ("tests/hw/hbf/test_delay_queue.py", "tests/hw/test_delay_queue.py", "no test tests/hw/"),
        (ROWS, f"{ROWS}| depth |  | pysim |\n", "DelayQueue, 'depth' has no test"),
        (ROWS, ROWS.replace("pysim", "formal"), "held' is pysim"),
    ],
    ids=[
        "no section", "no block", "twice", "no rows", "renamed test", "moved test", "no test",
        "wrong kind",
    ],
)  # fmt: skip
def test_a_plan_that_is_not_true_is_noticed(old, new, problem):
    assert old in PLAN
    found = problems(PLAN.replace(old, new, 1))
    assert any(problem in line for line in found), found
