# amaranth: UnusedElaboratable=no
"""The HBF base die: requests in, NAND commands out, pages moved over both links."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.bits import line
from hw.hbf.control import Control
from hw.hbf.die_controller import DieController
from hw.hbf.drain import DrainEngine
from hw.hbf.layouts import CLOCK_BITS, MAX_PAGES, CommandPort, ReadoutPort, WriteinPort
from hw.hbf.path_gate import PathGate
from hw.hbf.read_epochs import ReadEpochs
from hw.hbf.region_drain import RegionDrain
from hw.hbf.relay_admission import RelayAdmission
from hw.hbf.request_decoder import RequestDecoder
from hw.hbf.tsv_transfer import TsvTransfer
from hw.hbf.wave_gate import WaveGate
from hw.hbf.write_ingress import WriteIngress
from hw.hbf.write_tracker import WriteTracker
from hw.params import Machine
from hw.registers.register_file import RegisterPort
from hw.shared import shared
from hw.sram.regions import GROUPS, TransferRegions
from hw.ucie.credit import CreditCounter, RequestReceiver
from hw.ucie.transaction import DataPort, MessageClass, RequestPort, ResetPort, Route

# A frame reads group 0 first: the clock of the slot in which group 0 belongs to the path.
FRAME_START = {Route.DIRECT: 1, Route.RELAY: 3}
LINK = {Route.DIRECT: "a", Route.RELAY: "c"}

# Longer than a page takes on its TSV lane at the usual rate, 41 clocks in `paper`, and much shorter
# than a chunk.
CHUNK_IDLE_CLOCKS = 128

# What ends a transaction of either link, and what goes on in between. Reads and writes share slots,
# subarrays and the entries of the write tracker, and may be ordered behind each other.
_ENDS = ("a_data", "a_reply", "a_write_data", "c_data", "c_reply", "c_write_data")


class HbfBaseDie(wiring.Component):
    """Base die of one HBF stack.

    Promise: every wanted beat of an accepted read leaves exactly once on the path that brought the
    request (link A from the GPU: Direct; link C from the HBM base die: Relay), labelled with tag
    and page number; pages may leave out of order, the beats of a page do not part. Both paths drain
    at once from separate banks. A page is issued to the NAND only when die, plane, SRAM slot and
    path are available, and leaves only under credit. A beat that the SRAM cannot correct leaves
    with poison in its header.

    Writes of either link are granted page by page, programmed and answered as
    :class:`hw.hbf.write_tracker.WriteTracker` and :class:`hw.hbf.write_admission.WriteAdmission`
    say. A read that is accepted after a write of the same page gives what was written; one that was
    accepted before gives what was there.

    First beat on an idle die: tR + 41 clocks of fill + about 23 (``paper``). Steady rate: the least
    of sensing, TSVs and links, see :meth:`hw.params.Machine.steady_bound_bytes_per_s`.

    Reset of a link: reads that came over it and wait are dropped; those that were accepted are read
    from the NAND and their pages dropped. Pages of its writes that have wholly arrived are
    programmed; one that was admitted, granted or not, and has not arrived fails its block as a page
    does that the die failed to program; one that was not admitted leaves its block as it is. The
    link settles when all its reads are gone and no slot waits for its data. Programs that go on may
    keep a write outstanding for longer, without a word to its link; until then it overlaps with
    writes of its pages.

    Back-pressure: requests and data are under credit; nothing received is ever refused. Source:
    DASH section IV-B; OCP HBF 0.7.0 for writes.

    Members
    -------
    a_request, a_data : reads of link A and their data, present if ``direct``
    c_request, c_data : those of link C, if ``relay``; a credit of ``c_data`` is one relay region; a
        COMPLETION without data closes the open chunk
    a_write, a_write_data, a_reply, c_write .. : writes, their data, grants and completions
    a_reset, c_reset : resets of the links
    command : one port a NAND die
    readout : one port a bank group; writein : one port
    registers : the register port
    """

    # See `hw.channel_graph`. Write data has the slot that was granted.
    WAITS: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "a_request": _ENDS,
            "a_write": _ENDS,
            "a_write_data": (),
            "c_request": _ENDS,
            "c_write": _ENDS,
            "c_write_data": (),
        }
    )

    def __init__(self, machine: Machine, *, direct: bool = True, relay: bool = True) -> None:
        if not (direct or relay):
            raise ValueError("an HBF base die needs link A (direct), link C (relay) or both")
        self._machine = machine
        self._routes = [r for r, there in zip(Route, (direct, relay), strict=True) if there]
        members = {
            "command": Out(CommandPort(machine)).array(machine.geometry.dies),
            "readout": Out(ReadoutPort(machine)).array(GROUPS),
            "writein": Out(WriteinPort(machine)),
            "registers": In(RegisterPort()),
        }
        for route in self._routes:
            link = LINK[route]
            members |= {
                f"{link}_request": In(RequestPort()),
                f"{link}_data": Out(DataPort(machine.lanes)),
                f"{link}_write": In(RequestPort()),
                f"{link}_write_data": In(DataPort(machine.lanes)),
                f"{link}_reply": Out(RequestPort()),
                f"{link}_reset": In(ResetPort()),
            }
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        links = len(self._routes)
        dies = [DieController(machine, links=links) for _ in range(machine.geometry.dies)]
        m.submodules.control = control = Control(machine)
        m.submodules.regions = regions = TransferRegions(machine)
        m.submodules.tsv = tsv = TsvTransfer(machine, links=links)
        m.submodules.gate = gate = WaveGate(machine)
        m.submodules.region_drain = region_drain = RegionDrain(machine)
        wiring.connect(m, wiring.flipped(self.registers), control.port)
        wiring.connect(m, control.ecc, regions.ecc)
        registers = control.registers

        clock = Signal(CLOCK_BITS)
        m.d.sync += clock.eq(clock + 1)
        region_busy = [Signal(name=f"region{r}_busy") for r in range(2)]
        m.d.comb += [
            gate.clock.eq(clock),
            gate.t_read.eq(registers.t_read),
            gate.cache_read.eq(registers.cache_read),
            gate.stuck.eq(Cat(die.stuck for die in dies).any()),
            gate.sensing.eq(Cat(die.sensing for die in dies).any()),
            gate.pending.eq(Cat(die.pending for die in dies).any()),
            *(region_busy[r].eq(Cat(die.region_busy[r] for die in dies).any()) for r in range(2)),
            gate.region_busy.eq(Cat(region_busy)),
            tsv.now.eq(regions.now),
            tsv.rate.eq(registers.tsv_rate),
            tsv.t_ccs.eq(registers.t_ccs),
            region_drain.enable.eq(registers.drain_whole_region),
        ]
        for d, die in enumerate(dies):
            m.submodules[f"die{d}"] = shared("die_controller", die)
            m.d.comb += die.number.eq(d)
            wiring.connect(m, die.command, wiring.flipped(self.command[d]))
            wiring.connect(m, die.transfer, tsv.i[d])
            wiring.connect(m, control.registers, die.registers)
            wiring.connect(m, control.query[d], die.query)
            m.d.comb += [
                die.clock.eq(clock),
                die.slice_tick.eq(control.slice_tick),
                die.wave_open.eq(gate.open),
                die.wave_region.eq(gate.region),
                die.region_open.eq(region_drain.fills),
                die.transferred.eq(tsv.transferred[d]),
                control.dies[d].eq(die.status),
                control.answer[d].eq(die.answer),
                region_drain.issued[d].valid.eq(die.issued.valid),
                region_drain.issued[d].region.eq(die.issued.region),
                region_drain.filled[d].eq(tsv.filled[d]),
            ]

        drains = {route: self._read_path(m, route, dies, tsv, regions) for route in self._routes}
        for route, drain in drains.items():
            m.d.comb += [
                drain.rate.eq(registers.link_rate),
                drain.drains.eq(region_drain.drains),
                *(
                    region_drain.free[route][d].eq(drain.free[d])
                    for d in range(machine.geometry.dies)
                ),
            ]
        self._admit(m, drains)
        self._writes(m, dies, tsv, regions)
        self._fill(m, tsv, regions)
        return m

    def _read_path(self, m, route, dies, tsv, regions) -> DrainEngine:
        """Decoder, descriptor broadcast and drain of one path."""
        machine, name = self._machine, route.name.lower()
        request, port = (
            getattr(self, f"{LINK[route]}_request"),
            getattr(self, f"{LINK[route]}_data"),
        )
        m.submodules[f"decode_{name}"] = decoder = RequestDecoder(machine)
        m.submodules[f"drain_{name}"] = drain = DrainEngine(
            machine, route=route, start=FRAME_START[route]
        )
        m.submodules[f"gate_{name}"] = gate = PathGate(machine)
        lost = getattr(self, f"{LINK[route]}_reset").lost
        wiring.connect(m, wiring.flipped(request), decoder.port)
        read_port = getattr(regions, name)

        walks = [getattr(die, name) for die in dies]
        all_ready = Cat(walk.ready for walk in walks).all()
        m.d.comb += decoder.o.ready.eq(all_ready)
        for d, (die, walk) in enumerate(zip(dies, walks, strict=True)):
            filled = tsv.filled[d]
            m.d.comb += [
                walk.valid.eq(decoder.o.valid & all_ready),
                walk.payload.eq(decoder.o.payload),
                drain.ready[d].valid.eq(filled.valid & (filled.page.path == route)),
                drain.ready[d].page.eq(filled.page),
                getattr(die, f"free_{name}").eq(drain.free[d]),
                drain.label[d].eq(die.label),
                die.path_open[route].eq(gate.open),
            ]
            with m.If(drain.label_en):
                m.d.comb += die.label_slot.eq(drain.label_slot)
        m.d.comb += [
            gate.issued.eq(sum(die.issued.valid & (die.issued.path == route) for die in dies)),
            decoder.lost.eq(lost),
            drain.drop.eq(lost),
            gate.accepted.eq(decoder.pages),
            gate.sent.eq(drain.sent),
            gate.flows.eq(drain.admit | lost),
            drain.now.eq(regions.now),
            read_port.en.eq(drain.read_en),
            read_port.region.eq(drain.read_region),
            read_port.row.eq(drain.read_row),
            drain.poison.eq(read_port.poison),
            *(drain.lanes[k].eq(read_port.lanes[k]) for k in range(machine.lanes)),
            port.valid.eq(drain.port.valid),
            port.header.eq(drain.port.header),
            drain.port.hold.eq(port.hold),
            *(port.lanes[k].eq(drain.port.lanes[k]) for k in range(machine.lanes)),
        ]
        return drain

    def _admit(self, m: Module, drains: dict[Route, DrainEngine]) -> None:
        """Credits of the links: Direct counts beats, Relay regions."""
        machine = self._machine
        if (drain := drains.get(Route.DIRECT)) is not None:
            m.submodules.direct_credits = credits = CreditCounter(
                initial=machine.credits.rx_beats, max_take=GROUPS
            )
            m.d.comb += [
                credits.give.eq(self.a_data.credit),
                drain.admit.eq(credits.count >= GROUPS),
            ]
            with m.If(drain.sent & ~self.a_reset.lost):
                m.d.comb += credits.take.eq(drain.beats)
        if (drain := drains.get(Route.RELAY)) is not None:
            m.submodules.relay_admission = admission = RelayAdmission(
                chunk_pages=machine.relay_chunk_pages,
                regions=machine.sram.relay_regions,
                max_pages=MAX_PAGES,
                idle_clocks=CHUNK_IDLE_CLOCKS,
            )
            m.d.comb += [
                admission.requested.eq(m.submodules.decode_relay.pages),
                admission.waiting.eq(drain.waiting),
                admission.sent.eq(drain.sent),
                admission.lost.eq(self.c_reset.lost),
                admission.grant.eq(self.c_data.credit),
                drain.admit.eq(admission.admit),
                drain.chunk_end.eq(admission.chunk_end),
            ]
            with m.If(admission.close):
                m.d.comb += [
                    self.c_data.valid.eq(1),
                    self.c_data.header.message_class.eq(MessageClass.COMPLETION),
                    self.c_data.header.chunk_end.eq(1),
                ]

    def _writes(self, m: Module, dies: list[DieController], tsv, regions) -> None:
        """Tracker, order behind reads, and write data into and out of the regions."""
        machine = self._machine
        m.submodules.tracker = tracker = WriteTracker(machine, links=len(self._routes))
        m.submodules.epochs = epochs = ReadEpochs(dies=machine.geometry.dies)
        decoders = [m.submodules[f"decode_{route.name.lower()}"] for route in self._routes]

        all_ready = Cat(die.write.ready for die in dies).all()
        m.d.comb += [
            epochs.waiting.eq(tracker.o.valid),
            epochs.taken.eq(tracker.o.valid & tracker.o.ready),
            tracker.o.ready.eq(all_ready & epochs.go),
        ]
        for k, decoder in enumerate(decoders):
            m.d.comb += [
                epochs.accepted[k].eq(decoder.pages),
                decoder.epoch.eq(epochs.epoch),
            ]
            wiring.connect(m, decoder.refused, tracker.refused_read[k])
        ordering = Signal(machine.credits.writes)
        m.d.comb += ordering.eq(line(tracker.o.valid, tracker.o.payload.index, len(ordering)))
        for d, die in enumerate(dies):
            wiring.connect(m, die.grant, tracker.grant[d])
            wiring.connect(m, die.event, tracker.event[d])
            m.d.comb += [
                die.write.valid.eq(tracker.o.valid & tracker.o.ready),
                die.write.payload.eq(tracker.o.payload),
                *(die.ranges[k].eq(span) for k, span in enumerate(tracker.ranges)),
                die.retired.eq(tracker.retired.any()),
                die.ordering.eq(ordering),
                die.ordered.eq(epochs.ordered),
                die.epoch.eq(epochs.epoch),
                die.orphans.eq(tracker.orphans),
                epochs.issued[d].valid.eq(die.issued.valid),
                epochs.issued[d].epoch.eq(die.issued.epoch),
            ]

        for k, route in enumerate(self._routes):
            link = LINK[route]
            m.submodules[f"writes_{link}"] = receiver = RequestReceiver(
                credits=machine.credits.writes
            )
            m.submodules[f"ingress_{link}"] = ingress = WriteIngress(machine)
            wiring.connect(m, wiring.flipped(getattr(self, f"{link}_write")), receiver.port)
            self._reset(m, k, route, dies, tracker, receiver, ingress)
            wiring.connect(m, tracker.reply[k], wiring.flipped(getattr(self, f"{link}_reply")))
            wiring.connect(m, wiring.flipped(getattr(self, f"{link}_write_data")), ingress.port)
            m.d.comb += [tsv.want[k].eq(ingress.want), ingress.take.eq(tsv.take[k])]
            for d, die in enumerate(dies):
                m.d.comb += [
                    die.arrived[k].valid.eq(ingress.written.valid & (ingress.written.die == d)),
                    die.arrived[k].slot.eq(ingress.written.slot),
                    die.arrived[k].poison.eq(ingress.written.poison),
                ]

        program, sent = regions.program, tsv.sent
        m.d.comb += [
            program.en.eq(tsv.program.en),
            program.group.eq(tsv.program.group),
            program.region.eq(tsv.program.region),
            program.row.eq(tsv.program.row),
            self.writein.valid.eq(sent.valid),
            self.writein.die.eq(sent.die),
            self.writein.subarray.eq(sent.slot.subarray),
            self.writein.beat.eq(sent.beat),
            *(self.writein.lanes[k].eq(program.lanes[k]) for k in range(machine.lanes)),
        ]
        for d, die in enumerate(dies):
            spoilt, here = Signal(name=f"spoilt{d}"), Signal(name=f"sent{d}")
            m.d.comb += [
                here.eq(sent.valid & (sent.die == d)),
                die.written_in.valid.eq(here & sent.last),
                die.written_in.slot.eq(sent.slot),
                die.written_in.poison.eq(spoilt | program.poison),
            ]
            with m.If(here):
                m.d.sync += spoilt.eq((spoilt | program.poison) & ~sent.last)

    def _reset(self, m: Module, k, route, dies, tracker, receiver, ingress) -> None:
        """Writes of a link that is reset, and when nothing of it is left."""
        name, reset = route.name.lower(), getattr(self, f"{LINK[route]}_reset")
        decoder, gate = m.submodules[f"decode_{name}"], m.submodules[f"gate_{name}"]
        to, cut = tracker.i[k], Signal(name=f"cut_{name}")
        awaited = Cat(die.awaits[k] for die in dies).any()
        m.d.comb += [
            to.valid.eq(receiver.o.valid),
            to.payload.eq(receiver.o.payload),
            receiver.o.ready.eq(to.ready | reset.lost),
            tracker.lost[k].eq(reset.lost),
            # What came is in its slots before the rest is given up.
            cut.eq(reset.quiet & ingress.idle),
            ingress.cut.eq(cut),
            *(die.cut[k].eq(cut) for die in dies),
            reset.settled.eq(cut & decoder.empty & gate.idle & ~receiver.holds & ~awaited),
        ]

    def _fill(self, m: Module, tsv: TsvTransfer, regions: TransferRegions) -> None:
        """What enters the regions: read-outs, or write data of a link."""
        ingresses = [m.submodules[f"ingress_{LINK[route]}"] for route in self._routes]
        for g in range(GROUPS):
            wiring.connect(m, tsv.readout[g], wiring.flipped(self.readout[g]))
            fill = regions.fill[g]
            m.d.comb += [
                fill.en.eq(tsv.write[g].en),
                fill.region.eq(tsv.write[g].region),
                fill.row.eq(tsv.write[g].row),
                *(
                    lane.eq(new)
                    for lane, new in zip(fill.lanes, self.readout[g].lanes, strict=True)
                ),
            ]
            for k, ingress in enumerate(ingresses):
                with m.If(tsv.of_link[g][k]):
                    m.d.comb += [
                        lane.eq(new) for lane, new in zip(fill.lanes, ingress.lanes, strict=True)
                    ]
