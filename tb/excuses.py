"""Which beats may come wrong, and why: pages that the run erased, and pages that its faults spoilt.

All of it follows from the requests of the run and from what the NAND counted, as exact as that is.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hw.address_map import AddressMap, Ints
from hw.ucie.transaction import Operation, Owner, Status
from tb.delivery import wanted_beats
from tb.reads import ReadRun
from tb.vip.content import VERSION_BITS

if TYPE_CHECKING:
    from tb.read_result import ReadResult

Bools = npt.NDArray[np.bool_]


class ErasedPages:
    """What the writes of a run do to the erase blocks that they name, in every stack alike.

    A write of page 0 erases a block that was written before. The pages of that request are held
    from reads until it ends, so that nobody sees them erased; all others of the block are blank
    until a later request writes them. TRIM of the last live page of a full block has it collected.

    Attributes:
        reads: Beats that the run reads, by block and page of that.
        blank: Pages that may be blank when they are read.
        written: Pages that were written.
        erased: Blocks that are erased, or would be if a page of them failed.
    """

    def __init__(self, run: ReadRun) -> None:
        self._run, self._at = run, AddressMap(run.machine.geometry)
        named = [np.arange(w.first, w.first + w.pages) for w in run.writes if not w.expects]
        empty = np.zeros(0, np.int64)
        self._blocks = np.unique(self._at.block(np.concatenate([empty, *named])))
        shape = len(self._blocks), run.machine.geometry.pages_per_block
        self._present, self._live = np.zeros(shape, bool), np.zeros(shape, bool)
        self._ever, self._now = np.zeros(shape, bool), np.zeros(shape, bool)  # blank
        self.written, self.erased = np.zeros(shape, bool), np.zeros(shape[0], bool)
        for write in run.writes:
            if write.expects is not Status.OK:
                continue
            pages = np.arange(write.first, write.first + write.pages)
            trims = write.operation is Operation.TRIM and write.owner is Owner.KV
            if write.operation is Operation.WRITE:
                self._write(*self._places(pages))
            elif trims and run.modes.collect:
                self._trim(*self._places(pages))

    def _places(self, pages: Ints) -> tuple[Ints, Ints]:
        """Rows and columns of the pages, which lie in blocks that are written."""
        rows: Ints = np.searchsorted(self._blocks, self._at.block(pages)).astype(np.int64)
        return rows, np.asarray(self._at.place(pages).page)

    def _write(self, blocks: Ints, pages: Ints) -> None:
        opened = blocks[pages == 0]
        again = opened[self._present[opened].any(axis=1)]
        self._now[again] = True
        self._present[opened] = self._live[opened] = False
        self._now[blocks, pages] = False
        for what in (self._present, self._live, self.written):
            what[blocks, pages] = True
        self._ever[again] |= self._now[again]
        self.erased[again] = True

    def _trim(self, blocks: Ints, pages: Ints) -> None:
        self._live[blocks, pages] = False
        self.erased[blocks] = True
        dead = blocks[self._present[blocks].all(axis=1) & ~self._live[blocks].any(axis=1)]
        self._now[dead] = self._ever[dead] = True

    @property
    def blank(self) -> Bools:
        return self._now if self._run.writes_first else self._ever

    @cached_property
    def reads(self) -> Ints:
        per_page = self._run.machine.page_beats
        pages, of_page = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for wanted in wanted_beats(self._run):
            first, last = wanted.start // per_page, (wanted.stop - 1) // per_page
            pages.append(np.arange(first, last + 1))
            # What is not whole pages lies within one.
            part = len(wanted) if first == last else per_page
            of_page.append(np.full(len(pages[-1]), part))
        asked, parts = np.concatenate(pages), np.concatenate(of_page)
        named = np.isin(self._at.block(asked), self._blocks)
        beats = np.zeros(self._present.shape, np.int64)
        np.add.at(beats, self._places(asked[named]), parts[named])
        return beats

    @property
    def blank_reads(self) -> int:
        """Different pages of a stack that are read and may be blank."""
        return int(np.count_nonzero(self.reads[self.blank]))


def excused_beats(result: "ReadResult") -> int | None:
    """How many beats at the GPU may be wrong at most; ``None`` for any number.

    All beats of pages that may be blank; then, for each failed erase, all others of a block; for
    each failed program those of a page, or of its block where that is erased after it, or without
    it; one for each word that could not be corrected on its way out. Which pages failed is not
    known: those that are read most are counted.
    """
    run = result.run
    if run.corrupt:
        return None
    pages = ErasedPages(run)
    rest = np.where(pages.blank, 0, pages.reads)
    of_block = rest.sum(axis=1)
    of_page = np.where(pages.written, rest, 0).max(axis=1, initial=0)
    pairs, writes = run.topology.pairs, result.writes

    def worst(spoilt: Ints, count: int) -> int:
        """The ``count`` blocks of all stacks of which most is spoilt."""
        return int(np.sort(np.repeat(spoilt, pairs))[::-1][:count].sum())

    programs = np.where(pages.erased, of_block, of_page)
    excused = pairs * int(pages.reads[pages.blank].sum())
    excused += worst(of_block[pages.erased], writes.erase_failures)
    excused += worst(programs, writes.program_failures + failed_words(result))
    return excused + read_words(result)


# Words of the SRAM that were to be uncorrectable --------------------------------------------------


def planted_words(run: ReadRun, *, bits: int) -> int:
    """Words in which so many bits were to be flipped, of all stacks."""
    return run.faults.ecc_beats * run.topology.pairs * (len(run.faults.ecc_bits) == bits)


def _spread(run: ReadRun) -> int:
    """Beats that the NAND takes for wrong for one word: a version is that of the whole page."""
    # Words are bit slices of the beat, see hw/sram/secded.py; the version is at its low end.
    first = run.faults.ecc_word + run.machine.lanes * min(run.faults.ecc_bits)
    return run.machine.page_beats if first < VERSION_BITS else 1


def excused_writes(result: "ReadResult") -> int:
    """How many wrong beats may have reached the NAND, for uncorrectable words of written pages."""
    return _uncorrected(result) * _spread(result.run)


def failed_words(result: "ReadResult") -> int:
    """Written pages that failed for such words, at most; where check bits are wrong, no beat is."""
    return min(_uncorrected(result), result.writes.page_failures)


def read_words(result: "ReadResult") -> int:
    """Uncorrectable words in pages on their way out, at most."""
    written = -(-result.writes.wrong_beats // _spread(result.run))
    return max(0, _uncorrected(result) - written)


def _uncorrected(result: "ReadResult") -> int:
    return min(result.uncorrected, planted_words(result.run, bits=2))
