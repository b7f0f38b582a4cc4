"""Request router against a plain model of slots, windows and loads."""

import random

import pytest

from hw.gpu.router import Choice, RequestRouter
from hw.ucie.transaction import MessageClass, Operation
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

SLOTS = 4  # descriptors of TINY
PAGE_UNITS = 256 // 64


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("paths", [(True, True), (True, False), (False, True)])
def test_takes_and_sends_reads_as_promised(paths, pairs):
    pick = random.Random(f"{paths}/{pairs}")
    dut = RequestRouter(TINY, pairs=pairs, direct=paths[0], relay=paths[1])
    taken = [0, 0]
    refused = {"window": 0, "slots": 0, "port": 0, "lost": 0}
    outcomes = {"whole": 0, "refused": 0, "cut": 0}

    async def bench(ctx):
        ctx = Quiet(ctx)
        waiting = [{}, {}]  # pages still to come, by slot
        asked = [{}, {}]  # pages asked for, by slot
        window, lost = 40, 0
        ctx.set(dut.window, window)
        read = None
        for clock in range(5000):
            say = f"clock {clock}, paths {paths}, pairs {pairs}"
            if read is None and pick.random() < 0.8:
                read = {
                    "first": pick.randrange(200),
                    "pages": pick.randint(1, 30),
                    "tag": pick.randrange(4096),
                    "choice": pick.choice((Choice.DIRECT, Choice.RELAY, Choice.LEAST_LOADED)),
                }
                read |= {"offset": 0, "units": 0}
                if pick.random() < 0.3:  # a piece of one page
                    offset = pick.randrange(PAGE_UNITS)
                    units = pick.randint(1, PAGE_UNITS - max(1, offset))
                    read |= {"pages": 1, "offset": offset, "units": units}
                if not all(paths):  # what goes to a missing path waits forever, see below
                    only = Choice.DIRECT if paths[0] else Choice.RELAY
                    read["choice"] = pick.choice((only, Choice.LEAST_LOADED))
                ctx.set(dut.i.payload, read)
            ctx.set(dut.i.valid, read is not None)
            may_send = pick.choice((3, 3, pick.randrange(4)))
            ctx.set(dut.may_send, may_send)
            if pick.random() < 0.05:
                lost = pick.choice((0, 0, 0, 0, 1, 2, 3))
            ctx.set(dut.lost, lost)

            outstanding = [sum(slots.values()) for slots in waiting]
            takes = None
            if read:
                path = {Choice.DIRECT: 0, Choice.RELAY: 1}.get(read["choice"])
                if path is None:
                    there = [p for p in range(2) if paths[p]]
                    path = min(there, key=lambda p: (lost >> p & 1, outstanding[p]))
                reasons = {
                    "window": outstanding[path] >= window,
                    "slots": len(waiting[path]) == SLOTS,
                    "port": not may_send >> path & 1,
                    "lost": bool(lost >> path & 1),
                }
                for name, holds in reasons.items():
                    refused[name] += holds
                if not any(reasons.values()):
                    takes = path
            assert ctx.get(dut.i.ready) == (takes is not None), say
            assert ctx.get(dut.send) == (0 if takes is None else 1 << takes), say
            assert ctx.get(dut.accepted.valid) == (takes is not None), say
            if takes is not None:
                accepted = ctx.get(dut.accepted)
                header = ctx.get(dut.header[takes])
                assert accepted.path == takes == header.route, say
                assert accepted.slot == header.tag, say
                assert header.tag < SLOTS and header.tag not in waiting[takes], say
                assert header.operation == Operation.READ
                assert header.message_class == MessageClass.REQUEST
                assert header.address == read["first"] * PAGE_UNITS + read["offset"]
                assert header.length == (read["units"] or read["pages"] * PAGE_UNITS)

            # Pages come in, from each pair one a clock; a slot is done after its last page, or
            # before: then those that are missing will not come, and count as if they had.
            for p in range(2):
                open_slots = [slot for slot, pages in waiting[p].items() if pages]
                arriving = min(pick.randint(0, pairs), sum(waiting[p].values()))
                for _ in range(arriving):
                    slot = pick.choice([s for s in open_slots if waiting[p][s]])
                    waiting[p][slot] -= 1
                whole = [slot for slot, pages in waiting[p].items() if not pages]
                done = pick.choice(whole) if whole and pick.random() < 0.7 else None
                lacking = [slot for slot, pages in waiting[p].items() if pages]
                ends_early = done is None and bool(lacking) and pick.random() < 0.05
                if ends_early:
                    untouched = [slot for slot in lacking if waiting[p][slot] == asked[p][slot]]
                    done = pick.choice(untouched or lacking)
                    outcomes["refused" if waiting[p][done] == asked[p][done] else "cut"] += 1
                    arriving += waiting[p][done]
                elif done is not None:
                    outcomes["whole"] += 1
                ctx.set(dut.received[p], arriving)
                ctx.set(dut.completed[p], {"valid": done is not None, "slot": done or 0})
                if done is not None:
                    del waiting[p][done]
            if takes is not None:
                waiting[takes][accepted.slot] = read["pages"] * pairs
                asked[takes][accepted.slot] = read["pages"] * pairs
                taken[takes] += 1
                read = None
            await ctx.tick()

    simulate(dut, bench, clocks=6000)
    for p in range(2):
        assert (taken[p] > 50) == paths[p], taken
    assert min(refused.values()) > 20, refused
    assert min(outcomes.values()) > 10, outcomes


