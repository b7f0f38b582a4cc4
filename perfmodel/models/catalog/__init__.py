"""The six models of the DASH paper, table II, and how a model is found by name or path.

Configurations are those the model authors publish, cut down to the keys that are read. Grok-1 and
DeepSeek-V3 are counted as published: INT8 with scales, and FP8 with its multi-token prediction
layer.
"""

from pathlib import Path

from hw.errors import InputError
from perfmodel.models.config import Config
from perfmodel.models.families import parse
from perfmodel.models.shape import ModelShape

_FOLDER = Path(__file__).parent
_ALIASES = {
    "mixtral-8x22b-v0.1": "mixtral-8x22b",
    "llama-4-maverick-17b-128e-instruct": "llama4-maverick",
    "llama-4-maverick-17b-128e": "llama4-maverick",
    "llama-4-maverick": "llama4-maverick",
}
MODELS = (
    "qwen3-235b-a22b",
    "mixtral-8x22b",
    "grok-1",
    "llama4-maverick",
    "deepseek-v3",
    "deepseek-v2",
)


def load_model(model: str) -> ModelShape:
    """A model of the catalogue by name (upper or lower case, with or without its owner), or any
    supported ``config.json`` by path.

    Raises:
        InputError: neither a known name nor a readable, supported configuration.
    """
    name = model.lower().rsplit("/", 1)[-1]
    name = _ALIASES.get(name, name)
    if name in MODELS:
        return parse(Config.read(_FOLDER / f"{name}.json"), name)
    path = Path(model)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix == ".json":
        named_by_folder = path.name == "config.json" and path.parent.name
        return parse(Config.read(path), path.parent.name if named_by_folder else path.stem)
    raise InputError(
        f"model {model!r} is unknown: choose {', '.join(MODELS)}, or give the path of a config.json"
    )
