"""Options of ``pagewave simulate`` as parts of a run; what cannot be is refused by its name."""

import dataclasses
import re
from typing import Any

from hw.errors import InputError
from hw.params import Machine, Sensing, ns
from hw.presets import preset
from hw.ucie.transaction import ADDRESS_UNIT_BYTES, Owner
from tb.refusals import Refusal
from tb.settings import Faults, Modes
from tb.simulator import Simulator
from tb.writes import WriteRequest, kv_writes

ICARUS_WAVE_PAGES = 512
WRITERS = {"gpu": "write", "hbm": "writeback"}
DRAINS = ("page", "region")
OWNERS = {"kv": Owner.KV, "weight": Owner.WEIGHT}


def optional_ns(time_us: float | None) -> float | None:
    return None if time_us is None else ns(time_us)


def chosen_machine(
    name: str,
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
    given: dict[str, Any] = {
        f"{name}_ns": value for name, value in times_ns.items() if value is not None
    }
    return dataclasses.replace(machine, nand=dataclasses.replace(machine.nand, **given))


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
    return read_bytes // page


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
    return Modes(drain_whole_region=drain == "region", suspend_slice_us=suspend_slice_us, **modes)


def chosen_faults(
    machine: Machine, *, ecc_beats: int, ecc_bits: str | None, ecc_word: int | None, **nand: int
) -> Faults:
    """Of the NAND, and of one word of ``ecc_beats`` beats in the SRAM."""
    for name, value in (("ecc-bits", ecc_bits), ("ecc-word", ecc_word)):
        if value is not None and not ecc_beats:
            raise InputError(f"{name} is {value!r}: goes with --ecc-beats, which is 0")
    if ecc_bits is not None and re.fullmatch(r"\d+(,\d+)?", ecc_bits) is None:
        raise InputError(f"ecc-bits is {ecc_bits!r}: must be one or two numbers, as 5 or 5,9")
    if ecc_word is not None and not 0 <= ecc_word < machine.lanes:
        raise InputError(
            f"ecc-word is {ecc_word!r}: must be 0 to {machine.lanes - 1}, a word of the beat"
        )
    bits = tuple(int(bit) for bit in (ecc_bits or "0").split(","))
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


def chosen_writes(
    machine: Machine,
    waves: int,
    planes: str | None,
    source: str,
    *,
    owner: str,
    rewrite: bool,
    trim: bool,
    release: bool,
    relocated: bool,
    writes_first: bool,
    read_waves: int,
) -> tuple[WriteRequest, ...]:
    """Writes beside or before ``read_waves`` page waves of reads."""
    if source not in WRITERS:
        raise InputError(f"write-from {source!r} is unknown: choose {', '.join(WRITERS)}")
    if owner not in OWNERS:
        raise InputError(f"write-owner {owner!r} is unknown: choose {', '.join(OWNERS)}")
    if waves < 1:
        if waves < 0 or rewrite or trim or release or relocated or writes_first:
            raise InputError(
                f"write-waves is {waves!r}: must be at least 1 for --rewrite, --trim, --release, "
                "--relocated and --writes-first"
            )
        return ()
    if writes_first and trim:
        raise InputError("trim is given with --writes-first: pages given up hold nothing to read")
    if writes_first and rewrite and read_waves > waves:
        raise InputError(
            f"waves is {read_waves!r}: must be at most write-waves {waves} with --rewrite and "
            "--writes-first, since their blocks are erased"
        )
    return kv_writes(
        machine,
        waves=waves,
        planes=chosen_planes("write-planes", planes, machine),
        port=WRITERS[source],
        owner=OWNERS[owner],
        rewrite=rewrite,
        trim=trim,
        release=release,
        relocated=relocated,
    )
