"""Several modules under one adapter: groups of flits to the words of the modules, and back."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

BYTE = 8
NUMBER_BITS = 8  # of a word, in its module


class ModulePort(wiring.Signature):
    """What one module carries in a clock: a word of ``word_bytes`` bytes and its number.

    Words of a module are numbered from zero after each restart. UCIe sends no such number: there a
    module that slips is found by the CRC of the flits.
    """

    def __init__(self, *, word_bytes: int) -> None:
        super().__init__(
            {"valid": Out(1), "number": Out(NUMBER_BITS), "word": Out(BYTE * word_bytes)}
        )


def sizes(modules: int) -> range:
    """Exponents ``k`` of the numbers 2**k of modules that can be enabled."""
    return range(modules.bit_length())


def blocks(modules: int) -> list[int]:
    """The masks of modules that can be enabled: largest first, then lowest."""
    return [
        ((1 << size) - 1) << base
        for size in (1 << k for k in reversed(sizes(modules)))
        for base in range(0, modules, size)
    ]


class _Modules(wiring.Component):
    """What both directions share: the order of bytes.

    Chunks of ``lanes`` bytes go round the enabled modules. Those are an aligned block of a power
    of two, so a module has the same rank in every block of a size.
    """

    def __init__(self, modules: int, lanes: int, group_bytes: int, ports: dict) -> None:
        if modules < 1 or modules & (modules - 1) or modules > 1 << NUMBER_BITS:
            raise ValueError(f"modules must be a power of two, not {modules!r}")
        if lanes < 1:
            raise ValueError(f"lanes must be at least 1, not {lanes!r}")
        if group_bytes < 1 or group_bytes % (modules * lanes):
            raise ValueError(
                f"group_bytes must be a multiple of {modules * lanes}, not {group_bytes!r}"
            )
        self._modules, self._lanes, self._group_bytes = modules, lanes, group_bytes
        super().__init__(ports)

    @property
    def modules(self) -> int:
        return self._modules

    @property
    def lanes(self) -> int:
        return self._lanes

    @property
    def group_bytes(self) -> int:
        return self._group_bytes

    @property
    def word_bytes(self) -> int:
        return self._group_bytes // self._modules

    def _chunks(self, value: Value) -> list[Value]:
        step = BYTE * self._lanes
        return [value[at : at + step] for at in range(0, len(value), step)]

    def _count(self, enabled: Value) -> list[Value]:
        """Bit ``k``: the block that is enabled has 2**k modules."""
        found: list[Value] = []
        for size in (1 << k for k in sizes(self._modules)):
            full = [enabled[at : at + size].all() for at in range(0, self._modules, size)]
            found.append(Cat(*full).any())
        return [
            here & ~larger for here, larger in zip(found, [*found[1:], Const(0, 1)], strict=True)
        ]


class Striper(_Modules):
    """Sends groups over the enabled modules.

    A group goes out in ``modules / n`` consecutive clocks over ``n`` enabled modules, slice ``i``
    being part ``i`` of its bytes. Within a slice byte ``b`` is carried by the module of rank
    ``(b // lanes) % n`` in ascending order, as the interval ``b // (lanes * n)`` of its word.

    Latency: the first word leaves one clock after the group is taken. Throughput: one group in
    ``modules / n`` clocks. Back-pressure: ``i.ready`` is low while slices are left, and does not
    depend on ``i.valid``. Source: UCIe 3.0 chapter 4 (multi-module links).

    Members
    -------
    i : In(stream.Signature(8 * group_bytes))
        Groups, byte 0 lowest.
    enabled : In(modules)
        One of ``blocks(modules)``, or zero: nothing is taken. Changes only with ``restart``.
    restart : In(1)
        What is left of a group is dropped, words are numbered from zero again. Nothing is taken.
    o : Out(ModulePort).array(modules)
    idle : Out(1)
        No slice is left; the last word may be leaving.
    """

    def __init__(self, *, modules: int, lanes: int, group_bytes: int) -> None:
        super().__init__(
            modules,
            lanes,
            group_bytes,
            {
                "i": In(stream.Signature(BYTE * group_bytes)),
                "enabled": In(modules),
                "restart": In(1),
                "o": Out(ModulePort(word_bytes=group_bytes // max(modules, 1))).array(modules),
                "idle": Out(1),
            },
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        counts = self._count(self.enabled)
        bits, intervals = BYTE * self._group_bytes, self.word_bytes // self._lanes
        left = Signal(range(self._modules))  # slices of the group in `rest`
        rest = Signal(bits, reset_less=True)
        group, send = Signal(bits), Signal()
        number = Signal(NUMBER_BITS)
        m.d.comb += [
            self.idle.eq(left == 0),
            self.i.ready.eq(self.idle & self.enabled.any() & ~self.restart),
            group.eq(Mux(self.idle, self.i.payload, rest)),
            send.eq(~self.restart & (~self.idle | (self.i.valid & self.i.ready))),
        ]
        chunks = self._chunks(group)
        for k in sizes(self._modules):
            size = 1 << k
            with m.If(send & counts[k]):
                m.d.sync += [
                    left.eq(Mux(self.idle, self._modules // size, left) - 1),
                    rest.eq(group[bits * size // self._modules :]),
                ]
                for module, port in enumerate(self.o):
                    rank = module % size
                    word = Cat(*(chunks[t * size + rank] for t in range(intervals)))
                    m.d.sync += port.word.eq(word)
        m.d.sync += number.eq(number + send)
        for module, port in enumerate(self.o):
            m.d.sync += [
                port.valid.eq(send & self.enabled[module]),
                port.number.eq(number),
            ]
        with m.If(self.restart):
            m.d.sync += [left.eq(0), number.eq(0)]
        return m


class Deskewer(_Modules):
    """Puts the words of the enabled modules together to groups again.

    Promise: each group that comes out is a group that was sent, with all its bytes, in order and
    once, whatever words are lost on the way. The delay of each module is fixed, those of two
    modules differ by ``max_skew`` clocks at most, and the slices of a group are sent in consecutive
    clocks. A loss is noticed by three rules: words of a module come by their numbers; none waits
    for those of the other modules longer than ``max_skew`` clocks; slices of a group follow each
    other without a gap. Whoever breaks one sets an error that stays until ``restart``, and until
    then no group comes out. Several groups that are lost as a whole in all modules may go
    unnoticed; their sequence numbers tell the receiver of the adapter.

    Latency: a group comes out two clocks after its last word has come in. Throughput: one slice a
    clock. Back-pressure: none.

    Members
    -------
    i : In(ModulePort).array(modules)
    enabled : In(modules)
        As that of the other end's :class:`Striper`. Changes only with ``restart``.
    restart : In(1)
        All words that have come are dropped; the next of each module has number zero.
    valid : Out(1); payload : Out(8 * group_bytes)
        A group.
    lost : Out(1)
        A word is missing between others.
    starved : Out(1)
        A module brings nothing while another does.
    """

    def __init__(self, *, modules: int, lanes: int, group_bytes: int, max_skew: int) -> None:
        if not 0 <= max_skew < 1 << NUMBER_BITS - 2:
            raise ValueError(
                f"max_skew must be 0 to {(1 << NUMBER_BITS - 2) - 1} clocks, not {max_skew!r}"
            )
        self._max_skew = max_skew
        super().__init__(
            modules,
            lanes,
            group_bytes,
            {
                "i": In(ModulePort(word_bytes=group_bytes // max(modules, 1))).array(modules),
                "enabled": In(modules),
                "restart": In(1),
                "valid": Out(1),
                "payload": Out(BYTE * group_bytes),
                "lost": Out(1),
                "starved": Out(1),
            },
        )

    @property
    def max_skew(self) -> int:
        return self._max_skew

    def elaborate(self, platform) -> Module:
        m = Module()
        take, broken = Signal(), Signal()
        present, early, wrong = (
            Signal(self._modules, name=name) for name in ("present", "early", "wrong")
        )
        words = []
        for module in range(self._modules):
            word = self._queue(m, module, take, present, early, wrong)
            words.append(word)

        # Slices -----------------------------------------------------------------------------------
        counts = self._count(self.enabled)
        missing = self.enabled & ~present
        left = Signal(range(self._modules))  # slices of the group that has begun
        waited = Signal(range(self._max_skew + 1))
        m.d.comb += [
            broken.eq(self.lost | self.starved),
            take.eq(self.enabled.any() & (missing == 0) & ~broken),
        ]
        m.d.sync += [
            self.valid.eq(0),
            waited.eq(Mux(take | ~present.any(), 0, waited + (waited != self._max_skew))),
        ]
        for k in sizes(self._modules):
            size = 1 << k
            part = self._slice(words, size)
            with m.If(take & counts[k]):
                kept = self.payload[len(part) :]
                m.d.sync += [
                    left.eq(Mux(left == 0, self._modules // size, left) - 1),
                    self.valid.eq((left == 1) if size < self._modules else 1),
                    self.payload.eq(Cat(kept, part)),
                ]

        # Losses -----------------------------------------------------------------------------------
        with m.If((wrong != 0) | ((left != 0) & ~take)):
            m.d.sync += self.lost.eq(1)
        with m.If((early != 0) | (present.any() & ~take & (waited == self._max_skew))):
            m.d.sync += self.starved.eq(1)
        with m.If(self.restart):
            m.d.sync += [
                left.eq(0),
                waited.eq(0),
                self.valid.eq(0),
                self.lost.eq(0),
                self.starved.eq(0),
            ]
        return m

    def _queue(
        self, m: Module, module: int, take: Value, present: Value, early: Value, wrong: Value
    ) -> Value:
        """The words of a module that wait for those of the others; gives the oldest."""
        port = self.i[module]
        rows = 1 << self._max_skew.bit_length()  # more than max_skew
        memory = Memory(shape=BYTE * self.word_bytes, depth=max(rows, 2), init=[])
        m.submodules[f"queue{module}"] = memory
        write, read = memory.write_port(), memory.read_port(domain="comb")
        number = Signal(NUMBER_BITS, name=f"number{module}")
        level = Signal(range(rows + 1), name=f"level{module}")
        arrives, leaves, full = (
            Signal(name=f"{name}{module}") for name in ("arrives", "leaves", "full")
        )
        m.d.comb += [
            arrives.eq(port.valid & self.enabled[module]),
            leaves.eq(take & self.enabled[module]),
            full.eq((level == rows) & ~leaves),
            # The low bits of its number are the row of a word: numbers begin at zero.
            write.addr.eq(number),
            write.data.eq(port.word),
            write.en.eq(arrives & ~full),
            read.addr.eq(number - level),
            present[module].eq(level != 0),
            early[module].eq(arrives & full),
            wrong[module].eq(arrives & (port.number != number)),
        ]
        m.d.sync += [
            number.eq(number + arrives),
            level.eq(level + write.en - leaves),
        ]
        with m.If(self.restart):
            m.d.sync += [number.eq(0), level.eq(0)]
        return read.data

    def _slice(self, words: list[Value], size: int) -> Value:
        """Bytes of a slice from the words of the block of ``size`` modules that is enabled."""
        block = words[:size]
        for base in range(size, self._modules, size):
            block = [
                Mux(self.enabled[base], word, other)
                for word, other in zip(words[base : base + size], block, strict=True)
            ]
        pieces = [self._chunks(word) for word in block]
        intervals = self.word_bytes // self._lanes
        return Cat(*(pieces[rank][t] for t in range(intervals) for rank in range(size)))
