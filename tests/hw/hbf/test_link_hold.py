"""The HBF base die begins no page on a link that holds it up, and goes on with the other."""

from hw.hbf.base_die import HbfBaseDie
from hw.presets import preset
from hw.ucie.transaction import Operation
from tests.hw.pysim import simulate

FORMAL = preset("formal")
LONG = 250  # clocks, for a few pages


def test_a_page_waits_while_its_link_holds_it_up() -> None:
    die = HbfBaseDie(FORMAL)
    came = {"held": 0, "free": 0, "other": 0}

    async def bench(ctx) -> None:
        for command in die.command:
            ctx.set(command.ready, 1)
        ctx.set(die.c_data.hold, 1)
        units = FORMAL.geometry.page_bytes // 64
        header = {"operation": Operation.READ, "length": 2 * units}
        for port in (die.a_request, die.c_request):
            ctx.set(port.header, header)
            ctx.set(port.valid, 1)
        await ctx.tick()
        for port in (die.a_request, die.c_request):
            ctx.set(port.valid, 0)
        for clock in range(2 * LONG):
            ctx.set(die.c_data.hold, clock < LONG)
            came["held" if clock < LONG else "free"] += ctx.get(die.c_data.valid)
            came["other"] += ctx.get(die.a_data.valid)
            await ctx.tick()

    simulate(die, bench, clocks=2 * LONG + 10)
    assert came == {"held": 0, "free": 8, "other": 8}
