# amaranth: UnusedElaboratable=no
"""The two transfer regions of the HBF base die, in banks with fixed time slots and SECDED."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.shared import shared
from hw.sram.beat import BeatSram1rw
from hw.sram.ecc_log import EccLog, EccPort, ErrorInjector, place_layout
from hw.sram.fill_pipe import FILL_CLOCKS, FillPipe
from hw.sram.secded import BeatDecoder

__all__ = ["FILL_CLOCKS", "GROUPS", "READERS", "READ_CLOCKS", "TransferRegions"]

GROUPS = 4
READERS = ("direct", "relay", "program")
READ_CLOCKS = 3  # from a read to its beat: bank, raw register, corrected register


class TransferRegions(wiring.Component):
    """Two regions of single-port banks that a fill and three readers share without conflict.

    A region has four bank groups; each page keeps one beat in each, in the row of its subarray.
    Time is cut in slots of four clocks. In group ``g`` the clock ``(now - g) mod 4`` is

    ====  ================
    0     fill, or program
    1     Direct
    2     fill
    3     Relay
    ====  ================

    so every clock takes two beats of fill (groups ``now`` and ``now + 2``), one beat of Direct
    (group ``now - 1``) and one of Relay (group ``now + 1``), each from either region: 4.096 TB/s
    of fill and 2.048 TB/s a drain at full size, with no conflict by construction. A program read
    (group ``now``) takes the place of a fill.

    Every word of 64 bits is stored with 8 check bits: banks of ``bank_bytes`` data bytes are an
    eighth wider. What is read is corrected; a beat that cannot be is poisoned, never passed off
    as right. SECDED covers these banks only, and nothing is scrubbed: a beat lives for
    microseconds here.

    A fill is encoded on the way and written ``FILL_CLOCKS`` clocks after it was presented, again
    in a fill clock; reads from the clock after that see it. So a program read must not come
    ``FILL_CLOCKS`` clocks after a fill of the same group and region: that is left to the user.

    Members
    -------
    now : Out(2)
        The clock within the slot.
    fill : array of 4, one a group
        ``en`` is honoured only in the fill clocks of the group.
    direct, relay : In
        With ``en`` reads the group whose clock it is. ``READ_CLOCKS`` later ``lanes`` are the beat
        as corrected, until the next; ``poison`` tells that it is wrong, ``corrected`` that it was.
    program : In
        Likewise, but ``en`` is honoured only in the clock ``now == group``.
    ecc : In
        Error log of all readers and error injection, see :class:`hw.sram.ecc_log.EccPort`.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        lanes, rows = machine.lanes, machine.geometry.wave_pages
        access = {"en": Out(1), "region": Out(1), "row": Out(range(rows))}
        fill = wiring.Signature({**access, "lanes": Out(64).array(lanes)})
        drain = {
            **access,
            "lanes": In(64).array(lanes),
            "corrected": In(1),
            "poison": In(1),
        }
        super().__init__(
            {
                "now": Out(2),
                "fill": In(fill).array(GROUPS),
                "direct": In(wiring.Signature(drain)),
                "relay": In(wiring.Signature(drain)),
                "program": In(wiring.Signature({**drain, "group": Out(2)})),
                "ecc": In(EccPort(machine)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        m.d.sync += self.now.eq(self.now + 1)
        m.submodules.injector = injector = ErrorInjector(machine, writers=GROUPS)
        wiring.connect(m, wiring.flipped(self.ecc.inject), injector.port)

        banks, writes = {}, []
        for g in range(GROUPS):
            clock = Signal(2, name=f"clock{g}")
            pipe = FillPipe(machine)
            m.submodules[f"fill{g}"] = shared("fill_pipe", pipe)
            fill, write = self.fill[g], pipe.o
            m.d.comb += [
                clock.eq(self.now - g),
                pipe.i.en.eq(fill.en & ~clock[0]),
                pipe.i.region.eq(fill.region),
                pipe.i.row.eq(fill.row),
                *(lane.eq(new) for lane, new in zip(pipe.i.lanes, fill.lanes, strict=True)),
                injector.written[g].eq(pipe.i.en),
                pipe.hit.eq(injector.hit[g]),
                *(
                    getattr(pipe.inject, name).eq(getattr(self.ecc.inject, name))
                    for name in ("word", "first", "second", "double")
                ),
            ]
            writes.append(write)
            for region in range(machine.sram.hbf_regions):
                group = BeatSram1rw(
                    lanes=machine.lanes,
                    depth=machine.geometry.wave_pages,
                    bank_bytes=machine.sram.bank_bytes,
                    check=True,
                )
                m.submodules[f"region{region}_group{g}"] = shared("transfer_bank_group", group)
                banks[region, g] = group
                accesses = [
                    write.en & (write.region == region),
                    *(
                        port.en & (port.region == region) & when
                        for port, when in (
                            (self.direct, clock == 1),
                            (self.relay, clock == 3),
                            (self.program, (clock == 0) & (self.program.group == g)),
                        )
                    ),
                ]
                rows = [write.row, self.direct.row, self.relay.row, self.program.row]
                for access, row in zip(accesses, rows, strict=True):
                    with m.If(access):
                        m.d.comb += [group.en.eq(1), group.addr.eq(row)]
                m.d.comb += [
                    group.we.eq(accesses[0]),
                    *(d.eq(lane) for d, lane in zip(group.d, write.lanes, strict=True)),
                    *(d.eq(lane) for d, lane in zip(group.d_check, write.check, strict=True)),
                ]
                if platform == "formal":
                    _check_bank(m, group, accesses, rows)

        m.submodules.log = log = EccLog(machine, sources=len(READERS))
        wiring.connect(m, wiring.flipped(self.ecc.log), log.port)
        for k, (name, group, granted) in enumerate(
            (
                ("direct", self.now - 1, 1),
                ("relay", self.now + 1, 1),
                ("program", self.now, self.program.group == self.now),
            )
        ):
            decoder = self._read_path(m, name, group[:2], granted, banks)
            m.d.comb += log.report[k].eq(decoder.report)
        return m

    def _read_path(self, m: Module, name: str, group, granted, banks) -> BeatDecoder:
        """From the banks to one reader: the beat that was read, then corrected."""
        port, place_type = getattr(self, name), place_layout(self._machine)
        place = Signal(place_type, name=f"{name}_place")
        read, valid = Signal(name=f"{name}_read"), Signal(name=f"{name}_valid")
        m.d.sync += [read.eq(port.en & granted), valid.eq(read)]
        with m.If(port.en):
            m.d.sync += [
                place.region.eq(port.region),
                place.group.eq(group),
                place.row.eq(port.row),
            ]
        decoder = BeatDecoder(lanes=self._machine.lanes, place=place_type)
        m.submodules[f"{name}_decoder"] = shared("beat_decoder", decoder)
        raw_place = Signal(place_type, name=f"{name}_raw_place")
        m.d.comb += [
            decoder.en.eq(valid),
            decoder.place.eq(raw_place),
            port.corrected.eq(decoder.corrected),
            port.poison.eq(decoder.poison),
            *(lane.eq(out) for lane, out in zip(port.lanes, decoder.o_lanes, strict=True)),
        ]
        with m.If(read):
            m.d.sync += raw_place.eq(place)
        for kind, inputs in (("q", decoder.lanes), ("q_check", decoder.check)):
            for k, target in enumerate(inputs):
                raw = Signal(64, name=f"{name}_{kind}{k}", reset_less=True)
                beats = [
                    Mux(
                        place.region,
                        getattr(banks[1, g], kind)[k],
                        getattr(banks[0, g], kind)[k],
                    )
                    for g in range(GROUPS)
                ]
                low, high = (Mux(place.group[0], beats[g + 1], beats[g]) for g in (0, 2))
                with m.If(read):
                    m.d.sync += raw.eq(Mux(place.group[1], high, low))
                m.d.comb += target.eq(raw)
        return decoder


def _check_bank(m: Module, group: BeatSram1rw, accesses: list, rows: list) -> None:
    """At most one access a clock, and each that is granted is made.

    The first access is the write; it and the last one, program, exclude each other only if the
    user keeps to the contract. Judged at the clock edge: before it, simulated signals settle.
    """
    m.d.sync += Assert(sum(accesses) <= 1, "two accesses of a bank group in one clock")
    for k, (access, row) in enumerate(zip(accesses, rows, strict=True)):
        with m.If(access):
            m.d.sync += Assert(
                group.en & (group.we == (k == 0)) & (group.addr == row),
                "an access that was granted is not made",
            )
