"""What benches of several blocks need: beats that tell who they are, and fewer settings."""

from amaranth.hdl import Module, Signal


def side_by_side(*parts) -> Module:
    """A top that holds parts which the bench drives one by one."""
    m = Module()
    m.submodules += parts
    return m


def clocked(part) -> Module:
    """A top with a clock, for a part that needs none."""
    m = side_by_side(part)
    m.d.sync += Signal(name="ticks").eq(1)
    return m


class Quiet:
    """A simulation context that sets only what changes: the simulator settles after every set.

    It takes whole members of an interface, which are the same objects every time.
    """

    def __init__(self, ctx):
        self._ctx, self._last = ctx, {}
        self.get, self.tick = ctx.get, ctx.tick

    def set(self, signal, value) -> None:
        _, last = self._last.get(id(signal), (signal, None))
        if value != last:
            self._last[id(signal)] = (signal, value)
            self._ctx.set(signal, value)


def set_lanes(ctx, port, beat: int) -> None:
    """Fill the lanes of a beat with words that tell beat and lane."""
    for k, lane in enumerate(port.lanes):
        ctx.set(lane, beat << 8 | k)


def get_lanes(ctx, port) -> int:
    """The beat that :func:`set_lanes` wrote; fails if a lane is not of that beat."""
    words = [ctx.get(lane) for lane in port.lanes]
    beat = words[0] >> 8
    assert words == [beat << 8 | k for k in range(len(words))], f"lanes are mixed up: {words}"
    return beat
