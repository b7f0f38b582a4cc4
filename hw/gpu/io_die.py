"""The GPU I/O die: asks for whole transactions and puts them together again."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.gpu.reassembly import Reassembly
from hw.gpu.router import WINDOW_BITS, RequestRouter, read_layout
from hw.params import Machine
from hw.ucie.credit import RequestSender
from hw.ucie.pacer import RATE_BITS
from hw.ucie.transaction import BeatStream, DataPort, RequestPort
from hw.ucie.write_sender import (
    WriteSender,
    done_layout,
    fetch_layout,
    write_request_layout,
)

PATHS = ("direct", "relay")


class GpuIoDie(wiring.Component):
    """I/O die for ``pairs`` stack pairs.

    Promise: a read of 1 to 4096 pages within the stack goes to every pair over the same path, each
    pair holding its stripe at the same pages; when the last page of the last pair has been taken,
    ``done`` tells its tag, once. Reads may complete in any order. Data leaves per pair and path as
    it comes.

    Writes go to every pair over link A, each pair programming its stripe at the same pages; see
    :class:`hw.ucie.write_sender.WriteSender`, of which each pair has one.

    Back-pressure: ``i`` waits as :class:`hw.gpu.router.RequestRouter` says; data waits under
    credit; ``done`` is a pulse and never waits.

    Members
    -------
    i, window : reads, and the router's registers
    direct_request, direct_data : link A, one a pair, if ``direct``
    relay_request, relay_data : link B, one a pair, if ``relay``
    direct_o, relay_o : beats with their address, one a pair
    done : tag, path and poison of a read that is whole, one a path
    write, fetch, fetch_lanes, write_done : writes, if ``direct``; the last three one a pair
    direct_write, direct_write_data, direct_reply : link A, one a pair
    link_rate : beats a clock of write data on link A, in 1/65536
    """

    def __init__(self, machine: Machine, *, pairs: int, direct: bool, relay: bool) -> None:
        if not (direct or relay):
            raise ValueError("a GPU I/O die needs the direct path, the relay path or both")
        self._machine, self._pairs = machine, pairs
        self._present = {"direct": direct, "relay": relay}
        done = data.StructLayout({"valid": 1, "tag": 12, "poison": 1})
        members = {
            "i": In(stream.Signature(read_layout(machine))),
            "window": In(WINDOW_BITS),
        }
        for name in PATHS:
            if self._present[name]:
                members |= {
                    f"{name}_request": Out(RequestPort()).array(pairs),
                    f"{name}_data": In(DataPort(machine.lanes)).array(pairs),
                    f"{name}_o": Out(BeatStream(machine.lanes)).array(pairs),
                    f"{name}_done": Out(done),
                }
        if direct:
            members |= {
                "link_rate": In(RATE_BITS + 1),
                "write": In(stream.Signature(write_request_layout(machine))),
                "fetch": Out(fetch_layout()).array(pairs),
                "fetch_lanes": In(64).array(pairs, machine.lanes),
                "write_done": Out(done_layout()).array(pairs),
                "direct_write": Out(RequestPort()).array(pairs),
                "direct_write_data": Out(DataPort(machine.lanes)).array(pairs),
                "direct_reply": In(RequestPort()).array(pairs),
            }
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        machine, pairs = self._machine, self._pairs
        m.submodules.router = router = RequestRouter(machine, pairs=pairs, **self._present)
        wiring.connect(m, wiring.flipped(self.i), router.i)
        m.d.comb += router.window.eq(self.window)
        for p, name in enumerate(PATHS):
            if self._present[name]:
                self._path(m, router, p, name)
        if self._present["direct"]:
            self._writes(m)
        return m

    def _writes(self, m: Module) -> None:
        senders = []
        for pair in range(self._pairs):
            m.submodules[f"writer{pair}"] = sender = WriteSender(self._machine)
            wiring.connect(m, sender.request, wiring.flipped(self.direct_write[pair]))
            wiring.connect(m, sender.data, wiring.flipped(self.direct_write_data[pair]))
            wiring.connect(m, wiring.flipped(self.direct_reply[pair]), sender.reply)
            m.d.comb += [
                sender.rate.eq(self.link_rate),
                self.fetch[pair].eq(sender.fetch),
                self.write_done[pair].eq(sender.done),
                *(
                    sender.fetch_lanes[k].eq(self.fetch_lanes[pair][k])
                    for k in range(self._machine.lanes)
                ),
            ]
            senders.append(sender)
        ready = Cat(sender.i.ready for sender in senders).all()
        m.d.comb += self.write.ready.eq(ready)
        for sender in senders:
            m.d.comb += [
                sender.i.valid.eq(self.write.valid & ready),
                sender.i.payload.eq(self.write.payload),
            ]

    def _path(self, m: Module, router: RequestRouter, p: int, name: str) -> None:
        machine, pairs = self._machine, self._pairs
        slots = machine.credits.descriptors
        accepted, read = router.accepted, self.i.payload
        begins = accepted.valid & (accepted.path == p)

        m.submodules[f"{name}_tags"] = tags = Memory(shape=12, depth=slots, init=[])
        tag_write, tag_read = tags.write_port(), tags.read_port(domain="comb")
        m.d.comb += [
            tag_write.en.eq(begins),
            tag_write.addr.eq(accepted.slot),
            tag_write.data.eq(read.tag),
        ]

        senders, received, finished, poisons = [], [], [], []
        for pair in range(pairs):
            sender = RequestSender(credits=slots)
            part = Reassembly(machine)
            m.submodules[f"{name}_sender{pair}"] = sender
            m.submodules[f"{name}_reassembly{pair}"] = part
            wiring.connect(m, sender.port, wiring.flipped(getattr(self, f"{name}_request")[pair]))
            wiring.connect(m, wiring.flipped(getattr(self, f"{name}_data")[pair]), part.port)
            wiring.connect(m, part.o, wiring.flipped(getattr(self, f"{name}_o")[pair]))
            m.d.comb += [
                sender.i.valid.eq(router.send[p]),
                sender.i.payload.eq(router.header[p]),
                part.begin.valid.eq(begins),
                part.begin.slot.eq(accepted.slot),
                part.begin.first.eq(read.first),
                part.begin.pages.eq(read.pages),
                part.begin.tag.eq(read.tag),
            ]
            senders.append(sender.i.ready)
            received.append(part.page_done)

            # Slots this pair has finished and another has not, with their poison.
            done_bits = Signal(slots, name=f"{name}_finished{pair}")
            poison_bits = Signal(slots, name=f"{name}_poison{pair}")
            event = part.completed
            now = Mux(event.valid, Const(1, slots) << event.slot, Const(0, slots))
            finished.append((done_bits, done_bits | now))
            poisons.append((poison_bits, poison_bits | Mux(event.poison, now, 0)))
        m.d.comb += router.may_send[p].eq(Cat(senders).all())
        m.d.comb += router.received[p].eq(sum(received))

        all_done, any_poison = Signal(slots), Signal(slots)
        whole = Const(-1, slots)
        for _, bits in finished:
            whole = whole & bits
        poison = Const(0, slots)
        for _, bits in poisons:
            poison = poison | bits
        done_now = Signal(slots)
        m.d.comb += [
            all_done.eq(whole),
            any_poison.eq(poison),
            done_now.eq(all_done & (~all_done + 1)),
        ]
        for bits, after in (*finished, *poisons):
            m.d.sync += bits.eq(after & ~done_now)
        slot = Signal(range(slots), name=f"{name}_done_slot")
        for k in range(slots):
            with m.If(done_now[k]):
                m.d.comb += slot.eq(k)
        done = getattr(self, f"{name}_done")
        m.d.comb += [
            tag_read.addr.eq(slot),
            router.completed[p].valid.eq(done_now.any()),
            router.completed[p].slot.eq(slot),
            done.valid.eq(done_now.any()),
            done.tag.eq(tag_read.data),
            done.poison.eq((any_poison & done_now).any()),
        ]
