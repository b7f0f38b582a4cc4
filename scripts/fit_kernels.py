"""``pagewave fit-kernels``: rooflines from profiles, with errors at points left out."""

from pathlib import Path
from typing import Annotated

import typer

from hw.errors import InputError
from perfmodel.files import check_writable
from perfmodel.kernels.fits import load_fits, save_fits
from perfmodel.kernels.profile_csv import read_profile
from perfmodel.kernels.refit import refit
from perfmodel.kernels.report import error_section
from scripts import console
from tb.measurements import find_pages, renew_page
from tb.measurements.report import Section


def fit_kernels(
    profiles: Annotated[list[Path], typer.Argument(help="Profiles: folders, one a GPU, or files.")],
    out: Annotated[Path, typer.Option(help="File for the fits (JSON).")],
    docs: Annotated[
        Path | None, typer.Option(help="Page whose marked block takes the table of errors.")
    ] = None,
) -> None:
    """Fit a roofline to every kernel of a profile.

    Half of the shapes is left out of each fit, and the errors there are kept with
    it, beside those of interpolating the profile itself.

    Try:

    pagewave import-profile --gpu h200 --out build/profiles/h200

    pagewave fit-kernels build/profiles/h200 --out build/fits.json
    """
    check_writable("out", out)
    if docs is not None:
        find_pages([docs], ["kernels"])
        check_writable("docs", docs)
    files = [file for path in profiles for file in read_profile(path)]
    seen = set()
    for file in files:
        if (file.gpu, file.kernel.NAME) in seen:
            raise InputError(f"{file.gpu} {file.kernel.NAME}: is in two of the profiles")
        seen.add((file.gpu, file.kernel.NAME))
    fits = refit(files, lambda line: console.err.print(line, soft_wrap=True, highlight=False))
    save_fits(fits, out)
    console.err.print(f"wrote {out}", soft_wrap=True)
    if docs is not None:
        sections: list[Section] = [error_section(load_fits(out))]
        renew_page(docs, sections)
        console.err.print(f"wrote {docs}", soft_wrap=True)
