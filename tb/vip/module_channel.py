"""The wires of a multi-module link: delay and skew of each module, loss and wrong bits."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.ucie.modules import ModulePort


class ModuleChannel(wiring.Component):
    """Carries the words of each module for a fixed time.

    Contract: word and number of module ``k`` come ``delays[k]`` clocks later, at least one. A
    module that is ``dead`` in the clock in which they would come delivers none. ``flip`` changes
    the bits that it has set.

    Members
    -------
    i : In(ModulePort).array(modules)
    o : Out(ModulePort).array(modules)
    dead : In(modules)
    flip : In(8 * word_bytes).array(modules)
    """

    def __init__(self, *, word_bytes: int, delays: Sequence[int]) -> None:
        if min(delays, default=0) < 1:
            raise ValueError(f"delays must be at least 1 clock, not {list(delays)!r}")
        self._delays = tuple(delays)
        modules, port = len(delays), ModulePort(word_bytes=word_bytes)
        super().__init__(
            {
                "i": In(port).array(modules),
                "o": Out(port).array(modules),
                "dead": In(modules),
                "flip": In(8 * word_bytes).array(modules),
            }
        )

    @property
    def delays(self) -> tuple[int, ...]:
        return self._delays

    def elaborate(self, platform) -> Module:
        m = Module()
        for k, delay in enumerate(self._delays):
            i, o = self.i[k], self.o[k]
            number, word, valid = i.number, i.word, i.valid
            for stage in range(delay):
                later = Signal(name=f"valid{k}_{stage}")
                m.d.sync += later.eq(valid)
                valid = later
            # Words under way stand still in a ring: moving them costs time in simulation.
            width = len(number) + len(word)
            ring = Memory(shape=width, depth=max(delay, 2), init=[])
            m.submodules[f"ring{k}"] = ring
            write, read = ring.write_port(), ring.read_port(domain="comb")
            row = Signal(range(max(delay, 2)), name=f"row{k}")
            m.d.sync += row.eq(Mux(row == delay - 1, 0, row + 1))
            m.d.comb += [
                write.en.eq(i.valid),
                write.addr.eq(row),
                write.data[: len(number)].eq(number),
                write.data[len(number) :].eq(word),
                read.addr.eq(row),  # written `delay` clocks ago
                o.valid.eq(valid & ~self.dead[k]),
                o.number.eq(read.data),
                o.word.eq(read.data[len(number) :] ^ self.flip[k]),
            ]
        return m
