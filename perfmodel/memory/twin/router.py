"""The request router of the GPU I/O die: whole reads to one path each."""

from collections.abc import Callable

from perfmodel.memory.twin.events import Events, Phase, Wakes
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.receiver import Receiver
from perfmodel.memory.twin.trace import UNIT_BYTES, Path, Trace
from perfmodel.memory.twin.transfer import Transfer


class RequestRouter:
    """``hw.gpu.router``, and the requester before it.

    A read is accepted when its path has a free slot and fewer pages outstanding than the window.
    As many requests have credit on each link as a path has slots, and a read has its slot until its
    pages have come: so no request ever waits for credit.

    Attributes:
        transfers: The reads that were accepted, in order.
    """

    def __init__(
        self,
        trace: Trace,
        events: Events,
        receiver: Receiver,
        send: Callable[[int, Transfer], None],
    ) -> None:
        self._trace, self._events, self._receiver, self._send = trace, events, receiver, send
        machine, topology = trace.machine, trace.topology
        self._pairs = topology.pairs
        self._both = topology.direct and topology.relay
        self._only = Path.DIRECT if topology.direct else Path.RELAY
        self._beat_units = machine.link.beat_bytes // UNIT_BYTES
        self._free = [(1 << machine.credits.descriptors) - 1 for _ in range(2)]
        self._outstanding = [0, 0]
        self._start = 0
        self._blocked = False
        self._wakes = Wakes(events, Phase.ROUTER, self._offer)
        self.transfers: list[Transfer] = []
        receiver.page_comes = self._page_comes
        receiver.read_ends = self._read_ends

    def begin(self, clock: int) -> None:
        """The first read is offered in ``clock``."""
        self._start = clock
        self._wakes.at(clock)

    def _offer(self, clock: int) -> None:
        reads = self._trace.reads
        index = len(self.transfers)
        if index == len(reads) or clock < self._start + reads[index].at:
            return
        read = reads[index]
        for path, taken in enumerate(self._receiver.taken):
            while taken and taken[0] < clock:
                taken.popleft()
                self._outstanding[path] -= self._pairs
        path = self._path(read.path)
        free = self._free[path]
        if not free or self._outstanding[path] >= self._trace.window_pages:
            self._blocked = True
            for taken in self._receiver.taken:
                if taken:
                    self._wakes.at(taken[0] + LATENCIES.take)
            return
        self._blocked = False
        line = free & -free
        self._free[path] ^= line
        self._outstanding[path] += read.pages * self._pairs
        transfer = Transfer(
            index,
            read,
            path=path,
            slot=line.bit_length() - 1,
            accepted=clock,
            beat_units=self._beat_units,
        )
        self.transfers.append(transfer)
        self._send(clock, transfer)
        if index + 1 < len(reads):
            self._wakes.at(max(clock + 1, self._start + reads[index + 1].at))

    def _path(self, asked: Path) -> Path:
        if asked is not Path.LEAST_LOADED:
            return asked
        if not self._both:
            return self._only
        direct, relay = self._outstanding
        return Path.RELAY if relay < direct else Path.DIRECT

    def _page_comes(self, taken: int) -> None:
        if self._blocked:
            self._wakes.at(taken + LATENCIES.take)

    def _read_ends(self, clock: int, read: Transfer) -> None:
        self._free[read.path] |= 1 << read.slot
        if self._blocked:
            self._wakes.at(clock + LATENCIES.take)
