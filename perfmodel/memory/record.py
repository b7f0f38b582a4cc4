"""The timing record: what calibration measured on the RTL, and what was fitted to it.

A record belongs to one machine and to one state of the RTL. Loading refuses any other, so that a
result never rests on timing of hardware that no longer exists.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hw.errors import InputError
from hw.presets import PRESETS, TOPOLOGIES, preset
from perfmodel.files import write_atomically

Route = Literal["direct", "relay", "dual"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, serialize_by_alias=True
    )


class Simulator(_Part):
    """The simulator that ran the RTL."""

    name: str
    version: str


class Waveform(_Part):
    """Instants read back from the waveform of one observation."""

    signals: tuple[str, ...]
    accepted_ns: NotNegative
    first_beat_ns: NotNegative
    first_wave_end_ns: NotNegative
    last_beat_ns: NotNegative

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        instants = (self.accepted_ns, self.first_beat_ns, self.first_wave_end_ns, self.last_beat_ns)
        if list(instants) != sorted(instants):
            raise ValueError(
                "accepted_ns, first_beat_ns, first_wave_end_ns, last_beat_ns must not go back"
            )
        return self


class Observation(_Part):
    """One measured stream of read requests on ``pairs`` stack pairs."""

    id: str
    topology: str
    route: Route
    waves: Count
    pairs: Count
    request_bytes: Count
    t_read_us: Positive
    tsv_tbps: Positive
    link_tbps: Positive
    sense: Literal["independent", "lockstep"]
    cache_read: bool
    bytes: Count
    cycles: Count
    first_byte_ns: NotNegative
    steady_bytes_per_s: Positive
    data_errors: Annotated[int, Field(ge=0)]
    waveform: Waveform

    @model_validator(mode="after")
    def _known_and_clean(self) -> Self:
        if self.topology not in TOPOLOGIES:
            raise ValueError(f"topology must be one of {', '.join(TOPOLOGIES)}")
        if self.data_errors:
            raise ValueError("data_errors must be 0: wrong data has no timing")
        return self


class Fit(_Part):
    """Timing of one route of one stack pair, and the observations behind it."""

    first_byte_ns: NotNegative
    steady_bytes_per_s: Positive
    request_gap_ns: NotNegative
    residual_pct: NotNegative
    observations: tuple[str, ...] = Field(alias="from", min_length=1)


class Valid(_Part):
    """Range of the measured grid, lowest and highest value of each axis."""

    request_bytes: tuple[Positive, Positive]
    t_read_us: tuple[Positive, Positive]
    tsv_tbps: tuple[Positive, Positive]
    link_tbps: tuple[Positive, Positive]

    @model_validator(mode="after")
    def _low_to_high(self) -> Self:
        for name in type(self).model_fields:
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} must be [lowest, highest]")
        return self


class TimingRecord(_Part):
    """A complete timing record, as stored."""

    schema_id: Literal["pagewave.timing/1"] = Field(alias="schema")
    preset: str
    machine_fingerprint: str
    rtl_fingerprint: str
    simulator: Simulator
    seed: int
    clock_hz: Positive
    observations: tuple[Observation, ...] = Field(min_length=1)
    fitted: dict[Route, Fit] = Field(min_length=1)
    valid: Valid

    @model_validator(mode="after")
    def _fits_rest_on_observations(self) -> Self:
        ids = [observation.id for observation in self.observations]
        if len(set(ids)) != len(ids):
            raise ValueError("observations: every id must occur once")
        for route, fit in self.fitted.items():
            if missing := sorted(set(fit.observations) - set(ids)):
                raise ValueError(f"fitted.{route}.from names no observation {missing[0]!r}")
        return self


def load_record(path: str | Path) -> TimingRecord:
    """Read a record and make sure that it describes today's machine and today's RTL.

    Raises:
        InputError: unreadable, not JSON, not of this schema, or stale; one line that names the
            file and the field.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(
            f"timing record {path}: cannot be read ({reason}); run `{_remedy(path)}`"
        ) from None
    try:
        record = TimingRecord.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        raise InputError(
            f"timing record {path}: {where}: {first['msg']}; run `{_remedy(path)}`"
        ) from None
    _check_fresh(record, path)
    return record


def save_record(record: TimingRecord, path: str | Path) -> None:
    """Write a record so that readers see the old file or the whole new one."""
    write_atomically(Path(path), record.model_dump_json(indent=2, by_alias=True) + "\n")


def _check_fresh(record: TimingRecord, path: Path) -> None:
    # Here, and not above: a model that runs on `link-limited` timing needs no RTL sources.
    from hw.source import rtl_fingerprint

    if record.preset not in PRESETS:
        raise InputError(
            f"timing record {path}: preset is {record.preset!r}: must be {', '.join(PRESETS)}"
        )
    remedy = _remedy(path, record.preset)
    for field, found, now, what in (
        (
            "machine_fingerprint",
            record.machine_fingerprint,
            preset(record.preset).fingerprint,
            "machine",
        ),
        ("rtl_fingerprint", record.rtl_fingerprint, rtl_fingerprint(), "RTL"),
    ):
        if found != now:
            raise InputError(
                f"stale timing record {path}: {field} is {found}, the {what} is now {now}; "
                f"run `{remedy}`"
            )


def _remedy(path: Path, preset_name: str = "paper") -> str:
    return f"pagewave calibrate --preset {preset_name} --out {path}"
