# amaranth: UnusedElaboratable=no
"""The queue of a channel of chunks, which its sender may not overfill."""

from hw.sram.regions import GROUPS, READ_CLOCKS
from hw.ucie.flit import latency_optimised
from hw.ucie.link_end import Channel, LinkEnd
from hw.ucie.link_shape import LinkShape
from hw.ucie.transaction import MessageClass
from tests.hw.pysim import simulate

SHAPE = LinkShape(
    flit_format=latency_optimised(48), flits=2, lanes=8, module_lanes=6, queue_beats=24
)
CHUNKS = Channel(name="data", depth=2, lanes=8, chunked=True)


def test_a_sender_of_chunks_is_held_while_its_page_would_not_fit():
    end = LinkEnd(shape=SHAPE, sends=(CHUNKS,), receives=(Channel(name="message", depth=2),))
    brought = []

    async def bench(ctx):
        port = end.tx_data
        ctx.set(port.header.message_class, MessageClass.RELAY_DATA)
        # The link is down: everything waits. `hold` is a register behind a register.
        for _ in range(SHAPE.queue_beats):
            if ctx.get(port.hold):
                break
            ctx.set(port.valid, 1)
            await ctx.tick()
            brought.append(1)
        ctx.set(port.valid, 0)
        await ctx.tick().repeat(3)
        assert ctx.get(port.hold)
        # A page that was chosen in the clock before comes whole, and an end of a chunk behind it.
        assert SHAPE.queue_beats - len(brought) >= READ_CLOCKS + GROUPS + 1
        # Up again: the queue runs empty and the sender may go on.
        ctx.set(end.active, 1)
        for _ in range(4 * SHAPE.queue_beats):
            await ctx.tick()
            if not ctx.get(port.hold):
                break
        assert not ctx.get(port.hold)

    simulate(end, bench, clocks=1_000)
