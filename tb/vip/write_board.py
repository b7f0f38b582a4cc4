"""Judge of the writes, trims and releases of a package, which all its stacks get."""

from dataclasses import dataclass

from hw.params import Machine
from hw.ucie.transaction import Operation
from tb.vip.content import beat_lanes
from tb.vip.requests import WriteRequest
from tb.vip.stack_writes import StackWrites, WriteError
from tb.vip.write_ranges import Transaction

PORTS = ("write", "writeback")


@dataclass
class WriteBoard:
    """Judge of all writes of a package; every request goes to all stacks."""

    machine: Machine
    stacks: list[StackWrites]

    def tags(self, port: str) -> set[int]:
        """Tags of a port that some stack has not ended."""
        return {tag for stack in self.stacks for name, tag in stack.open if name == port}

    @property
    def outstanding(self) -> list[WriteRequest]:
        """Requests that some stack has not ended."""
        requests = (t.request for stack in self.stacks for t in stack.open.values())
        return list({id(request): request for request in requests}.values())

    def accepted(self, port: str, tag: int, request: WriteRequest) -> None:
        """A request was accepted at a port of the package."""
        for stack in self.stacks:
            stack.open[port, tag] = Transaction(port, tag, request, stack.clock)

    def fetched(self, port: str, pair: int, tag: int, page: int, beat: int) -> list[int]:
        """The sender of a port fetches a beat of a stack: its lanes."""
        t = self.stacks[pair].open.get((port, tag))
        where = f"stack {pair}, {port}: request {tag}"
        if t is None or t.request.operation != Operation.WRITE or page >= t.request.pages:
            raise WriteError(f"{where}: page {page} was fetched, which is not outstanding")
        t.fetched[page, beat] += 1
        number = (t.request.first + page) * 4 + beat
        return beat_lanes(pair, number, self.machine.lanes, t.request.version)

    def done(self, port: str, pair: int, **fields: int) -> None:
        self.stacks[pair].done(port, **fields)

    def finish(self) -> None:
        """Nothing may be outstanding.

        Raises:
            WriteError: a request has not ended, or holds its pages.
        """
        for stack in self.stacks:
            for t in stack.open.values():
                raise WriteError(
                    f"stack {stack.pair}, {t.port}: request {t.tag} never ended: {t.request}, "
                    f"taken up in clock {t.taken_up}, pages that ended {t.status}"
                )
            for t in stack.ranges.held:
                raise WriteError(
                    f"stack {stack.pair}, {t.port}: request {t.tag} never retired: {t.request}, "
                    f"taken up in clock {t.taken_up}, pages that ended {t.status}"
                )
