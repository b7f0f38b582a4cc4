"""Transfer regions in half as many banks, in which a fill goes before a drain."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.sram.beat import BeatSram1rw

FILL_FIRST_GROUPS = 2


class FillFirstRegions(wiring.Component):
    """Two regions of two bank groups each, shared by a fill and two drains that may conflict.

    The alternative to :class:`hw.sram.regions.TransferRegions`, without the SECDED that would
    stand around either: half the macros, each twice as deep, since a page keeps two beats in each
    group. A group of a region makes one access a clock. A fill is always made. A drain is made
    when no fill and not the other drain, in its turn, takes the same group of the region: there is
    no bound on its waiting.

    Throughput: four beats a clock in all if they meet all banks, two beats a clock in one region.

    Members
    -------
    fill : array of 2, one a group
        A write, always made.
    direct, relay : In
        A read of ``group``, made in a clock with ``en`` and ``ready``; ``lanes`` is the beat one
        clock later, and until the group of that region is read again.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        lanes, rows = machine.lanes, 2 * machine.geometry.wave_pages
        access = {"en": Out(1), "region": Out(1), "row": Out(range(rows))}
        fill = wiring.Signature({**access, "lanes": Out(64).array(lanes)})
        drain = wiring.Signature(
            {**access, "group": Out(1), "ready": In(1), "lanes": In(64).array(lanes)}
        )
        super().__init__(
            {
                "fill": In(fill).array(FILL_FIRST_GROUPS),
                "direct": In(drain),
                "relay": In(drain),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        ports = (self.direct, self.relay)
        relay_first = Signal()
        same = (self.direct.region == self.relay.region) & (self.direct.group == self.relay.group)
        conflict = Signal()
        m.d.comb += conflict.eq(same & self.direct.en & self.relay.en)
        for port, wins in zip(ports, (~relay_first, relay_first), strict=True):
            filled = Mux(port.group, self._fills(1, port.region), self._fills(0, port.region))
            m.d.comb += port.ready.eq(~filled & (~conflict | wins))
        with m.If(conflict & (self.direct.ready | self.relay.ready)):
            m.d.sync += relay_first.eq(~relay_first)

        banks = {}
        for region in range(machine.sram.hbf_regions):
            for g in range(FILL_FIRST_GROUPS):
                bank = BeatSram1rw(
                    lanes=machine.lanes,
                    depth=2 * machine.geometry.wave_pages,
                    bank_bytes=machine.sram.bank_bytes,
                )
                m.submodules[f"region{region}_group{g}"] = banks[region, g] = bank
                fill, writes = self.fill[g], self._fills(g, region)
                for port in ports:
                    with m.If(port.en & port.ready & (port.region == region) & (port.group == g)):
                        m.d.comb += [bank.en.eq(1), bank.addr.eq(port.row)]
                with m.If(writes):
                    m.d.comb += [bank.en.eq(1), bank.we.eq(1), bank.addr.eq(fill.row)]
                m.d.comb += [d.eq(lane) for d, lane in zip(bank.d, fill.lanes, strict=True)]

        for name, port in zip(("direct", "relay"), ports, strict=True):
            region, group = Signal(name=f"{name}_region"), Signal(name=f"{name}_group")
            with m.If(port.en & port.ready):
                m.d.sync += [region.eq(port.region), group.eq(port.group)]
            for k, lane in enumerate(port.lanes):
                of_group = [Mux(region, banks[1, g].q[k], banks[0, g].q[k]) for g in range(2)]
                m.d.comb += lane.eq(Mux(group, of_group[1], of_group[0]))
        return m

    def _fills(self, group: int, region):
        return self.fill[group].en & (self.fill[group].region == region)
