"""What becomes of the RTL in synthesis: cells, counted block by block."""
