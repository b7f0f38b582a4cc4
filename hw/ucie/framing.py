"""How messages and beats lie in the payload of a group of flits.

Plain Python beside the ports, so that RTL, tests and pages read the same description. A group is
what the flits of a clock carry. Its payload is cut into slots of 16 bytes:

- Slot 0 is the message slot: one header-only message, or nothing.
- All others are the data region, one stream of beats. A beat is a header slot and its data, two
  lanes a slot. It may start in any slot of the region and goes on in the next group.

A slot with a header has its highest bit set, a slot of zeros holds nothing. In the data region
comes first what is left of the beat under way; then, if the next slot has its highest bit set, a
beat that reaches to the end of the region; otherwise the rest is zero. Bytes of the payload behind
the last slot are not used.
"""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from hw.ucie.flit import FlitFormat
from hw.ucie.transaction import HEADER_BYTES, Header

SLOT_BYTES = HEADER_BYTES
SLOT_BITS = 8 * SLOT_BYTES
FILLED = SLOT_BITS - 1  # the highest bit of ``Header.spare``
LANES_PER_SLOT = 2


@dataclass(frozen=True, kw_only=True)
class GroupLayout:
    """A group of ``slots`` slots for beats of ``lanes`` lanes of 64 bits.

    A beat is at least as long as the data region, so that at most one starts in a group and at
    most one ends.
    """

    lanes: int
    slots: int

    def __post_init__(self) -> None:
        if self.lanes < LANES_PER_SLOT or self.lanes % LANES_PER_SLOT:
            raise ValueError(f"lanes must be even and at least 2, not {self.lanes!r}")
        if not 2 <= self.slots <= self.beat_slots + 1:
            raise ValueError(
                f"slots must be 2 to {self.beat_slots + 1}, a message and at most one beat of "
                f"{self.lanes} lanes, not {self.slots!r}"
            )

    @property
    def data_slots(self) -> int:
        """Slots of the data region."""
        return self.slots - 1

    @property
    def beat_slots(self) -> int:
        """Slots of a beat with its header."""
        return 1 + self.lanes // LANES_PER_SLOT

    @property
    def beats_a_group(self) -> Fraction:
        """Beats in a group on average, as long as there are beats."""
        return Fraction(self.data_slots, self.beat_slots)


def slots_of(flit_format: FlitFormat, *, flits: int) -> int:
    """Whole slots in the payload of ``flits`` flits."""
    return flits * flit_format.payload_bytes // SLOT_BYTES


class GroupPort(wiring.Signature):
    """The slots of a group, slot 0 lowest. There is no ready: received groups cannot be refused."""

    def __init__(self, slots: int) -> None:
        super().__init__({"valid": Out(1), "payload": Out(SLOT_BITS * slots)})


class MessagePort(wiring.Signature):
    """Header-only messages that cannot be refused: somebody has granted their room."""

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "header": Out(Header)})


class BeatPort(wiring.Signature):
    """Beats that cannot be refused, likewise."""

    def __init__(self, lanes: int) -> None:
        super().__init__({"valid": Out(1), "header": Out(Header), "lanes": Out(64).array(lanes)})
