"""The register file that a register map describes."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.errors import InputError
from hw.registers.description import (
    ADDRESS_BITS,
    WORD_BITS,
    WORD_BYTES,
    Description,
    Field,
    Kind,
    Part,
)


class RegisterPort(wiring.Signature):
    """Reads and writes of 32-bit words at byte addresses, seen from who asks.

    Members
    -------
    request : with ``valid`` an access; ``data`` is what is written
    response : with ``valid`` the answer; ``data`` is what was read, else zero
    """

    def __init__(self) -> None:
        request = {
            "valid": Out(1),
            "write": Out(1),
            "address": Out(ADDRESS_BITS),
            "data": Out(WORD_BITS),
        }
        response = {"valid": Out(1), "data": Out(WORD_BITS), "error": Out(1)}
        super().__init__(
            {"request": Out(wiring.Signature(request)), "response": In(wiring.Signature(response))}
        )


class RegisterFile(wiring.Component):
    """Registers of one die.

    Contract: an access a clock, answered in order two clocks later; there is no back-pressure. A
    write shows at the fields together with its answer, and in every later read. ``error`` answers
    an access that is not aligned to a word, and one to a word without a field that software can
    read or, for writes, write; it changes nothing. Bits of no field read as zero.

    Registers wider than a word are counters. The read of a low word keeps the high word of the same
    clock; the read of any high word gives the one kept last.

    Source: SystemRDL 2.0 for the kinds of fields.

    Members
    -------
    port : the register port
    (fields) : one member a field, by its name. Config and strobe are outputs, a strobe for one
        clock. Status is an input. A counter is an input that is added in each clock; in the clock
        of the strobe that clears the counter it is still counted. Constants have no member.

    Parameters
    ----------
    description : the map
    resets : values of fields by name, over those of the map; needed where the map has none
    """

    def __init__(
        self, description: Description, *, resets: Mapping[str, int] | None = None
    ) -> None:
        self._description = description
        self._values = _values(description, resets or {})
        members = {"port": In(RegisterPort())}
        for field in description.fields:
            match field.kind:
                case Kind.CONFIG:
                    members[field.name] = Out(field.width, init=self._values[field.name])
                case Kind.STROBE:
                    members[field.name] = Out(field.width)
                case Kind.STATUS:
                    members[field.name] = In(field.width)
                case Kind.COUNTER:
                    members[field.name] = In(field.increment_bits)
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        held = self._held_values(m)
        request, response = self.port.request, self.port.response
        valid, write = Signal(), Signal(reset_less=True)
        address = Signal(ADDRESS_BITS, reset_less=True)
        data = Signal(WORD_BITS, reset_less=True)
        m.d.sync += valid.eq(request.valid)
        with m.If(request.valid):
            m.d.sync += [
                write.eq(request.write),
                address.eq(request.address),
                data.eq(request.data),
            ]

        read, known = Signal(WORD_BITS), Signal()
        high = Signal(WORD_BITS, reset_less=True)
        for field in self._description.fields:
            if field.kind is Kind.STROBE:
                m.d.sync += getattr(self, field.name).eq(0)
        words = self._description.words
        with m.Switch(address):
            for at, parts in words.items():
                with m.Case(at):
                    readable = [part for part in parts if part.field.readable]
                    writable = [part for part in parts if part.field.writable]
                    is_high = parts[0].field.address != at
                    above = words.get(at + WORD_BYTES, ())
                    m.d.comb += [
                        read.eq(high if is_high else _packed(readable, held)),
                        known.eq(Mux(write, bool(writable), bool(readable))),
                    ]
                    with m.If(valid & write):
                        for part in writable:
                            bits = data[part.shift : part.shift + part.width]
                            m.d.sync += getattr(self, part.field.name).eq(bits)
                    if above and above[0].field.address == at:
                        with m.If(valid & ~write):
                            m.d.sync += high.eq(_packed(above, held))

        m.d.sync += response.valid.eq(valid)
        with m.If(valid):
            m.d.sync += [
                response.data.eq(Mux(known & ~write, read, 0)),
                response.error.eq(~known),
            ]
        return m

    def _held_values(self, m: Module) -> dict[str, Value]:
        """What a read of each field gives; makes the counters."""
        held: dict[str, Value] = {}
        for field in self._description.fields:
            match field.kind:
                case Kind.CONSTANT:
                    held[field.name] = Const(self._values[field.name], field.width)
                case Kind.CONFIG | Kind.STATUS:
                    held[field.name] = getattr(self, field.name)
                case Kind.COUNTER:
                    count = Signal(field.width, name=f"{field.name}_count")
                    kept = Mux(getattr(self, field.cleared_by), 0, count)
                    m.d.sync += count.eq(kept + getattr(self, field.name))
                    held[field.name] = count
        return held


def _packed(parts: list[Part] | tuple[Part, ...], held: Mapping[str, Value]) -> Value:
    """The word of ``parts``, which rise by ``shift``."""
    bits: list[Value] = []
    filled = 0
    for part in sorted(parts, key=lambda part: part.shift):
        bits.append(Const(0, part.shift - filled))
        bits.append(held[part.field.name][part.low : part.low + part.width])
        filled = part.shift + part.width
    return Cat(*bits)


def _values(description: Description, resets: Mapping[str, int]) -> dict[str, int]:
    """Value from reset on of every field that has one."""
    fields = [field for field in description.fields if field.has_reset]
    if unknown := sorted(resets.keys() - {field.name for field in fields}):
        raise InputError(f"resets[{unknown[0]!r}]: no field of that name has a reset value")
    return {field.name: _value(field, resets.get(field.name, field.reset)) for field in fields}


def _value(field: Field, value: int | None) -> int:
    if value is None:
        raise InputError(f"resets[{field.name!r}] is missing: the map has no reset value for it")
    if not 0 <= value < 1 << field.width:
        raise InputError(
            f"resets[{field.name!r}] is {value}: the field has {field.width} bits, "
            f"at most {(1 << field.width) - 1}"
        )
    return value
