# amaranth: UnusedElaboratable=no
"""The SRAM wrappers against plain dictionaries, as Amaranth memories and as macros."""

from typing import Any

import pytest

from hw.sram.macro import VERILOG_MODELS, MacroPlatform, Sram1r1w, Sram1rw
from tb.simulator import Design, Simulator, build, run
from tests.hw.pysim import simulate
from tests.hw.sram.macros import MacroPair, PairModel, accesses


@pytest.mark.parametrize(("width", "depth"), [(1, 2), (64, 16), (70, 5)])
def test_memory_keeps_the_contract(width: int, depth: int) -> None:
    pair = MacroPair(width=width, depth=depth)

    async def bench(ctx: Any) -> None:
        model = PairModel()
        for clock, access in enumerate(accesses(1, width=width, depth=depth, count=400)):
            for name, value in access.items():
                part, port = name.split("__")
                ctx.set(getattr(getattr(pair, part), port), value)
            await ctx.tick()
            model.clock(access)
            assert model.q in (None, ctx.get(pair.single.q)), clock
            assert model.r_data in (None, ctx.get(pair.dual.r_data)), clock

    simulate(pair, bench, clocks=500)


def test_macro_keeps_the_contract(simulator: Simulator) -> None:
    size = {"width": 70, "depth": 5}
    design = Design(
        component=MacroPair, params=size, platform=MacroPlatform(), sources=VERILOG_MODELS
    )
    env = {"WIDTH": "70", "DEPTH": "5", "STIMULI": "2"}
    assert run(build(design, simulator), "tests.hw.sram.macro_bench", env=env).tests


def test_stimuli_read_the_row_that_is_written() -> None:
    collisions = sum(
        bool(a["dual__r_en"] and a["dual__w_en"] and a["dual__r_addr"] == a["dual__w_addr"])
        for a in accesses(2, width=70, depth=5, count=400)
    )
    assert collisions > 50


@pytest.mark.parametrize("macro", [Sram1rw, Sram1r1w])
@pytest.mark.parametrize(
    ("width", "depth", "message"),
    [(0, 4, "width must be at least 1 bit, not 0"), (8, 1, "depth must be at least 2 rows, not 1")],
)
def test_wrong_size_is_refused(macro: type, width: int, depth: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        macro(width=width, depth=depth)
