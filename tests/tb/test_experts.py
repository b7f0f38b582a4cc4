"""Listed reads and streams of experts on the small machine: stamps, order, refusals."""

import dataclasses
import itertools
import random
from functools import cache

import pytest

from hw.address_map import AddressMap, Run
from hw.errors import InputError
from hw.gpu.router import Choice
from hw.presets import preset, topology
from perfmodel.memory.striping import POLICIES, as_given, dealt, lay_out, random_sets
from tb.experts import Assignment, ExpertRun, stream
from tb.measurements import experts as experiment
from tb.measurements.expert_tables import experts_of
from tb.measurements.runs import ONE_PAIR
from tb.play import design, play
from tb.reads import LISTED, ReadRun
from tb.simulator import Simulator, build
from tb.vip.stamps import StampTable
from tests.hw.pysim import simulate

MINI = preset("mini")
PAGES = 288  # 2.25 waves
AT = AddressMap(MINI.geometry)


@cache
def simulation():
    return build(design(MINI, ONE_PAIR), Simulator.VERILATOR)


def expert_run(count, assignment, policy="packed"):
    layout = lay_out(policy, AT, experts=count, pages=PAGES)
    runs = tuple(expert.runs() for expert in layout.experts)
    return ExpertRun(machine=MINI, topology=ONE_PAIR, experts=runs, assignment=assignment)


@cache
def streamed(count, assignment, policy="packed"):
    return stream(simulation(), expert_run(count, assignment, policy))


def listed(*requests, links=ONE_PAIR, **changes):
    return ReadRun(machine=MINI, topology=links, listed=requests, **changes)


@pytest.mark.parametrize("first", [False, True])
def test_stamps_are_those_of_the_first_or_last_event(first):
    pick = random.Random(int(first))
    dut = StampTable(first=first)
    tags = [pick.randrange(4096) for _ in range(6)]
    expected = {}

    async def bench(ctx):
        for clock in range(1, 200):
            tag, en = pick.choice(tags[:5]), pick.random() < 0.5
            ctx.set(dut.clock, clock)
            ctx.set(dut.tag, tag)
            ctx.set(dut.en, en)
            if en and not (first and tag in expected):
                expected[tag] = clock
            await ctx.tick()
        ctx.set(dut.en, 0)
        for tag in tags:
            ctx.set(dut.query, tag)
            await ctx.tick()
            assert ctx.get(dut.stamp) == expected.get(tag, 0), f"tag {tag}"

    simulate(dut, bench, clocks=300)


@pytest.mark.parametrize("assignment", list(Assignment))
def test_experts_arrive_whole_and_right(verilator, assignment):
    result = streamed(8, assignment)
    assert result.wrong == 0
    assert result.reads.bytes == 8 * PAGES * MINI.geometry.page_bytes
    direct = result.reads.bytes_direct / result.reads.bytes
    expected = {Assignment.DIRECT: 1, Assignment.RELAY: 0, Assignment.ALTERNATE: 0.5}
    assert direct == expected.get(assignment, pytest.approx(0.5, abs=0.2))


@pytest.mark.parametrize("assignment", list(Assignment))
def test_stamps_agree_with_those_of_the_whole_run(verilator, assignment):
    result = streamed(8, assignment)
    reads = result.reads
    assert min(a.accepted for a in result.arrivals) == reads.accepted
    assert min(a.first_beat for a in result.arrivals) == reads.first_beat
    assert max(a.last_beat for a in result.arrivals) == reads.last_beat
    for arrival in result.arrivals:
        assert arrival.accepted + MINI.t_read_cycles < arrival.first_beat
        # Their link carries 25 of 32 beats.
        least = PAGES * 4 * 32 // 25 - 4
        assert arrival.last_beat - arrival.first_beat >= least
        assert arrival.done == arrival.last_beat + 1
    for sample in reads.samples:
        beats = sample.beats_direct + sample.beats_relay
        assert beats <= max(0, sample.clock - reads.first_beat + 1) * 2 * 25 / 32 + 8
        assert beats <= 4 * sample.senses <= 4 * 8 * PAGES
    for before, after in itertools.pairwise(reads.samples):
        assert all(b <= a for b, a in zip(before, after, strict=True))


@pytest.mark.parametrize("policy", ["packed", "aligned"])
def test_sensing_takes_what_the_most_asked_subarray_does(verilator, policy):
    """On the small machine to a tR or two: one waits for slots at the start and while paths end."""
    result = streamed(16, Assignment.ALTERNATE, policy)
    least = {"packed": 36, "aligned": 48}[policy] * MINI.t_read_cycles
    assert least <= result.sensing_clocks <= least + 3 * MINI.t_read_cycles
    assert result.sensing_clocks < result.clocks


@pytest.mark.parametrize(("assignment", "least"), [("direct", 0.99), ("alternate", 0.97)])
def test_consecutive_experts_run_at_their_bound(verilator, assignment, least):
    result = streamed(16, Assignment(assignment))
    assert least <= result.steady_bytes_per_s / result.bound_bytes_per_s <= 1.03


def test_one_path_has_no_bubbles_to_speak_of(verilator):
    assert max(streamed(8, Assignment.DIRECT).bubbles) <= 8


def test_experts_that_all_start_at_plane_zero_lose_by_it(verilator):
    """The load model says a quarter; the ends of a short run hide a part."""
    loss = 1 - streamed(16, Assignment.ALTERNATE).clocks / (
        streamed(16, Assignment.ALTERNATE, "aligned").clocks
    )
    assert 0.18 <= loss <= 0.25


