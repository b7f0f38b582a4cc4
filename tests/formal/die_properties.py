# amaranth: UnusedElaboratable=no
"""What all proofs about a whole die controller begin with."""

from typing import Any

from amaranth.hdl import Module

from hw.presets import preset
from tests.formal.die import LINKS, Surroundings
from tests.formal.die_parts import controller
from tests.formal.harness import Properties

MACHINE = preset("formal")


class DieProperties(Properties):
    """Properties of a :class:`hw.hbf.die_controller.DieController`, or of a ``die`` with a bug.

    Lemmas help the proof of the right die only: a planted bug must break what is promised.
    """

    def __init__(self, die: type | None = None, members: dict[str, Any] | None = None) -> None:
        self._lemmas = die is None
        self._die = (die or controller())(MACHINE, links=LINKS)
        super().__init__(members or {})

    def surround(self, m: Module) -> Surroundings:
        """The die in ``m``, and all that stands around it."""
        m.submodules.die = self._die.elaborate("formal")
        return Surroundings(m, self._die, MACHINE)
