"""What a host asks of a package in the package bench."""

from dataclasses import dataclass

from hw.gpu.router import Choice
from hw.ucie.transaction import Operation, Owner


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """A read of ``pages`` pages of every stack, or with ``units`` of a piece of one page."""

    first: int
    pages: int = 1
    choice: Choice = Choice.LEAST_LOADED
    offset: int = 0
    units: int = 0


@dataclass(frozen=True, kw_only=True)
class WriteRequest:
    """A write, trim or release of ``pages`` pages of every stack, right or wrong.

    ``operation`` and ``owner`` are numbers, since wrong ones are asked too.
    """

    first: int
    pages: int = 1
    version: int = 1
    operation: int = Operation.WRITE
    owner: int = Owner.KV
    relocated: bool = False

    @property
    def range(self) -> range:
        return range(self.first, self.first + self.pages)
