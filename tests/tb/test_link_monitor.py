"""The monitor of a link: each rule is broken once, and named."""

import pytest

from hw.ucie.flit_header import HeaderFields
from tb.vip.credit_book import CreditMessage
from tb.vip.flit_model import GroupModel
from tb.vip.link_monitor import LinkMonitor
from tb.vip.retry_monitor import RuleBroken
from tests.tb.endpoint_design import SHAPES, channels_of


def watched():
    shape = SHAPES["small"]
    sends, receives = channels_of(shape)
    return LinkMonitor(shape=shape, sends=sends, receives=receives), GroupModel(
        shape.flit_format, shape.flits
    )


def payload(first=b"", *slots):
    return b"".join(slot.ljust(16, b"\0") for slot in (first, *slots))


HEADER = bytes(14) + b"\x80\x80"  # a message of channel 1: bits 119 and 127
BEAT = bytes(15) + b"\x80"


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ([(3, HEADER)], "sequence number 3 where 1 follows"),
        ([(1, HEADER), (1, HEADER)], "sent again without a Nak"),
        ([(1, HEADER), (5, HEADER)], "sequence number 5 where 3 follows"),
        ([(1, bytes(14) + b"\x80\x81")], "of no channel"),
        ([(1, HEADER[:-1] + b"\x00")], "no message, but slot 0"),
        ([(1, payload(b"", b"", BEAT, b"\x01"))], "where no beat goes on"),
        ([(1 + 2 * k, HEADER) for k in range(6)], "request is sent without credit"),
        ([(1, CreditMessage(0, (1, 0), (0, 0)).pack()[:-1] + b"\x80")], "told as freed"),
        (
            [(1, CreditMessage(1, (0, 0), (0, 0)).pack()[:-1] + b"\x80")],
            "of epoch 1, .*, in epoch 0",
        ),
        ([(1 + 2 * k % 255, b"") for k in range(64)], "63 groups from 0 on are unack"),
    ],
)
def test_monitor_names_what_is_wrong(sent, error):
    monitor, model = watched()
    with pytest.raises(RuleBroken, match=error):
        for clock, (sequence, content) in enumerate(sent):
            monitor.left(clock, model.assemble(sequence, content, nak=False, answer=255))


def test_monitor_knows_how_flits_of_a_group_are_labelled():
    explicit, ack = (
        HeaderFields(protocol=1, sequence=1),
        HeaderFields(protocol=1, sequence=9, use=1),
    )
    empty = HeaderFields()
    for headers, error in (
        ((HeaderFields(protocol=1), ack), "sequence number 0"),
        ((explicit, explicit), "neither Ack nor Nak"),
        ((explicit, empty), "different protocols"),
        ((ack, ack), "9 of its own, not 9 with use 1"),
        ((HeaderFields(sequence=4), HeaderFields(sequence=9, use=1)), "0 of its own, not 4"),
        ((HeaderFields(stack=1), empty), "type or stack"),
    ):
        monitor, model = watched()
        with pytest.raises(RuleBroken, match=error):
            monitor.left(0, tuple(model.flit.assemble(header, bytes(42)) for header in headers))
    monitor, model = watched()
    with pytest.raises(RuleBroken, match="the payload of a NOP is not zero"):
        monitor.left(0, model.assemble(None, b"\1", nak=False, answer=255))
    with pytest.raises(RuleBroken, match="a CRC is wrong"):
        flit = model.flit.assemble(empty, bytes(42), (False, True))
        monitor.left(0, (flit, flit))


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([(False, 2)], "Ack of 2, but 0 groups came"),
        ([(True, 255)], "nothing was lost"),
        ([(False, 1)], "Ack of 1"),
    ],
)
def test_monitor_believes_no_answer(answers, error):
    monitor, model = watched()
    with pytest.raises(RuleBroken, match=error):
        for clock, (nak, answer) in enumerate(answers):
            monitor.left(clock, model.assemble(None, b"", nak=nak, answer=answer))


def quiet(monitor, model, clocks_, *, answer=255, nak_at=None):
    for clock in clocks_:
        monitor.left(clock, model.assemble(None, b"", nak=clock == nak_at, answer=answer))


def test_monitor_waits_for_what_is_owed():
    """A Nak for a struck group, a replay for a Nak, an Ack, and a replay for silence."""
    monitor, model = watched()
    good = model.assemble(1, HEADER, nak=False, answer=255)
    other = model.assemble(1, BEAT, nak=False, answer=255)  # a message of channel 0
    bad = (model.flit.assemble(HeaderFields(), bytes(42), (True, False)), good[1])
    monitor.delivered(0, bad)
    with pytest.raises(RuleBroken, match="no Nak for what was lost at 0"):
        quiet(monitor, model, range(1, 30))

    monitor, model = watched()
    monitor.delivered(0, other)
    with pytest.raises(RuleBroken, match="group 0, which came at 0, is not acknowledged"):
        quiet(monitor, model, range(1, 30))

    monitor, model = watched()
    monitor.left(0, good)
    monitor.delivered(1, model.assemble(None, b"", nak=True, answer=255))
    with pytest.raises(RuleBroken, match="the Nak that came at 1 is not obeyed"):
        quiet(monitor, model, range(2, 40))

    monitor, model = watched()
    monitor.left(0, good)
    with pytest.raises(RuleBroken, match="group 0 is not sent again"):
        quiet(monitor, model, range(1, 300))

    monitor, model = watched()
    monitor.left(0, good)
    monitor.delivered(1, model.assemble(None, b"", nak=True, answer=255))
    with pytest.raises(RuleBroken, match="another payload"):
        monitor.left(3, model.assemble(1, HEADER[:-2] + b"\x01\x81", nak=False, answer=255))
