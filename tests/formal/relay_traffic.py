# amaranth: UnusedElaboratable=no
"""The control of the relay buffer at a size for proofs, under a sender that obeys its credits.

Pages of two beats in two bank groups stand for the four of the machine, and rates in quarters for
those in 1/65536: then chunks of twelve pages are the least of which one may be left when the region
is given back. Data and labels are left out; where the beats of a page lie is any place, since the
bound holds for all.
"""

from amaranth.hdl import Assert, Assume, Mux, Signal
from amaranth.lib.wiring import In

from hw.hbm import relay_layouts as layouts
from hw.hbm.relay_chunks import RelayChunks
from hw.hbm.relay_control import RelayControl
from hw.hbm.relay_reader import RelayReader
from hw.hbm.relay_receive import RelayReceiver
from hw.ucie.pacer import FramePacer
from tests.formal.harness import Properties, anything, before
from tests.formal.variants import variant

GROUPS, RATE_BITS, ONE = 2, 2, 4
PAGES, CREDITS = 12, 4  # a chunk, beats of link B
PAGE_CLOCKS = 2 * GROUPS  # the longest that a page is read
SPACING = PAGE_CLOCKS  # of beginnings of pages, at the full rate


# Ports that show the pages in the reader: the one whose beat is next, and the one behind it.
SEEN = (
    (
        """                "regions": Out(2),
""",
        """                "regions": Out(2),
                "first": Out(page_layout(pages)),
                "second": Out(page_layout(pages)),
                "rest": Out(range(GROUPS + 1)),
                "waits": Out(1),
                "owed": Out(range(2 * GROUPS + 1)),
""",
    ),
    (
        """            page.eq(Mux(busy, now, waiting)),
""",
        """            page.eq(Mux(busy, now, waiting)),
            self.first.eq(page.page),
            self.second.eq(waiting.page),
            self.rest.eq(Mux(busy | waits, page.left + 1, 0)),
            self.waits.eq(busy & waits),
            self.owed.eq(
                Mux(page.lost, 0, self.rest)
                + Mux(self.waits & ~waiting.lost, waiting.left + 1, 0)
            ),
""",
    ),
)


