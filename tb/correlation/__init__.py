"""The same random traces on RTL and twin, read by read."""

from tb.correlation.compare import Compared, misses, report
from tb.correlation.run import correlate
from tb.correlation.traces import names, trace_of

__all__ = ["Compared", "correlate", "misses", "names", "report", "trace_of"]
