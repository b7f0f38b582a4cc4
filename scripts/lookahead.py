"""``pagewave lookahead``: may a model's experts be chosen early, and what does it cost?"""

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hw import presets
from perfmodel.lookahead import LAYERS, cost, decide, measure, routed_layer
from perfmodel.memory import Delivery, load_timing
from scripts import console
from scripts.generate import Json, Timing, Topology


def lookahead(
    model: Annotated[
        str,
        typer.Argument(
            help=f"Model: {', '.join(LAYERS)}, or the path of a Hugging Face config.json."
        ),
    ],
    tokens: Annotated[int, typer.Option(help="Random tokens to choose experts for.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed of weights and tokens.")] = 0,
    topology: Topology = "dash",
    timing: Timing = "link-limited",
    json: Json = False,
) -> None:
    """Tell whether experts may be chosen before the output projection, and at what cost.

    The decision follows from the router. Both ways of choosing then run in FP32
    on random weights at the shape of the model: tokens whose choice is too close
    for FP32 to tell are counted as near-ties. For a router that must not choose
    early, the counts tell how many choices would be wrong.

    Try:

    pagewave lookahead qwen3-235b-a22b --tokens 1000
    """
    layer = routed_layer(model)
    machine = presets.preset("paper")
    delivery = Delivery(presets.topology(topology), load_timing(timing, machine))
    decision = decide(layer.router)
    agreement = measure(layer, tokens=tokens, seed=seed)
    result: dict[str, Any] = {
        "model": layer.model,
        "topology": topology,
        "timing": delivery.timing.label,
        "early": decision.early,
        "reasons": list(decision.reasons),
        "router_source": layer.router.source,
        "moe_layers": layer.layers,
        "cost": cost(layer, delivery).as_dict(),
        "agreement": agreement.as_dict(),
    }
    if json:
        console.print_json(result)
    else:
        console.out.print(lookahead_report(result))


def lookahead_report(values: dict[str, Any]) -> Group:
    """Decision, cost of one layer, and agreement."""
    kind = "early" if values["early"] else "conventional"
    title = Text(f"{values['model']}: {kind} choice of experts", style="bold")
    reasons = Text("\n".join(f"- {reason}" for reason in values["reasons"]))
    return Group(title, reasons, _cost_table(values), _agreement_table(values))


def _cost_table(values: dict[str, Any]) -> Table:
    price = values["cost"]
    table = _table(f"cost in each of {values['moe_layers']} MoE layers, {values['topology']}")
    table.add_row("combined weight, FP32", f"{price['combined_bytes'] / 1e6:,.2f}", "MB")
    table.add_row("  in all layers", f"{price['model_bytes'] / 1e6:,.1f}", "MB")
    table.add_row("router, read again", f"{price['reread_bytes'] / 1e6:,.2f}", "MB")
    table.add_row("operations for each token", f"{price['token_flops'] / 1e6:,.2f}", "MFLOP")
    table.add_section()
    table.add_row("first byte of the experts", f"{1e6 * price['first_byte_s']:,.2f}", "us")
    table.add_row("  hidden by the early choice", f"{1e6 * price['hidden_s']:,.2f}", "us")
    table.add_row("reads, combined weight in HBM", f"{1e6 * price['read_hbm_s']:,.2f}", "us")
    table.add_row("  time won", f"{1e6 * price['net_hbm_s']:,.2f}", "us")
    table.add_row("reads, in both memories", f"{1e6 * price['read_both_s']:,.2f}", "us")
    table.add_row("  time won", f"{1e6 * price['net_both_s']:,.2f}", "us")
    return table


def _agreement_table(values: dict[str, Any]) -> Table:
    seen = values["agreement"]
    what = "the same experts" if values["early"] else "the same experts, were the rule ignored"
    table = _table(f"{seen['tokens']:,} random tokens, seed {seen['seed']}")
    table.add_row(what, f"{seen['equal']:,}", "tokens")
    table.add_row("experts in common", f"{100 * seen['common_experts']:.2f}", "%")
    table.add_row("  combined weight in BF16", f"{seen['equal_bf16_combined']:,}", "tokens")
    table.add_row("  against BF16 activations", f"{seen['equal_bf16_activations']:,}", "tokens")
    if rounding := seen["rounding"]:
        table.add_row("near-ties in FP32", f"{rounding['near_ties']:,}", "tokens")
        table.add_row("  ties", f"{rounding['ties']:,}", "tokens")
        table.add_row("largest rounding error", f"{rounding['worst_error']:.2e}", "logits")
        table.add_row("smallest margin", f"{rounding['smallest_margin']:.2e}", "logits")
    return table


def _table(title: str) -> Table:
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    return table
