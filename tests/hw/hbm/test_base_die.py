"""HBM base die: passes requests on in order, and holds no memory but the relay SRAM."""

import random
from collections import deque

from amaranth.back import rtlil

from hw.hbm.base_die import HbmBaseDie
from tests.hw.beats import Quiet
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


def test_relay_path_holds_no_memory_but_its_two_regions():
    text = rtlil.convert(HbmBaseDie(TINY))
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
    # Two regions of 1 KiB, and of the rest (labels, requests) no lane of 64 bits a beat.
    assert sum(stored) == 2 * 1024 * 8
    assert all(rows <= 2 * 4 for name, bits, rows in sizes if ".bank" not in name)
