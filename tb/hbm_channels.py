# amaranth: UnusedElaboratable=no
"""Pseudo-channels of a stack, each with its own traffic and its own DRAM."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import column_layout, row_layout
from hw.hbm.dram.pseudo_channel import COUNTER_BITS, COUNTERS, PseudoChannel
from hw.shared import shared
from tb.vip.dram import DramModel
from tb.vip.hbm_traffic import NUMBER_BITS, ChannelTraffic, Pattern


class HbmChannels(wiring.Component):
    """``channels`` pseudo-channels; each gets the same amount of traffic, its own addresses.

    Members
    -------
    reads, writes, pattern, window, together : as of :class:`tb.vip.hbm_traffic.ChannelTraffic`
    flip : as of :class:`tb.vip.dram.DramModel`
    clock, returned, written, errors : Out, sums over channels
    counters : Out, sums over channels
    begin, end : Out: clocks of the first and the last burst on any data bus
    commands : Out: row and column commands of all channels, for the checker
    """

    def __init__(self, *, stack: HbmStack, channels: int) -> None:
        self._stack, self._channels = stack, channels
        command = data.StructLayout({"row": row_layout(stack), "column": column_layout(stack)})
        super().__init__(
            {
                "reads": In(NUMBER_BITS),
                "writes": In(NUMBER_BITS),
                "pattern": In(Pattern),
                "window": In(ChannelTraffic.TAG_BITS + 1),
                "together": In(1),
                "flip": In(2),
                "clock": Out(NUMBER_BITS),
                "returned": Out(NUMBER_BITS),
                "written": Out(NUMBER_BITS),
                "errors": Out(NUMBER_BITS),
                "begin": Out(NUMBER_BITS),
                "end": Out(NUMBER_BITS),
                **dict.fromkeys(COUNTERS, Out(COUNTER_BITS)),
                "commands": Out(data.ArrayLayout(command, channels)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.clock.eq(self.clock + 1)
        bursts = []
        parts = []
        for k in range(self._channels):
            channel = PseudoChannel(self._stack, tag_bits=ChannelTraffic.TAG_BITS)
            model, traffic = DramModel(self._stack), ChannelTraffic(self._stack, seed=k)
            m.submodules[f"channel{k}"] = shared("pseudo_channel", channel)
            m.submodules[f"model{k}"] = shared("dram_model", model)
            m.submodules[f"traffic{k}"] = traffic
            wiring.connect(m, channel.dram, model.dram)
            wiring.connect(m, traffic.read, channel.read)
            wiring.connect(m, traffic.write, channel.write)
            m.d.comb += [
                model.channel.eq(k),
                model.flip.eq(self.flip),
                traffic.channel.eq(k),
                traffic.returned.eq(channel.returned),
                *(to.eq(of) for to, of in zip(traffic.lanes, channel.lanes, strict=True)),
                *(
                    getattr(traffic, name).eq(getattr(self, name))
                    for name in ("reads", "writes", "pattern", "window", "together")
                ),
                self.commands[k].row.eq(channel.dram.row),
                self.commands[k].column.eq(channel.dram.column),
            ]
            bursts.append(channel.dram.column.valid)
            parts.append((channel, traffic))
        started = self.begin != 0
        with m.If(Cat(bursts).any()):
            m.d.sync += self.end.eq(self.clock)
            with m.If(~started):
                m.d.sync += self.begin.eq(self.clock)
        for name in ("returned_count", "written", "errors"):
            total = getattr(self, name.removesuffix("_count"))
            m.d.sync += total.eq(sum(getattr(traffic, name) for _, traffic in parts))
        for name in COUNTERS:
            m.d.sync += getattr(self, name).eq(sum(c.counters[name] for c, _ in parts))
        return m
