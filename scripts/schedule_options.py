"""Options of the verbs that batch continuously: policy, limits, routing."""

from typing import Annotated

import typer

from perfmodel.models.routing import ROUTINGS
from perfmodel.serving import POLICIES, Schedule, policy_named

DEFAULT = Schedule()

Policy = Annotated[
    str,
    typer.Option(
        help=f"What runs together: {', '.join(POLICIES)}. mixed: prompt chunks ride with decode. "
        "serial: passes of either kind take turns."
    ),
]
MaxBatch = Annotated[int, typer.Option(help="Requests that run at once, at most.")]
Budget = Annotated[
    int, typer.Option(help="Tokens of one pass, one of them for each decoding request.")
]
Chunk = Annotated[int, typer.Option(help="Prompt tokens of one request in one pass, at most.")]
Routing = Annotated[
    str,
    typer.Option(
        help=f"How rows choose experts: {', '.join(ROUTINGS)}. balanced: as many distinct ones as "
        "there can be. iid: each row at random; times are exact expectations."
    ),
]


def chosen_schedule(policy: str, max_batch: int, budget: int, chunk: int) -> Schedule:
    """The schedule of these options.

    Raises:
        InputError: a policy is unknown or a limit out of range.
    """
    return Schedule(
        policy=policy_named(policy), max_batch=max_batch, token_budget=budget, chunk=chunk
    )
