"""Requests of one direction that wait for a pseudo-channel, and which of them goes next."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hw.hbm.dram.description import HbmStack
from hw.hbm.dram.layouts import RowCommand, place_layout, row_layout
from hw.sram.secded import position


class Outcome(enum.Enum, shape=2):
    """What the row buffer was to a request."""

    HIT = 0  # its row was open, or was opened for another
    MISS = 1  # its bank was closed
    CONFLICT = 2  # another row was open and had to be closed for it


class RequestQueue(wiring.Component):
    """Holds accesses and offers three commands: the oldest that finds its row open for the column
    bus, the oldest to ACTIVATE for, the oldest to PRECHARGE for.

    Contract: an access enters while ``ready`` and leaves with ``take`` of its second burst;
    accesses to one row leave in the order in which they came. ``may_column``, ``may_activate`` and
    ``may_precharge`` (a bit a bank) say which commands are possible; all offers are combinational.
    No row is closed that the queue still has requests for, unless the oldest request has been the
    oldest for ``patience`` clocks: then nothing else goes to its bank until it has left, so that
    every request leaves after a bounded time.

    Throughput: one access in, one burst out a clock.

    Members
    -------
    insert, place, tag, ready : In, In, In, Out: an access enters
    entry : Out: number that it gets
    row_open, open_row : In: the state of its bank
    row : In: the row command of this clock, whoever it is for
    probe, match : In, Out: whether an access to the same 64 bytes waits
    level : Out
    wanted : Out: banks with requests
    column, take : Out, In: a burst and whether it goes; ``outcome`` with the first of an access
    column_entry : Out: number of its access
    activate, activated, precharge, precharged : Out, In: likewise for row commands
    starving : Out: the oldest goes before all others
    """

    def __init__(self, stack: HbmStack, *, depth: int, tag_bits: int, patience: int) -> None:
        self._stack, self._depth, self._patience = stack, depth, patience
        place = place_layout(stack)
        self._item = data.StructLayout({"place": place, "tag": tag_bits})
        o = stack.organization
        offer = {"valid": 1, "place": place, "tag": tag_bits}
        super().__init__(
            {
                "insert": In(1),
                "place": In(place),
                "tag": In(tag_bits),
                "ready": Out(1),
                "entry": Out(range(depth)),
                "row_open": In(1),
                "open_row": In(range(o.rows)),
                "row": In(row_layout(stack)),
                "probe": In(place),
                "match": Out(1),
                "level": Out(range(depth + 1)),
                "wanted": Out(o.bank_count),
                "may_column": In(o.bank_count),
                "may_activate": In(o.bank_count),
                "may_precharge": In(o.bank_count),
                "column": Out(data.StructLayout({**offer, "half": 1, "outcome": Outcome})),
                "column_entry": Out(range(depth)),
                "take": In(1),
                "activate": Out(data.StructLayout(offer)),
                "activated": In(1),
                "precharge": Out(data.StructLayout(offer)),
                "precharged": In(1),
                "starving": Out(1),
            }
        )

    @property
    def depth(self) -> int:
        return self._depth

    def elaborate(self, platform) -> Module:
        m = Module()
        depth, banks = self._depth, self._stack.organization.bank_count
        places = [Signal(self.place.shape(), name=f"place{e}") for e in range(depth)]
        outcomes = [Signal(Outcome, name=f"outcome{e}") for e in range(depth)]
        older = [Signal(depth, name=f"older{e}") for e in range(depth)]  # entries before it
        valid, hit, half = Signal(depth), Signal(depth), Signal(depth)
        m.submodules.items = items = Memory(shape=self._item, depth=depth, init=[])

        # Enter ------------------------------------------------------------------------------------
        free, write = Signal(depth), items.write_port()
        opens, closes = Signal(), Signal()  # the bank of the access that enters
        here = self.row.valid & (self.row.bank == self.place.bank)
        m.d.comb += [
            self.ready.eq(~valid.all()),
            free.eq(~valid & (valid + 1)),
            self.entry.eq(position(free)),
            write.en.eq(self.insert),
            write.addr.eq(self.entry),
            write.data.place.eq(self.place),
            write.data.tag.eq(self.tag),
            opens.eq(here & (self.row.command == RowCommand.ACTIVATE)),
            closes.eq(here & (self.row.command == RowCommand.PRECHARGE)),
        ]
        leaves = Signal(depth)
        enters = Mux(self.insert, free, 0)
        m.d.sync += valid.eq((valid & ~leaves) | enters)
        m.d.sync += self.level.eq(self.level + self.insert - leaves.any())

        # Each entry -------------------------------------------------------------------------------
        row_hits, wanted = 0, 0
        hits_now = Signal(depth)
        same_place = Signal(depth)
        can_column, can_activate, can_precharge = Signal(depth), Signal(depth), Signal(depth)
        open_hits = Signal(banks)  # banks whose open row is wanted
        oldest, only = Signal(depth), Signal(depth)
        for e, place in enumerate(places):
            with m.If(self.insert & free[e]):
                m.d.sync += [
                    place.eq(self.place),
                    half[e].eq(0),
                    outcomes[e].eq(Outcome.HIT),
                    older[e].eq(valid & ~leaves),
                    hit[e].eq(
                        Mux(
                            opens,
                            self.row.row == self.place.row,
                            self.row_open & ~closes & (self.open_row == self.place.row),
                        )
                    ),
                ]
            with m.Else():
                with m.If(self.insert):  # what had this number before is gone
                    m.d.sync += older[e].eq(older[e] & ~free)
                with m.If(self.row.valid & (self.row.bank == place.bank)):
                    activates = self.row.command == RowCommand.ACTIVATE
                    m.d.sync += hit[e].eq(activates & (self.row.row == place.row))
            m.d.comb += [
                same_place[e].eq(valid[e] & (place == self.probe)),
                hits_now[e].eq(valid[e] & hit[e]),
                oldest[e].eq(valid[e] & ~(valid & older[e]).any()),
                can_column[e].eq(hits_now[e] & self.may_column.bit_select(place.bank, 1) & only[e]),
                can_activate[e].eq(
                    valid[e] & ~hit[e] & self.may_activate.bit_select(place.bank, 1)
                ),
                can_precharge[e].eq(
                    valid[e]
                    & ~hit[e]
                    & self.may_precharge.bit_select(place.bank, 1)
                    & (~open_hits.bit_select(place.bank, 1) | (self.starving & oldest[e]))
                ),
            ]
            row_hits = row_hits | (hits_now[e] << place.bank)
            wanted = wanted | (valid[e] << place.bank)
        m.d.comb += [
            self.match.eq(same_place.any()),
            open_hits.eq(row_hits),
            self.wanted.eq(wanted),
        ]

        # The oldest of each kind ------------------------------------------------------------------
        chosen = {}
        for name, able in (
            ("column", can_column), ("activate", can_activate), ("precharge", can_precharge),
        ):  # fmt: skip
            lines, offer = Signal(depth, name=f"{name}_lines"), getattr(self, name)
            read = items.read_port(domain="comb")
            m.d.comb += [
                lines.eq(Cat(able[e] & ~(able & older[e]).any() for e in range(depth))),
                read.addr.eq(position(lines)),
                offer.valid.eq(able.any()),
                offer.place.eq(read.data.place),
                offer.tag.eq(read.data.tag),
            ]
            if name == "column":
                m.d.comb += self.column_entry.eq(read.addr)
            chosen[name] = lines
        m.d.comb += [
            self.column.half.eq((half & chosen["column"]).any()),
            leaves.eq(Mux(self.take, chosen["column"] & half, 0)),
        ]
        for e, outcome in enumerate(outcomes):
            with m.If(chosen["column"][e]):
                m.d.comb += self.column.outcome.eq(outcome)
                with m.If(self.take):
                    m.d.sync += half[e].eq(1)
            with m.If(self.activated & chosen["activate"][e] & (outcome == Outcome.HIT)):
                m.d.sync += outcome.eq(Outcome.MISS)
            with m.If(self.precharged & chosen["precharge"][e]):
                m.d.sync += outcome.eq(Outcome.CONFLICT)

        # Patience with overtaking -----------------------------------------------------------------
        patience = Signal(range(self._patience + 1))
        its_bank = Signal(self.place.bank.shape())
        m.d.comb += self.starving.eq(patience == self._patience)
        with m.If((leaves & oldest).any() | ~valid.any()):
            m.d.sync += patience.eq(0)
        with m.Elif(~self.starving):
            m.d.sync += patience.eq(patience + 1)
        for e, place in enumerate(places):
            with m.If(oldest[e]):
                m.d.comb += its_bank.eq(place.bank)
            m.d.comb += only[e].eq(~self.starving | oldest[e] | (place.bank != its_bank))
        return m
