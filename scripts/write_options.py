"""Options of ``pagewave simulate`` about writes, and those that go with them."""

from hw.errors import InputError
from hw.params import Machine, Topology
from hw.ucie.transaction import Owner
from scripts.run_options import chosen_planes
from tb.excuses import ErasedPages
from tb.reads import ReadRun
from tb.writes import LINKS, WriteRequest, kv_writes

WRITERS = {"gpu": "write", "hbm": "writeback"}
OWNERS = {"kv": Owner.KV, "weight": Owner.WEIGHT}


def check_goes_with(with_what: str, **given: object) -> None:
    """Refuse options that would do nothing.

    Args:
        with_what: What they go with and is not there.
        given: Their values; those that are false were not given.

    Raises:
        InputError: one was given.
    """
    for name, value in given.items():
        if value:
            option = name.replace("_", "-")
            what = f"{option} is given" if value is True else f"{option} is {value!r}"
            raise InputError(f"{what}: goes with {with_what}")


def chosen_writes(
    machine: Machine,
    topology: Topology,
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
) -> tuple[WriteRequest, ...]:
    """Writes beside or before the reads."""
    if source not in WRITERS:
        raise InputError(f"write-from {source!r} is unknown: choose {', '.join(WRITERS)}")
    if owner not in OWNERS:
        raise InputError(f"write-owner {owner!r} is unknown: choose {', '.join(OWNERS)}")
    within = chosen_planes("write-planes", planes, machine)
    if waves < 0:
        raise InputError(f"write-waves is {waves!r}: must be 0 or more")
    if not waves:
        check_goes_with(
            "--write-waves, which is 0",
            write_planes=planes,
            write_from=source != "gpu" and source,
            write_owner=owner != "kv" and owner,
            rewrite=rewrite,
            trim=trim,
            release=release,
            relocated=relocated,
            writes_first=writes_first,
        )
        return ()
    if writes_first and trim:
        raise InputError("trim is given with --writes-first: pages given up hold nothing to read")
    path = LINKS[WRITERS[source]]
    if not getattr(topology, path):
        raise InputError(
            f"write-from {source!r} needs the {path} path, which topology {topology.name!r} does "
            "not have"
        )
    return kv_writes(
        machine,
        waves=waves,
        planes=within,
        port=WRITERS[source],
        owner=OWNERS[owner],
        rewrite=rewrite,
        trim=trim,
        release=release,
        relocated=relocated,
        named="write-waves",
    )


def check_written(run: ReadRun) -> None:
    """Refuse reads, after all writes, of pages that were erased and not written again.

    Raises:
        InputError: with their number.
    """
    if run.writes_first and (blank := ErasedPages(run).blank_reads):
        raise InputError(
            f"rewrite is given with --writes-first: of the pages to read, {blank} would be blank, "
            "erased with the blocks and not written again; read fewer --waves, or the "
            "--write-planes"
        )
