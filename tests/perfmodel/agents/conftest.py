"""Small machines and traces on which everything overflows."""

import dataclasses

import numpy as np
import pytest

from perfmodel.agents.architecture import Architecture, Composition, Host, Movement
from perfmodel.agents.checked import CheckedEngine
from perfmodel.agents.engine import Engine
from perfmodel.agents.machine import Machine
from perfmodel.agents.turns import turns_of
from perfmodel.models.attention import Gqa
from perfmodel.models.dense import DenseModel
from perfmodel.scheduler import Admission
from perfmodel.workload import Trace
from perfmodel.workload.trace import append_only_prefix

TINY = DenseModel(
    name="tiny",
    layers=2,
    hidden=64,
    inner=128,
    vocab=256,
    attention=Gqa(hidden=64, query_heads=4, kv_heads=2, head_dim=16),
    max_context=4096,
)


def _architecture(hbm, hbf, dram, ssd, composition, movement, first_access_s):
    token = TINY.kv_token_bytes
    host = Host(
        dram_channels=int(dram > 0),
        dram_channel_bytes=max(dram, 1) * token,
        ssds=int(ssd > 0),
        ssd_bytes=max(ssd, 1) * token,
        dram_channel_bytes_per_s=2e8,
        ssd_bytes_per_s=5e7,
        pcie_bytes_per_s=1e8,
    )
    return Architecture(
        name="small",
        hbm_stacks=1,
        hbm_stack_bytes=TINY.stored_bytes + hbm * token,
        hbf_stacks=int(hbf > 0),
        hbf_stack_bytes=max(hbf, 1) * token,
        composition=composition,
        movement=movement,
        first_access_s=first_access_s,
        hbm_bytes_per_s=1e9,
        hbf_bytes_per_s=5e8,
        hbf_write_bytes_per_s=2e7,
        host=host if dram or ssd else None,
    )


@pytest.fixture(scope="session")
def make_machine():
    """A machine by its capacities in tokens."""

    def make(
        hbm,
        hbf=0,
        dram=0,
        ssd=0,
        *,
        composition=Composition.SUM,
        movement=Movement.SERIAL,
        first_access_s=0.0,
        **changes,
    ):
        arch = _architecture(hbm, hbf, dram, ssd, composition, movement, first_access_s)
        machine = Machine(model=TINY, architecture=dataclasses.replace(arch, **changes))
        assert machine.capacity_tokens == (hbm, hbf, dram, ssd)
        return machine

    return make


@pytest.fixture(scope="session")
def make_sessions():
    """A trace from lists: a session is a list of (gap_s, prompt, output), all arriving at 0."""

    def make(sessions, start_s=None):
        lengths = [len(session) for session in sessions]
        rows = [turn for session in sessions for turn in session]
        first_turn = np.cumsum([0, *lengths])
        is_first = np.zeros(len(rows), bool)
        is_first[first_turn[:-1]] = True
        gap_s, inputs, outputs = (np.array(column) for column in zip(*rows, strict=True))
        return Trace(
            source="by hand",
            session_ids=tuple(map(str, range(len(sessions)))),
            first_turn=first_turn,
            start_s=np.array(start_s or [0.0] * len(sessions)),
            gap_s=gap_s.astype(float),
            input_tokens=inputs,
            prefix_tokens=append_only_prefix(inputs, outputs, is_first),
            output_tokens=outputs,
        )

    return make


@pytest.fixture(scope="session")
def serve():
    """Runs a trace under all checks, or without them, and returns the engine."""

    def run(machine, trace, admission=None, *, granule=8, skip=True, checked=True):
        kind = CheckedEngine if checked else Engine
        engine = kind(
            machine, turns_of(trace), admission or Admission(), granule_tokens=granule, skip=skip
        )
        engine.run()
        return engine

    return run
