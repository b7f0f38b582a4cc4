"""Accesses of the GPU to the HBM stack: what its users ask for and what they get.

Addresses and lengths are in units of 64 bytes, the accesses of the stack. A beat of the link is a
beat of the HBM controller: an aligned piece of the address space, with each access at its own place
(:mod:`hw.hbm.dram.beats`). A request that is empty or reaches beyond the stack has no beats.
"""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.errors import InputError
from hw.hbm.dram.beats import LENGTH_BITS, request_layout
from hw.hbm.dram.description import HbmStack
from hw.params import Machine
from hw.ucie.transaction import Header


def check_beats(machine: Machine, stack: HbmStack) -> None:
    """The link must carry the beats of the stack as they are.

    Raises:
        InputError: its beats are of another size.
    """
    if stack.beat_bytes != machine.link.beat_bytes:
        raise InputError(
            f"HbmStack.beat_bytes is {stack.beat_bytes}: must be Link.beat_bytes of "
            f"{machine.name!r}, {machine.link.beat_bytes}"
        )


def local_request_layout(stack: HbmStack) -> data.StructLayout:
    """A read or write of ``length`` accesses from ``address`` on."""
    fields = request_layout(stack).members
    return data.StructLayout({name: fields[name] for name in ("address", "length", "tag")})


class LocalBeats(wiring.Signature):
    """A beat of a read, with ready and valid.

    ``header`` has tag and poison of the read, the address of the beat and, with ``page_end``, that
    it is the last one; ``wanted`` has a bit for each access of the beat that belongs to the read.
    """

    def __init__(self, machine: Machine, stack: HbmStack) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "header": Out(Header),
                "lanes": Out(64).array(machine.lanes),
                "wanted": Out(stack.beat_accesses),
            }
        )


def local_fetch_layout() -> data.StructLayout:
    """A beat of a write that is to be sent: ``beat`` counts from the one that holds ``address``."""
    return data.StructLayout({"valid": 1, "tag": 12, "beat": LENGTH_BITS})


def local_write_done_layout() -> data.StructLayout:
    """A write is over; with ``status`` OK a read that begins from now on sees it.

    ``tag`` is that of its user, or its slot where the link says so.
    """
    return data.StructLayout({"valid": 1, "tag": 12, "status": 4})
