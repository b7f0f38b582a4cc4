"""Serving: load, continuous batching, fixed batches, and metrics."""

from perfmodel.serving.arrivals import Request, load_trace, poisson
from perfmodel.serving.engine import MAX_BATCH, TOKEN_BUDGET, Outcome, simulate
from perfmodel.serving.fixed import GenerateResult, generate
from perfmodel.serving.metrics import metrics
from perfmodel.serving.run import ServeResult, serve

__all__ = [
    "MAX_BATCH",
    "TOKEN_BUDGET",
    "GenerateResult",
    "Outcome",
    "Request",
    "ServeResult",
    "generate",
    "load_trace",
    "metrics",
    "poisson",
    "serve",
    "simulate",
]
