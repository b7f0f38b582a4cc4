"""Benches: the NAND model and checkers around the RTL, the simulators that run them."""
