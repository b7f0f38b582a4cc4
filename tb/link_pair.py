"""Two ends of a link with traffic both ways: beats and messages, through noise."""

from typing import ClassVar

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.ucie.link_end import Channel, LinkEnd
from hw.ucie.link_shape import LinkShape
from hw.ucie.pacer import RATE_BITS
from tb.vip.flit_channel import DEPTH, DICE_BITS, FlitChannel, Noise
from tb.vip.link_traffic import (
    NUMBER_BITS,
    SIDES,
    BeatSink,
    BeatSource,
    MessageSink,
    MessageSource,
)

ENDS = 2


class LinkPair(wiring.Component):
    """Both ends and the channels between them. Arrays are by the end that sends.

    Members
    -------
    active, clear, interval : In: of each end
    beats, rate : In: beats to send, and how many in 65536 clocks
    messages, share : In: messages to send, and in how many of 256 clocks
    stall : In: of 256 clocks, how many the sinks are not ready
    still : In: one bit for the sink of beats and one for that of messages: it takes nothing
    cycles : In: clocks of channel each way
    error_rate, noise, cut : In: of each direction, see :class:`tb.vip.flit_channel.FlitChannel`
    clock : Out
    beats_taken .. beats_skipped, messages_taken .. : counters of the sinks of what the end sends
    flits, struck : of its channel; payload_groups : groups with payload that left, again or not
    repeats, cancels : passes of its replay buffer; groups that the other end dropped
    begin, end, steady : stamps of its first beat, of the last that was taken, and of the one with
        number ``steady_from``
    at_rest, credits : of its senders
    """

    COUNTERS: ClassVar[tuple[str, ...]] = (
        *("beats_taken", "beats_errors", "beats_skipped"),
        *("messages_taken", "messages_errors", "messages_skipped"),
        *("flits", "struck", "payload_groups", "repeats", "cancels"),
        *("begin", "end", "steady", "credits", "at_rest"),
    )

    def __init__(
        self, *, shape: LinkShape, depth_beats: int = 64, depth_messages: int = 32
    ) -> None:
        self._shape = shape
        self._beats, self._messages = depth_beats, depth_messages
        super().__init__(
            {
                **self._controls(),
                "beats": In(NUMBER_BITS).array(ENDS),
                "rate": In(RATE_BITS + 1).array(ENDS),
                "messages": In(NUMBER_BITS).array(ENDS),
                "share": In(9).array(ENDS),
                "stall": In(9).array(ENDS),
                "still": In(2).array(ENDS),
                "steady_from": In(NUMBER_BITS),
                "clock": Out(NUMBER_BITS),
                **{name: Out(NUMBER_BITS).array(ENDS) for name in self.COUNTERS},
            }
        )

    def _controls(self) -> dict:
        """Inputs of the ends and of the channels."""
        return {
            **{name: In(1).array(ENDS) for name in ("active", "clear", "cut")},
            "interval": In(range(1, self._shape.modules + 1), init=1).array(ENDS),
            "error_rate": In(DICE_BITS + 1).array(ENDS),
            "noise": In(Noise).array(ENDS),
            "cycles": In(range(DEPTH)),
        }

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = self._shape
        channels = (
            Channel(name="data", depth=self._beats, lanes=shape.lanes),
            Channel(name="message", depth=self._messages),
        )
        ends = [self._end(channels) for _ in range(ENDS)]
        m.submodules.a, m.submodules.b = ends
        m.d.sync += self.clock.eq(self.clock + 1)
        for k, (end, other) in enumerate(zip(ends, reversed(ends), strict=True)):
            self._line(m, k, end, other)
            m.d.comb += self.at_rest[k].eq(end.at_rest)
            self._count(m, self.repeats[k], end.repeat)
            self._count(m, self.cancels[k], other.cancel)
            self._traffic(m, k, end, other)
        return m

    def _end(self, channels: tuple[Channel, ...]):
        return LinkEnd(shape=self._shape, sends=channels, receives=channels)

    def _line(self, m: Module, k: int, end, other) -> None:
        """From one end to the other."""
        shape = self._shape
        line = FlitChannel(flit_format=shape.flit_format, flits=shape.flits, seed=k)
        m.submodules[f"line{k}"] = line
        wiring.connect(m, end.tx, line.i)
        wiring.connect(m, line.o, other.rx)
        m.d.comb += [
            end.active.eq(self.active[k]),
            end.receiving.eq(self.active[k]),
            end.clear.eq(self.clear[k]),
            end.interval.eq(self.interval[k]),
            line.cycles.eq(self.cycles),
            line.rate.eq(self.error_rate[k]),
            line.noise.eq(self.noise[k]),
            line.cut.eq(self.cut[k]),
            self.flits[k].eq(line.flits),
            self.struck[k].eq(line.struck),
        ]
        head, at = line.i.flits[0], 8 * shape.flit_format.header.start
        # Protocol of the flit header: of a NOP it is zero.
        self._count(m, self.payload_groups[k], line.i.valid & (head[at + 6 : at + 8] != 0))

    def _traffic(self, m: Module, k: int, end, other) -> None:
        lanes = self._shape.lanes
        source = BeatSource(lanes=lanes, depth=self._beats, seed=k)
        sink = BeatSink(lanes=lanes, depth=self._beats, seed=k)
        m.submodules[f"beat_source{k}"], m.submodules[f"beat_sink{k}"] = source, sink
        messages = MessageSource(depth=self._messages, seed=k)
        reader = MessageSink(depth=self._messages, seed=k + ENDS)
        m.submodules[f"message_source{k}"], m.submodules[f"message_sink{k}"] = messages, reader
        wiring.connect(m, source.port, end.tx_data)
        wiring.connect(m, other.rx_data, sink.port)
        wiring.connect(m, messages.port, end.tx_message)
        wiring.connect(m, other.rx_message, reader.port)
        m.d.comb += [
            source.total.eq(self.beats[k]),
            source.rate.eq(self.rate[k]),
            messages.total.eq(self.messages[k]),
            messages.share.eq(self.share[k]),
            sink.stall.eq(Mux(self.still[k][0], SIDES, self.stall[k])),
            reader.stall.eq(Mux(self.still[k][1], SIDES, self.stall[k])),
            self.credits[k].eq(source.credits),
        ]
        for name, of in (("beats", sink), ("messages", reader)):
            for what in ("taken", "errors", "skipped"):
                m.d.comb += getattr(self, f"{name}_{what}")[k].eq(getattr(of, what))
        with m.If(source.first):
            m.d.sync += self.begin[k].eq(self.clock)
        with m.If(sink.last):
            m.d.sync += self.end[k].eq(self.clock)
            with m.If(sink.taken == self.steady_from):
                m.d.sync += self.steady[k].eq(self.clock)

    def _count(self, m: Module, counter: Signal, event) -> None:
        m.d.sync += counter.eq(counter + event)
