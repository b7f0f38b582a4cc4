"""Asks an HBF base die what it knows of an erase block."""

from tb.vip.registers import RegisterAccess

ANSWER = ("owner", "dirty", "failed", "next", "live", "cycles", "reads")
PATIENCE = 64  # reads of the register until the answer must be there


async def query_block(
    registers: RegisterAccess, die: int, subarray: int, block: int
) -> dict[str, int]:
    """State of a block, by the names of the register map without ``query_``.

    Raises:
        AssertionError: no answer came.
    """
    await registers.write(query_die=die, query_subarray=subarray, query_block=block)
    await registers.pulse("query_go")
    for _ in range(PATIENCE):
        if await registers.read("query_valid"):
            return {name: await registers.read(f"query_{name}") for name in ANSWER}
    raise AssertionError(f"no answer about block {block} of subarray {subarray} of die {die}")
