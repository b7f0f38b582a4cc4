"""A complete system under study: model, package, memory timing and GPU."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hw.errors import InputError
from hw.params import Machine, Topology
from hw.presets import preset, topology
from perfmodel.gpu import DEFAULT_GPU, SOURCE, Gpu, gpu_named
from perfmodel.lookahead import combined_bytes, decide, layer_of
from perfmodel.memory import Delivery, MemoryTiming, Placement, load_timing, place
from perfmodel.models import ModelShape, load_model

Routing = Literal["balanced", "uniform"]
# Whether the early choice is made: at no cost, as in the DASH paper, with the cost of its weight,
# or not at all.
LOOKAHEAD = {"free": (True, False), "charged": (True, True), "off": (False, False)}


@dataclass(frozen=True, kw_only=True)
class System:
    """``gpus`` GPUs, each with a package of its own, that serve one model together.

    Attributes:
        routing: ``balanced`` activates ``min(N, k * rows)`` experts; ``uniform`` the expected
            number of distinct experts when every row draws its k at random.
        lookahead: use the early top-k where the router allows it.
        charge_lookahead: count what it costs: room and reads of the combined weight, in both
            memories and sharded over the GPUs, the second read of the router, the products, and
            between GPUs an all-reduce before the choice.
        decode_kv_budget_bytes: HBM room for decode KV in one package; None for all that is left.
    """

    model: ModelShape
    topology: Topology
    timing: MemoryTiming
    gpu: Gpu
    machine: Machine
    gpus: int = 1
    routing: Routing = "balanced"
    lookahead: bool = True
    charge_lookahead: bool = False
    decode_kv_budget_bytes: int | None = None

    def __post_init__(self) -> None:
        heads, most = self.model.attention.query_heads, self.gpu.all_reduce.most_gpus
        if not 1 <= self.gpus <= most or heads % self.gpus:
            raise InputError(
                f"tp is {self.gpus}: must be 1 to {most} and divide the {heads} attention heads "
                f"of {self.model.name}"
            )

    @cached_property
    def delivery(self) -> Delivery:
        return Delivery(self.topology, self.timing)

    @cached_property
    def chooses_early(self) -> bool:
        """Whether experts are chosen before the output projection."""
        return self.lookahead and decide(self.model.router).early

    @cached_property
    def combined_bytes(self) -> int:
        """The combined weight of one layer in one package; 0 where it is not charged."""
        if not (self.chooses_early and self.charge_lookahead):
            return 0
        return -(-combined_bytes(layer_of(self.model)) // self.gpus)

    @cached_property
    def placement(self) -> Placement:
        return place(
            self.model,
            self.topology,
            self.machine,
            gpus=self.gpus,
            replicated_bytes=len(self.model.moe_layers) * self.combined_bytes,
            decode_kv_budget_bytes=self.decode_kv_budget_bytes,
        )

    def active_experts(self, rows: int) -> float:
        """Distinct experts that ``rows`` tokens activate in one layer."""
        n, k = self.model.routed_experts, self.model.experts_per_token
        if self.routing == "balanced":
            return min(n, k * rows)
        return n * (1 - (1 - k / n) ** rows)

    def labels(self) -> dict[str, str | int | None]:
        """What a result says about where it comes from.

        ``timing_extrapolation`` tells how far the reads of one expert lie outside what was
        measured; it is None inside, and for timing that was not measured.
        """
        reduce = self.gpu.all_reduce
        share = self.topology.pairs * self.gpus
        expert_bytes = self.model.stored_bytes(self.model.expert)
        return {
            "model": self.model.name,
            "topology": self.topology.name,
            "timing": self.timing.label,
            "timing_provenance": self.timing.provenance,
            "timing_extrapolation": self.timing.extrapolation(expert_bytes / share),
            "gpu": self.gpu.name,
            "gpu_kernels": SOURCE,
            "gpu_provenance": self.gpu.provenance,
            "tp": self.gpus,
            "interconnect_provenance": reduce.provenance if self.gpus > 1 else None,
            "routing": self.routing,
            "lookahead": self._lookahead_label,
        }

    @property
    def _lookahead_label(self) -> str:
        if self.lookahead and not self.chooses_early:
            return "not allowed by the router"
        wanted = self.lookahead, self.charge_lookahead and self.lookahead
        return next(name for name, flags in LOOKAHEAD.items() if flags == wanted)


def build_system(
    *,
    model: str,
    topology_name: str,
    timing: str = "link-limited",
    gpu: str = DEFAULT_GPU,
    tp: int = 1,
    routing: Routing = "balanced",
    lookahead: str = "free",
    decode_kv_budget_bytes: int | None = None,
) -> System:
    """A system from the values of the command line, on the machine of preset ``paper``.

    Raises:
        InputError: a name is unknown, a file unusable, or the model does not fit the package.
    """
    if lookahead not in LOOKAHEAD:
        raise InputError(f"lookahead is {lookahead!r}: must be {', '.join(LOOKAHEAD)}")
    early, charged = LOOKAHEAD[lookahead]
    machine = preset("paper")
    system = System(
        model=load_model(model),
        topology=topology(topology_name),
        timing=load_timing(timing, machine),
        gpu=gpu_named(gpu),
        machine=machine,
        gpus=tp,
        routing=routing,
        lookahead=early,
        charge_lookahead=charged,
        decode_kv_budget_bytes=decode_kv_budget_bytes,
    )
    system.placement.check(system.model.name, system.topology.name)
    return system
