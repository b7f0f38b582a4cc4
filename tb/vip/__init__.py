"""Verification parts: NAND model, checkers and monitors, as RTL so that they run at full size."""
