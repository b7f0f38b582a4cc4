"""Serving agent sessions over a hierarchy of HBM, HBF, DRAM and SSD."""
