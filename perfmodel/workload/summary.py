"""What a trace holds, in numbers."""

from typing import Any

import numpy as np

from perfmodel.workload.prefix import block_hits, session_hits
from perfmodel.workload.trace import Floats, Ints, Trace


def summarise(trace: Trace) -> dict[str, Any]:
    """Statistics of a trace, JSON-ready.

    Percentiles are interpolated linearly between turns. Gaps are those between the turns of a
    session. ``duration_s`` ends with the last turn sent, as if answers took no time. Shares are
    of all input tokens: ``prefix_share`` what sessions repeat of their own contexts,
    ``block_hit_share`` what a limitless cache of block hashes hits, None without hashes.
    ``shorter_prompts`` counts turns whose prompt is shorter than the one before.
    """
    inputs = int(trace.input_tokens.sum())
    gaps_s = trace.gap_s[~trace.is_first]
    shorter = ~trace.is_first[1:] & (np.diff(trace.input_tokens) < 0)
    blocks = trace.blocks
    return {
        "source": trace.source,
        "sessions": trace.sessions,
        "turns": trace.turns,
        "turns_of_session": _spread(trace.turns_of_session),
        "input_tokens": _spread(trace.input_tokens),
        "output_tokens": _spread(trace.output_tokens),
        "final_tokens": _spread(trace.final_tokens),
        "gap_s": _spread(gaps_s) if len(gaps_s) else None,
        "duration_s": float(trace.nominal_s.max()),
        "prefix_share": int(session_hits(trace).sum()) / inputs,
        "block_tokens": None if blocks is None else blocks.block_tokens,
        "blocks": None if blocks is None else int(blocks.counts.sum()),
        "distinct_blocks": None if blocks is None else blocks.distinct,
        "block_hit_share": None if blocks is None else int(block_hits(trace).sum()) / inputs,
        "shorter_prompts": int(shorter.sum()),
        "skipped": dict(trace.skipped),
    }


def _spread(values: Ints | Floats) -> dict[str, float]:
    p50, p99 = np.percentile(values, [50, 99])
    return {
        "mean": float(values.mean()),
        "p50": float(p50),
        "p99": float(p99),
        "max": float(values.max()),
    }
