# amaranth: UnusedElaboratable=no
"""Write data into region slots: every beat once at its place, in fill clocks only."""

import dataclasses
import random
from collections import deque

import pytest
from amaranth.back import rtlil

from hw.hbf.layouts import token_layout
from hw.hbf.write_ingress import WriteIngress
from hw.params import Geometry
from hw.presets import preset
from hw.sram.macro import MacroPlatform
from hw.ucie.transaction import MessageClass
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.machines import TINY
from tests.hw.pysim import simulate


class Ends:
    """A sender of pages under credit, and a fill arbiter that takes beats into a plain dict."""

    def __init__(self, ingress, ctx, machine) -> None:
        self.ingress, self.ctx, self.machine = ingress, Quiet(ctx), machine
        self.credits = machine.credits.rx_beats
        self.beats: deque = deque()  # (die, subarray, region, beat, poison, number)
        self.rows: dict = {}  # (region, group, row) -> number of the beat
        self.written: list = []
        self.now = 0
        self.taken = 0
        self.page_ended = False

    def page(self, die: int, subarray: int, region: int, poison: int, number: int) -> None:
        """Queue a page whose beat ``b`` is poisoned if bit ``b`` of ``poison`` is set."""
        for b in range(4):
            self.beats.append((die, subarray, region, b, poison >> b & 1, 4 * number + b))

    async def clock(self, *, send: bool, open_: bool, cut: bool = False) -> None:
        port, ctx, machine = self.ingress.port, self.ctx, self.machine
        credit = ctx.get(port.credit)
        self.credits += credit
        assert self.credits <= machine.credits.rx_beats
        ctx.set(self.ingress.cut, cut)
        written = ctx.get(self.ingress.written)
        assert written.valid == self.page_ended
        if written.valid or ctx.get(self.ingress.want.valid):
            assert not ctx.get(self.ingress.idle)
        if written.valid:
            slot = written.die, written.slot.subarray, written.slot.region
            self.written.append((*slot, written.poison))

        send = bool(send and self.beats and self.credits)
        ctx.set(port.valid, send)
        if send:
            die, subarray, region, b, poison, number = self.beats.popleft()
            geometry = machine.geometry
            token = die + geometry.dies * (subarray + geometry.subarrays_per_die * region)
            ctx.set(
                port.header,
                {
                    "message_class": MessageClass.WRITE_DATA,
                    "credit": token,
                    "beat": b,
                    "page_end": b == 3,
                    "poison": poison,
                },
            )
            set_lanes(ctx, port, number)
            self.credits -= 1
        want = ctx.get(self.ingress.want)
        take = bool(want.valid and open_ and (self.now - want.group) % 2 == 0)
        ctx.set(self.ingress.take, take)
        self.page_ended = take and want.beat == 3
        if take:
            place = want.region, want.group, want.row
            assert place not in self.rows
            self.rows[place] = get_lanes(ctx, self.ingress)
            self.taken += 1
        await ctx.tick()
        self.now = (self.now + 1) % 4


def place(machine, die: int, subarray: int, region: int, beat: int) -> tuple[int, int, int]:
    """Where a beat belongs, as the read path has it."""
    return region, (beat + die) % 4, subarray * machine.geometry.dies + die


@pytest.mark.parametrize(("pace", "open_share"), [(1, 1), (0.5, 1), (1, 0.3), (0.6, 0.6)])
def test_every_slot_gets_its_beats(pace, open_share):
    """Each slot of both regions once, in random order."""
    machine, seed = TINY, 7
    rng = random.Random(seed)
    geometry = machine.geometry
    slots = [
        (d, s, r)
        for d in range(geometry.dies)
        for s in range(geometry.subarrays_per_die)
        for r in range(2)
    ]
    rng.shuffle(slots)
    poisons = [rng.choice([0, 0, rng.randrange(16)]) for _ in slots]
    ingress = WriteIngress(machine)

    async def bench(ctx):
        ends = Ends(ingress, ctx, machine)
        for number, (slot, poison) in enumerate(zip(slots, poisons, strict=True)):
            ends.page(*slot, poison, number)
        while len(ends.written) < len(slots):
            await ends.clock(send=rng.random() < pace, open_=rng.random() < open_share)
        assert ends.written == [
            (*slot, poison != 0) for slot, poison in zip(slots, poisons, strict=True)
        ]
        assert ends.rows == {
            place(machine, *slot, b): 4 * number + b
            for number, slot in enumerate(slots)
            for b in range(4)
        }
        for _ in range(3):
            await ends.clock(send=False, open_=True)
        assert ends.credits == machine.credits.rx_beats

    simulate(ingress, bench, clocks=3000)


