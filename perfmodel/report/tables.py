"""Tables for the terminal."""

from typing import Any

from rich.table import Table

_PATHS = {
    "direct": "HBF to GPU, Direct",
    "relay": "HBF to GPU, Relay",
    "hbm_local": "HBM to GPU",
    "hbf_write": "GPU to HBF, prefill KV",
    "hbm_write": "GPU to HBM, decode KV",
    "writeback": "HBM to HBF, decode KV",
}
_LATENCIES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "inter-token latency",
    "e2el": "end to end",
}


def generate_table(values: dict[str, Any]) -> Table:
    """A fixed batch: times, throughputs and bytes; ``values`` as ``GenerateResult.as_dict``."""
    table = _table(
        values,
        f"batch {values['batch']}, {values['input_len']:,} input and {values['output_len']:,} "
        "output tokens",
    )
    table.show_header = False
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_column("unit")
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
    return table


def serve_tables(values: dict[str, Any]) -> tuple[Table, Table]:
    """A serving run: latencies, and what was done; ``values`` as ``ServeResult.values``."""
    latency = Table(title="latency (ms)", title_justify="left")
    latency.add_column("")
    statistics = ("mean", "median", "std", "p90", "p99")
    for statistic in statistics:
        latency.add_column(statistic, justify="right")
    for key, label in _LATENCIES.items():
        cells = [f"{values[f'{statistic}_{key}_ms']:,.1f}" for statistic in statistics]
        latency.add_row(label, *cells)

    done = _table(values, f"{values['load']}; at most {values['max_batch']} running, seed {values['seed']}")
    done.show_header = False
    done.add_column("quantity")
    done.add_column("value", justify="right")
    done.add_column("unit")
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
    return done, latency


def _table(values: dict[str, Any], work: str) -> Table:
    notes = [f"{work}; {values['tp']} x {values['gpu']}", f"timing: {values['timing_provenance']}"]
    if values["timing_extrapolation"]:
        notes.append(f"extrapolated: {values['timing_extrapolation']}")
    return Table(
        title=f"{values['model']} on {values['topology']}, {values['timing']} timing",
        title_justify="left",
        caption="\n".join(notes),
        caption_justify="left",
    )


def _moved(values: dict[str, Any]) -> list[tuple[str, int]]:
    paths = values["bytes"]["paths"]
    return [(label, paths[path]) for path, label in _PATHS.items() if paths[path]]
