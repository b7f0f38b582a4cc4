"""The Relay path behind the HBF base die: chunks over link C, stored, then sent over link B."""

from collections import deque
from typing import TYPE_CHECKING

from hw.params import Machine
from perfmodel.memory.twin.credits import BeatCredits
from perfmodel.memory.twin.direct import credit_back
from perfmodel.memory.twin.drain import on_link
from perfmodel.memory.twin.events import Events, Phase
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.pacer import FRAME, FramePacer, rate_register
from perfmodel.memory.twin.receiver import Receiver
from perfmodel.memory.twin.trace import Path
from perfmodel.memory.twin.transfer import Page

if TYPE_CHECKING:
    from perfmodel.memory.twin.stack import Stack

TICK = 3  # of four: the relay buffer chooses a page in the clock before its frame


class RelayAdmission:
    """``hw.hbf.relay_admission``: pages go into a region that was granted, and close it as a chunk.

    A chunk closes when it is full, with the last page that was asked for so far, or once no page
    has been ready for a while.
    """

    def __init__(self, stack: "Stack", buffer: "RelayBuffer") -> None:
        machine = stack.machine
        self._stack, self._buffer = stack, buffer
        self._way, self._chunk_pages = machine.link.one_way_cycles, machine.relay_chunk_pages
        self._regions = machine.sram.relay_regions
        self._chunk: list[Page] = []
        self._asked = 0  # pages of descriptors that were taken and have not been sent
        self._asks: deque[tuple[int, int]] = deque()  # clocks from which pages count as asked for
        self._quiet = 0  # since when no page is ready

    def ready(self, clock: int) -> int | None:
        return clock if self._chunk or self._regions else None

    def request(self, clock: int, pages: int) -> None:
        """A descriptor of so many pages is taken in ``clock``."""
        self._asks.append((clock + LATENCIES.take, pages))

    def grant(self, clock: int) -> None:
        """A region is free from ``clock`` on, which is now."""
        self._regions += 1
        self._stack.admitted(Path.RELAY, clock)

    def send(self, clock: int, page: Page) -> None:
        while self._asks and self._asks[0][0] <= clock:
            self._asked += self._asks.popleft()[1]
        if not self._chunk:
            self._regions -= 1
        self._chunk.append(page)
        last = len(self._chunk) == self._chunk_pages or self._asked == 1
        self._asked -= 1
        if last:
            self._close(on_link(page, clock)[-1])

    def emptied(self, clock: int) -> None:
        """No page is ready in ``clock``; if none is for long, the open chunk closes."""
        self._quiet = clock
        if self._chunk:
            idle = LATENCIES.chunk_idle - 1
            self._stack.events.at(clock + idle, Phase.DRAIN, self._give_up)

    def _give_up(self, clock: int) -> None:
        quiet = clock - self._quiet == LATENCIES.chunk_idle - 1
        if quiet and self._chunk and not self._stack.drains[Path.RELAY].waits(clock):
            self._close(clock)

    def _close(self, clock: int) -> None:
        """What closes the chunk enters link C in ``clock``."""
        chunk, self._chunk = self._chunk, []
        self._buffer.receive(clock + self._way, chunk, self)


class RelayBuffer:
    """``hw.hbm.relay``: stores whole chunks and forwards them, a page a frame of four clocks."""

    def __init__(self, machine: Machine, events: Events, receiver: Receiver) -> None:
        self._events, self._receiver = events, receiver
        self._way = machine.link.one_way_cycles
        self._pacer = FramePacer(rate_register(machine.link_beats_per_clock), phase=TICK)
        self._credits = BeatCredits(machine.credits.rx_beats)
        self._free = 0  # the frame after the last one

    def receive(self, clock: int, chunk: list[Page], admission: RelayAdmission) -> None:
        """A chunk is whole in ``clock``: nothing can come between its pages from then on."""
        frame = max(self._free, clock + LATENCIES.take)
        for page in chunk:
            frame = self._pacer.tick(frame)
            while (ready := self._credits.ready(frame)) != frame:
                frame = self._pacer.tick(ready)
            self._pacer.use(frame)
            taken = frame + LATENCIES.relay + self._way + LATENCIES.beat_queue
            beats = [taken + k for k in range(page.of.beats)]
            self._credits.use(credit_back(beats, self._way))
            self._receiver.page(Path.RELAY, page.of, beats[0], beats[-1])
            frame += FRAME
        self._free = frame
        granted = frame - FRAME + LATENCIES.emptied + self._way + LATENCIES.take
        self._events.at(granted, Phase.REGISTERS, admission.grant)
