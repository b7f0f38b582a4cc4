"""Register ports in cocotb."""

from typing import Any

from cocotb.triggers import Lock, RisingEdge

from hw.registers.hbf import hbf_description
from tb.vip.registers import RegisterAccess


def register_access(dut: Any, port: str) -> RegisterAccess:
    """Registers of one HBF base die, over the port whose signals begin with ``port``.

    The clock of ``dut`` is ``clk``; one access at a time, others wait for it.
    """
    request = {
        name: getattr(dut, f"{port}__request__{name}")
        for name in ("valid", "write", "address", "data")
    }
    response = {
        name: getattr(dut, f"{port}__response__{name}") for name in ("valid", "data", "error")
    }
    for handle in request.values():
        handle.value = 0

    turn = Lock()

    async def access(address: int, data: int | None) -> int:
        async with turn:
            return await alone(address, data)

    async def alone(address: int, data: int | None) -> int:
        request["valid"].value = 1
        request["write"].value = int(data is not None)
        request["address"].value = address
        request["data"].value = data or 0
        await RisingEdge(dut.clk)
        request["valid"].value = 0
        while True:
            await RisingEdge(dut.clk)
            if int(response["valid"].value):
                break
        if int(response["error"].value):
            raise RuntimeError(f"{port}: access to register address {address:#x} was refused")
        return int(response["data"].value)

    async def read(address: int) -> int:
        return await access(address, None)

    async def write(address: int, data: int) -> None:
        await access(address, data)

    return RegisterAccess(hbf_description(), read, write)
