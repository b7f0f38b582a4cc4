"""One NAND die: its registers, and the judge of what is done to them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.hbf.layouts import Command, CommandPort
from hw.hbf.page_walk import log2
from hw.params import NAND_TIME_BITS, Machine
from hw.sram.regions import GROUPS
from tb.vip.content import VERSION_BITS, Form
from tb.vip.nand_array import CONTENT, NandArray
from tb.vip.nand_rules import NandRule
from tb.vip.nand_work import LONG_AGO, STAMP_BITS, NandWork, age, per_subarray

LAST = GROUPS - 1  # beat of a page
COMMANDS = (
    Command.SENSE,
    Command.LATCH,
    Command.LOAD,
    Command.PROGRAM,
    Command.ERASE,
    Command.SUSPEND,
    Command.RESUME,
    Command.STATUS,
)


class NandDie(wiring.Component):
    """Registers, array and judge of one NAND die.

    Every subarray has a data register, which SENSE fills, and a cache register. That is filled by
    LATCH and emptied by read-outs, or opened by LOAD, filled by write-ins and emptied by PROGRAM.
    The last read-out of a page makes room for a command of the same clock. Write-ins and commands
    of one clock do not see each other.

    Each rule of :class:`tb.vip.nand_rules.NandRule` that is broken sets its bit of
    ``violation_kind`` for good, and ``violation`` pulses: one clock later, or two for the order of
    pages within a block. After a violation contents mean nothing.

    Members
    -------
    clock : clocks since reset, for stamps
    t_read .. t_plane_busy, cache_read : registers as in :class:`hw.hbf.layouts.Registers`
    read, read_subarray, read_beat, read_last : a read-out; read_twice : another in the same clock
    row, content : of the page that is read out, in the same clock
    write, write_subarray, write_beat : a write-in
    write_version, write_wrong : what it carries, and whether that is not the content of its address
    write_row : the row that LOAD named, in the same clock
    fail : In(1): a program or erase that begins in this clock will fail
    data_error : Out(1): pulses with ``write_wrong`` or a second version within a page
    overflow : Out(1): pulses as in :class:`tb.vip.nand_array.NandArray`
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        g = machine.geometry
        super().__init__(
            {
                "command": In(CommandPort(machine)),
                "clock": In(STAMP_BITS),
                **{name: In(bits) for name, bits in NAND_TIME_BITS.items()},
                "cache_read": In(1),
                "read": In(1),
                "read_twice": In(1),
                "read_subarray": In(range(g.subarrays_per_die)),
                "read_beat": In(2),
                "read_last": In(1),
                "row": Out(range(g.rows)),
                "content": Out(CONTENT),
                "write": In(1),
                "write_subarray": In(range(g.subarrays_per_die)),
                "write_beat": In(2),
                "write_version": In(VERSION_BITS),
                "write_wrong": In(1),
                "write_row": Out(range(g.rows)),
                "fail": In(1),
                "violation": Out(1),
                "violation_kind": Out(len(NandRule)),
                "data_error": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        g = self._machine.geometry
        subarrays, row_bits = g.subarrays_per_die, log2(g.rows)
        command, s, clock = self.command, self.command.subarray, self.clock
        r, w = self.read_subarray, self.write_subarray
        sense, latch, load, program, erase, suspend, resume, status = (
            command.valid & (command.command == kind) for kind in COMMANDS
        )

        m.submodules.work = work = NandWork(self._machine)
        m.submodules.array = array = NandArray(self._machine)
        for part in (work, array):
            m.d.comb += [
                part.valid.eq(command.valid),
                part.command.eq(command.command),
                part.subarray.eq(s),
                part.row.eq(command.row),
            ]
        m.d.comb += [
            work.clock.eq(clock),
            *(getattr(work, name).eq(getattr(self, name)) for name in work.TIMES),
            array.unsettled.eq(work.unsettled),
            array.fail.eq(self.fail),
            self.overflow.eq(array.overflow),
        ]

        # What is in the registers. Commands, read-outs and write-ins each write a memory of their
        # own, since a vector of all subarrays costs much more to simulate. The cache register holds
        # a page to read while ``latched`` and ``emptied`` differ; whoever reads or writes a beat
        # notes of which LATCH or LOAD the page is.
        state = data.StructLayout(
            {"sensed": 1, "loading": 1, "failed": 1, "latched": 1, "loaded": 1}
        )
        out = data.StructLayout({"emptied": 1, "latched": 1, "beat": 2})
        got = data.StructLayout({"loaded": 1, "beat": 2, "version": VERSION_BITS, "wrong": 1})
        state_write, state_read = per_subarray(m, "state", state, subarrays)
        out_write, out_read = per_subarray(m, "out", out, subarrays)
        got_write, got_read = per_subarray(m, "got", got, subarrays)
        now, now_r, now_w = state_read(s), state_read(r), state_read(w)
        taken, taken_r = out_read(s), out_read(r)
        to_program, so_far = got_read(s), got_read(w)
        emptied = self.read & self.read_last
        emptied_here = emptied & (r == s)
        begun = taken_r.latched == now_r.latched
        first = so_far.loaded != now_w.loaded
        wrong = self.write_wrong | (~first & (so_far.version != self.write_version))
        # A LATCH makes the two differ, whatever the last read-out of the page before does.
        differ = Mux(emptied_here, ~now.latched, ~taken.emptied)
        ends = program | erase

        # Whose page it is, since when, and what it holds.
        held = data.StructLayout({"row": row_bits, "since": STAMP_BITS})
        sensed_write, sensed_read = per_subarray(m, "sensed", held, subarrays)
        cached_write, cached_read = per_subarray(m, "cached", held, subarrays)
        array_write, array_read = per_subarray(m, "from_array", CONTENT, subarrays)
        content_write, content_read = per_subarray(m, "content", CONTENT, subarrays)
        plane_write, plane_read = per_subarray(m, "plane", STAMP_BITS, g.planes, init=LONG_AGO)
        in_data, in_cache, reading, writing = (
            sensed_read(s), cached_read(s), cached_read(r), cached_read(w)
        )  # fmt: skip
        # What was sensed in the clock before is not in its memory yet.
        just_now = array.content_valid & (array.content_subarray == s)
        plane = s[: log2(g.planes)]
        for port, when, at, values in (
            (
                state_write,
                command.valid,
                s,
                {
                    "sensed": (now.sensed & ~latch) | sense,
                    "loading": (now.loading & ~program) | load,
                    "failed": Mux(ends, self.fail, now.failed),
                    "latched": Mux(latch, differ, now.latched),
                    "loaded": now.loaded ^ load,
                },
            ),
            (
                out_write,
                self.read,
                r,
                {
                    "emptied": Mux(self.read_last, now_r.latched, taken_r.emptied),
                    "latched": now_r.latched,
                    "beat": self.read_beat,
                },
            ),
            (sensed_write, sense, s, {"row": command.row, "since": clock}),
            (
                cached_write,
                latch | load,
                s,
                {"row": Mux(load, command.row, in_data.row), "since": clock},
            ),
            (
                got_write,
                self.write,
                w,
                {
                    "loaded": now_w.loaded,
                    "version": Mux(first, self.write_version, so_far.version),
                    "wrong": wrong | (~first & so_far.wrong),
                    "beat": self.write_beat,
                },
            ),
        ):
            m.d.comb += [port.en.eq(when), port.addr.eq(at)]
            m.d.comb += [getattr(port.data, name).eq(value) for name, value in values.items()]
        m.d.comb += [
            array_write.en.eq(array.content_valid),
            array_write.addr.eq(array.content_subarray),
            array_write.data.eq(array.content),
            content_write.en.eq(latch),
            content_write.addr.eq(s),
            content_write.data.eq(
                Mux(just_now, array.content.as_value(), array_read(s).as_value())
            ),
            plane_write.en.eq(command.valid & ~status),
            plane_write.addr.eq(plane),
            plane_write.data.eq(clock),
            self.row.eq(reading.row),
            self.content.eq(content_read(r)),
            self.write_row.eq(writing.row),
            array.written.form.eq(Mux(to_program.wrong, Form.GARBAGE, Form.WRITTEN)),
            array.written.version.eq(Mux(to_program.wrong, 0, to_program.version)),
        ]
        m.d.sync += self.data_error.eq(self.write & wrong)
        with m.If(status):
            ready = ~(work.running | work.suspended)
            m.d.sync += [
                command.ready.eq(ready),
                command.fail.eq(ready & now.failed),
            ]

        # The judge.
        bus_subarray, bus_since = Signal.like(r), Signal(STAMP_BITS, init=LONG_AGO)
        with m.If(self.read | self.write):
            m.d.sync += [bus_subarray.eq(Mux(self.write, w, r)), bus_since.eq(clock)]
        bus_busy = age(clock, bus_since) < self.t_ccs
        read_close = self.read & bus_busy & (bus_subarray != r)
        write_close = self.write & (
            (bus_busy & (bus_subarray != w)) | (self.read & (r != w) & (self.t_ccs != 0))
        )
        has_page = now.sensed
        full = ((now.latched ^ taken.emptied) & ~emptied_here) | now.loading
        is_whole = (to_program.loaded == now.loaded) & (to_program.beat == LAST)
        all_in = now.loading & is_whole
        readable = now_r.latched ^ taken_r.emptied
        writable = now_w.loading & (first | (so_far.beat != LAST))
        cache_age_r, cache_age_w = age(clock, reading.since), age(clock, writing.since)
        next_in = Mux(first, 0, so_far.beat + 1)
        running, suspended = work.running, work.suspended
        begins = load | program | erase
        rule = NandRule
        broken = {
            rule.SENSE_OVER_PAGE: sense & has_page,
            rule.SENSE_OVER_CACHE: sense & full & ~self.cache_read,
            rule.LATCH_NOTHING: latch & ~has_page,
            rule.LATCH_EARLY: latch & has_page & (age(clock, in_data.since) < self.t_read),
            rule.LATCH_OVER_PAGE: latch & full,
            rule.READ_NOTHING: self.read & ~readable,
            rule.READ_EARLY: self.read & readable & (cache_age_r < self.t_latch + self.t_rr),
            rule.READ_ORDER: self.read & readable & begun & (self.read_beat != taken_r.beat + 1),
            rule.TWO_BEATS: self.read_twice,
            rule.BEATS_CLOSE: read_close | write_close,
            rule.LOAD_OVER_PAGE: load & (full | has_page),
            rule.WRITE_NOTHING: self.write & ~writable,
            rule.WRITE_EARLY: self.write & writable & (cache_age_w < self.t_adl),
            rule.WRITE_ORDER: self.write & writable & (self.write_beat != next_in),
            rule.PROGRAM_INCOMPLETE: program & ~all_in,
            rule.PROGRAM_ROW: program & all_in & (command.row != in_cache.row),
            rule.PROGRAM_OVER_PAGE: program & has_page,
            rule.PROGRAM_ORDER: array.order,
            rule.PROGRAM_NOT_ERASED: array.not_erased,
            rule.ERASE_OVER_PAGE: erase & (full | has_page),
            rule.BUSY: running & (sense | latch | begins),
            rule.SUSPENDED: suspended & begins,
            rule.STATUS_EARLY: status & work.status_early,
            rule.SUSPEND_NOTHING: suspend & ~(work.unanswered & ~work.stopping),
            rule.RESUME_NOTHING: resume & ~suspended,
            rule.RESUME_OVER_PAGE: resume & suspended & has_page,
            rule.PLANE_BUSY: command.valid
            & ~status
            & (age(clock, plane_read(plane)) < self.t_plane_busy),
        }
        kinds = Signal(len(NandRule))
        m.d.comb += kinds.eq(Cat(broken[each] for each in NandRule))
        m.d.sync += [
            self.violation.eq(kinds.any()),
            self.violation_kind.eq(self.violation_kind | kinds),
        ]
        return m
