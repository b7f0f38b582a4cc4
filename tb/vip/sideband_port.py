"""Register accesses over the sideband in cocotb."""

from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.triggers import Event, Lock, RisingEdge

from hw.registers.description import WORD_BITS
from hw.registers.hbf import hbf_description
from hw.ucie.sideband_requester import Access, AccessStatus, Response
from tb.vip.registers import RegisterAccess


@dataclass(frozen=True)
class Ended:
    """How an access ended, and what it read."""

    status: AccessStatus
    data: int


class SidebandPort:
    """The access and response streams of a host whose signals begin with ``prefix``.

    The clock of ``dut`` is ``clk``. Many accesses may be under way: each waits for its own tag.
    """

    def __init__(self, dut: Any, prefix: str = "") -> None:
        self._dut, self._prefix = dut, prefix
        self._turn = Lock()
        self._waiting: dict[int, Event] = {}
        self._ended: dict[int, Ended] = {}
        self._signal("access__valid").value = 0
        self._signal("access__payload").value = 0
        self._signal("response__ready").value = 1
        cocotb.start_soon(self._collect())

    async def access(
        self,
        address: int,
        data: int | None = None,
        *,
        wide: bool = False,
        config: bool = False,
        be: int | None = None,
    ) -> Ended:
        """One access, a read if there is no data; without ``be``, of all its bytes."""
        values = {
            "write": data is not None,
            "wide": wide,
            "config": config,
            "address": address,
            "be": (0xFF if wide else 0xF) if be is None else be,
            "data": data or 0,
        }
        done = Event()
        async with self._turn:
            self._signal("access__payload").value = Access.const(values).as_bits()
            self._signal("access__valid").value = 1
            while True:
                await RisingEdge(self._dut.clk)
                if int(self._signal("access__ready").value):
                    break
            tag = int(self._signal("tag").value)
            self._waiting[tag] = done
            self._signal("access__valid").value = 0
        await done.wait()
        return self._ended.pop(tag)

    def registers(self) -> RegisterAccess:
        """Registers of one HBF base die, word by word."""

        async def read(address: int) -> int:
            return (await self._whole(address, None)) & (1 << WORD_BITS) - 1

        async def write(address: int, data: int) -> None:
            await self._whole(address, data)

        return RegisterAccess(hbf_description(), read, write)

    async def _whole(self, address: int, data: int | None) -> int:
        ended = await self.access(address, data)
        if ended.status is not AccessStatus.SUCCESS:
            raise RuntimeError(
                f"sideband: access to register address {address:#x} ended as {ended.status.name}"
            )
        return ended.data

    async def _collect(self) -> None:
        while True:
            await RisingEdge(self._dut.clk)
            # Before reset the signals may have no value yet.
            if self._waiting and int(self._signal("response__valid").value):
                bits = int(self._signal("response__payload").value)
                response = Response.from_bits(bits)
                self._ended[response.tag] = Ended(AccessStatus(response.status), response.data)
                self._waiting.pop(response.tag).set()

    def _signal(self, name: str) -> Any:
        return getattr(self._dut, f"{self._prefix}{name}")
