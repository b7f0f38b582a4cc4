"""Plays the same port activity on the NAND in hardware and on the NAND in plain Python."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from amaranth.sim import Simulator

from hw.hbf.layouts import Command
from hw.params import KIB, NAND_TIME_BITS, Machine
from tb.vip.content import beat_lanes
from tb.vip.nand import NandStack
from tb.vip.nand_model import NandModel
from tb.vip.nand_rules import NandRule, rules_in
from tb.vip.nand_state import NandRuleBroken
from tests.hw.beats import Quiet
from tests.hw.machines import TINY

STACK = 1
CLOCK_NS = 0.5
# 2 dies of 2 planes with 2 subarrays each, 2 blocks of 4 pages; a beat a clock and die.
SMALL = dataclasses.replace(
    TINY,
    geometry=dataclasses.replace(TINY.geometry, dies=2, blocks_per_subarray=2),
    sram=dataclasses.replace(TINY.sram, hbf_region_bytes=2 * KIB),
    tsv=dataclasses.replace(TINY.tsv, bytes_per_s=256e9),
)
ROWS = SMALL.geometry.rows
TIMES = {"t_read": 10, "t_program": 30, "t_erase": 50, "t_suspend": 8}


def with_times(machine: Machine = SMALL, *, cache_read: bool = True, **clocks: int) -> Machine:
    """The machine with these times in clocks; those of TIMES are set anyway, others are zero."""
    of_all = {**dict.fromkeys(NAND_TIME_BITS, 0), **TIMES, **clocks}
    times = {f"{name}_ns": CLOCK_NS * value for name, value in of_all.items()}
    nand = dataclasses.replace(machine.nand, **times, cache_read=cache_read)
    return dataclasses.replace(machine, nand=nand)


@dataclass(frozen=True)
class Op:
    """What one port does in one clock: a command, or ``read`` or ``write`` of a beat."""

    what: Command | str
    subarray: int
    row: int = 0  # of a command
    die: int = 0
    beat: int = 0
    last: bool = False
    version: int = 0
    lanes: tuple[int, ...] = ()  # instead of the content of ``row`` in ``version``

    def data(self, machine: Machine) -> list[int]:
        g = machine.geometry
        page = (self.row * g.subarrays_per_die + self.subarray) * g.dies + self.die
        return list(self.lanes) or beat_lanes(
            STACK, 4 * page + self.beat, machine.lanes, self.version
        )


def cmd(what: str, subarray: int = 0, row: int = 0, die: int = 0) -> Op:
    return Op(Command[what], subarray, row, die)


def read(subarray: int = 0, beat: int = 0, last: bool | None = None, die: int = 0) -> Op:
    return Op("read", subarray, die=die, beat=beat, last=beat == 3 if last is None else last)


def write(subarray: int = 0, beat: int = 0, row: int = 0, version: int = 1, die: int = 0) -> Op:
    return Op("write", subarray, row, die, beat, version=version)


@dataclass
class Played:
    """What came of it, in hardware, in Python, or both.

    Attributes:
        broken: Rule that Python found broken, and the clock.
        kinds: Rules that hardware found broken.
        statuses: Clock and answer (ready, fail) of each STATUS.
        read: Lanes read out, in order.
        counters: Of hardware at the end.
    """

    broken: tuple[NandRule | None, int] | None = None
    text: str = ""
    kinds: list[NandRule] = field(default_factory=list)
    statuses: list[tuple[int, tuple[int, int]]] = field(default_factory=list)
    read: list[list[int]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


# Chooses the operations of a clock, and whether a program or erase fails in it.
Stimulus = Callable[[int, NandModel], tuple[list[Op], bool]]


class NandBench:
    """One build of the stack, reset for every play."""

    def __init__(self, machine: Machine = SMALL) -> None:
        self.machine = machine
        self.dut = NandStack(machine, stack=STACK)
        self._simulator = Simulator(self.dut)
        self._simulator.add_clock(1e-9)
        self._simulator.add_testbench(self._bench)
        self._play: Callable | None = None

    def play(
        self,
        stimulus: Stimulus | dict[int, list[Op]],
        clocks: int,
        machine: Machine | None = None,
        *,
        compares: bool = True,
        **settings: int,
    ) -> Played:
        """Plays ``clocks`` clocks, or up to a broken rule and a clock beyond it.

        All that is read out and all statuses must be alike, unless ``compares`` is off; and rules
        that only one of the two finds broken fail the test.
        """
        machine = machine or with_times(self.machine)
        failing = False
        model = NandModel(machine, STACK, fails=lambda *_: failing)
        found = Played()

        async def bench(ctx):
            nonlocal failing
            ctx = Quiet(ctx)
            dut = self.dut
            for name, value in {**machine.nand_cycles, **settings}.items():
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.cache_read, machine.nand.cache_read)
            for clock in range(clocks):
                if isinstance(stimulus, dict):
                    ops = stimulus.get(clock, [])
                else:
                    ops, failing = stimulus(clock, model)
                    for name in ("fail_program", "fail_erase"):
                        ctx.set(getattr(dut, name), 256 * failing)
                self._drive(ctx, ops)
                answers = self._python(model, ops, clock, found)
                await ctx.tick()
                if found.broken:
                    self._drive(ctx, [])
                    await ctx.tick()
                found.kinds = rules_in(ctx.get(dut.violation_kind))
                if found.broken or found.kinds:
                    break
                self._compare(ctx, ops, answers, clock, found, compares=compares)
            self._drive(ctx, [])
            await ctx.tick().repeat(3)
            for name in ("senses", "programs", "erases", "program_failures", "erase_failures",
                         "violations", "data_errors", "overflow"):  # fmt: skip
                found.counters[name] = ctx.get(getattr(dut, name))

        self.run(bench)
        assert bool(found.broken) == bool(found.kinds), f"{found.text or 'legal'}: {found.kinds}"
        if found.broken:
            assert found.broken[0] in found.kinds, f"{found.text}: {found.kinds}"
        return found

    def run(self, bench: Callable) -> None:
        """Runs a testbench of its own from reset on."""
        if self._play is not None:
            self._simulator.reset()
        self._play = bench
        self._simulator.run()

    async def _bench(self, ctx) -> None:
        assert self._play is not None
        await self._play(ctx)

    def _drive(self, ctx, ops: list[Op]) -> None:
        commands = {op.die: op for op in ops if isinstance(op.what, Command)}
        for die, port in enumerate(self.dut.command):
            op = commands.get(die)
            ctx.set(port.valid, op is not None)
            if op:
                ctx.set(port.command, op.what)
                ctx.set(port.subarray, op.subarray)
                ctx.set(port.row, op.row)
        reads = [op for op in ops if op.what == "read"]
        for k, port in enumerate(self.dut.readout):  # any group may ask
            ctx.set(port.valid, k < len(reads))
            if k < len(reads):
                for name in ("die", "subarray", "beat", "last"):
                    ctx.set(getattr(port, name), getattr(reads[k], name))
        writes = [op for op in ops if op.what == "write"]
        port = self.dut.writein
        ctx.set(port.valid, bool(writes))
        for op in writes:
            for name in ("die", "subarray", "beat"):
                ctx.set(getattr(port, name), getattr(op, name))
            for lane, word in zip(port.lanes, op.data(self.machine), strict=True):
                ctx.set(lane, word)

    def _python(self, model: NandModel, ops: list[Op], clock: int, found: Played) -> list:
        """Answers to read-outs and to STATUS, in order of ``ops``."""
        model.step()
        answers = {}
        order = {"read": 0, "write": 2}
        try:
            for k, op in sorted(enumerate(ops), key=lambda at: order.get(at[1].what, 1)):
                answers[k] = give(model, op, self.machine)
        except NandRuleBroken as error:
            found.broken, found.text = (error.rule, clock), str(error)
        return [answers.get(k) for k in range(len(ops))]

    def _compare(self, ctx, ops, answers, clock, found, *, compares) -> None:
        reads = 0
        for op, answer in zip(ops, answers, strict=True):
            if op.what == "read":
                lanes = [ctx.get(lane) for lane in self.dut.readout[reads].lanes]
                reads += 1
                found.read.append(lanes)
                assert not compares or lanes == answer[1], f"clock {clock}: {op}"
            elif op.what == Command.STATUS:
                port = self.dut.command[op.die]
                status = ctx.get(port.ready), ctx.get(port.fail)
                found.statuses.append((clock, status))
                assert not compares or status == answer, f"clock {clock}: {op}"


def give(model: NandModel, op: Op, machine: Machine):
    """Does one operation on the model in Python."""
    match op.what:
        case "read":
            return model.readout(op.die, op.subarray, op.beat, op.last)
        case "write":
            return model.writein(op.die, op.subarray, op.beat, op.data(machine))
        case _:
            return model.command(op.die, op.what, op.subarray, op.row)
