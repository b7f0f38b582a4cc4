"""Functional coverage of the package bench: points, what is counted into them, and reports."""
