"""Two whole ends of a UCIe link with traffic both ways: modules that skew, err and die."""

from typing import ClassVar

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib.wiring import In

from hw.ucie.link_end import Channel
from hw.ucie.slot_shift import slots_up
from hw.ucie.ucie_end import UcieEnd
from tb.link_pair import ENDS, LinkPair
from tb.vip.flit_channel import DICE_BITS
from tb.vip.module_channel import ModuleChannel
from tb.vip.xorshift import xorshift

PEER_CLOCKS = 5  # of the sideband, each way


class UciePair(LinkPair):
    """As :class:`tb.link_pair.LinkPair`, but the ends run their link by themselves.

    Module ``k`` of a direction is ``k`` modulo 3 clocks later than module 0, which takes 2 clocks.

    Members beside those of the traffic
    -----------------------------------
    alive : In: modules of each end that pass training
    dead : In: modules that deliver nothing, of each direction
    reset, error : In: of each end
    error_rate : In: how many of 2**24 words of the modules get a wrong bit
    enabled, epoch, retrains, state : Out: of each end
    """

    COUNTERS: ClassVar[tuple[str, ...]] = (
        *LinkPair.COUNTERS,
        "enabled",
        "epoch",
        "retrains",
        "state",
    )

    def _controls(self) -> dict:
        modules = self._shape.modules
        every = (1 << modules) - 1
        return {
            "alive": In(modules, init=every).array(ENDS),
            "dead": In(modules).array(ENDS),
            "reset": In(1).array(ENDS),
            "error": In(1).array(ENDS),
            "error_rate": In(DICE_BITS + 1).array(ENDS),
        }

    def _end(self, channels: tuple[Channel, ...]) -> UcieEnd:
        return UcieEnd(shape=self._shape, sends=channels, receives=channels)

    def _line(self, m: Module, k: int, end: UcieEnd, other: UcieEnd) -> None:
        shape = self._shape
        word_bytes = shape.group_bytes // shape.modules
        delays = [2 + module % 3 for module in range(shape.modules)]
        line = ModuleChannel(word_bytes=word_bytes, delays=delays)
        m.submodules[f"line{k}"] = line
        struck = []
        for module in range(shape.modules):
            into, out = line.i[module], other.rx[module]
            sent, come = end.tx[module], line.o[module]
            hit, flip = self._dice(m, k * shape.modules + module, 8 * word_bytes)
            struck.append(hit & come.valid)
            m.d.comb += [
                *(getattr(into, n).eq(getattr(sent, n)) for n in ("valid", "number", "word")),
                *(getattr(out, n).eq(getattr(come, n)) for n in ("valid", "number", "word")),
                line.flip[module].eq(Mux(hit, flip, 0)),
            ]
        peer = end.peer_o
        for stage in range(PEER_CLOCKS):
            later = Signal.like(end.peer_o, name=f"peer{k}_{stage}")
            m.d.sync += later.eq(peer)
            peer = later
        m.d.comb += [
            other.peer_i.eq(peer),
            line.dead.eq(self.dead[k]),
            end.alive.eq(self.alive[k]),
            end.reset.eq(self.reset[k]),
            end.error.eq(self.error[k]),
            end.die.settled.eq(1),
            self.enabled[k].eq(end.enabled),
            self.epoch[k].eq(end.epoch),
            self.retrains[k].eq(end.retrains),
            self.state[k].eq(end.state),
        ]
        self._count(m, self.struck[k], sum(struck))
        self._count(m, self.flits[k], Mux(end.tx[0].valid, shape.flits, 0))

    def _dice(self, m: Module, k: int, bits: int):
        """Whether a word is struck in this clock, and a mask with one bit."""
        state = xorshift(m, f"dice{k}", bits=64, stream=k + 1)
        at = (state[25:37] * bits)[12:]
        one = slots_up(m, f"flip{k}", Const(1, 1), at, slot_bits=1, most=bits - 1)
        end = k // self._shape.modules
        return state[:DICE_BITS] < self.error_rate[end], one[:bits]
