"""Lifetime figures of the block ledger; its rules are compared with the RTL in tests/hw/hbf."""

import math

import pytest

from hw.errors import InputError
from hw.presets import preset
from hw.ucie.codes import Owner, Status
from perfmodel.memory.blocks import Block, BlockEntry, BlockLedger

GEOMETRY = preset("formal").geometry  # 2 dies of 2 subarrays with 2 blocks of 2 pages
A, B = Block(die=0, subarray=1, block=0), Block(die=1, subarray=0, block=1)


def life(ledger: BlockLedger, block: Block, *, relocated: bool = False) -> None:
    """All pages are written and die, and the block is collected."""
    for page in range(2):
        ledger.admit(block, page, Owner.KV, relocated=relocated)
    ledger.trim(block, 0)
    ledger.trim(block, 1)
    assert ledger.dead == (block,)
    assert ledger.collect(block).erase


def test_wear_of_lives() -> None:
    ledger = BlockLedger(GEOMETRY)
    for _ in range(3):
        life(ledger, A)
    life(ledger, B, relocated=True)
    for _ in range(4):
        ledger.sensed(B)
    # An erase that a write asks for counts when it has finished.
    ledger.admit(B, 0, Owner.WEIGHT)
    assert ledger.admit(B, 0, Owner.WEIGHT).erase
    assert ledger.wear.erases == 4
    ledger.erased(B)
    wear = ledger.wear
    assert (wear.blocks, wear.erases, wear.collected, wear.max_cycles) == (8, 5, 4, 3)
    assert (wear.pages_programmed, wear.pages_relocated, wear.reads) == (10, 2, 4)
    assert (wear.mean_cycles, wear.mean_reads) == (5 / 8, 4 / 8)
    assert wear.write_amplification == 10 / 8
    assert {block: entry.erase_cycles for block, entry in ledger.entries.items()} == {A: 3, B: 2}
    assert ledger.query(B).reads == 0  # since the erase
    assert ledger.query(Block(die=1, subarray=1, block=1)) == BlockEntry()


def test_write_amplification_without_host_writes() -> None:
    ledger = BlockLedger(GEOMETRY)
    assert ledger.wear.write_amplification == 1
    ledger.admit(A, 1, Owner.KV)  # refused
    assert ledger.wear.pages_programmed == 0
    ledger.admit(A, 0, Owner.KV, relocated=True)
    assert ledger.wear.write_amplification == math.inf


def test_dead_blocks_in_order_of_death() -> None:
    ledger = BlockLedger(GEOMETRY)
    for block in (A, B):
        ledger.admit(block, 0, Owner.KV)
        ledger.admit(block, 1, Owner.KV)
    for block, page in ((B, 0), (A, 0), (B, 1), (A, 1)):
        assert ledger.trim(block, page).status is Status.OK
    assert ledger.dead == (B, A)
    ledger.release(B)
    assert ledger.dead == (A,)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"die": 2}, r"Block\.die is 2: must be 0 to 1"),
        ({"subarray": -1}, r"Block\.subarray is -1: must be 0 to 1"),
        ({"block": 2}, r"Block\.block is 2: must be 0 to 1"),
    ],
)
def test_no_such_block(where: dict[str, int], message: str) -> None:
    block = Block(**{"die": 0, "subarray": 0, "block": 0, **where})
    with pytest.raises(InputError, match=message):
        BlockLedger(GEOMETRY).sensed(block)


def test_no_such_page() -> None:
    with pytest.raises(InputError, match="page is 2: must be 0 to 1"):
        BlockLedger(GEOMETRY).admit(A, 2, Owner.KV)
