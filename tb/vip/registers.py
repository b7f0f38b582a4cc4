"""Registers by name: the access layer of benches over a register port."""

from collections.abc import Awaitable, Callable

from hw.registers.description import Description, Field, Kind


class RegisterAccess:
    """Reads and writes fields of a map; ``read_word`` and ``write_word`` drive the port.

    Both take byte addresses of words and raise when the port answers with an error. Nothing is
    remembered here: a write of some fields of a word first reads the others.
    """

    def __init__(
        self,
        description: Description,
        read_word: Callable[[int], Awaitable[int]],
        write_word: Callable[[int, int], Awaitable[None]],
    ) -> None:
        self._description = description
        self._read_word, self._write_word = read_word, write_word

    async def read(self, name: str) -> int:
        """The value of a field; of a counter both words, from the same clock."""
        field = self._field(name)
        if not field.readable:
            raise ValueError(f"register field {name!r} cannot be read: it is a {field.kind.value}")
        value = 0
        # The low word first: it keeps the high one.
        for at, parts in self._description.words.items():
            for part in parts:
                if part.field is field:
                    word = await self._read_word(at)
                    value |= (word >> part.shift & (1 << part.width) - 1) << part.low
        return value

    async def write(self, **values: int) -> None:
        """Set fields, each word with one write, in the order of their addresses.

        Strobes of those words that are not named stay quiet: they read as zero.
        """
        for name, value in values.items():
            field = self._field(name)
            if not field.writable:
                kind = field.kind.value
                raise ValueError(f"register field {name!r} cannot be written: it is a {kind}")
            if not 0 <= value < 1 << field.width:
                raise ValueError(f"register field {name!r} of {field.width} bits cannot be {value}")
        for at, parts in self._description.words.items():
            fields = [part.field for part in parts]
            if values.keys().isdisjoint(field.name for field in fields):
                continue
            word = 0
            if any(f.kind is Kind.CONFIG and f.name not in values for f in fields):
                word = await self._read_word(at)
            for field in fields:
                if field.name in values:
                    word &= ~(((1 << field.width) - 1) << field.low)
                    word |= values[field.name] << field.low
            await self._write_word(at, word)

    async def pulse(self, name: str) -> None:
        """Write one to a strobe."""
        await self.write(**{name: 1})

    def _field(self, name: str) -> Field:
        try:
            return self._description.by_name[name]
        except KeyError:
            raise ValueError(f"register field {name!r} is not in the map") from None
