"""Result folders and figures."""

from perfmodel.report.folder import write_folder
from perfmodel.report.plots import plot_topologies

__all__ = ["plot_topologies", "write_folder"]
