"""The one exception that means "what the user gave us is wrong"."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class InputError(ValueError):
    """Bad configuration, trace, record or argument.

    The message is one line that names the place, the value found and what would be right. The
    command line prints it as it is and exits with status 2; library users may catch it.
    """


def named(what: str, name: str, choices: Mapping[str, T]) -> T:
    """The one of ``choices`` that has this name; ``what`` says what it is.

    Raises:
        InputError: there is none of that name.
    """
    if name not in choices:
        raise InputError(f"{what} {name!r} is unknown: choose {', '.join(choices)}")
    return choices[name]
