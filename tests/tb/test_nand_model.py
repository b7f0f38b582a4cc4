"""The plain-Python NAND: what it lets pass, and every rule that it keeps."""

import pytest

from hw.hbf.layouts import Command
from hw.params import Sensing
from hw.presets import preset
from tb.vip.content import beat_lanes, blank_lanes, garbage_lanes
from tb.vip.nand_model import NandModel
from tb.vip.nand_state import NandRuleBroken

SENSE, LATCH = Command.SENSE, Command.LATCH
MACHINE = preset("mini")
T_READ = 375  # clocks: 187.5 ns at 2 GHz
LANE_CLOCKS = 3  # more than 2.56, which a beat takes on its lane


def nand(**settings):
    return NandModel(MACHINE.with_registers(**settings))


def wait(model, clocks):
    for _ in range(clocks):
        model.step()


def sensed(model, *, die=1, subarray=2, row=3, clocks=T_READ):
    model.command(die, SENSE, subarray, row)
    wait(model, clocks)


def latched(model, **where):
    sensed(model, **where)
    model.command(where.get("die", 1), LATCH, where.get("subarray", 2), 0)


def read_out(model, *, die=1, subarray=2, beats=range(4), clocks=LANE_CLOCKS):
    numbers = []
    for beat in beats:
        wait(model, clocks)
        numbers.append(model.readout(die, subarray, beat, beat == 3)[0])
    return numbers


def test_page_comes_out_in_four_beats():
    model = nand()
    latched(model)
    page = (3 * 32 + 2) * 4 + 1  # row, then 32 subarrays, then 4 dies
    assert read_out(model) == [4 * page + beat for beat in range(4)]
    assert model.read_out == {page: 1}
    assert model.senses == 1
    assert model.idle


def test_cache_read_senses_while_the_page_before_waits():
    model = nand()
    latched(model)
    sensed(model, row=4)
    assert not model.idle
    read_out(model)
    model.command(1, LATCH, 2, 0)
    assert read_out(model)[0] == 4 * ((4 * 32 + 2) * 4 + 1)


def test_without_cache_read_the_page_before_must_be_out():
    model = nand(cache_read=False)
    latched(model)
    with pytest.raises(NandRuleBroken, match="SENSE without cache read"):
        sensed(model, row=4)
    read_out(model, beats=range(4))
    sensed(model, row=4)


@pytest.mark.parametrize("clocks", [0, 1, T_READ - 1])
def test_latch_before_t_read(clocks):
    model = nand()
    with pytest.raises(NandRuleBroken, match=f"LATCH after {clocks} of 375 clocks"):
        sensed(model, clocks=clocks)
        model.command(1, LATCH, 2, 0)


def test_latch_without_sense():
    model = nand()
    latched(model)
    read_out(model)
    with pytest.raises(NandRuleBroken, match="LATCH without SENSE"):
        model.command(1, LATCH, 2, 0)


def test_latch_over_a_page():
    model = nand()
    latched(model)
    sensed(model)
    read_out(model, beats=range(3))
    with pytest.raises(NandRuleBroken, match="LATCH over a page"):
        model.command(1, LATCH, 2, 0)


def test_sense_over_a_page():
    model = nand()
    sensed(model)
    with pytest.raises(NandRuleBroken, match="SENSE over a page"):
        sensed(model, row=9)


@pytest.mark.parametrize("where", [{"die": 0}, {"subarray": 3}])
def test_readout_of_nothing(where):
    model = nand()
    latched(model)
    with pytest.raises(NandRuleBroken, match="empty cache register"):
        read_out(model, **where)


@pytest.mark.parametrize("beats", [(1, 1), (0, 0), (0, 1, 3), (2, 1), (0, 1, 2, 3, 0)])
def test_readout_out_of_order(beats):
    model = nand()
    latched(model)
    with pytest.raises(NandRuleBroken, match="read-out of beat"):
        read_out(model, beats=beats)


def test_part_of_a_page_may_be_read():
    model = nand()
    latched(model)
    page = (3 * 32 + 2) * 4 + 1
    wait(model, LANE_CLOCKS)
    assert model.readout(1, 2, 1, False) == (4 * page + 1, beat_lanes(0, 4 * page + 1, 8))
    wait(model, LANE_CLOCKS)
    assert model.readout(1, 2, 2, True) == (4 * page + 2, beat_lanes(0, 4 * page + 2, 8))
    assert model.idle
    assert model.read_out == {page: 1}


