"""The data of link B towards the GPU: pages of the relay buffer and beats of local reads."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.sram.regions import GROUPS
from hw.ucie.credit import CreditCounter
from hw.ucie.pacer import RATE_BITS, FramePacer
from hw.ucie.transaction import BeatStream, DataPort, Header
from hw.weighted import WEIGHT_BITS, WeightedPair

PATIENCE = 4  # frames


class RelayTurn(wiring.Signature):
    """Between relay buffer and link: a page asks for a frame of four clocks and fills it.

    ``request`` offers a page of ``beats`` beats, or the end of a read as a page of one. ``grant``
    takes it in the last clock of a ``frame``, and its beats must be ``valid`` without a gap in
    clocks 3 to 2 + ``beats`` behind that one: two clocks after the first of the frame. The link has
    the credits of the page. They go to it as they are, so ``header`` and ``lanes`` are registers.
    A grant while link B is lost has no credits: the page is dropped, and nothing is ``valid``.
    """

    def __init__(self, lanes: int) -> None:
        super().__init__(
            {
                "request": Out(1),
                "beats": Out(range(GROUPS + 1)),
                "grant": In(1),
                "frame": In(range(GROUPS)),
                "valid": Out(1),
                "header": Out(Header),
                "lanes": Out(64).array(lanes),
            }
        )


class LinkBArbiter(wiring.Component):
    """Shares the data channel of link B between relayed pages and beats of local reads.

    Promise: a frame of four clocks carries one page of the relay buffer, or up to four local beats;
    so the beats of a page do not part. Frames begin at the ``rate`` of the link, whatever they
    carry. While both sides ask, each gets its ``weight`` of the frames
    (:class:`hw.weighted.WeightedPair`). A local side whose last frame was full, or that is alone,
    asks at once; else it asks when the relay has had ``PATIENCE`` frames, so that frames of few
    beats do not take the place of pages. So a local beat waits for at most ``PATIENCE`` and
    ``ceil(weight of relay / of local)`` frames of the relay that begin, a page for at most
    ``ceil(weight of local / of relay)`` frames of local beats.

    No beat leaves without a credit. A frame begins only with four of them: so the page has its own,
    and local beats never use up what a page is waiting for.

    While link B is ``lost`` pages are granted without credit, to be dropped; local beats do not
    come.

    Latency: a page 3 clocks from its grant, local beats 1, and up to four clocks till a frame
    begins. Throughput: a beat a clock, of which ``rate`` lets through a share. Back-pressure:
    credits.

    Members
    -------
    rate : In: beats a clock, in 1/65536
    weight : In, one a side: of relay, of local
    relay : In(RelayTurn); local : In(BeatStream)
    b_data : Out(DataPort), ``machine.credits.rx_beats`` credits of one beat
    lost : In: link B is
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        super().__init__(
            {
                "rate": In(RATE_BITS + 1),
                "weight": In(WEIGHT_BITS).array(2),
                "relay": In(RelayTurn(machine.lanes)),
                "local": In(BeatStream(machine.lanes)),
                "b_data": Out(DataPort(machine.lanes)),
                "lost": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        total, lanes = self._machine.credits.rx_beats, self._machine.lanes
        relay, local, b = self.relay, self.local, self.b_data
        m.submodules.pacer = pacer = FramePacer()
        m.submodules.sides = sides = WeightedPair()
        # A page and a local beat of the frame before may take theirs in one clock.
        m.submodules.credits = credits = CreditCounter(
            initial=total, max_take=min(GROUPS + 1, total)
        )

        # Frames -----------------------------------------------------------------------------------
        frame = Signal(range(GROUPS))
        may, begins, grants = Signal(), Signal(), Signal(2)
        is_local, window = Signal(), Signal()  # the frame carries local beats, a clock later
        m.d.sync += [frame.eq(frame + 1), window.eq(is_local)]
        m.d.comb += [
            pacer.rate.eq(self.rate),
            pacer.tick.eq(frame == GROUPS - 1),
            # The window of a local frame has two clocks to go when the next frame is chosen.
            may.eq(self.lost | (credits.count >= GROUPS + Mux(is_local, 2, 0))),
            begins.eq(pacer.grant & may & sides.request.any()),
            pacer.use.eq(begins),
            sides.take.eq(begins),
            *(sides.weight[k].eq(self.weight[k]) for k in range(2)),
            grants.eq(Mux(begins, sides.grant, 0)),
            relay.grant.eq(grants[0]),
            relay.frame.eq(frame),
        ]
        with m.If(pacer.tick):
            m.d.sync += is_local.eq(grants[1])

        # When the local side asks -----------------------------------------------------------------
        full = Signal()  # no clock of its last frame was empty
        passed = Signal(range(PATIENCE + 1))  # frames of the relay while it had a beat
        m.d.comb += sides.request.eq(
            Cat(relay.request, local.valid & (full | ~relay.request | (passed == PATIENCE)))
        )
        with m.If(window & ~local.valid):
            m.d.sync += full.eq(0)
        with m.Elif(grants[1]):
            m.d.sync += full.eq(1)
        with m.If(grants[1] | ~local.valid):
            m.d.sync += passed.eq(0)
        with m.Elif(grants[0] & (passed != PATIENCE)):
            m.d.sync += passed.eq(passed + 1)

        # Beats ------------------------------------------------------------------------------------
        moves, of_local = Signal(), Signal()
        header = Signal(Header)
        beat = [Signal(64, name=f"lane{k}", reset_less=True) for k in range(lanes)]
        m.d.comb += [
            local.ready.eq(window),
            moves.eq(local.valid & window),
            credits.take.eq(Mux(grants[0] & ~self.lost, relay.beats, 0) + moves),
            credits.give.eq(b.credit),
            b.valid.eq(relay.valid | of_local),
            b.header.eq(Mux(of_local, header, relay.header)),
            *(b.lanes[k].eq(Mux(of_local, beat[k], relay.lanes[k])) for k in range(lanes)),
        ]
        m.d.sync += of_local.eq(moves)
        with m.If(moves):
            m.d.sync += [
                header.eq(local.header),
                *(mine.eq(lane) for mine, lane in zip(beat, local.lanes, strict=True)),
            ]
        return m
