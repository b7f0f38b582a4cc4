"""From bursts back to accesses, corrected and with the tags of those who asked."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.clocks import clocks_of
from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import ACCESS_LANES, BURST_BITS, BURST_CHECK_BITS
from hw.sram.secded import BeatDecoder

PHY_CLOCKS = 16  # that a PHY may add to the latency of the DRAM


def returned_layout(tag_bits: int) -> data.StructLayout:
    """An access that has come back; ``lanes`` go beside it."""
    return data.StructLayout({"valid": 1, "tag": tag_bits, "poison": 1})


class ReadAssembly(wiring.Component):
    """Joins the two bursts of an access and corrects it.

    Contract: bursts come in the order in which ``issue`` told of them; the first of an access
    before the second, those of other accesses between them. One clock after the second one,
    ``returned`` has the access. It can not be held up: whoever asked has room for it. A word that
    SECDED cannot correct makes ``poison``. ``corrected`` and ``uncorrectable`` count words.
    """

    def __init__(self, stack: HbmStack, *, tag_bits: int) -> None:
        self._stack, self._tag_bits = stack, tag_bits
        width = BURST_BITS + BURST_CHECK_BITS
        entries = stack.scheduling.reads
        self._label = data.StructLayout({"entry": range(entries), "half": 1, "tag": tag_bits})
        super().__init__(
            {
                "issue": In(1),
                "label": In(self._label),
                "read_valid": In(1),
                "read_data": In(width),
                "returned": Out(returned_layout(tag_bits)),
                "lanes": Out(64).array(ACCESS_LANES),
                "corrected": Out(32),
                "uncorrectable": Out(32),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        depth = clocks_of(self._stack).read_latency + PHY_CLOCKS
        m.submodules.labels = labels = SyncFIFOBuffered(width=self._label.size, depth=depth)
        m.submodules.firsts = firsts = Memory(
            shape=len(self.read_data), depth=self._stack.scheduling.reads, init=[]
        )
        write, read = firsts.write_port(), firsts.read_port(domain="comb")
        m.submodules.decoder = decoder = BeatDecoder(lanes=ACCESS_LANES, place=1)
        label, whole = self._label(labels.r_data), Signal()
        m.d.comb += [
            labels.w_data.eq(self.label),
            labels.w_en.eq(self.issue),
            labels.r_en.eq(self.read_valid),
            write.en.eq(self.read_valid & ~label.half),
            write.addr.eq(label.entry),
            write.data.eq(self.read_data),
            read.addr.eq(label.entry),
            whole.eq(self.read_valid & label.half),
        ]
        first, second = read.data, self.read_data
        beat = Cat(first[:BURST_BITS], second[:BURST_BITS])
        m.d.comb += [
            *(lane.eq(beat.word_select(k, 64)) for k, lane in enumerate(decoder.lanes)),
            decoder.check[0].eq(Cat(first[BURST_BITS:], second[BURST_BITS:])),
            decoder.en.eq(whole),
            *(out.eq(lane) for out, lane in zip(self.lanes, decoder.o_lanes, strict=True)),
            self.returned.poison.eq(decoder.poison),
        ]
        m.d.sync += [self.returned.valid.eq(whole), self.returned.tag.eq(label.tag)]
        report = decoder.report
        with m.If(report.valid):
            m.d.sync += [
                self.corrected.eq(self.corrected + report.corrected),
                self.uncorrectable.eq(self.uncorrectable + report.uncorrectable),
            ]
        return m
