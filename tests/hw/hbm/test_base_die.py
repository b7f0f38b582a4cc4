"""HBM base die: passes requests on in order, and holds no memory but the relay SRAM."""

import random
from collections import deque
from types import SimpleNamespace

import pytest
from amaranth.back import rtlil

from hw.hbm.base_die import HbmBaseDie
from hw.ucie.transaction import MessageClass, Operation, Owner
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.hbm.relay_bench import checked
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

CREDITS = 4  # descriptors of TINY


def test_requests_pass_in_order_and_under_credit():
    pick = random.Random(1)
    dut = HbmBaseDie(TINY)
    wanted = [
        {"tag": k, "address": pick.getrandbits(40), "length": pick.randrange(1, 2**18), "route": 1}
        for k in range(60)
    ]
    came = []

    async def bench(ctx):
        ctx = Quiet(ctx)
        left, credits, queued = deque(wanted), CREDITS, 0
        while len(came) < len(wanted):
            sends = bool(left) and credits > 0 and pick.random() < 0.7
            ctx.set(dut.b_request.valid, sends)
            if sends:
                ctx.set(dut.b_request.header, left.popleft())
            credits += ctx.get(dut.b_request.credit) - sends
            if ctx.get(dut.c_request.valid):
                header = ctx.get(dut.c_request.header)
                came.append({name: getattr(header, name) for name in wanted[0]})
                queued += 1
                assert queued <= CREDITS
            takes = queued > 0 and pick.random() < 0.2
            ctx.set(dut.c_request.credit, takes)
            queued -= takes
            await ctx.tick()

    simulate(dut, bench, clocks=2000)
    assert came == wanted


def test_a_request_takes_three_clocks():
    dut = HbmBaseDie(TINY)
    left = []

    async def bench(ctx):
        for clock in range(10):
            ctx.set(dut.b_request.valid, clock == 2)
            ctx.set(dut.b_request.header, {"tag": 9})
            if ctx.get(dut.c_request.valid):
                left.append((clock, ctx.get(dut.c_request.header).tag))
            await ctx.tick()

    simulate(dut, bench, clocks=12)
    assert left == [(2 + 3, 9)]


@pytest.mark.parametrize("machine", [TINY, checked(TINY)], ids=["bare", "checked"])
def test_relay_path_holds_no_memory_but_its_two_regions(machine):
    text = rtlil.convert(HbmBaseDie(machine))
    modules = {}
    for part in text.split("\nmodule ")[1:]:
        modules[part.split()[0].strip("\\")] = part
    sizes = []
    for name, part in modules.items():
        for line in part.splitlines():
            if line.strip().startswith("memory "):
                words = line.split()
                sizes.append((name, int(words[words.index("width") + 1]), int(words[-2])))
    stored = [bits * rows for name, bits, rows in sizes if ".bank" in name]
    assert sum(stored) == 8 * machine.sram.relay_bank_bytes
    assert machine.sram.relay_bank_bytes == 2 * 1024 * (9 if machine.sram.relay_ecc else 8) // 8
    assert "/hw/hbm/relay_regions.py" in text and "/hw/hbm/dram/" not in text  # no DRAM either
    # The rest, for labels, requests and grants, holds not even one page.
    assert sum(bits * rows for name, bits, rows in sizes if ".bank" not in name) < 256 * 8


