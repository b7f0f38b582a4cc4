# amaranth: UnusedElaboratable=no
"""Transfer regions: single ports that four users share, and every access is performed."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.presets import preset
from hw.sram.regions import FILL_CLOCKS, GROUPS, TransferRegions
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.variants import variant

MACHINE = preset("formal")
READERS = ("direct", "relay", "program")


class Accesses(Properties):
    """Fills and all readers access whatever they like in every clock.

    The regions state themselves that a bank group is never asked for two accesses in a clock, and
    that each access it is asked for is made. Here one bank group is watched, any of them: it is
    asked for exactly those accesses whose time slot it is, fills after their pipe.
    """

    def __init__(self, regions: type = TransferRegions) -> None:
        self._regions = regions(MACHINE)
        self._rows = range(MACHINE.geometry.wave_pages)
        access = {"en": In(1), "region": In(1), "row": In(self._rows)}
        users = (*(f"fill{g}" for g in range(GROUPS)), *READERS)
        ports = {f"{user}_{name}": shape for user in users for name, shape in access.items()}
        super().__init__({**ports, "program_group": In(2)})

    def describe(self, m: Module) -> None:
        regions = self._regions
        m.submodules.regions = module = regions.elaborate("formal")
        now = Signal(2)
        m.d.sync += now.eq(now + 1)
        m.d.comb += Assert(regions.now == now, "slots follow each other")
        ports = {f"fill{g}": regions.fill[g] for g in range(GROUPS)}
        ports |= {name: getattr(regions, name) for name in READERS}
        for user, port in ports.items():
            for name in ("en", "region", "row"):
                m.d.comb += getattr(port, name).eq(getattr(self, f"{user}_{name}"))
        m.d.comb += regions.program.group.eq(self.program_group)

        row = constant(m, "row", self._rows)
        for g in range(GROUPS):
            slot = Signal(2, name=f"slot{g}")
            m.d.comb += slot.eq(now - g)
            fill = ports[f"fill{g}"]
            presented = fill.en & ~slot[0]
            for r in range(2):
                bank = getattr(module.submodules, f"region{r}_group{g}")._component
                writes, at_row = presented & (fill.region == r), fill.row == row
                for _ in range(FILL_CLOCKS):
                    writes, at_row = before(m, writes), before(m, at_row)
                reads = [
                    port.en & (port.region == r) & when
                    for port, when in (
                        (regions.direct, slot == 1),
                        (regions.relay, slot == 3),
                        (regions.program, (slot == 0) & (regions.program.group == g)),
                    )
                ]
                rows = [regions.direct.row, regions.relay.row, regions.program.row]
                name = f"region {r} group {g}"
                m.d.comb += [
                    # The contract of its user: a fill and a program never meet.
                    Assume(~(writes & reads[2])),
                    Assert((bank.en & bank.we) == writes, f"{name} is filled in its clocks"),
                    Assert(
                        (bank.en & ~bank.we) == (reads[0] | reads[1] | reads[2]),
                        f"{name} is read in its clocks",
                    ),
                    Assert(~writes | ((bank.addr == row) == at_row), f"{name} fills the row"),
                    *(
                        Assert(~read | (bank.addr == where), f"{name} reads the row {k}")
                        for k, (read, where) in enumerate(zip(reads, rows, strict=True))
                    ),
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
        ("write.en & (write.region == region)", "write.en"),
        # Fills in the clocks of the readers.
        ("fill.en & ~clock[0]", "fill.en"),
        (
            "[write.row, self.direct.row, self.relay.row",
            "[write.row, self.relay.row, self.relay.row",
        ),
    ],
)
def test_conflicts_are_found(old: str, new: str) -> None:
    with pytest.raises(Counterexample, match=r"region_|access"):
        prove(Accesses(variant(TransferRegions, (old, new))))
