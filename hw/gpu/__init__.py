"""The GPU I/O die: request router and reassembly."""
