"""Which machines count as the same: the fingerprint, and the registers of one silicon."""

import copy
import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

import pytest

from hw.params import Machine, Sensing
from hw.presets import preset


def leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value, (*path, field.name))
        else:
            yield (*path, field.name)


def another(value: Any) -> Any:
    match value:
        case enum.Enum():
            return next(member for member in type(value) if member is not value)
        case bool():
            return not value
        case str():
            return value + "x"
        case tuple():
            return (*value[:-1], another(value[-1]))
        case _:
            return value + 1


@pytest.mark.parametrize("path", list(leaves(Machine(name="any"))), ids=".".join)
def test_every_field_is_in_the_fingerprint(path: tuple[str, ...]) -> None:
    machine = copy.deepcopy(preset("paper"))
    node: Any = machine
    for name in path[:-1]:
        node = getattr(node, name)
    # Around the validation: hardly a field of a valid machine can change alone.
    object.__setattr__(node, path[-1], another(getattr(node, path[-1])))
    assert machine.fingerprint != preset("paper").fingerprint


def test_equal_machines_share_a_fingerprint() -> None:
    assert Machine(name="paper").fingerprint == preset("paper").fingerprint
    assert preset("paper").with_registers().fingerprint == preset("paper").fingerprint


@pytest.mark.parametrize(
    ("register", "value", "path", "stored"),
    [
        ("t_read_us", 2.5, "nand.t_read_ns", 2500.0),
        ("tsv_tbps", 2.4, "tsv.bytes_per_s", 2.4e12),
        ("link_tbps", 1.5, "link.usable_bytes_per_s", 1.5e12),
        ("sensing", Sensing.LOCKSTEP, "nand.sensing", Sensing.LOCKSTEP),
        ("cache_read", False, "nand.cache_read", False),
    ],
)
def test_a_register_changes_its_field_and_no_other(
    register: str, value: object, path: str, stored: object
) -> None:
    before = preset("paper")
    after = before.with_registers(**{register: value})  # type: ignore[arg-type]
    group, name = path.split(".")
    assert getattr(getattr(after, group), name) == stored
    kept = dataclasses.replace(
        getattr(after, group), **{name: getattr(getattr(before, group), name)}
    )
    assert dataclasses.replace(after, **{group: kept}) == before
