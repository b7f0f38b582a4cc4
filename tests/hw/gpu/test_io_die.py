# amaranth: UnusedElaboratable=no
"""GPU I/O die with two pairs: a read is done when both pairs are."""

import random
from collections import deque
from types import SimpleNamespace

import pytest

from hw.gpu.io_die import GpuIoDie
from hw.gpu.router import Choice
from hw.ucie.transaction import MessageClass, Operation, Owner
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

PAIRS, RX_BEATS = 2, 8


@pytest.mark.parametrize("path", ["direct", "relay"])
@pytest.mark.parametrize("seed", [1])
def test_done_once_when_both_pairs_are_whole(path, seed):
    pick = random.Random(f"{path}/{seed}")
    dut = GpuIoDie(TINY, pairs=PAIRS, direct=True, relay=True)
    reads = [
        {
            "first": pick.randrange(200),
            "pages": pick.randint(1, 4),
            "tag": (4095 - 3 * k) % 4096,
            "choice": Choice.DIRECT if path == "direct" else Choice.RELAY,
        }
        for k in range(16)
    ]
    requests, ports = getattr(dut, f"{path}_request"), getattr(dut, f"{path}_data")
    outs, done = getattr(dut, f"{path}_o"), getattr(dut, f"{path}_done")
    other = dut.relay_done if path == "direct" else dut.direct_done
    finished = []

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.window, 1000)
        accepted = 0
        asked = [0] * PAIRS  # requests seen
        pages = [[] for _ in range(PAIRS)]
        poisoned = {}
        beats = [deque() for _ in range(PAIRS)]
        credits = [RX_BEATS] * PAIRS
        taken = [{} for _ in range(PAIRS)]  # beats by tag
        whole_at = {}  # clock of a read's last beat, by tag
        clock = 0
        while len(finished) < len(reads):
            say = f"clock {clock}, seed {seed}"
            ctx.set(dut.i.valid, accepted < len(reads))
            if accepted < len(reads):
                ctx.set(dut.i.payload, reads[accepted])
                accepted += ctx.get(dut.i.ready)
            for pair in range(PAIRS):
                seen = ctx.get(requests[pair].valid)
                ctx.set(requests[pair].credit, seen)
                if seen:
                    header = ctx.get(requests[pair].header)
                    read = reads[asked[pair]]  # both pairs are asked for every read, in order
                    asked[pair] += 1
                    assert (header.address, header.length) == (4 * read["first"], 4 * read["pages"])
                    poison = pick.random() < 0.2
                    poisoned[read["tag"]] = poisoned.get(read["tag"], False) | poison
                    for page in range(read["pages"]):
                        bad = poison and page == 0
                        pages[pair].append(
                            [(header.tag, page, beat, bad and beat == 2) for beat in range(4)]
                        )
                # Pages of the reads under way come in any order.
                if pages[pair] and not beats[pair]:
                    beats[pair] = deque(pages[pair].pop(pick.randrange(len(pages[pair]))))
                # One pair is far slower than the other.
                sends = bool(beats[pair]) and credits[pair] and pick.random() < (0.15, 0.9)[pair]
                ctx.set(ports[pair].valid, sends)
                if sends:
                    slot, page, beat, poison = beats[pair].popleft()
                    ctx.set(
                        ports[pair].header,
                        {
                            "tag": slot,
                            "page": page,
                            "beat": beat,
                            "page_end": beat == 3,
                            "poison": poison,
                        },
                    )
                    set_lanes(ctx, ports[pair], 4 * page + beat)
                    credits[pair] -= 1
                credits[pair] += ctx.get(ports[pair].credit)
                ready = pick.random() < 0.8
                ctx.set(outs[pair].ready, ready)
                if ready and ctx.get(outs[pair].valid):
                    tag = ctx.get(outs[pair].header.tag)
                    taken[pair][tag] = taken[pair].get(tag, 0) + 1
                    whole_at[tag] = clock
            event = ctx.get(done)
            if event.valid:
                read = next(read for read in reads if read["tag"] == event.tag)
                wants = 4 * read["pages"]
                assert [of_pair[event.tag] for of_pair in taken] == [wants, wants], say
                assert event.poison == poisoned[event.tag], say
                # Each done waits for at most one clock a read that is done at once.
                assert clock - whole_at[event.tag] <= 4, say
                finished.append(event.tag)
            assert not ctx.get(other).valid, say
            await ctx.tick()
            clock += 1

    simulate(dut, bench, clocks=6000)
    assert sorted(finished) == sorted(read["tag"] for read in reads)
    assert finished != [read["tag"] for read in reads]  # they did overtake each other


