# amaranth: UnusedElaboratable=no
"""Sideband: credits are conserved, tags are not confused, every access ends once."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cover, Mux, Signal
from amaranth.lib.wiring import In

from hw.ucie.sideband_completer import SidebandCompleter
from hw.ucie.sideband_packet import CompletionHeader, Opcode, RequestHeader, SidebandPacket
from hw.ucie.sideband_requester import AccessStatus, SidebandRequester
from tests.formal.harness import Counterexample, Properties, before, constant, prove
from tests.formal.variants import variant

TICK = "tick.eq(clock == tick_clocks - 1)"


def untimed(*edits: tuple[str, str]) -> type:
    """A requester for which time stands still."""
    return variant(SidebandRequester, (TICK, "tick.eq(0)"), *edits)


def ticked(*edits: tuple[str, str]) -> type:
    """A requester whose ticks come from outside, at any time."""
    return variant(
        SidebandRequester,
        (TICK, "tick.eq(self.tick)"),
        ('"idle": Out(1),', '"idle": Out(1), "tick": In(1),'),
        *edits,
    )


class Loop(Properties):
    """Requester and completer with a place on the line each way; the port does what it likes.

    Nothing is lost and time stands still; the link may go down at any time.
    """

    def __init__(
        self,
        *,
        credits: int,
        receive_credits: int | None = None,
        requester: type | None = None,
        completer: type = SidebandCompleter,
    ) -> None:
        self._credits = credits
        self._requester = (requester or untimed())(tags=2, credits=credits, timeout=2)
        self._completer = completer(credits=receive_credits or credits)
        names = ("up", "valid", "write", "wide", "config", "take", "down", "back")
        names += ("answers", "refuses")
        super().__init__({name: In(1) for name in names} | {"address": In(3)})

    def describe(self, m) -> None:
        m.submodules.requester, m.submodules.completer = rq, cp = self._requester, self._completer
        credits = self._credits
        asked = Signal()  # the port owes an answer
        m.d.comb += [
            rq.up.eq(self.up),
            cp.up.eq(self.up),
            rq.access.valid.eq(self.valid),
            rq.access.payload.write.eq(self.write),
            rq.access.payload.wide.eq(self.wide),
            rq.access.payload.config.eq(self.config),
            rq.access.payload.address.eq(self.address),
            rq.access.payload.be.eq(0xFF),
            rq.response.ready.eq(self.take),
            cp.port.response.valid.eq(asked & self.answers),
            cp.port.response.error.eq(self.refuses),
            Assert(~(cp.port.request.valid & asked), "the port is asked one thing at a time"),
        ]
        m.d.sync += asked.eq(cp.port.request.valid | (asked & ~self.answers))

        places = []
        for source, target, move in ((rq.o, cp.i, self.down), (cp.o, rq.i, self.back)):
            full, packet = Signal(), Signal(SidebandPacket)
            m.d.comb += [
                source.ready.eq(~full),
                target.valid.eq(full & move),
                target.packet.eq(packet),  # stays there after it has come
            ]
            with m.If(~self.up | move):
                m.d.sync += full.eq(0)
            with m.If(self.up & source.valid & source.ready):
                m.d.sync += [full.eq(1), packet.eq(source.payload)]
            places.append(full)

        at_completer = Signal(range(2 * credits + 4))
        sent = cp.o.valid & cp.o.ready
        m.d.sync += at_completer.eq(Mux(self.up, at_completer + cp.i.valid - sent, 0))
        was_up = before(m, self.up)
        under_way = rq.o.valid + places[0] + at_completer + places[1]
        m.d.comb += [
            Assert(
                ~(self.up & was_up) | (rq.credits + under_way == credits), "credits are conserved"
            ),
            Assert(rq.credits <= credits, "no credit from nowhere"),
            Assert(was_up | (rq.credits == 0), "no credit in reset"),
            Assert(~cp.overflow, "the buffer never overflows"),
            Assert(~cp.o.valid | (at_completer != 0), "answers what was asked"),
            Assert(rq.unexpected == 0, "every completion has its access"),
            Cover((rq.credits == 0) & (at_completer == credits), "all at the completer"),
            Cover(self.up & ~was_up & (rq.response.valid), "up again with responses waiting"),
        ]


LIFE = 5  # ticks; six is the least after which a tag and its credit are free


class Tags(Properties):
    """A requester and a world that answers each request once in any order, or never.

    A completion comes within twice the timeout; packets that complete nothing come at any time.
    """

    def __init__(self, *, tags: int, credits: int, requester: type | None = None) -> None:
        self._tags, self._credits = tags, credits
        self._requester = (requester or ticked())(tags=tags, credits=credits, timeout=2)
        names = ("up", "valid", "write", "wide", "ready", "take", "tick", "comes", "stranger")
        more = {"which": In(5), "status": In(3), "bit": In(1), "lost": In(tags)}
        super().__init__({name: In(1) for name in names} | more)

    def describe(self, m) -> None:
        m.submodules.requester = rq = self._requester
        tags, credits = self._tags, self._credits
        access = rq.access.payload
        m.d.comb += [
            rq.up.eq(self.up),
            rq.tick.eq(self.tick),
            rq.access.valid.eq(self.valid),
            access.write.eq(self.write),
            access.wide.eq(self.wide),
            rq.o.ready.eq(self.ready),
            rq.response.ready.eq(self.take),
        ]
        # What is under way, and what was asked, tag by tag.
        inside, opened, bound = Signal(tags), Signal(tags), Signal(tags)
        came, bits = Signal(tags), Signal(tags)
        kinds = Array(Signal(5, name=f"kind{k}") for k in range(tags))
        done = Signal(CompletionHeader)
        refused = (self.status == 1) | (self.status == 4)
        m.d.comb += [
            Assume((self.status == 0) | refused),
            done.tag.eq(self.which),
            done.status.eq(self.status),
            done.opcode.eq(Mux(refused, Opcode.COMPLETION, kinds[self.which[: tags.bit_length()]])),
            done.dstid.eq(self.stranger),  # of another one
            done.cr.eq(1),
            Assume(self.stranger | ~self.comes | (inside & (1 << self.which)).any()),
            rq.i.valid.eq(self.comes),
            rq.i.packet.header.eq(done),
            rq.i.packet.data.eq(self.bit),
        ]
        named = Mux(self.comes & ~self.stranger, 1 << self.which, 0)[:tags]
        request = Signal(RequestHeader)
        m.d.comb += request.eq(rq.o.payload.header)
        leaves = Mux(self.up & rq.o.valid & rq.o.ready, 1 << request.tag, 0)[:tags]
        accepted = Mux(rq.access.valid & rq.access.ready, 1 << rq.tag, 0)[:tags]
        taken = rq.response.valid & rq.response.ready
        response = rq.response.payload
        ends = Mux(taken, 1 << response.tag, 0)[:tags]
        m.d.sync += [
            inside.eq(Mux(self.up, (inside & ~named & ~self.lost) | leaves, 0)),
            opened.eq((opened & ~ends) | accepted),
            # Requests that wait at `o` or are under way: the completer must have room for them.
            bound.eq(Mux(self.up, (bound & ~named & ~(self.lost & inside)) | accepted, 0)),
            came.eq((came & ~accepted) | (named & opened)),
            bits.eq(Mux(self.bit, bits | (named & ~came), bits & ~(named & ~came))),
        ]
        for k in range(tags):
            age = Signal(range(LIFE + 2), name=f"age{k}")
            with m.If(leaves[k]):
                m.d.sync += age.eq(0)
            with m.Elif(self.tick & (age <= LIFE)):
                m.d.sync += age.eq(age + 1)
            m.d.comb += Assume(~inside[k] | (age <= LIFE))
            with m.If(leaves[k]):
                m.d.sync += kinds[k].eq(
                    Mux(
                        request.opcode[0],
                        Opcode.COMPLETION,
                        Mux(request.opcode[3], Opcode.COMPLETION_64, Opcode.COMPLETION_32),
                    )
                )
        was_up = before(m, self.up)
        followed = constant(m, "followed", range(tags))
        mine = taken & (response.tag == followed)
        timed_out = response.status == AccessStatus.TIMEOUT
        m.d.comb += [
            Assert((accepted & opened) == 0, "no two open accesses have a tag"),
            Assert((accepted & (inside | bound)) == 0, "no tag again while it is under way"),
            Assert(~taken | (ends & opened).any(), "what ends was open"),
            Assert(
                ~mine | timed_out | came.bit_select(followed, 1),
                "ends as something only if it came",
            ),
            Assert(
                ~mine | timed_out | (response.data[0] == bits.bit_select(followed, 1)),
                "brings what came",
            ),
            Assert(rq.credits <= credits, "no credit from nowhere"),
            Assert(
                ~(self.up & was_up) | (rq.credits + sum(bound[k] for k in range(tags)) <= credits),
                "never more under way than credits",
            ),
            Assert(
                ~(self.up & was_up & rq.idle) | (rq.credits == credits),
                "at rest all credits are there",
            ),
            Assert(was_up | (rq.credits == 0), "no credit in reset"),
            Cover(taken & timed_out & self.up, "timeout"),
            Cover(taken & (response.status == 4), "abort"),
            Cover((named & ~opened).any(), "late completion"),
            Cover(before(m, (named & ~opened).any()) & (accepted != 0), "tag again"),
        ]


@pytest.mark.formal
@pytest.mark.parametrize("credits", [1, 2])
def test_credits_of_the_loop(credits: int) -> None:
    prove(Loop(credits=credits), label=f"of {credits}")
    prove(Loop(credits=credits), mode="cover", depth=40, label=f"of {credits}")


@pytest.mark.formal
@pytest.mark.parametrize(("tags", "credits"), [(1, 1), (2, 2), (2, 1)])
def test_tags_and_timeouts(tags: int, credits: int) -> None:
    label = f"{tags} tags, {credits} credits"
    prove(Tags(tags=tags, credits=credits), label=label)
    prove(Tags(tags=tags, credits=credits), mode="cover", depth=40, label=label)


LOOP_BUGS = {
    "counter one bit short": (
        '"credits": Out(range(credits + 1))',
        '"credits": Out(range(credits))',
    ),
    "credit in reset": ("self.credits.eq(0), holds", "self.credits.eq(self._credits), holds"),
    "credit as a level": (
        "(holds & ended).any() & Mux(answered | returned, done.cr, reap & ~expire)",
        "self.up & done.cr & done.opcode[4]",
    ),
    "credit only with the last": (
        "self.credits - accept + give",
        "self.credits - (accept & ~give)",
    ),
}


@pytest.mark.formal
@pytest.mark.parametrize("edit", LOOP_BUGS.values(), ids=LOOP_BUGS)
def test_broken_credits_are_found(edit: tuple[str, str]) -> None:
    with pytest.raises(Counterexample, match="credit"):
        prove(Loop(credits=2, requester=untimed(edit)), mode="bmc", depth=30)


@pytest.mark.formal
def test_a_buffer_smaller_than_its_credits_is_found() -> None:
    with pytest.raises(Counterexample, match="overflow"):
        prove(Loop(credits=3, receive_credits=1), mode="bmc", depth=30)


TAG_BUGS = {
    "no quarantine": ("_lowest(~(used | late))", "_lowest(~used)"),
    "timeout beside a completion": ("reaped.any() & ~answered & ~returned", "reaped.any()"),
    "quarantine half as long": ("age0.eq((age0 ^ older) & ~fresh)", "age0.eq(age0 ^ older)"),
    "credit of a lost packet kept": ("done.cr, reap & ~expire)", "done.cr, 0)"),
    "credit given at the timeout, too": ("done.cr, reap & ~expire)", "done.cr, reap)"),
    "tag free before its response is taken": ("(used & ~taken) | begun", "(busy & ~ended) | begun"),
}


@pytest.mark.formal
@pytest.mark.parametrize("edit", TAG_BUGS.values(), ids=TAG_BUGS)
def test_broken_tags_are_found(edit: tuple[str, str]) -> None:
    with pytest.raises(Counterexample):
        prove(Tags(tags=2, credits=2, requester=ticked(edit)), mode="bmc", depth=30)
