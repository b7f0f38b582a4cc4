# amaranth: UnusedElaboratable=no
"""The two regions of the relay buffer: single-port bank groups with SECDED."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay_layouts import place_layout
from hw.params import Machine
from hw.shared import shared
from hw.sram.beat import BeatSram1rw
from hw.sram.ecc_log import EccLog, EccPort, ErrorInjector
from hw.sram.ecc_log import place_layout as logged_layout
from hw.sram.fill_pipe import FillPipe
from hw.sram.macro import Sram1r1w
from hw.sram.regions import GROUPS, READ_CLOCKS
from hw.sram.secded import BeatDecoder


class RelayRegions(wiring.Component):
    """Stores beats with their number in the page, and whether they are known to be wrong.

    A region has four bank groups of single-port SRAM, so that one beat is written and one is read
    in the same clock, as long as they meet in no group of a region: that is left to the user. Every
    word of 64 bits is stored with 8 check bits, as in :class:`hw.sram.regions.TransferRegions`: at
    full size 8 MiB of data are 9 MiB of banks. What is read is corrected; a beat that cannot be has
    ``poison``. Number and poison of the beats are beside the banks and have no check bits.

    Latency: written ``FILL_CLOCKS`` after ``write``, read ``READ_CLOCKS`` after ``read``.
    Throughput: a beat a clock each way.

    Members
    -------
    write, beat : In: a beat comes for ``place``; the beat with its ``lanes``
    read : In: the beat of ``place`` is read
    o, lanes : Out: beat that was read, until the next
    ecc : In: error log and error injection, see :class:`hw.sram.ecc_log.EccPort`; a row is a page
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        pages = machine.relay_chunk_pages
        access = data.StructLayout({"valid": 1, "place": place_layout(pages)})
        beat = data.StructLayout({"beat": range(GROUPS), "poison": 1})
        self._beat = beat
        super().__init__(
            {
                "write": In(access),
                "beat": In(beat),
                "w_lanes": In(64).array(machine.lanes),
                "read": In(access),
                "o": Out(beat),
                "lanes": Out(64).array(machine.lanes),
                "ecc": In(EccPort(machine)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        m.submodules.injector = injector = ErrorInjector(machine, writers=1)
        m.submodules.pipe = pipe = FillPipe(machine)
        wiring.connect(m, wiring.flipped(self.ecc.inject), injector.port)
        place = self.write.place
        group = Signal(range(GROUPS))  # one clock before that of the pipe
        w_group = Signal(range(GROUPS))
        m.d.sync += [group.eq(place.group), w_group.eq(group)]
        m.d.comb += [
            pipe.i.en.eq(self.write.valid),
            pipe.i.region.eq(place.region),
            pipe.i.row.eq(place.page),
            *(lane.eq(new) for lane, new in zip(pipe.i.lanes, self.w_lanes, strict=True)),
            injector.written.eq(self.write.valid),
            pipe.hit.eq(injector.hit),
            *(
                getattr(pipe.inject, name).eq(getattr(self.ecc.inject, name))
                for name in ("word", "first", "second", "double")
            ),
        ]
        banks = {}
        for region in range(machine.sram.relay_regions):
            for g in range(GROUPS):
                bank_group = BeatSram1rw(
                    lanes=machine.lanes,
                    depth=machine.relay_chunk_pages,
                    bank_bytes=machine.sram.bank_bytes,
                    check=True,
                )
                name = f"region{region}_group{g}"
                m.submodules[name] = shared("relay_bank_group", bank_group)
                banks[region, g] = bank_group
                writes, reads = Signal(name=f"{name}_writes"), Signal(name=f"{name}_reads")
                of = self.read.place
                m.d.comb += [
                    writes.eq(pipe.o.en & (pipe.o.region == region) & (w_group == g)),
                    reads.eq(self.read.valid & (of.region == region) & (of.group == g)),
                    bank_group.en.eq(writes | reads),
                    bank_group.we.eq(writes),
                    bank_group.addr.eq(Mux(writes, pipe.o.row, of.page)),
                    *(d.eq(lane) for d, lane in zip(bank_group.d, pipe.o.lanes, strict=True)),
                    *(d.eq(lane) for d, lane in zip(bank_group.d_check, pipe.o.check, strict=True)),
                ]
                if platform is None:  # in simulation
                    m.d.sync += Assert(~(writes & reads), "two accesses of a bank group")
        decoder = self._read(m, banks)
        m.submodules.log = log = EccLog(machine, sources=1)
        wiring.connect(m, wiring.flipped(self.ecc.log), log.port)
        m.d.comb += log.report[0].eq(decoder.report)
        self._numbers(m, decoder)
        return m

    def _read(self, m: Module, banks) -> BeatDecoder:
        """From the banks to the beat as corrected."""
        logged = logged_layout(self._machine)
        place, raw_place = Signal(place_layout(self._machine.relay_chunk_pages)), Signal(logged)
        read, valid = Signal(), Signal()
        m.submodules.decoder = decoder = BeatDecoder(lanes=self._machine.lanes, place=logged)
        m.d.sync += [read.eq(self.read.valid), valid.eq(read)]
        with m.If(self.read.valid):
            m.d.sync += place.eq(self.read.place)
        with m.If(read):
            m.d.sync += [
                raw_place.region.eq(place.region),
                raw_place.group.eq(place.group),
                raw_place.row.eq(place.page),
            ]
        m.d.comb += [
            decoder.en.eq(valid),
            decoder.place.eq(raw_place),
            *(lane.eq(out) for lane, out in zip(self.lanes, decoder.o_lanes, strict=True)),
        ]
        for kind, inputs in (("q", decoder.lanes), ("q_check", decoder.check)):
            for k, target in enumerate(inputs):
                raw = Signal(64, name=f"raw_{kind}{k}", reset_less=True)
                beats = [
                    Mux(place.region, getattr(banks[1, g], kind)[k], getattr(banks[0, g], kind)[k])
                    for g in range(GROUPS)
                ]
                low, high = (Mux(place.group[0], beats[g + 1], beats[g]) for g in (0, 2))
                with m.If(read):
                    m.d.sync += raw.eq(Mux(place.group[1], high, low))
                m.d.comb += target.eq(raw)
        return decoder

    def _numbers(self, m: Module, decoder: BeatDecoder) -> None:
        """Number and poison of a beat come with it; the poison of the decoder joins in."""
        depth = self._machine.sram.relay_regions * self._machine.relay_chunk_pages * GROUPS
        m.submodules.numbers = numbers = Sram1r1w(width=self._beat.size, depth=depth)
        w_place, r_place = self.write.place, self.read.place
        m.d.comb += [
            numbers.w_en.eq(self.write.valid),
            numbers.w_addr.eq(Cat(w_place.group, w_place.page, w_place.region)),
            numbers.w_data.eq(self.beat),
            numbers.r_en.eq(self.read.valid),
            numbers.r_addr.eq(Cat(r_place.group, r_place.page, r_place.region)),
        ]
        was = numbers.r_data
        for stage in range(READ_CLOCKS - 1):
            later = Signal(self._beat, name=f"number{stage}")
            m.d.sync += later.eq(was)
            was = later
        m.d.comb += [self.o.beat.eq(was.beat), self.o.poison.eq(was.poison | decoder.poison)]