def test_writes_of_the_hbm_leave_over_link_c_page_by_page():
    """A request, a grant for each of its pages, the page behind the token, one answer."""
    pick = random.Random(2)
    dut = HbmBaseDie(TINY)
    jobs = [
        {"first": 16 * k, "pages": pick.randint(1, 5), "tag": 100 + k, "operation": Operation.WRITE,
         "owner": Owner.KV, "relocated": k % 2}
        for k in range(6)
    ]  # fmt: skip
    asked, sent, ended = [], [], []

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.link_rate, 65_536)
        left, replies, fetched = deque(jobs), deque(), None
        owed, beats_left, clock = 0, {}, 0
        while len(ended) < len(jobs):
            ctx.set(dut.writeback.valid, bool(left))
            if left:
                ctx.set(dut.writeback.payload, left[0])
                if ctx.get(dut.writeback.ready):
                    left.popleft()
            if fetched is not None:
                set_lanes(ctx, SimpleNamespace(lanes=dut.fetch_lanes), fetched)
            if ctx.get(dut.c_write.valid):  # the HBF side grants in any order
                header = ctx.get(dut.c_write.header)
                asked.append((header.address * 64 // 256, header.length * 64 // 256, header.tag))
                assert (header.operation, header.owner) == (Operation.WRITE, Owner.KV)
                assert header.relocated == jobs[len(asked) - 1]["relocated"]
                beats_left[header.tag] = 4 * asked[-1][1]
                pages = pick.sample(range(asked[-1][1]), asked[-1][1])
                replies += [("grant", header.tag, page) for page in pages]
            ctx.set(dut.c_write.credit, ctx.get(dut.c_write.valid))
            ctx.set(dut.c_data.valid, 0)
            owed -= ctx.get(dut.c_reply.credit)
            reply = replies.popleft() if replies and owed < 4 and pick.random() < 0.5 else None
            ctx.set(dut.c_reply.valid, reply is not None)
            if reply:
                owed += 1
                kind, tag, page = reply
                grants = kind == "grant"
                what = MessageClass.GRANT if grants else MessageClass.COMPLETION
                header = {"message_class": what, "operation": Operation.WRITE, "tag": tag}
                header |= {"page": page, "credit": tag << 4 | page, "chunk_end": not grants}
                ctx.set(dut.c_reply.header, header)
            data = dut.c_write_data
            ctx.set(data.credit, ctx.get(data.valid))
            if ctx.get(data.valid):
                label = ctx.get(data.header)
                assert label.credit == label.tag << 4 | label.page
                assert get_lanes(ctx, data) == (label.tag << 14 | label.page << 2 | label.beat)
                sent.append((label.tag, label.page, label.beat))
                beats_left[label.tag] -= 1
                if not beats_left[label.tag]:
                    replies.append(("end", label.tag, 0))
            fetch = ctx.get(dut.fetch)
            fetched = fetch.tag << 14 | fetch.page << 2 | fetch.beat if fetch.valid else None
            done = ctx.get(dut.write_done)
            if done.valid and done.last:
                ended.append(done.tag)
            await ctx.tick()
            clock += 1

    simulate(dut, bench, clocks=1500)
    assert asked == [(job["first"], job["pages"], job["tag"]) for job in jobs]
    pages = [(job["tag"], page) for job in jobs for page in range(job["pages"])]
    assert sorted(sent) == [(*page, beat) for page in pages for beat in range(4)]
    assert ended == [job["tag"] for job in jobs]


def test_answers_to_reads_go_on_over_link_b_under_credit():
    """All reads are refused at once; the GPU gives credits back late."""
    pick = random.Random(4)
    dut = HbmBaseDie(TINY)
    answers = [{"tag": k, "status": pick.randint(1, 15)} for k in range(20)]
    came = []

    async def bench(ctx):
        ctx = Quiet(ctx)
        left, under_way, queued, owed = deque(answers), 0, 0, 0
        while len(came) < len(answers):
            owed -= ctx.get(dut.c_reply.credit)
            sends = bool(left) and under_way < CREDITS and owed < CREDITS  # a read has a slot
            ctx.set(dut.c_reply.valid, sends)
            if sends:
                header = {"message_class": MessageClass.READ_DATA, **left.popleft()}
                ctx.set(dut.c_reply.header, header)
                under_way, owed = under_way + 1, owed + 1
            assert not ctx.get(dut.write_done.valid)
            if ctx.get(dut.b_reply.valid):
                header = ctx.get(dut.b_reply.header)
                assert header.message_class == MessageClass.READ_DATA
                came.append({"tag": header.tag, "status": header.status})
                under_way, queued = under_way - 1, queued + 1
                assert queued <= CREDITS
            gives = queued > 0 and pick.random() < 0.1
            ctx.set(dut.b_reply.credit, gives)
            queued -= gives
            await ctx.tick()

    simulate(dut, bench, clocks=1000)
    assert came == answers
