"""Erase blocks of a stack: who owns them, what they hold, and how much they have worn.

The ledger decides as the block tables of the HBF base die do, operation by operation, and adds the
figures that an endurance model needs. Rules: DASH section V-A2 and the OCP HBF specification 0.7.0.
"""

import dataclasses
import math
from dataclasses import dataclass

from hw.errors import InputError
from hw.params import BLOCK_READ_BITS, ERASE_CYCLE_BITS, Geometry
from hw.ucie.codes import Owner, Status


@dataclass(frozen=True, kw_only=True, order=True)
class Block:
    """Names an erase block of a stack."""

    die: int
    subarray: int
    block: int


@dataclass(frozen=True, kw_only=True)
class BlockEntry:
    """State of one erase block; the default is erased, without an owner, and never cycled.

    Attributes:
        owner: Who may write it.
        dirty: It is not erased.
        failed: A program or erase failed since the last page 0.
        next_page: The only page that may be written next; all pages of a block: it is closed.
        live_pages: Of KV blocks: pages that were written and not trimmed.
        erase_cycles: How often it was erased.
        reads: How often it was sensed since the last erase.
    """

    owner: Owner = Owner.NONE
    dirty: bool = False
    failed: bool = False
    next_page: int = 0
    live_pages: int = 0
    erase_cycles: int = 0
    reads: int = 0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Answer to an operation: its status, and whether the block must be erased now."""

    status: Status = Status.OK
    erase: bool = False


@dataclass(frozen=True, kw_only=True)
class Wear:
    """Lifetime figures of a set of blocks.

    Attributes:
        blocks: How many blocks these are.
        pages_programmed: Pages whose program was admitted.
        pages_relocated: Those of them that only moved data written before.
        erases: All erases.
        collected: Erases by garbage collection.
        max_cycles: Erases of the block that has most.
        reads: Pages sensed.
    """

    blocks: int
    pages_programmed: int
    pages_relocated: int
    erases: int
    collected: int
    max_cycles: int
    reads: int

    @property
    def mean_cycles(self) -> float:
        """Erases a block."""
        return self.erases / self.blocks

    @property
    def mean_reads(self) -> float:
        """Pages sensed, a block, over the whole life."""
        return self.reads / self.blocks

    @property
    def write_amplification(self) -> float:
        """Pages programmed for each page that the host wrote: 1 as long as nothing is relocated."""
        host = self.pages_programmed - self.pages_relocated
        if host:
            return self.pages_programmed / host
        return math.inf if self.pages_relocated else 1.0


_ILLEGAL, _ORDER = Verdict(status=Status.ILLEGAL_OWNER), Verdict(status=Status.ORDER)


class BlockLedger:
    """All erase blocks of one stack; a method for each operation of the block table.

    An operation that is refused changes nothing. ``admit`` and ``collect`` tell in the verdict
    whether the block has to be erased; ``erased`` is for erases that ``admit`` asked for only.
    Trimming a page twice is the caller's fault, and counts twice.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        cycle_bits: int = ERASE_CYCLE_BITS,
        read_bits: int = BLOCK_READ_BITS,
    ) -> None:
        self._geometry = geometry
        self._most_cycles, self._most_reads = (1 << cycle_bits) - 1, (1 << read_bits) - 1
        self._entries: dict[Block, BlockEntry] = {}
        self._dead: dict[Block, None] = {}  # a set in order of death
        self._programmed = self._relocated = self._erases = self._collected = self._reads = 0

    @property
    def entries(self) -> dict[Block, BlockEntry]:
        """The blocks that were ever touched: cycles and reads of each."""
        return dict(self._entries)

    @property
    def dead(self) -> tuple[Block, ...]:
        """Blocks that garbage collection may erase, in the order in which they died."""
        return tuple(self._dead)

    @property
    def wear(self) -> Wear:
        """Lifetime figures over all blocks of the stack."""
        g = self._geometry
        return Wear(
            blocks=g.dies * g.subarrays_per_die * g.blocks_per_subarray,
            pages_programmed=self._programmed,
            pages_relocated=self._relocated,
            erases=self._erases,
            collected=self._collected,
            max_cycles=max((entry.erase_cycles for entry in self._entries.values()), default=0),
            reads=self._reads,
        )

    def query(self, block: Block) -> BlockEntry:
        """The state of a block.

        Raises:
            InputError: the stack has no such block.
        """
        g = self._geometry
        for field, count in (
            ("die", g.dies),
            ("subarray", g.subarrays_per_die),
            ("block", g.blocks_per_subarray),
        ):
            value = getattr(block, field)
            if not 0 <= value < count:
                raise InputError(f"Block.{field} is {value!r}: must be 0 to {count - 1}")
        return self._entries.get(block, BlockEntry())

    def admit(self, block: Block, page: int, owner: Owner, *, relocated: bool = False) -> Verdict:
        """Decide on a page to be written; ``relocated`` if it moves data written before.

        Raises:
            InputError: a block has no such page.
        """
        entry = self.query(block)
        self._check_page(page)
        if owner not in (Owner.WEIGHT, Owner.KV):
            return _ILLEGAL
        live = int(owner is Owner.KV)
        if page == 0:
            kept = entry.owner is Owner.WEIGHT or entry.live_pages > 0
            if entry.owner is not owner and kept:
                return _ILLEGAL
            verdict = Verdict(erase=entry.dirty)
            self._change(block, owner=owner, dirty=True, failed=False, next_page=1, live_pages=live)
        else:
            if entry.failed:
                return Verdict(status=Status.PROGRAM_FAILED)
            if entry.owner is not owner:
                return _ILLEGAL
            if entry.next_page != page:
                return _ORDER
            verdict = Verdict()
            self._change(block, next_page=page + 1, live_pages=entry.live_pages + live)
        self._programmed += 1
        self._relocated += relocated
        return verdict

    def failed(self, block: Block) -> Verdict:
        """A program or an erase of the block has failed."""
        self._change(block, failed=True, dirty=True)
        return Verdict()

    def erased(self, block: Block) -> Verdict:
        """The erase that an admitted page 0 asked for has finished."""
        self._change(block, erase_cycles=self._older(block), reads=0)
        self._erases += 1
        return Verdict()

    def collect(self, block: Block) -> Verdict:
        """Ask whether garbage collection may erase the block; if so it counts as erased."""
        entry = self.query(block)
        if not self._is_dead(entry):
            return _ORDER if entry.owner is Owner.KV else _ILLEGAL
        self._change(block, **vars(BlockEntry(erase_cycles=self._older(block))))
        self._erases += 1
        self._collected += 1
        return Verdict(erase=True)

    def trim(self, block: Block, page: int) -> Verdict:
        """A page of a KV block is dead.

        Raises:
            InputError: a block has no such page.
        """
        entry = self.query(block)
        self._check_page(page)
        if entry.owner is not Owner.KV:
            return _ILLEGAL
        if page >= entry.next_page or entry.live_pages == 0:
            return _ORDER
        self._change(block, live_pages=entry.live_pages - 1)
        return Verdict()

    def release(self, block: Block) -> Verdict:
        """The block has no owner any more."""
        entry = self.query(block)
        if entry.owner is Owner.NONE or entry.live_pages > 0:
            return _ILLEGAL
        self._change(block, owner=Owner.NONE)
        return Verdict()

    def sensed(self, block: Block) -> Verdict:
        """A page of the block has been sensed."""
        self._change(block, reads=min(self.query(block).reads + 1, self._most_reads))
        self._reads += 1
        return Verdict()

    def _check_page(self, page: int) -> None:
        pages = self._geometry.pages_per_block
        if not 0 <= page < pages:
            raise InputError(f"page is {page!r}: must be 0 to {pages - 1}")

    def _older(self, block: Block) -> int:
        return min(self.query(block).erase_cycles + 1, self._most_cycles)

    def _is_dead(self, entry: BlockEntry) -> bool:
        closed = entry.next_page == self._geometry.pages_per_block
        return (
            entry.owner is Owner.KV
            and entry.live_pages == 0
            and entry.dirty
            and (closed or entry.failed)
        )

    def _change(self, block: Block, **fields: object) -> None:
        entry = dataclasses.replace(self.query(block), **fields)  # type: ignore[arg-type]
        self._entries[block] = entry
        if self._is_dead(entry):
            self._dead.setdefault(block)
        else:
            self._dead.pop(block, None)
