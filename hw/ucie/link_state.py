"""Link states of one end: RESET, ACTIVE, RETRAIN, LINKRESET and LINKERROR."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.link_codes import (
    EPOCH_BITS,
    Phase,
    StateRequest,
    StateStatus,
    agreed_epoch,
    largest_block,
    peer_layout,
)

COUNT_BITS = 16


class LinkState(wiring.Component):
    """Takes one end of a link through its states, together with the other end.

    Promises
        Whenever flits may flow from one end and the other receives, both have the same ``enabled``
        and ``epoch``. From RESET an end goes up when NOP and then ACTIVE is requested, from RETRAIN
        when ACTIVE is requested; both ends then train for ``training_clocks``, tell each other
        their living modules, take the largest aligned block of those alive at both ends, receive,
        and only then send. What is sent to an end that has left ACTIVE before the other is lost.
        LINKERROR goes before LINKRESET, LINKRESET before RETRAIN, here and from the other end. An
        end that leaves ACTIVE takes the other along.
    Traffic under way
        RETRAIN: what is under way is lost; nothing is cleared, so what is unacknowledged is sent
        again. LINKRESET and LINKERROR: ``clear`` comes with the next ``restart``, in a new epoch.
        Before RETRAIN and LINKRESET the stall handshake lets the adapter stop between groups;
        LINKERROR cuts. ``training_clocks`` must exceed the time that words are under way.
    Stall handshake
        ``pl_stallreq`` rises while ``lp_stallack`` is low and falls while it is high; ``active`` is
        low from ``lp_stallack`` on.
    Timeouts
        After ``timeout`` clocks without the stall answer, or without the step of the other end that
        must follow, LINKERROR. Waiting for a request takes any time.

    DISABLED is requested like LINKRESET and ends in RESET; L1 and L2 are no requests. LINKERROR
    lasts ``residency`` clocks at least, and until ``lp_linkerror`` is low and LINKRESET is
    requested at one of both ends. ``residency`` must be no less than the sideband takes there and
    back: else an end leaves LINKERROR before it sees the other enter, and the error echoes.
    Latency: a request acts in the next clock. Source: UCIe 3.0 chapters 3, 4 and 10 (RDI and FDI),
    reduced to these states.

    Members
    -------
    lp_state_req : In(StateRequest); pl_state_sts : Out(StateStatus)
    lp_linkerror : In(1)
    lp_stallack : In(1); pl_stallreq : Out(1)
    lp_rx_active_sts : In(1); pl_rx_active_req : Out(1)
        Four-phase: whoever takes what is received says that it can.
    retrain : In(1)
        Too many errors, or words lost; held until RETRAIN. Heeded while the end receives.
    alive : In(modules)
        Modules that would pass training; looked at when it ends.
    peer_i : In, peer_o : Out(peer_layout(modules))
        The sideband: any delay, in order.
    active : Out(1)
        Flits may be sent.
    receiving : Out(1)
        Flits may come.
    restart : Out(1)
        In the first clock of ``receiving``: numbering of words, queues and parts of groups start
        anew; ``enabled`` and ``epoch`` are those that hold from now on.
    clear : Out(1)
        With ``restart``: sequence numbers, replay buffer, framing and credits start anew, too.
    lost : Out(1)
        What was under way is lost: the end is down, and the next ``restart`` comes with ``clear``.
        An epoch that only this end has entered has carried nothing, and goes on.
    enabled : Out(modules); epoch : Out(2)
    pl_inband_pres : Out(1)
        Training has found the other end.
    pl_error : Out(1)
        ``retrain`` in ACTIVE: what is received now is in doubt.
    pl_trainerror : Out(1)
        LINKERROR came because no block of modules is alive at both ends.
    pl_phyinrecenter : Out(1)
        Retraining.
    retrains, resets, errors : Out(16)
        How often RETRAIN, LINKRESET and LINKERROR were entered, modulo 65,536.
    """

    def __init__(self, *, modules: int, training_clocks: int, timeout: int, residency: int) -> None:
        for name, value in (
            ("training_clocks", training_clocks),
            ("timeout", timeout),
            ("residency", residency),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1 clock, not {value!r}")
        if modules < 1 or modules & (modules - 1):
            raise ValueError(f"modules must be a power of two, not {modules!r}")
        self._modules, self._training_clocks = modules, training_clocks
        self._timeout, self._residency = timeout, residency
        super().__init__(
            {
                "lp_state_req": In(StateRequest),
                "pl_state_sts": Out(StateStatus),
                "lp_linkerror": In(1),
                "lp_stallack": In(1),
                "pl_stallreq": Out(1),
                "lp_rx_active_sts": In(1),
                "pl_rx_active_req": Out(1),
                "retrain": In(1),
                "alive": In(modules),
                "peer_i": In(peer_layout(modules)),
                "peer_o": Out(peer_layout(modules)),
                "active": Out(1),
                "receiving": Out(1),
                "restart": Out(1),
                "clear": Out(1),
                "lost": Out(1),
                "enabled": Out(modules),
                "epoch": Out(EPOCH_BITS),
                "pl_inband_pres": Out(1),
                "pl_error": Out(1),
                "pl_trainerror": Out(1),
                "pl_phyinrecenter": Out(1),
                "retrains": Out(COUNT_BITS),
                "resets": Out(COUNT_BITS),
                "errors": Out(COUNT_BITS),
            }
        )

    @property
    def modules(self) -> int:
        return self._modules

    @property
    def training_clocks(self) -> int:
        return self._training_clocks

    @property
    def timeout(self) -> int:
        return self._timeout

    @property
    def residency(self) -> int:
        return self._residency

    def elaborate(self, platform) -> Module:
        m = Module()
        phase, peer = self.peer_o.phase, self.peer_i.phase
        longest = max(self._training_clocks, self._timeout, self._residency)
        clock, late = Signal(range(longest + 1)), Signal()  # in this phase
        following, begin_clock = Signal(Phase), Signal()
        m.d.comb += [following.eq(phase), late.eq(clock >= self._timeout)]
        m.d.sync += phase.eq(following)
        with m.If((following != phase) | begin_clock):
            m.d.sync += clock.eq(0)
        with m.Elif(clock != longest):
            m.d.sync += clock.eq(clock + 1)

        # What is asked ----------------------------------------------------------------------------
        nop_seen, asks_active, asks_reset = Signal(), Signal(), Signal()
        request = self.lp_state_req
        m.d.sync += nop_seen.eq((phase == Phase.RESET) & (nop_seen | (request == StateRequest.NOP)))
        m.d.comb += [
            asks_active.eq((request == StateRequest.ACTIVE) & (nop_seen | (phase != Phase.RESET))),
            asks_reset.eq((request == StateRequest.LINKRESET) | (request == StateRequest.DISABLED)),
        ]

        # Up ---------------------------------------------------------------------------------------
        # The attempt changes on the way down, and only an end that was met goes up again: so the
        # other end has seen each of them, and all that it tells once met belongs to this one.
        met, fail, unusable = Signal(), Signal(), Signal()
        again, after_error, stalling = Signal(), Signal(), Signal()
        trained, common = Signal(), Signal(self._modules)
        m.d.comb += [
            met.eq(self.peer_i.seen == self.peer_o.attempt),
            trained.eq((peer == Phase.TRAINED) | (peer == Phase.READY)),
            common.eq(largest_block(self.peer_o.alive & self.peer_i.alive, self._modules)),
        ]
        m.d.sync += self.peer_o.seen.eq(self.peer_i.attempt)
        with m.If(~_down(phase) & _down(following)):
            m.d.sync += self.peer_o.attempt.eq(~self.peer_o.attempt)
        with m.Switch(phase):
            with m.Case(Phase.RESET, Phase.RETRAIN):
                with m.If(met & asks_active & ((peer == phase) | (peer == Phase.TRAIN))):
                    m.d.comb += following.eq(Phase.TRAIN)
                m.d.comb += fail.eq((phase == Phase.RETRAIN) & ~met & late)
            with m.Case(Phase.TRAIN):
                with m.If((peer != Phase.TRAIN) & (peer != Phase.TRAINED)):
                    m.d.comb += begin_clock.eq(1)
                with m.Elif(clock >= self._training_clocks):
                    m.d.comb += following.eq(Phase.TRAINED)
                    m.d.comb += unusable.eq(largest_block(self.alive, self._modules) == 0)
                    m.d.sync += self.peer_o.alive.eq(self.alive)
            with m.Case(Phase.TRAINED):
                with m.If(trained):
                    m.d.comb += unusable.eq(common == 0)
                    with m.If(self.pl_rx_active_req & self.lp_rx_active_sts):
                        m.d.comb += following.eq(Phase.READY)
                m.d.comb += fail.eq(late)
            with m.Case(Phase.READY):
                with m.If(
                    ((peer == Phase.READY) | (peer == Phase.ACTIVE))
                    & ~self.pl_stallreq
                    & ~self.lp_stallack
                ):
                    m.d.comb += following.eq(Phase.ACTIVE)
                m.d.comb += fail.eq(late)
            with m.Case(Phase.ACTIVE):
                m.d.comb += [begin_clock.eq(~stalling), fail.eq(stalling & late)]
            with m.Case(Phase.LINKRESET):
                with m.If(met & ((peer == Phase.LINKRESET) | (peer == Phase.RESET))):
                    m.d.comb += following.eq(Phase.RESET)
                m.d.comb += fail.eq(late & ~after_error)
            with m.Case(Phase.LINKERROR):
                with m.If(met & (clock >= self._residency) & ~self.lp_linkerror):
                    with m.If((peer == Phase.LINKRESET) | (asks_reset & (peer == Phase.LINKERROR))):
                        m.d.comb += following.eq(Phase.LINKRESET)

        # Down, the strongest reason last ----------------------------------------------------------
        retrains, resets, errs = Signal(), Signal(), Signal()
        to_reset = Signal()
        m.d.comb += [
            retrains.eq(
                (_down(peer) | self.retrain)
                | ((phase == Phase.ACTIVE) & (request == StateRequest.RETRAIN))
            ),
            # An end in RESET while this one is past training has lost its state.
            resets.eq(
                asks_reset
                | (peer == Phase.LINKRESET)
                | ((peer == Phase.RESET) & ((phase != Phase.TRAIN) | again))
            ),
            # After an error the other end may need longer.
            errs.eq(
                self.lp_linkerror
                | ((peer == Phase.LINKERROR) & ~((phase == Phase.LINKRESET) & after_error))
                | fail
                | unusable
            ),
        ]
        with m.Switch(phase):
            with m.Case(Phase.TRAINED):
                with m.If(_down(peer)):
                    m.d.comb += following.eq(Phase.RETRAIN)
            with m.Case(Phase.READY):
                with m.If(retrains):
                    m.d.comb += following.eq(Phase.RETRAIN)
        with m.Switch(phase):
            with m.Case(Phase.RETRAIN, Phase.TRAIN, Phase.TRAINED, Phase.READY):
                with m.If(resets):
                    m.d.comb += following.eq(Phase.LINKRESET)
            with m.Case(Phase.ACTIVE):
                with m.If(retrains | resets):
                    m.d.sync += [stalling.eq(1), to_reset.eq(to_reset | resets)]
                with m.If(self.pl_stallreq & self.lp_stallack):
                    m.d.comb += following.eq(Mux(to_reset | resets, Phase.LINKRESET, Phase.RETRAIN))
        with m.If(errs & (phase != Phase.LINKERROR)):
            m.d.comb += following.eq(Phase.LINKERROR)
        with m.If(following != Phase.ACTIVE):
            m.d.sync += [stalling.eq(0), to_reset.eq(0)]

        # Handshakes -------------------------------------------------------------------------------
        with m.If(self.pl_stallreq & self.lp_stallack):
            m.d.sync += self.pl_stallreq.eq(0)
        with m.Elif((phase == Phase.ACTIVE) & stalling & ~self.lp_stallack):
            m.d.sync += self.pl_stallreq.eq(1)
        takes = Signal()
        m.d.comb += [
            self.receiving.eq((phase == Phase.READY) | (phase == Phase.ACTIVE)),
            takes.eq(self.receiving | ((phase == Phase.TRAINED) & trained)),
        ]
        with m.If(takes & ~self.lp_rx_active_sts):
            m.d.sync += self.pl_rx_active_req.eq(1)
        with m.Elif(~takes & self.lp_rx_active_sts):
            m.d.sync += self.pl_rx_active_req.eq(0)

        # Agreement --------------------------------------------------------------------------------
        own, other = self.peer_o, self.peer_i
        enters_ready, epoch = Signal(), Signal(EPOCH_BITS)
        m.d.comb += [
            enters_ready.eq((phase == Phase.TRAINED) & (following == Phase.READY)),
            epoch.eq(agreed_epoch(own.epoch, other.epoch, own.clear | other.clear)),
            self.epoch.eq(own.epoch),
            self.active.eq((phase == Phase.ACTIVE) & ~self.lp_stallack),
        ]
        m.d.sync += [
            self.restart.eq(enters_ready),
            self.clear.eq(enters_ready & (epoch != own.epoch)),
        ]
        with m.If(enters_ready):
            m.d.sync += [self.enabled.eq(common), own.epoch.eq(epoch), own.clear.eq(0)]
        gone = Signal()
        m.d.comb += gone.eq(_down(phase) & (phase != Phase.RETRAIN))
        with m.If(gone):
            m.d.sync += own.clear.eq(1)
        # Before this end goes up again it has met the other, and so knows that one's epoch.
        m.d.comb += self.lost.eq(gone & (other.epoch != (own.epoch - 1)[:EPOCH_BITS]))

        # What is told above -----------------------------------------------------------------------
        with m.If(gone):
            m.d.sync += again.eq(0)
        with m.Elif(phase == Phase.RETRAIN):
            m.d.sync += again.eq(1)
        with m.If(phase == Phase.LINKERROR):
            m.d.sync += after_error.eq(1)
        with m.Elif(phase != Phase.LINKRESET):
            m.d.sync += after_error.eq(0)
        with m.If(unusable & (phase != Phase.LINKERROR)):
            m.d.sync += self.pl_trainerror.eq(1)
        with m.Elif(phase != Phase.LINKERROR):
            m.d.sync += self.pl_trainerror.eq(0)
        status = self.pl_state_sts
        m.d.comb += [
            status.eq(Mux(again, StateStatus.RETRAIN, StateStatus.RESET)),
            self.pl_inband_pres.eq(
                (status == StateStatus.RETRAIN) | self.receiving | (phase == Phase.TRAINED)
            ),
            self.pl_error.eq((phase == Phase.ACTIVE) & self.retrain),
            self.pl_phyinrecenter.eq(status == StateStatus.RETRAIN),
        ]
        for which, counter in (
            (Phase.RETRAIN, self.retrains),
            (Phase.LINKRESET, self.resets),
            (Phase.LINKERROR, self.errors),
        ):
            with m.If((following == which) & (phase != which)):
                m.d.sync += counter.eq(counter + 1)
        for which, shown in (
            (Phase.ACTIVE, StateStatus.ACTIVE),
            (Phase.RETRAIN, StateStatus.RETRAIN),
            (Phase.LINKRESET, StateStatus.LINKRESET),
            (Phase.LINKERROR, StateStatus.LINKERROR),
            (Phase.RESET, StateStatus.RESET),
        ):
            with m.If(phase == which):
                m.d.comb += status.eq(shown)
        return m


def _down(phase) -> Value:
    return ~phase.as_value()[2]
