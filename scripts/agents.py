"""``pagewave agents``: agent sessions over HBM, HBF, DRAM and SSD."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError, named
from perfmodel.agents import (
    Endurance,
    Movement,
    Prices,
    Setup,
    WeightTier,
    architecture_named,
)
from perfmodel.agents.claims import verdicts
from perfmodel.agents.study import AgentStudy, policies, run_cells
from perfmodel.files import check_writable, write_atomically
from perfmodel.models.dense import DENSE_MODELS, load_dense_model
from perfmodel.report.agent_tables import agents_markdown, agents_report
from perfmodel.tiers import GRANULE_TOKENS
from perfmodel.workload import Trace, extend, read_trace, replicate, synthetic_agentic
from scripts import console
from scripts.generate import Json

ARCHITECTURES = ["hbm-only", "h3", "4+4"]
POLICIES = ["fcfs", "cache-aware", "buffered"]
HEADROOMS = [10.0]
PUBLISHED = ("qwen3-32b", 1, 1, 25_000)  # model, GPUs, replicas, turns of the paper's table 4


def agents(
    trace: Annotated[
        Path | None, typer.Argument(help="Trace of sessions, any format of `pagewave trace`.")
    ] = None,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="In place of a trace: synthetic agent sessions.")
    ] = False,
    model: Annotated[
        str, typer.Option(help=f"{', '.join(DENSE_MODELS)}, or a config.json.")
    ] = "qwen3-32b",
    architecture: Annotated[
        list[str], typer.Option(help="Once for each: hbm-only, h3, or X+Y stacks on shared sites.")
    ] = ARCHITECTURES,
    policy: Annotated[
        list[str], typer.Option(help="Once for each: fcfs, cache-aware, buffered.")
    ] = POLICIES,
    headroom: Annotated[
        list[float],
        typer.Option(help="Once for each, of buffered: per cent of device KV left free."),
    ] = HEADROOMS,
    gpus: Annotated[int, typer.Option(help="GPUs of a replica, tensor parallel.")] = 1,
    replicas: Annotated[int, typer.Option(help="Replicas; a session stays on one.")] = 1,
    weights: Annotated[str, typer.Option(help="Where weights are: hbm or hbf.")] = "hbm",
    budget: Annotated[int, typer.Option(help="Prompt tokens of one step.")] = 2048,
    max_running: Annotated[int, typer.Option(help="Requests that run at once.")] = 512,
    granule: Annotated[
        int, typer.Option(help="Tokens that leave a tier at least together; 0: whole entries.")
    ] = GRANULE_TOKENS,
    hbf_rate: Annotated[float, typer.Option(help="Read rate of an HBF stack, TB/s.")] = 1.0,
    movement: Annotated[
        str, typer.Option(help="Cache movement and forward pass: serial or overlapped.")
    ] = "serial",
    read_us: Annotated[
        float, typer.Option(help="tR in us, exposed once a layer that reads HBF; 0: hidden.")
    ] = 0.0,
    hbf_energy: Annotated[float, typer.Option(help="Energy of HBF reads over HBM reads.")] = 2.0,
    cycles: Annotated[float, typer.Option(help="Program and erase cycles.")] = 100_000,
    amplification: Annotated[float, typer.Option(help="Write amplification.")] = 1.0,
    utilisation: Annotated[float, typer.Option(help="Part of all cycles that is used.")] = 1.0,
    block_gb: Annotated[
        float | None,
        typer.Option(help="Follow wear in blocks of so many GB of HBF, with garbage collection."),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first turns of a trace.")] = None,
    turns: Annotated[int | None, typer.Option(help="Replicate to exactly TURNS turns.")] = None,
    copies: Annotated[int, typer.Option(help="Then join each session by copies of itself.")] = 1,
    seed: Annotated[int, typer.Option(help="Of --synthetic.")] = 0,
    check: Annotated[
        bool, typer.Option("--check", help="Check all invariants in every step; slow.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables; a sweep that was stopped goes on here.")
    ] = None,
    json: Json = False,
) -> None:
    """Serve agent sessions on devices with and without HBF, under several admission policies.

    Tells time, hits, KV writes, the life of HBF and energy, and beside the published claims what
    came out.

    Try: pagewave agents --synthetic --turns 2500
    """
    if (trace is None) != synthetic:
        raise InputError("TRACE and --synthetic: give a trace or --synthetic, and not both")
    if limit is not None and trace is None:
        raise InputError(f"--limit is {limit}: goes with a TRACE")
    ways = {str(each): each for each in Movement}
    places = {str(each): each for each in WeightTier}
    found = [architecture_named(name) for name in architecture]
    changed = tuple(
        replace(
            each,
            hbf_bytes_per_s=hbf_rate * 1e12,
            movement=named("movement", movement, ways),
            first_access_s=read_us * 1e-6,
        )
        for each in found
    )
    shares = [each / 100 for each in headroom]
    study = AgentStudy(
        base=Setup(
            model=load_dense_model(model),
            architecture=changed[0],
            gpus=gpus,
            replicas=replicas,
            weights=named("weights", weights, places),
            granule_tokens=granule or None,
            block_bytes=None if block_gb is None else round(block_gb * 1e9),
            checked=check,
        ),
        architectures=changed,
        policies=tuple(policies(shares, policy, budget=budget, max_running=max_running)),
        prices=Prices().with_hbf_reads(hbf_energy),
        endurance=Endurance(
            cycles=cycles, write_amplification=amplification, utilisation=utilisation
        ),
    )
    if out is not None:
        check_writable("out", out, folder=True)
    sessions = _sessions(trace, limit=limit, turns=turns, copies=copies, seed=seed)
    total = len(study.setups) * sessions.turns
    with console.progress("turns", total) as report:
        cells = run_cells(sessions, study, folder=out, progress=lambda done, _: report(done))
    published = (study.base.model.name, gpus, replicas, sessions.turns) == PUBLISHED
    claims = verdicts(cells) if published else []
    title = (
        f"{study.base.model.name}, {gpus} GPUs x {replicas}, {sessions.turns} turns of "
        f"{sessions.sessions} sessions: {sessions.source}; HBF {hbf_rate:g} TB/s a stack, "
        f"{movement} movement, at most {max_running} running"
    )
    if out is not None:
        write_atomically(out / "agents.md", agents_markdown(title, cells, claims))
    if json:
        rows = [
            {"claim": row.claim.text, "id": row.claim.reference, "paper": row.claim.paper}
            | {"ours": row.ours, "verdict": row.verdict}
            for row in claims
        ]
        console.print_json({"title": title, "cells": cells, "claims": rows})
    else:
        console.out.print(agents_report(title, cells, claims))


def _sessions(
    file: Path | None, *, limit: int | None, turns: int | None, copies: int, seed: int
) -> Trace:
    if file is None:
        made = synthetic_agentic(seed=seed)
    else:
        made = read_trace(file, limit=limit, hashes=False)
    made = made if turns is None else replicate(made, turns)
    return extend(made, copies)
