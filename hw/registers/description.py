"""Reads a register map from SystemRDL into plain values: RTL and benches are made from these."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from systemrdl import RDLCompiler
from systemrdl.node import AddrmapNode, FieldNode, Node, RegNode
from systemrdl.rdltypes import AccessType

WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8
ADDRESS_BITS = 24


class Kind(enum.Enum):
    """How software and hardware use a field."""

    CONSTANT = "constant"  # software reads what is fixed when the die is built
    CONFIG = "config"  # software writes, hardware obeys
    STATUS = "status"  # hardware drives, software reads
    STROBE = "strobe"  # software writes one, hardware gets a pulse
    COUNTER = "counter"  # hardware adds, software reads


# Software access, hardware access, properties that a field of the kind has.
_KINDS = {
    (AccessType.r, AccessType.na, frozenset[str]()): Kind.CONSTANT,
    (AccessType.rw, AccessType.r, frozenset[str]()): Kind.CONFIG,
    (AccessType.r, AccessType.w, frozenset[str]()): Kind.STATUS,
    (AccessType.w, AccessType.r, frozenset({"singlepulse"})): Kind.STROBE,
    (AccessType.r, AccessType.na, frozenset({"counter", "incrwidth", "hwclr"})): Kind.COUNTER,
}
_ANYWHERE = {"name", "desc", "sw", "hw", "reset"}
_OF_REGISTERS = {"name", "desc", "regwidth", "accesswidth"}


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of the map.

    Attributes:
        address: Byte address of the register's low word.
        low: Its lowest bit in the register.
        reset: None if the machine gives the value, or hardware drives it.
        increment_bits: Width of what a counter adds in a clock.
        cleared_by: The strobe that clears a counter.
    """

    name: str
    address: int
    low: int
    width: int
    kind: Kind
    reset: int | None = None
    increment_bits: int = 0
    cleared_by: str = ""

    @property
    def readable(self) -> bool:
        return self.kind is not Kind.STROBE

    @property
    def writable(self) -> bool:
        return self.kind in (Kind.CONFIG, Kind.STROBE)

    @property
    def has_reset(self) -> bool:
        """It holds a value from reset on: one of the RDL or one that the machine gives."""
        return self.kind in (Kind.CONFIG, Kind.CONSTANT)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a word holds of a field: ``width`` bits from ``low`` of the field on, at ``shift``."""

    field: Field
    shift: int
    low: int
    width: int


@dataclass(frozen=True)
class Description:
    """A register map; field names are unique in it."""

    fields: tuple[Field, ...]

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def words(self) -> dict[int, tuple[Part, ...]]:
        """The words that exist, by byte address."""
        words: dict[int, list[Part]] = {}
        for field in self.fields:
            for address, part in _parts(field):
                words.setdefault(address, []).append(part)
        return {address: tuple(words[address]) for address in sorted(words)}


def load(path: Path) -> AddrmapNode:
    """Compile an RDL file to the compiler's own tree.

    Raises:
        systemrdl.RDLCompileError: it is not correct SystemRDL; the messages are on stderr.
    """
    compiler = RDLCompiler()
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def describe(top: AddrmapNode) -> Description:
    """The map below ``top``.

    Raises:
        ValueError: the map has what the register file does not build.
    """
    fields: dict[str, Field] = {}
    for node in top.descendants(unroll=True):
        if isinstance(node, RegNode):
            _check_register(node)
        elif isinstance(node, FieldNode):
            field = _field(node)
            if field.name in fields:
                raise _refused(node, "has the name of another field: names are unique in the map")
            fields[field.name] = field
    return Description(tuple(fields.values()))


def _field(node: FieldNode) -> Field:
    register = node.parent
    properties = frozenset(node.list_properties(include_udp=False)) - _ANYWHERE
    kind = _KINDS.get((node.get_property("sw"), node.get_property("hw"), properties))
    if kind is None:
        raise _refused(node, "is of no kind that the register file builds")
    if register.get_property("regwidth") > WORD_BITS and kind is not Kind.COUNTER:
        raise _refused(node, "is in a wide register, which only a counter may be")
    reset = node.get_property("reset")
    if not isinstance(reset, int | None):
        raise _refused(node, "has a reset value that is no number")
    clear = node.get_property("hwclr")
    if kind is Kind.COUNTER and not isinstance(clear, FieldNode):
        raise _refused(node, "is cleared by no field")
    return Field(
        name=node.inst_name,
        address=register.absolute_address,
        low=node.lsb,
        width=node.width,
        kind=kind,
        reset=reset,
        increment_bits=node.get_property("incrwidth") or 0,
        cleared_by=clear.inst_name if isinstance(clear, FieldNode) else "",
    )


def _check_register(node: RegNode) -> None:
    if extra := set(node.list_properties(include_udp=False)) - _OF_REGISTERS:
        raise _refused(node, f"has {', '.join(sorted(extra))}, which the register file ignores")
    if node.get_property("accesswidth") != WORD_BITS:
        raise _refused(node, f"is not accessed in words of {WORD_BITS} bits")
    if node.get_property("regwidth") > 2 * WORD_BITS:
        raise _refused(node, "is wider than two words")
    if node.absolute_address + node.size > 1 << ADDRESS_BITS:
        raise _refused(node, f"lies above the {ADDRESS_BITS} address bits")


def _refused(node: Node, why: str) -> ValueError:
    return ValueError(f"{node.get_path()} {why}")


def _parts(field: Field) -> Iterator[tuple[int, Part]]:
    for word in range(field.low // WORD_BITS, (field.low + field.width - 1) // WORD_BITS + 1):
        start = max(field.low, word * WORD_BITS)
        stop = min(field.low + field.width, (word + 1) * WORD_BITS)
        yield (
            field.address + word * WORD_BYTES,
            Part(
                field=field,
                shift=start % WORD_BITS,
                low=start - field.low,
                width=stop - start,
            ),
        )
