# amaranth: UnusedElaboratable=no
"""Transfer regions: single ports that three users share, and every access is performed."""

import pytest
from amaranth.hdl import Assert, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.params import Machine
from hw.presets import preset
from hw.sram.regions import GROUPS, TransferRegions
from tests.formal.harness import Counterexample, Properties, constant, prove
from tests.formal.variants import variant

MACHINE = preset("formal")


class Accesses(Properties):
    """Fill and both drains access whatever they like in every clock.

    One bit is watched, in any row of any group of any region.
    A bank group does one access a clock, so if two of them met, one would be lost, and either the
    bit or what a drain reads would differ from the plain register beside it.
    """

    def __init__(self, *, machine: Machine = MACHINE, regions: type = TransferRegions) -> None:
        self._regions = regions(machine)
        rows = range(machine.geometry.wave_pages)
        access = {"en": In(1), "region": In(1), "row": In(rows)}
        ports = {
            f"{port}_{name}": shape
            for port in (*(f"fill{g}" for g in range(GROUPS)), "direct", "relay")
            for name, shape in access.items()
        }
        self._rows = rows
        super().__init__({**ports, "bit": In(GROUPS)})

    def describe(self, m: Module) -> None:
        m.submodules.regions = regions = self._regions
        watched = {"region": 1, "group": range(GROUPS), "row": self._rows}
        at_region, at_group, at_row = (constant(m, *item) for item in watched.items())
        now = Signal(2)
        m.d.sync += now.eq(now + 1)
        m.d.comb += Assert(regions.now == now, "slots follow each other")

        # Lanes beside the watched one stay zero: they go the same way.
        stored, known = Signal(), Signal()
        for g in range(GROUPS):
            fill = regions.fill[g]
            en, region, row = (getattr(self, f"fill{g}_{name}") for name in ("en", "region", "row"))
            m.d.comb += [
                fill.en.eq(en),
                fill.region.eq(region),
                fill.row.eq(row),
                fill.lanes[0].eq(self.bit[g]),
            ]
            fill_clock = ((now - g) & 1) == 0
            here = (at_group == g) & (region == at_region) & (row == at_row)
            with m.If(en & fill_clock & here):
                m.d.sync += [stored.eq(self.bit[g]), known.eq(1)]

        for name, offset in (("direct", -1), ("relay", 1)):
            drain = getattr(regions, name)
            en, region, row = (getattr(self, f"{name}_{part}") for part in ("en", "region", "row"))
            m.d.comb += [drain.en.eq(en), drain.region.eq(region), drain.row.eq(row)]
            here = (region == at_region) & (row == at_row)
            reads = en & here & ((now + offset)[:2] == at_group)
            # The clock after a read and one more, unless this path reads again by then.
            first, second = Signal(name=f"{name}_first"), Signal(name=f"{name}_second")
            expected = Signal(name=f"{name}_expected")
            m.d.sync += [first.eq(reads & known), second.eq(first & ~en)]
            with m.If(reads):
                m.d.sync += expected.eq(stored)
            m.d.comb += [
                Assert(~first | (drain.lanes[0][0] == expected), f"{name} reads what was written"),
                Assert(~second | (drain.lanes[0][0] == expected), f"{name} data stays two clocks"),
                Cover(first & expected, f"{name} reads a one"),
            ]
        busy = Mux(now[0], self.fill1_en & self.fill3_en, self.fill0_en & self.fill2_en)
        m.d.comb += Cover(busy & self.direct_en & self.relay_en, "four accesses in a clock")


@pytest.mark.formal
def test_every_access_is_performed() -> None:
    prove(Accesses())
    prove(Accesses(), mode="cover", depth=12)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Relay in a fill clock: a fill and a read meet.
        ("(self.relay, clock == 3)", "(self.relay, clock == 2)"),
        # Writes to the other region, too.
        ("with m.If(when & port.en & (port.region == region)):", "with m.If(when & port.en):"),
        # Reads from the group of the next clock.
        ("read_group.eq(self.now + offset)", "read_group.eq(self.now)"),
    ],
)
def test_conflicts_are_found(old: str, new: str) -> None:
    with pytest.raises(Counterexample, match="reads_what_was_written"):
        prove(Accesses(regions=variant(TransferRegions, (old, new))))
