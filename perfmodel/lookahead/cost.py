"""What lookahead costs in one layer, and what it hides.

The combined weight is kept in FP32 beside the weights of the checkpoint. A pass reads it in every
layer, and the router once more for the early term. Decode is bound by delivery, so these bytes
take time that the pass did not take before; against it stands the first-byte latency of the
experts, hidden as far as the output projection lasts.
"""

from dataclasses import asdict, dataclass

from perfmodel.lookahead.layers import RoutedLayer
from perfmodel.memory import Delivery

COMBINED_ELEMENT_BYTES = 4  # FP32, in which the DASH paper computes the selection


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One layer, on one GPU with its package.

    Attributes:
        combined_bytes: stored once more for each layer, and read in each pass.
        model_bytes: the same over all layers.
        reread_bytes: the router, read a second time for the early term.
        token_flops: more operations for each token.
        fold_flops: operations to make the combined weight, once.
        read_hbm_s: reading both, the combined weight kept in HBM alone.
        read_both_s: the same with the combined weight in both memories, like the projections.
        first_byte_s: latency of the experts' first byte.
        hidden_s: the part of it that the output projection covers, at one row.
    """

    combined_bytes: int
    model_bytes: int
    reread_bytes: int
    token_flops: int
    fold_flops: int
    read_hbm_s: float
    read_both_s: float
    first_byte_s: float
    hidden_s: float

    @property
    def net_hbm_s(self) -> float:
        """Time won in each layer, if nothing hides the reads; negative for time lost."""
        return self.hidden_s - self.read_hbm_s

    @property
    def net_both_s(self) -> float:
        return self.hidden_s - self.read_both_s

    def as_dict(self) -> dict[str, float]:
        """JSON-ready values."""
        return asdict(self) | {"net_hbm_s": self.net_hbm_s, "net_both_s": self.net_both_s}


def combined_bytes(layer: RoutedLayer) -> int:
    """Stored bytes of the combined weight of one layer."""
    return COMBINED_ELEMENT_BYTES * layer.combined_elements


def cost(layer: RoutedLayer, delivery: Delivery) -> Cost:
    """The cost on the paths of one package."""
    elements, combined = layer.combined_elements, combined_bytes(layer)
    router_s, _ = delivery.from_hbm(layer.router_bytes)
    hbm_s, _ = delivery.from_hbm(combined)
    both_s, _ = delivery.replicated(combined)
    output_s, _ = delivery.replicated(layer.output_bytes)
    one = delivery.experts(1, 1, 0, 0.0)
    late, early = one.start_s, delivery.experts(1, 1, 0, output_s).start_s
    return Cost(
        combined_bytes=combined,
        model_bytes=layer.layers * combined,
        reread_bytes=layer.router_bytes,
        # Two products, the scaling by the norm's weight, and the sum of the terms.
        token_flops=2 * elements + 2 * layer.hidden * layer.experts + layer.hidden + layer.experts,
        fold_flops=2 * layer.hidden * elements + layer.hidden * layer.experts,
        read_hbm_s=hbm_s + router_s,
        read_both_s=both_s + router_s,
        first_byte_s=late,
        hidden_s=late - early,
    )
