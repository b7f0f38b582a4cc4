"""``pagewave trace``: what a trace holds, and traces made from it or from statistics."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hw.errors import InputError
from perfmodel.files import check_writable
from perfmodel.workload import (
    Trace,
    arrive_poisson,
    extend,
    read_trace,
    replicate,
    summarise,
    synthetic_agentic,
    write_trace,
)
from scripts import console
from scripts.generate import Json

_SPREADS = {
    "turns_of_session": "turns a session",
    "input_tokens": "input, tokens",
    "output_tokens": "output, tokens",
    "final_tokens": "final context of a session, tokens",
    "gap_s": "gap before a turn, s",
}


def trace(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Trace, also gzip: Mooncake, Azure, session CSV, kv-cache-tester, ShareGPT, or "
            "one written by this command."
        ),
    ] = None,
    synthetic: Annotated[
        bool,
        typer.Option(
            "--synthetic", help="In place of a file: agent sessions with published statistics."
        ),
    ] = False,
    sessions: Annotated[
        int | None, typer.Option(help="With --synthetic: how many sessions; 767 by default.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Take only the first LIMIT turns.")] = None,
    block_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a block of hash_ids in Mooncake; 512 by default.")
    ] = None,
    blocks: Annotated[bool, typer.Option(help="Keep block hashes, or leave them out.")] = True,
    session_input: Annotated[
        Literal["whole", "new"] | None,
        typer.Option(help="What input_length means in Mooncake lines with session_id."),
    ] = None,
    chars_per_token: Annotated[
        float | None, typer.Option(help="Characters that count as a token of ShareGPT text.")
    ] = None,
    turns: Annotated[
        int | None, typer.Option(help="Replicate sessions to exactly TURNS turns.")
    ] = None,
    copies: Annotated[
        int, typer.Option(help="Then follow each session by copies of itself, COPIES in all.")
    ] = 1,
    rate: Annotated[
        float | None, typer.Option(help="Then let sessions arrive at random, RATE a second.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --synthetic and of --rate.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="File to write; what is printed is read back from it.")
    ] = None,
    json: Json = False,
) -> None:
    """Tell what a trace holds: sessions, lengths, gaps, and what prefix caches could hit.

    The trace is a file or synthetic. It can be made larger as in the HBF serving
    study, and written as JSON lines.

    Try, for the long contexts of that study:

    pagewave trace --synthetic --turns 100000 --copies 5
    """
    if (file is None) != synthetic:
        raise InputError("FILE and --synthetic: give a trace or --synthetic, and not both")
    if out is not None:
        if out.suffix == ".gz":
            raise InputError(f"out is {str(out)!r}: is written as plain text, not gzip")
        check_writable("out", out)
    if file is None:
        reading = {
            "--limit": limit,
            "--block-tokens": block_tokens,
            "--session-input": session_input,
            "--chars-per-token": chars_per_token,
        }
        _refuse(reading, "goes with a FILE")
        if not blocks:
            raise InputError("--no-blocks: goes with a FILE")
        made = synthetic_agentic(sessions=767 if sessions is None else sessions, seed=seed)
    else:
        _refuse({"--sessions": sessions}, "goes with --synthetic")
        made = read_trace(
            file,
            limit=limit,
            hashes=blocks,
            block_tokens=block_tokens,
            session_input=session_input,
            chars_per_token=chars_per_token,
        )
    made = made if turns is None else replicate(made, turns)
    made = extend(made, copies)
    made = made if rate is None else arrive_poisson(made, rate=rate, seed=seed)
    if out is not None:
        made = _written(made, out)
    values = summarise(made)
    if json:
        console.print_json(values)
    else:
        console.out.print(trace_report(values))


def _refuse(options: dict[str, Any], reason: str) -> None:
    for flag, value in options.items():
        if value is not None:
            raise InputError(f"{flag} is {value}: {reason}")


def _written(made: Trace, out: Path) -> Trace:
    """What the file holds after ``made`` was written to it."""
    write_trace(made, out)
    console.err.print(f"wrote {out}", soft_wrap=True, highlight=False)
    return read_trace(out)


def trace_report(values: dict[str, Any]) -> Group:
    """Statistics of a trace; ``values`` as ``summarise``."""
    spreads = Table()
    spreads.add_column("", no_wrap=True)
    for statistic in ("mean", "p50", "p99", "max"):
        spreads.add_column(statistic, justify="right", no_wrap=True)
    for key, label in _SPREADS.items():
        if values[key] is not None:
            spreads.add_row(label, *(f"{value:,.2f}" for value in values[key].values()))
    counts = Table(show_header=False)
    counts.add_column()
    counts.add_column(justify="right", no_wrap=True)
    counts.add_column(no_wrap=True)
    counts.add_row("sessions", f"{values['sessions']:,}", "")
    counts.add_row("turns", f"{values['turns']:,}", "")
    counts.add_row("duration, answers taking no time", f"{values['duration_s']:,.1f}", "s")
    counts.add_section()
    share = 100 * values["prefix_share"]
    counts.add_row("input that repeats its session", f"{share:.2f}", "%")
    if values["block_tokens"] is not None:
        share = 100 * values["block_hit_share"]
        counts.add_row("input that a limitless cache of blocks hits", f"{share:.2f}", "%")
        counts.add_row(f"blocks of {values['block_tokens']} tokens", f"{values['blocks']:,}", "")
        counts.add_row("  different", f"{values['distinct_blocks']:,}", "")
    counts.add_row("prompts shorter than the one before", f"{values['shorter_prompts']:,}", "")
    for what, count in values["skipped"].items():
        counts.add_row(f"skipped: {what}", f"{count:,}", "")
    return Group(Text(values["source"], style="bold"), counts, spreads)
