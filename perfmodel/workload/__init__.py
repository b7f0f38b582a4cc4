"""Workloads: sessions of turns from traces or from statistics, and what caches could reuse."""

from perfmodel.workload.formats.session_lines import write_trace
from perfmodel.workload.load import read_trace
from perfmodel.workload.prefix import block_hits, session_hits
from perfmodel.workload.summary import summarise
from perfmodel.workload.synthetic import AgenticStatistics, synthetic_agentic
from perfmodel.workload.trace import MOST_TOKENS, Blocks, Trace
from perfmodel.workload.transform import (
    arrive_at_once,
    arrive_poisson,
    extend,
    poisson_times_s,
    replicate,
)

__all__ = [
    "MOST_TOKENS",
    "AgenticStatistics",
    "Blocks",
    "Trace",
    "arrive_at_once",
    "arrive_poisson",
    "block_hits",
    "extend",
    "poisson_times_s",
    "read_trace",
    "replicate",
    "session_hits",
    "summarise",
    "synthetic_agentic",
    "write_trace",
]
