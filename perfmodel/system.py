"""A complete system under study: model, package, memory timing and GPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from hw.errors import InputError
from hw.params import Machine, Topology
from hw.presets import preset, topology
from perfmodel.gpu import DEFAULT_GPU, Gpu, gpu_named
from perfmodel.kernels import BaseSource, KernelSource, kernel_source
from perfmodel.lookahead import combined_bytes, decide, layer_of
from perfmodel.memory import Delivery, MemoryTiming, Placement, load_timing, place
from perfmodel.models import ModelShape, load_model
from perfmodel.models.routing import ROUTINGS, Routing, Touched, touched_experts

# Whether the early choice is made: at no cost, as in the DASH paper, with the cost of its weight,
# or not at all.
LOOKAHEAD = {"free": (True, False), "charged": (True, True), "off": (False, False)}


@dataclass(frozen=True, kw_only=True)
class System:
    """``gpus`` GPUs, each with a package of its own, that serve one model together.

    Attributes:
        kernels: times of GPU kernels; None for the constants of ``gpu``.
        routing: how rows choose experts: ``balanced``, or ``iid`` at random.
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
    kernels: KernelSource | None = None
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
    def kernel_source(self) -> KernelSource:
        return self.kernels or BaseSource(self.gpu)

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

    @cached_property
    def touched_experts(self) -> Callable[[int], Touched]:
        """Distinct experts that a number of rows touches in one layer, with probabilities."""
        model = self.model
        return touched_experts(self.routing, model.routed_experts, model.experts_per_token)

    def on(self, topology_name: str) -> "System":
        """The same system with other links.

        Raises:
            InputError: the name is unknown, or the model does not fit.
        """
        other = replace(self, topology=topology(topology_name))
        other.placement.check(self.model.name, topology_name)
        return other

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
            "gpu_kernels": self.kernel_source.label,
            "gpu_provenance": self.kernel_source.provenance,
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
    kernels: str = "base",
    outside: str = "error",
    tp: int = 1,
    routing: str = "balanced",
    lookahead: str = "free",
    decode_kv_budget_bytes: int | None = None,
) -> System:
    """A system from the values of the command line, on the machine of preset ``paper``.

    Raises:
        InputError: a name is unknown, a file unusable, or the model does not fit the package.
    """
    if lookahead not in LOOKAHEAD:
        raise InputError(f"lookahead is {lookahead!r}: must be {', '.join(LOOKAHEAD)}")
    rows = next((known for known in ROUTINGS if known == routing), None)
    if rows is None:
        raise InputError(f"routing is {routing!r}: must be {', '.join(ROUTINGS)}")
    early, charged = LOOKAHEAD[lookahead]
    machine = preset("paper")
    system = System(
        model=load_model(model),
        topology=topology(topology_name),
        timing=load_timing(timing, machine),
        gpu=gpu_named(gpu),
        machine=machine,
        gpus=tp,
        kernels=kernel_source(kernels, gpu=gpu.lower(), outside=outside),
        routing=rows,
        lookahead=early,
        charge_lookahead=charged,
        decode_kv_budget_bytes=decode_kv_budget_bytes,
    )
    system.placement.check(system.model.name, system.topology.name)
    return system
