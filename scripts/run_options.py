"""Options of ``pagewave simulate`` as parts of a run; what cannot be is refused by its name."""

import dataclasses
import re
from typing import Any

from hw.errors import InputError
from hw.hbf.layouts import MAX_PAGES
from hw.params import Machine, Sensing, ns
from hw.presets import preset
from hw.ucie.transaction import ADDRESS_UNIT_BYTES
from tb.refusals import Refusal
from tb.settings import DICE, SLICE_BELOW_US, WORD_BITS, Faults, Modes, RelayModes
from tb.simulator import Simulator

ICARUS_WAVE_PAGES = 512
DRAINS = ("page", "region")


def chosen_machine(
    name: str,
    times_us: dict[str, float | None],
    times_ns: dict[str, float | None],
    tsv_tbps: float | None,
    link_tbps: float | None,
    sense: str | None,
    cache_read: bool,
) -> Machine:
    modes = {mode.value: mode for mode in Sensing}
    if sense is not None and sense not in modes:
        raise InputError(f"sense {sense!r} is unknown: choose {', '.join(modes)}")
    machine = preset(name).with_registers(
        tsv_tbps=tsv_tbps,
        link_tbps=link_tbps,
        sensing=None if sense is None else modes[sense],
        cache_read=None if cache_read else False,
    )
    for unit, times in (("us", times_us), ("ns", times_ns)):
        for name, time in times.items():
            if time is not None:
                option = f"{name.replace('_', '-')}-{unit} is {time!r}"
                machine = _with_time(machine, name, ns(time) if unit == "us" else time, option)
    return machine


def _with_time(machine: Machine, name: str, time_ns: float, option: str) -> Machine:
    try:
        times: dict[str, Any] = {f"{name}_ns": time_ns}
        nand = dataclasses.replace(machine.nand, **times)
        return dataclasses.replace(machine, nand=nand)
    except InputError as error:
        raise InputError(f"{option}: {str(error).rpartition(': ')[2]}") from None


def chosen_planes(name: str, text: str | None, machine: Machine) -> range:
    """A range of planes, all of them by default."""
    planes = machine.geometry.planes
    if text is None:
        return range(planes)
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if found is None or not int(found[1]) < int(found[2]) <= planes:
        raise InputError(f"{name} is {text!r}: must be FIRST:END within 0:{planes}")
    return range(int(found[1]), int(found[2]))


def whole_pages(read_bytes: int, machine: Machine) -> int:
    """Whole pages of a read; zero if it is smaller, or its size is left open."""
    page = machine.geometry.page_bytes
    if read_bytes < 0 or read_bytes % (page if read_bytes >= page else ADDRESS_UNIT_BYTES):
        raise InputError(
            f"read-bytes is {read_bytes!r}: must be a multiple of {ADDRESS_UNIT_BYTES} below a "
            f"page, or whole pages of {page}"
        )
    if read_bytes > MAX_PAGES * page:
        raise InputError(
            f"read-bytes is {read_bytes!r}: must be at most {MAX_PAGES * page}, {MAX_PAGES} pages"
        )
    return read_bytes // page


def chosen_stalls(
    route: str, stall: int, stall_direct: int | None, stall_relay: int | None
) -> tuple[int, int]:
    """Of both paths; those of a path that no read takes are refused."""
    for name, value, without in (
        ("direct", stall_direct, "relay"),
        ("relay", stall_relay, "direct"),
    ):
        if value is not None and route == without:
            raise InputError(
                f"stall-{name} is {value!r}: no read takes that path with --route {route}"
            )
    return (
        stall if stall_direct is None else stall_direct,
        stall if stall_relay is None else stall_relay,
    )


def chosen_relay(
    route: str, machine: Machine, *, cut_through: bool, early_grant: int | None, ecc: bool
) -> RelayModes:
    """Of the relay buffers; refused where no read takes them, or where they would do nothing."""
    for name, value in (
        ("relay-cut-through", cut_through),
        ("early-grant", early_grant),
        ("relay-ecc", ecc),
    ):
        if value not in (False, None) and route == "direct":
            raise InputError(
                f"{name} is {value!r}: no read takes the relay path with --route {route}"
            )
    if early_grant is None:
        return RelayModes(cut_through=cut_through)
    if early_grant < 1:
        raise InputError(f"early-grant is {early_grant!r}: must be at least 1 page")
    modes = RelayModes(cut_through=cut_through, early_pages=early_grant)
    try:
        modes.check(machine)
    except InputError as error:
        raise InputError(f"early-grant{str(error).removeprefix('relay.early_pages')}") from None
    return modes


