"""End-to-end credits of a link: single pulses to cumulative counts, and back.

Sender ports keep their credit counters and receiver ports their pulses. In between, the giver
counts what the receivers free and tells it in CREDIT messages; the taker turns the counts into
pulses. A reset of the link begins an epoch on both: what was on its way is refunded to the sender,
what arrived stays taken until it is freed.
"""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.credit_message import (
    COUNT_BITS,
    EPOCH_BITS,
    check_ledger,
    credit_message_layout,
)
from hw.ucie.transaction import MessageClass


class CreditGiver(wiring.Component):
    """Tells the far end what the receivers of up to four channels have freed.

    Promise: each pulse of ``credit`` is told once, in a count that never goes back, in or out of
    the clock of ``clear``. With ``clear`` an epoch begins, and ``received`` of its messages is what
    had come till then, that clock included; one of them is owed even if nothing changed. A message
    is offered when something is owed, ``period`` clocks after the one before or later, and again
    when there was none for ``refresh`` clocks, so that the far end recovers from a lost one.

    Contract: nothing that was sent before the reset comes after ``clear``. Between two clears of
    one end there is one of the other, and no message gets through before both ends had theirs.

    Latency: a message stands one clock after the pulse, which it counts. Back-pressure: an offer
    stands as it is until it is taken, also while the link retrains; ``clear`` withdraws it. None
    begins in the clock of ``clear`` or while the link is not active. Source: cumulative limits as
    in PCIe flow control, reset handshake as in bedrock-rtl.

    Members
    -------
    active : In: the link carries flits, this end is not in reset
    clear : In: the link was reset, what was on its way is gone
    came : In: one bit a channel: something of it arrived
    credit : In: one bit a channel: its receiver freed a place
    message : Out: CREDIT messages
    """

    def __init__(
        self,
        *,
        depths: tuple[int, ...],
        bits: int = COUNT_BITS,
        epoch_bits: int = EPOCH_BITS,
        period: int = 8,
        refresh: int | None = 1024,
    ) -> None:
        check_ledger(depths, bits, epoch_bits)
        if period < 1:
            raise ValueError(f"period must be at least 1 clock, not {period!r}")
        if refresh is not None and refresh < period:
            raise ValueError(f"refresh must be at least the period, {period}, not {refresh!r}")
        self._depths, self._bits, self._epoch_bits = depths, bits, epoch_bits
        self._period, self._refresh = period, refresh
        layout = credit_message_layout(channels=len(depths), bits=bits, epoch_bits=epoch_bits)
        # Here so that a proof can look at it; `began` is `received` when the epoch began.
        state = data.StructLayout({"freed": bits, "received": bits, "began": bits})
        self.state = [Signal(state, name=f"state{k}") for k in range(len(depths))]
        self.epoch = Signal(epoch_bits)
        super().__init__(
            {
                "active": In(1),
                "clear": In(1),
                "came": In(len(depths)),
                "credit": In(len(depths)),
                "message": Out(stream.Signature(layout)),
            }
        )

    @property
    def depths(self) -> tuple[int, ...]:
        return self._depths

    @property
    def bits(self) -> int:
        return self._bits

    @property
    def epoch_bits(self) -> int:
        return self._epoch_bits

    @property
    def period(self) -> int:
        return self._period

    @property
    def refresh(self) -> int | None:
        return self._refresh

    def elaborate(self, platform) -> Module:
        m = Module()
        bits, period = self._bits, self._period
        message = self.message.payload
        load, owed = Signal(), Signal(init=1)

        # When -------------------------------------------------------------------------------------
        longest = max(period, self._refresh or 0)
        since = Signal(range(longest), init=period - 1)  # clocks from the last offer on
        due = (owed | self.credit.any()) & (since >= period - 1)
        if self._refresh is not None:
            due |= since == self._refresh - 1
        free = ~self.message.valid | self.message.ready
        m.d.comb += load.eq(due & free & self.active & ~self.clear)
        with m.If(self.clear):
            m.d.sync += [self.epoch.eq(self.epoch + 1), owed.eq(1), since.eq(period - 1)]
        with m.Elif(load):
            m.d.sync += [owed.eq(0), since.eq(0)]
        with m.Else():
            m.d.sync += owed.eq(owed | self.credit.any())
            with m.If(since != longest - 1):
                m.d.sync += since.eq(since + 1)
        with m.If(self.clear):
            m.d.sync += self.message.valid.eq(0)
        with m.Elif(free):
            m.d.sync += self.message.valid.eq(load)

        # What -------------------------------------------------------------------------------------
        m.d.comb += message.message_class.eq(MessageClass.CREDIT)
        with m.If(load):
            m.d.sync += message.epoch.eq(self.epoch)
        for k, state in enumerate(self.state):
            freed, received = Signal(bits, name=f"freed{k}"), Signal(bits, name=f"received{k}")
            m.d.comb += [
                freed.eq(state.freed + self.credit[k]),
                received.eq(state.received + self.came[k]),
            ]
            m.d.sync += [state.freed.eq(freed), state.received.eq(received)]
            with m.If(self.clear):
                m.d.sync += state.began.eq(received)
            with m.If(load):
                m.d.sync += [message.freed[k].eq(freed), message.received[k].eq(state.began)]
        return m


