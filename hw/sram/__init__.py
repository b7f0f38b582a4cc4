"""SRAM: macro wrappers, beat-wide rows of banks, and the banked transfer regions."""
