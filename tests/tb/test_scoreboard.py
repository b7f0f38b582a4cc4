"""The scoreboard of reads: silent over what was asked for, loud over everything else."""

from collections import Counter

import pytest

from hw.gpu.router import Choice
from hw.presets import preset
from hw.ucie.transaction import Header, MessageClass, Route, Status
from tb.vip.content import beat_lanes, blank_lanes
from tb.vip.page_contents import BLANK, Change
from tb.vip.requests import ReadRequest
from tb.vip.scoreboard import COMPLETION_CLOCKS, Scoreboard, ScoreboardError

MACHINE = preset("mini")
FIRST, PAGES, TAG = 1000, 3, 77
BEATS = PAGES * 4


def delivery(page, beat, *, ends=False, version=0, **wrong):
    """A beat of the read at the Direct sink, all right but for ``wrong``."""
    number = (FIRST + page) * 4 + beat
    fields = {
        "tag": TAG,
        "page": page,
        "beat": beat,
        "page_end": ends,
        "address": number,  # beats of `mini` are as long as the unit of addresses
        "message_class": MessageClass.READ_DATA,
        "route": Route.DIRECT,
    }
    lanes = beat_lanes(0, wrong.pop("content", number), MACHINE.lanes, version)
    return Header.const(fields | wrong).as_bits(), lanes


def scoreboard(**changes):
    both = (Route.DIRECT, Route.RELAY)
    board = Scoreboard(MACHINE, **{"pairs": 1, "routes": both, "window": 1000} | changes)
    board.begin_clock()
    return board


def ask(board, first, pages, tag, choice, **fields):
    """Have a read accepted, and taken up by the base die one clock later."""
    request = ReadRequest(first=first, pages=pages, choice=choice, **fields)
    route = board.accepted(request, tag)
    board.begin_clock()
    board.taken_up(route, 0)
    return route


def play(beats, *, reported=True, poison=False, clocks=1, board=None, **fields):
    """A board after one read of three pages, whose beats are ``beats``."""
    board = board or scoreboard()
    ask(board, FIRST, fields.pop("pages", PAGES), TAG, Choice.DIRECT, **fields)
    for header, lanes in beats:
        board.begin_clock()
        board.beat(Route.DIRECT, 0, header, lanes)
    for _ in range(clocks):
        board.begin_clock()
    if reported:
        board.done(Route.DIRECT, TAG, poison)
    return board


# Pages out of order, beats starting anywhere and wrapping.
GOOD = [delivery(page, (page + k) % 4, ends=k == 3) for page in (2, 0, 1) for k in range(4)]
READ_OUT = Counter(range(FIRST, FIRST + PAGES))


def test_silent_over_a_good_read():
    board = play(GOOD)
    board.finish([READ_OUT])
    assert board.pages_taken == [PAGES]
    assert len(board.beats) == BEATS
    assert board.completions == [TAG]
    assert not board.tags


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"content": 5}, "wrong data"),
        ({"page_end": 1}, "page_end of beat"),
        ({"address": 9}, "address of beat"),
        ({"tag": TAG + 1}, "is not outstanding there"),
        ({"route": Route.RELAY}, "route of beat"),
        ({"message_class": MessageClass.RELAY_DATA}, "message_class of beat"),
    ],
)
def test_wrong_beat(wrong, match):
    with pytest.raises(ScoreboardError, match=match):
        play([*GOOD[:5], delivery(0, 1, **wrong), *GOOD[6:]])


@pytest.mark.parametrize("lane", range(MACHINE.lanes))
def test_any_wrong_bit(lane):
    header, lanes = GOOD[3]
    lanes = lanes.copy()
    lanes[lane] ^= 1 << 8 * lane
    with pytest.raises(ScoreboardError, match="wrong data"):
        play([*GOOD[:3], (header, lanes)])


@pytest.mark.parametrize("lost", range(BEATS))
def test_lost_beat(lost):
    with pytest.raises(ScoreboardError):
        play(GOOD[:lost] + GOOD[lost + 1 :])


@pytest.mark.parametrize("twice", range(BEATS))
def test_repeated_beat(twice):
    with pytest.raises(ScoreboardError):
        play(GOOD[: twice + 1] + GOOD[twice:])


