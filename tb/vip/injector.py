"""Plants bit errors in the transfer regions of one base die, over its register port."""

from random import Random
from typing import Any

from cocotb.triggers import RisingEdge

from tb.vip.registers import RegisterAccess

WORD_BITS = 72  # with check bits


class Injector:
    """Arms errors one after the other at random times.

    Attributes:
        single, double: Beats that got an error of one bit, of two.
        certain: All armed errors were planted.
        stopped: No error will come any more.
    """

    def __init__(
        self, registers: RegisterAccess, dut: Any, lanes: int, count: int, random: Random
    ) -> None:
        self._registers, self._dut, self._lanes, self._count = registers, dut, lanes, count
        self._random = Random(random.random())
        self.single = self.double = 0
        self.certain = True
        self._stop = self.stopped = False

    def stop(self) -> None:
        self._stop = True

    async def run(self) -> None:
        for _ in range(self._count):
            if self._stop:
                break
            await self._plant()
        self.stopped = True

    async def _plant(self) -> None:
        random, port = self._random, self._registers
        for _ in range(random.choice((5, 50, 200))):
            await RisingEdge(self._dut.clk)
        first = random.randrange(WORD_BITS)
        second = random.choice([bit for bit in range(WORD_BITS) if bit != first])
        double, beats = random.random() < 0.4, random.choice((1, 1, 2, 5))
        await port.write(
            inject_word=random.randrange(self._lanes),
            inject_bit0=first,
            inject_bit1=second,
            inject_double=int(double),
            inject_beats=beats,
        )
        await port.pulse("inject_arm")
        await RisingEdge(self._dut.clk)
        while await port.read("inject_armed"):
            if self._stop:
                await port.write(inject_beats=0)
                await port.pulse("inject_arm")
                self.certain = False
                break
        if double:
            self.double += beats
        else:
            self.single += beats
