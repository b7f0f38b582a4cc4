# amaranth: UnusedElaboratable=no
"""One pseudo-channel with its DRAM in pysim, every command checked and every access compared."""

import random
from dataclasses import dataclass, field

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.hbm.dram.address import Place
from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import RowCommand
from hw.hbm.dram.pseudo_channel import COUNTERS, PseudoChannel
from tb.vip.dram import DramModel, preloaded
from tb.vip.dram_checker import DramChecker
from tests.hw.pysim import simulate

CHANNEL = 1
TAG_BITS = 12


@dataclass(frozen=True)
class Access:
    """What a channel is asked: ``clock`` is the first in which it may be offered."""

    place: Place
    write: bool = False
    clock: int = 0


@dataclass
class Played:
    """What came of it.

    Attributes:
        taken, returned: Clock of each access by its number.
        commands: Clock, name, bank, phase of every command.
    """

    taken: dict[int, int] = field(default_factory=dict)
    returned: dict[int, int] = field(default_factory=dict)
    poison: set[int] = field(default_factory=set)
    commands: list[tuple[int, str, int, int]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    clocks: int = 0

    def of(self, name: str) -> list[tuple[int, int]]:
        """Clock and bank of commands of a kind."""
        return [(clock, bank) for clock, kind, bank, _ in self.commands if kind == name]


def version(place: Place, number: int) -> list[int]:
    """Lanes of write ``number``."""
    return [(number + 1) << 40 | place.row << 20 | place.column << 8 | k for k in range(8)]


def play(
    stack: HbmStack,
    accesses: list[Access],
    *,
    flip: int = 0,
    linger: int = 0,
    channel: type = PseudoChannel,
    checks: bool = True,
    limit: int = 100_000,
) -> Played:
    """Asks for ``accesses``, reads and writes each in their order, and checks what comes back.

    A read must see the writes that were taken before it, and none that was taken after it.
    Afterwards ``linger`` clocks pass.
    """
    dut, model = channel(stack, tag_bits=TAG_BITS), DramModel(stack, kept_rows=16)
    m = Module()
    m.submodules.dut, m.submodules.model = dut, model
    wiring.connect(m, dut.dram, model.dram)
    m.d.comb += [model.channel.eq(CHANNEL), model.flip.eq(flip)]
    checker = DramChecker(stack, clocks_of(stack).phases)
    played = Played()
    memory: dict[Place, list[int]] = {}
    expected: dict[int, set[tuple[int, ...]]] = {}
    queues = {w: [n for n, a in enumerate(accesses) if a.write == w] for w in (False, True)}
    reads = len(queues[False])

    async def bench(ctx):
        now = 0
        offered: dict[bool, int | None] = {False: None, True: None}
        left_over = linger
        while queues[False] or queues[True] or len(played.returned) < reads or left_over:
            if not (queues[False] or queues[True]) and len(played.returned) == reads:
                left_over -= 1
            for write, port in ((False, dut.read), (True, dut.write)):
                queue = queues[write]
                if offered[write] is None and queue and accesses[queue[0]].clock <= now:
                    offered[write] = number = queue[0]
                    ctx.set(port.valid, 1)
                    place = accesses[number].place
                    ctx.set(
                        port.payload.place,
                        {"bank": place.bank, "row": place.row, "column": place.column},
                    )
                    if write:
                        ctx.set(port.payload.lanes, version(place, number))
                    else:
                        ctx.set(port.payload.tag, number)
            taken = []
            for write, port in ((False, dut.read), (True, dut.write)):
                if offered[write] is not None and ctx.get(port.ready):
                    taken.append((write, port, offered[write]))
            for write, _, number in taken:  # a read and a write of one clock: either order is right
                place = accesses[number].place
                if not write:
                    now_there = memory.get(place) or preloaded(stack, place)
                    expected[number] = {tuple(now_there)}
            for write, _, number in taken:
                place = accesses[number].place
                if write:
                    memory[place] = version(place, number)
                    for other, _, of in taken:
                        if not other and accesses[of].place == place:
                            expected[of].add(tuple(memory[place]))
            _observe(ctx, dut.dram, now, played, checker if checks else None)
            if ctx.get(dut.returned.valid):
                number = ctx.get(dut.returned.tag)
                assert number in played.taken and number not in played.returned, number
                played.returned[number] = now
                if ctx.get(dut.returned.poison):
                    played.poison.add(number)
                else:
                    lanes = tuple(ctx.get(lane) for lane in dut.lanes)
                    assert lanes in expected[number], f"read {number}: {accesses[number]}"
            await ctx.tick()
            for write, port, number in taken:
                played.taken[number] = now
                queues[write].pop(0)
                offered[write] = None
                ctx.set(port.valid, 0)
            now += 1
        checker.end(now)
        played.clocks = now
        played.counters = {name: ctx.get(dut.counters[name]) for name in COUNTERS}
        assert ctx.get(model.overflow) == 0, "the model had to forget a row"

    simulate(m, bench, clocks=limit)
    assert not (checks and checker.violations), "\n".join(map(str, checker.violations[:10]))
    return played


def _observe(ctx, port, now: int, played: Played, checker: DramChecker | None) -> None:
    if ctx.get(port.row.valid):
        command, bank = ctx.get(port.row.command), ctx.get(port.row.bank)
        played.commands.append((now, command.name, bank, 0))
        if checker:
            match command:
                case RowCommand.ACTIVATE:
                    checker.activate(now, bank, ctx.get(port.row.row))
                case RowCommand.PRECHARGE:
                    checker.precharge(now, bank)
                case RowCommand.REFRESH:
                    checker.refresh(now, bank)
    if ctx.get(port.column.valid):
        write, bank = bool(ctx.get(port.column.write)), ctx.get(port.column.bank)
        phase = ctx.get(port.column.phase)
        played.commands.append((now, "WRITE" if write else "READ", bank, phase))
        if checker:
            checker.column(now, phase, bank, write=write)


def scattered(
    stack: HbmStack, pick: random.Random, count: int, *, writes: float, rows: int, gap: int = 0
) -> list[Access]:
    """Random accesses of ``rows`` rows of all banks, that many clocks apart on average."""
    o, clock, found = stack.organization, 0, []
    for _ in range(count):
        clock += pick.randrange(2 * gap + 1)
        place = Place(
            CHANNEL,
            pick.randrange(o.bank_count),
            pick.randrange(rows),
            pick.randrange(o.columns),
        )
        found.append(Access(place, pick.random() < writes, clock))
    return found


def in_order(stack: HbmStack, count: int, *, write: bool = False) -> list[Access]:
    """Consecutive accesses of the channel from address 0 on."""
    from hw.hbm.dram.address import HbmAddressMap

    at = HbmAddressMap(stack)
    return [Access(at.place(k << at.channel_bits | CHANNEL), write) for k in range(count)]
