"""The consumer at the GPU side: checks every byte, counts, and pushes back at random."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, BeatStream
from tb.vip.content import VERSION_BITS, BeatContent
from tb.vip.xorshift import xorshift


class BeatChecker(wiring.Component):
    """Takes the beats of one path of one stack and compares them with the content of their address.

    Contract: ``ready`` is low in ``stall`` of 256 clocks on average, from a 32-bit xorshift
    generator started from ``seed``. One clock after a beat, ``beats`` has counted it, ``errors``
    counts it if any byte or its poison mark is wrong, and the sums have it added, modulo 2**64.

    Any version of a beat is right by itself, so that neither a whole page nor one version need
    come; the sums tell, with the count, whether what came is what was asked for and as new as it
    should be.

    Members
    -------
    address_sum : Out(64): of beat numbers
    version_sum : Out(64): of versions
    versioned_sum : Out(64): of beat numbers times version
    """

    def __init__(self, machine: Machine, *, stack: int, seed: int) -> None:
        self._machine, self._stack, self._seed = machine, stack, seed
        super().__init__(
            {
                "i": In(BeatStream(machine.lanes)),
                "stall": In(9),
                "taken": Out(1),
                "beats": Out(40),
                "errors": Out(32),
                "address_sum": Out(64),
                "version_sum": Out(64),
                "versioned_sum": Out(64),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes = self._machine.lanes
        beat_units = self._machine.link.beat_bytes // ADDRESS_UNIT_BYTES
        random = xorshift(m, "random", bits=32, stream=2 * self._seed + 1)

        m.submodules.content = content = BeatContent(stack=self._stack, lanes=lanes)
        number = self.i.header.address >> (beat_units.bit_length() - 1)
        version = self.i.lanes[0][:VERSION_BITS]
        wrong = [self.i.lanes[k] != content.lanes[k] for k in range(lanes)]
        bad = Signal()
        m.d.comb += [
            self.i.ready.eq(random[:8] >= self.stall),
            self.taken.eq(self.i.valid & self.i.ready),
            content.beat.eq(number),
            content.version.eq(version),
            bad.eq(Cat(wrong).any() | self.i.header.poison),
        ]
        with m.If(self.taken):
            m.d.sync += [
                self.beats.eq(self.beats + 1),
                self.errors.eq(self.errors + bad),
                self.address_sum.eq(self.address_sum + number),
                self.version_sum.eq(self.version_sum + version),
                self.versioned_sum.eq(self.versioned_sum + number * version),
            ]
        return m