@pytest.mark.parametrize(("clocks", "fast"), [(LANE_CLOCKS, False), (2, True)])
def test_lane_has_a_rate(clocks, fast):
    model = nand()
    for subarray in range(8):
        latched(model, subarray=subarray)
    pages = [(subarray, beat) for subarray in range(8) for beat in range(4)]

    def read_all():
        for subarray, beat in pages:
            read_out(model, subarray=subarray, beats=(beat,), clocks=clocks)

    if fast:
        with pytest.raises(NandRuleBroken, match="outrun the TSV lane"):
            read_all()
    else:
        read_all()


@pytest.mark.parametrize(("cache_read", "late"), [(True, 310), (True, 311), (False, 380)])
def test_lockstep_waits_for_the_wave_before(cache_read, late):
    model = nand(sensing=Sensing.LOCKSTEP, cache_read=cache_read)
    wait(model, 100)
    model.command(0, SENSE, 0, 0)
    wait(model, 63)
    model.command(3, SENSE, 31, 0)  # a wave begins within two clocks for each of 32 subarrays
    wait(model, late - 63)
    if cache_read and late == 311:  # tR less the 64 clocks of a window
        model.command(1, SENSE, 5, 0)
        assert model.senses == 3
        return
    with pytest.raises(NandRuleBroken, match="the one before still senses"):
        model.command(1, SENSE, 5, 0)


def test_independent_sensing_does_not_wait():
    model = nand()
    model.command(0, SENSE, 0, 0)
    wait(model, 200)
    model.command(1, SENSE, 5, 0)
    assert model.senses == 2


def program(model, row, beats, *, die=1, subarray=2):
    model.command(die, Command.LOAD, subarray, row)
    for beat, lanes in enumerate(beats):
        wait(model, LANE_CLOCKS)
        model.writein(die, subarray, beat, lanes)
    wait(model, 1)
    model.command(die, Command.PROGRAM, subarray, row)
    wait(model, MACHINE.nand_cycles["t_program"])


def page_read(model, row):
    latched(model, row=row)
    found = []
    for beat in range(4):
        wait(model, LANE_CLOCKS)
        found.append(model.readout(1, 2, beat, beat == 3)[1])
    return found


# Any bytes will do, not only content of the address.
DATA = [[beat << 8 | lane for lane in range(8)] for beat in range(4)]


def test_bytes_that_were_programmed_come_back_until_erased():
    model = NandModel(MACHINE, stack=1)
    program(model, 16, DATA)
    page = (16 * 32 + 2) * 4 + 1
    assert page_read(model, 16) == DATA
    assert page_read(model, 17) == [beat_lanes(1, 4 * (page + 128) + b, 8) for b in range(4)]
    assert model.written == {page: DATA}
    model.command(1, Command.ERASE, 2, 20)
    wait(model, MACHINE.nand_cycles["t_erase"])
    assert model.written == {}
    for row in (16, 17, 31):
        assert page_read(model, row) == [blank_lanes(8)] * 4
    assert page_read(model, 32)[0] == beat_lanes(1, 4 * (page + 16 * 128), 8)


def test_failures_are_reported_and_leave_garbage():
    asked = []

    def fails(erase, die, subarray, row):
        asked.append((erase, die, subarray, row))
        return row == 17

    model = NandModel(MACHINE, fails=fails)
    for row in (16, 17, 18):
        program(model, row, DATA)
        assert model.command(1, Command.STATUS, 2, 0) == (True, row == 17)
    assert asked == [(False, 1, 2, row) for row in (16, 17, 18)]
    assert page_read(model, 16) == page_read(model, 18) == DATA
    page = (17 * 32 + 2) * 4 + 1
    assert page_read(model, 17) == [garbage_lanes(0, 4 * page + beat, 8) for beat in range(4)]


def test_status_of_what_runs():
    model = nand()
    assert model.command(1, Command.STATUS, 2, 0) == (True, False)
    model.command(1, Command.ERASE, 2, 0)
    wait(model, MACHINE.nand_cycles["t_erase"] - 1)
    assert not model.idle
    assert model.command(1, Command.STATUS, 2, 0) == (False, False)
    wait(model, 1)
    assert model.command(1, Command.STATUS, 2, 0) == (True, False)
    assert model.idle
