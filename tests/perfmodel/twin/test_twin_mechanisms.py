"""Mechanisms of the twin by themselves, against the contract of the block that each stands for."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from hw.gpu.router import Choice
from hw.hbf import base_die, read_issue, tsv_transfer
from hw.presets import preset
from hw.registers.hbf import hbf_resets
from hw.sram import fill_pipe, regions
from hw.ucie import transaction
from perfmodel.memory.twin.credits import BeatCredits
from perfmodel.memory.twin.events import Events, Wakes
from perfmodel.memory.twin.gates import PathGate
from perfmodel.memory.twin.latencies import LATENCIES
from perfmodel.memory.twin.pacer import FRAME, ONE, FramePacer, rate_register
from perfmodel.memory.twin.sensed import SensedPages
from perfmodel.memory.twin.trace import UNIT_BYTES, Path


def test_latencies_with_a_name_in_the_rtl_have_its_value():
    assert LATENCIES.readout == tsv_transfer.READOUT_CLOCKS
    assert LATENCIES.fill == fill_pipe.FILL_CLOCKS
    assert LATENCIES.read == regions.READ_CLOCKS
    assert LATENCIES.walk_depth == read_issue.DESCRIPTORS_PER_DIE
    assert LATENCIES.chunk_idle == base_die.CHUNK_IDLE_CLOCKS
    assert regions.GROUPS == FRAME
    assert transaction.ADDRESS_UNIT_BYTES == UNIT_BYTES
    assert {path.name: int(path) for path in Path} == {c.name: int(c) for c in Choice}


def test_rates_are_those_of_the_register_map():
    for name in ("mini", "paper", "openhbx", "hbfsim-g1"):
        machine, values = preset(name), hbf_resets(preset(name))
        assert rate_register(machine.link_beats_per_clock) == values["link_rate"]
        assert rate_register(machine.tsv_beats_per_clock_per_die) == values["tsv_rate"]


@given(
    rate=st.integers(ONE // 64, ONE),
    phase=st.integers(0, 3),
    waits=st.lists(st.integers(0, 30), max_size=40),
)
def test_pacer_grants_the_ticks_of_a_counter(rate, phase, waits):
    """A counter that looks at every frame, as the block does, says when each wish is granted."""
    pacer, saved, tick = FramePacer(rate, phase=phase), ONE, phase
    wanted = phase
    for wait in waits:
        wanted += wait
        while tick < wanted or saved + rate < ONE:
            saved, tick = min(ONE, saved + rate), tick + FRAME
        assert pacer.tick(wanted) == tick
        pacer.use(tick)
        saved, tick = min(ONE, saved + rate - ONE), tick + FRAME
        wanted = tick


@given(
    depth=st.integers(FRAME, 16),
    pages=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=30),
    way=st.integers(1, 40),
)
def test_credits_are_those_of_a_queue_of_that_depth(depth, pages, way):
    credits, under_way, clock = BeatCredits(depth), deque[int](), 0
    for wait, beats in pages:
        clock += wait
        ready = clock
        while depth - sum(back > ready for back in under_way) < FRAME:
            ready += 1
        assert credits.ready(clock) == ready
        back = [ready + way + k for k in range(beats)]
        credits.use(back)
        under_way += back
        clock = ready + FRAME


@given(depth=st.integers(1, 6), waits=st.lists(st.integers(1, 6), max_size=40))
def test_sensed_pages_wait_for_the_table_as_in_a_queue(depth, waits):
    """A memory of ``depth`` pages and a register behind it, looked at in every clock."""
    pages, memory, register, rests, clock = SensedPages(depth=depth), deque[int](), False, 0, 0

    def tick():
        nonlocal register, rests, clock
        takes = register and rests == 0
        rests = LATENCIES.table - 1 if takes else max(0, rests - 1)
        if memory and memory[0] < clock and (takes or not register):
            memory.popleft()
            register = True
        elif takes:
            register = False
        clock += 1

    for wait in waits:
        for _ in range(wait):
            tick()
        room = pages.room(clock)
        while len(memory) == depth:
            tick()
        assert room == clock
        pages.add(clock)
        memory.append(clock)


def test_a_path_without_credit_prepares_the_pages_of_one_region():
    machine, credit, told = preset("mini"), {}, []
    gate = PathGate(machine, ready=lambda clock: credit.get("from"), again=told.append)
    for clock in range(machine.geometry.wave_pages):
        assert gate.opens(clock)
        gate.issue()
    assert not gate.opens(200)
    assert gate.blocked
    credit["from"] = 210
    assert not gate.opens(201)
    assert told == [210]
    assert gate.opens(210)
    credit.clear()
    gate.sent()
    assert gate.opens(211)


def test_events_come_in_order_of_clock_phase_and_asking():
    events, seen = Events(), []
    for clock, phase, name in ((5, 1, "c"), (3, 2, "b"), (3, 0, "a"), (5, 1, "d"), (9, 0, "e")):
        events.at(clock, phase, lambda now, name=name: seen.append((now, name)))
    events.run(0)
    assert seen == [(3, "a"), (3, "b"), (5, "c"), (5, "d"), (9, "e")]


def test_a_clock_is_woken_once():
    events, seen = Events(), []
    wakes = Wakes(events, 0, lambda clock: (seen.append(clock), clock < 8 and wakes.at(clock + 4)))
    for clock in (4, 8, 4, 4):
        wakes.at(clock)
    events.run(0)
    assert seen == [4, 8]
