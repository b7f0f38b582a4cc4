"""Names in the header of a VCD, read without its values."""

from dataclasses import dataclass
from pathlib import Path

from hw.errors import InputError


@dataclass(frozen=True)
class Names:
    """What a VCD holds.

    Attributes:
        variables: Full name of each variable, such as ``top.package.clk``, and its range, such as
            ``[7:0]``, which is empty for a single bit.
        scopes: Full name of each scope.
    """

    variables: dict[str, str]
    scopes: frozenset[str]


def names(vcd: Path) -> Names:
    """The names in ``vcd``; reads up to ``$enddefinitions``, however large the file is.

    Raises:
        InputError: the file has no whole header.
    """
    path: list[str] = []
    scopes: set[str] = set()
    variables: dict[str, str] = {}
    with vcd.open(errors="replace") as lines:
        for line in lines:
            match line.split():
                case ["$scope", _, name, *_]:
                    path.append(name)
                    scopes.add(".".join(path))
                case ["$upscope", *_]:
                    path.pop()
                case ["$var", _, _, _, name, *rest]:
                    variables[".".join([*path, name])] = rest[0] if rest[0] != "$end" else ""
                case ["$enddefinitions", *_]:
                    return Names(variables, frozenset(scopes))
    raise InputError(f"{vcd} is not a VCD: its header does not end")
