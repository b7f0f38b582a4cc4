"""One end of a link as the design that the endpoint talks to, whole or with a planted bug."""

from collections.abc import Callable

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from hw.ucie.adapter import D2DAdapter
from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from hw.ucie.flit import latency_optimised
from hw.ucie.link_end import Channel, LinkEnd
from hw.ucie.link_shape import LinkShape
from hw.ucie.retry import RetryReceiver, RetrySender
from tb.link_runs import small
from tb.simulator import Design
from tests.formal.variants import variant


def tiny() -> LinkShape:
    """Beats of 16 bytes, two flits of 24: one slot of beats beside the message."""
    return LinkShape(flit_format=latency_optimised(24), flits=2, lanes=2)


SHAPES = {"small": small(), "tiny": tiny()}
DATA_DEPTH = 72  # beats: more than 63 groups hold


def channels_of(shape: LinkShape) -> tuple[tuple[Channel, ...], tuple[Channel, ...]]:
    """What the design sends, and what it receives."""
    data = Channel(name="data", depth=DATA_DEPTH, lanes=shape.lanes)
    return (
        (data, Channel(name="request", depth=5), Channel(name="reply", depth=2)),
        (Channel(name="reply", depth=3), data),
    )


def _adapter(*edits: tuple[str, str], **blocks: type) -> type:
    return variant(LinkEnd, D2DAdapter=variant(D2DAdapter, *edits, **blocks))


def _sender(*edits: tuple[str, str]) -> type:
    return _adapter(RetrySender=variant(RetrySender, *edits))


def _receiver(*edits: tuple[str, str]) -> type:
    return _adapter(RetryReceiver=variant(RetryReceiver, *edits))


BUGS: dict[str, Callable[[], type]] = {
    "a bad group goes up": lambda: _receiver(("self.valid & ~self.bad &", "self.valid &")),
    "a cancelled group is acknowledged": lambda: _receiver(
        (
            "now_expected.eq(Mux(self.take, ",
            "now_expected.eq(Mux(self.take | (self.valid & self.bad & self.group.payload), ",
        )
    ),
    "zero is a sequence number": lambda: _sender(
        ("following.eq(advanced(following, flits, last))", "following.eq(following + flits)")
    ),
    "a Nak is ignored": lambda: _sender(
        ("(self.answer.valid & news & self.answer.nak) | (waited", "(waited")
    ),
    "replay begins a row late": lambda: _sender(
        (
            "m.d.sync += [sent.eq(0), following.eq(first_now)]",
            "m.d.sync += [sent.eq(groups > 1), following.eq("
            "Mux(groups > 1, advanced(first_now, flits, last), first_now))]",
        )
    ),
    "no timeout": lambda: _sender((" | (waited == self._timeout_clocks)\n", "\n")),
    "replay of another row": lambda: _adapter(
        ("bank.r_addr.eq(sender.row)", "bank.r_addr.eq(sender.row ^ 1)")
    ),
    "a credit counts twice": lambda: variant(
        LinkEnd,
        CreditTaker=variant(CreditTaker, ("state.pending + news", "state.pending + news + news")),
    ),
    "credits are told that nobody freed": lambda: variant(
        LinkEnd,
        CreditGiver=variant(
            CreditGiver, ("freed.eq(state.freed + self.credit[k])", "freed.eq(state.freed + 1)")
        ),
    ),
    "counts of credits go back": lambda: variant(
        LinkEnd,
        CreditGiver=variant(CreditGiver, ("m.d.sync += [state.freed.eq(freed), ", "m.d.sync += [")),
    ),
    "an epoch begins with the count of another": lambda: variant(
        LinkEnd,
        CreditGiver=variant(CreditGiver, ("state.began.eq(received)", "state.began.eq(freed)")),
    ),
    "a reset gives back a credit too many": lambda: variant(
        LinkEnd, CreditTaker=variant(CreditTaker, ("refund.eq(missing)", "refund.eq(missing + 1)"))
    ),
}


class EndDesign(wiring.Component):
    """A link end with the ports of :func:`channels_of`, from source with one of ``BUGS``."""

    def __init__(self, *, shape: str, bug: str = "") -> None:
        sends, receives = channels_of(SHAPES[shape])
        end = BUGS[bug]() if bug else LinkEnd
        self._end = end(shape=SHAPES[shape], sends=sends, receives=receives)
        members = self._end.signature.members
        super().__init__({name: members[name] for name in members})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.end = self._end
        wiring.connect(m, wiring.flipped(self), self._end)
        return m


def design_of(shape: str, bug: str = "") -> Design:
    return Design(
        component=EndDesign,
        params={"shape": shape, "bug": bug},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
    )
