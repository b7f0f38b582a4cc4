# amaranth: UnusedElaboratable=no
"""The two regions of the relay buffer: single-port bank groups, with SECDED on request."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbm.relay_layouts import place_layout
from hw.params import Machine
from hw.shared import shared
from hw.sram.beat import BeatSram1rw
from hw.sram.ecc_log import EccLog, EccPort, ErrorInjector
from hw.sram.ecc_log import place_layout as logged_layout
from hw.sram.fill_pipe import FILL_CLOCKS, FillPipe
from hw.sram.macro import Sram1r1w
from hw.sram.regions import GROUPS
from hw.sram.secded import BeatDecoder

KINDS = ("", "_check")  # lanes of a bank group: data, check bits


class RelayRegions(wiring.Component):
    """Stores beats with their number in the page, and whether they are known to be wrong.

    A region has four bank groups of single-port SRAM, so that one beat is written and one is read
    in the same clock, as long as they meet in no group of a region: that is left to the user. With
    ``machine.sram.relay_ecc`` every word of 64 bits is stored with 8 check bits, as in
    :class:`hw.sram.regions.TransferRegions`: at full size 8 MiB of data are then 9 MiB of banks.
    What is read is corrected; a beat that cannot be has ``poison``. Number and poison of the beats
    are beside the banks and have no check bits.

    Latency: written ``fill_clocks`` after ``write``, read ``read_clocks`` after ``read``.
    Throughput: a beat a clock each way.

    Members
    -------
    write, beat, w_lanes : In: a beat comes for ``place``
    read : In: the beat of ``place`` is read
    o, lanes : Out: beat that was read, until the next
    ecc : In: error log and error injection, see :class:`hw.sram.ecc_log.EccPort`, only with check
        bits; a row is a page
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        access = data.StructLayout({"valid": 1, "place": place_layout(machine.relay_chunk_pages)})
        self._access = access
        self._beat = beat = data.StructLayout({"beat": range(GROUPS), "poison": 1})
        members = {
            "write": In(access),
            "beat": In(beat),
            "w_lanes": In(64).array(machine.lanes),
            "read": In(access),
            "o": Out(beat),
            "lanes": Out(64).array(machine.lanes),
        }
        if self._check:
            members["ecc"] = In(EccPort(machine))
        super().__init__(members)

    @property
    def fill_clocks(self) -> int:
        return FILL_CLOCKS if self._check else 0

    @property
    def read_clocks(self) -> int:
        """Bank, raw register and, with check bits, corrected register."""
        return 3 if self._check else 2

    @property
    def _check(self) -> bool:
        return self._machine.sram.relay_ecc

    def elaborate(self, platform) -> Module:
        m = Module()
        write, lanes = self._encoded(m) if self._check else (self.write, [self.w_lanes])
        raw = self._banks(m, platform, write, lanes)
        if self._check:
            poison = self._corrected(m, raw)
        else:
            m.d.comb += [lane.eq(stored) for lane, stored in zip(self.lanes, raw[0], strict=True)]
            poison = 0
        self._numbers(m, poison)
        return m

    def _encoded(self, m: Module):
        """What is written in this clock, with its check lanes."""
        machine = self._machine
        m.submodules.injector = injector = ErrorInjector(machine, writers=1)
        m.submodules.pipe = pipe = FillPipe(machine)
        wiring.connect(m, wiring.flipped(self.ecc.inject), injector.port)
        place, group = self.write.place, self.write.place.group
        for stage in range(FILL_CLOCKS):
            was, group = group, Signal(range(GROUPS), name=f"group{stage}")
            m.d.sync += group.eq(was)
        write = Signal(self._access)
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
            write.valid.eq(pipe.o.en),
            write.place.region.eq(pipe.o.region),
            write.place.page.eq(pipe.o.row),
            write.place.group.eq(group),
        ]
        return write, [pipe.o.lanes, pipe.o.check]

    def _banks(self, m: Module, platform, write, lanes) -> list[list[Signal]]:
        """Lanes as they are stored, two clocks after a read and until the next."""
        machine, read = self._machine, self.read
        banks = {}
        for region in range(machine.sram.relay_regions):
            for g in range(GROUPS):
                bank_group = BeatSram1rw(
                    lanes=machine.lanes,
                    depth=machine.relay_chunk_pages,
                    bank_bytes=machine.sram.bank_bytes,
                    check=self._check,
                )
                name = f"region{region}_group{g}"
                m.submodules[name] = shared("relay_bank_group", bank_group)
                banks[region, g] = bank_group
                writes, reads = Signal(name=f"{name}_writes"), Signal(name=f"{name}_reads")
                m.d.comb += [
                    here.eq(of.valid & (of.place.region == region) & (of.place.group == g))
                    for here, of in ((writes, write), (reads, read))
                ]
                m.d.comb += [
                    bank_group.en.eq(writes | reads),
                    bank_group.we.eq(writes),
                    bank_group.addr.eq(Mux(writes, write.place.page, read.place.page)),
                ]
                for kind, stored in zip(KINDS, lanes, strict=False):
                    d = getattr(bank_group, f"d{kind}")
                    m.d.comb += [port.eq(lane) for port, lane in zip(d, stored, strict=True)]
                if platform is None:  # in simulation
                    m.d.sync += Assert(~(writes & reads), "two accesses of a bank group")

        was, came = Signal(read.place.shape()), Signal()
        m.d.sync += came.eq(read.valid)
        with m.If(read.valid):
            m.d.sync += was.eq(read.place)
        found = []
        for kind, stored in zip(KINDS, lanes, strict=False):
            raw = [Signal(64, name=f"raw{kind}{k}", reset_less=True) for k in range(len(stored))]
            for k, lane in enumerate(raw):
                q = {at: getattr(bank, f"q{kind}")[k] for at, bank in banks.items()}
                beats = [Mux(was.region, q[1, g], q[0, g]) for g in range(GROUPS)]
                low, high = (Mux(was.group[0], beats[g + 1], beats[g]) for g in (0, 2))
                with m.If(came):
                    m.d.sync += lane.eq(Mux(was.group[1], high, low))
            found.append(raw)
        return found

    def _corrected(self, m: Module, raw: list[list[Signal]]) -> Signal:
        """The beat as corrected; tells whether it could not be."""
        logged = logged_layout(self._machine)
        place, valid = self.read.place, self.read.valid
        for stage in range(2):  # as the lanes
            was, place = place, Signal(place.shape(), name=f"place{stage}")
            before, valid = valid, Signal(name=f"read{stage}")
            m.d.sync += [valid.eq(before), place.eq(was)]
        m.submodules.decoder = decoder = BeatDecoder(lanes=self._machine.lanes, place=logged)
        m.submodules.log = log = EccLog(self._machine, sources=1)
        wiring.connect(m, wiring.flipped(self.ecc.log), log.port)
        m.d.comb += [
            decoder.en.eq(valid),
            decoder.place.region.eq(place.region),
            decoder.place.group.eq(place.group),
            decoder.place.row.eq(place.page),
            *(lane.eq(stored) for lane, stored in zip(decoder.lanes, raw[0], strict=True)),
            *(lane.eq(stored) for lane, stored in zip(decoder.check, raw[1], strict=True)),
            *(lane.eq(out) for lane, out in zip(self.lanes, decoder.o_lanes, strict=True)),
            log.report[0].eq(decoder.report),
        ]
        return decoder.poison

    def _numbers(self, m: Module, poison) -> None:
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
        was = self._beat(numbers.r_data)
        for stage in range(self.read_clocks - 1):
            before, was = was, Signal(self._beat, name=f"number{stage}")
            m.d.sync += was.eq(before)
        m.d.comb += [self.o.beat.eq(was.beat), self.o.poison.eq(was.poison | poison)]