def small(*edits: tuple[str, str], reader=(), control=(), receiver=()) -> type:
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
        **of("span_layout", "write_layout", "read_layout"),
        FramePacer=variant(FramePacer, RATE_BITS=RATE_BITS, RATE_ONE=ONE),
        RelayReceiver=variant(
            RelayReceiver, *receiver, GROUPS=GROUPS, **of("span_layout", "write_layout")
        ),
        RelayChunks=variant(
            RelayChunks, *edits, GROUPS=GROUPS, RATE_BITS=RATE_BITS, **of("page_layout")
        ),
        RelayReader=variant(
            RelayReader, *SEEN, *reader, GROUPS=GROUPS,
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

    def __init__(self, *, control: type) -> None:
        self._pages = PAGES
        self._control = control(pages=PAGES, credits=CREDITS)
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
        ends, closes, begins, opened = Signal(), Signal(), Signal(), Signal()
        self.away = away = Signal(range(CREDITS + 1))  # beats that link B has not given back
        self.full = full = Signal(2)
        anything(m, control.next_span)
        m.d.comb += [
            opened.eq((page != 0) | (position != 0)),
            may.eq(opened | (credits != 0) | control.c_credit),
            late.eq(self.late & (page != 0) & (position == 0)),
            valid.eq(self.valid & may & ~self.cut),
            beat.eq(valid & ~late),
            ends.eq(beat & (self.page_end | (position == GROUPS - 1))),
            closes.eq((ends & (self.chunk_end | (page == self._pages - 1))) | (valid & late)),
            begins.eq(beat & ~opened),
            control.rate.eq(ONE),
            control.i.valid.eq(valid),
            control.i.beat.eq(beat),
            control.i.page_end.eq(ends),
            control.i.chunk_end.eq(closes),
            control.cut.eq(self.cut),
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
        oldest = chunks.region ^ chunks.tail  # of the chunk behind what has been given back
        next_full = full.bit_select(receiver.region, 1)
        m.d.comb += [
            Assert(credits + control.c_credit + opened + full[0] + full[1] == 2, "regions add up"),
            Assert(~next_full | full.all(), "the region that fills is the older one"),
            Assert(~next_full | ~opened, "no full region is written"),
            Assert(
                receiver.region == (oldest ^ chunks.closed[0] ^ chunks.closed[1]),
                "regions are filled in turn",
            ),
            Assert(
                chunks.closed.bit_select(oldest, 1) | ~chunks.closed.any(),
                "regions are closed in turn",
            ),
            Assert(parts.credits.count + reader.owed + away == CREDITS, "credits of link B add up"),
            Assert(
                control.reserved == Mux(chunks.tail, GROUPS * chunks.left, 0),
                "what is left of a tail is reserved",
            ),
            Assert(control.reserved <= parts.credits.count, "only credits are reserved"),
            Assert((chunks.pace == 0) | (chunks.pace == ONE), "the pace is a rate"),
        ]

    def stalled(self, m):
        """The beat that is next was blocked in the clock before."""
        reader = self.parts.submodules.reader
        return before(m, (reader.rest != 0) & reader.blocked)

    def block(self, m):
        """The writer blocks any beat, but none twice; ``Blocks`` proves that of the bank groups."""
        blocked = self.parts.submodules.reader.blocked
        anything(m, blocked)
        stalled = self.stalled(m)
        m.d.comb += Assume(~stalled | ~blocked)
        return stalled

    def race(self, m) -> None:
        """States that the reader stays ahead, which implies that it was when it is needed.

        ``ahead`` are the slots between the one that is begun next and the last one that is left,
        ``rest`` the clocks until that has been read, at most.
        """
        parts = self.parts.submodules
        chunks, reader, receiver = parts.chunks, parts.reader, parts.receiver
        end, region, going = Signal(range(self._pages + 1)), Signal(), Signal()
        stalled = self.block(m)
        left = Mux(chunks.tail, chunks.left, 0)
        now = Signal(range(2 * GROUPS + 1))
        rest, begun = Signal(range(256)), Signal(range(self._pages + 2))
        of_tail = (reader.rest != 0) & (reader.place.region == region)
        last = reader.place.page == end - 1
        frame = Mux(parts.pacer.tick, 1, GROUPS)  # until a page that is taken next may begin
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
        with m.If(reader.waits & ~(of_tail & last)):
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
                        frees(r, reader.first, reader.rest != 0)
                        | frees(r, reader.second, reader.waits)
                    ),
                    "what is full and not closed is read",
                ),
                Assert(
                    ~(
                        frees(r, reader.first, reader.rest != 0)
                        & frees(r, reader.second, reader.waits)
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
        waits, page, here = reader.waits, chunks.page.page, chunks.region
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
                    reader.second.region != here,
                    (reader.second.region == here) & (reader.second.page == page - 1),
                ),
                "what waits was taken last",
            ),
            Assert(~going | (chunks.pace == ONE), "the pace is known"),
            Assert(
                ~waits
                | Mux(
                    reader.second.page == 0,
                    (reader.first.region != reader.second.region) & ends_chunk(reader.first),
                    (reader.first.region == reader.second.region)
                    & (reader.first.page == reader.second.page - 1)
                    & ~ends_chunk(reader.first),
                ),
                "it follows the page in reading",
            ),
            Assert(~waits | (ends_chunk(reader.second) == (page == 0)), "it ends its chunk"),
            Assert(
                waits | (reader.rest == 0) | (ends_chunk(reader.first) == (page == 0)),
                "the page in reading ends its chunk",
            ),
            Assert(
                ~going
                | chunks.tail
                | last_of(reader.first, reader.rest != 0)
                | last_of(reader.second, waits),
                "a tail that is watched is still to be read",
            ),
            Assert(~going | ~chunks.tail | (page > 2), "far"),
            Assert(~going | (begun + rest + 1 <= end), "the reader stays ahead of the writer"),
            Assert(going | ~chunks.tail, "a tail is watched"),
            Assert(~chunks.tail | (chunks.left != 0), "a tail has pages"),
            Assert(~(going & ~chunks.tail) | (page < 2), "it has gone when others have come"),
            Assert(~chunks.tail | (chunks.region == region), "its region is known"),
            Assert(~chunks.tail | (chunks.page.page + chunks.left == end), "its end is known"),
        ]
