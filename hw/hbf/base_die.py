"""The HBF base die: requests in, NAND commands out, pages drained over both paths."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.die_scheduler import CLOCK_BITS, DieScheduler
from hw.hbf.drain import DrainEngine, RelayAdmission
from hw.hbf.layouts import (
    MAX_PAGES,
    CommandPort,
    ReadoutPort,
    Registers,
    descriptor_layout,
)
from hw.hbf.page_walk import log2
from hw.hbf.tsv_fill import TsvFill
from hw.hbf.wave_gate import WaveGate
from hw.params import Machine
from hw.sram.regions import GROUPS, TransferRegions
from hw.ucie.credit import CreditCounter, RequestReceiver
from hw.ucie.transaction import (
    ADDRESS_UNIT_BYTES,
    DataPort,
    MessageClass,
    RequestPort,
    Route,
)

# A frame reads group 0 first: the clock of the slot in which group 0 belongs to the path.
FRAME_START = {Route.DIRECT: 1, Route.RELAY: 3}

# Longer than a page takes on its TSV lane at the usual rate, 41 clocks in `paper`, and much shorter
# than a chunk.
CHUNK_IDLE_CLOCKS = 128


class RequestDecoder(wiring.Component):
    """Receive queue of one link, decoded into page descriptors.

    Contract: read requests leave in order; ``pages`` gives their page count in the clock they
    leave, else zero. Address and length are whole pages.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "port": In(RequestPort()),
                "o": Out(stream.Signature(descriptor_layout(machine))),
                "pages": Out(range(MAX_PAGES + 1)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        units = log2(machine.geometry.page_bytes // ADDRESS_UNIT_BYTES)
        m.submodules.receiver = receiver = RequestReceiver(credits=machine.credits.descriptors)
        wiring.connect(m, wiring.flipped(self.port), receiver.port)
        header = receiver.o.payload
        m.d.comb += [
            self.o.valid.eq(receiver.o.valid),
            receiver.o.ready.eq(self.o.ready),
            self.o.payload.first.eq(header.address >> units),
            self.o.payload.pages.eq(header.length >> units),
            self.o.payload.tag.eq(header.tag),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.comb += self.pages.eq(self.o.payload.pages)
        return m


class HbfBaseDie(wiring.Component):
    """Base die of one HBF stack.

    Promise: every page of an accepted read request leaves exactly once on the path that brought the
    request (link A from the GPU: Direct; link C from the HBM base die: Relay), labelled with tag
    and page number; pages may leave out of order, the four beats of a page do not part. Both paths
    drain at once from separate banks. A page is issued to the NAND only when die, subarray, SRAM
    slot and path are available, and leaves only under credit.

    First beat on an idle die: tR + 41 clocks of fill + about 20 (``paper``). Steady rate: the least
    of sensing, TSVs and links, see :meth:`hw.params.Machine.steady_bound_bytes_per_s`.

    Back-pressure: requests and data are under credit; nothing received is ever refused. Source:
    DASH section IV-B.

    Members
    -------
    a_request, a_data : link A, present if ``direct``
    c_request, c_data : link C, present if ``relay``; a credit of ``c_data`` is one relay region; a
        COMPLETION without data closes the open chunk
    command : one port a NAND die
    readout : one port a bank group
    registers : run-time registers
    """

    def __init__(self, machine: Machine, *, direct: bool = True, relay: bool = True) -> None:
        if not (direct or relay):
            raise ValueError("an HBF base die needs link A (direct), link C (relay) or both")
        self._machine, self._direct, self._relay = machine, direct, relay
        members = {
            "command": Out(CommandPort(machine)).array(machine.geometry.dies),
            "readout": Out(ReadoutPort(machine)).array(GROUPS),
            "registers": In(Registers()),
        }
        for link, present in (("a", direct), ("c", relay)):
            if present:
                members[f"{link}_request"] = In(RequestPort())
                members[f"{link}_data"] = Out(DataPort(machine.lanes))
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        registers = self.registers
        dies = [DieScheduler(machine, die=d) for d in range(machine.geometry.dies)]
        m.submodules.regions = regions = TransferRegions(machine)
        m.submodules.fill = fill = TsvFill(machine)
        m.submodules.gate = gate = WaveGate(machine)

        clock = Signal(CLOCK_BITS)
        m.d.sync += clock.eq(clock + 1)
        region_busy = [Signal(name=f"region{r}_busy") for r in range(2)]
        m.d.comb += [
            gate.sensing.eq(Cat(die.sensing for die in dies).any()),
            gate.pending.eq(Cat(die.pending for die in dies).any()),
            *(region_busy[r].eq(Cat(die.region_busy[r] for die in dies).any()) for r in range(2)),
            gate.region_busy.eq(Cat(region_busy)),
            fill.now.eq(regions.now),
            fill.rate.eq(registers.tsv_rate),
        ]
        for d, die in enumerate(dies):
            m.submodules[f"die{d}"] = die
            wiring.connect(m, die.command, wiring.flipped(self.command[d]))
            wiring.connect(m, die.transfer, fill.i[d])
            m.d.comb += [
                die.clock.eq(clock),
                die.t_read.eq(registers.t_read),
                die.cache_read.eq(registers.cache_read),
                die.lockstep.eq(registers.lockstep),
                die.wave_open.eq(gate.open),
                die.wave_region.eq(gate.region),
                die.transferred.eq(fill.transferred[d]),
            ]
        for g in range(GROUPS):
            wiring.connect(m, fill.readout[g], wiring.flipped(self.readout[g]))
            m.d.comb += [
                regions.fill[g].en.eq(fill.write[g].en),
                regions.fill[g].region.eq(fill.write[g].region),
                regions.fill[g].row.eq(fill.write[g].row),
                *(
                    regions.fill[g].lanes[k].eq(self.readout[g].lanes[k])
                    for k in range(machine.lanes)
                ),
            ]

        if self._direct:
            drain = self._path(m, Route.DIRECT, dies, fill, regions.direct, regions.now)
            m.submodules.direct_credits = credits = CreditCounter(
                initial=machine.credits.rx_beats, max_take=GROUPS
            )
            m.d.comb += [
                credits.give.eq(self.a_data.credit),
                drain.admit.eq(credits.count >= GROUPS),
            ]
            with m.If(drain.sent):
                m.d.comb += credits.take.eq(GROUPS)
        if self._relay:
            drain = self._path(m, Route.RELAY, dies, fill, regions.relay, regions.now)
            decoder = m.submodules.decode_relay
            m.submodules.relay_admission = admission = RelayAdmission(
                chunk_pages=machine.relay_chunk_pages,
                regions=machine.sram.relay_regions,
                max_pages=MAX_PAGES,
                idle_clocks=CHUNK_IDLE_CLOCKS,
            )
            m.d.comb += [
                admission.requested.eq(decoder.pages),
                admission.waiting.eq(drain.waiting),
                admission.sent.eq(drain.sent),
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
        return m

    def _path(self, m, route, dies, fill, read_port, now) -> DrainEngine:
        """Decoder, descriptor broadcast and drain of one path."""
        name = route.name.lower()
        link = "a" if route is Route.DIRECT else "c"
        request, port = getattr(self, f"{link}_request"), getattr(self, f"{link}_data")
        m.submodules[f"decode_{name}"] = decoder = RequestDecoder(self._machine)
        drain = DrainEngine(self._machine, route=route, start=FRAME_START[route])
        m.submodules[f"drain_{name}"] = drain
        wiring.connect(m, wiring.flipped(request), decoder.port)

        walks = [getattr(die, name) for die in dies]
        all_ready = Cat(walk.ready for walk in walks).all()
        m.d.comb += decoder.o.ready.eq(all_ready)
        for d, walk in enumerate(walks):
            filled = fill.filled[d]
            m.d.comb += [
                walk.valid.eq(decoder.o.valid & all_ready),
                walk.payload.eq(decoder.o.payload),
                drain.ready[d].valid.eq(filled.valid & (filled.page.path == route)),
                drain.ready[d].slot.eq(filled.page.slot),
                getattr(dies[d], f"free_{name}").eq(drain.free[d]),
                drain.label[d].eq(dies[d].label),
            ]
            with m.If(drain.label_en):
                m.d.comb += dies[d].label_slot.eq(drain.label_slot)
        m.d.comb += [
            drain.now.eq(now),
            drain.rate.eq(self.registers.link_rate),
            read_port.en.eq(drain.read_en),
            read_port.region.eq(drain.read_region),
            read_port.row.eq(drain.read_row),
            *(drain.lanes[k].eq(read_port.lanes[k]) for k in range(self._machine.lanes)),
            port.valid.eq(drain.port.valid),
            port.header.eq(drain.port.header),
            *(port.lanes[k].eq(drain.port.lanes[k]) for k in range(self._machine.lanes)),
        ]
        return drain
