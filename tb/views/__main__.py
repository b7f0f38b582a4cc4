"""``python -m tb.views VCD...``: tells the waveforms and writes views of those of a package."""

import sys
from pathlib import Path

from tb.views import write_views
from tb.views.header import names
from tb.views.signals import shows_package


def main(arguments: list[str]) -> None:
    for vcd in map(Path, arguments):
        print(vcd)
        for file in write_views(vcd) if shows_package(names(vcd)) else ():
            print(file)


if __name__ == "__main__":
    main(sys.argv[1:])
