"""Content, checker and delivery monitor: the judges are judged first."""

import random

import pytest
from amaranth.sim import Simulator

from hw.presets import preset
from tb.vip.checker import BeatChecker
from tb.vip.content import (
    WORD,
    BeatContent,
    Form,
    beat_lanes,
    blank_lanes,
    garbage_lanes,
    lane_rotations,
)
from tb.vip.delivery import DeliveryMonitor
from tests.hw.beats import Quiet
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

LANES = TINY.lanes
PAPER_LANES = preset("paper").lanes


@pytest.mark.parametrize("stack", [0, 1, 7])
def test_content_in_hardware_is_that_in_python(stack):
    pick = random.Random(stack)
    dut = BeatContent(stack=stack, lanes=PAPER_LANES)
    beats = [0, 1, 2**40 - 1, *(pick.getrandbits(40) for _ in range(20))]

    def expected(beat, version, form):
        if form is Form.BLANK:
            return blank_lanes(PAPER_LANES)
        if form is Form.GARBAGE:
            return garbage_lanes(stack, beat, PAPER_LANES)
        return beat_lanes(stack, beat, PAPER_LANES, version)

    async def bench(ctx):
        for beat in beats:
            for version, form in (
                (0, Form.WRITTEN),
                (255, Form.WRITTEN),
                (pick.randrange(256), Form.WRITTEN),
                (0, Form.BLANK),
                (0, Form.GARBAGE),
            ):
                ctx.set(dut.beat, beat)
                ctx.set(dut.version, version)
                ctx.set(dut.form, form)
                found = [ctx.get(lane) for lane in dut.lanes]
                assert found == expected(beat, version, form), f"{beat}, {version}, {form}"

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()


def test_no_two_lanes_of_many_beats_are_alike():
    """Swapped lanes, beats, pages, stacks or versions would be seen."""
    assert len({lane_rotations(k) for k in range(PAPER_LANES)}) == PAPER_LANES
    words = [
        word
        for stack in range(2)
        for version in (0, 1, 254, 255)
        for beat in (*range(100), *range(2**39, 2**39 + 100))
        for word in beat_lanes(stack, beat, PAPER_LANES, version)
    ]
    assert len(set(words)) == len(words)
    assert 0 not in words  # what a memory holds that was never written
    # All bits of all lanes change, or stuck ones would go unseen.
    for k in range(PAPER_LANES):
        of_lane = words[k::PAPER_LANES]
        ones = [sum(word >> bit & 1 for word in of_lane) for bit in range(64)]
        shares = [count / len(of_lane) for count in ones]
        assert shares == pytest.approx([0.5] * 64, abs=0.1), f"lane {k}"


@pytest.mark.parametrize("version", [0, 1, 128, 255])
def test_a_version_is_in_plain_and_in_every_lane(version):
    for beat in (0, 77):
        lanes = beat_lanes(0, beat, PAPER_LANES, version)
        assert lanes[0] & 255 == version
        other = beat_lanes(0, beat, PAPER_LANES, version ^ 1)
        assert all(a != b for a, b in zip(lanes, other, strict=True))


def test_what_nobody_wrote_is_never_right():
    for beat in (0, 5, 2**40 - 1):
        for lanes in (blank_lanes(LANES), garbage_lanes(1, beat, LANES)):
            seen = lanes[0] & 255
            right = beat_lanes(1, beat, LANES, seen)
            assert all(a != b for a, b in zip(lanes[1:], right[1:], strict=True))
            assert all(0 <= word <= WORD for word in lanes)


def test_checker_catches_every_flipped_bit_and_poison():
    dut = BeatChecker(TINY, stack=1, seed=3)
    beat = 1234
    right = beat_lanes(1, beat, LANES)

    async def bench(ctx):
        ctx = Quiet(ctx)
        counted = errors = 0

        async def feed(lanes, poison=0, address=beat):
            for lane, word in zip(dut.i.lanes, lanes, strict=True):
                ctx.set(lane, word)
            ctx.set(dut.i.header, {"address": address, "poison": poison})
            await ctx.tick()

        ctx.set(dut.i.valid, 1)
        for lane in range(LANES):
            for bit in range(64):
                await feed([word ^ (k == lane) << bit for k, word in enumerate(right)])
                counted, errors = counted + 1, errors + 1
                assert ctx.get(dut.errors) == errors, f"bit {bit} of lane {lane}"
        await feed(right, poison=1)
        await feed(right, address=beat + 1)
        await feed(beat_lanes(0, beat, LANES))  # of the other stack
        assert ctx.get(dut.errors) == errors + 3
        for k in range(50):
            await feed(beat_lanes(1, k, LANES), address=k)
        assert ctx.get(dut.errors) == errors + 3
        assert ctx.get(dut.beats) == counted + 3 + 50
        assert ctx.get(dut.address_sum) == beat * (counted + 2) + (beat + 1) + 49 * 50 // 2

    simulate(dut, bench, clocks=1000)


