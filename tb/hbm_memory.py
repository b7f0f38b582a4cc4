# amaranth: UnusedElaboratable=no
"""An HBM controller with all its DRAM and something that asks."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.beats import LENGTH_BITS
from hw.hbm.dram.controller import HbmController
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import column_layout, row_layout
from hw.hbm.dram.pseudo_channel import COUNTER_BITS, COUNTERS
from hw.shared import shared
from tb.vip.dram import DramModel
from tb.vip.hbm_requests import HbmRequests
from tb.vip.hbm_traffic import NUMBER_BITS, Pattern

INPUTS = {
    "total": NUMBER_BITS,
    "length": LENGTH_BITS,
    "pattern": Pattern,
    "write_share": 9,
    "bad_share": 9,
    "stall": 9,
    "late": 9,
}
OUTPUTS = ("sent", "ended", "accesses_read", "accesses_written", "errors")


class HbmMemory(wiring.Component):
    """Members as of :class:`tb.vip.hbm_requests.HbmRequests`; ``counters`` are sums over all
    pseudo-channels, ``begin`` and ``end`` the clocks of the first and the last burst, ``commands``
    the row and column commands of all of them."""

    def __init__(self, *, stack: HbmStack) -> None:
        self._stack = stack
        command = data.StructLayout({"row": row_layout(stack), "column": column_layout(stack)})
        channels = stack.organization.pseudo_channels
        super().__init__(
            {
                **{name: In(shape) for name, shape in INPUTS.items()},
                "flip": In(2),
                **{name: Out(NUMBER_BITS) for name in (*OUTPUTS, "clock", "begin", "end")},
                **dict.fromkeys(COUNTERS, Out(COUNTER_BITS)),
                "commands": Out(data.ArrayLayout(command, channels)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.controller = controller = HbmController(self._stack)
        m.submodules.requests = requests = HbmRequests(self._stack)
        for name in ("request", "write_data"):
            wiring.connect(m, getattr(requests, name), getattr(controller, name))
        for name in ("beats", "done"):
            wiring.connect(m, getattr(controller, name), getattr(requests, name))
        for p, port in enumerate(controller.dram):
            model = DramModel(self._stack)
            m.submodules[f"model{p}"] = shared("dram_model", model)
            wiring.connect(m, port, model.dram)
            m.d.comb += [
                model.channel.eq(p),
                model.flip.eq(self.flip),
                self.commands[p].row.eq(port.row),
                self.commands[p].column.eq(port.column),
            ]
        m.d.comb += [
            *(getattr(requests, name).eq(getattr(self, name)) for name in INPUTS),
            *(getattr(self, name).eq(getattr(requests, name)) for name in OUTPUTS),
        ]
        m.d.sync += self.clock.eq(self.clock + 1)
        with m.If(Cat(port.column.valid for port in controller.dram).any()):
            m.d.sync += self.end.eq(self.clock)
            with m.If(self.begin == 0):
                m.d.sync += self.begin.eq(self.clock)
        for name in COUNTERS:
            m.d.sync += getattr(self, name).eq(sum(c[name] for c in controller.counters))
        return m
