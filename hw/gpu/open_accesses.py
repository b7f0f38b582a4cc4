"""Reads of the HBM stack that are open: where their next beat lies, and what of them is missing."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.bits import line
from hw.gpu.local_layouts import local_request_layout
from hw.hbm.dram.beats import LENGTH_BITS
from hw.hbm.dram.description import HbmStack


def place_layout(stack: HbmStack) -> data.StructLayout:
    """A beat: its address, a bit for each access that is wanted, whether it is the last."""
    address = local_request_layout(stack).members["address"]
    return data.StructLayout({"address": address, "wanted": stack.beat_accesses, "last": 1})


class OpenAccesses(wiring.Component):
    """Counts the accesses of each open read, by its slot.

    Promise: a slot is open from the clock after ``begin`` to that of its last ``beat`` or of
    ``end``. ``place`` is that of the next beat of ``beat.slot``, combinational and also without
    ``beat.valid``, which steps on. The beats of a read are those that hold it, in rising order; of
    the first one no access before its address is wanted, of the last none behind its end.
    ``received`` counts in each clock the accesses that came with ``beat`` and those that ``end``
    gives up. Nothing is held back.

    Contract: ``begin`` only of a slot that is not open, ``beat`` and ``end`` only of one that is,
    not both of one slot in a clock.

    Members
    -------
    begin : In: slot, address and length; beat, end : In: slot
    place : Out; received : Out; open : Out, one bit a slot
    """

    def __init__(self, stack: HbmStack, *, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"slots must be at least 1, not {slots!r}")
        self._stack, self._slots = stack, slots
        of_slot = {"valid": 1, "slot": range(slots)}
        request = local_request_layout(stack).members
        span = {name: request[name] for name in ("address", "length")}
        super().__init__(
            {
                "begin": In(data.StructLayout({**of_slot, **span})),
                "beat": In(data.StructLayout(of_slot)),
                "end": In(data.StructLayout(of_slot)),
                "place": Out(place_layout(stack)),
                "received": Out(LENGTH_BITS + 1),
                "open": Out(slots),
            }
        )

    @property
    def slots(self) -> int:
        return self._slots

    def elaborate(self, platform) -> Module:
        m = Module()
        slots = self._slots
        asked = data.StructLayout({"stop": len(self.begin.address) + 1, "length": LENGTH_BITS})
        m.submodules.asked = table = Memory(shape=asked, depth=slots, init=[])
        m.submodules.lefts = lefts = Memory(shape=LENGTH_BITS, depth=slots, init=[])
        write, store = table.write_port(), lefts.write_port()
        m.d.comb += [
            write.en.eq(self.begin.valid),
            write.addr.eq(self.begin.slot),
            write.data.stop.eq(self.begin.address + self.begin.length),
            write.data.length.eq(self.begin.length),
        ]

        fresh = Signal(slots)  # nothing has come since `begin`: what `lefts` holds is old
        # Where the read ends and what is left of it before this clock, of both slots.
        found: list[tuple[Value, Value]] = []
        for of in (self.beat, self.end):
            entry, count = table.read_port(domain="comb"), lefts.read_port(domain="comb")
            left = Signal(LENGTH_BITS, name=f"left{len(found)}")
            m.d.comb += [
                entry.addr.eq(of.slot),
                count.addr.eq(of.slot),
                left.eq(Mux(fresh.bit_select(of.slot, 1), entry.data.length, count.data)),
            ]
            found.append((entry.data.stop, left))
        (stop, left), (_, missing) = found
        here = self._place(m, stop, left)
        m.d.comb += [
            store.en.eq(self.beat.valid),
            store.addr.eq(self.beat.slot),
            store.data.eq(left - here),
            self.received.eq(Mux(self.beat.valid, here, 0) + Mux(self.end.valid, missing, 0)),
        ]
        begins = line(self.begin.valid, self.begin.slot, slots)
        comes = line(self.beat.valid, self.beat.slot, slots)
        ends = line(self.end.valid, self.end.slot, slots)
        ends |= line(self.beat.valid & self.place.last, self.beat.slot, slots)
        m.d.sync += [
            fresh.eq((fresh & ~comes) | begins),
            self.open.eq((self.open & ~ends) | begins),
        ]
        return m

    def _place(self, m: Module, stop: Value, left: Value) -> Signal:
        """Drives ``place`` of a read that has ``left`` accesses to ``stop``; how many it takes."""
        accesses = self._stack.beat_accesses
        low = (accesses - 1).bit_length()
        following = Signal(len(self.place.address))  # the next access
        first = Signal(range(accesses))
        room, here = Signal(range(accesses + 1)), Signal(range(accesses + 1))
        # The last access is never before `first`: a comparison would be one with a constant result.
        begun = [*(first <= k for k in range(accesses - 1)), Const(1)]
        m.d.comb += [
            following.eq(stop - left),
            first.eq(following[:low]),
            room.eq(accesses - first),
            self.place.last.eq(left <= room),
            here.eq(Mux(self.place.last, left, room)),
            self.place.address.eq(Cat(Const(0, low), following[low:])),
            self.place.wanted.eq(Cat(begun[k] & (k - first < here) for k in range(accesses))),
        ]
        return here
