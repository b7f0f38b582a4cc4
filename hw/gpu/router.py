"""Request router of the GPU I/O die: whole transactions to the Direct or the Relay path."""

import enum

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.bits import line
from hw.gpu.path_policy import OUTSTANDING_BITS, LeastOutstanding, PathPolicy
from hw.hbf.layouts import MAX_PAGES
from hw.hbf.page_walk import log2
from hw.params import Machine
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, Header, MessageClass, Operation

WINDOW_BITS = OUTSTANDING_BITS - 4


class Choice(enum.IntEnum):
    """Who chooses the path of a request; LEAST_LOADED leaves it to the policy of the router."""

    DIRECT = 0
    RELAY = 1
    LEAST_LOADED = 2


def read_layout(machine: Machine) -> data.StructLayout:
    """A read of ``pages`` consecutive pages from page ``first`` of every stack.

    With ``units`` it is a small read: that many units of 64 bytes from unit ``offset`` of page
    ``first``, and ``pages`` is one.
    """
    page_units = range(machine.geometry.page_bytes // ADDRESS_UNIT_BYTES)
    return data.StructLayout(
        {
            "first": range(machine.geometry.stack_pages),
            "pages": range(MAX_PAGES + 1),
            "tag": 12,
            "choice": range(len(Choice)),
            "offset": page_units,
            "units": page_units,
        }
    )


def accepted_layout(slots: range) -> data.StructLayout:
    """A read that is taken, with its path and its slot there."""
    return data.StructLayout({"valid": 1, "path": 1, "slot": slots})


class RequestRouter(wiring.Component):
    """Sends each read over one path and keeps count of what is outstanding there.

    Promise: a read is accepted when its path is not lost and has a free transaction slot, a free
    request port and fewer than ``window`` pages outstanding. ``LEAST_LOADED`` takes the path that
    ``policy`` chooses, which is a :class:`hw.gpu.path_policy.PathPolicy`, or the one that exists.
    The slot number travels as the tag of the header and is free again after ``completed``. Accepts
    one read a clock.

    Members
    -------
    i : In(stream)
    window : pages outstanding at which a path takes no more
    header : Out, one a path: what is sent while ``send`` is high
    send : Out(2), may_send : In(2)
    lost : In(2): a link of the path is being reset
    received : In, one a path: pages that came in, or that will not come any more
    completed : In, one a path: a transaction slot that is done
    accepted : Out: the read taken in this clock, with its slot and path
    """

    def __init__(
        self,
        machine: Machine,
        *,
        pairs: int,
        direct: bool,
        relay: bool,
        policy: type[PathPolicy] = LeastOutstanding,
    ) -> None:
        self._machine, self._pairs, self._policy = machine, pairs, policy
        self._paths = (direct, relay)
        slots = machine.credits.descriptors
        completed = data.StructLayout({"valid": 1, "slot": range(slots)})
        super().__init__(
            {
                "i": In(stream.Signature(read_layout(machine))),
                "window": In(WINDOW_BITS),
                "header": Out(Header).array(2),
                "send": Out(2),
                "may_send": In(2),
                "lost": In(2),
                "received": In(range(pairs * (MAX_PAGES + 1) + 1)).array(2),
                "completed": In(completed).array(2),
                "accepted": Out(accepted_layout(range(slots))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        slots = machine.credits.descriptors
        units = log2(machine.geometry.page_bytes // ADDRESS_UNIT_BYTES)
        read = self.i.payload

        outstanding = [Signal(OUTSTANDING_BITS, name=f"outstanding{p}") for p in range(2)]
        slot_busy = [Signal(slots, name=f"slot_busy{p}") for p in range(2)]
        path, best = Signal(), self._best(m, outstanding)
        with m.Switch(read.choice):
            with m.Case(Choice.DIRECT):
                m.d.comb += path.eq(0)
            with m.Case(Choice.RELAY):
                m.d.comb += path.eq(1)
            with m.Default():
                m.d.comb += path.eq(best)

        m.d.comb += self.accepted.path.eq(path)
        take = Signal(2)
        for p in range(2):
            free = ~slot_busy[p]
            lowest = Signal(slots, name=f"lowest{p}")
            slot = Signal(range(slots), name=f"slot{p}")
            open_path = Signal(name=f"open{p}")
            m.d.comb += [
                lowest.eq(free & (~free + 1)),
                open_path.eq(
                    free.any() & self.may_send[p] & ~self.lost[p] & (outstanding[p] < self.window)
                ),
                take[p].eq(self.i.valid & (path == p) & open_path & self._paths[p]),
            ]
            for k in range(slots):
                with m.If(lowest[k]):
                    m.d.comb += slot.eq(k)
            with m.If(take[p]):
                m.d.comb += self.accepted.slot.eq(slot)
            header = self.header[p]
            m.d.comb += [
                header.operation.eq(Operation.READ),
                header.message_class.eq(MessageClass.REQUEST),
                header.route.eq(p),
                header.address.eq((read.first << units) | read.offset),
                header.length.eq(Mux(read.units != 0, read.units, read.pages << units)),
                header.tag.eq(slot),
            ]
            done = self.completed[p]
            begun = Mux(take[p], read.pages, 0)
            freed = line(done.valid, done.slot, slots)
            m.d.sync += [
                slot_busy[p].eq((slot_busy[p] & ~freed) | Mux(take[p], lowest, 0)),
                outstanding[p].eq(outstanding[p] + begun * self._pairs - self.received[p]),
            ]
        m.d.comb += [
            self.send.eq(take),
            self.i.ready.eq(take.any()),
            self.accepted.valid.eq(take.any()),
        ]
        return m

    def _best(self, m: Module, outstanding: list[Signal]) -> Value:
        """The path of a read that leaves it to the router."""
        if not all(self._paths):
            return Const(self._paths[1])
        policy, last = self._policy(), Signal(init=1)
        m.submodules.policy = policy
        m.d.comb += [
            *(policy.outstanding[p].eq(outstanding[p]) for p in range(2)),
            policy.lost.eq(self.lost),
            policy.last.eq(last),
        ]
        with m.If(self.accepted.valid & (self.i.payload.choice == Choice.LEAST_LOADED)):
            m.d.sync += last.eq(self.accepted.path)
        return policy.path
