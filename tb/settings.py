"""Modes of the base dies and faults of their surroundings, for one run."""

from dataclasses import dataclass

from hw.errors import InputError
from hw.hbm.relay import most_early_pages, safe_early_pages
from hw.params import Machine
from hw.presets import PRESETS
from hw.registers.hbf import hbf_resets
from hw.sram.secded import CHECK_BITS, DATA_BITS

DICE = 256  # sides; a fault strikes so many of them
SLICE_BELOW_US = 8000
WORD_BITS = DATA_BITS + CHECK_BITS


@dataclass(frozen=True, kw_only=True)
class Modes:
    """How the die schedules, beside what the machine says.

    Attributes:
        drain_whole_region: Pages leave only when their region has filled.
        hold_until_programmed: Written pages keep their slot until their program has ended.
        suspend: Programs and erases are suspended for reads that wait.
        suspend_slice_us: Least time between suspends; ``None`` for that of a suspend.
        collect: Dead blocks are erased in the background.
    """

    drain_whole_region: bool = False
    hold_until_programmed: bool = False
    suspend: bool = False
    suspend_slice_us: float | None = None
    collect: bool = True

    def __post_init__(self) -> None:
        if self.suspend_slice_us is not None and not 0 < self.suspend_slice_us < SLICE_BELOW_US:
            raise InputError(
                f"suspend_slice_us is {self.suspend_slice_us!r}: must be more than 0 and under "
                f"{SLICE_BELOW_US}"
            )

    def registers(self, machine: Machine) -> dict[str, int]:
        """Fields of the register map."""
        values = {
            "drain_whole_region": int(self.drain_whole_region),
            "hold_until_programmed": int(self.hold_until_programmed),
            "suspend_enable": int(self.suspend),
            "collect_enable": int(self.collect),
        }
        # Of a machine with another suspend time than the one that was built.
        slices = [hbf_resets(m)["suspend_slice"] for m in (machine, PRESETS[machine.name])]
        if slices[0] != slices[1]:
            values["suspend_slice"] = slices[0]
        if self.suspend_slice_us is not None:
            values["suspend_slice"] = max(1, round(self.suspend_slice_us * machine.clock_hz / 1e6))
        return values


@dataclass(frozen=True, kw_only=True)
class RelayModes:
    """How the relay buffers of the HBM base dies forward.

    Attributes:
        cut_through: A page leaves as soon as it is whole, not with its chunk.
        early_pages: A region is given back while at most so many of its pages are left; 0 for
            when its last beat has been read.
    """

    cut_through: bool = False
    early_pages: int = 0

    def check(self, machine: Machine) -> None:
        """Refuse what the machine cannot do.

        Raises:
            InputError: ``early_pages`` is more than link B has credits for, or would never count.
        """
        most = most_early_pages(machine)
        if not 0 <= self.early_pages <= most:
            raise InputError(
                f"relay.early_pages is {self.early_pages!r}: must be 0 to {most}, for which link B "
                "has credits"
            )
        if self.early_pages and not safe_early_pages(machine):
            raise InputError(
                f"relay.early_pages is {self.early_pages!r}: must be 0, as chunks of "
                f"{machine.relay_chunk_pages} pages are too short at "
                f"{float(machine.link_beats_per_clock):.4g} beats a clock"
            )

    def inputs(self) -> dict[str, int]:
        """Inputs of the package, of a topology with link C."""
        return {
            "relay_cut_through": int(self.cut_through),
            "relay_early_pages": self.early_pages,
        }


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong.

    Attributes:
        programs: Of 256 programs, how many fail on average.
        erases: Of 256 erases, how many fail on average.
        program_at: Number of the one program that fails, counted from 1; 0 for none.
        ecc_beats: Of the beats stored first, how many get a wrong bit.
        ecc_word: Word of those beats.
        ecc_bits: The one or two bits of the word, 0 to 71, that are flipped.
    """

    programs: int = 0
    erases: int = 0
    program_at: int = 0
    ecc_beats: int = 0
    ecc_word: int = 0
    ecc_bits: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        for name in ("programs", "erases"):
            value = getattr(self, name)
            if not 0 <= value <= DICE:
                raise InputError(f"faults.{name} is {value!r}: must be 0 to {DICE}")
        for name, below in (("program_at", 2**32), ("ecc_beats", 2**16)):
            value = getattr(self, name)
            if not 0 <= value < below:
                raise InputError(f"faults.{name} is {value!r}: must be 0 to {below - 1}")
        if not 1 <= len(self.ecc_bits) <= 2 or len({*self.ecc_bits}) != len(self.ecc_bits):
            raise InputError(
                f"faults.ecc_bits is {self.ecc_bits!r}: must be one bit or two different ones"
            )
        if not all(0 <= bit < WORD_BITS for bit in self.ecc_bits):
            raise InputError(f"faults.ecc_bits is {self.ecc_bits!r}: must be 0 to {WORD_BITS - 1}")

    def nand(self) -> dict[str, int]:
        """Inputs of the memory system."""
        return {
            "fail_program": self.programs,
            "fail_erase": self.erases,
            "fail_program_at": self.program_at,
        }

    def sram(self) -> dict[str, int]:
        """Fields of the register map; empty if nothing is injected."""
        if not self.ecc_beats:
            return {}
        return {
            "inject_beats": self.ecc_beats,
            "inject_word": self.ecc_word,
            "inject_bit0": self.ecc_bits[0],
            "inject_bit1": self.ecc_bits[-1],
            "inject_double": int(len(self.ecc_bits) == 2),
        }