def chosen_refusals(names: list[str]) -> tuple[Refusal, ...]:
    known = {refusal.value: refusal for refusal in Refusal}
    for name in names:
        if name not in known:
            raise InputError(f"refuse {name!r} is unknown: choose {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names))


def chosen_blocks(texts: list[str]) -> tuple[tuple[int, int, int], ...]:
    """Die, its subarray and block of that, of each."""
    for text in texts:
        if re.fullmatch(r"\d+:\d+:\d+", text) is None:
            raise InputError(f"block is {text!r}: must be DIE:SUBARRAY:BLOCK, as 0:5:1")
    numbers = [text.split(":") for text in texts]
    return tuple((int(die), int(subarray), int(block)) for die, subarray, block in numbers)


def chosen_modes(drain: str, *, suspend_slice_us: float | None, **modes: bool) -> Modes:
    if drain not in DRAINS:
        raise InputError(f"drain {drain!r} is unknown: choose {', '.join(DRAINS)}")
    if suspend_slice_us is not None and not modes["suspend"]:
        raise InputError(f"suspend-slice-us is {suspend_slice_us!r}: goes with --suspend")
    if suspend_slice_us is not None and not 0 < suspend_slice_us < SLICE_BELOW_US:
        raise InputError(
            f"suspend-slice-us is {suspend_slice_us!r}: must be more than 0 and under "
            f"{SLICE_BELOW_US}"
        )
    return Modes(drain_whole_region=drain == "region", suspend_slice_us=suspend_slice_us, **modes)


def chosen_faults(
    machine: Machine, *, ecc_beats: int, ecc_bits: str | None, ecc_word: int | None, **nand: int
) -> Faults:
    """Of the NAND, and of one word of ``ecc_beats`` beats in the SRAM."""
    ranges = {"programs": DICE, "erases": DICE, "program_at": 2**32 - 1}
    options = {
        f"fail-{name.replace('_', '-')}": (nand[name], most) for name, most in ranges.items()
    }
    for name, (count, most) in (options | {"ecc-beats": (ecc_beats, 2**16 - 1)}).items():
        if not 0 <= count <= most:
            raise InputError(f"{name} is {count!r}: must be 0 to {most}")
    for name, value in (("ecc-bits", ecc_bits), ("ecc-word", ecc_word)):
        if value is not None and not ecc_beats:
            raise InputError(f"{name} is {value!r}: goes with --ecc-beats, which is 0")
    bits = tuple(int(bit) for bit in (ecc_bits or "0").split(",") if re.fullmatch(r"\d+", bit))
    well = re.fullmatch(r"\d+(,\d+)?", ecc_bits or "0") is not None
    if not well or len({*bits}) != len(bits) or max(bits) >= WORD_BITS:
        raise InputError(
            f"ecc-bits is {ecc_bits!r}: must be one number or two different ones, 0 to "
            f"{WORD_BITS - 1}, as 5 or 5,9"
        )
    if ecc_word is not None and not 0 <= ecc_word < machine.lanes:
        raise InputError(
            f"ecc-word is {ecc_word!r}: must be 0 to {machine.lanes - 1}, a word of the beat"
        )
    return Faults(ecc_beats=ecc_beats, ecc_bits=bits, ecc_word=ecc_word or 0, **nand)


def chosen_simulator(name: str, machine: Machine) -> Simulator:
    try:
        simulator = Simulator(name)
    except ValueError:
        raise InputError(f"simulator {name!r} is unknown: choose {', '.join(Simulator)}") from None
    if simulator is Simulator.ICARUS and machine.geometry.wave_pages > ICARUS_WAVE_PAGES:
        raise InputError(
            f"simulator 'icarus' would take minutes for a page wave of preset {machine.name!r}: "
            "use verilator"
        )
    return simulator
