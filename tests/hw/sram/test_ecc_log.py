"""Error log and error injection by themselves: several sources, full counters, order."""

import random
from typing import Any

from hw.presets import preset
from hw.sram.ecc_log import EccLog, ErrorInjector
from tests.hw.pysim import simulate

FORMAL = preset("formal")
SOURCES, LARGEST = 3, 255


def test_every_word_counts_up_to_the_end_of_the_counter() -> None:
    log, rng = EccLog(FORMAL, sources=SOURCES, counter_bits=8), random.Random(1)
    full = cleared = together = 0

    async def bench(ctx: Any) -> None:
        nonlocal full, cleared, together
        counts, first = [0, 0], None
        for clock in range(600):
            clear = rng.random() < 0.02
            ctx.set(log.port.clear, clear)
            if clear:
                cleared += 1
                counts, first = [0, 0], None
            for k in range(SOURCES):
                valid = rng.random() < 0.3
                report = {
                    "valid": valid,
                    "corrected": rng.randrange(9),
                    "uncorrectable": rng.randrange(9) * rng.getrandbits(1),
                    "place": {"region": rng.getrandbits(1), "group": rng.randrange(4), "row": k},
                    "word": rng.randrange(8),
                    "syndrome": rng.randrange(1, 256),
                }
                ctx.set(log.report[k], report)
                if valid:
                    together += first is not None and first[0] == clock
                    counts[0] = min(counts[0] + report["corrected"], LARGEST)
                    counts[1] = min(counts[1] + report["uncorrectable"], LARGEST)
                    first = first or (clock, report)
            await ctx.tick()
            assert ctx.get(log.port.corrected) == counts[0]
            assert ctx.get(log.port.uncorrectable) == counts[1]
            full += counts[0] == LARGEST
            found = ctx.get(log.port.first)
            assert found.valid == (first is not None)
            if first is not None:
                report = first[1]
                assert found.uncorrectable == (report["uncorrectable"] > 0)
                assert (found.word, found.syndrome) == (report["word"], report["syndrome"])
                place = report["place"]
                assert (found.place.region, found.place.group, found.place.row) == (
                    place["region"],
                    place["group"],
                    place["row"],
                )

    simulate(log, bench, clocks=700)
    assert full and cleared > 3 and together > 3


def test_the_next_beats_are_hit_and_no_more() -> None:
    injector, rng = ErrorInjector(FORMAL, writers=4), random.Random(2)
    cut_short = 0

    async def bench(ctx: Any) -> None:
        nonlocal cut_short
        left = hits = 0
        for _ in range(500):
            arm, beats = rng.random() < 0.1, rng.choice((0, 1, 2, 3, 9))
            written = rng.getrandbits(4)
            ctx.set(injector.port.arm, arm)
            ctx.set(injector.port.beats, beats)
            ctx.set(injector.written, written)
            assert ctx.get(injector.port.armed) == bool(left or hits)
            lines = [k for k in range(4) if written >> k & 1][:left]
            hits = sum(1 << k for k in lines)
            assert ctx.get(injector.hit) == hits
            cut_short += 0 < left < written.bit_count()
            left = beats if arm else left - len(lines)
            await ctx.tick()

    simulate(injector, bench, clocks=600)
    assert cut_short > 5
