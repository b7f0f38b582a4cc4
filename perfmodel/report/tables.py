"""Results as tables for the terminal."""

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

_PATHS = {
    "direct": "HBF to GPU, Direct",
    "relay": "HBF to GPU, Relay",
    "hbm_local": "HBM to GPU",
    "hbf_write": "GPU to HBF, prefill KV",
    "hbm_write": "GPU to HBM, decode KV",
    "writeback": "HBM to HBF, decode KV",
}
_LATENCIES = {
    "ttft": "first token",
    "tpot": "per output token",
    "itl": "between tokens",
    "e2el": "whole request",
}


def generate_report(values: dict[str, Any]) -> Group:
    """A fixed batch: times, throughputs and bytes; ``values`` as ``GenerateResult.as_dict``."""
    table = _quantities()
    table.add_row("prefill", f"{1e3 * values['prefill_s']:,.2f}", "ms")
    table.add_row("time per output token", f"{1e3 * values['tpot_s']:,.3f}", "ms")
    table.add_row("end to end", f"{values['e2e_s']:,.3f}", "s")
    table.add_section()
    table.add_row("decode throughput", f"{values['decode_throughput']:,.1f}", "tokens/s")
    table.add_row("output throughput", f"{values['output_throughput']:,.1f}", "tokens/s")
    table.add_row("total throughput", f"{values['total_token_throughput']:,.1f}", "tokens/s")
    table.add_section()
    for label, size in _moved(values):
        table.add_row(label, f"{size / 1e9:,.2f}", "GB")
    lengths = f"{values['input_len']:,} input and {values['output_len']:,} output tokens"
    return Group(_title(values), table, _notes(values, f"batch {values['batch']}, {lengths}"))


def serve_report(values: dict[str, Any]) -> Group:
    """A serving run: what was done, and latencies; ``values`` as ``ServeResult.values``."""
    done = _quantities()
    done.add_row("completed", f"{values['completed']:,}", "requests")
    done.add_row("failed", f"{values['failed']:,}", "requests")
    for reason, count in values["rejected"].items():
        done.add_row(f"  {reason}", f"{count:,}", "requests")
    done.add_row("duration", f"{values['duration']:,.1f}", "s")
    done.add_section()
    done.add_row("request throughput", f"{values['request_throughput']:,.3f}", "requests/s")
    done.add_row("output throughput", f"{values['output_throughput']:,.1f}", "tokens/s")
    done.add_row("total throughput", f"{values['total_token_throughput']:,.1f}", "tokens/s")
    done.add_section()
    for label, size in _moved(values):
        done.add_row(label, f"{size / 1e12:,.3f}", "TB")

    latency = Table()
    latency.add_column("latency (ms)", no_wrap=True)
    statistics = ("mean", "median", "std", "p90", "p95", "p99")
    for statistic in statistics:
        latency.add_column(statistic, justify="right", no_wrap=True)
    for key, label in _LATENCIES.items():
        cells = [f"{values[f'{statistic}_{key}_ms']:,.1f}" for statistic in statistics]
        latency.add_row(label, *cells)
    work = (
        f"{values['load']}, the first {values['warmup']} not measured, seed {values['seed']}; "
        f"{values['policy']}, at most {values['max_batch']} running, {values['token_budget']:,} "
        f"tokens in a pass, chunks of {values['chunk']:,}; {values['routing']} routing"
    )
    return Group(_title(values), done, latency, _notes(values, work))


def _quantities() -> Table:
    table = Table(show_header=False)
    table.add_column("quantity")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    return table


def _title(values: dict[str, Any]) -> Text:
    names = f"{values['model']} on {values['topology']}, {values['timing']} timing"
    return Text(names, style="bold")


def _notes(values: dict[str, Any], work: str) -> Text:
    lines = [
        work,
        f"{values['tp']} x {values['gpu']}, {values['gpu_kernels']}: {values['gpu_provenance']}",
        f"memory: {values['timing_provenance']}",
    ]
    if values["gpu_kernels"] != "base":
        lines += kernel_lines(values["kernels"])
    if values["interconnect_provenance"]:
        lines.append(f"between GPUs: {values['interconnect_provenance']}")
    if values["timing_extrapolation"]:
        lines.append(f"extrapolated: {values['timing_extrapolation']}")
    return Text("\n".join(lines), style="dim")


def kernel_lines(kernels: list[dict[str, Any]]) -> list[str]:
    """What the least sure answers of each kernel rest on."""
    lines = []
    for row in kernels:
        words = [] if row["status"] == "assumed" else [row["status"]]
        if row["distance_octaves"]:
            words.append(f"up to {row['distance_octaves']:.2f} octaves from a measured size")
        if row["p90_error_pct"] is not None:
            words.append(f"90 % of errors below {row['p90_error_pct']:.1f} %")
        lines.append(f"{row['kernel']}: {', '.join([*words, row['provenance']])}")
    return lines


def _moved(values: dict[str, Any]) -> list[tuple[str, int]]:
    paths = values["bytes"]["paths"]
    return [(label, paths[path]) for path, label in _PATHS.items() if paths[path]]
