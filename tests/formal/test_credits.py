# amaranth: UnusedElaboratable=no
"""Credits: conserved, and enough to keep every receive queue from overflowing."""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Signal
from amaranth.lib.wiring import In, connect

from hw.ucie.beat_queue import BeatQueue
from hw.ucie.channel import DataChannel, RequestChannel
from hw.ucie.credit import CreditCounter, RequestReceiver, RequestSender
from tests.formal.harness import Counterexample, Properties, Unreached, prove
from tests.formal.order import in_order
from tests.formal.variants import variant


class Counter(Properties):
    """A user that takes what is there and a giver that gives back what is out."""

    def __init__(self, *, credits: int, max_take: int = 1, counter: type = CreditCounter) -> None:
        self._counter = counter(initial=credits, max_take=max_take)
        super().__init__({"take": In(range(max_take + 1)), "give": In(1)})

    def describe(self, m) -> None:
        m.submodules.counter = counter = self._counter
        out = Signal(range(2 * counter.limit + 1))
        m.d.comb += [
            counter.take.eq(self.take),
            counter.give.eq(self.give),
            Assume(self.take <= counter.count),
            Assume(~self.give | (out != 0)),
            Assert(counter.count + out == counter.initial, "credits are conserved"),
            Cover(counter.count == 0, "all out"),
            Cover((counter.count == counter.initial - 1) & self.give & (self.take != 0), "both"),
        ]
        m.d.sync += out.eq(out + self.take - self.give)


class RequestLoop(Properties):
    """Sender, link and receiver; requests and the consumer come as they like."""

    def __init__(
        self,
        *,
        credits: int,
        receive_credits: int | None = None,
        sender: type = RequestSender,
        receiver: type = RequestReceiver,
    ) -> None:
        self._credits = credits
        self._sender = sender(credits=credits)
        self._receiver = receiver(credits=receive_credits or credits)
        super().__init__({"valid": In(1), "tag": In(1), "consume": In(1), "pick": In(1)})

    def describe(self, m) -> None:
        credits, sender, receiver = self._credits, self._sender, self._receiver
        m.submodules.sender, m.submodules.receiver = sender, receiver
        m.submodules.channel = channel = RequestChannel(cycles=2)
        connect(m, sender.port, channel.i)
        connect(m, channel.o, receiver.port)
        put, take = Signal(), Signal()
        m.d.comb += [
            sender.i.valid.eq(self.valid),
            sender.i.payload.tag.eq(self.tag),
            receiver.o.ready.eq(self.consume),
            put.eq(sender.i.valid & sender.i.ready),
            take.eq(receiver.o.valid & receiver.o.ready),
        ]
        inside = in_order(
            m,
            pick=self.pick,
            put=put,
            sent=self.tag,
            take=take,
            received=receiver.o.payload.tag[:1],
            limit=credits,
        )
        # Each place of the loop is counted from what passes its ports.
        held = Signal(range(2 * credits + 2), init=credits)
        flight, queue, returning = (
            Signal(range(2 * credits + 2), name=name) for name in ("flight", "queue", "returning")
        )
        m.d.sync += [
            held.eq(held - put + sender.port.credit),
            flight.eq(flight + put - receiver.port.valid),
            queue.eq(queue + receiver.port.valid - take),
            returning.eq(returning + take - sender.port.credit),
        ]
        m.d.comb += [
            Assert(held + flight + queue + returning == credits, "credits are conserved"),
            Assert(held <= credits, "no credit from nowhere"),
            Assert(flight <= credits, "nothing arrives that was not sent"),
            Assert(queue <= credits, "queue never overflows"),
            Assert(sender.i.ready == (held != 0), "ready exactly under credit"),
            Assert(~receiver.o.valid | (queue != 0), "offers what it holds"),
            Assert(inside == flight + queue, "inside is in flight or queued"),
            Cover((held == 0) & (returning == credits), "all returning"),
            Cover((queue == credits) & ~self.consume, "queue full"),
        ]


