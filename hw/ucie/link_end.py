# amaranth: UnusedElaboratable=no
"""One end of a link: the ports of a die above, flits below."""

from collections.abc import Iterable
from dataclasses import dataclass

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hw.arbiter import RoundRobin, select
from hw.shared import shared
from hw.ucie.adapter import D2DAdapter
from hw.ucie.beat_queue import BeatQueue
from hw.ucie.credit_ledger import CreditGiver, CreditTaker
from hw.ucie.credit_message import CHANNELS
from hw.ucie.flit import HALVES
from hw.ucie.flit_codec import FlitPort
from hw.ucie.link_shape import LinkShape
from hw.ucie.packer import GroupPacker
from hw.ucie.transaction import DataPort, Header, MessageClass, RequestPort
from hw.ucie.unpacker import GroupUnpacker

CHANNEL_BITS = 2  # of `Header.spare`, which tell the port at the far end


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One direction of a port of a die, from a sender to the receiver at the other end.

    Attributes:
        name: Of the port.
        depth: Credits that the sender begins with.
        lanes: Of a beat; 0 for a port of header-only messages.
        chunked: A credit stands for a chunk of beats, up to one with ``chunk_end``, not for one.
    """

    name: str
    depth: int
    lanes: int = 0
    chunked: bool = False

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth of channel {self.name} must be at least 1, not {self.depth!r}")
        if self.chunked and not self.lanes:
            raise ValueError(f"channel {self.name} is chunked, which needs lanes")

    def port(self) -> wiring.Signature:
        return DataPort(self.lanes) if self.lanes else RequestPort()


def check_channels(side: str, channels: Iterable[Channel], *, lanes: int) -> None:
    """Refuse what one direction of a link whose beats have ``lanes`` cannot carry.

    Raises:
        ValueError: with the side and what is wrong.
    """
    channels = tuple(channels)
    if not 1 <= len(channels) <= CHANNELS:
        raise ValueError(f"{side} must be 1 to {CHANNELS} channels, not {len(channels)}")
    names = [channel.name for channel in channels]
    if len(set(names)) != len(names):
        raise ValueError(f"{side} has two channels of one name: {', '.join(names)}")
    if sum(bool(channel.lanes) for channel in channels) > 1:
        raise ValueError(f"{side} has more than one channel of data beats")
    for channel in channels:
        if channel.lanes not in (0, lanes):
            raise ValueError(
                f"lanes of channel {channel.name} must be 0 or {lanes}, as those of the link, not "
                f"{channel.lanes!r}"
            )


class LinkEnd(wiring.Component):
    """Carries the ports of a die over flits, their credits with them.

    Promise: what is sent on a channel arrives at the port of the same place at the other end, once
    and in order, whatever the adapters have to send again; so does each credit of its receiver.
    Channels do not wait for each other: header-only messages take turns in a slot of their own.
    ``clear`` loses what was on its way between the ends, what waits here included; then the credits
    of what was lost come back to the senders, and no others.

    Latency: see :class:`GroupPacker`, :class:`D2DAdapter` and :class:`GroupUnpacker`; 2 clocks more
    in the queue of the channel. Throughput: a message a clock, ``data_slots / beat_slots`` beats.
    Back-pressure: none at the ports of receivers. Senders hold credits for all that waits here, but
    those of a ``chunked`` channel: their ``hold`` rises when the queue has room only for what is
    on its way to it and a page.

    Members
    -------
    tx_NAME : In, a port for each of ``sends``; rx_NAME : Out, one for each of ``receives``
    active, receiving, clear : In: state of the link
    interval : In: of :class:`D2DAdapter`
    tx, rx : flits
    corrupt : In; cancel, repeat, retrain : Out: of :class:`D2DAdapter`
    at_rest : Out: nothing is unacknowledged and all credits are with the senders
    """

    def __init__(
        self, *, shape: LinkShape, sends: tuple[Channel, ...], receives: tuple[Channel, ...]
    ) -> None:
        check_channels("sends", sends, lanes=shape.lanes)
        check_channels("receives", receives, lanes=shape.lanes)
        self._shape, self._sends, self._receives = shape, sends, receives
        flits = FlitPort(flits=shape.flits, flit_bytes=shape.flit_format.flit_bytes)
        super().__init__(
            {
                **{f"tx_{channel.name}": In(channel.port()) for channel in sends},
                **{f"rx_{channel.name}": Out(channel.port()) for channel in receives},
                "active": In(1),
                "clear": In(1),
                "receiving": In(1),
                "interval": In(range(1, shape.modules + 1), init=1),
                "tx": Out(flits),
                "rx": In(flits),
                "corrupt": In(HALVES).array(shape.flits),
                "cancel": Out(1),
                "repeat": Out(1),
                "retrain": Out(1),
                "at_rest": Out(1),
            }
        )

    @property
    def sends(self) -> tuple[Channel, ...]:
        return self._sends

    @property
    def receives(self) -> tuple[Channel, ...]:
        return self._receives

    def elaborate(self, platform) -> Module:
        m = Module()
        shape = self._shape
        adapter = D2DAdapter(
            flit_format=shape.flit_format,
            flits=shape.flits,
            payload_bits=shape.payload_bits,
            pipeline=shape.pipeline,
            rows=shape.rows,
            slowest=shape.modules,
        )
        frame = {"lanes": shape.lanes, "slots": shape.slots}
        packer = GroupPacker(**frame, flush=shape.flush)
        unpacker = GroupUnpacker(**frame)
        for name, block in (
            ("d2d_adapter", adapter),
            ("group_packer", packer),
            ("group_unpacker", unpacker),
        ):
            m.submodules[name] = shared(name, block)
        wiring.connect(m, packer.o, adapter.i)
        wiring.connect(m, adapter.o, unpacker.i)
        wiring.connect(m, adapter.tx, wiring.flipped(self.tx))
        wiring.connect(m, wiring.flipped(self.rx), adapter.rx)
        m.d.comb += [
            adapter.active.eq(self.active),
            adapter.receiving.eq(self.receiving),
            adapter.interval.eq(self.interval),
            *(port.clear.eq(self.clear) for port in (adapter, packer, unpacker)),
            *(to.eq(of) for to, of in zip(adapter.corrupt, self.corrupt, strict=True)),
            *(getattr(self, n).eq(getattr(adapter, n)) for n in ("cancel", "repeat", "retrain")),
        ]
        giver, taker = self._credits(m, unpacker)
        self._send(m, packer, giver)
        m.d.comb += self.at_rest.eq(adapter.idle & taker.at_rest)
        return m

    def _credits(self, m: Module, unpacker: GroupUnpacker) -> tuple[CreditGiver, CreditTaker]:
        """Received messages and beats to their ports, and all credits."""
        giver = CreditGiver(depths=tuple(channel.depth for channel in self._receives))
        taker = CreditTaker(depths=tuple(channel.depth for channel in self._sends))
        m.submodules.giver, m.submodules.taker = giver, taker
        message, beat = unpacker.message, unpacker.beat
        is_credit = message.header.message_class == MessageClass.CREDIT
        m.d.comb += [
            taker.valid.eq(message.valid & is_credit),
            taker.message.eq(message.header.as_value()),
            *(part.active.eq(self.active) for part in (giver, taker)),
            *(part.clear.eq(self.clear) for part in (giver, taker)),
        ]
        for k, channel in enumerate(self._receives):
            port = getattr(self, f"rx_{channel.name}")
            of = beat if channel.lanes else message
            number = of.header.spare[:CHANNEL_BITS]
            valid = of.valid if channel.lanes else of.valid & ~is_credit & (number == k)
            m.d.comb += [
                port.valid.eq(valid),
                port.header.eq(of.header),
                port.header.spare.eq(0),
                giver.came[k].eq(self._spends(m, channel, valid, of.header)),
                giver.credit[k].eq(port.credit),
            ]
            if channel.lanes:
                m.d.comb += [lane.eq(own) for lane, own in zip(port.lanes, beat.lanes, strict=True)]
        for k, channel in enumerate(self._sends):
            port = getattr(self, f"tx_{channel.name}")
            m.d.comb += [
                taker.sent[k].eq(self._spends(m, channel, port.valid, port.header)),
                port.credit.eq(taker.credit[k]),
            ]
        return giver, taker

    def _send(self, m: Module, packer: GroupPacker, giver: CreditGiver) -> None:
        """Queues of what is sent; messages of all channels take turns, CREDIT among them."""
        waiting, headers, takes = [giver.message.valid], [giver.message.payload.as_value()], []
        takes.append(giver.message.ready)
        for k, channel in enumerate(self._sends):
            port = getattr(self, f"tx_{channel.name}")
            if channel.lanes:
                self._send_beats(m, packer, channel)
                continue
            # One more than the credits: a queue of two is not ready for the second of two in a row.
            queue = SyncFIFOBuffered(width=len(port.header.as_value()), depth=channel.depth + 1)
            m.submodules[f"queue_{channel.name}"] = ResetInserter(self.clear)(queue)
            marked, header = Header(queue.w_data), Signal(Header, name=f"header_{channel.name}")
            m.d.comb += [
                header.eq(port.header),
                header.spare.eq(k),
                marked.eq(header),
                queue.w_en.eq(port.valid),
            ]
            waiting.append(queue.r_rdy)
            headers.append(queue.r_data)
            takes.append(queue.r_en)
        m.submodules.turn = turn = RoundRobin(width=len(waiting))
        m.d.comb += [
            turn.request.eq(Cat(*waiting)),
            turn.take.eq(packer.message.ready),
            packer.message.valid.eq(turn.request.any()),
            packer.message.payload.eq(select(turn.grant, headers)),
            *(take.eq(turn.grant[k] & packer.message.ready) for k, take in enumerate(takes)),
        ]

    def _send_beats(self, m: Module, packer: GroupPacker, channel: Channel) -> None:
        """All beats for which there is credit may wait here, or those of ``page_room``."""
        shape, port = self._shape, getattr(self, f"tx_{channel.name}")
        depth = shape.queue_beats if channel.chunked else channel.depth
        queue = BeatQueue(lanes=shape.lanes, depth=depth, bank_bytes=min(64, 8 * shape.lanes))
        m.submodules.queue_beats = ResetInserter(self.clear)(queue)
        m.d.comb += [
            queue.port.valid.eq(port.valid),
            queue.port.header.eq(port.header),
            packer.beat.valid.eq(queue.o.valid),
            packer.beat.header.eq(queue.o.header),
            queue.o.ready.eq(packer.beat.ready),
            *(to.eq(of) for to, of in zip(queue.port.lanes, port.lanes, strict=True)),
            *(to.eq(of) for to, of in zip(packer.beat.lanes, queue.o.lanes, strict=True)),
        ]
        if not channel.chunked:
            return
        waiting = Signal(range(depth + 1))
        with m.If(self.clear):
            m.d.sync += waiting.eq(0)
        with m.Else():
            m.d.sync += waiting.eq(waiting + port.valid - (queue.o.valid & queue.o.ready))
        m.d.sync += port.hold.eq(waiting > depth - shape.page_room)

    def _spends(self, m: Module, channel: Channel, valid, header):
        """What uses up a credit: each message or beat, or the first beat of a chunk."""
        if not channel.chunked:
            return valid
        open_chunk, beat = Signal(), Signal()
        m.d.comb += beat.eq(valid & (header.message_class == MessageClass.RELAY_DATA))
        with m.If(self.clear | (valid & header.chunk_end & (header.page_end | ~beat))):
            m.d.sync += open_chunk.eq(0)
        with m.Elif(beat):
            m.d.sync += open_chunk.eq(1)
        return beat & ~open_chunk
