"""How all figures look, and how one is titled and written."""

from pathlib import Path
from typing import Any

import matplotlib.figure

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e5e5e5",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.framealpha": 1.0,
    "legend.edgecolor": "white",
    "svg.hashsalt": "pagewave",
}


def finish(figure: matplotlib.figure.Figure, title: str, path: str | Path, *, dpi: int) -> Path:
    """Give ``figure`` its title and write it; the format follows the suffix of ``path``.

    An SVG says nothing of its date, so that the same results give the same file.
    """
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    path = Path(path)
    figure.savefig(path, dpi=dpi, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path
