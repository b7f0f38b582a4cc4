"""Which signals of a package are worth a look, in the order in which a page passes them."""

from hw.errors import InputError
from tb.views.header import Names

Groups = dict[str, list[str]]

# Pair 0 stands for all, dies 0 and 1 for all dies. Ports of submodules and signals that their
# module names, since the names of anonymous ones change with the conversion.
_DIES = (0, 1)
_PATHS = {"direct": "a", "relay": "c"}  # with the link at the HBF base die


def groups(names: Names) -> Groups:
    """Signals by group, for the topology that ``names`` shows.

    Raises:
        InputError: this is no package, or it has not got a signal of the view.
    """
    package = _package(names)
    if package is None:
        raise InputError("the waveform shows no package: there is no scope hbf0")
    hbf, gpu = f"{package}.hbf0", f"{package}.gpu"
    paths = [path for path in _PATHS if f"{hbf}.drain_{path}" in names.scopes]
    if not paths:
        raise InputError("the waveform shows no path: there is no scope hbf0.drain_*")
    found = {
        "Requests": [
            *_under("top", "clk", "rst", "read__valid", "read__ready"),
            *_under(f"{gpu}.router", "send", "accepted"),
            *(f"{gpu}.router.outstanding{list(_PATHS).index(path)}" for path in paths),
        ],
        **{f"Scheduler of die {d}": _scheduler(f"{hbf}.die{d}") for d in _DIES},
        "Regions": [
            *_under(hbf, "region0_busy", "region1_busy"),
            *_under(f"{hbf}.gate", "open", "region"),
            *(f"{hbf}.die{d}.region_busy" for d in _DIES),
        ],
        "Writes": _writes(hbf),
        "TSV transfer": _transfer(f"{hbf}.tsv"),
        "Credits": _credits(package, paths),
        **{f"{path.capitalize()} path": _path(package, path) for path in paths},
        "GPU side": [
            *(
                f"{package}.{path}_{port}"
                for path in paths
                for port in ("o__0__valid", "o__0__ready", "done")
            ),
            *(f"{gpu}.{path}.reassembly0.received" for path in paths),
        ],
    }
    if package != "top":
        stamps = ("accepted", "first_beat", "last_beat", "wave_end", "waves", "completed")
        found["Bench"] = _under("top", "clock", *stamps, "errors", "violations", "senses")
    missing = [name for group in found.values() for name in group if name not in names.variables]
    if missing:
        raise InputError(f"the waveform lacks {', '.join(missing)}")
    return found


def shows_package(names: Names) -> bool:
    """Whether there is a view for it."""
    return _package(names) is not None


def _package(names: Names) -> str | None:
    return next((p for p in ("top.package", "top") if f"{p}.hbf0" in names.scopes), None)


def _under(scope: str, *names: str) -> list[str]:
    return [f"{scope}.{name}" for name in names]


def _scheduler(die: str) -> list[str]:
    # The scoreboards, one bit a subarray, are too wide for the waves of a full-size run.
    return [
        *_under(die, "pending", "reads.issue", "reads.blocked_on", "reads.held"),
        *_under(die, "senses.w_en", "latched.w_en", "sensing"),
        *_under(die, "command__valid", "command__command", "command__subarray", "command__row"),
        *_under(die, "transfer__valid", "transfer__ready", "transferred"),
    ]


def _writes(hbf: str) -> list[str]:
    steps = ("op__valid", "reserve", "grant__valid", "free", "event__valid")
    return [
        *_under(f"{hbf}.tracker", "o__valid", "o__ready", "retired"),
        *_under(f"{hbf}.epochs", "ordered", "epoch"),
        *(f"{hbf}.die{d}.writes.{name}" for d in _DIES for name in steps),
    ]


def _transfer(tsv: str) -> list[str]:
    return [
        *(f"{tsv}.lane{d}.{name}" for d in _DIES for name in ("moved", "valid", "beat", "take")),
        *(f"{tsv}.readout__{group}__valid" for group in range(4)),
        *(f"{tsv}.filled__{d}" for d in _DIES),
        f"{tsv}.sent",
    ]


def _credits(package: str, paths: list[str]) -> list[str]:
    hbf, found = f"{package}.hbf0", []
    if "direct" in paths:
        found += _under(hbf, "direct_credits.count", "a_data__credit")
    if "relay" in paths:
        admission = ("regions", "admit", "filled", "chunk_end", "close", "grant")
        found += _under(f"{hbf}.relay_admission", *admission)
        found += [f"{package}.hbm0.relay.control.credits.count"]
    return found


def _path(package: str, path: str) -> list[str]:
    hbf, hbm, link = f"{package}.hbf0", f"{package}.hbm0", _PATHS[path]
    drain = _under(f"{hbf}.drain_{path}", "waiting", "sent", "read_region", "read_row")
    request = [f"{package}.gpu.{path}_request__0__valid", f"{hbf}.{link}_request__valid"]
    data = [f"{package}.gpu.{path}_data__0__valid"]
    if path == "relay":
        request.insert(1, f"{hbm}.b_request__valid")
        data = [
            *_under(hbm, "c_data__valid", "relay_occupied"),
            *_under(f"{hbm}.relay.control.chunks", "closed", "take", "left", "grant"),
            f"{hbm}.relay.control.reader.emptied",
            f"{hbm}.b_data__valid",
            *data,
        ]
    return [*request, *drain, f"{hbf}.{link}_data__valid", *data]
