"""Turns background collection of one base die off and on at random times."""

from random import Random
from typing import Any

from cocotb.triggers import RisingEdge

from tb.vip.registers import RegisterAccess

CLOCKS = (100, 1000, 4000)  # off or on for so long


class CollectionSwitch:
    """While it is off blocks die, and their subarrays go on with other work.

    Attributes:
        stopped: It will not be touched any more, and is on.
    """

    def __init__(self, registers: RegisterAccess, dut: Any, random: Random) -> None:
        self._registers, self._dut = registers, dut
        self._random = Random(random.random())
        self._stop = self.stopped = False

    def stop(self) -> None:
        self._stop = True

    async def run(self) -> None:
        on = True
        while not (on and self._stop):
            for _ in range(self._random.choice(CLOCKS)):
                await RisingEdge(self._dut.clk)
                if self._stop:
                    break
            on = not on
            await self._registers.write(collect_enable=int(on))
        self.stopped = True
