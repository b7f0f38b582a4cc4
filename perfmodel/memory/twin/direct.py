"""Link A: beats go to the GPU under credit."""

from hw.params import Machine
from perfmodel.memory.twin.credits import BeatCredits
from perfmodel.memory.twin.drain import on_link
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.receiver import Receiver
from perfmodel.memory.twin.trace import Path
from perfmodel.memory.twin.transfer import Page


class DirectLink:
    """Credits at the HBF base die, the channel, and the queue at the GPU side."""

    def __init__(self, machine: Machine, receiver: Receiver) -> None:
        self._credits = BeatCredits(machine.credits.rx_beats)
        self._way = machine.link.one_way_cycles
        self._receiver = receiver

    def ready(self, clock: int) -> int | None:
        return self._credits.ready(clock)

    def send(self, clock: int, page: Page) -> None:
        way = self._way + LATENCIES.beat_queue
        taken = [beat + way for beat in on_link(page, clock)]
        self._credits.use(credit_back(taken, self._way))
        self._receiver.page(Path.DIRECT, page.of, taken[0], taken[-1])

    def emptied(self, clock: int) -> None:
        """Nothing waits for pages that are still sensed."""


def credit_back(taken: list[int], way: int) -> list[int]:
    """Clocks from which the sender counts the credits of beats that were taken."""
    return [clock + LATENCIES.take + way + LATENCIES.take for clock in taken]