def test_checker_sums_tell_old_data_from_new():
    pick = random.Random(7)
    dut = BeatChecker(TINY, stack=1, seed=3)
    came = [(pick.getrandbits(34), pick.randrange(256)) for _ in range(60)]

    async def bench(ctx):
        ctx = Quiet(ctx)
        ctx.set(dut.i.valid, 1)

        async def feed(number, version, seen=None):
            lanes = beat_lanes(1, number, LANES, version)
            if seen is not None:
                lanes[0] = lanes[0] & ~255 | seen
            for lane, word in zip(dut.i.lanes, lanes, strict=True):
                ctx.set(lane, word)
            ctx.set(dut.i.header, {"address": number})
            await ctx.tick()

        for number, version in came:
            await feed(number, version)
        assert ctx.get(dut.errors) == 0
        assert ctx.get(dut.version_sum) == sum(version for _, version in came)
        total = sum(number * version for number, version in came)
        assert ctx.get(dut.versioned_sum) == total % 2**64
        await feed(1 << 33, 6)  # which should have been version 7
        assert ctx.get(dut.versioned_sum) == (total + (1 << 33) * 6) % 2**64
        assert ctx.get(dut.errors) == 0
        await feed(1, 6, seen=7)
        assert ctx.get(dut.errors) == 1

    simulate(dut, bench, clocks=1000)


@pytest.mark.parametrize("stall", [0, 1, 64, 200, 255, 256])
@pytest.mark.parametrize("seed", [0, 5])
def test_checker_stalls_as_often_as_told(stall, seed):
    dut = BeatChecker(TINY, stack=0, seed=seed)
    clocks = 3000

    async def bench(ctx):
        ctx.set(dut.stall, stall)
        ctx.set(dut.i.valid, 1)
        await ctx.tick().repeat(clocks)
        share = 1 - stall / 256
        deviation = (clocks * share * (1 - share)) ** 0.5
        assert ctx.get(dut.beats) == pytest.approx(clocks * share, abs=4 * deviation)

    simulate(dut, bench, clocks=clocks + 10)


@pytest.mark.parametrize("pairs", [1, 2])
def test_delivery_stamps_first_last_and_wave_ends(pairs):
    pick = random.Random(pairs)
    dut = DeliveryMonitor(TINY, pairs=pairs, sources=2 * pairs)
    wave_beats = 16 * 4 * pairs  # a page from each subarray of 4 dies of 4

    async def bench(ctx):
        ctx = Quiet(ctx)
        accepts, arrivals, ends = [], [], []  # clocks
        total = 0
        for clock in range(1500):
            stamps = [ctx.get(getattr(dut, name)) for name in ("clock", "accepted", "first_beat")]
            stamps += [ctx.get(dut.last_beat), ctx.get(dut.wave_end), ctx.get(dut.waves)]
            assert stamps == [
                clock,
                accepts[0] if accepts else 0,
                arrivals[0] if arrivals else 0,
                arrivals[-1] if arrivals else 0,
                ends[-1] if ends else 0,
                len(ends),
            ], f"clock {clock}, pairs {pairs}"
            accept = clock > 10 and pick.random() < 0.05
            ctx.set(dut.accept, accept)
            if accept:
                accepts.append(clock)
            beats = pick.randint(0, 2 * pairs) if accepts and pick.random() < 0.7 else 0
            ctx.set(dut.beats, beats)
            if beats:
                arrivals.append(clock)
            if (total + beats) // wave_beats > total // wave_beats:
                ends.append(clock)
            total += beats
            await ctx.tick()
        assert len(ends) > 5

    simulate(dut, bench, clocks=2000)
