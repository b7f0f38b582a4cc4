"""A serving run from requests to a result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfmodel.serving.arrivals import Request
from perfmodel.serving.engine import MAX_BATCH, TOKEN_BUDGET, Outcome, simulate
from perfmodel.serving.metrics import metrics
from perfmodel.system import System


@dataclass(frozen=True, kw_only=True)
class ServeResult:
    """``values`` is the JSON-ready result; ``outcome`` has every request."""

    values: dict[str, Any]
    outcome: Outcome


def serve(
    system: System,
    requests: list[Request],
    *,
    max_batch: int = MAX_BATCH,
    token_budget: int = TOKEN_BUDGET,
    seed: int = 0,
    load: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> ServeResult:
    """Serve requests and summarise; ``load`` and ``seed`` say where they come from.

    Raises:
        InputError: there is no request, or a limit is out of range.
    """
    outcome = simulate(
        system, requests, max_batch=max_batch, token_budget=token_budget, progress=progress
    )
    settings = {
        "load": load,
        "seed": seed,
        "max_batch": max_batch,
        "token_budget": token_budget,
    }
    return ServeResult(values=system.labels() | settings | metrics(outcome), outcome=outcome)
