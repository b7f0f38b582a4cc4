"""Saved views of waveforms: what to look at in a package, for GTKWave and for Surfer."""

from pathlib import Path

from vcd.gtkw import GTKWSave

from tb.views.header import Names, names
from tb.views.signals import Groups, groups

__all__ = ["write_views"]

_ZOOM = -9.0  # a thousand pixels show about a thousand clocks of 500 ps


def write_views(vcd: Path) -> list[Path]:
    """Write a GTKWave save file and a Surfer command file beside ``vcd``.

    ``vcd`` shows :class:`tb.memory_system.MemorySystem` or :class:`hw.package.Package` in any
    topology; only its header is read. Open them with ``gtkwave NAME.gtkw`` and with
    ``surfer NAME.vcd --command-file NAME.sucl``.

    Raises:
        InputError: the waveform shows no package, or lacks a signal of the view.
    """
    known = names(vcd)
    shown = groups(known)
    return [_gtkwave(vcd, known, shown), _surfer(vcd, shown)]


def _gtkwave(vcd: Path, known: Names, shown: Groups) -> Path:
    file = vcd.with_suffix(".gtkw")
    with file.open("w") as text:
        save = GTKWSave(text)
        save.dumpfile(str(vcd))
        save.size(1600, 1000)
        save.signals_width(400)
        save.zoom_markers(_ZOOM)
        for group, signals in shown.items():
            with save.group(group):
                for name in signals:
                    save.trace(f"{name}{known.variables[name]}", alias=_label(name))
    return file


def _surfer(vcd: Path, shown: Groups) -> Path:
    file = vcd.with_suffix(".sucl")
    lines = []
    for group, signals in shown.items():
        lines.append(f"divider_add {group.replace(' ', '_')}")  # its argument is a single word
        lines += [f"variable_add {name}" for name in signals]
    file.write_text("\n".join([*lines, "zoom_fit"]) + "\n")
    return file


def _label(name: str) -> str:
    """Without the scopes that all signals share; GTKWave would cut a name at its dots."""
    return name.removeprefix("top.").removeprefix("package.").replace(".", "/")
