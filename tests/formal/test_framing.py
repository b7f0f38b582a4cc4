# amaranth: UnusedElaboratable=no
"""Packer and unpacker together: every message and every beat comes out once and in order.

A slot here is of 4 bits, the highest of which says that a header is there, and a lane of 2. The
blocks move slots as a whole and look at no other bit, so what holds of these holds of all widths.
"""

import pytest
from amaranth.hdl import Cat, Cover
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.framing import LANES_PER_SLOT, BeatPort, GroupPort, MessagePort
from hw.ucie.packer import GroupPacker
from hw.ucie.unpacker import GroupUnpacker
from tests.formal.harness import Counterexample, Properties, prove
from tests.formal.order import in_order
from tests.formal.variants import variant

SLOT_BITS = 4


class SmallHeader(data.Struct):
    content: 3
    spare: 1


class SmallBeatStream(wiring.Signature):
    def __init__(self, lanes: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "header": Out(SmallHeader),
                "lanes": Out(SLOT_BITS // LANES_PER_SLOT).array(lanes),
            }
        )


class SmallBeatPort(wiring.Signature):
    def __init__(self, lanes: int) -> None:
        members = SmallBeatStream(lanes).members
        super().__init__({name: members[name] for name in ("valid", "header", "lanes")})


SIZES = {"SLOT_BITS": SLOT_BITS, "FILLED": SLOT_BITS - 1}
PORTS = {
    GroupPort: variant(GroupPort, SLOT_BITS=SLOT_BITS) if False else None,
}
