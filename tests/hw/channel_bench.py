"""Plays a :class:`tb.channel_probe.Probe` against a small die in Amaranth's own simulator."""

from collections.abc import Iterable

from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.sim import Simulator

from hw.params import Machine
from tb.channel_probe import Probe


class _Members:
    """Ports of a component by their flat names."""

    def __init__(self, component: wiring.Component) -> None:
        self._values = {
            "__".join(map(str, path)): Value.cast(value)
            for path, _, value in component.signature.flatten(component)
        }
        self._set: dict[str, int] = {}
        self.ctx = None

    def get(self, name: str) -> int:
        return self.ctx.get(self._values[name])

    def set(self, name: str, value: int) -> None:
        if self._set.get(name) != value:
            self._set[name] = value
            self.ctx.set(self._values[name], value)


def stand_still(
    die: wiring.Component,
    probe: type[Probe],
    machine: Machine,
    blocked: Iterable[str],
    *,
    clocks: int,
    still: int,
    **options,
) -> tuple[dict[str, set[str]], dict[str, dict[str, int]]]:
    """For each port that is blocked (none if empty) the inputs that stood still for the last
    ``still`` of ``clocks`` clocks, and what was sent to each input."""
    simulator = Simulator(die)
    simulator.add_clock(1e-9)
    found: dict[str, set[str]] = {}
    sent: dict[str, dict[str, int]] = {}
    left = list(blocked)

    async def bench(ctx):
        now = left.pop(0)
        members = _Members(die)
        members.ctx = ctx
        player = probe(members, machine, blocked=now, seed=1, **options)
        for _ in range(clocks):
            player.clock()
            await ctx.tick()
        found[now] = player.stand_still(still)
        sent[now] = {port: sender.sent for port, sender in player.senders.items()}

    simulator.add_testbench(bench)
    simulator.run()
    while left:
        simulator.reset()
        simulator.run()
    return found, sent