@pytest.mark.parametrize("poison", range(16))
def test_poison_of_any_beat_is_that_of_its_page_alone(poison):
    machine = TINY
    ingress = WriteIngress(machine)

    async def bench(ctx):
        ends = Ends(ingress, ctx, machine)
        for number, page_poison in enumerate((0, poison, 0)):
            ends.page(number, 1, 0, page_poison, number)
        while len(ends.written) < 3:
            await ends.clock(send=True, open_=True)
        assert [page[-1] for page in ends.written] == [0, poison != 0, 0]

    simulate(ingress, bench, clocks=100)


@pytest.mark.parametrize("beats", range(5))
@pytest.mark.parametrize("poison", [0, 1, 2, 6, 15])
def test_a_torn_page_is_forgotten_with_its_poison(beats, poison):
    """``beats`` of a page came before the link was lost: only a whole one was written."""
    ingress = WriteIngress(TINY)

    async def bench(ctx):
        ends = Ends(ingress, ctx, TINY)
        ends.page(0, 1, 0, 0, 0)
        ends.page(1, 2, 1, poison, 1)
        for _ in range(4 - beats):
            ends.beats.pop()
        for clock in range(40):
            await ends.clock(send=True, open_=clock > 20)
            if clock < 20 and clock > 3:
                assert not ctx.get(ingress.idle)
        assert ctx.get(ingress.idle)
        whole = [(1, 2, 1, poison != 0)] if beats == 4 else []
        assert ends.written == [(0, 1, 0, 0), *whole]
        for _ in range(5):
            await ends.clock(send=True, open_=True, cut=True)
            assert ctx.get(ingress.idle)
        assert ends.credits == TINY.credits.rx_beats
        ends.written.clear()
        for number, bad in enumerate((0, 8, 0)):
            ends.page(number, 3, 0, bad, 10 + number)
        while len(ends.written) < 3:
            await ends.clock(send=True, open_=True)
        assert ends.written == [(0, 3, 0, 0), (1, 3, 0, 1), (2, 3, 0, 0)]

    simulate(ingress, bench, clocks=200)


@pytest.mark.parametrize("die", range(4))
@pytest.mark.parametrize("phase", range(4))
def test_one_beat_a_clock_to_one_die(die, phase):
    """Whole pages of one die go to groups 0 to 3 in turn, so at most the first beat waits."""
    machine = dataclasses.replace(
        TINY, credits=dataclasses.replace(TINY.credits, rx_beats=16), name="deep"
    )
    ingress = WriteIngress(machine)

    async def bench(ctx):
        ends = Ends(ingress, ctx, machine)
        for _ in range(phase):
            await ends.clock(send=False, open_=True)
        for number in range(8):
            ends.page(die, number % 4, number // 4, 0, number)
        clocks = 0
        while ends.taken < 32:
            await ends.clock(send=True, open_=True)
            clocks += 1
        assert clocks == 2 + (phase + 2 - die) % 2 + 32  # queue, wait for the fill clock, beats

    simulate(ingress, bench, clocks=100)


def test_a_stalled_beat_stays_and_the_queue_takes_all_credits():
    machine = TINY
    ingress = WriteIngress(machine)

    async def bench(ctx):
        ends = Ends(ingress, ctx, machine)
        for number in range(4):
            ends.page(number, 0, 1, 0, number)
        for clock in range(30):
            await ends.clock(send=True, open_=False)
            if clock >= 3:
                want = ctx.get(ingress.want)
                assert (want.valid, want.row, want.beat) == (1, 0, 0)
        assert len(ends.beats) == 16 - machine.credits.rx_beats
        assert ends.credits == 0
        while len(ends.written) < 4:
            await ends.clock(send=True, open_=True)

    simulate(ingress, bench, clocks=200)


def test_token_fits_the_header_at_full_size():
    layout = token_layout(preset("paper"))
    assert [(name, field.offset, field.width) for name, field in layout] == [
        ("die", 0, 4),
        ("subarray", 4, 7),
        ("region", 11, 1),
    ]


def test_a_stack_with_too_many_slots_is_refused():
    geometry = Geometry(dies=256, planes=64, subarrays=4, blocks_per_subarray=1)
    machine = dataclasses.replace(
        preset("paper"),
        geometry=geometry,
        sram=dataclasses.replace(preset("paper").sram, hbf_region_bytes=geometry.wave_bytes),
    )
    with pytest.raises(ValueError, match="17 bits"):
        WriteIngress(machine)


def test_converts():
    rtlil.convert(WriteIngress(preset("formal")), platform=MacroPlatform())
