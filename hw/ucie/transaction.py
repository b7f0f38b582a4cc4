"""The transaction format that all three links carry, and the ports that carry it.

One 16-byte header describes a request (operation, address, length, tag, route) or labels a beat of
data (tag, page of the transaction, beat of the page, poison). RTL, benches and Python pack and
unpack it through the same :class:`Header`.

Source: DASH section IV-A (operation, address, transfer length, data); field widths follow from
16 MiB transactions, 64-byte address units and 4 KiB pages.
"""

import enum

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.codes import Owner as Owner
from hw.ucie.codes import Status as Status

ADDRESS_UNIT_BYTES = 64


class Operation(enum.IntEnum):
    READ = 0
    WRITE = 1
    TRIM = 2  # the pages hold nothing that is still wanted
    RELEASE = 3  # the block of the page has no owner any more


class MessageClass(enum.IntEnum):
    REQUEST = 0
    WRITE_DATA = 1
    READ_DATA = 2
    COMPLETION = 3
    RELAY_DATA = 4
    CREDIT = 5
    GRANT = 6  # a page of a write may be sent


class Route(enum.IntEnum):
    """The path of a transaction: whole transactions take one path."""

    DIRECT = 0
    RELAY = 1


PATHS = tuple(route.name.lower() for route in Route)  # as ports and submodules name them


class Header(data.Struct):
    """Transaction header, 128 bits. CREDIT messages have a layout of their own, with the epoch of
    the link (:mod:`hw.ucie.credit_message`).

    Members
    -------
    operation, message_class, route
        An :class:`Operation`, a :class:`MessageClass` and a :class:`Route`.
    address, length
        In units of 64 bytes; the address is local to the stack, the length at most 16 MiB.
        Requests only.
    tag
        Names the transaction between requester and responder.
    page, beat
        Position of a data beat: page of the transaction, beat of the page. The four beats of a
        page follow each other, starting anywhere and wrapping.
    chunk_end
        Last page of a relay chunk.
    poison
        The data is known to be wrong and must not be used.
    credit
        The token of the reserved slot in a GRANT, which WRITE_DATA sends back.
    page_end
        Last beat of a page.
    owner, relocated
        Of a WRITE: who owns the blocks, an :class:`Owner`, and whether it moves pages that were
        written before.
    status
        A :class:`Status`, of a COMPLETION or of READ_DATA among the replies to writes, which ends a
        read that brings no data.
    """

    operation: 4
    message_class: 3
    route: 1
    address: 40
    length: 19
    tag: 12
    page: 12
    beat: 2
    chunk_end: 1
    poison: 1
    credit: 16
    page_end: 1
    owner: 2
    relocated: 1
    status: 4
    spare: 9


HEADER_BYTES = 16


class RequestPort(wiring.Signature):
    """Descriptors under credit: ``valid`` may rise only while the sender holds a credit.

    ``credit`` pulses for one clock per descriptor that the receiver has taken out of its queue.
    The receiver can never refuse: there is no ready.
    """

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "header": Out(Header), "credit": In(1)})


class DataPort(wiring.Signature):
    """Beats of data under credit, one a clock at most; ``lanes`` is the beat, 64 bits a lane.

    What one ``credit`` pulse returns is the receiver's choice: one beat of a receive queue, or one
    region of a relay buffer. The receiver can never refuse: there is no ready. But the link between
    can hold up a sender whose credit is a region: with ``hold`` it begins no further page.
    """

    def __init__(self, lanes: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "header": Out(Header),
                "lanes": Out(64).array(lanes),
                "credit": In(1),
                "hold": In(1),
            }
        )


class ResetPort(wiring.Signature):
    """What a link tells a die of its reset, and the die's answer.

    From ``lost`` on whatever the die sends on the link is lost, and its credits come back when the
    link is up again. With ``quiet`` nothing comes from the link any more. The die ends all that the
    link had under way, then raises ``settled`` and keeps it; it counts with ``quiet``, and the link
    comes up only then. So nothing old is left when ``lost`` falls, at this end or at the other.
    """

    def __init__(self) -> None:
        super().__init__({"lost": Out(1), "quiet": Out(1), "settled": In(1)})


class BeatStream(wiring.Signature):
    """A beat with ready/valid handshake (``amaranth.lib.stream`` rules), lanes kept apart."""

    def __init__(self, lanes: int) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "header": Out(Header),
                "lanes": Out(64).array(lanes),
            }
        )
