"""What the register file shall do, bit by bit in plain Python, from the compiler's own tree."""

from dataclasses import dataclass, field

from systemrdl.node import AddrmapNode, FieldNode


@dataclass
class Bit:
    """Where a bit of the map comes from."""

    name: str
    index: int


@dataclass
class RegisterModel:
    """One clock at a time. An access is (write, address, data); it takes effect a clock later."""

    top: AddrmapNode
    resets: dict[str, int]
    bits: dict[tuple[int, int], Bit] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)  # constants, config, strobes and counts
    high: int = 0
    pending: tuple[bool, int, int] | None = None

    def __post_init__(self) -> None:
        self.nodes = {n.inst_name: n for n in self.top.descendants() if isinstance(n, FieldNode)}
        for name, node in self.nodes.items():
            for index in range(node.width):
                bit = node.low + index
                address = node.parent.absolute_address + bit // 32 * 4
                assert (address, bit % 32) not in self.bits, "fields overlap"
                self.bits[address, bit % 32] = Bit(name, index)
            reset = node.get_property("reset")
            if not self.driven(name):
                self.held[name] = self.resets[name] if reset is None else reset
        self.addresses = {address for address, _ in self.bits}

    def sw(self, name: str) -> str:
        return self.nodes[name].get_property("sw").name

    def driven(self, name: str) -> bool:
        """Hardware drives the field: status."""
        return self.nodes[name].get_property("hw").name == "w"

    def is_config(self, name: str) -> bool:
        return self.sw(name) == "rw"

    def is_strobe(self, name: str) -> bool:
        return self.sw(name) == "w"

    def is_counter(self, name: str) -> bool:
        return self.nodes[name].get_property("counter")

    def of(self, address: int, access: str) -> list[tuple[int, Bit]]:
        """Bits of a word that software can read ("r") or write ("w")."""
        return [
            (bit, origin)
            for (at, bit), origin in self.bits.items()
            if at == address and access in self.sw(origin.name)
        ]

    def word(self, address: int, driven: dict[str, int]) -> int:
        values = self.held | driven
        return sum((values[o.name] >> o.index & 1) << bit for bit, o in self.of(address, "r"))

    def clock(
        self, access: tuple[bool, int, int] | None, driven: dict[str, int], steps: dict[str, int]
    ) -> tuple[int, int] | None:
        """Answer (data, error) that is there after this clock, if any."""
        answer, after = None, dict(self.held)
        for name, node in self.nodes.items():
            if self.is_strobe(name):
                after[name] = 0
            elif self.is_counter(name):
                clear = self.held[node.get_property("hwclr").inst_name]
                count = (0 if clear else self.held[name]) + steps[name]
                after[name] = count % (1 << node.width)
        if self.pending is not None:
            write, address, data = self.pending
            bits = self.of(address, "w" if write else "r")
            answer = (0, 1)
            if bits and write:
                answer = (0, 0)
                for bit, origin in bits:
                    after[origin.name] &= ~(1 << origin.index)
                    after[origin.name] |= (data >> bit & 1) << origin.index
            elif bits:
                is_high = any(
                    self.nodes[o.name].parent.absolute_address != address for _, o in bits
                )
                answer = (self.high if is_high else self.word(address, driven), 0)
                if self.nodes[bits[0][1].name].parent.size == 8 and not is_high:
                    self.high = self.word(address + 4, driven)
        self.held, self.pending = after, access
        return answer
