"""The result folder of a serving study: JSON, CSV, Markdown and a figure."""

import csv
import io
import json
from pathlib import Path

from hw.errors import InputError
from perfmodel.files import write_atomically
from perfmodel.report.study_plot import plot_study
from perfmodel.report.study_tables import study_markdown
from perfmodel.serving.study import Row, StudyResult

FILES = ("study.json", "capacity.csv", "runs.csv", "summary.csv", "reductions.csv", "study.md")
FIGURE = "study.png"


def write_study(result: StudyResult, out: str | Path) -> Path:
    """Write all files into folder ``out``, each whole or not at all; returns the folder.

    Raises:
        InputError: the folder cannot be written.
    """
    out = Path(out)
    texts = (
        json.dumps(result.as_dict(), indent=2) + "\n",
        *map(_csv, (result.capacity, result.runs, result.summary, result.reductions)),
        study_markdown(result),
    )
    try:
        for name, text in zip(FILES, texts, strict=True):
            write_atomically(out / name, text)
        plot_study(result, out / FIGURE)
    except OSError as error:
        raise InputError(f"out is {str(out)!r}: cannot be written: {error.strerror}") from None
    return out


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    if rows:
        table = csv.DictWriter(text, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    return text.getvalue()
