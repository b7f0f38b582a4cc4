"""Retry of the D2D adapter: sequence numbers, Ack and Nak, and what is sent again."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

SEQUENCE_LAST = 255  # zero is reserved
TIMEOUT_FLITS = 375


def answer_layout(last: int = SEQUENCE_LAST) -> data.StructLayout:
    """An Ack of all flits up to ``sequence``, or a Nak, which also asks for those behind it."""
    return data.StructLayout({"valid": 1, "nak": 1, "sequence": range(last + 1)})


def group_layout(last: int = SEQUENCE_LAST) -> data.StructLayout:
    """The flits of a clock: NOP, or payload whose first flit has this sequence number."""
    return data.StructLayout({"payload": 1, "sequence": range(last + 1)})


def advanced(sequence: Value, flits: int, last: int) -> Value:
    """The sequence number ``flits`` further on, zero left out."""
    bits = last.bit_length()
    return Mux(sequence > last - flits, sequence - (last - flits), sequence + flits)[:bits]


def _check(flits: int, last: int, rows: int) -> None:
    if flits < 2 or flits & (flits - 1):
        raise ValueError(f"flits of a clock must be a power of two from 2 on, not {flits!r}")
    if last < 3 or last & (last + 1):
        raise ValueError(f"the last sequence number must be 2**n - 1, not {last!r}")
    if not 1 <= rows <= last // 2 // flits:
        raise ValueError(
            f"rows must be 1 to {last // 2 // flits}, half of the sequence numbers, not {rows!r}"
        )


class RetrySender(wiring.Component):
    """Decides what goes out in each clock: a new group of flits, an old one again, or NOP.

    A group is the ``flits`` flits of a clock; they are received or cancelled together, so a row of
    the replay buffer holds a group. The buffer itself stands outside.

    Promise: new groups leave in order and at once, ``store`` tells the row that must keep them.
    An Ack frees all rows up to it. After a Nak, or if ``timeout`` flit times pass in which nothing
    was freed, all rows that are not free are sent once more, oldest first, before anything new.
    Answers that are no news are ignored.

    Latency: ``send``, ``row``, ``store`` and ``replay`` belong to the clock they are in; a row that
    an answer frees may be taken in the same clock. Back-pressure: ``accept`` is low while rows are
    sent again and while all ``rows`` are taken. Throughput: a group a clock while the round trip,
    from ``send`` to the answer to it, takes at most ``rows`` clocks, else ``rows`` a round trip.
    Source: UCIe 3.0 chapter 3 (retry, at most 127 flits, NAK without
    withdrawal, replay after 375 flit times).

    Members
    -------
    active : In: the link carries flits; otherwise nothing is sent and no time passes
    offer : In; accept : Out: a new group
    store, replay : Out: the row takes the new group, or is sent again
    row : Out
    send : Out: labels of what is sent
    answer : In
    idle : Out: all rows are free
    progress : Out, a pulse: an answer frees rows
    repeat : Out, a pulse: all that is not free is sent once more
    """

    def __init__(
        self,
        *,
        flits: int,
        rows: int,
        last: int = SEQUENCE_LAST,
        timeout: int = TIMEOUT_FLITS,
    ) -> None:
        _check(flits, last, rows)
        if timeout < flits:
            raise ValueError(f"timeout must be at least {flits} flit times, not {timeout!r}")
        self._flits, self._rows, self._last = flits, rows, last
        self._timeout_clocks = -(-timeout // flits)
        super().__init__(
            {
                "active": In(1),
                "offer": In(1),
                "accept": Out(1),
                "store": Out(1),
                "replay": Out(1),
                "row": Out(range(rows)),
                "send": Out(group_layout(last)),
                "answer": In(answer_layout(last)),
                "idle": Out(1),
                "progress": Out(1),
                "repeat": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        flits, rows, last = self._flits, self._rows, self._last
        oldest = Signal(range(rows))  # row
        first = Signal(range(last + 1), init=1)  # sequence of its first flit
        taken, sent = Signal(range(rows + 1)), Signal(range(rows + 1))  # sent: in this pass
        following = Signal(range(last + 1), init=1)  # sequence of the group that `sent` points at

        # Answers ----------------------------------------------------------------------------------
        ahead, groups = Signal(range(last + 1)), Signal(range(rows + 1))
        shift = flits.bit_length() - 1
        news, counts = Signal(), Signal(range(rows + 1))
        sequence = self.answer.sequence
        m.d.comb += [
            # Flits up to the answered one: 0 if it is the one before the oldest.
            ahead.eq(Mux(sequence >= first, sequence - first + 1, sequence + (last + 1) - first)),
            counts.eq(Mux(ahead == last, 0, ahead >> shift)),
            news.eq((ahead == last) | (ahead <= taken << shift)),
        ]
        freed = Signal(range(rows + 1))
        waited = Signal(range(self._timeout_clocks + 1))
        again = Signal()
        m.d.comb += [
            freed.eq(Mux(self.answer.valid & news, counts, 0)),
            groups.eq(taken - freed),
            again.eq(
                (self.answer.valid & news & self.answer.nak) | (waited == self._timeout_clocks)
            ),
            self.idle.eq(taken == 0),
            self.progress.eq(freed != 0),
            self.repeat.eq(again & (groups != 0)),
        ]

        # What goes out ----------------------------------------------------------------------------
        place = Signal(range(2 * rows))
        m.d.comb += [
            self.replay.eq(self.active & (sent != taken)),
            self.accept.eq(self.active & (sent == taken) & (groups != rows)),
            self.store.eq(self.offer & self.accept),
            place.eq(oldest + sent),
            self.row.eq(Mux(place >= rows, place - rows, place)),
            self.send.payload.eq(self.store | self.replay),
            self.send.sequence.eq(following),
        ]

        # State ------------------------------------------------------------------------------------
        first_now, oldest_now = Signal.like(first), Signal(range(2 * rows))
        m.d.comb += [
            first_now.eq(first),
            oldest_now.eq(oldest + freed),
        ]
        with m.If(freed != 0):
            m.d.comb += first_now.eq(advanced(sequence, 1, last))
        m.d.sync += [
            first.eq(first_now),
            oldest.eq(Mux(oldest_now >= rows, oldest_now - rows, oldest_now)),
            taken.eq(groups + self.store),
        ]
        with m.If(again | (freed > sent)):  # what an earlier pass brought needs no second one
            m.d.sync += [sent.eq(0), following.eq(first_now)]
        with m.Else():
            m.d.sync += sent.eq(sent - freed + self.send.payload)
            with m.If(self.send.payload):
                m.d.sync += following.eq(advanced(following, flits, last))
        with m.If(again | (freed != 0) | (taken == 0)):
            m.d.sync += waited.eq(0)
        with m.Elif(self.active):
            m.d.sync += waited.eq(waited + 1)
        return m


class RetryReceiver(wiring.Component):
    """Decides which groups go up, and what is answered.

    Promise: ``take`` is high for a payload group that is whole and the next in order, so each goes
    up once and in order. A bad group, or one that comes before its turn, is answered with one Nak
    of the last flit that went up. A further Nak follows only after a group has gone up again, or
    when a later pass of the sender has begun behind its turn too. A Nak that has not left when the
    group goes up that it asks for is withdrawn: what is lost behind that group is answered with one
    of its own. In all other clocks the answer is an Ack of that flit.

    Latency: none; ``answer`` counts the group of its clock. Back-pressure: none. Source: UCIe 3.0
    chapter 3.

    Members
    -------
    valid : In: a group has come; bad : In: one of its flits has a wrong CRC
    group : In: its labels
    take : Out
    answer : Out; answered : In: it is sent in this clock
    """

    def __init__(self, *, flits: int, last: int = SEQUENCE_LAST) -> None:
        _check(flits, last, 1)
        self._flits, self._last = flits, last
        super().__init__(
            {
                "valid": In(1),
                "bad": In(1),
                "group": In(group_layout(last)),
                "take": Out(1),
                "answer": Out(answer_layout(last)),
                "answered": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        flits, last = self._flits, self._last
        expected = Signal(range(last + 1), init=1)
        good, behind = Signal(), Signal(range(last + 1))
        owed, asked = Signal(), Signal()  # a Nak is to be sent; one was, and nothing came since
        early, lost = Signal(), Signal()
        now_expected, now_owed = Signal.like(expected), Signal()
        furthest = Signal(range(last + 1))  # of a pass, the last group that came early
        m.d.comb += [
            good.eq(self.valid & ~self.bad & self.group.payload),
            self.take.eq(good & (self.group.sequence == expected)),
            # How far in front of its turn a group is; the second half is what came before.
            behind.eq(
                Mux(
                    self.group.sequence >= expected,
                    self.group.sequence - expected,
                    self.group.sequence + last - expected,
                )
            ),
            early.eq(good & ~self.take & (behind <= last // 2)),
            # Sequence numbers rise within a pass: where they do not, a new pass has lost its head.
            lost.eq((self.valid & self.bad & ~asked) | (early & (~asked | (behind <= furthest)))),
            now_expected.eq(Mux(self.take, advanced(expected, flits, last), expected)),
            now_owed.eq(Mux(self.take, 0, owed | lost)),
            self.answer.valid.eq(1),
            self.answer.nak.eq(now_owed),
            self.answer.sequence.eq(Mux(now_expected == 1, last, now_expected - 1)),
        ]
        m.d.sync += [
            expected.eq(now_expected),
            owed.eq(now_owed & ~self.answered),
            asked.eq(Mux(self.take, 0, asked | lost)),
        ]
        with m.If(self.take | (lost & ~early)):
            m.d.sync += furthest.eq(0)
        with m.Elif(early):
            m.d.sync += furthest.eq(behind)
        return m
