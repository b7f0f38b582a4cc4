"""What must hold when all is quiet: the NAND's memory and the registers of the base die."""

from random import Random

from hw.ucie.transaction import Route
from perfmodel.memory.blocks import Block
from tb.coverage.package import StackCoverage
from tb.vip.block_query import query_block
from tb.vip.injector import Injector
from tb.vip.nand_model import BEATS, NandModel
from tb.vip.page_contents import ANYTHING, PageContents, content_of, name
from tb.vip.registers import RegisterAccess
from tb.vip.scoreboard import Scoreboard
from tb.vip.stack import Stack

QUESTIONS = 8  # to the block table


def check_memory(contents: PageContents, model: NandModel) -> None:
    """Every page that was ever written to or erased holds what it must."""
    for page in contents.pages:
        want = contents.latest(page)
        if want == ANYTHING:
            continue
        beats = model.stored(page)
        for beat in range(BEATS):
            have = content_of(model.stack, page * BEATS + beat, beats(beat))
            assert have == want, (
                f"stack {model.stack}: beat {beat} of page {page} holds {name(have)} at the end, "
                f"not {name(want)}"
            )


async def check_counters(
    registers: RegisterAccess,
    board: Scoreboard,
    pair: int,
    stack: Stack,
    injector: Injector,
    random: Random,
    *,
    resets: int,
) -> None:
    """Counters and error log of one base die, and what its block tables say of some blocks.

    With ``resets`` of links bit errors may lie in pages that were dropped, so that nobody hears of
    them, or were not even read.
    """
    writes = board.writes.stacks[pair]
    counts, commands = writes.counts, stack.counts
    want = {
        "issued_direct": board.issued[Route.DIRECT, pair],
        "issued_relay": board.issued[Route.RELAY, pair],
        "max_cycles": writes.ledger.wear.max_cycles,
        "suspends": commands["SUSPEND"],
        **{
            name: counts[name]
            for name in (
                "pages_programmed",
                "pages_relocated",
                "program_failures",
                "erases",
                "erase_failures",
                "collected",
            )
        },
    }
    have = {name: await registers.read(name) for name in want}
    assert have == want, f"stack {pair}: counters are {have}, not {want}"
    assert commands["PROGRAM"] == counts["programs"]

    corrected = await registers.read("ecc_corrected")
    uncorrected = await registers.read("ecc_uncorrected")
    found = f"stack {pair}: {corrected} words corrected, {uncorrected} not"
    planted = f"{injector.single} and {injector.double} planted"
    if injector.certain and not resets:
        assert (corrected, uncorrected) == (injector.single, injector.double), f"{found}, {planted}"
    assert corrected <= injector.single and uncorrected <= injector.double, f"{found}, {planted}"
    # What could not be corrected came with poison, or its page failed.
    poisoned = board.poisoned[pair]
    assert poisoned + counts["poisoned_pages"] <= uncorrected, f"{found}, {poisoned} beats poisoned"
    most = poisoned + 4 * counts["poisoned_pages"] + 4 * counts["program_failures"]
    assert uncorrected <= most or resets
    if not counts["program_failures"] and not resets:
        assert poisoned == uncorrected, f"{found}, {poisoned} beats poisoned"

    entries = sorted(writes.ledger.entries)
    for block in random.sample(entries, min(QUESTIONS, len(entries))):
        await _check_block(registers, block, writes.ledger.query(block), pair)


async def _check_block(registers: RegisterAccess, block: Block, entry, pair: int) -> None:
    have = await query_block(registers, block.die, block.subarray, block.block)
    del have["reads"]  # the ledger knows writes only
    want = {
        "owner": int(entry.owner),
        "dirty": int(entry.dirty),
        "failed": int(entry.failed),
        "next": entry.next_page,
        "live": entry.live_pages,
        "cycles": entry.erase_cycles,
    }
    assert have == want, f"stack {pair}: {block} is {have}, the ledger says {want}"


async def check_blocking(registers: RegisterAccess, covered: StackCoverage) -> None:
    """What held up reads, as registers count it and as the bench saw it; all slots are free."""
    assert covered.slots.idle, "slots of the transfer regions are still taken"
    want = {f"blocked_{why.name.lower()}": clocks for why, clocks in covered.blocked.items()}
    want["reads_held"] = covered.held
    have = {name: await registers.read(name) for name in want}
    assert have == want, f"counters are {have}, not {want}"