@pytest.mark.parametrize("missing", [0, 1])
def test_a_read_over_a_missing_path_waits(missing):
    dut = RequestRouter(TINY, pairs=1, direct=missing != 0, relay=missing != 1)

    async def bench(ctx):
        ctx.set(dut.window, 100)
        ctx.set(dut.may_send, 3)
        ctx.set(dut.i.valid, 1)
        for choice in (Choice(missing), Choice.LEAST_LOADED):
            ctx.set(dut.i.payload, {"pages": 1, "choice": choice})
            assert ctx.get(dut.i.ready) == (choice == Choice.LEAST_LOADED)
            assert ctx.get(dut.send) == (0 if choice != Choice.LEAST_LOADED else 2 - missing)
        await ctx.tick()

    simulate(dut, bench, clocks=10)


def test_a_relay_that_brings_nothing_takes_no_more_than_direct_has_outstanding():
    """As while link C is lost: reads of the other path go on, whoever chose the path."""
    pick = random.Random(seed := 5)
    dut = RequestRouter(TINY, pairs=1, direct=True, relay=True)
    most, taken = 0, [0, 0]

    async def bench(ctx):
        nonlocal most
        waiting: list[list[int]] = [[], []]  # slot and pages to come of each read, by path
        ctx.set(dut.window, 1000)
        ctx.set(dut.may_send, 3)
        ctx.set(dut.i.valid, 1)
        pages = pick.randint(1, 30)
        for _ in range(3000):
            ctx.set(dut.i.payload, {"pages": pages, "choice": Choice.LEAST_LOADED})
            accepted = ctx.get(dut.accepted)
            direct, relay = (sum(left for _, left in path) for path in waiting)
            done = bool(waiting[0]) and waiting[0][0][1] == 0
            comes = not done and bool(waiting[0])
            ctx.set(dut.received[0], comes)
            ctx.set(dut.completed[0], {"valid": done, "slot": waiting[0][0][0] if done else 0})
            if done:
                waiting[0].pop(0)
            elif comes:
                waiting[0][0][1] -= 1
            if accepted.valid:
                assert not accepted.path or relay < direct, f"seed {seed}"
                most = max(most, relay + pages - direct if accepted.path else 0)
                waiting[accepted.path].append([accepted.slot, pages])
                taken[accepted.path] += 1
                pages = pick.randint(1, 30)
            await ctx.tick()

    simulate(dut, bench, clocks=4000)
    assert taken[0] > 100 and 1 <= taken[1] <= SLOTS, taken
    assert 0 < most <= 30
