"""The command ``pagewave``: one verb for each thing that the model does."""

import importlib.metadata
import sys
from typing import Annotated

import typer

from hw.errors import InputError
from scripts.agents import agents
from scripts.calibrate import calibrate
from scripts.cells import cells
from scripts.correlate import correlate
from scripts.demo import demo
from scripts.fit_kernels import fit_kernels
from scripts.generate import generate
from scripts.import_profile import import_profile
from scripts.kernel import kernel
from scripts.lookahead import lookahead
from scripts.measure import measure
from scripts.profile_gpu import profile_gpu
from scripts.serve import serve
from scripts.simulate import simulate
from scripts.sweep import sweep
from scripts.trace import trace

app = typer.Typer(
    name="pagewave",
    help="High-bandwidth flash as GPU main memory: RTL, its measured timing, and serving on it.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"pagewave {importlib.metadata.version('pagewave')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


for verb in (
    simulate, calibrate, measure, correlate, cells,
    generate, serve, sweep, agents, trace, lookahead,
    kernel, import_profile, fit_kernels, profile_gpu,
    demo,
):  # fmt: skip
    app.command()(verb)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Wrong input, be it a trace, a configuration or an option, ends in one line on stderr and
    status 2; anything else that goes wrong is a defect and shows its traceback. An interrupt ends
    with status 130.

    Args:
        arguments: What follows the command's name, by default on the real command line; nothing
            shows the help.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    try:
        status: int | None = app(
            arguments or ["--help"], prog_name="pagewave", standalone_mode=False
        )
        return status or 0
    except InputError as error:
        message = str(error)
    except typer.TyperException as error:
        message = error.format_message()
    except (KeyboardInterrupt, typer.Abort):
        return 130
    print("pagewave: error:", " ".join(message.split()), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
