"""Random work on both NAND models, legal until one command or beat that may not be."""

import copy
import random
from collections import Counter

import pytest

from hw.hbf.layouts import Command
from hw.params import NAND_TIME_BITS
from tb.vip.nand_model import NandModel
from tb.vip.nand_rules import NandRule
from tb.vip.nand_state import Incoming, NandRuleBroken
from tests.tb.nand_bench import ROWS, SMALL, NandBench, Op, cmd, give, read, with_times, write

G = SMALL.geometry
COMMANDS = [kind.name for kind in Command]
WEIGHTS = [4, 4, 6, 6, 2, 3, 3, 1]
LONGEST = {"t_read": 12, "t_program": 40, "t_erase": 60, "t_suspend": 9}  # others 3
CLOCKS = 600


def duplicate(model: NandModel) -> NandModel:
    """A copy to try things on; what pages hold is only ever replaced, so it is shared."""
    shared = {id(model.machine): model.machine, id(model.written): dict(model.written)}
    return copy.deepcopy(model, shared)


class Work:
    """Does what comes to its mind, if the model in Python lets it.

    ``daring`` is the chance that it does what the model forbids, which ends the play.
    """

    def __init__(self, seed: int, *, daring: float) -> None:
        self.pick = random.Random(seed)
        self.daring = daring
        self.done: Counter[str] = Counter()

    def __call__(self, clock: int, model: NandModel) -> tuple[list[Op], bool]:
        failing = self.pick.random() < 0.15
        trial = duplicate(model)
        trial.fails = lambda *_: failing
        trial.step()
        ops: list[Op] = []
        for wish in (self._read, self._command, self._write):
            for die in range(G.dies):
                op = wish(trial, die)
                if op is None or (op.what == "write" and any(o.what == "write" for o in ops)):
                    continue
                if self._does(trial, op):
                    ops.append(op)
        for op in ops:
            self.done[op.what if isinstance(op.what, str) else op.what.name] += 1
        return ops, failing

    def _does(self, trial: NandModel, op: Op) -> bool:
        try:
            give(duplicate(trial), op, SMALL)
        except NandRuleBroken as error:
            # Beats that nobody waits for are asked for too often; the lane's rate is no RTL rule.
            often = error.rule in (NandRule.READ_NOTHING, NandRule.WRITE_NOTHING)
            daring = self.daring / 20 if often else self.daring
            return error.rule is not None and self.pick.random() < daring
        give(trial, op, SMALL)
        return True

    def _subarray(self) -> int:
        return self.pick.randrange(G.subarrays_per_die)

    def _read(self, model: NandModel, die: int) -> Op | None:
        if self.pick.random() < 0.5:
            return None
        subarray = self._subarray()
        after = model._subarrays[die][subarray].last_beat
        beat = self.pick.randrange(4) if after is None else min(3, after + 1)
        return read(subarray, beat, beat == 3 or self.pick.random() < 0.2, die)

    def _command(self, model: NandModel, die: int) -> Op | None:
        what, subarray = self.pick.choices(COMMANDS, WEIGHTS)[0], self._subarray()
        registers = model._subarrays[die][subarray]
        row = self.pick.randrange(ROWS)
        first = self.pick.randrange(G.blocks_per_subarray) * G.pages_per_block
        if self.pick.random() < 0.97:
            if what == "LOAD":
                block = model._blocks.get((die, subarray, first // G.pages_per_block))
                if block and (block.written == G.pages_per_block or block.spoilt):
                    return cmd("ERASE", subarray, row, die)
                row = first + (block.written if block else 0)
            elif what == "PROGRAM" and registers.cache is not None:
                row = registers.cache.row
            elif what == "SENSE" and isinstance(registers.cache, Incoming):
                return None  # nothing could be programmed or latched any more
        return cmd(what, subarray, row, die)

    def _write(self, model: NandModel, die: int) -> Op | None:
        for subarray in range(G.subarrays_per_die):
            cache = model._subarrays[die][subarray].cache
            if not isinstance(cache, Incoming) or self.pick.random() < 0.4:
                continue
            if len(cache.beats) < 4:
                version = cache.beats[0][0] & 255 if cache.beats else self.pick.randrange(256)
                return write(subarray, len(cache.beats), cache.row, version, die)
        subarray, beat = self._subarray(), self.pick.randrange(4)
        opened = isinstance(model._subarrays[die][subarray].cache, Incoming)
        return write(subarray, beat, die=die) if not opened else None


@pytest.fixture(scope="module")
def bench():
    return NandBench()


def machine_of(seed):
    pick = random.Random(f"times/{seed}")
    times = {name: pick.randint(0, LONGEST.get(name, 3)) for name in NAND_TIME_BITS}
    for name in ("t_read", "t_program", "t_erase"):
        times[name] = max(2, times[name])
    return with_times(cache_read=seed % 3 > 0, **times)


@pytest.mark.parametrize("seed", range(3))
def test_legal_work_is_legal_and_alike_in_both(bench, seed):
    work = Work(seed, daring=0)
    played = bench.play(work, CLOCKS, machine_of(seed))
    assert played.kinds == []
    assert played.counters["data_errors"] == played.counters["overflow"] == 0
    for name, command in (("senses", "SENSE"), ("programs", "PROGRAM"), ("erases", "ERASE")):
        assert played.counters[name] == work.done[command]
    assert min(work.done[name] for name in (*COMMANDS, "read", "write")) > 5, work.done
    assert len({tuple(lanes) for lanes in played.read}) > 30


def test_what_one_forbids_the_other_forbids(bench):
    """The clock and a rule agree, or the bench fails."""
    broken: Counter[NandRule] = Counter()
    for seed in range(50):
        work = Work(seed, daring=0.02)
        played = bench.play(work, 200, machine_of(seed))
        if played.broken:
            broken[played.broken[0]] += 1
    assert len(broken) > 12, broken
