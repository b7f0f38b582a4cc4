"""Serving: load, continuous batching, fixed batches, metrics, and studies over load."""

from perfmodel.serving.arrivals import Request, load_trace, poisson
from perfmodel.serving.engine import Outcome, simulate
from perfmodel.serving.fixed import GenerateResult, generate
from perfmodel.serving.metrics import metrics
from perfmodel.serving.run import ServeResult, serve
from perfmodel.serving.schedule import POLICIES, Mixed, Schedule, Serial, policy_named
from perfmodel.serving.study import Study, StudyResult, run_study
from perfmodel.serving.workload import Workload

__all__ = [
    "POLICIES",
    "GenerateResult",
    "Mixed",
    "Outcome",
    "Request",
    "Schedule",
    "Serial",
    "ServeResult",
    "Study",
    "StudyResult",
    "Workload",
    "generate",
    "load_trace",
    "metrics",
    "poisson",
    "policy_named",
    "run_study",
    "serve",
    "simulate",
]
