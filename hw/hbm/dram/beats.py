"""Requests and beats at the ports of the HBM controller."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.description import HbmStack

LENGTH_BITS = 19  # as in the header of a transaction: up to 16 MiB of 64 bytes
TAG_BITS = 12


def request_layout(stack: HbmStack) -> data.StructLayout:
    """A read or write of ``length`` accesses of 64 bytes from ``address`` on."""
    return data.StructLayout(
        {
            "write": 1,
            "address": max(LENGTH_BITS, HbmAddressMap(stack).address_bits),
            "length": LENGTH_BITS,
            "tag": TAG_BITS,
        }
    )


def label_layout(stack: HbmStack) -> data.StructLayout:
    """Whose beat it is.

    Members
    -------
    tag : of the request
    beat : number of the beat within its request
    wanted : a bit an access of the beat: it belongs to the request
    last : no other beat of the request follows
    poison : an access of it could not be corrected
    """
    return data.StructLayout(
        {
            "tag": TAG_BITS,
            "beat": LENGTH_BITS,
            "wanted": stack.beat_accesses,
            "last": 1,
            "poison": 1,
        }
    )


def done_layout() -> data.StructLayout:
    """A write is done, or a request was ``refused`` and brings and takes no data."""
    return data.StructLayout({"tag": TAG_BITS, "write": 1, "refused": 1})


class LaneStream(wiring.Signature):
    """A beat with ready and valid by the rules of streams; lanes of 64 bits, with a label or not.

    A beat is an aligned piece of the address space. An access lies at its own place in it, whatever
    the request covers.
    """

    def __init__(self, stack: HbmStack, *, labelled: bool) -> None:
        label = {"label": Out(label_layout(stack))} if labelled else {}
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                **label,
                "lanes": Out(64).array(stack.beat_bytes // 8),
            }
        )


def beat_request_layout(stack: HbmStack) -> data.StructLayout:
    """A request cut to one beat: ``number`` of the beat in the stack, and its label."""
    bits = HbmAddressMap(stack).address_bits - (stack.beat_accesses - 1).bit_length()
    return data.StructLayout({"number": bits, "label": label_layout(stack)})
