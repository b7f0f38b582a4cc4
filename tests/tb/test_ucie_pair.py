"""Two whole ends of a UCIe link in cocotb: errors, lost modules, retrains and resets."""

import pytest

from tb.link_runs import UcieRun, link_build, play_link, small
from tb.measurements.goodput import beats_a_clock
from tb.simulator import Simulator
from tb.ucie_pair import UciePair

SHAPE = small()
BEATS = 128  # deep enough that credits never limit the rate
TRAFFIC = {"beats": (3_000, 2_000), "messages": (1_000, 700), "share": (60, 256)}
ACTIVE = 1  # of `pl_state_sts`


def played(run, simulator=Simulator.VERILATOR):
    return play_link(link_build(SHAPE, simulator, pair=UciePair, depth_beats=BEATS), run)


def check(result, run):
    """All came, once, right and in order, and all credits are back."""
    assert result.beats_taken == run.beats and result.messages_taken == run.messages
    assert result.beats_errors == result.messages_errors == (0, 0)
    assert result.beats_skipped == result.messages_skipped == (0, 0)
    at_rest(result)


def at_rest(result):
    assert result.state == (ACTIVE, ACTIVE)
    assert result.at_rest == (1, 1) and result.credits == (BEATS, BEATS)
    assert result.enabled[0] == result.enabled[1] and result.epoch[0] == result.epoch[1]


def test_the_link_comes_up_and_loses_nothing_that_waited_for_it(verilator):
    run = UcieRun(**TRAFFIC)
    result = played(run)
    check(result, run)
    assert result.enabled == (0b1111, 0b1111) and result.retrains == (0, 0)
    assert result.cancels == result.repeats == (0, 0)


@pytest.mark.parametrize("errors", [(1e-3, 1e-3), (0.05, 0.05), (0.1, 0.0)])
def test_wrong_bits_of_modules_are_made_good(verilator, errors):
    run = UcieRun(**TRAFFIC, errors=errors)
    result = played(run)
    check(result, run)
    assert [cancels > 0 for cancels in result.cancels] == [rate > 0 for rate in errors]


def lost(module, clock, *, both_ways=True, ends=(0, 1)):
    """A module dies: it delivers nothing any more, and does not pass training at ``ends``."""
    mask = 1 << module
    alive = [0b1111 & ~mask if end in ends else 0b1111 for end in (0, 1)]
    return clock, {"dead": [mask, mask if both_ways else 0], "alive": alive}


LOSSES = {
    # Events, modules left.
    "one of four": ([lost(2, 700)], 0b0011),
    "seen by one end only": ([lost(0, 701, ends=(1,))], 0b1100),
    "one direction": ([lost(1, 702, both_ways=False)], 0b1100),
    "two, one after the other": (
        [lost(3, 703), (1_500, {"dead": [0b1010, 0b1010], "alive": [0b0101, 0b0101]})],
        0b0001,
    ),
    "all but the last": ([(704, {"dead": [7, 7], "alive": [8, 8]})], 0b1000),
}


@pytest.mark.parametrize("errors", [0.0, 0.01])
@pytest.mark.parametrize("loss", LOSSES)
def test_lost_modules_cost_rate_and_nothing_else(verilator, loss, errors):
    events, left = LOSSES[loss]
    run = UcieRun(**TRAFFIC, errors=(errors, errors), events=tuple(events))
    result = played(run)
    check(result, run)
    assert result.enabled == (left, left) and min(result.retrains) >= 1


@pytest.mark.parametrize("offset", range(8))
def test_a_module_may_die_in_any_clock_of_a_group(verilator, offset):
    run = UcieRun(**TRAFFIC, events=(lost(2, 900 + offset),))
    check(played(run), run)


def test_modules_that_come_back_are_used_after_the_next_training(verilator):
    back = (2_000, {"dead": [0, 0], "alive": [15, 15]})
    # Another one dies, and comes back before the training that its death asks for is over.
    again = [(3_000, {"dead": [1, 1]}), (3_020, {"dead": [0, 0]})]
    run = UcieRun(**TRAFFIC, events=(lost(2, 700), back, *again))
    result = played(run)
    check(result, run)
    assert result.enabled == (0b1111, 0b1111)


def struck(begin, clocks, module):
    """A module delivers nothing for some clocks, and passes training."""
    mask = 1 << module
    return [(begin, {"dead": [mask, mask]}), (begin + clocks, {"dead": [0, 0]})]


def test_a_retrain_may_begin_in_any_clock_of_another(verilator):
    """The second strike comes 1, 2, 3 ... clocks after the first, until one is wholly over."""
    apart, most = 611, 250
    events = [
        event
        for later in range(1, most)
        for module, begin in ((later % 4, 500), (later // 4 % 4, 500 + later))
        for event in struck(begin + apart * later, 1, module)
    ]
    events.sort(key=lambda event: event[0])
    run = UcieRun(beats=(80_000, 78_000), messages=(30_000, 20_000), share=(60, 40),
                  timeout=400_000, events=tuple(events))  # fmt: skip
    result = played(run)
    check(result, run)
    assert result.enabled == (0b1111, 0b1111)
    assert min(result.retrains) > most  # some are two retrains, and all are one at least
    assert result.clock > apart * most  # there was traffic during all of them


@pytest.mark.parametrize(("alive", "modules"), [(0b0011, 2), (0b1000, 1)])
def test_rate_is_that_of_the_modules_that_are_left(verilator, alive, modules):
    run = UcieRun(beats=(2_000, 0), steady_from=500, events=((0, {"alive": [alive, 15]}),))
    result = played(run)
    steady = (2_000 - 1 - 500) / (result.end[0] - result.steady[0])
    assert steady == pytest.approx(float(beats_a_clock(SHAPE, paced=False)) * modules / 4, rel=0.01)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("cause", ["reset", "error"])
def test_after_a_reset_credits_are_whole_and_traffic_goes_on(verilator, cause, end):
    """What was queued and under way is lost, each time, and nothing else."""
    events = []
    for begin in (600, 3_001, 6_002):
        for clock, value in ((begin, 1), (begin + 1, 0)):
            events.append((clock, {cause: [value * (end == 0), value * (end == 1)]}))
    run = UcieRun(**TRAFFIC, errors=(0.01, 0.01), events=tuple(events), stall=(100, 100))
    result = played(run)
    at_rest(result)
    assert result.beats_errors == result.messages_errors == (0, 0)
    assert result.epoch == (0, 0)  # first 1, then three more, of two bits
    for taken, skipped, sent in zip(
        result.beats_taken, result.beats_skipped, run.beats, strict=True
    ):
        assert taken + skipped <= sent and 0 < skipped <= 3 * BEATS
    assert sum(result.beats_taken) > sum(run.beats) - 6 * BEATS


def test_both_simulators_do_the_same(verilator, icarus):
    run = UcieRun(beats=(120, 80), messages=(40, 40), share=(60, 60), errors=(0.02, 0.02),
                  events=(lost(1, 150),))  # fmt: skip
    first, second = (
        played(run, simulator) for simulator in (Simulator.VERILATOR, Simulator.ICARUS)
    )
    check(first, run)
    assert {**first.as_json(), "wall_s": 0} == {**second.as_json(), "wall_s": 0}
