"""The two transfer regions of the HBF base die, in banks with fixed time slots."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.sram.beat import BeatSram1rw

GROUPS = 4


class TransferRegions(wiring.Component):
    """Two regions of single-port banks that a fill and two drains share without conflict.

    A region has four bank groups; each page keeps one beat in each group, in the row of its
    subarray. Time is cut in slots of four clocks. In group ``g`` the clock ``(now - g) mod 4`` is

    ====  =======
    0, 2  fill
    1     Direct
    3     Relay
    ====  =======

    so every clock takes two beats of fill (groups ``now`` and ``now + 2``), one beat of Direct
    (group ``now - 1``) and one of Relay (group ``now + 1``), each from either region: 4.096 TB/s
    of fill and 2.048 TB/s a drain at full size, with no conflict by construction.

    Members
    -------
    now : Out(2)
        The clock within the slot.
    fill : array of 4, one a group
        ``en`` is honoured only in the fill clocks of the group.
    direct, relay
        A read with ``en`` returns ``lanes`` one clock later. They stay for two clocks, and then
        until either path reads the group again in that region.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        lanes, rows = machine.lanes, machine.geometry.wave_pages
        access = {"en": Out(1), "region": Out(1), "row": Out(range(rows))}
        fill = wiring.Signature({**access, "lanes": Out(64).array(lanes)})
        drain = wiring.Signature({**access, "lanes": In(64).array(lanes)})
        super().__init__(
            {
                "now": Out(2),
                "fill": In(fill).array(GROUPS),
                "direct": In(drain),
                "relay": In(drain),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        regions = range(machine.sram.hbf_regions)
        m.d.sync += self.now.eq(self.now + 1)

        banks = {}
        for region in regions:
            for g in range(GROUPS):
                group = BeatSram1rw(
                    lanes=machine.lanes,
                    depth=machine.geometry.wave_pages,
                    bank_bytes=machine.sram.bank_bytes,
                )
                m.submodules[f"region{region}_group{g}"] = banks[region, g] = group
                clock = Signal(2, name=f"clock_{region}_{g}")
                m.d.comb += clock.eq(self.now - g)
                for port, when in (
                    (self.fill[g], ~clock[0]),
                    (self.direct, clock == 1),
                    (self.relay, clock == 3),
                ):
                    with m.If(when & port.en & (port.region == region)):
                        m.d.comb += [group.en.eq(1), group.addr.eq(port.row)]
                m.d.comb += group.we.eq(~clock[0])
                for k in range(machine.lanes):
                    m.d.comb += group.d[k].eq(self.fill[g].lanes[k])

        for name, drain, offset in (("direct", self.direct, -1), ("relay", self.relay, 1)):
            read_region, read_group = Signal(name=f"{name}_region"), Signal(2, name=f"{name}_group")
            with m.If(drain.en):
                m.d.sync += [read_region.eq(drain.region), read_group.eq(self.now + offset)]
            for k in range(machine.lanes):
                q = [Mux(read_region, banks[1, g].q[k], banks[0, g].q[k]) for g in range(GROUPS)]
                low, high = Mux(read_group[0], q[1], q[0]), Mux(read_group[0], q[3], q[2])
                m.d.comb += drain.lanes[k].eq(Mux(read_group[1], high, low))
        return m
