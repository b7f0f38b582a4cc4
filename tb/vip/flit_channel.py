"""What lies between two adapters: a delay, and flits that arrive wrong now and then."""

import enum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.sram.macro import Sram1r1w
from hw.ucie.crc import INJECTION
from hw.ucie.flit import FlitFormat
from hw.ucie.flit_codec import FlitPort
from hw.ucie.slot_shift import slots_up
from tb.vip.xorshift import xorshift

DICE_BITS = 24
BURST_BITS = 16  # at most
DEPTH = 32


class Noise(enum.IntEnum):
    """What happens to a half of a flit; the CRC finds each of these for certain."""

    FLIPS = 0  # one to three bits anywhere
    BURST = 1  # up to 16 bits in a row, of the message
    INJECTION = 2  # what `lp_corrupt_crc` does


class FlitChannel(wiring.Component):
    """One direction of a link: ``o`` is what ``i`` was ``cycles`` clocks ago, but for the noise.

    Contract: ``cycles`` is 2 to ``depth - 1`` and does not change while anything is under way. Each
    flit is struck by itself, with probability ``rate`` / 2**24, in one of its halves, in the way
    that ``noise`` says. While ``cut`` is high nothing arrives; what is under way goes on. The dice
    are of the seed, so that a run repeats.

    Members
    -------
    i : In(FlitPort); o : Out(FlitPort)
    cycles, rate, noise, cut : In
    flits, struck : Out(32): counters of flits that carried something, and of those struck
    """

    def __init__(
        self, *, flit_format: FlitFormat, flits: int, seed: int, depth: int = DEPTH
    ) -> None:
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two from 4 on, not {depth!r}")
        self._format, self._flits, self._depth, self._seed = flit_format, flits, depth, seed
        port = FlitPort(flits=flits, flit_bytes=flit_format.flit_bytes)
        super().__init__(
            {
                "i": In(port),
                "o": Out(port),
                "cycles": In(range(depth)),
                "rate": In(DICE_BITS + 1),
                "noise": In(Noise),
                "cut": In(1),
                "flits": Out(32),
                "struck": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth, bits = self._depth, 8 * self._format.flit_bytes
        row, oldest = Signal(range(depth)), Signal(range(depth))
        came = Signal(depth)  # in the clocks before, the last one lowest
        early, arrives = Signal(), Signal()
        m.d.comb += [
            oldest.eq(row - (self.cycles - 1)),
            early.eq(came.bit_select((self.cycles - 2)[: len(row)], 1)),
            self.o.valid.eq(arrives & ~self.cut),
        ]
        m.d.sync += [
            row.eq(row + 1),
            came.eq(Cat(self.i.valid, came)),
            arrives.eq(early),
        ]
        struck = Signal(self._flits)
        for k in range(self._flits):
            m.submodules[f"ring{k}"] = ring = Sram1r1w(width=bits, depth=depth)
            hit, mask = self._dice(m, k)
            m.d.comb += [
                ring.w_en.eq(self.i.valid),
                ring.w_addr.eq(row),
                ring.w_data.eq(self.i.flits[k]),
                ring.r_en.eq(early),
                ring.r_addr.eq(oldest),
                struck[k].eq(self.o.valid & hit),
                self.o.flits[k].eq(Mux(hit, ring.r_data ^ mask, ring.r_data)),
            ]
        with m.If(self.o.valid):
            m.d.sync += [
                self.flits.eq(self.flits + self._flits),
                self.struck.eq(self.struck + sum(struck)),
            ]
        return m

    def _dice(self, m: Module, k: int) -> tuple[Value, Value]:
        """Whether flit ``k`` of this clock is struck, and which bits."""
        bits = 4 * self._format.flit_bytes  # of a half
        state = xorshift(m, f"s{k}", bits=64, stream=8 * self._seed + k + 1)

        def below(first: int, size: int) -> Value:
            """Ten bits of the dice as a number below ``size``."""
            return (state[first : first + 10] * size)[10:]

        first_half = state[24]

        def placed(name: str, pattern: Value, at: Value) -> Value:
            moved = slots_up(m, f"{name}{k}", pattern, at, slot_bits=1, most=bits - 1)
            return moved[:bits]

        flips = [placed(f"flip{at}_", Const(1, 1), below(at, bits)) for at in (25, 35, 45)]
        # It stays clear of the last two bytes, which are a CRC in some formats.
        pattern = Cat(Const(1, 1), state[25 : 25 + BURST_BITS - 1])
        burst = placed("burst", pattern, below(45, bits - 2 * BURST_BITS))
        half = Mux(self.noise == Noise.BURST, burst, flips[0] | flips[1] | flips[2])
        crcs = [Const(INJECTION << 8 * part.start, 2 * bits) for part in self._format.crc]
        mask = Mux(
            self.noise == Noise.INJECTION,
            Mux(first_half, crcs[0], crcs[1]),
            Mux(first_half, half, Cat(Const(0, bits), half)),
        )
        return state[:DICE_BITS] < self.rate, mask
