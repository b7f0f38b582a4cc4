"""Two ends of a link in cocotb: nothing is lost, doubled or reordered; rates are as computed."""

from fractions import Fraction
from functools import cache

import pytest

from hw.ucie.flit import LATENCY_OPTIMISED, STANDARD
from tb.link_runs import ONE_WAY_CYCLES, LinkRun, full_size, link_build, play_link, small
from tb.measurements.goodput import (
    NAK_CLOCKS,
    beats_a_clock,
    erring,
    factors,
    go_back_n,
    group_errors,
    round_trip,
    transfer,
)
from tb.simulator import Simulator
from tb.vip.flit_channel import Noise

SHAPE = small()
BEATS = 128  # deep enough that credits never limit the rate


@cache
def played(**options):
    return play_link(link_build(SHAPE, depth_beats=BEATS), LinkRun(**options))


def check(result, run):
    """All came, once, right and in order, and all credits are back."""
    assert result.beats_taken == run.beats and result.messages_taken == run.messages
    assert result.beats_errors == result.messages_errors == (0, 0)
    assert result.beats_skipped == result.messages_skipped == (0, 0)
    assert result.at_rest == (1, 1) and result.credits == (BEATS, BEATS)


BOTH = {"beats": (3_000, 2_000), "messages": (1_000, 700), "share": (60, 256)}


def test_without_errors_nothing_is_sent_twice(verilator):
    result = played(**BOTH)
    check(result, LinkRun(**BOTH))
    assert result.struck == result.cancels == result.repeats == (0, 0)


@pytest.mark.parametrize("noise", Noise, ids=lambda noise: noise.name.lower())
@pytest.mark.parametrize("errors", [(1e-3, 1e-3), (0.1, 0.1), (0.1, 0.0), (0.0, 0.1)])
def test_errors_cost_time_and_nothing_else(verilator, noise, errors):
    run = LinkRun(**BOTH, errors=errors, noise=(noise, noise))
    result = play_link(link_build(SHAPE, depth_beats=BEATS), run)
    check(result, run)
    for end, rate in enumerate(errors):
        struck, flits = result.struck[end], result.flits[end]
        # Five standard deviations of the dice.
        assert abs(struck - flits * rate) <= 5 * (flits * rate) ** 0.5
        assert (result.cancels[end] > 0) == (rate > 0)


def test_every_struck_group_is_dropped(verilator):
    """A group of two flits is dropped once even if both are struck."""
    run = LinkRun(**BOTH, errors=(0.01, 0.01))
    result = play_link(link_build(SHAPE, depth_beats=BEATS), run)
    for struck, cancels in zip(result.struck, result.cancels, strict=True):
        assert 0.9 * struck < cancels <= struck


@pytest.mark.parametrize("stall", [(200, 0), (0, 200), (240, 240)])
def test_slow_sinks_hold_up_the_sender_and_lose_nothing(verilator, stall):
    run = LinkRun(**BOTH, stall=stall, errors=(0.01, 0.01))
    check(play_link(link_build(SHAPE, depth_beats=BEATS), run), run)


BEATS_STILL, MESSAGES_STILL = 1, 2


@pytest.mark.parametrize("still", [(BEATS_STILL,) * 2, (MESSAGES_STILL,) * 2, (1, 2), (3, 0)])
def test_a_channel_without_credit_holds_up_no_other(verilator, still):
    """Sinks that never take anything keep what there is credit for; all else arrives, whole."""
    run = LinkRun(**BOTH, still=still, errors=(0.01, 0.01), timeout=12_000)
    result = play_link(link_build(SHAPE, depth_beats=BEATS), run)
    assert result.beats_errors == result.messages_errors == (0, 0)
    for end in range(2):
        beats, messages = still[end] & BEATS_STILL, still[end] & MESSAGES_STILL
        assert result.beats_taken[end] == (0 if beats else run.beats[end])
        assert result.messages_taken[end] == (0 if messages else run.messages[end])
        assert result.credits[end] == (0 if beats else BEATS)


@pytest.mark.parametrize("kind", [BEATS_STILL, MESSAGES_STILL])
def test_a_channel_goes_on_when_its_sink_does(verilator, kind):
    run = LinkRun(**BOTH, still=(kind, kind), events=((6_000, {"still": [0, 0]}),))
    check(play_link(link_build(SHAPE, depth_beats=BEATS), run), run)


@pytest.mark.parametrize("paced", [False, True])
def test_transfers_take_the_clocks_of_the_closed_form(verilator, paced):
    build = link_build(SHAPE, depth_beats=BEATS)
    assert abs(transfer(SHAPE, build, 64 * 4_000, paced=paced).deviation) < 2e-3


@pytest.mark.parametrize("flit_errors", [1e-3, 1e-2, 0.1])
def test_rate_under_errors_is_that_of_go_back_n(verilator, flit_errors):
    build = link_build(SHAPE, depth_beats=BEATS)
    assert abs(erring(SHAPE, build, flit_errors, beats=20_000).deviation) < 0.02


