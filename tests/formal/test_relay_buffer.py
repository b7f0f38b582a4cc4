# amaranth: UnusedElaboratable=no
"""The relay buffer, whatever comes under credit: no slot is written before it was read.

Pages of two beats in two bank groups stand for the four of the machine, and rates in quarters for
those in 1/65536: then chunks of twelve pages are the least of which one may be left when the region
is given back. Data and labels are left out; where the beats of a page lie is any place, since the
bound holds for all.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cover, Mux, Signal
from amaranth.lib.wiring import In

from hw.hbm import relay_layouts as layouts
from hw.hbm.relay_chunks import RelayChunks
from hw.hbm.relay_control import RelayControl
from hw.hbm.relay_reader import PageReader
from hw.hbm.relay_receive import RelayReceiver
from hw.ucie.pacer import FramePacer
from tests.formal.harness import Counterexample, Properties, anything, before, constant, prove
from tests.formal.variants import variant

GROUPS, RATE_BITS, ONE = 2, 2, 4
PAGES, CREDITS = 12, 4  # a chunk, beats of link B
PAGE_CLOCKS = 2 * GROUPS  # the longest that a page is read
SPACING = PAGE_CLOCKS  # of beginnings of pages, at the full rate
LONGEST = 6  # clocks without a beat, while both regions are full


# Ports that show the pages in the reader.
SEEN = (
    (
        """                "regions": Out(2),
""",
        """                "regions": Out(2),
                "now": Out(page_layout(pages)),
                "waiting": Out(page_layout(pages)),
""",
    ),
    (
        """            self.ready.eq(~waits),
""",
        """            self.ready.eq(~waits),
            self.now.eq(now.page),
            self.waiting.eq(waiting.page),
""",
    ),
)


def small(
    *edits: tuple[str, str], reader=(), control=(), receiver=(), fill_clocks: int = 0
) -> type:
    """The control with small pages; ``edits`` are of the chunks."""
    place = {
        name: variant(getattr(layouts, name), GROUPS=GROUPS)
        for name in ("place_layout", "span_layout", "write_layout", "read_layout", "page_layout")
    }

    def of(*names: str) -> dict:
        return {name: place[name] for name in names}

    return variant(
        RelayControl,
        *control,
        GROUPS=GROUPS,
        RATE_BITS=RATE_BITS,
        FILL_CLOCKS=fill_clocks,
        **of("span_layout", "write_layout", "read_layout"),
        FramePacer=variant(FramePacer, RATE_BITS=RATE_BITS, RATE_ONE=ONE),
        RelayReceiver=variant(
            RelayReceiver, *receiver, GROUPS=GROUPS, **of("span_layout", "write_layout")
        ),
        RelayChunks=variant(
            RelayChunks, *edits, GROUPS=GROUPS, RATE_BITS=RATE_BITS, **of("page_layout")
        ),
        PageReader=variant(
            PageReader, *SEEN, *reader, GROUPS=GROUPS,
            **of("page_layout", "place_layout", "read_layout", "span_layout"),
        ),
    )  # fmt: skip


# The bank groups are anything that blocks a beat once at most, see `Blocks`.
ONCE = (
    """            reader.blocked.eq(
                write.valid
                & (write.place.region == place.region)
                & (write.place.group == place.group)
            ),
