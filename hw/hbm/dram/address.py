"""Where an access lies: addresses of 64 bytes to pseudo-channel, bank, row and column.

The lowest bits choose the pseudo-channel, so that a beat takes one access of each of consecutive
pseudo-channels and 64 bytes never need two row activations. What is left is cut into fields in the
``order`` of the stack, the lowest bits first. With ``hashes_banks`` the bits of bank group and bank
are XORed with the low bits of the row: a stride of a power of two then still meets all banks.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Value

from hw.hbm.dram.description import HbmStack


def bits(count: int) -> int:
    """Bits of a number below ``count``, none for one."""
    return (count - 1).bit_length()


@dataclass(frozen=True)
class Place:
    """An access of a stack; ``bank`` counts those of bank group 0 first, then of 1, and so on."""

    channel: int
    bank: int
    row: int
    column: int


@dataclass(frozen=True)
class HbmAddressMap:
    """The address map of a stack, for values of Amaranth and for plain numbers."""

    stack: HbmStack

    @property
    def channel_bits(self) -> int:
        return bits(self.stack.organization.pseudo_channels)

    @property
    def address_bits(self) -> int:
        """Bits of the number of an access of the stack."""
        return bits(self.stack.accesses)

    def _widths(self) -> dict[str, int]:
        o = self.stack.organization
        return {
            "bank_group": bits(o.bank_groups),
            "bank": bits(o.banks),
            "stack_id": bits(o.stack_ids),
            "column": bits(o.columns),
            "row": bits(o.rows),
        }

    def fields(self, local: Value) -> tuple[Value, Value, Value]:
        """Bank, row and column of an address without the bits of the pseudo-channel, as logic."""
        parts, at = {}, 0
        for name in self.stack.order:
            width = self._widths()[name]
            parts[name] = local[at : at + width]
            at += width
        group, bank, row = parts["bank_group"], parts["bank"], parts["row"]
        if self.stack.hashes_banks:
            group = group ^ row[: len(group)]
            bank = bank ^ row[len(group) : len(group) + len(bank)]
        return Cat(bank, group, parts["stack_id"]), row, parts["column"]

    def place(self, address: int) -> Place:
        """Where access number ``address`` of the stack lies.

        Raises:
            ValueError: there is no such access.
        """
        if not 0 <= address < self.stack.accesses:
            raise ValueError(f"address is {address!r}: must be below {self.stack.accesses}")
        channel, local = address % (1 << self.channel_bits), address >> self.channel_bits
        parts = {}
        for name in self.stack.order:
            width = self._widths()[name]
            parts[name] = local % (1 << width)
            local >>= width
        o = self.stack.organization
        group, bank, row = parts["bank_group"], parts["bank"], parts["row"]
        if self.stack.hashes_banks:
            group ^= row % o.bank_groups
            bank ^= row // o.bank_groups % o.banks
        number = (parts["stack_id"] * o.bank_groups + group) * o.banks + bank
        return Place(channel, number, row, parts["column"])

    def address(self, place: Place) -> int:
        """The inverse of :meth:`place`."""
        o = self.stack.organization
        bank, group = place.bank % o.banks, place.bank // o.banks % o.bank_groups
        if self.stack.hashes_banks:
            group ^= place.row % o.bank_groups
            bank ^= place.row // o.bank_groups % o.banks
        parts = {
            "bank_group": group,
            "bank": bank,
            "stack_id": place.bank // (o.banks * o.bank_groups),
            "column": place.column,
            "row": place.row,
        }
        local, at = 0, 0
        for name in self.stack.order:
            local |= parts[name] << at
            at += self._widths()[name]
        return local << self.channel_bits | place.channel
