"""Write data of one link on its way into the transfer regions."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from hw.hbf.layouts import slot_layout, token_layout
from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.beat_queue import BeatQueue
from hw.ucie.transaction import DataPort


def want_layout(machine: Machine) -> data.StructLayout:
    """Where a beat wants to go: bank group and row of a transfer region."""
    return data.StructLayout(
        {
            "valid": 1,
            "group": range(GROUPS),
            "region": 1,
            "row": range(machine.geometry.wave_pages),
            "beat": 2,
        }
    )


def written_layout(machine: Machine) -> data.StructLayout:
    """A page that is wholly in its slot."""
    return data.StructLayout(
        {
            "valid": 1,
            "die": range(machine.geometry.dies),
            "slot": slot_layout(machine),
            "poison": 1,
        }
    )


class WriteIngress(wiring.Component):
    """Receive queue of one link for WRITE_DATA, and where its beats go.

    Promise: beats leave in order of arrival, each to the slot that its token (``header.credit``)
    names: beat ``b`` of a page of die ``d`` to group ``(b + d) mod 4``, as for a read. ``want``
    and ``lanes`` show the oldest beat until a clock with ``take``; whoever fills the region takes
    it in a fill clock of its group and writes the lanes in that clock. One clock after the last
    beat of a page (``page_end``) was taken ``written`` names the slot, poisoned if any beat was.

    Latency: 2 clocks from ``port`` to ``want``. Throughput: one beat a clock, since consecutive
    beats go to consecutive groups, whose fill clocks alternate. Back-pressure: a beat waits for
    ``take`` as long as it must; a credit is one of ``machine.credits.rx_beats`` beats. The sender
    was granted the slot, sends beats 0 to 3 without other beats between and nothing but WRITE_DATA.
    ``cut`` forgets a page whose other beats were lost.

    Members
    -------
    port : In(DataPort)
    want : Out
    take : In(1), only with ``want.valid``
    lanes : Out(64) array
    written : Out, a pulse
    cut : In: nothing comes any more; idle : Out: nothing waits
    """

    def __init__(self, machine: Machine) -> None:
        token_bits = token_layout(machine).size
        if token_bits > 16:
            raise ValueError(f"a slot token of {token_bits} bits does not fit the header: 16 bits")
        self._machine = machine
        super().__init__(
            {
                "port": In(DataPort(machine.lanes)),
                "want": Out(want_layout(machine)),
                "take": In(1),
                "lanes": Out(64).array(machine.lanes),
                "written": Out(written_layout(machine)),
                "cut": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        m.submodules.queue = queue = BeatQueue(
            lanes=machine.lanes,
            depth=machine.credits.rx_beats,
            bank_bytes=machine.sram.bank_bytes,
        )
        wiring.connect(m, wiring.flipped(self.port), queue.port)

        layout = token_layout(machine)
        header = queue.o.header
        token = layout(header.credit[: layout.size])
        m.d.comb += [
            self.want.valid.eq(queue.o.valid),
            self.want.group.eq(header.beat + token.die),
            self.want.region.eq(token.region),
            self.want.row.eq((token.subarray << exact_log2(machine.geometry.dies)) | token.die),
            self.want.beat.eq(header.beat),
            queue.o.ready.eq(self.take),
            *(self.lanes[k].eq(queue.o.lanes[k]) for k in range(machine.lanes)),
        ]

        poisoned = Signal()  # an earlier beat of the page was
        m.d.sync += self.written.valid.eq(self.take & header.page_end)
        m.d.comb += self.idle.eq(~queue.o.valid & ~self.written.valid)
        with m.If(self.take):
            m.d.sync += [
                poisoned.eq((poisoned | header.poison) & ~header.page_end),
                self.written.die.eq(token.die),
                self.written.slot.subarray.eq(token.subarray),
                self.written.slot.region.eq(token.region),
                self.written.poison.eq(poisoned | header.poison),
            ]
        with m.Elif(self.cut):
            m.d.sync += poisoned.eq(0)
        return m