def test_long_experts_take_several_descriptors():
    paper = preset("paper")
    what = ExpertRun(
        machine=paper,
        topology=ONE_PAIR,
        experts=((Run(100, 4608),), (Run(9000, 4096), Run(20000, 512))),
        assignment=Assignment.ALTERNATE,
    )
    direct, relay = Choice.DIRECT, Choice.RELAY
    assert what.read_run().requests() == [
        (100, 4096, direct),
        (4196, 512, direct),
        (9000, 4096, relay),
        (20000, 512, relay),
    ]


def test_a_group_asks_for_its_last_runs_at_the_end():
    what = dataclasses.replace(expert_run(5, Assignment.ALTERNATE, "shelved"), group=2)
    asked = [(k, run.pages) for k, run in what.descriptors]
    assert asked == [
        *((k, 256) for k in range(4)),
        *((k, 32) for k in range(4)),
        *((4, 256), (4, 32)),
    ]
    with pytest.raises(InputError, match="group is 0"):
        dataclasses.replace(what, group=0)


def test_dealt_tails_cost_nothing_and_tails_in_between_do(verilator):
    """The walks of a path look a wave ahead: what it asks for must be even within that."""
    layout = lay_out("two-choice", AT, experts=experts_of(MINI, PAGES), pages=PAGES)
    picked = random_sets(len(layout.experts), 32, 1, 1)[0].tolist()

    def sensing(reading):
        run = ExpertRun(
            machine=MINI,
            topology=ONE_PAIR,
            experts=reading.runs,
            assignment=Assignment.ALTERNATE,
            group=reading.group,
        )
        return stream(simulation(), run).sensing_clocks

    ideal = 72 * MINI.t_read_cycles
    assert sensing(dealt(layout, picked, 2)) == pytest.approx(ideal, rel=0.02)
    assert sensing(as_given(layout, picked)) > 1.05 * ideal


def test_a_list_is_read_in_its_order_over_its_paths(verilator):
    run = listed((9, 3, Choice.RELAY), (500, 40, Choice.DIRECT), (9, 3, Choice.LEAST_LOADED))
    assert (run.route, run.waves) == (LISTED, 1)
    result = play(simulation(), run)
    assert (result.data_errors, result.violations) == (0, 0)
    page = MINI.geometry.page_bytes
    assert result.bytes == 46 * page
    assert result.bytes_relay in (3 * page, 6 * page)
    accepted = [stamps.accepted for stamps in result.requests]
    assert accepted == sorted(accepted)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ((0, 0, Choice.DIRECT), r"listed\[1\] has pages 0: must be 1 to 4096"),
        ((0, 4097, Choice.DIRECT), r"listed\[1\] has pages 4097"),
        ((-1, 4, Choice.DIRECT), r"listed\[1\] has first -1"),
        ((32766, 4, Choice.DIRECT), r"listed\[1\] has first 32766: must be 0 to 32764"),
        ((0, 4, Choice.RELAY), r"listed\[1\] has path RELAY, which topology 'direct-only'"),
    ],
)
def test_wrong_requests_are_refused(request_, message):
    with pytest.raises(InputError, match=message):
        listed((0, 4, Choice.DIRECT), request_, links=topology("direct-only"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listed": ()}, "route is 'listed' and 0 requests are listed"),
        ({"listed": ((0, 1, Choice.DIRECT),), "route": "direct"}, "route is 'direct' and 1 req"),
        ({"listed": ((0, 1, Choice.DIRECT),), "sample_cycles": -1}, "sample_cycles is -1"),
    ],
)
def test_lists_go_with_their_route(changes, message):
    with pytest.raises(InputError, match=message):
        ReadRun(machine=MINI, topology=ONE_PAIR, **changes)


@pytest.mark.parametrize(
    ("experts", "message"),
    [((), "experts is empty"), (((Run(0, 1),), ()), r"experts\[1\] is \(\)")],
)
def test_empty_streams_are_refused(experts, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(expert_run(1, Assignment.DIRECT), experts=experts)


def test_the_experiment_measures_every_case(verilator, monkeypatch):
    monkeypatch.setattr(experiment, "MODEL_SETS", 50)
    monkeypatch.setattr(experiment, "PICKED", (2, 4))
    monkeypatch.setattr(experiment, "STREAM", 4)
    monkeypatch.setattr(experiment, "POLICIES", ("packed", "shelved"))
    measurement = experiment.measure(MINI, 1, lambda _: None)
    runs = [row for row in measurement.rows if row["kind"] == "run"]
    streams = [row for row in runs if row["set_seed"] is None]
    sets = [row for row in runs if row["set_seed"] is not None]
    assert [len(row["picked"]) for row in streams] == [n for n in (1, 2, 2, 4) for _ in Assignment]
    assert [(len(row["picked"]), row["policy"], row["dealt"]) for row in sets] == [
        (n, policy, deal)
        for n in (2, 4)
        for policy, deal in (("packed", False), ("shelved", False), ("shelved", True))
    ]
    assert all(row["clocks"] >= row["bound_clocks"] for row in sets)
    assert {row["pages"] for row in runs} == {PAGES}
    # The terminal, JSON and Markdown show the same runs.
    by_stream, bubbles, by_set, by_load = measurement.tables
    assert (len(by_stream.rows), len(by_set.rows)) == (len(streams), len(sets))
    assert 0 < len(bubbles.rows) < len(streams)
    assert len(by_load.rows) == len(POLICIES)
    for table in measurement.tables:
        assert table.title in measurement.markdown()
        assert all(len(row) == len(table.columns) for row in table.rows)
