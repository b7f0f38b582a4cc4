"""Bench for :class:`tests.tb.sideband_registers.SidebandRegisters`."""

import cocotb

from hw.params import Machine
from hw.presets import preset
from hw.registers.description import Kind
from hw.registers.hbf import hbf_description, hbf_resets
from hw.ucie.sideband_requester import AccessStatus
from tb.simulator.clock import start_clock
from tb.vip.sideband_port import Ended, SidebandPort

MACHINE: Machine = preset("mini")


@cocotb.test(timeout_time=200, timeout_unit="us")
async def registers_by_name(dut):
    """Resets as the machine has them; what is written is read back; constants stay."""
    port = SidebandPort(dut)
    await start_clock(dut)
    registers = port.registers()
    resets = hbf_resets(MACHINE)
    for name in ("dies", "planes", "t_read"):
        assert await registers.read(name) == resets[name]
    config = [field for field in hbf_description().fields if field.kind is Kind.CONFIG][:6]
    values = {field.name: (1 << field.width) - 1 for field in config}
    await registers.write(**values)
    for name, value in values.items():
        assert await registers.read(name) == value
    counter = next(f for f in hbf_description().fields if f.kind is Kind.COUNTER)
    assert await registers.read(counter.name) == 0
    assert await port.access(counter.address, wide=True) == Ended(AccessStatus.SUCCESS, 0)
    try:
        await registers._read_word(0xFFFFF0)
    except RuntimeError as error:
        assert "0xfffff0 ended as UNSUPPORTED" in str(error)
    else:
        raise AssertionError("read where there is no register")


@cocotb.test(timeout_time=200, timeout_unit="us")
async def many_at_once(dut):
    """Accesses under way together each get their own answer."""
    port = SidebandPort(dut)
    await start_clock(dut)
    resets, fields = hbf_resets(MACHINE), hbf_description().by_name
    names = ["t_read", "t_program", "t_erase"] * 4
    tasks = [cocotb.start_soon(port.access(fields[name].address)) for name in names]
    for name, task in zip(names, tasks, strict=True):
        ended = await task
        field = fields[name]
        assert ended.status is AccessStatus.SUCCESS
        assert ended.data >> field.low & (1 << field.width) - 1 == resets[name]
