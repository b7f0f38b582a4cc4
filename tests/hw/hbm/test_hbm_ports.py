# amaranth: UnusedElaboratable=no
"""All users of an HBM controller around the real one and its DRAM."""

from collections import deque

from amaranth.hdl import Module
from amaranth.lib import wiring

from hw.hbm.controller_share import ControllerShare
from hw.hbm.dram.controller import HbmController
from hw.hbm.dram.stacks import stack
from hw.hbm.link_b import LinkBArbiter
from hw.hbm.local_port import LocalPort
from hw.hbm.writeback import Writeback
from hw.ucie.pacer import RATE_ONE
from hw.ucie.transaction import MessageClass, Operation, Status
from hw.ucie.write_sender import WriteSender
from tb.vip.dram import DramModel
from tests.hw.beats import Quiet, get_lanes, set_lanes
from tests.hw.hbm.writeback_bench import join_sender
from tests.hw.machines import TINY
from tests.hw.pysim import simulate

MINI = stack("mini")  # beats of an access, as those of TINY
UNIT, BEATS = 4, 4


class Ports:
    """The controller with its DRAM and its users, joined as in a base die, without the relay."""

    def __init__(self) -> None:
        self.port, self.share = LocalPort(TINY, MINI), ControllerShare(MINI)
        self.writeback = Writeback(TINY, MINI, unit_pages=UNIT, pages=8)
        self.sender, self.link = WriteSender(TINY, staged=True), LinkBArbiter(TINY)

    def module(self) -> Module:
        m = Module()
        port, share, link = self.port, self.share, self.link
        writeback, sender = self.writeback, self.sender
        m.submodules.controller = controller = HbmController(MINI)
        m.submodules += [port, share, writeback, sender, link]
        for channel, dram in enumerate(controller.dram):
            model = DramModel(MINI, kept_rows=16)
            m.submodules[f"dram{channel}"] = model
            wiring.connect(m, dram, model.dram)
            m.d.comb += model.channel.eq(channel)
        wiring.connect(m, port.read, share.read)
        wiring.connect(m, port.write, share.write)
        wiring.connect(m, writeback.page_request, share.page)
        wiring.connect(m, share.request, controller.request)
        wiring.connect(m, port.write_data, controller.write_data)
        wiring.connect(m, controller.beats, share.beats)
        wiring.connect(m, controller.done, port.done)
        wiring.connect(m, share.local_beats, port.beats)
        wiring.connect(m, share.page_beats, writeback.page_beats)
        wiring.connect(m, port.o, link.local)
        join_sender(m, writeback, sender)
        m.d.comb += link.rate.eq(RATE_ONE)
        return m


