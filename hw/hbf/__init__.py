"""The HBF base die: schedulers, TSV fill, drains and the die that joins them."""
