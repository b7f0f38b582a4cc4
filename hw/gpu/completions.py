"""Reads of one path that are over: brought whole, or ended without, by every stack pair."""

from functools import reduce
from operator import and_, or_

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.arbiter import select
from hw.bits import line
from hw.params import Machine
from hw.ucie.transaction import Status


def end_layout(machine: Machine) -> data.StructLayout:
    """A pair has done with the read of a slot, whole if ``status`` is OK.

    ``poison`` if any beat of it is wrong.
    """
    slot = range(machine.credits.descriptors)
    return data.StructLayout({"valid": 1, "slot": slot, "poison": 1, "status": 4})


def read_done_layout() -> data.StructLayout:
    """A read is over; its data are whole only if ``status`` is OK, and wrong if ``poison``."""
    return data.StructLayout({"valid": 1, "tag": 12, "poison": 1, "status": 4})


class Completions(wiring.Component):
    """Tells each read of one path once, when all pairs are done with it.

    Promise: after ``begin`` of a slot, each pair gives one ``end`` of it; in the clock of the last
    one, or as soon as no lower slot is over too, ``done`` tells its tag and ``slot`` is free.
    ``poison`` is that of any pair, ``status`` that of a pair that did not bring it whole, else OK.
    One read a clock; nothing is ever held back.

    Members
    -------
    begin : In: the slot that a read takes, with its tag
    end : In, ``sources`` of each pair: its ends may come in any of them
    done : Out, a pulse; slot : Out, its slot
    """

    def __init__(self, machine: Machine, *, pairs: int, sources: int) -> None:
        self._machine, self._pairs, self._sources = machine, pairs, sources
        slot = range(machine.credits.descriptors)
        super().__init__(
            {
                "begin": In(data.StructLayout({"valid": 1, "slot": slot, "tag": 12})),
                "end": In(end_layout(machine)).array(pairs, sources),
                "done": Out(read_done_layout()),
                "slot": Out(slot),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        slots = self._machine.credits.descriptors
        m.submodules.tags = tags = Memory(shape=12, depth=slots, init=[])
        write, read = tags.write_port(), tags.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.begin.valid),
            write.addr.eq(self.begin.slot),
            write.data.eq(self.begin.tag),
        ]

        over, poisons = [], []  # by slot: now, and before its other pairs are done
        for pair in range(self._pairs):
            over_bits = Signal(slots, name=f"over{pair}")
            poison_bits = Signal(slots, name=f"poison{pair}")
            ends = [self.end[pair][k] for k in range(self._sources)]
            ended = (line(end.valid, end.slot, slots) for end in ends)
            over.append((over_bits, reduce(or_, ended, over_bits)))
            poisoned = (line(end.valid & end.poison, end.slot, slots) for end in ends)
            poisons.append((poison_bits, reduce(or_, poisoned, poison_bits)))

        by_all, told, poison = Signal(slots), Signal(slots), Signal(slots)
        m.d.comb += [
            by_all.eq(reduce(and_, (bits for _, bits in over))),
            poison.eq(reduce(or_, (bits for _, bits in poisons))),
            told.eq(by_all & (~by_all + 1)),
        ]
        for bits, after in (*over, *poisons):
            m.d.sync += bits.eq(after & ~told)

        statuses = []
        for k in range(slots):
            kept = Signal(4, init=Status.OK, name=f"status{k}")
            status = Signal.like(kept, name=f"status_now{k}")
            m.d.comb += status.eq(kept)
            for end in (self.end[p][s] for p in range(self._pairs) for s in range(self._sources)):
                with m.If(end.valid & (end.slot == k) & (end.status != Status.OK)):
                    m.d.comb += status.eq(end.status)
            m.d.sync += kept.eq(status)
            with m.If(told[k]):
                m.d.sync += kept.eq(Status.OK)
            statuses.append(status)
        m.d.comb += [
            self.slot.eq(select(told, range(slots))),
            read.addr.eq(self.slot),
            self.done.valid.eq(told.any()),
            self.done.tag.eq(read.data),
            self.done.poison.eq((poison & told).any()),
            self.done.status.eq(select(told, statuses)),
        ]
        return m
