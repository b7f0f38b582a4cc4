"""What the SECDED of the transfer regions shows to software: error log and error injection."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.params import Machine
from hw.sram.secded import CHECK_BITS, WORD_BITS, report_layout

COUNTER_BITS = 32
INJECT_BITS = 16  # of the number of beats


def place_layout(machine: Machine) -> data.StructLayout:
    """Where a beat is stored."""
    return data.StructLayout(
        {"region": 1, "group": 2, "row": range(machine.geometry.wave_pages)},
    )


def first_error_layout(machine: Machine) -> data.StructLayout:
    """The first error since the log was cleared; ``word`` of the beat at ``place``."""
    return data.StructLayout(
        {
            "valid": 1,
            "uncorrectable": 1,
            "place": place_layout(machine),
            "word": range(machine.lanes),
            "syndrome": CHECK_BITS,
        }
    )


class InjectPort(wiring.Signature):
    """Registers that plant errors in stored beats.

    Members
    -------
    arm : a pulse loads ``beats``; zero disarms
    beats : how many of the next beats that are written get the error
    word : of the beat
    first, second : bit of the word, check bits from 64 on; not to change while ``armed``
    double : both bits are flipped, not only ``first``
    armed : beats with the error are still to come or on their way
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            {
                "arm": Out(1),
                "beats": Out(INJECT_BITS),
                "word": Out(range(machine.lanes)),
                "first": Out(range(WORD_BITS)),
                "second": Out(range(WORD_BITS)),
                "double": Out(1),
                "armed": In(1),
            }
        )


class LogPort(wiring.Signature):
    """Registers of an error log.

    Members
    -------
    clear : empties the log; errors of the same clock are kept
    corrected, uncorrectable : words since then; the counters stay at their largest value
    first : the first error since then
    """

    def __init__(self, machine: Machine, *, counter_bits: int = COUNTER_BITS) -> None:
        super().__init__(
            {
                "clear": Out(1),
                "corrected": In(counter_bits),
                "uncorrectable": In(counter_bits),
                "first": In(first_error_layout(machine)),
            }
        )


class EccPort(wiring.Signature):
    """Error injection and error log of one set of transfer regions."""

    def __init__(self, machine: Machine) -> None:
        super().__init__({"inject": Out(InjectPort(machine)), "log": Out(LogPort(machine))})


class EccLog(wiring.Component):
    """Error log of several decoders.

    Contract: every word reported counts, one clock after its report, up to the end of the counter.
    Of several beats reported in one clock the first source is the first error.
    """

    def __init__(self, machine: Machine, *, sources: int, counter_bits: int = COUNTER_BITS) -> None:
        self._machine, self._sources, self._counter_bits = machine, sources, counter_bits
        report = report_layout(lanes=machine.lanes, place=place_layout(machine))
        super().__init__(
            {
                "report": In(report).array(sources),
                "port": In(LogPort(machine, counter_bits=counter_bits)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        log, largest = self.port, (1 << self._counter_bits) - 1
        for name in ("corrected", "uncorrectable"):
            counter = getattr(log, name)
            words = sum(
                Mux(self.report[k].valid, getattr(self.report[k], name), 0)
                for k in range(self._sources)
            )
            total = Signal(max(self._counter_bits, 16) + 1, name=f"{name}_total")
            m.d.comb += total.eq(Mux(log.clear, 0, counter) + words)
            m.d.sync += counter.eq(Mux(total > largest, largest, total))
        with m.If(log.clear):
            m.d.sync += log.first.valid.eq(0)
        for k in reversed(range(self._sources)):
            report = self.report[k]
            with m.If(report.valid & (log.clear | ~log.first.valid)):
                m.d.sync += [
                    log.first.valid.eq(1),
                    log.first.uncorrectable.eq(report.uncorrectable != 0),
                    log.first.place.eq(report.place),
                    log.first.word.eq(report.word),
                    log.first.syndrome.eq(report.syndrome),
                ]
        return m


class ErrorInjector(wiring.Component):
    """Chooses which beats get a planted error.

    Contract: after ``arm`` the next ``beats`` beats with ``written`` are marked ``hit`` in the same
    clock, of several in one clock the lowest line first.
    """

    def __init__(self, machine: Machine, *, writers: int) -> None:
        self._writers = writers
        super().__init__(
            {
                "port": In(InjectPort(machine)),
                "written": In(writers),
                "hit": Out(writers),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        left = Signal(INJECT_BITS)
        before = 0
        for k in range(self._writers):
            m.d.comb += self.hit[k].eq(self.written[k] & (left > before))
            before = before + self.written[k]
        planting = Signal()  # the pipe looks at the registers one clock after the hit
        m.d.sync += planting.eq(self.hit.any())
        m.d.comb += self.port.armed.eq((left != 0) | planting)
        with m.If(self.port.arm):
            m.d.sync += left.eq(self.port.beats)
        with m.Elif(left >= before):
            m.d.sync += left.eq(left - before)
        with m.Else():
            m.d.sync += left.eq(0)
        return m
