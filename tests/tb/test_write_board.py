"""The judge of writes: silent over what must be, loud over everything else."""

import pytest

from hw.hbf.block_layouts import BlockOperation
from hw.ucie.transaction import Operation, Owner, Status
from tb.package_runs import SMALL
from tb.vip.page_contents import ANYTHING, BLANK, GARBAGE, PageContents
from tb.vip.requests import WriteRequest
from tb.vip.stack_writes import StackWrites, WriteError
from tb.vip.write_board import WriteBoard

TAG = 5
ADMIT, TRIM = BlockOperation.ADMIT, BlockOperation.TRIM
WRITE = WriteRequest(first=0, version=7)  # page 0 of the stack: die 0, subarray 0, row 0


class Host:
    """A board of one stack, and shortcuts for the events of a write."""

    def __init__(self, *requests, port="write"):
        self.contents = PageContents()
        self.stack = StackWrites(SMALL, 0, self.contents)
        self.board = WriteBoard(SMALL, [self.stack])
        for k, request in enumerate(requests):
            self.board.accepted(port, TAG + k, request)

    def clock(self, clocks=10):
        self.stack.clock += clocks
        return self

    def take_up(self, tag=TAG, port="write"):
        self.stack.taken_up(port, {"tag": tag})
        return self.clock()

    def ask(self, kind=ADMIT, *, page=0, owner=Owner.KV, status=None, erase=False):
        self.stack.asks(0, kind, 0, 0, page, owner)
        self.stack.answered(0, kind, Status.OK if status is None else status, erase)
        return self.clock()

    def fetch(self, tag=TAG, page=0, times=1):
        for _ in range(times):
            for beat in range(4):
                self.board.fetched("write", 0, tag, page, beat)
        return self

    def program(self, row=0, *, fails=False):
        self.stack.programs(0, 0, row, fails)
        self.clock().stack.array_done(0, 0, fails)
        return self.clock()

    def end(self, status=Status.OK, *, last=1, page=0, tag=TAG, operation=Operation.WRITE):
        self.stack.done("write", operation, tag, page, status, last)
        return self


def test_silent_over_a_good_write():
    host = Host(WRITE).take_up().ask().fetch().program().end()
    host.board.finish()
    assert host.contents.latest(0) == 7
    assert host.stack.counts["pages_programmed"] == 1
    assert [status for _, status in host.stack.results] == [Status.OK]


@pytest.mark.parametrize("lost", range(4))
def test_a_step_that_is_left_out(lost):
    host = Host(WRITE).take_up()
    steps = [host.ask, host.fetch, host.program, host.end]
    with pytest.raises(WriteError):
        for k, step in enumerate(steps):
            if k != lost:
                step()
        host.board.finish()


def test_data_is_fetched_once():
    host = Host(WRITE).take_up().ask().fetch(times=2).program()
    with pytest.raises(WriteError, match="fetched"):
        host.end()


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (Status.BAD_ADDRESS, WriteRequest(first=SMALL.geometry.stack_pages - 1, pages=2)),
        (Status.BAD_ADDRESS, WriteRequest(first=3, pages=0)),
        (Status.ILLEGAL_OWNER, WriteRequest(first=3, owner=Owner.NONE)),
        (Status.ILLEGAL_OWNER, WriteRequest(first=3, owner=3)),
        (Status.ILLEGAL_OWNER, WriteRequest(first=3, operation=9)),
    ],
)
def test_what_must_be_refused(status, request_):
    end = {"operation": request_.operation}
    Host(request_).end(status, **end).board.finish()
    with pytest.raises(WriteError, match=f"not refused with {status.name}"):
        Host(request_).take_up()
    with pytest.raises(WriteError, match=f"not {status.name}"):
        Host(request_).end(Status.OVERLAP, **end)


def test_overlap_needs_another_write():
    with pytest.raises(WriteError, match="overlaps nothing"):
        Host(WRITE).end(Status.OVERLAP)
    both = Host(WRITE, WriteRequest(first=0, pages=3)).take_up()
    both.end(Status.OVERLAP, tag=TAG + 1)
    with pytest.raises(WriteError, match="was taken up over write 5"):
        Host(WRITE, WriteRequest(first=0, pages=3)).take_up().take_up(TAG + 1)


