"""One stack pair: dies, lanes, regions and links, and what they tell each other."""

from hw.params import Machine, Sensing
from perfmodel.memory.twin.die import Die
from perfmodel.memory.twin.direct import DirectLink
from perfmodel.memory.twin.drain import Drain
from perfmodel.memory.twin.events import Events, Phase
from perfmodel.memory.twin.gates import PathGate, WaveGate
from perfmodel.memory.twin.lanes import FillGroup, TsvLane
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.pacer import FRAME
from perfmodel.memory.twin.receiver import Receiver
from perfmodel.memory.twin.regions import RegionDrain
from perfmodel.memory.twin.relay import RelayAdmission, RelayBuffer
from perfmodel.memory.twin.requests import RequestWay
from perfmodel.memory.twin.trace import Path
from perfmodel.memory.twin.transfer import Page, Transfer


class Stack:
    """``hw.hbf.base_die`` with its NAND dies, ``hw.hbm.base_die`` and their links."""

    def __init__(
        self, machine: Machine, events: Events, receiver: Receiver, *, drain_whole_region: bool
    ) -> None:
        self.machine, self.events = machine, events
        self.regions = RegionDrain(self, whole=drain_whole_region)
        way = machine.link.one_way_cycles
        direct = DirectLink(machine, receiver)
        buffer = RelayBuffer(machine, events, receiver)
        self._admission = RelayAdmission(self, buffer)
        self.path_gates = (
            PathGate(machine, ready=direct.ready, again=self.wake),
            PathGate(machine, ready=self._admission.ready, again=self.wake),
        )
        self.dies: list[Die] = []
        lockstep = machine.nand.sensing is Sensing.LOCKSTEP
        self.wave_gate = WaveGate(machine, events, self.dies) if lockstep else None
        self.lanes: list[TsvLane] = []
        for number in range(machine.geometry.dies):
            self.dies.append(Die(self, number=number))
            self.lanes.append(TsvLane(self, die=number))
        self.groups = [FillGroup(self, group=group) for group in range(FRAME)]
        self.drains = (
            Drain(self, path=Path.DIRECT, outlet=direct),
            Drain(self, path=Path.RELAY, outlet=self._admission),
        )
        self._decoders = tuple(
            RequestWay(events, channel_clocks=way, take=self._decode) for _ in range(2)
        )
        self._link_b = RequestWay(events, channel_clocks=way, take=self._pass_on)

    def request(self, clock: int, read: Transfer) -> None:
        """The router accepts a read in ``clock``."""
        if read.path is Path.RELAY:
            self._link_b.send(clock, read)
        else:
            self._decoders[Path.DIRECT].send(clock, read)

    def decode_again(self, clock: int) -> None:
        """A die has room for a descriptor from ``clock`` on."""
        for decoder in self._decoders:
            decoder.retry(clock)

    def left(self, page: Page, clock: int) -> None:
        """The last beat of a page goes over its TSV lane in ``clock``."""
        self.dies[page.die].left(page, clock + LATENCIES.take)
        filled = clock + LATENCIES.readout + LATENCIES.fill
        self.regions.filled(page, filled)
        self.drains[page.of.path].add(filled + LATENCIES.queue, page)

    def sent(self, path: int, page: Page, clock: int) -> None:
        """A page of ``path`` is chosen to leave in ``clock``."""
        gate, die = self.path_gates[path], self.dies[page.die]
        gate.sent()
        if gate.blocked:
            self.admitted(path, clock + LATENCIES.take)
        free = clock + LATENCIES.slot
        self.regions.freed(page, free)
        self.events.at(free, Phase.REGISTERS, lambda now: die.free(page, now))

    def admitted(self, path: int, clock: int) -> None:
        """A path may have become available in ``clock``."""
        self.drains[path].admit(clock)
        if self.path_gates[path].blocked:
            self.path_gates[path].blocked = False
            self.wake(clock)

    def wake(self, clock: int) -> None:
        """All dies look again in ``clock``."""
        for die in self.dies:
            die.wake(clock)

    def _pass_on(self, clock: int, read: Transfer) -> bool:
        self._decoders[Path.RELAY].send(clock, read)
        return True

    def _decode(self, clock: int, read: Transfer) -> bool:
        """Hand a descriptor to all dies at once, if all have room for it."""
        if not all(die.walks[read.path].has_room(clock) for die in self.dies):
            return False
        for die in self.dies:
            die.wake(die.walks[read.path].add(clock, read))
        if read.path is Path.RELAY:
            self._admission.request(clock, read.pages)
        return True
