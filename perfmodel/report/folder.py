"""The result folder of a serving run: ``result.json`` and ``requests.csv``."""

import csv
import io
import json
import math
from pathlib import Path

from hw.errors import InputError
from perfmodel.files import write_atomically
from perfmodel.serving.run import ServeResult

_COLUMNS = (
    "request",
    "status",
    "arrival_s",
    "input_len",
    "output_len",
    "ttft_ms",
    "tpot_ms",
    "e2el_ms",
    "reason",
)


def write_folder(result: ServeResult, out: str | Path) -> Path:
    """Write both files into folder ``out``, each whole or not at all; returns the folder.

    Raises:
        InputError: the folder cannot be written.
    """
    out = Path(out)
    try:
        write_atomically(out / "requests.csv", _requests_csv(result))
        write_atomically(out / "result.json", json.dumps(result.values, indent=2) + "\n")
    except OSError as error:
        raise InputError(f"out is {str(out)!r}: cannot be written: {error.strerror}") from None
    return out


def _requests_csv(result: ServeResult) -> str:
    outcome = result.outcome
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    for index, request in enumerate(outcome.requests):
        row: list[object] = [index, "completed", request.arrival_s, request.input_len]
        row.append(request.output_len)
        if math.isnan(outcome.finish_s[index]):
            row[1] = "rejected"
            table.writerow([*row, "", "", "", outcome.rejected[index]])
            continue
        ttft_s = float(outcome.first_token_s[index]) - request.arrival_s
        e2el_s = float(outcome.finish_s[index]) - request.arrival_s
        gaps = request.output_len - 1
        tpot_ms = repr(1e3 * (e2el_s - ttft_s) / gaps) if gaps else ""
        table.writerow([*row, 1e3 * ttft_s, tpot_ms, 1e3 * e2el_s, ""])
    return text.getvalue()
