# amaranth: UnusedElaboratable=no
"""Retry: each group goes up once and in order, whatever is corrupted on the way."""

import pytest
from amaranth.hdl import Array, Cover, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In

from hw.ucie.retry import RetryReceiver, RetrySender, answer_layout, group_layout
from tests.formal.harness import Counterexample, Properties, prove
from tests.formal.order import in_order
from tests.formal.variants import variant

FLITS, LAST = 2, 15


class Retry(Properties):
    """Both ends, a channel of ``delay`` clocks each way; any group may be bad, any answer lost."""

    def __init__(
        self,
        *,
        rows: int,
        delay: int = 1,
        sender: type = RetrySender,
        receiver: type = RetryReceiver,
    ) -> None:
        self._rows, self._delay = rows, delay
        self._sender = sender(flits=FLITS, rows=rows, last=LAST, timeout=2 * FLITS)
        self._receiver = receiver(flits=FLITS, last=LAST)
        names = ("active", "offer", "content", "bad", "lost", "pick")
        noise = {"noise": In(group_layout(LAST)), "noise_content": In(1)}
        super().__init__({name: In(1) for name in names} | noise)

    def describe(self, m) -> None:
        m.submodules.sender, m.submodules.receiver = tx, rx = self._sender, self._receiver
        rows = Array(Signal(name=f"row{k}") for k in range(self._rows))
        content = Signal()
        m.d.comb += [tx.active.eq(self.active), tx.offer.eq(self.offer)]
        with m.If(tx.store):
            m.d.comb += content.eq(self.content)
            m.d.sync += rows[tx.row].eq(self.content)
        with m.Else():
            m.d.comb += content.eq(rows[tx.row])

        down_type = data.StructLayout({"valid": 1, "group": group_layout(LAST), "content": 1})
        down, up = Signal(down_type, name="down_in"), Signal(answer_layout(LAST), name="up_in")
        m.d.comb += [
            down.valid.eq(self.active),
            down.group.eq(tx.send),
            down.content.eq(content),
            up.valid.eq(rx.answer.valid & ~self.lost),
            up.nak.eq(rx.answer.nak),
            up.sequence.eq(rx.answer.sequence),
            rx.answered.eq(1),
        ]
        for stage in range(self._delay):
            for name, value in (("down", down), ("up", up)):
                delayed = Signal.like(value, name=f"{name}{stage}")
                m.d.sync += delayed.eq(value)
                down, up = (delayed, up) if name == "down" else (down, delayed)
        received = Signal()
        m.d.comb += [
            rx.valid.eq(down.valid),
            rx.bad.eq(self.bad),
            rx.group.eq(Mux(self.bad, self.noise, down.group)),
            received.eq(Mux(self.bad, self.noise_content, down.content)),
            tx.answer.eq(up),
        ]
        in_order(
            m,
            pick=self.pick,
            put=tx.store,
            sent=self.content,
            take=rx.take,
            received=received,
            limit=self._rows,
        )
        m.d.comb += [
            Cover(tx.replay & ~tx.idle, "sent again"),
            Cover(rx.take & (down.group.sequence < FLITS) & tx.replay, "wraps while sent again"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("rows", [1, 2])
def test_every_group_goes_up_once_and_in_order(rows: int) -> None:
    prove(Retry(rows=rows), label=f"{rows} rows")
    prove(Retry(rows=rows), mode="cover", depth=40, label=f"{rows} rows")


@pytest.mark.formal
@pytest.mark.parametrize(
    ("end", "old", "new"),
    [
        (
            "receiver",
            "self.take.eq(good & (self.group.sequence == expected))",
            "self.take.eq(good)",
        ),
        ("receiver", "good.eq(self.valid & ~self.bad", "good.eq(self.valid"),
        ("sender", "(groups != rows)", "1"),
    ],
)
def test_broken_ends_are_found(end: str, old: str, new: str) -> None:
    block = variant(RetrySender if end == "sender" else RetryReceiver, (old, new))
    with pytest.raises(Counterexample):
        prove(Retry(rows=2, **{end: block}), mode="bmc", depth=14)
