"""Sizes of one link: what a clock carries, and how deep its queues are."""

from dataclasses import dataclass

from hw.errors import InputError
from hw.params import Machine
from hw.ucie.flit import FlitFormat, latency_optimised
from hw.ucie.flit_codec import MAX_PIPELINE
from hw.ucie.framing import SLOT_BITS, GroupLayout, slots_of
from hw.ucie.packer import FLUSH_CLOCKS
from hw.ucie.retry import TIMEOUT_FLITS

# PHY and adapter take 4 of the clocks of `Link.one_way_cycles`, and stand here as blocks: striper
# 1, deskewer 2, decoder 1.
BLOCK_CYCLES = 4
ANSWER_CLOCKS = 6  # of a group and its Ack, beside `Link.one_way_cycles` both ways
LEAST_WIRE_CYCLES = 2


@dataclass(frozen=True, kw_only=True)
class LinkShape:
    """Sizes of a link, alike at both ends.

    Attributes:
        flit_format: Of all flits.
        flits: Of a clock, while all modules work.
        lanes: Of a beat, of 64 bits each.
        modules: Of UCIe that the flits are spread over.
        module_lanes: Of each module; a lane carries a byte in eight unit intervals.
        max_skew: Clocks by which the words of one module may come later than those of another.
        training_clocks: How long training takes; longer than anything is on the wires.
        timeout_clocks: After which a missing step of the other end is an error, and how long an
            error lasts at least; milliseconds in UCIe.
        pipeline: Stages of the CRC.
        rows: Groups that may be unacknowledged; ``None`` for all that 127 flits allow.
        flush: Clocks without a beat after which the end of the last one leaves.
        queue_beats: Beats of a channel of chunks that may wait for their turn.
        page_room: How many of them a sender may still bring when it is told that there is no more
            room: those on their way and a page.
    """

    flit_format: FlitFormat
    flits: int
    lanes: int
    modules: int = 4
    module_lanes: int = 64
    max_skew: int = 3
    training_clocks: int = 32
    timeout_clocks: int = 1_000
    pipeline: int = 1
    rows: int | None = None
    flush: int = FLUSH_CLOCKS
    queue_beats: int = 64
    page_room: int = 12

    def __post_init__(self) -> None:
        if not 1 <= self.pipeline <= MAX_PIPELINE:
            raise ValueError(f"pipeline must be 1 to {MAX_PIPELINE}, not {self.pipeline!r}")
        if self.page_room < 1:
            raise ValueError(f"page_room must be at least 1, not {self.page_room!r}")
        if self.queue_beats < self.page_room:
            raise ValueError(
                f"queue_beats must be at least page_room, {self.page_room}, not "
                f"{self.queue_beats!r}"
            )
        GroupLayout(lanes=self.lanes, slots=self.slots)

    @property
    def group_bytes(self) -> int:
        """Of all flits of a clock."""
        return self.flits * self.flit_format.flit_bytes

    @property
    def slots(self) -> int:
        """Of 16 bytes, in the payload of a group."""
        return slots_of(self.flit_format, flits=self.flits)

    @property
    def layout(self) -> GroupLayout:
        return GroupLayout(lanes=self.lanes, slots=self.slots)

    @property
    def payload_bits(self) -> int:
        """Of the slots of a group."""
        return SLOT_BITS * self.slots

    @property
    def beats_a_clock(self) -> float:
        """The most that a link of all its modules carries."""
        return float(self.layout.beats_a_group)


def link_shape(machine: Machine, flit_format: FlitFormat | None = None) -> LinkShape:
    """Of the links of a machine, in a format of its flits, by default that with the most payload.

    Raises:
        InputError: no whole flits pass in a clock, or an answer comes too late for the retry.
    """
    link = machine.link
    group_bytes = link.raw_bytes_per_s / machine.clock_hz
    flits = round(group_bytes / link.flit_bytes)
    if flits < 2 or flits * link.flit_bytes != group_bytes:
        raise InputError(
            f"Link.flit_bytes is {link.flit_bytes!r}: {group_bytes:g} bytes pass in a clock, which "
            "must be a whole number of flits, two at least"
        )
    most = (-(-TIMEOUT_FLITS // flits) - ANSWER_CLOCKS) // 2
    if link.one_way_cycles > most:
        raise InputError(
            f"Link.one_way_cycles is {link.one_way_cycles!r}: must be at most {most} with flits, "
            f"which are sent again {TIMEOUT_FLITS} flit times later"
        )
    return LinkShape(
        flit_format=flit_format or latency_optimised(link.flit_bytes),
        flits=flits,
        lanes=machine.lanes,
        modules=link.modules,
        module_lanes=link.lanes,
        training_clocks=max(32, link.one_way_cycles + 1),
    )


def wire_cycles(machine: Machine) -> int:
    """What is left of the way of a link beside the clocks that its blocks take themselves."""
    return max(LEAST_WIRE_CYCLES, machine.link.one_way_cycles - BLOCK_CYCLES)