class Users:
    """GPU at links' ends and HBF base die, as fast as credits allow."""

    def __init__(self, ctx, ports: Ports) -> None:
        self.ctx, self.ports = Quiet(ctx), ports
        self.requests, self.data = deque(), deque()
        self.credits = {"request": TINY.credits.descriptors, "data": TINY.credits.rx_beats}
        self.beats: dict[int, list[int]] = {}  # by tag, what came
        self.ended: list[tuple[int, int, int]] = []  # operation, tag, status
        self.replies: deque[dict[str, int]] = deque()
        self.reply_credits = TINY.credits.descriptors
        self.writes: dict[int, int] = {}  # pages to come, by slot
        self.written: dict[tuple[int, int], int] = {}  # page and beat: what came
        self.released: list[int] = []
        self.clocks = 0

    def ask(self, operation: Operation, tag: int, address: int, contents: list[int]) -> None:
        self.requests.append(
            {"operation": operation, "address": address, "length": len(contents), "tag": tag}
        )
        if operation == Operation.WRITE:
            self.data.extend(contents)

    async def clock(self) -> None:
        ctx, port, sender = self.ctx, self.ports.port, self.ports.sender
        for name, queue, of in (
            ("request", self.requests, port.b_local),
            ("data", self.data, port.b_local_data),
        ):
            sends = bool(queue and self.credits[name])
            ctx.set(of.valid, sends)
            if sends:
                self.credits[name] -= 1
                what = queue.popleft()
                if name == "request":
                    ctx.set(of.header, what)
                else:
                    set_lanes(ctx, of, what)
        ctx.set(port.completion.ready, 1)
        ctx.set(self.ports.writeback.released.ready, 1)
        b = self.ports.link.b_data
        ctx.set(b.credit, ctx.get(b.valid))
        if ctx.get(b.valid):
            header = ctx.get(b.header)
            assert header.page << 2 | header.beat == len(self.beats.setdefault(header.tag, []))
            self.beats[header.tag].append(get_lanes(ctx, b))
        self._link_c(sender)
        if ctx.get(port.completion.valid):
            header = ctx.get(port.completion.payload)
            self.ended.append((header.operation, header.tag, header.status))
        if ctx.get(self.ports.writeback.released.valid):
            self.released.append(ctx.get(self.ports.writeback.released.payload.tag))
        self.credits["request"] += ctx.get(port.b_local.credit)
        self.credits["data"] += ctx.get(port.b_local_data.credit)
        await ctx.tick()
        self.clocks += 1

    def _link_c(self, sender: WriteSender) -> None:
        ctx, page_units = self.ctx, TINY.geometry.page_bytes // 64
        ctx.set(sender.request.credit, ctx.get(sender.request.valid))
        if ctx.get(sender.request.valid):
            header = ctx.get(sender.request.header)
            pages = header.length // page_units
            self.writes[header.tag] = pages
            self.replies.extend(
                {"message_class": MessageClass.GRANT, "tag": header.tag, "page": page}
                for page in reversed(range(pages))
            )
        ctx.set(sender.data.credit, ctx.get(sender.data.valid))
        if ctx.get(sender.data.valid):
            header = ctx.get(sender.data.header)
            self.written[header.page, header.beat] = get_lanes(ctx, sender.data)
            self.writes[header.tag] -= header.page_end
            if not self.writes[header.tag]:
                end = {"message_class": MessageClass.COMPLETION, "tag": header.tag}
                self.replies.append({**end, "operation": Operation.WRITE, "chunk_end": 1})
                del self.writes[header.tag]
        sends = bool(self.replies and self.reply_credits)
        ctx.set(sender.reply.valid, sends)
        if sends:
            self.reply_credits -= 1
            ctx.set(sender.reply.header, self.replies.popleft())
        self.reply_credits += ctx.get(sender.reply.credit)


def test_what_the_gpu_wrote_is_read_and_goes_to_the_hbf():
    """64 accesses are written, read, then moved while the GPU reads them and writes others."""
    ports = Ports()
    source, size = 128, 64
    contents = [1000 + k for k in range(size)]

    async def bench(ctx):
        users = Users(ctx, ports)
        for k in range(4):
            users.ask(Operation.WRITE, k, source + 16 * k, contents[16 * k : 16 * (k + 1)])
        while len(users.ended) < 4:
            await users.clock()
        assert sorted(users.ended) == [(Operation.WRITE, k, Status.OK) for k in range(4)]
        for k in range(4):
            users.ask(Operation.READ, k, source + 16 * k + k, [0] * (16 - k))
        while sum(map(len, users.beats.values())) < 64 - 6:
            await users.clock()
        assert users.beats == {k: contents[16 * k + k : 16 * (k + 1)] for k in range(4)}

        users.beats.clear()
        command = {"source": source, "first": 0, "pages": size // BEATS, "tag": 5, "owner": 2}
        users.ctx.set(ports.writeback.command.payload, command)
        users.ctx.set(ports.writeback.command.valid, 1)
        await users.clock()
        users.ctx.set(ports.writeback.command.valid, 0)
        users.ask(Operation.READ, 8, source, [0] * size)
        users.ask(Operation.WRITE, 9, source + size, [5] * 20)
        while not users.released or len(users.beats.get(8, [])) < size or len(users.ended) < 5:
            await users.clock()
        assert users.released == [5] and users.beats[8] == contents
        assert [users.written[k // BEATS, k % BEATS] for k in range(size)] == contents
        for _ in range(5):
            await users.clock()
        assert users.ctx.get(ports.port.reset.settled)
        assert users.ctx.get(ports.writeback.reset.settled)

    simulate(ports.module(), bench, clocks=3000)
