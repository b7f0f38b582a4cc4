"""Small traces by hand, and their comparison."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from perfmodel.workload import Blocks, Trace

ARRAYS = ("first_turn", "start_s", "gap_s", "input_tokens", "prefix_tokens", "output_tokens")
BLOCK_ARRAYS = ("shared", "first_new", "new_ids")


@pytest.fixture
def file(tmp_path):
    """Writes a trace file, gzip if asked, and returns its path."""

    def write(text: str, *, packed: bool = False) -> Path:
        path = tmp_path / ("trace.gz" if packed else "trace")
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return path

    return write


@pytest.fixture
def make_trace():
    """A trace from lists: a session is a list of (gap_s, input, prefix, output)."""

    def make(sessions, *, start_s=None, blocks=None, block_tokens=4, **fields) -> Trace:
        """``blocks`` has (shared, new ids) for each turn."""
        turns = np.array([turn for session in sessions for turn in session], float)
        hashes = None
        if blocks is not None:
            hashes = Blocks(
                block_tokens=block_tokens,
                shared=np.array([shared for shared, _ in blocks], np.int64),
                first_new=np.cumsum([0] + [len(ids) for _, ids in blocks]),
                new_ids=np.array([i for _, ids in blocks for i in ids], np.int64),
            )
        values = {
            "source": "by hand",
            "session_ids": tuple(f"s{at}" for at in range(len(sessions))),
            "first_turn": np.cumsum([0] + [len(session) for session in sessions]),
            "start_s": np.array(start_s or [0.0] * len(sessions)),
            "gap_s": turns[:, 0],
            "input_tokens": turns[:, 1].astype(np.int64),
            "prefix_tokens": turns[:, 2].astype(np.int64),
            "output_tokens": turns[:, 3].astype(np.int64),
            "blocks": hashes,
        }
        return Trace(**values | fields)

    return make


@pytest.fixture
def content():
    """All that a trace holds, as plain values that compare."""

    def values(trace: Trace) -> dict:
        found = {name: getattr(trace, name).tolist() for name in ARRAYS}
        found |= {"source": trace.source, "sessions": trace.session_ids}
        found |= {"skipped": dict(trace.skipped), "blocks": None}
        if trace.blocks is not None:
            found["blocks"] = {name: getattr(trace.blocks, name).tolist() for name in BLOCK_ARRAYS}
            found["blocks"]["tokens"] = trace.blocks.block_tokens
        return found

    return values
