"""The twin: a discrete-event model of the RTL's read path, of the same mechanisms.

Each file is a mechanism of the RTL and names its block; :mod:`perfmodel.memory.twin.latencies` has
the pipeline clocks between them. Nothing here imports the RTL.
"""

from perfmodel.memory.twin.play import Times, play
from perfmodel.memory.twin.trace import Path, Read, Trace

__all__ = ["Path", "Read", "Times", "Trace", "play"]
