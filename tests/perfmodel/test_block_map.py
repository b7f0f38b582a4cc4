"""Owners of erase blocks: no block has two, and every page knows its owner."""

import random

import pytest

from hw.address_map import AddressMap
from hw.errors import InputError
from hw.presets import preset
from hw.ucie.transaction import Owner
from perfmodel.memory.block_map import BlockMap, Region

GEOMETRY = preset("mini").geometry  # 8 planes, 16 blocks a subarray, 16 pages a block, 4 dies
AT = AddressMap(GEOMETRY)
EMPTY = BlockMap(map=AT)
NUMBER_PAGES = 2048  # of the blocks of one number: 128 subarrays of 16 pages


def pages(runs):
    return [p for first, n in runs for p in range(first, first + n)]


def test_weights_and_kv_never_share_an_erase_block():
    """By asking every page of the stack."""
    blocks = EMPTY.allocate("experts", Owner.WEIGHT, pages=3 * NUMBER_PAGES + 1)
    blocks = blocks.allocate("kv", Owner.KV, pages=500, planes=range(7, 8))
    blocks = blocks.allocate("shared", Owner.WEIGHT, pages=10, planes=range(0, 7))
    owners = {}
    for page in range(GEOMETRY.stack_pages):
        owners.setdefault(int(AT.block(page)), set()).add(blocks.owner(page))
    assert all(len(of_block) == 1 for of_block in owners.values())
    assert set.union(*owners.values()) == {Owner.NONE, Owner.WEIGHT, Owner.KV}


@pytest.mark.parametrize("seed", range(5))
def test_regions_hold_what_was_asked_and_do_not_meet(seed):
    pick = random.Random(seed)
    blocks, asked = EMPTY, {}
    for k in range(8):
        first = pick.randrange(8)
        planes = range(first, pick.randint(first + 1, 8))
        size = pick.randint(1, 3000)
        try:
            owner = pick.choice((Owner.WEIGHT, Owner.KV))
            blocks = blocks.allocate(f"r{k}", owner, pages=size, planes=planes)
        except InputError:
            continue  # no room any more
        asked[f"r{k}"] = (size, planes, owner)
    assert len(asked) > 2
    seen = set()
    for name, (size, planes, owner) in asked.items():
        own = pages(blocks.runs(name))
        assert len(own) >= size
        assert not seen & set(own)
        seen |= set(own)
        assert {int(AT.place(page).plane) for page in own} == set(planes)
        assert {blocks.owner(page) for page in pick.sample(own, 20)} == {owner}


def test_lowest_free_blocks_are_taken():
    blocks = EMPTY.allocate("a", Owner.WEIGHT, pages=NUMBER_PAGES)
    blocks = blocks.allocate("b", Owner.KV, pages=1, planes=range(4))
    blocks = blocks.allocate("c", Owner.KV, pages=1, planes=range(4, 8))
    blocks = blocks.allocate("d", Owner.WEIGHT, pages=NUMBER_PAGES + 1)
    assert [r.blocks for r in blocks.regions] == [range(1), range(1, 2), range(1, 2), range(2, 4)]
    assert blocks.rows("d") == range(32, 64)
    assert EMPTY.regions == ()  # an allocation changes nothing


def test_a_full_stack_refuses_more():
    full = EMPTY.allocate("all", Owner.WEIGHT, pages=GEOMETRY.stack_pages)
    with pytest.raises(InputError, match=r"region 'kv' of 1 pages takes 1 blocks"):
        full.allocate("kv", Owner.KV, pages=1)


def region(name="x", owner=Owner.KV, planes=range(8), blocks=range(1)):
    return Region(name=name, owner=owner, planes=planes, blocks=blocks)


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ([region(owner=Owner.NONE)], "region 'x' has owner NONE: must be WEIGHT or KV"),
        ([region(planes=range(9))], r"region 'x' has planes range\(0, 9\)"),
        ([region(blocks=range(0))], r"region 'x' has blocks range\(0, 0\)"),
        ([region(blocks=range(16, 17))], r"region 'x' has blocks range\(16, 17\)"),
        ([region(), region(blocks=range(1, 2))], "region 'x' is there twice"),
        ([region("w", Owner.WEIGHT), region("k")], "no erase block may have two owners"),
        (
            [region("w", planes=range(5), blocks=range(3)), region("k", planes=range(4, 8))],
            "of which region 'w' owns some",
        ),
    ],
)
def test_impossible_regions_are_refused(regions, message):
    with pytest.raises(InputError, match=message):
        BlockMap(map=AT, regions=tuple(regions))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EMPTY.allocate("kv", Owner.KV, pages=0), "pages is 0"),
        (lambda: EMPTY.allocate("kv", Owner.KV, pages=1, planes=range(0)), "planes range"),
        (lambda: EMPTY.allocate("kv", Owner.NONE, pages=1), "owner NONE"),
        (lambda: EMPTY.runs("kv"), "region 'kv' is unknown: there are none"),
    ],
)
def test_wrong_allocations_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
