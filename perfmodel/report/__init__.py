"""Result folders and figures."""

from perfmodel.report.folder import write_folder
from perfmodel.report.plots import plot_topologies
from perfmodel.report.study_folder import write_study

__all__ = ["plot_topologies", "write_folder", "write_study"]
