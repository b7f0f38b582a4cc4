# amaranth: UnusedElaboratable=no
"""A die's end of a UCIe link: ports above, modules and the wires of the sideband below."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.shared import shared
from hw.ucie.flit import HALVES
from hw.ucie.link_codes import StateRequest, StateStatus, peer_layout
from hw.ucie.link_end import Channel, LinkEnd
from hw.ucie.link_shape import LinkShape
from hw.ucie.link_state import LinkState
from hw.ucie.modules import Deskewer, ModulePort, Striper, sizes
from hw.ucie.transaction import ResetPort

EMPTYING_CLOCKS = 4  # from the last group that the adapter chose to the striper
# From the loss of the link to the last of what had come, in its ports and the queues behind; and
# for what a die had begun to send to leave it.
QUIET_CLOCKS = 32


class UcieEnd(wiring.Component):
    """Link end, link state and modules of one end.

    Promise: that of :class:`LinkEnd` and of :class:`LinkState`. The link comes up by itself after
    reset, is trained anew when modules are lost or answers stay out, and goes on with the largest
    block of modules that is ``alive`` at both ends; then groups take as many clocks as modules are
    missing. ``reset`` asks for a link reset: what is under way both ways is lost and its credits
    come back; ``die`` says so, and the link comes up again when both dies have settled.

    Latency: that of :class:`LinkEnd`, 1 clock to the modules and 2 back. Throughput and
    back-pressure: as :class:`LinkEnd`, over ``n`` of its modules ``n`` parts of the rate.

    Members
    -------
    tx_NAME, rx_NAME : ports, as of :class:`LinkEnd`
    tx : Out, rx : In(ModulePort).array(modules)
    peer_o : Out, peer_i : In: the sideband of the link states
    alive : In(modules): those that pass training
    reset, error : In: ask for a link reset; a fatal error
    corrupt : In: of :class:`LinkEnd`
    state : Out(StateStatus); enabled : Out(modules); epoch : Out
    die : Out(ResetPort); not lost before the link is up for the first time
    clear : Out, a pulse: the link comes up after a reset
    cancel, repeat : Out, pulses: of :class:`LinkEnd`
    retrains : Out: how often; at_rest : Out
    """

    def __init__(
        self,
        *,
        shape: LinkShape,
        sends: tuple[Channel, ...],
        receives: tuple[Channel, ...],
    ) -> None:
        self._shape, self._sends, self._receives = shape, sends, receives
        modules = shape.modules
        port = ModulePort(word_bytes=shape.group_bytes // modules)
        super().__init__(
            {
                **{f"tx_{channel.name}": In(channel.port()) for channel in sends},
                **{f"rx_{channel.name}": Out(channel.port()) for channel in receives},
                "tx": Out(port).array(modules),
                "rx": In(port).array(modules),
                "peer_o": Out(peer_layout(modules)),
                "peer_i": In(peer_layout(modules)),
                "alive": In(modules, init=(1 << modules) - 1),
                "reset": In(1),
                "error": In(1),
                "corrupt": In(HALVES).array(shape.flits),
                "state": Out(StateStatus),
                "enabled": Out(modules),
                "epoch": Out(2),
                "die": Out(ResetPort()),
                "clear": Out(1),
                "cancel": Out(1),
                "repeat": Out(1),
                "retrains": Out(16),
                "at_rest": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = self._shape
        end = LinkEnd(shape=shape, sends=self._sends, receives=self._receives)
        m.submodules.end = end
        for channel in self._sends:
            name = f"tx_{channel.name}"
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(end, name))
        for channel in self._receives:
            name = f"rx_{channel.name}"
            wiring.connect(m, getattr(end, name), wiring.flipped(getattr(self, name)))
        state = LinkState(
            modules=shape.modules,
            training_clocks=shape.training_clocks,
            timeout=shape.timeout_clocks,
            residency=shape.timeout_clocks,
        )
        m.submodules.state = state
        sizes_of_modules = {
            "modules": shape.modules,
            "lanes": shape.module_lanes,
            "group_bytes": shape.group_bytes,
        }
        striper = Striper(**sizes_of_modules)
        deskewer = Deskewer(**sizes_of_modules, max_skew=shape.max_skew)
        m.submodules.striper = shared("striper", striper)
        m.submodules.deskewer = shared("deskewer", deskewer)
        self._modules(m, end, state, striper, deskewer)
        self._state(m, end, state, striper, deskewer)
        m.d.comb += [
            *(getattr(self, n).eq(getattr(end, n)) for n in ("cancel", "repeat", "at_rest")),
            *(to.eq(of) for to, of in zip(end.corrupt, self.corrupt, strict=True)),
        ]
        return m

    def _modules(
        self, m: Module, end: LinkEnd, state: LinkState, striper: Striper, deskewer: Deskewer
    ) -> None:
        bits = 8 * self._shape.flit_format.flit_bytes
        m.d.comb += [
            striper.i.valid.eq(end.tx.valid),
            striper.i.payload.eq(Cat(*end.tx.flits)),
            striper.enabled.eq(state.enabled),
            striper.restart.eq(state.restart),
            deskewer.enabled.eq(state.enabled),
            deskewer.restart.eq(state.restart),
            end.rx.valid.eq(deskewer.valid),
            *(
                flit.eq(deskewer.payload[k * bits : (k + 1) * bits])
                for k, flit in enumerate(end.rx.flits)
            ),
        ]
        for k, (out, come) in enumerate(zip(self.tx, self.rx, strict=True)):
            wiring.connect(m, striper.o[k], wiring.flipped(out))
            m.d.comb += [
                deskewer.i[k].valid.eq(come.valid & state.receiving),
                deskewer.i[k].number.eq(come.number),
                deskewer.i[k].word.eq(come.word),
            ]

    def _state(
        self, m: Module, end: LinkEnd, state: LinkState, striper: Striper, deskewer: Deskewer
    ) -> None:
        # Clocks of a group: as many as the modules that are left share.
        with m.Switch(sum(state.enabled)):
            for k in sizes(self._shape.modules):
                with m.Case(1 << k):
                    m.d.comb += end.interval.eq(self._shape.modules >> k)

        # What is asked: up from reset, out of an error by a reset, otherwise stay ---------------
        status, request = state.pl_state_sts, state.lp_state_req
        wanted, nop_given, ready = Signal(), Signal(), Signal()
        began, loses = Signal(), Signal()
        with m.If(self.reset):
            m.d.sync += wanted.eq(1)
        with m.Elif((status == StateStatus.LINKRESET) | (status == StateStatus.RESET)):
            m.d.sync += wanted.eq(0)
        m.d.sync += nop_given.eq(status == StateStatus.RESET)
        m.d.comb += [
            request.eq(StateRequest.ACTIVE),
            loses.eq(state.lost & began),
            ready.eq(~(self.die.lost | loses) | (self.die.quiet & self.die.settled)),
        ]
        with m.If((status == StateStatus.RESET) & ~(nop_given & ready)):
            m.d.comb += request.eq(StateRequest.NOP)
        with m.Elif(wanted | (status == StateStatus.LINKERROR)):
            m.d.comb += request.eq(StateRequest.LINKRESET)

        # Stall: nothing is chosen any more, and what was has left -------------------------------
        emptying = Signal(range(EMPTYING_CLOCKS + 1))
        empty = (emptying == EMPTYING_CLOCKS) & striper.idle
        with m.If(~state.pl_stallreq):
            m.d.sync += emptying.eq(0)
        with m.Elif(emptying != EMPTYING_CLOCKS):
            m.d.sync += emptying.eq(emptying + 1)
        m.d.sync += [
            state.lp_stallack.eq(state.pl_stallreq & (empty | state.lp_stallack)),
            state.lp_rx_active_sts.eq(state.pl_rx_active_req),
        ]
        # The first epoch begins what waits for it; each further one ends what was under way.
        with m.If(state.clear):
            m.d.sync += began.eq(1)
        since = Signal(range(QUIET_CLOCKS + 1))
        m.d.comb += self.die.quiet.eq(since == QUIET_CLOCKS)
        with m.If(state.clear):
            m.d.sync += [self.die.lost.eq(0), since.eq(0)]
        with m.Else():
            m.d.sync += self.die.lost.eq(self.die.lost | loses)
            with m.If(self.die.lost & ~self.die.quiet):
                m.d.sync += since.eq(since + 1)
        m.d.comb += [
            state.lp_linkerror.eq(self.error),
            state.alive.eq(self.alive),
            state.retrain.eq(end.retrain | deskewer.lost | deskewer.starved),
            state.peer_i.eq(self.peer_i),
            self.peer_o.eq(state.peer_o),
            end.active.eq(state.active & ~state.pl_stallreq),
            end.receiving.eq(state.receiving),
            end.clear.eq(self.clear),
            self.state.eq(status),
            self.enabled.eq(state.enabled),
            self.epoch.eq(state.epoch),
            self.clear.eq(state.clear & began),
            self.retrains.eq(state.retrains),
        ]
