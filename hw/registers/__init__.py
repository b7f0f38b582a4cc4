"""Registers of the HBF base die, described once in SystemRDL."""
