"""The HBM base die: relay router with its two regions."""
