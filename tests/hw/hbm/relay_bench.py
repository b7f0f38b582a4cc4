"""Bench of the relay buffer: a sender that uses every credit at once, a GPU side that stalls."""

import dataclasses
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hw.hbm.relay import RelayBuffer
from hw.params import KIB, Credits, Machine, Sram
from hw.ucie.transaction import MessageClass
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

Beat = tuple[int, int, int, int, int]  # tag, page, beat, poison, content
CHUNK_PAGES = 4
GPU_BEATS = 8  # of the receive queue at the far end of link B

# Chunks of 32 pages, the least of which two may be left when a region is given back.
LONG = dataclasses.replace(
    TINY,
    name="long",
    geometry=dataclasses.replace(TINY.geometry, planes=4),
    sram=Sram(hbf_region_bytes=8 * KIB, relay_region_bytes=8 * KIB, bank_bytes=16),
    credits=Credits(rx_beats=16, descriptors=4),
)


def checked(machine: Machine) -> Machine:
    """With check bits in its relay regions."""
    return dataclasses.replace(machine, sram=dataclasses.replace(machine.sram, relay_ecc=True))


@dataclass
class Chunk:
    """Pages that travel together; ``late`` closes it by a message without data."""

    pages: list[list[Beat]]
    late: bool

    @property
    def beats(self) -> int:
        return sum(map(len, self.pages))


def chunks(
    pick: random.Random,
    count: int,
    *,
    partial: float = 0.0,
    most: int = CHUNK_PAGES,
    full: float = 0.0,
) -> list[Chunk]:
    """Chunks of up to ``most`` pages, a share ``partial`` of which is not whole.

    A share ``full`` of the chunks has all the pages that it can have.
    """
    made, number = [], 0
    for _ in range(count):
        pages = []
        for _ in range(most if full and pick.random() < full else pick.randint(1, most)):
            tag, page, start = pick.randrange(4096), pick.randrange(4096), pick.randrange(4)
            # A page starts with any of its beats and wraps; any beat of it may be wrong.
            beats = pick.randint(1, 4) if pick.random() < partial else 4
            poison = [pick.random() < 0.2 for _ in range(beats)]
            pages.append(
                [(tag, page, (start + k) % 4, poison[k], number + k) for k in range(beats)]
            )
            number += beats
        made.append(Chunk(pages, len(pages) < most and pick.random() < 0.5))
    return made


@dataclass
class RelayRun:
    """What was sent and what came, by clock."""

    sent: list[tuple[int, Beat]] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    came: list[tuple[int, Beat]] = field(default_factory=list)
    credits: list[int] = field(default_factory=list)
    occupied: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Switches:
    """Values of the run-time inputs; with ``change`` another each so many clocks on average."""

    cut_through: int = 0
    early_pages: int = 0
    change: int = 0


def relayed(
    work: list[Chunk],
    *,
    seed: int,
    rate: int = 65_536,
    gap: float = 0.0,
    pause: float = 0.0,
    stall: float = 0.0,
    switches: Switches = Switches(),
    machine: Machine = TINY,
) -> RelayRun:
    """Send ``work`` as fast as credits allow, pausing between pages with chance ``gap``.

    Between beats of a page it pauses with chance ``pause``. A credit of link C is used in the clock
    in which it comes. The GPU side gives a beat's credit back with chance 1 - ``stall`` a clock.
    """
    dut, run, pick = RelayBuffer(machine), RelayRun(), random.Random(seed)
    gpu_beats = machine.credits.rx_beats

    def messages() -> Iterator[tuple[Beat | None, bool, bool, bool]]:
        """Beat, whether it opens a chunk, ends a page, is of a page that closes the chunk."""
        for chunk in work:
            for k, page in enumerate(chunk.pages):
                ends = k == len(chunk.pages) - 1 and not chunk.late
                for j, beat in enumerate(page):
                    yield beat, k == j == 0, j == len(page) - 1, ends
            if chunk.late:
                yield None, False, True, True

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.rate, rate)
        ctx.set(dut.cut_through, switches.cut_through)
        ctx.set(dut.early_pages, switches.early_pages)
        queue = deque(messages())
        credits, held, clock, between = 2, 0, 0, True  # between: pages
        want = sum(chunk.beats for chunk in work)
        page_ends = []  # of beats sent
        while len(run.came) < want or len(run.credits) < len(work):
            if switches.change and pick.random() < 1 / switches.change:
                ctx.set(dut.cut_through, pick.randrange(2))
                ctx.set(dut.early_pages, pick.randrange(gpu_beats // 4 + 1))
                ctx.set(dut.rate, pick.choice((rate, rate // 2, rate // 3)))
            if ctx.get(dut.c_data.credit):
                run.credits.append(clock)
                credits += 1
                assert credits <= 2
            header = {"valid": 0}
            beat, opens, ends, closes = queue[0] if queue else (None, False, False, False)
            pauses = pick.random() < (gap if between else pause)
            sends = bool(queue) and not pauses and (credits > 0 or not opens)
            ctx.set(dut.c_data.valid, sends)
            if sends:
                queue.popleft()
                credits -= opens
                between = ends
                if beat:
                    tag, page, number, poison, content = beat
                    header = {
                        "message_class": MessageClass.RELAY_DATA,
                        "tag": tag,
                        "page": page,
                        "beat": number,
                        "poison": poison,
                        "page_end": ends,
                        "chunk_end": closes,
                    }
                    set_lanes(ctx, dut.c_data, content)
                    run.sent.append((clock, beat))
                    page_ends.append(ends)
                else:
                    header = {"message_class": MessageClass.COMPLETION, "chunk_end": 1}
                ctx.set(dut.c_data.header, header)
                if closes and ends:
                    run.closed.append(clock)
            gives = held > 0 and pick.random() >= stall
            ctx.set(dut.b_data.credit, gives)
            held -= gives
            if ctx.get(dut.b_data.valid):
                head = ctx.get(dut.b_data.header)
                assert head.message_class == MessageClass.RELAY_DATA and head.route == 1
                assert head.page_end == page_ends[len(run.came)], f"clock {clock}, seed {seed}"
                content = get_lanes(ctx, dut.b_data)
                run.came.append((clock, (head.tag, head.page, head.beat, head.poison, content)))
                held += 1
                assert held <= gpu_beats, f"beat without credit at {clock}, seed {seed}"
            run.occupied.append(ctx.get(dut.occupied))
            run.reserved.append(ctx.get(dut.reserved))
            assert held + run.reserved[-1] <= gpu_beats, f"reserved what is away at {clock}"
            await ctx.tick()
            clock += 1

    simulate(dut, bench, clocks=20_000)
    return run