def test_lost_page():
    with pytest.raises(ScoreboardError, match="reported with pages missing"):
        play(GOOD[:8])


def test_repeated_page():
    with pytest.raises(ScoreboardError, match="came before"):
        play(GOOD[:4] + GOOD)


def test_pages_that_mix():
    mixed = [GOOD[k] for k in (0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 10, 11)]
    with pytest.raises(ScoreboardError, match="part"):
        play(mixed)


def test_completion_missing():
    board = play(GOOD, reported=False)
    with pytest.raises(ScoreboardError, match="never completed"):
        board.finish([READ_OUT])
    with pytest.raises(ScoreboardError, match="was not reported"):
        play(GOOD, reported=False, clocks=COMPLETION_CLOCKS + 1)


def test_completion_repeated():
    board = play(GOOD)
    with pytest.raises(ScoreboardError, match="is not outstanding"):
        board.done(Route.DIRECT, TAG, False)


LAST = MACHINE.geometry.stack_pages - 1
BAD = {"empty": (FIRST, 0, {}), "past the end": (LAST, 2, {}), "of two pages": (
    FIRST, 1, {"offset": 1, "units": MACHINE.geometry.page_bytes // 64})}  # fmt: skip


@pytest.mark.parametrize(("first", "pages", "piece"), BAD.values(), ids=BAD)
def test_a_read_that_cannot_be_is_refused_and_brings_nothing(first, pages, piece):
    bad = ReadRequest(first=first, pages=pages, choice=Choice.DIRECT, **piece)
    board = scoreboard()
    board.accepted(bad, TAG)
    board.done(Route.DIRECT, TAG, False, Status.BAD_ADDRESS)
    board.finish([Counter()])
    board.accepted(bad, TAG)
    with pytest.raises(ScoreboardError, match="ended with status 0, not 1"):
        board.done(Route.DIRECT, TAG, False)
    board = scoreboard()
    board.accepted(bad, TAG)
    header, lanes = GOOD[8]
    with pytest.raises(ScoreboardError, match="was not asked for"):
        board.beat(Route.DIRECT, 0, header, lanes)


def test_a_good_read_is_not_refused():
    with pytest.raises(ScoreboardError, match="ended with status 1, not 0"):
        board = scoreboard()
        ask(board, FIRST, PAGES, TAG, Choice.DIRECT)
        board.done(Route.DIRECT, TAG, False, Status.BAD_ADDRESS)


def test_poison_of_a_beat_is_that_of_its_read():
    with pytest.raises(ScoreboardError, match="was reported as poisoned"):
        play(GOOD, poison=True)
    poisoned = [*GOOD[:5], delivery(0, 1, poison=1, content=5), *GOOD[6:]]
    board = play(poisoned, poison=True)
    assert board.poisoned == [1]
    with pytest.raises(ScoreboardError, match="was not reported as poisoned"):
        play(poisoned)


@pytest.mark.parametrize("change", [{FIRST: 1}, {FIRST: -1}, {5: 1}])
def test_nand_read_what_nobody_asked_for(change):
    read_out = READ_OUT.copy()
    read_out.update(change)
    with pytest.raises(ScoreboardError, match="did not read out what was asked"):
        play(GOOD).finish([+read_out])


def test_router_must_choose_the_lighter_path():
    board = scoreboard()
    choose = Choice.LEAST_LOADED
    asked = [(10, choose), (20, choose), (10, choose), (1, choose), (5, Choice.RELAY), (9, choose)]
    routes = [ask(board, 0, pages, tag, choice) for tag, (pages, choice) in enumerate(asked)]
    direct, relay = Route.DIRECT, Route.RELAY
    # Direct on a tie; outstanding after each: 10/0, 10/20, 20/20, 21/20, 21/25, 30/25.
    assert routes == [direct, relay, direct, direct, relay, direct]


def test_page_that_arrives_counts_from_the_next_clock():
    board = scoreboard(window=1)
    ask(board, FIRST, 1, TAG, Choice.DIRECT)
    for k in range(4):
        header, lanes = delivery(0, k, ends=k == 3)
        board.beat(Route.DIRECT, 0, header, lanes)
    another = ReadRequest(first=0, choice=Choice.DIRECT)
    with pytest.raises(ScoreboardError, match="window of DIRECT used up"):
        board.accepted(another, 1)
    board.begin_clock()
    board.accepted(another, 1)


def test_router_has_so_many_slots():
    board = scoreboard()
    for tag in range(MACHINE.credits.descriptors):
        ask(board, 0, 1, tag, Choice.RELAY)
    ask(board, 0, 1, 99, Choice.DIRECT)
    with pytest.raises(ScoreboardError, match="without a free slot of RELAY"):
        ask(board, 0, 1, 100, Choice.RELAY)


def small(beats, **changes):
    """Beats of page 0 in this order, the last with ``page_end``."""
    return [delivery(0, beat, ends=beat == beats[-1], **changes) for beat in beats]


@pytest.mark.parametrize(("offset", "units"), [(0, 1), (1, 2), (2, 2), (0, 3)])
def test_a_piece_of_a_page_is_its_beats(offset, units):
    wanted = list(range(offset, offset + units))
    fields = {"pages": 1, "offset": offset, "units": units}
    for turned in (wanted, [*wanted[1:], *wanted[:1]]):  # a die may begin in its middle
        assert play(small(turned), **fields).pages_taken == [1]
    with pytest.raises(ScoreboardError, match=r"pages missing|never completed|page_end"):
        play(small(wanted[:-1]), **fields)
    with pytest.raises(ScoreboardError, match=r"was not wanted|came before|page_end"):
        play(small([*wanted, 3 - 3 * (wanted[-1] == 3)]), **fields)


def written(board, page, version, *, cause, ends, covers=True):
    change = Change(cause, version, cause, covers=covers, ends=ends)
    board.contents[0].change(page, change, oldest=0)


def test_a_read_gives_what_was_written_before_it():
    board = scoreboard()
    written(board, FIRST, 9, cause=0, ends=1)
    play([delivery(0, k, ends=k == 3, version=9) for k in range(4)], pages=1, board=board)
    for wrong in (0, 8):
        board = scoreboard()
        written(board, FIRST, 9, cause=0, ends=1)
        with pytest.raises(ScoreboardError, match=f"holds version {wrong}, not version 9"):
            play([delivery(0, 0, version=wrong)], pages=1, board=board)


def test_a_read_does_not_give_what_is_written_after_it():
    board = scoreboard()
    ask(board, FIRST, 1, TAG, Choice.DIRECT)
    written(board, FIRST, 9, cause=5, ends=6)
    board.beat(Route.DIRECT, 0, *delivery(0, 0))
    with pytest.raises(ScoreboardError, match="holds version 9, not version 0"):
        board.beat(Route.DIRECT, 0, *delivery(0, 1, version=9))


def test_an_erase_nobody_waits_for_is_seen_whole_or_not_at_all():
    header, _ = delivery(0, 1)
    for later in (False, True):
        board = scoreboard()
        written(board, FIRST, BLANK, cause=None, ends=None, covers=False)
        ask(board, FIRST, 1, TAG, Choice.DIRECT)
        board.beat(Route.DIRECT, 0, *delivery(0, 0))
        if later:
            board.beat(Route.DIRECT, 0, *delivery(0, 1))
            continue
        with pytest.raises(ScoreboardError, match="holds blank, the beats before it version 0"):
            board.beat(Route.DIRECT, 0, header, blank_lanes(MACHINE.lanes))


def test_a_read_must_not_overtake_a_write():
    board = scoreboard()
    board.contents[0].taken_up(FIRST, 1)
    with pytest.raises(AssertionError, match=f"page {FIRST} overtook a write"):
        play(GOOD[4:5], board=board)


@pytest.mark.parametrize(
    ("routes", "room"),
    [
        # Two regions of 128 pages, 16 pages of receive buffer a path, two chunks of 64 pages.
        ((Route.DIRECT,), 256 + 16),
        ((Route.RELAY,), 256 + 16 + 128),
        ((Route.DIRECT, Route.RELAY), 256 + 32 + 128),
    ],
)
def test_package_has_so_much_room(routes, room):
    board = scoreboard(routes=routes)
    board.sensed(0, room)
    with pytest.raises(ScoreboardError, match=f"more than {room} pages"):
        board.sensed(0, room + 1)


# Resets of links --------------------------------------------------------------------------------


def test_a_read_ends_with_a_reset_only_if_its_link_had_one():
    for pages_that_came in (0, 4, 8):
        board = play(GOOD[:pages_that_came], reported=False)
        with pytest.raises(ScoreboardError, match="ended with status 15, not 0"):
            board.done(Route.DIRECT, TAG, False, Status.LINK_RESET)
        board = play(GOOD[:pages_that_came], reported=False)
        board.expose(Route.RELAY, 0)
        with pytest.raises(ScoreboardError, match="ended with status 15, not 0"):
            board.done(Route.DIRECT, TAG, False, Status.LINK_RESET)
        board = play(GOOD[:pages_that_came], reported=False)
        board.expose(Route.DIRECT, 0)
        board.done(Route.DIRECT, TAG, False, Status.LINK_RESET)
        board.finish([READ_OUT])  # taken up, so it was read out whole


def test_a_read_that_was_whole_is_not_lost():
    board = play(GOOD, reported=False)
    board.expose(Route.DIRECT, 0)
    with pytest.raises(ScoreboardError, match="was whole, and ended with LINK_RESET"):
        board.done(Route.DIRECT, TAG, False, Status.LINK_RESET)


def test_a_reset_excuses_nothing_of_another_pair():
    board = scoreboard(pairs=2)
    request = ReadRequest(first=FIRST, pages=PAGES, choice=Choice.DIRECT)
    board.accepted(request, TAG)
    board.expose(Route.DIRECT, 1)
    with pytest.raises(ScoreboardError, match="ended before pairs that were not reset"):
        board.done(Route.DIRECT, TAG, False, Status.LINK_RESET)


def test_a_read_that_a_reset_dropped_is_not_taken_up():
    board = scoreboard()
    requests = [ReadRequest(first=FIRST + k, pages=1, choice=Choice.DIRECT) for k in range(2)]
    for slot, request in enumerate(requests):
        board.accepted(request, TAG + slot, Route.DIRECT, slot)
    with pytest.raises(ScoreboardError, match="was taken up that nobody asked for"):
        board.taken_up(Route.DIRECT, 0, 1)
    board.expose(Route.DIRECT, 0)
    assert board.taken_up(Route.DIRECT, 0, 1).tag == TAG + 1
    with pytest.raises(ScoreboardError, match="was taken up that nobody asked for"):
        board.taken_up(Route.DIRECT, 0, 0)


def test_a_torn_page_belongs_to_a_read_that_is_lost():
    second = ReadRequest(first=0, pages=1, choice=Choice.DIRECT)
    for reset in (False, True):
        board = play(GOOD[:2], reported=False)
        if reset:
            board.expose(Route.DIRECT, 0)
        board.accepted(second, TAG + 1)
        board.taken_up(Route.DIRECT, 0)
        beat = delivery(0, 0, tag=TAG + 1, address=0, content=0)
        if reset:
            board.beat(Route.DIRECT, 0, *beat)
            continue
        with pytest.raises(ScoreboardError, match="part"):
            board.beat(Route.DIRECT, 0, *beat)


def test_the_path_is_open_while_pages_may_be_gone():
    """Of 20 pages over Direct that a reset may have ended, the router counts 0 to 20."""
    least = ReadRequest(first=0, pages=1, choice=Choice.LEAST_LOADED)
    for took in (Route.DIRECT, Route.RELAY):
        board = scoreboard()
        ask(board, 0, 20, 1, Choice.DIRECT)
        ask(board, 0, 10, 2, Choice.RELAY)
        board.expose(Route.DIRECT, 0)
        assert board.accepted(least, 3, took) is took
    board = scoreboard()
    ask(board, 0, 20, 1, Choice.DIRECT)
    with pytest.raises(ScoreboardError, match="LEAST_LOADED took DIRECT, not RELAY"):
        board.accepted(least, 3, Route.DIRECT)
