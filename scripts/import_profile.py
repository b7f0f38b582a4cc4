"""``pagewave import-profile``: measured kernel tables of an installed package, as a profile."""

from pathlib import Path
from typing import Annotated

import typer

from perfmodel.files import check_writable
from perfmodel.kernels.aiconfigurator import GPU_FOLDERS, import_tables
from perfmodel.kernels.profile_csv import write_profile_file
from scripts import console


def import_profile(
    gpu: Annotated[str, typer.Option(help=f"GPU: {', '.join(GPU_FOLDERS)}.")],
    out: Annotated[Path, typer.Option(help="Folder for the profile, one CSV a kernel.")],
) -> None:
    """Write the measured tables of aiconfigurator as a profile.

    The tables come with the package aiconfigurator-core, which has to be
    installed: pip install 'pagewave[profiles]'. They stay yours: pagewave ships none.

    Try:

    pagewave import-profile --gpu h200 --out build/profiles/h200
    """
    check_writable("out", out, folder=True)
    files = list(import_tables(gpu))
    for profile in files:
        path = out / f"{profile.kernel.NAME}.csv"
        write_profile_file(path, profile)
        console.err.print(f"wrote {path}: {len(profile.rows):,} measurements", soft_wrap=True)
