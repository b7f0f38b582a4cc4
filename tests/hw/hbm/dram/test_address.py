"""The address map: every access has one place, and consecutive ones meet all banks groups."""

import dataclasses
import itertools

import pytest
from amaranth.hdl import Module, Signal

from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.description import FIELDS, DramOrganization
from hw.hbm.dram.layouts import place_layout
from hw.hbm.dram.stacks import stack
from tests.hw.pysim import simulate

SMALL = dataclasses.replace(
    stack("mini"),
    organization=DramOrganization(
        pseudo_channels=2, stack_ids=2, bank_groups=2, banks=2, rows=5, row_bytes=128
    ),
)  # fmt: skip
ORDERS = [(*order, "row") for order in itertools.permutations(FIELDS[:-1])]


@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("order", ORDERS[::5])
def test_every_access_has_a_place_of_its_own(order, hashes):
    at = HbmAddressMap(dataclasses.replace(SMALL, order=order, hashes_banks=hashes))
    places = {at.place(address) for address in range(SMALL.accesses)}
    assert len(places) == SMALL.accesses == 2 * 8 * 5 * 2
    assert all(at.address(at.place(address)) == address for address in range(SMALL.accesses))


@pytest.mark.parametrize("order", ORDERS[::7])
def test_logic_says_the_same(order):
    at = HbmAddressMap(dataclasses.replace(SMALL, order=order))
    m = Module()
    local, place = Signal(range(SMALL.accesses // 2)), Signal(place_layout(SMALL))
    bank, row, column = at.fields(local)
    m.d.comb += [place.bank.eq(bank), place.row.eq(row), place.column.eq(column)]

    async def bench(ctx):
        for address in range(0, SMALL.accesses, 2):
            ctx.set(local, address // 2)
            expected = at.place(address)
            found = ctx.get(place)
            assert (found.bank, found.row, found.column) == (
                expected.bank, expected.row, expected.column,
            )  # fmt: skip

    top = Module()
    top.submodules += m
    clocked = Signal()
    top.d.sync += clocked.eq(~clocked)
    simulate(top, bench, clocks=1)


def test_a_beat_takes_one_access_of_each_pseudo_channel_of_a_half():
    which = stack("hbm3e-9200")
    at = HbmAddressMap(which)
    for beat in (0, 1, 77, which.accesses // 16 - 1):
        places = [at.place(16 * beat + k) for k in range(16)]
        assert [p.channel for p in places] == list(range(16 * (beat % 2), 16 * (beat % 2) + 16))
        assert len({(p.bank, p.row, p.column) for p in places}) == 1


def test_consecutive_accesses_of_a_channel_take_turns_among_bank_groups():
    which = stack("hbm3e-9200")
    at, o = HbmAddressMap(which), which.organization
    local = [at.place(32 * k + 5) for k in range(2 * 4096)]
    for four in range(0, len(local), 4):
        assert len({p.bank // o.banks for p in local[four : four + 4]}) == 4
    # 64 accesses use up a row of each group; then come other banks, whose rows can open meanwhile.
    rows = [{(p.bank, p.row) for p in local[k : k + 64]} for k in range(0, len(local), 64)]
    assert all(len(each) == 4 for each in rows)
    assert all(a.isdisjoint(b) for a, b in itertools.pairwise(rows))


@pytest.mark.parametrize("hashes", [False, True])
def test_a_stride_of_a_row_of_all_banks_meets_all_banks_if_hashed(hashes):
    which = dataclasses.replace(stack("hbm3e-9200"), hashes_banks=hashes)
    at, o = HbmAddressMap(which), which.organization
    stride = which.accesses // o.rows
    banks = {at.place(stride * row).bank for row in range(64)}
    assert len(banks) == (o.bank_groups * o.banks if hashes else 1)


def test_addresses_end_with_the_stack():
    at = HbmAddressMap(SMALL)
    with pytest.raises(ValueError, match="address is 160: must be below 160"):
        at.place(SMALL.accesses)
