"""Modules that are converted once and placed many times.

Amaranth writes a module for every instance. Sixteen dies then take sixteen times as long to
convert, to read and to compile as one. With a platform that collects modules, :func:`shared` places
an instance of a module that is converted once; without one it is the component itself.
"""

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Elaboratable, Instance, ResetSignal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

_PORTS = ("clk", "rst")


class ModuleCollector:
    """Conversion target that keeps the text of shared modules beside that of the top.

    Attributes:
        modules: RTLIL by module name.
    """

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self._parameters: dict[str, str] = {}

    def place(self, name: str, component: wiring.Component) -> Instance:
        """An instance of ``component``, which is converted as module ``name`` at its first time.

        Raises:
            ValueError: another component has that name.
        """
        parameters = repr((type(component), _parameters(component)))
        if self._parameters.setdefault(name, parameters) != parameters:
            raise ValueError(f"module {name!r} would stand for components of different parameters")
        if name not in self.modules:
            text = rtlil.convert(component, name=name, platform=self, emit_src=False)
            self.modules[name] = text
        wires = self.modules[name]
        ports: dict[str, Value] = {}
        for path, member, value in component.signature.flatten(component):
            kind = "i" if member.flow is In else "o"
            ports[f"{kind}_{'__'.join(map(str, path))}"] = Value.cast(value)
        head = wires[wires.index(f"module \\{name}\n") :]
        head = head[: head.index("\nend\n")]
        for port, signal in zip(_PORTS, (ClockSignal(), ResetSignal()), strict=True):
            if f" \\{port}\n" in head:
                ports[f"i_{port}"] = signal
        return Instance(name, **ports)


class _Shared(Elaboratable):
    def __init__(self, name: str, component: wiring.Component) -> None:
        self._name, self._component = name, component

    def elaborate(self, platform) -> Elaboratable | Instance:
        if isinstance(platform, ModuleCollector):
            return platform.place(self._name, self._component)
        return self._component


def shared(name: str, component: wiring.Component) -> Elaboratable:
    """``component`` as a submodule that shares module ``name`` with others of its kind.

    All components of one name must have the same class and parameters.
    """
    return _Shared(name, component)


def _parameters(component: wiring.Component) -> dict[str, object]:
    """What its constructor kept; interface members are no parameters."""
    members = component.signature.members
    return {
        name: value
        for name, value in vars(component).items()
        if name.startswith("_") and name.lstrip("_") not in members and "__" not in name
    }
