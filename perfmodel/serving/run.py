"""A serving run from requests to a result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfmodel.serving.arrivals import Request
from perfmodel.serving.engine import Outcome, simulate
from perfmodel.serving.metrics import metrics
from perfmodel.serving.passes import PassModel
from perfmodel.serving.schedule import Schedule
from perfmodel.system import System


@dataclass(frozen=True, kw_only=True)
class ServeResult:
    """``values`` is the JSON-ready result; ``outcome`` has every request."""

    values: dict[str, Any]
    outcome: Outcome


def serve(
    system: System,
    requests: list[Request],
    schedule: Schedule | None = None,
    *,
    warmup: int = 0,
    seed: int = 0,
    load: str = "",
    passes: PassModel | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ServeResult:
    """Serve requests and summarise; ``load`` and ``seed`` say where they come from.

    Metrics leave out the first ``warmup`` requests.

    Raises:
        InputError: there is no request, or none beside the warm-up.
    """
    schedule = schedule or Schedule()
    passes = passes or PassModel(system)
    outcome = simulate(system, requests, schedule, passes=passes, progress=progress)
    settings = {"load": load, "seed": seed, **schedule.as_dict(), "warmup": warmup}
    values = system.labels() | {"kernels": passes.arithmetic.rests_on()} | settings
    values |= metrics(outcome, warmup)
    return ServeResult(values=values, outcome=outcome)