class BeatLoop(Properties):
    """A sender of beats under credit, the link and the receive queue."""

    def __init__(self, *, depth: int, credits: int | None = None, queue: type = BeatQueue) -> None:
        self._depth, self._credits = depth, credits or depth
        self._queue = queue(lanes=1, depth=depth, bank_bytes=8)
        super().__init__({"valid": In(1), "bit": In(1), "consume": In(1), "pick": In(1)})

    def describe(self, m) -> None:
        m.submodules.queue = queue = self._queue
        m.submodules.channel = channel = DataChannel(lanes=1, cycles=2, bank_bytes=8)
        m.submodules.counter = counter = CreditCounter(initial=self._credits)
        connect(m, channel.o, queue.port)
        put, take = Signal(), Signal()
        m.d.comb += [
            put.eq(self.valid & (counter.count != 0)),
            counter.take.eq(put),
            counter.give.eq(channel.i.credit),
            channel.i.valid.eq(put),
            channel.i.header.tag.eq(self.bit),
            channel.i.lanes[0].eq(self.bit),
            queue.o.ready.eq(self.consume),
            take.eq(queue.o.valid & queue.o.ready),
            Assert(~queue.o.valid | (queue.o.lanes[0] == queue.o.header.tag), "lanes keep with"),
        ]
        in_order(
            m,
            pick=self.pick,
            put=put,
            sent=self.bit,
            take=take,
            received=queue.o.header.tag[:1],
            limit=self._depth,
        )


@pytest.mark.formal
@pytest.mark.parametrize(("credits", "max_take"), [(1, 1), (3, 1), (7, 4), (64, 4)])
def test_counter_conserves(credits: int, max_take: int) -> None:
    component = Counter(credits=credits, max_take=max_take)
    prove(component, label=f"of {credits}")


def test_counter_conserves_quickly() -> None:
    prove(Counter(credits=4))
    prove(Counter(credits=4), mode="cover", depth=8)


def test_counter_that_overwrites_is_found() -> None:
    broken = variant(
        CreditCounter, ("self.count - self.take + self.give", "self.count - self.take | self.give")
    )
    with pytest.raises(Counterexample, match=r"credits_are_conserved violated, see .*\.vcd"):
        prove(Counter(credits=4, counter=broken))


def test_assumptions_that_leave_nothing_are_found() -> None:
    """A counter of one never has the last but one credit given while another is taken."""
    with pytest.raises(Unreached, match="both"):
        prove(Counter(credits=1), mode="cover", depth=8)


@pytest.mark.formal
@pytest.mark.parametrize("credits", [1, 2, 3])
def test_request_loop(credits: int) -> None:
    prove(RequestLoop(credits=credits), label=f"of {credits}")
    prove(RequestLoop(credits=credits), mode="cover", depth=30, label=f"of {credits}")


@pytest.mark.formal
def test_early_credit_is_found() -> None:
    """A receiver that gives a credit for every descriptor it offers, taken or not."""
    broken = variant(
        RequestReceiver,
        ("credit.eq(self.o.valid & self.o.ready)", "credit.eq(self.o.valid)"),
    )
    with pytest.raises(Counterexample):
        prove(RequestLoop(credits=2, receiver=broken))


@pytest.mark.formal
def test_queue_smaller_than_its_credits_is_found() -> None:
    """The sender holds one credit more than the receive queue has room for."""
    with pytest.raises(Counterexample, match="followed"):
        prove(RequestLoop(credits=4, receive_credits=2))


@pytest.mark.formal
@pytest.mark.parametrize("depth", [2, 3])
def test_beat_queue(depth: int) -> None:
    prove(BeatLoop(depth=depth), label=f"of {depth}")
    prove(BeatLoop(depth=depth), mode="cover", depth=30, label=f"of {depth}")


@pytest.mark.formal
def test_beat_queue_under_too_many_credits_is_found() -> None:
    with pytest.raises(Counterexample):
        prove(BeatLoop(depth=2, credits=5))
