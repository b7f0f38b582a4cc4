"""The hardware: machine description and synthesizable RTL of the HBF and HBM base dies."""