def test_order_is_what_the_ledger_says():
    second = WriteRequest(first=SMALL.geometry.wave_pages)  # row 1
    Host(second).take_up().ask(page=1, owner=Owner.KV, status=Status.ILLEGAL_OWNER)
    host = Host(WRITE, second).take_up().ask().fetch().program().end().take_up(TAG + 1)
    with pytest.raises(WriteError, match=r"ADMIT .*ORDER, erase False; the ledger says OK"):
        host.ask(page=1, status=Status.ORDER)


def test_a_program_that_fails():
    host = Host(WRITE).take_up().ask().fetch().program(fails=True)
    host.ask(BlockOperation.FAILED)
    assert host.contents.latest(0) == GARBAGE
    with pytest.raises(WriteError, match="without a word on pages"):
        host.end(Status.PROGRAM_FAILED)
    host = Host(WRITE).take_up().ask().fetch().program(fails=True).ask(BlockOperation.FAILED)
    host.end(Status.PROGRAM_FAILED, last=0).end(Status.PROGRAM_FAILED)
    assert host.stack.counts["program_failures"] == 1
    with pytest.raises(WriteError, match=r"0 was reported twice|ended with OK"):
        host = Host(WRITE).take_up().ask().fetch().program(fails=True).ask(BlockOperation.FAILED)
        host.end(Status.PROGRAM_FAILED, last=0).end(Status.OK)


def test_a_page_that_turns_out_to_be_poisoned():
    host = Host(WRITE).take_up().ask().fetch().program().ask(BlockOperation.FAILED)
    host.end(Status.PROGRAM_FAILED, last=0).end(Status.PROGRAM_FAILED)
    assert host.contents.latest(0) == ANYTHING
    assert host.stack.counts["pages_programmed"] == 0


def test_an_erase_leaves_the_block_blank():
    host = Host(WRITE).take_up().ask().fetch().program().end()
    host.board.accepted("write", 9, WRITE)
    host.take_up(9).ask(erase=True)
    host.stack.erases(0, 0, 0, False)
    host.clock().stack.array_done(0, 0, False)
    host.ask(BlockOperation.ERASED).fetch(9).program().end(tag=9)
    rows = [row * SMALL.geometry.wave_pages for row in range(4)]
    assert [host.contents.latest(page) for page in rows] == [7, BLANK, BLANK, BLANK]
    assert host.stack.counts["erases"] == 1


def test_an_erase_that_nobody_asked_for():
    with pytest.raises(WriteError, match="ERASE of row 0, which nobody asked for"):
        Host(WRITE).take_up().stack.erases(0, 0, 0, False)
    with pytest.raises(WriteError, match="PROGRAM of page 0, which was not admitted"):
        Host(WRITE).take_up().program()


# Resets of links --------------------------------------------------------------------------------


def test_a_write_ends_with_a_reset_only_if_its_link_had_one():
    for expose in (None, "writeback", "write"):
        host = Host(WRITE).take_up().ask()
        if expose:
            host.stack.expose(expose)
        if expose == "write":
            host.end(Status.LINK_RESET).board.finish()
            continue
        with pytest.raises(WriteError, match="ended with 1 pages to go"):
            host.end(Status.LINK_RESET)


def test_a_granted_page_whose_data_are_lost_fails_its_block():
    host = Host(WRITE).take_up().ask().fetch()
    with pytest.raises(WriteError, match=r"FAILED of .*, but the array worked on None"):
        host.ask(BlockOperation.FAILED)
    host = Host(WRITE).take_up().ask().fetch()
    host.stack.expose("write")
    host.end(Status.LINK_RESET).ask(BlockOperation.FAILED)
    assert host.contents.latest(0) == 0  # never programmed
    assert host.stack.counts["cut_pages"] == host.stack.counts["program_failures"] == 1


def test_a_page_that_had_arrived_is_programmed_all_the_same():
    host = Host(WRITE).take_up().ask().fetch()
    host.stack.expose("write")
    host.end(Status.LINK_RESET).program()
    assert host.contents.latest(0) == 7
    assert host.stack.counts["pages_programmed"] == 1


def test_a_read_waits_for_no_write_that_a_reset_ended():
    host = Host(WRITE).take_up()
    with pytest.raises(AssertionError, match="overtook a write"):
        host.contents.allowed(0, host.stack.clock)
    host.stack.expose("write")
    assert host.contents.allowed(0, host.stack.clock) == {0}
