# amaranth: UnusedElaboratable=no
"""Relayed pages and local beats share the data channel of link B."""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from hw.hbm.link_b import PATIENCE, LinkBArbiter
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import MessageClass
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

GPU_BEATS = TINY.credits.rx_beats


@dataclass
class Run:
    """What came, by clock: ``relay`` as page and beat, ``local`` as number."""

    relay: list[tuple[int, tuple[int, int]]] = field(default_factory=list)
    local: list[tuple[int, int]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # whose beat, one a beat
    granted: list[int] = field(default_factory=list)  # clock of each grant


def play(
    *,
    clocks: int,
    weights: tuple[int, int] = (1, 1),
    rate: int = RATE_ONE,
    pages: float = 1.0,
    beats: float = 1.0,
    credit: float = 1.0,
    partial: bool = False,
    seed: int = 0,
    lost: range = range(0),
) -> Run:
    """Offers a page with chance ``pages`` a clock and a local beat with chance ``beats``."""
    print(f"seed {seed}")
    dut, run, rng = LinkBArbiter(TINY), Run(), random.Random(seed)

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.rate, rate)
        for port, weight in zip(dut.weight, weights, strict=True):
            ctx.set(port, weight)
        offered: tuple[int, int] | None = None  # page and its beats
        page = number = held = 0
        backlog = 0  # local beats
        plan: deque[tuple[int, tuple[int, int], int]] = deque()  # clock, page and beat, last
        due: list[tuple[str, object]] = []
        for clock in range(clocks):
            is_lost = clock in lost
            ctx.set(dut.lost, is_lost)
            if offered is None and rng.random() < pages:
                offered = page, rng.randint(1, 4) if partial else 4
                page += 1
            ctx.set(dut.relay.request, offered is not None)
            ctx.set(dut.relay.beats, offered[1] if offered else 0)
            backlog += rng.random() < beats
            ctx.set(dut.local.valid, backlog > 0 and not is_lost)
            ctx.set(dut.local.header, {"message_class": MessageClass.READ_DATA, "tag": number})
            set_lanes(ctx, dut.local, 1 << 20 | number)
            comes = bool(plan) and plan[0][0] == clock
            ctx.set(dut.relay.valid, comes)
            if comes:
                _, (of, beat), last = plan.popleft()
                header = {"message_class": MessageClass.RELAY_DATA, "page_end": last}
                ctx.set(dut.relay.header, {**header, "page": of, "beat": beat})
                set_lanes(ctx, dut.relay, of << 2 | beat)
                due.append(("relay", (of, beat)))
            gives = held > 0 and rng.random() < credit
            ctx.set(dut.b_data.credit, gives)
            held -= gives
            assert ctx.get(dut.b_data.valid) == bool(due), f"clock {clock}"
            assert len(due) <= 1, f"two beats in clock {clock}"
            if due:
                kind, what = due.pop()
                header, content = ctx.get(dut.b_data.header), get_lanes(ctx, dut.b_data)
                run.order.append(kind)
                held += 1
                assert held <= GPU_BEATS, f"a beat without credit in clock {clock}"
                if kind == "relay":
                    assert header.message_class == MessageClass.RELAY_DATA
                    assert (header.page, header.beat) == what
                    assert content == what[0] << 2 | what[1]
                    run.relay.append((clock, what))
                else:
                    assert header.message_class == MessageClass.READ_DATA
                    assert (header.tag, content) == (what, 1 << 20 | what)
                    run.local.append((clock, what))
            if ctx.get(dut.relay.grant):
                assert offered is not None and ctx.get(dut.relay.frame) == 3
                of, size = offered
                if not is_lost:
                    plan.extend((clock + 3 + k, (of, k), k == size - 1) for k in range(size))
                run.granted.append(clock)
                offered = None
            if ctx.get(dut.local.valid) and ctx.get(dut.local.ready):
                due.append(("local", number))
                number, backlog = (number + 1) % 4096, backlog - 1
            await ctx.tick()

    simulate(dut, bench, clocks=clocks + 10)
    return run


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("credit", [1.0, 0.4, 0.1])
def test_all_beats_leave_once_in_order_and_pages_whole(credit, seed):
    run = play(
        clocks=1200, pages=0.1, beats=0.3, credit=credit, partial=True, rate=51_200, seed=seed
    )
    assert min(len(run.relay), len(run.local)) > 30
    assert [number for _, number in run.local] == list(range(len(run.local)))
    pages = [page for _, (page, beat) in run.relay if beat == 0]
    assert pages == list(range(len(pages)))
    for (clock, (page, beat)), (later, (then, after)) in zip(
        run.relay, run.relay[1:], strict=False
    ):
        assert after == 0 or (then, after, later) == (page, beat + 1, clock + 1)


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 5)])
@pytest.mark.parametrize("rate", [RATE_ONE, 51_200])
def test_full_sides_share_the_link_by_weight(weights, rate):
    """Frames of four beats, all full: the shares are the weights, the sum is the rate."""
    run = play(clocks=1000, weights=weights, rate=rate)
    relay, local = len(run.relay), len(run.local)
    assert relay + local == pytest.approx(1000 * rate / RATE_ONE, abs=16)
    assert relay / (relay + local) == pytest.approx(weights[0] / sum(weights), abs=0.02)


@pytest.mark.parametrize(("pages", "beats"), [(1.0, 0.0), (0.0, 1.0)])
def test_one_side_alone_has_the_whole_link(pages, beats):
    run = play(clocks=400, pages=pages, beats=beats)
    clocks = [clock for clock, _ in run.relay or run.local]
    assert clocks == list(range(clocks[0], clocks[0] + len(clocks))) and len(clocks) > 380


def test_a_page_takes_three_clocks_from_its_grant():
    run = play(clocks=100, beats=0.0)
    assert [c for c, (_, beat) in run.relay if beat == 0] == [g + 3 for g in run.granted][:24]
    assert {g % 4 for g in run.granted} == {3}


@pytest.mark.parametrize("share", [0.05, 0.15])
def test_few_local_beats_leave_the_rest_to_pages(share):
    """Frames wait till they are full or for four pages, so the relay loses a fifth at most."""
    run = play(clocks=2000, beats=share, seed=1)
    assert len(run.local) == pytest.approx(2000 * share, rel=0.3)
    frames = 1 / (PATIENCE + 1) if share < 0.2 else share
    assert len(run.relay) / 2000 >= 1 - frames - 0.02


def test_lost_pages_are_granted_without_credit():
    """As many as the rate lets through, and afterwards every credit is there."""
    run = play(clocks=400, credit=0.0, lost=range(200, 300))
    assert len([g for g in run.granted if 200 <= g < 300]) == 25
    assert len(run.order) == GPU_BEATS  # the first ones, no others ever