class CreditTaker(wiring.Component):
    """Gives the senders of up to four channels their credits back, one a clock and channel.

    Promise: each place that a message tells as freed is one pulse of ``credit``, given once: a
    message that comes again, or late by no more than ``depth`` places, is no news. With ``clear``
    an epoch begins. Messages of another epoch are ignored, those of up to ``2**epoch_bits - 1``
    epochs before included; the first of the new one tells what had arrived before it: the rest of
    what was sent till ``clear``, that clock included, is lost, and its credits come back, too.
    What is sent later belongs to the new epoch. No pulse comes in the clock of ``clear``, before
    that first message, or while the link is not active; none is forgotten either.

    Contract: as :class:`CreditGiver`. No channel has sent more than it had credit for.

    Latency: a pulse may follow one clock after the message. Throughput: one pulse a clock and
    channel. Back-pressure: none. Source: as :class:`CreditGiver`.

    Members
    -------
    active : In: the link carries flits, this end is not in reset
    clear : In: the link was reset, what was on its way is gone
    sent : In: one bit a channel: something of it went out
    valid : In: a CREDIT message has come; message : In
    credit : Out: one bit a channel
    settled : Out: the first message of the epoch is in; ``lost`` is from then on
    lost : Out: how many of each channel were lost between the epoch before it and this one
    at_rest : Out: all credits are with the senders
    """

    def __init__(
        self, *, depths: tuple[int, ...], bits: int = COUNT_BITS, epoch_bits: int = EPOCH_BITS
    ) -> None:
        check_ledger(depths, bits, epoch_bits)
        self._depths, self._bits, self._epoch_bits = depths, bits, epoch_bits
        channels = len(depths)
        # Here so that a proof can look at it. `before` is `sent` when the epoch began, `freed` is
        # as the last news told, `pending` are pulses still to give.
        self.state = [
            Signal(
                data.StructLayout(
                    {"sent": bits, "before": bits, "freed": bits, "pending": range(depth + 1)}
                ),
                name=f"state{k}",
            )
            for k, depth in enumerate(depths)
        ]
        self.epoch = Signal(epoch_bits)
        layout = credit_message_layout(channels=channels, bits=bits, epoch_bits=epoch_bits)
        super().__init__(
            {
                "active": In(1),
                "clear": In(1),
                "sent": In(channels),
                "valid": In(1),
                "message": In(layout),
                "credit": Out(channels),
                "settled": Out(1),
                "lost": Out(data.ArrayLayout(range(max(depths) + 1), channels)),
                "at_rest": Out(1),
            }
        )

    @property
    def depths(self) -> tuple[int, ...]:
        return self._depths

    @property
    def bits(self) -> int:
        return self._bits

    @property
    def epoch_bits(self) -> int:
        return self._epoch_bits

    def elaborate(self, platform) -> Module:
        m = Module()
        bits = self._bits
        heard, first = Signal(), Signal()
        m.d.comb += [
            heard.eq(self.valid & ~self.clear & (self.message.epoch == self.epoch)),
            first.eq(heard & ~self.settled),
        ]
        with m.If(self.clear):
            m.d.sync += [self.epoch.eq(self.epoch + 1), self.settled.eq(0)]
        with m.Elif(heard):
            m.d.sync += self.settled.eq(1)

        resting = []
        for k, (depth, state) in enumerate(zip(self._depths, self.state, strict=True)):
            ahead, missing = Signal(bits, name=f"ahead{k}"), Signal(bits, name=f"missing{k}")
            news = Signal(range(depth + 1), name=f"news{k}")
            refund = Signal(range(depth + 1), name=f"refund{k}")
            sent = Signal(bits, name=f"sent{k}")
            m.d.comb += [
                # Counts wrap: what seems further ahead than the buffer is deep lies behind.
                ahead.eq(self.message.freed[k] - state.freed),
                missing.eq(state.before - self.message.received[k]),
                sent.eq(state.sent + self.sent[k]),
                self.credit[k].eq((state.pending != 0) & self.settled & self.active & ~self.clear),
            ]
            with m.If(heard & (ahead <= depth)):
                m.d.comb += news.eq(ahead)
            with m.If(first):
                m.d.comb += refund.eq(missing)
                m.d.sync += self.lost[k].eq(missing)
            m.d.sync += [
                state.freed.eq(state.freed + news),
                # What was lost never comes: the counts of both ends agree again without it.
                state.sent.eq(sent - refund),
                state.pending.eq(state.pending + news + refund - self.credit[k]),
            ]
            with m.If(self.clear):
                m.d.sync += state.before.eq(sent)
            resting.append((state.sent == state.freed) & (state.pending == 0))
        m.d.comb += self.at_rest.eq(Cat(*resting).all())
        return m
