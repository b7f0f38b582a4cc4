"""The part of a mixture-of-experts layer that lookahead is about."""

from dataclasses import dataclass

from hw.errors import InputError
from perfmodel.models import MODELS, ModelShape, Router, load_model


@dataclass(frozen=True, kw_only=True)
class RoutedLayer:
    """Output projection and router of one kind of layer.

    Attributes:
        model: name of the model.
        hidden: width of the residual stream.
        attention_width: width of the attention output: query heads times their value width.
        experts: routed experts.
        top_k: experts taken for each token.
        layers: how many such layers the model has.
        output_bytes: stored bytes of the output projection of one layer.
        router_bytes: stored bytes of the router of one layer, without a bias.
    """

    model: str
    hidden: int
    attention_width: int
    experts: int
    top_k: int
    layers: int
    output_bytes: int
    router_bytes: int
    router: Router

    @property
    def combined_elements(self) -> int:
        """Numbers of the combined weight: attention width x experts."""
        return self.attention_width * self.experts


# GLM-5 and GLM-5.2 (zai-org on Hugging Face, config.json): the same projections and router. Their
# sparse attention is no shape of the serving model, and of no matter to the choice of experts.
_GLM_ROUTER = Router(
    score="sigmoid",
    additive_bias=True,
    source="zai-org/GLM-5, config.json; huggingface/transformers, modeling_glm_moe_dsa.py",
)
_GLM = {
    name: RoutedLayer(
        model=name,
        hidden=6144,
        attention_width=64 * 256,
        experts=256,
        top_k=8,
        layers=75,  # 78 without the first three, which are dense
        output_bytes=2 * 64 * 256 * 6144,
        router_bytes=2 * 6144 * 256,
        router=_GLM_ROUTER,
    )
    for name in ("glm-5", "glm-5.2")
}
LAYERS = (*MODELS, *_GLM)


def routed_layer(model: str) -> RoutedLayer:
    """The routed layer of a model, by name or by the path of a ``config.json``.

    Raises:
        InputError: neither a known name nor a readable, supported configuration.
    """
    name = model.lower().rsplit("/", 1)[-1]
    if name in _GLM:
        return _GLM[name]
    try:
        return layer_of(load_model(model))
    except InputError as error:
        listed = ", ".join(MODELS)
        raise InputError(str(error).replace(listed, ", ".join(LAYERS))) from None


def layer_of(shape: ModelShape) -> RoutedLayer:
    """The routed layer of a model's shape."""
    (output,) = shape.attention.output
    return RoutedLayer(
        model=shape.name,
        hidden=shape.hidden,
        attention_width=output.inputs,
        experts=shape.routed_experts,
        top_k=shape.experts_per_token,
        layers=len(shape.moe_layers),
        output_bytes=shape.stored_bytes(shape.attention.output),
        router_bytes=shape.hidden * shape.routed_experts * shape.precision.router_bytes,
        router=shape.router,
    )