def test_closed_form_of_the_full_size_names_every_byte():
    # Of 64 * 64 bytes of raw link, by hand: flits 4 x 256, payload 4 x 250 or 4 x 240.
    six, three = full_size(LATENCY_OPTIMISED), full_size(STANDARD)
    assert [f.share for f in factors(six)] == [
        Fraction(1000, 1024), Fraction(992, 1000), Fraction(61, 62), Fraction(64, 65)
    ]  # fmt: skip
    assert [f.share for f in factors(three)] == [
        Fraction(960, 1024), Fraction(1), Fraction(59, 60), Fraction(64, 65)
    ]  # fmt: skip
    assert beats_a_clock(six, paced=False) == Fraction(61 * 64 * 16, 1024 * 65)
    assert beats_a_clock(three, paced=False) == Fraction(59 * 64 * 16, 1024 * 65)
    assert beats_a_clock(six, paced=True) == beats_a_clock(three, paced=True) == Fraction(25, 32)


@pytest.mark.parametrize("end", [0, 1])
def test_retrain_loses_nothing(verilator, end):
    """Ends stop and start again in different clocks; what is under way then is lost."""
    events = []
    for begin in range(500, 4_000, 500):
        first, second = (begin, begin + 7) if end else (begin + 7, begin)
        for clock, active, cut in (
            (min(first, second), [int(first > second), int(second > first)], [1, 1]),
            (max(first, second), [0, 0], [1, 1]),
            (begin + 60, [0, 1], [0, 0]),
            (begin + 64, [1, 1], [0, 0]),
        ):
            events.append((clock, {"active": active, "cut": cut}))
    run = LinkRun(**BOTH, errors=(0.02, 0.02), events=tuple(events))
    check(play_link(link_build(SHAPE, depth_beats=BEATS), run), run)


def test_a_reset_of_the_link_loses_what_was_under_way_and_gives_its_credits_back(verilator):
    events = []
    for begin in (400, 900, 1_403):
        for clock, values in (
            (begin, {"active": [0, 0], "cut": [1, 1]}),
            (begin + 5, {"clear": [1, 0]}),
            (begin + 6, {"clear": [0, 0]}),
            (begin + 9, {"clear": [0, 1]}),
            (begin + 10, {"clear": [0, 0]}),
            (begin + 60, {"active": [1, 1], "cut": [0, 0]}),
        ):
            events.append((clock, values))
    run = LinkRun(**BOTH, errors=(0.02, 0.02), events=tuple(events))
    result = play_link(link_build(SHAPE, depth_beats=BEATS), run)
    assert result.beats_errors == result.messages_errors == (0, 0)
    for taken, skipped, sent in zip(
        result.beats_taken, result.beats_skipped, run.beats, strict=True
    ):
        # Lost are what was queued and under way: no more than there is credit for, each time.
        assert taken + skipped == sent and 0 < skipped <= 3 * BEATS
    assert result.at_rest == (1, 1) and result.credits == (BEATS, BEATS)


def test_both_simulators_do_the_same(verilator, icarus):
    run = LinkRun(beats=(150, 100), messages=(60, 60), share=(60, 60), errors=(0.05, 0.05))
    first, second = (
        play_link(link_build(SHAPE, simulator, depth_beats=BEATS), run)
        for simulator in (Simulator.VERILATOR, Simulator.ICARUS)
    )
    assert {**first.as_json(), "wall_s": 0} == {**second.as_json(), "wall_s": 0}


@pytest.mark.parametrize("channel", [6, 28, 29, 31])
def test_full_rate_up_to_as_many_clocks_of_round_trip_as_rows(verilator, channel):
    build = link_build(SHAPE, depth_beats=BEATS)
    assert abs(round_trip(SHAPE, build, channel, paced=False, beats=6_000).deviation) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("noise", Noise, ids=lambda noise: noise.name.lower())
@pytest.mark.parametrize(("errors", "flits"), [(1e-3, 1_000_000), (0.1, 200_000)])
def test_a_million_flits(verilator, errors, flits, noise):
    """At full size, traffic both ways, of at least so many flits each."""
    shape = full_size(LATENCY_OPTIMISED)
    share = go_back_n(group_errors(shape, errors), NAK_CLOCKS + 2 * ONE_WAY_CYCLES)
    beats = int(1.3 * flits / shape.flits * share * float(beats_a_clock(shape, paced=False)))
    run = LinkRun(beats=(beats, beats), messages=(beats // 4, beats // 4), share=(40, 40),
                  errors=(errors, errors), noise=(noise, noise), timeout=2_000_000)  # fmt: skip
    result = play_link(link_build(shape, depth_beats=BEATS), run)
    check(result, run)
    assert min(result.flits) >= flits and min(result.cancels) > 0