""",
    "",
)


class Traffic(Properties):
    """A sender that uses credits of link C in the clock in which they are given, and link B."""

    def __init__(self, *, control: type, pages: int = PAGES, cuts: bool = False) -> None:
        self._pages, self._cuts = pages, cuts
        self._control = control(pages=pages, credits=CREDITS)
        super().__init__(
            {
                "valid": In(1),
                "late": In(1),  # the chunk closes with a message of its own
                "page_end": In(1),
                "chunk_end": In(1),
                "b_credit": In(1),
                "lost": In(1),
                "cut": In(1),
                "cut_through": In(1),
                "early_pages": In(range(CREDITS // GROUPS + 1)),
            }
        )

    def drive(self, m) -> None:
        """The control under its traffic; ``full`` are regions for which no credit was given."""
        control = self._control
        m.submodules.control = self.parts = control.elaborate("formal")
        parts = self.parts.submodules
        receiver, reader, chunks = parts.receiver, parts.reader, parts.chunks
        self.credits = credits = Signal(range(4), init=2)
        page, position = receiver.write.place.page, receiver.span.last
        may, valid, late, beat = Signal(), Signal(), Signal(), Signal()
        ends, closes, cut, begins, opened = Signal(), Signal(), Signal(), Signal(), Signal()
        self.away = away = Signal(range(CREDITS + 1))  # beats that link B has not given back
        self.full = full = Signal(2)
        anything(m, control.next_span)
        m.d.comb += [
            opened.eq((page != 0) | (position != 0)),
            may.eq(opened | (credits != 0) | control.c_credit),
            cut.eq(self.cut & int(self._cuts)),
            late.eq(self.late & (page != 0) & (position == 0)),
            valid.eq(self.valid & may & ~cut),
            beat.eq(valid & ~late),
            ends.eq(beat & (self.page_end | (position == GROUPS - 1))),
            closes.eq((ends & (self.chunk_end | (page == self._pages - 1))) | (valid & late)),
            begins.eq(beat & ~opened),
            control.rate.eq(ONE),
            control.i.valid.eq(valid),
            control.i.beat.eq(beat),
            control.i.page_end.eq(ends),
            control.i.chunk_end.eq(closes),
            control.cut.eq(cut),
            control.lost.eq(self.lost),
            control.cut_through.eq(self.cut_through),
            control.early_pages.eq(self.early_pages),
            control.b_credit.eq(self.b_credit),
            Assume(~self.b_credit | (away != 0)),
        ]
        sent = control.read.valid & ~control.read.dropped
        m.d.sync += [
            credits.eq(credits + control.c_credit - begins),
            away.eq(away + sent - self.b_credit),
        ]
        for r in range(2):
            with m.If(receiver.closes & (receiver.region == r)):
                m.d.sync += full[r].eq(1)
            with m.Elif(
                (reader.emptied & (reader.region == r))
                | ((chunks.grant | chunks.spent) & (chunks.region == r))
            ):
                m.d.sync += full[r].eq(0)
        next_full = full.bit_select(receiver.region, 1)
        m.d.comb += [
            Assert(credits + control.c_credit + opened + full[0] + full[1] == 2, "regions add up"),
            Assert(~next_full | full.all(), "the region that fills is the older one"),
            Assert(~next_full | ~opened, "no full region is written"),
        ]

    def stalled(self, m):
        """The beat that is next was blocked in the clock before."""
        reader = self.parts.submodules.reader
        return before(m, ((reader.rest != 0) | reader.take) & reader.blocked)

    def race(self, m) -> None:
        """States that the reader stays ahead, which implies that it was when it is needed.

        ``ahead`` are the slots between the one that is begun next and the last one that is left,
        ``rest`` the clocks until that has been read, at most.
        """
        parts = self.parts.submodules
        chunks, reader, receiver = parts.chunks, parts.reader, parts.receiver
        end, region, going = Signal(range(self._pages + 1)), Signal(), Signal()
        anything(m, reader.blocked)
        stalled = self.stalled(m)
        left = Mux(chunks.tail, chunks.left, 0)
        now = Signal(range(2 * GROUPS + 1))
        rest, begun = Signal(range(256)), Signal(range(self._pages + 2))
        of_tail = (reader.rest != 0) & (reader.place.region == region)
        last = reader.place.page == end - 1
        frame = Mux(parts.pacer.tick, 0, GROUPS - 1)
        m.d.comb += [
            now.eq(Mux(reader.rest != 0, 2 * reader.rest - stalled, 0)),
            begun.eq(
                Mux(
                    receiver.region == region,
                    receiver.write.place.page + (receiver.span.last != 0),
                    Mux(region, chunks.whole[1], chunks.whole[0]),
                )
            ),
        ]
        with m.If(~reader.ready & ~(of_tail & last)):
            m.d.comb += rest.eq(now + PAGE_CLOCKS + SPACING * left)
        with m.Elif(left != 0):
            m.d.comb += rest.eq(Mux(now > frame, now, frame) + SPACING * left)
        with m.Else():
            m.d.comb += rest.eq(now)
        with m.If(chunks.grant):
            m.d.sync += [
                going.eq(1),
                end.eq(chunks.page.page + chunks.left),
                region.eq(chunks.region),
            ]
        with m.Elif(reader.read.valid & reader.read.page_end & of_tail & last):
            m.d.sync += going.eq(0)
        with m.Elif(
            reader.take
            & (reader.rest == 0)
            & (left == 1)
            & reader.read.valid
            & reader.read.page_end
        ):
            m.d.sync += going.eq(0)

        def frees(r, page, there):
            return there & page.frees & (page.region == r)

        def last_of(page, there):
            return there & (page.region == region) & (page.page == end - 1)

        def ends_chunk(page):
            return page.frees | (going & ~chunks.tail & last_of(page, 1))

        for r in range(2):
            fills, whole, closed = receiver.region == r, chunks.whole[r], chunks.closed[r]
            m.d.comb += [
                Assert(~closed | self.full[r], "a closed chunk keeps its region"),
                Assert(~closed | (whole != 0), "a chunk has a page"),
                Assert(
                    (self.full[r] & ~closed)
                    == (
                        frees(r, reader.now, reader.rest != 0)
                        | frees(r, reader.waiting, ~reader.ready)
                    ),
                    "what is full and not closed is read",
                ),
                Assert(
                    ~(
                        frees(r, reader.now, reader.rest != 0)
                        & frees(r, reader.waiting, ~reader.ready)
                    ),
                    "one page frees a region",
                ),
                Assert(
                    closed | (whole == Mux(fills, receiver.write.place.page, 0)),
                    "pages of the open chunk",
                ),
                Assert(whole <= self._pages, "pages have slots"),
                Assert(receiver.write.place.page < self._pages, "slots are there"),
            ]
        waits, page, here = ~reader.ready, chunks.page.page, chunks.region
        since = page - 1 - waits  # the page in reading, if it is of this region
        m.d.comb += [
            Assert(~going | (end <= self._pages), "end is a slot"),
            Assert(page + chunks.left <= self._pages, "page is a slot"),
            Assert(~waits | (reader.rest != 0), "waits behind another"),
            Assert(
                (reader.rest == 0)
                | (since < 0)
                | ((reader.place.region == here) & (reader.place.page == since)),
                "pages are read in order",
            ),
            Assert(
                (reader.rest == 0) | (page != waits) | (reader.place.region != here),
                "the other region was before",
            ),
            Assert(
                ~waits
                | Mux(
                    page == 0,
                    reader.waiting.region != here,
                    (reader.waiting.region == here) & (reader.waiting.page == page - 1),
                ),
                "what waits was taken last",
            ),
            Assert(~going | (chunks.pace == ONE), "the pace is known"),
            Assert(
                ~waits
                | Mux(
                    reader.waiting.page == 0,
                    (reader.now.region != reader.waiting.region) & ends_chunk(reader.now),
                    (reader.now.region == reader.waiting.region)
                    & (reader.now.page == reader.waiting.page - 1)
                    & ~ends_chunk(reader.now),
                ),
                "it follows the page in reading",
            ),
            Assert(~waits | (ends_chunk(reader.waiting) == (page == 0)), "it ends its chunk"),
            Assert(
                waits | (reader.rest == 0) | (ends_chunk(reader.now) == (page == 0)),
                "the page in reading ends its chunk",
            ),
            Assert(
                ~going
                | chunks.tail
                | last_of(reader.now, reader.rest != 0)
                | last_of(reader.waiting, waits),
                "a tail that is watched is still to be read",
            ),
            Assert(~going | ~chunks.tail | (page > 2), "far"),
            Assert(~going | (begun + rest + 1 <= end), "the reader stays ahead of the writer"),
            Assert(going | ~chunks.tail, "a tail is watched"),
            Assert(~chunks.tail | (chunks.left != 0), "a tail has pages"),
            Assert(~(going & ~chunks.tail) | (page < 2), "it has gone when others have come"),
            Assert(~chunks.tail | (chunks.region == region), "its region is known"),
            Assert(~chunks.tail | (chunks.page.page + chunks.left == end), "its end is known"),
            Assume(~stalled | ~reader.blocked),
        ]


class Blocks(Traffic):
    """Whoever reads loses at most one clock a beat to the writer."""

    def describe(self, m) -> None:
        self.drive(m)
        stalled = self.stalled(m)
        m.d.comb += Assert(~stalled | ~self.parts.submodules.reader.blocked, "blocked once")


class Race(Traffic):
    """The reader stays ahead."""

    def describe(self, m) -> None:
        self.drive(m)
        self.race(m)


class Slots(Traffic):
    """Of any one slot: it is written when free, read when whole, and freed by its last beat."""

    def describe(self, m) -> None:
        self.drive(m)
        self.race(m)
        control = self._control
        region, page = constant(m, "region", 1), constant(m, "page", range(self._pages))
        whole = Signal()
        write, read = control.write, control.read

        def here(of):
            return of.valid & (of.place.region == region) & (of.place.page == page)

        with m.If(here(read) & read.page_end):
            m.d.sync += whole.eq(0)
        with m.If(here(write) & control.ends):
            m.d.sync += whole.eq(1)
        chunks, reader = self.parts.submodules.chunks, self.parts.submodules.reader
        drains = chunks.region == region

        def reads(entry, there):
            return there & (entry.region == region) & (entry.page == page)

        new = (page < Mux(region, chunks.whole[1], chunks.whole[0])) & ~(
            drains & ~chunks.tail & (page < chunks.page.page)
        )
        tail = drains & chunks.tail & (page >= chunks.page.page)
        tail &= page < chunks.page.page + chunks.left
        reading = reads(reader.now, reader.rest != 0) | reads(reader.waiting, ~reader.ready)
        m.d.comb += [
            Assert(whole == (new | tail | reading), "what is whole is to be read"),
            Assert(~here(write) | ~whole, "no slot is written before its last beat was read"),
            Assert(~here(read) | whole, "what is read is whole"),
            Assert(self.credits + control.c_credit <= 2, "a credit is given once for each chunk"),
        ]


class Progress(Traffic):
    """While both regions are full, a beat is read every few clocks, if link B takes it."""

    def describe(self, m) -> None:
        self.drive(m)
        away, full = self.away, self.full.all()
        waited = Signal(range(LONGEST + 2))
        with m.If(~full | self._control.read.valid):
            m.d.sync += waited.eq(0)
        with m.Else():
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += [
            Assume(self.b_credit == (away != 0)),
            Assert(waited <= LONGEST, "full regions leave"),
            Cover(full & (waited == LONGEST), "the longest wait"),
        ]


class Reached(Traffic):
    """What the proofs are about does come."""

    def describe(self, m) -> None:
        self.drive(m)
        parts = self.parts.submodules
        chunks, reader = parts.chunks, parts.reader
        m.d.comb += [
            Cover(chunks.grant, "a region is given back early"),
            Cover(chunks.spent, "a region is given back of which nothing is left"),
            Cover(chunks.tail & self.full.all(), "and filled again before its tail has left"),
            Cover(reader.blocked & reader.take, "a page begins blocked"),
            Cover(reader.take & (reader.rest != 0), "a page waits"),
        ]


def control(of: type[Traffic], *edits: tuple[str, str], **others) -> type:
    """The control of a proof; bank groups count where the beats that they block do."""
    once = () if of in (Blocks, Reached) else (ONCE,)
    return small(*edits, control=once, fill_clocks=0 if once else 2, **others)


@pytest.mark.formal
@pytest.mark.parametrize("of", [Blocks, Race, Slots, Progress])
def test_no_slot_is_written_before_it_was_read(of: type[Traffic]) -> None:
    prove(of(control=control(of)))


@pytest.mark.formal
def test_early_grants_are_reached() -> None:
    prove(Reached(control=control(Reached)), mode="cover", depth=60)


@pytest.mark.formal
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("                & safe\n", ""),
        ("(2 * GROUPS * (left + 2))", "(GROUPS * (left + 2))"),
        ("                & (self.free >= GROUPS * left)\n", ""),
    ],
    ids=["no bound", "half the bound", "no credits"],
)
def test_early_grants_that_are_not_safe_are_found(old: str, new: str) -> None:
    broken = Slots(control=control(Slots, (old, new)))
    with pytest.raises(Counterexample, match="ahead_of_the_writer"):
        prove(broken, mode="bmc")