def test_reads_that_end_in_one_clock_are_told_one_by_one():
    """Each pair brings the two reads in its own order, so both become whole at once."""
    dut = GpuIoDie(TINY, pairs=PAIRS, direct=True, relay=False)
    told = []

    async def bench(ctx):
        ctx.set(dut.window, 100)
        for tag in (70, 80):
            ctx.set(dut.i.payload, {"pages": 1, "tag": tag, "choice": Choice.DIRECT})
            ctx.set(dut.i.valid, 1)
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        for pair in range(PAIRS):
            ctx.set(dut.direct_o[pair].ready, 1)
        for clock in range(16):
            for pair, order in enumerate(((0, 1), (1, 0))):
                ctx.set(dut.direct_data[pair].valid, clock < 8)
                slot = order[clock // 4 % 2]
                # The read with tag 80, in slot 1, is bad on one pair.
                ends = clock % 4 == 3
                header = {"tag": slot, "beat": clock % 4, "page_end": ends}
                header["poison"] = slot == 1 == pair
                ctx.set(dut.direct_data[pair].header, header)
            done = ctx.get(dut.direct_done)
            if done.valid:
                told.append((clock, done.tag, done.poison))
            await ctx.tick()

    simulate(dut, bench, clocks=30)
    clock = told[0][0]
    assert told == [(clock, 70, 0), (clock + 1, 80, 1)]


def test_needs_a_path():
    with pytest.raises(ValueError, match="direct path, the relay path or both"):
        GpuIoDie(TINY, pairs=1, direct=False, relay=False)


def test_a_write_goes_to_every_pair_and_each_answers_for_itself():
    """The pairs grant, take and answer at their own pace; each fetches its own stripe."""
    pick = random.Random(3)
    dut = GpuIoDie(TINY, pairs=PAIRS, direct=True, relay=False)
    jobs = [
        {"first": 16 * k, "pages": pick.randint(1, 3), "tag": 50 + k,
         "operation": Operation.TRIM if k == 2 else Operation.WRITE, "owner": Owner.KV}
        for k in range(5)
    ]  # fmt: skip
    asked, sent, ended = ([[] for _ in range(PAIRS)] for _ in range(3))

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.link_rate, 65_536)
        left, replies = deque(jobs), [deque() for _ in range(PAIRS)]
        fetched, owed = [None] * PAIRS, [0] * PAIRS
        beats_left = [{} for _ in range(PAIRS)]
        while min(map(len, ended)) < len(jobs):
            ctx.set(dut.write.valid, bool(left))
            if left:
                ctx.set(dut.write.payload, left[0])
                if ctx.get(dut.write.ready):
                    left.popleft()
            for pair in range(PAIRS):
                request, data, reply = (
                    getattr(dut, f"direct_{name}")[pair]
                    for name in ("write", "write_data", "reply")
                )
                if fetched[pair] is not None:
                    lanes = SimpleNamespace(lanes=[dut.fetch_lanes[pair][k] for k in range(8)])
                    set_lanes(ctx, lanes, fetched[pair])
                seen = ctx.get(request.valid)
                ctx.set(request.credit, seen)
                if seen:
                    header = ctx.get(request.header)
                    pages = header.length * 64 // 256
                    asked[pair].append((header.address * 64 // 256, pages, header.tag))
                    grants = header.operation == Operation.WRITE
                    if grants:
                        beats_left[pair][header.tag] = 4 * pages
                        replies[pair] += [("grant", header.tag, page) for page in range(pages)]
                    else:
                        replies[pair].append(("end", header.tag, 0))
                owed[pair] -= ctx.get(reply.credit)
                chance = (0.1, 0.8)[pair]
                can = bool(replies[pair]) and owed[pair] < 4 and pick.random() < chance
                ctx.set(reply.valid, can)
                if can:
                    owed[pair] += 1
                    kind, tag, page = replies[pair].popleft()
                    grants = kind == "grant"
                    what = MessageClass.GRANT if grants else MessageClass.COMPLETION
                    ctx.set(
                        reply.header,
                        {"message_class": what, "tag": tag, "page": page, "chunk_end": not grants,
                         "status": 0 if grants else pair},
                    )  # fmt: skip
                ctx.set(data.credit, ctx.get(data.valid))
                if ctx.get(data.valid):
                    label = ctx.get(data.header)
                    beat = label.tag << 14 | label.page << 2 | label.beat
                    assert get_lanes(ctx, data) == pair << 40 | beat
                    sent[pair].append((label.tag, label.page, label.beat))
                    beats_left[pair][label.tag] -= 1
                    if not beats_left[pair][label.tag]:
                        replies[pair].append(("end", label.tag, 0))
                fetch = ctx.get(dut.fetch[pair])
                beat = fetch.tag << 14 | fetch.page << 2 | fetch.beat
                fetched[pair] = pair << 40 | beat if fetch.valid else None
                done = ctx.get(dut.write_done[pair])
                if done.valid and done.last:
                    ended[pair].append((done.tag, done.status))
            await ctx.tick()

    simulate(dut, bench, clocks=2500)
    pages = [
        (job["tag"], page)
        for job in jobs
        if job["operation"] == Operation.WRITE
        for page in range(job["pages"])
    ]
    for pair in range(PAIRS):
        assert asked[pair] == [(job["first"], job["pages"], job["tag"]) for job in jobs]
        assert sorted(sent[pair]) == [(*page, beat) for page in pages for beat in range(4)]
        assert sorted(ended[pair]) == [(job["tag"], pair) for job in jobs]


@pytest.mark.parametrize("path", ["direct", "relay"])
def test_refused_reads_end_and_free_their_slots(path):
    """Many more reads than slots, the second pair answers late; each ends with its status."""
    dut = GpuIoDie(TINY, pairs=PAIRS, direct=True, relay=True)
    choice = Choice.DIRECT if path == "direct" else Choice.RELAY
    reads = [{"first": k, "pages": 3, "tag": 7 * k, "choice": choice} for k in range(12)]
    told = []

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.window, 3 * PAIRS + 1)  # two reads: pages of those before must be forgotten
        left, answers = deque(reads), [deque() for _ in range(PAIRS)]
        clock = 0
        while len(told) < len(reads):
            ctx.set(dut.i.valid, bool(left))
            if left:
                ctx.set(dut.i.payload, left[0])
                if ctx.get(dut.i.ready):
                    left.popleft()
            for pair in range(PAIRS):
                request = getattr(dut, f"{path}_request")[pair]
                reply = getattr(dut, f"{path}_reply")[pair]
                ctx.set(request.credit, ctx.get(request.valid))
                if ctx.get(request.valid):
                    answers[pair].append((clock + 10 * pair, ctx.get(request.header).tag))
                answer = bool(answers[pair]) and answers[pair][0][0] <= clock
                ctx.set(reply.valid, answer)
                if answer:
                    slot = answers[pair].popleft()[1]
                    header = {"message_class": MessageClass.READ_DATA, "tag": slot, "status": 1}
                    ctx.set(reply.header, header)
                assert not ctx.get(dut.write_done[pair].valid)
            done = ctx.get(getattr(dut, f"{path}_done"))
            if done.valid:
                told.append((done.tag, done.status, done.poison))
            await ctx.tick()
            clock += 1

    simulate(dut, bench, clocks=400)
    assert told == [(read["tag"], 1, 0) for read in reads]
