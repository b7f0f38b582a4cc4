"""A link under end-to-end credit that does what it likes, with what must hold of its credits."""

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from hw.ucie.credit import CreditCounter
from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from hw.ucie.credit_message import least_count_bits
from tests.formal.credit_lemmas import channel_lemmas, message_lemmas
from tests.formal.harness import Properties, before

PERIOD, REFRESH = 2, 4


class CreditLink(Properties):
    """Senders under credit, a link, receive buffers, and the ledger between them.

    Everything may take any time: senders, the queue before the link, the link, the receivers. The
    ends are cleared whenever the reset may come, in any order. Of the CREDIT messages the one that
    is offered comes at once, or one of those before it, again and again, or none.

    ``lemmas`` say how the counts of both ends belong together; a proof gets on faster by them.
    With ``delay`` messages take so many clocks instead, any may be lost, and all credits must be
    home some clocks after the last thing happened.
    """

    def __init__(
        self,
        *,
        depths: tuple[int, ...],
        delay: int | None = None,
        bits: int | None = None,
        epoch_bits: int = 1,
        giver: type = CreditGiver,
        taker: type = CreditTaker,
        lemmas: bool = True,
    ) -> None:
        self._depths, self._delay, self._lemmas = depths, delay, lemmas
        self._bits, self._epochs = bits or least_count_bits(depths), 2**epoch_bits
        sizes = {"depths": depths, "bits": self._bits, "epoch_bits": epoch_bits}
        self._refresh = None if delay is None else REFRESH
        self.giver = giver(**sizes, period=PERIOD, refresh=self._refresh)
        self.taker = taker(**sizes)
        lines = ("put", "go", "come", "free")
        flags = ("ready", "deliver", "late", "keep", "giver_active", "taker_active")
        super().__init__(
            {name: In(len(depths)) for name in lines}
            | {name: In(1) for name in flags}
            | {"giver_clear": In(1), "taker_clear": In(1)}
        )

    def describe(self, m: Module) -> None:
        m.submodules.giver, m.submodules.taker = giver, taker = self.giver, self.taker
        m.d.comb += [
            giver.active.eq(self.giver_active),
            giver.clear.eq(self.giver_clear),
            giver.message.ready.eq(self.ready),
            taker.active.eq(self.taker_active),
            taker.clear.eq(self.taker_clear),
        ]
        # A reset: one end is cleared, then the other, or both at once.
        self.taker_first, self.giver_first, self.over = Signal(), Signal(), Signal()
        m.d.comb += [
            Assume(~(self.taker_first & taker.clear)),
            Assume(~(self.giver_first & giver.clear)),
            self.over.eq(
                (taker.clear & (giver.clear | self.giver_first)) | (giver.clear & self.taker_first)
            ),
        ]
        m.d.sync += [
            self.taker_first.eq((self.taker_first | taker.clear) & ~self.over),
            self.giver_first.eq((self.giver_first | giver.clear) & ~self.over),
        ]
        self._quiet, self._hears = Signal(), Signal()
        if self._delay is None:
            self._any_messages(m)
        else:
            self._delayed_messages(m, self._delay)
        self._resets(m)
        resting = [self._channel(m, k, depth) for k, depth in enumerate(self._depths)]
        m.d.comb += [
            Assert(taker.at_rest == Cat(*resting).all(), "at rest exactly with all credits home"),
            Cover(self.over & ~giver.clear, "taker cleared last"),
            Cover(self.over & ~taker.clear, "giver cleared last"),
        ]
        if self._delay is not None:
            longest = REFRESH + PERIOD + self._delay + max(self._depths) + 3
            still = Signal(range(longest + 1))  # clocks
            with m.If(~self._quiet | self.free.any() | taker.clear | giver.clear | self.go.any()):
                m.d.sync += still.eq(0)
            with m.Elif(still != longest):
                m.d.sync += still.eq(still + 1)
            for owed in self._owed:
                m.d.comb += Assert((still != longest) | (owed == 0), "credits come home")
            m.d.comb += Cover(still == longest, "still")

    def _resets(self, m: Module) -> None:
        """Nothing comes out of an end in reset, and offers obey the rules of streams."""
        giver, taker = self.giver, self.taker
        m.d.comb += [
            Assert(~(taker.credit.any() & (taker.clear | ~taker.active)), "no credit in reset"),
            Assert(~(before(m, giver.clear) & giver.message.valid), "no message in reset"),
        ]
        held = before(m, giver.message.valid & ~giver.message.ready & ~giver.clear)
        begun = before(m, giver.active & ~giver.clear)
        past = before(m, Value.cast(giver.message.payload))
        with m.If(held):
            m.d.comb += [
                Assert(giver.message.valid, "an offer stands"),
                Assert(Value.cast(giver.message.payload) == past, "an offer does not change"),
            ]
        with m.Else():
            m.d.comb += Assert(~giver.message.valid | begun, "no offer begins in reset")
        settled = Signal()
        with m.If(taker.clear):
            m.d.sync += settled.eq(0)
        with m.Elif(self._hears):
            m.d.sync += settled.eq(1)
        m.d.comb += [
            Assert(taker.settled == settled, "settled by a message of its own epoch"),
            Assert(~taker.credit.any() | settled, "no credit before the other end is there"),
        ]

    def _delayed_messages(self, m: Module, delay: int) -> None:
        giver, taker = self.giver, self.taker
        valid = giver.message.valid & giver.message.ready & ~self.late
        message = giver.message.payload
        for stage in range(delay):
            next_valid = Signal(name=f"valid{stage}")
            next_message = Signal.like(message, name=f"message{stage}")
            m.d.sync += [
                next_valid.eq(valid & ~giver.clear & ~taker.clear),
                next_message.eq(message),
            ]
            valid, message = next_valid, next_message
        unequal = self.taker_first | self.giver_first
        m.d.comb += [
            taker.valid.eq(valid),
            taker.message.eq(message),
            self._hears.eq(valid & ~taker.clear & ~unequal),
            self._quiet.eq(self.ready & ~self.late & giver.active & taker.active & ~unequal),
        ]

    def _any_messages(self, m: Module) -> None:
        """A message may come late while the epochs have not wrapped and no more places than a
        buffer has were freed since it was made.
        """
        giver, taker = self.giver, self.taker
        offer, taken = giver.message.payload, Signal()
        kept, kept_valid = Signal.like(offer, name="kept"), Signal()
        lead = Signal(range(-1, self._epochs + 1))  # epochs of the taker from that of the kept on
        offer_lead, keeps = Signal(range(-1, 2)), Signal()
        m.d.comb += [
            taken.eq(giver.message.valid & giver.message.ready),
            offer_lead.eq(self.taker_first - self.giver_first),
            keeps.eq(taken & self.keep),
        ]
        fits = [lead < self._epochs]
        for k, depth in enumerate(self._depths):
            total, now = Signal(self._bits, name=f"total{k}"), Signal(self._bits, name=f"now{k}")
            since = Signal(range(depth + 2), name=f"since{k}")
            m.d.comb += now.eq(total + giver.credit[k])
            m.d.sync += total.eq(now)
            with m.If(keeps):
                m.d.sync += since.eq((now - offer.freed[k])[: self._bits])
            with m.Elif(since <= depth):
                m.d.sync += since.eq(since + giver.credit[k])
            fits.append(since <= depth)
            if self._lemmas:
                m.d.comb += message_lemmas(
                    giver,
                    taker,
                    self._bits,
                    depth,
                    k,
                    kept=kept,
                    kept_valid=kept_valid,
                    since=since,
                    total=total,
                )
        if self._lemmas:
            epochs = slice(0, self._epochs.bit_length() - 1)
            here, there = taker.epoch, giver.epoch
            m.d.comb += [
                Assert((here - there)[epochs] == offer_lead[epochs], "epochs differ by the resets"),
                Assert(~giver.message.valid | (offer.epoch == there), "epoch of the offer"),
                Assert(
                    ~kept_valid
                    | (lead == self._epochs)
                    | ((here - kept.epoch)[epochs] == lead[epochs]),
                    "epoch of the kept",
                ),
                Assert(~kept_valid | (lead >= offer_lead), "kept before"),
                Assert(
                    ~kept_valid
                    | (lead != offer_lead)
                    | Cat(kept.received[k] == c.began for k, c in enumerate(giver.state)).all(),
                    "kept of this epoch",
                ),
            ]
        with m.If(keeps):
            m.d.sync += [kept.eq(offer), kept_valid.eq(1), lead.eq(offer_lead + taker.clear)]
        with m.Elif(taker.clear & (lead != self._epochs)):
            m.d.sync += lead.eq(lead + 1)
        m.d.comb += [
            taker.valid.eq(self.deliver & Mux(self.late, kept_valid & Cat(*fits).all(), taken)),
            taker.message.eq(Mux(self.late, kept, offer)),
            self._hears.eq(taker.valid & ~taker.clear & (Mux(self.late, lead, offer_lead) == 0)),
            Cover(self._hears & self.late & (kept.freed != offer.freed), "comes late"),
            Cover(taker.valid & self.late & (lead > 0), "comes from an old epoch"),
        ]

    def _channel(self, m: Module, k: int, depth: int) -> Value:
        """Every place of the loop is counted from what passes its ports; returns whether all
        credits are with the sender or before the link.
        """
        giver, taker = self.giver, self.taker
        m.submodules[f"counter{k}"] = counter = CreditCounter(initial=depth)

        def places(name: str) -> Signal:
            return Signal(range(2 * depth + 2), name=f"{name}{k}")

        queue, flight, fresh, held, owed = map(places, ("queue", "flight", "fresh", "held", "owed"))
        put, sent, came, freed = (Signal(name=f"{n}{k}") for n in ("put", "sent", "came", "freed"))
        m.d.comb += [
            put.eq(self.put[k] & (counter.count != 0)),
            counter.take.eq(put),
            counter.give.eq(taker.credit[k]),
            sent.eq(self.go[k] & (queue != 0)),
            # Once one end was cleared nothing that it sent gets through before both were.
            came.eq(self.come[k] & (flight != 0) & ~self.giver_first),
            freed.eq(self.free[k] & (held != 0)),
            taker.sent[k].eq(sent),
            giver.came[k].eq(came),
        ]
        m.d.sync += giver.credit[k].eq(freed)
        old, new, gone = places("old"), places("new"), places("gone")
        m.d.comb += [
            old.eq(flight + (sent & ~self.taker_first) - came),
            new.eq(fresh + (sent & self.taker_first)),
            gone.eq(Mux(self.over, old, 0)),
        ]
        m.d.sync += [
            queue.eq(queue + put - sent),
            flight.eq(Mux(self.over, new, old)),
            fresh.eq(Mux(self.over, 0, new)),
            held.eq(held + came - freed),
            owed.eq(owed + freed + gone - taker.credit[k]),
        ]
        refund = places("refund")  # what was lost since the taker was told last
        told = places("told")
        with m.If(self._hears & ~taker.settled):
            m.d.sync += [told.eq(refund), refund.eq(0)]
        with m.Else():
            m.d.sync += refund.eq(refund + gone)
        m.d.comb += [
            Assert(~taker.credit[k] | (owed != 0), "no credit from nowhere"),
            Assert(counter.count <= depth, "no credit above the grant"),
            Assert(held <= depth, "no buffer overflows"),
            Assert(
                counter.count + queue + flight + fresh + held + owed == depth,
                "credits are conserved",
            ),
            Assert(taker.lost[k] == told, "the refund is what was lost"),
            Cover(taker.settled & (told == depth), f"all of channel {k} lost"),
            Cover((counter.count == 0) & (held == depth), f"buffer {k} full"),
            Cover(put & taker.credit[k], f"consumed and returned at once on {k}"),
            Cover(gone.any() & sent & ~self.taker_first, f"sent in the clock of a reset on {k}"),
        ]
        if self._lemmas:
            m.d.comb += channel_lemmas(
                giver,
                taker,
                self._bits,
                k,
                flight=flight,
                fresh=fresh,
                held=held,
                owed=owed,
                refund=refund,
                firsts=(self.taker_first, self.giver_first),
            )
        self._owed = [*getattr(self, "_owed", []), owed]
        return (flight == 0) & (fresh == 0) & (held == 0) & (owed == 0)
