"""Signs, orders and bars of the serving study on three seeds of the synthetic sessions.

The bars are those that hold whatever the settings that the paper leaves open; magnitudes that hang
on them are in docs/agents.md as sensitivities.
"""

import pytest

from perfmodel.agents import Setup, architecture_named
from perfmodel.agents.claims import verdicts
from perfmodel.agents.study import AgentStudy, policies, run_cells
from perfmodel.models.dense import load_dense_model
from perfmodel.workload import replicate, synthetic_agentic

ARCHITECTURES = ("hbm-only", "h3", "4+4")
FCFS, AWARE, BUFFERED = "fcfs", "cache-aware", "cache-aware, 10 %"


@pytest.fixture(scope="module", params=[0, 1, 2], ids="seed {}".format)
def rows(request):
    """Cells of the paper's table 4."""
    architectures = tuple(map(architecture_named, ARCHITECTURES))
    study = AgentStudy(
        base=Setup(model=load_dense_model("qwen3-32b"), architecture=architectures[0]),
        architectures=architectures,
        policies=tuple(
            policies([0.1], ["fcfs", "cache-aware", "buffered"], budget=2048, max_running=512)
        ),
    )
    return run_cells(replicate(synthetic_agentic(seed=request.param), 25_000), study)


@pytest.fixture(scope="module")
def cells(rows):
    return {(cell["architecture"], cell["policy"]): cell for cell in rows}


@pytest.mark.slow
def test_signs_and_orders(cells):
    def value(name, architecture, policy):
        return cells[architecture, policy][name]

    hits = {policy: value("device_hits_pct", "hbm-only", policy) for policy in (AWARE, BUFFERED)}
    assert hits[AWARE] < 25
    assert 45 <= hits[BUFFERED] <= 80
    assert hits[BUFFERED] - hits[AWARE] >= 30
    hbm = {policy: value("hbm_written_bytes", "hbm-only", policy) for policy in (AWARE, BUFFERED)}
    assert 0.3 <= hbm[BUFFERED] / hbm[AWARE] <= 0.8
    for architecture in ARCHITECTURES:
        times = [value("clock_s", architecture, policy) for policy in (FCFS, AWARE, BUFFERED)]
        assert times[0] > times[1] > times[2]
        writes = [
            value("hbm_written_bytes", architecture, policy) for policy in (FCFS, AWARE, BUFFERED)
        ]
        assert writes[0] > writes[1] > writes[2]
    for hybrid in ("h3", "4+4"):
        assert 92 <= value("device_hits_pct", hybrid, BUFFERED) <= 97
        life = [value("lifetime_years", hybrid, policy) for policy in (FCFS, BUFFERED)]
        assert 6 <= life[1] / life[0] <= 18
    assert value("clock_s", "h3", BUFFERED) < value("clock_s", "4+4", BUFFERED)


@pytest.mark.slow
def test_writes_that_the_buffer_saves_on_shared_sites(cells):
    writes = [cells["4+4", policy]["hbf_written_bytes"] for policy in (FCFS, AWARE, BUFFERED)]
    assert writes[2] <= 0.15 * writes[1]
    assert writes[2] <= 0.10 * writes[0]
    times = [cells["4+4", policy]["clock_s"] for policy in (AWARE, BUFFERED)]
    assert 0.65 <= times[1] / times[0] <= 0.9


@pytest.mark.slow
def test_every_claim_has_a_verdict(rows):
    found = {row.claim.text: row for row in verdicts(rows)}
    assert len(found) == 16
    assert found["4+4 HBF writes, by the buffer"].verdict == "agrees"
    assert verdicts(rows[:-1]) == []
    sensitive = [row for row in found.values() if row.claim.points is None]
    assert all(row.verdict.startswith("sensitive: ") for row in sensitive)
