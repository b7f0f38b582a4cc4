"""cocotb test modules; they run inside a simulator, started by :mod:`tb.simulator`."""
