"""A serving run over replicas, and its result in numbers.

Replicas are engines of their own. Sessions stay on one replica; each has an equal part of host
capacity and bandwidth, so that shared host bandwidth is never counted twice. The run ends with the
last replica.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from perfmodel.agents.architecture import Architecture
from perfmodel.agents.checked import CheckedEngine
from perfmodel.agents.counters import Counters
from perfmodel.agents.endurance import YEAR_S, Endurance
from perfmodel.agents.energy import Energy, Prices, energy
from perfmodel.agents.engine import Engine
from perfmodel.agents.machine import Machine, WeightTier
from perfmodel.agents.turns import turns_of
from perfmodel.models.dense import DenseModel
from perfmodel.scheduler import Admission
from perfmodel.tiers import GRANULE_TOKENS, FlashLog, Tier
from perfmodel.workload import Trace

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A model on an architecture under a policy.

    Attributes:
        gpus: Of one replica.
        granule_tokens: Of evictions; None: whole entries.
        block_bytes: Of the blocks of HBF in which wear is followed, over all stacks of a replica;
            None: it is not.
        checked: Check all invariants in every step.
        skip: Take equal steps together.
    """

    model: DenseModel
    architecture: Architecture
    admission: Admission = field(default_factory=Admission)
    gpus: int = 1
    replicas: int = 1
    weights: WeightTier = WeightTier.HBM
    granule_tokens: int | None = GRANULE_TOKENS
    block_bytes: int | None = None
    checked: bool = False
    skip: bool = True

    @property
    def machine(self) -> Machine:
        """One replica."""
        return Machine(
            model=self.model,
            architecture=self.architecture,
            gpus=self.gpus,
            weights=self.weights,
            host_share=1 / self.replicas,
        )

    def flash(self) -> FlashLog | None:
        """Blocks of one replica's HBF, all erased; None without HBF or without ``block_bytes``.

        Raises:
            InputError: a block is smaller than a token of KV.
        """
        capacity = self.machine.capacity_tokens[Tier.HBF]
        if self.block_bytes is None or not capacity:
            return None
        return FlashLog(capacity, self.block_bytes // self.model.kv_token_bytes)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run took and moved.

    Attributes:
        clock_s: When the last turn was complete.
        counters: Sums over the replicas.
        flash: Blocks of HBF of each replica, where they were followed.
    """

    setup: Setup
    clock_s: float
    counters: Counters
    flash: tuple[FlashLog, ...] = ()

    @property
    def machine(self) -> Machine:
        return self.setup.machine

    @property
    def device_hits(self) -> float:
        """Share of input tokens found in HBM and HBF at admission."""
        return self.counters.hit_device_tokens / self.counters.input_tokens

    @property
    def host_hits(self) -> float:
        """Share of input tokens found in DRAM and SSD at admission."""
        return self.counters.hit_host_tokens / self.counters.input_tokens

    def written_bytes(self, tier: Tier) -> int:
        """KV written into a tier."""
        return self.counters.ledger.written(tier) * self.setup.model.kv_token_bytes

    def energy(self, prices: Prices | None = None) -> Energy:
        return energy(self.machine, self.counters, prices)

    def lifetime_years(self, endurance: Endurance | None = None) -> float | None:
        """Of HBF, whose KV space of all replicas takes the writes; None without writes."""
        capacity = self.setup.replicas * self.machine.kv_bytes[Tier.HBF]
        written = self.written_bytes(Tier.HBF)
        return (endurance or Endurance()).lifetime_years(capacity, written, self.clock_s)

    @property
    def write_amplification(self) -> float | None:
        """Of the block model; None where blocks were not followed."""
        host = sum(flash.host_tokens for flash in self.flash)
        if not host:
            return None
        return 1 + sum(flash.relocated_tokens for flash in self.flash) / host

    def lifetime_by_blocks_years(self, cycles: float = Endurance().cycles) -> float | None:
        """Until the block that is erased most has had its cycles; None where none was erased."""
        most = max((max(flash.erases) for flash in self.flash), default=0)
        return cycles / most * self.clock_s / YEAR_S if most else None

    def values(
        self, prices: Prices | None = None, endurance: Endurance | None = None
    ) -> dict[str, Any]:
        """JSON-ready."""
        counters, setup = self.counters, self.setup
        joules = self.energy(prices)
        size = setup.model.kv_token_bytes
        return {
            "architecture": setup.architecture.name,
            "policy": setup.admission.label,
            "headroom": setup.admission.headroom,
            "admitted_fraction": setup.admission.admitted_fraction,
            "clock_s": self.clock_s,
            "device_hits_pct": 100 * self.device_hits,
            "host_hits_pct": 100 * self.host_hits,
            "hbm_written_bytes": self.written_bytes(Tier.HBM),
            "hbf_written_bytes": self.written_bytes(Tier.HBF),
            "lifetime_years": self.lifetime_years(endurance),
            "write_amplification": self.write_amplification,
            "lifetime_by_blocks_years": self.lifetime_by_blocks_years(
                (endurance or Endurance()).cycles
            ),
            "energy_j": joules.total_j,
            "energy": asdict(joules),
            "mean_tpot_ms": 1e3 * counters.tpot_sum_s / max(counters.tpot_turns, 1),
            "mean_ttft_ms": 1e3 * counters.ttft_sum_s / max(counters.ttft_turns, 1),
            "turns": counters.turns,
            "steps": counters.steps,
            "preemptions": counters.preemptions,
            "computed_tokens": counters.computed_tokens,
            "recomputed_tokens": counters.recomputed_tokens,
            "times_s": {name: getattr(counters, name) for name in Counters.TIMES},
            "moved_bytes": [
                {"from": source, "to": target, "bytes": tokens * size}
                for source, target, tokens in counters.ledger
            ],
        }


def serve_agents(trace: Trace, setup: Setup, progress: Progress | None = None) -> Outcome:
    """Serve all sessions of a trace.

    Args:
        trace: The sessions.
        setup: What serves them.
        progress: Is told how many turns are complete.

    Raises:
        InputError: the model does not fit, or a context is larger than the device.
    """
    machine, kind = setup.machine, CheckedEngine if setup.checked else Engine
    total, clock_s, done = Counters(), 0.0, 0
    logs: list[FlashLog] = []
    for replica in range(setup.replicas):
        flash = setup.flash()
        logs += [flash] if flash else []
        engine = kind(
            machine,
            turns_of(trace, replica=replica, replicas=setup.replicas),
            setup.admission,
            granule_tokens=setup.granule_tokens,
            flash=flash,
            skip=setup.skip,
        )
        report = None if progress is None else _offset(progress, done)
        total = total.plus(engine.run(report))
        clock_s = max(clock_s, engine.clock.now)
        done += engine.counters.turns
    return Outcome(setup=setup, clock_s=clock_s, counters=total, flash=tuple(logs))


def _offset(progress: Progress, before: int) -> Progress:
    return lambda done: progress(before + done)
