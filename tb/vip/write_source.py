"""The memory that writes take their data from: content of the address, in the version asked for."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.ucie.write_sender import fetch_layout
from tb.vip.content import BeatContent

INDEX_BITS = 6  # of a tag: writes that are under way together differ in them


def write_tag(index: int, version: int) -> int:
    """Tag of a write whose pages are written in ``version``, 1 to 63."""
    if not 1 <= version < 1 << 12 - INDEX_BITS:
        raise ValueError(
            f"version of a write must be 1 to {(1 << 12 - INDEX_BITS) - 1}, not {version!r}"
        )
    return version << INDEX_BITS | index % (1 << INDEX_BITS)


class WriteSource(wiring.Component):
    """Answers the fetches of one :class:`hw.ucie.write_sender.WriteSender`.

    Contract: ``lanes`` carry, one clock after ``fetch``, the content of the page of the write that
    was begun with the tag, in the version that :func:`write_tag` put there.

    Members
    -------
    begin : In: a write is accepted, with its first page and tag
    fetch : In; lanes : Out(64) array
    """

    def __init__(self, machine: Machine, *, stack: int) -> None:
        self._machine, self._stack = machine, stack
        begin = data.StructLayout(
            {
                "valid": 1,
                "tag": 12,
                "first": range(machine.geometry.stack_pages),
            }
        )
        super().__init__(
            {
                "begin": In(begin),
                "fetch": In(fetch_layout()),
                "lanes": Out(64).array(machine.lanes),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        machine = self._machine
        pages = range(machine.geometry.stack_pages)
        m.submodules.writes = writes = Memory(shape=pages, depth=1 << INDEX_BITS, init=[])
        write, read = writes.write_port(), writes.read_port(domain="comb")
        m.submodules.content = content = BeatContent(stack=self._stack, lanes=machine.lanes)
        page = Signal(range(machine.geometry.stack_pages))
        m.d.comb += [
            write.en.eq(self.begin.valid),
            write.addr.eq(self.begin.tag[:INDEX_BITS]),
            write.data.eq(self.begin.first),
            read.addr.eq(self.fetch.tag[:INDEX_BITS]),
            page.eq(read.data + self.fetch.page),
            *(lane.eq(own) for lane, own in zip(self.lanes, content.lanes, strict=True)),
        ]
        with m.If(self.fetch.valid):
            m.d.sync += [
                content.beat.eq((page << 2) | self.fetch.beat),
                content.version.eq(self.fetch.tag[INDEX_BITS:]),
            ]
        return m
