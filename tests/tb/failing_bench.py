"""A bench that fails."""

import cocotb


@cocotb.test()
async def fails(dut):
    """Fails at once."""
    raise AssertionError("one is not two")
