"""The way of a beat into its bank group: encoded, with errors planted on request, and written."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.sram.ecc_log import InjectPort
from hw.sram.secded import CHECK_BITS, DATA_BITS, BeatEncoder, check_lanes, slices

FILL_CLOCKS = 2  # from the port of the regions to the write; even, so that slots stay slots


class FillPipe(wiring.Component):
    """Adds the check lanes to the beats of one bank group.

    Contract: a beat with ``en`` is written ``FILL_CLOCKS`` clocks later, one a clock. If ``hit``
    comes with it, the bits that ``inject`` names are flipped after encoding.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        lanes = machine.lanes
        access = {"en": Out(1), "region": Out(1), "row": Out(range(machine.geometry.wave_pages))}
        beat = {**access, "lanes": Out(64).array(lanes)}
        stored = {**beat, "check": Out(64).array(check_lanes(lanes))}
        super().__init__(
            {
                "i": In(wiring.Signature(beat)),
                "hit": In(1),
                "inject": In(InjectPort(machine)),
                "o": Out(wiring.Signature(stored)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        i, o, inject = self.i, self.o, self.inject
        m.submodules.encoder = encoder = BeatEncoder(lanes=self._machine.lanes)

        valid, hit = Signal(), Signal()
        region, row = Signal(reset_less=True), Signal.like(i.row, reset_less=True)
        m.d.sync += [valid.eq(i.en), hit.eq(i.en & self.hit), o.en.eq(valid)]
        lanes = [Signal(64, name=f"lane{k}", reset_less=True) for k in range(len(i.lanes))]
        stored = [Signal(64, name=f"stored{k}", reset_less=True) for k in range(len(i.lanes))]
        check = [Signal(64, name=f"check{k}", reset_less=True) for k in range(len(o.check))]
        with m.If(i.en):
            m.d.sync += [region.eq(i.region), row.eq(i.row)]
            m.d.sync += [lane.eq(new) for lane, new in zip(lanes, i.lanes, strict=True)]
        m.d.comb += [lane.eq(new) for lane, new in zip(encoder.lanes, lanes, strict=True)]
        with m.If(valid):
            m.d.sync += [o.region.eq(region), o.row.eq(row)]
            m.d.sync += [lane.eq(new) for lane, new in zip(stored, lanes, strict=True)]
            m.d.sync += [lane.eq(new) for lane, new in zip(check, encoder.check, strict=True)]

        m.d.comb += [out.eq(lane) for out, lane in zip(o.lanes, stored, strict=True)]
        m.d.comb += [out.eq(lane) for out, lane in zip(o.check, check, strict=True)]
        sources = slices(lanes, DATA_BITS) + slices(encoder.check, CHECK_BITS)
        targets = slices(stored, DATA_BITS) + slices(check, CHECK_BITS)
        width = len(sources[0][0])
        with m.If(hit):
            for part in range(len(sources[0])):
                flip = Signal(width, name=f"flip{part}")
                with m.If(inject.word // width == part):
                    m.d.comb += flip.eq(Const(1, width) << (inject.word % width))
                for at, (source, target) in enumerate(zip(sources, targets, strict=True)):
                    chosen = (inject.first == at) | (inject.double & (inject.second == at))
                    with m.If(chosen):
                        m.d.sync += target[part].eq(source[part] ^ flip)
        return m
