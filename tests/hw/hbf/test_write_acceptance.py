# amaranth: UnusedElaboratable=no
"""Acceptance of writes by itself: its pace, its turns, and what keeps a request waiting.

The verdicts are shown with the tracker around it.
"""

from hw.hbf.write_acceptance import WriteAcceptance
from hw.ucie.transaction import Operation
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

PAGE_UNITS = TINY.geometry.page_bytes // 64


def request(tag, *, pages=1):
    return {"operation": Operation.TRIM, "tag": tag, "length": pages * PAGE_UNITS}


def run(script, *, clocks=40):
    """Plays ``script(ctx, dut, clock)`` before each clock; what is taken, accepted and refused."""
    dut = WriteAcceptance(TINY, links=2)
    taken, accepted, refused = [], [], []

    async def bench(ctx):
        ctx.set(dut.room, 1)
        tags = [0, 0]
        for clock in range(clocks):
            for k, source in enumerate(dut.i):
                ctx.set(source.valid, 1)
                ctx.set(source.payload, request(16 * k + tags[k] % 16))
            script(ctx, dut, clock)
            for k, source in enumerate(dut.i):
                if ctx.get(source.valid) and ctx.get(source.ready):
                    taken.append((clock, k))
                    tags[k] += 1
                if ctx.get(dut.refused[k].valid):
                    refused.append((clock, k))
            if ctx.get(dut.accepted.valid):
                accepted.append((clock, ctx.get(dut.accepted.link)))
                assert ctx.get(dut.accepted.header.tag) >> 4 == accepted[-1][1]
            await ctx.tick()

    simulate(dut, bench, clocks=clocks + 2)
    return taken, accepted, refused


def test_links_take_turns_at_one_request_in_two_clocks():
    taken, accepted, refused = run(lambda ctx, dut, clock: None)
    assert [clock for clock, _ in taken] == list(range(0, 40, 2))
    links = [link for _, link in taken]
    assert links in ([0, 1] * 10, [1, 0] * 10)
    assert accepted == [(clock + 1, link) for clock, link in taken if clock + 1 < 40]
    assert not refused


def test_one_link_alone_has_all_turns():
    taken, _, _ = run(lambda ctx, dut, clock: ctx.set(dut.i[1].valid, 0))
    assert taken == [(clock, 0) for clock in range(0, 40, 2)]


def test_nothing_is_taken_without_room_or_a_free_entry():
    def script(ctx, dut, clock):
        ctx.set(dut.room, clock >= 10)
        for k, entry in enumerate(dut.ranges):
            # Entries elsewhere in the stack; from clock 20 to 29 all of them.
            ctx.set(entry, {"valid": k > 0 or 20 <= clock < 30, "first": 100 + k, "end": 101 + k})

    taken, _, _ = run(script)
    assert [clock for clock, _ in taken] == [*range(10, 20, 2), *range(30, 40, 2)]


def test_a_link_whose_refusal_waits_is_passed_over():
    def script(ctx, dut, clock):
        if clock == 0:
            ctx.set(dut.i[0].payload, request(0, pages=0))
            ctx.set(dut.i[1].valid, 0)
        ctx.set(dut.refused_taken, clock == 20)

    taken, accepted, refused = run(script)
    assert taken[0] == (0, 0)
    # Judged in clock 1, shown from clock 2 until taken.
    assert refused == [(clock, 0) for clock in range(2, 21)]
    assert (1, 0) not in accepted
    assert {link for clock, link in taken if 0 < clock <= 20} == {1}
    assert {link for clock, link in taken if clock > 20} == {0, 1}
