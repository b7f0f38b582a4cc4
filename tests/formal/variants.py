"""Planted bugs and smaller sizes: a component from edited source."""

import inspect
import types
from pathlib import Path


def variant(component: type, *edits: tuple[str, str], **names: object) -> type:
    """``component`` from the source of its module in which each old text, found once, is new.

    ``names`` are then set in the module: smaller constants, or blocks that are variants themselves.
    """
    module = inspect.getmodule(component)
    assert module is not None and module.__file__ is not None
    source = Path(module.__file__).read_text()
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} is {source.count(old)} times in {module.__name__}, not once")
        source = source.replace(old, new)
    edited = types.ModuleType(module.__name__)
    exec(compile(source, module.__file__, "exec"), edited.__dict__)
    missing = names.keys() - edited.__dict__.keys()
    if missing:
        raise ValueError(f"{module.__name__} has no {', '.join(sorted(missing))}")
    edited.__dict__.update(names)
    return getattr(edited, component.__name__)
