"""What benches of several blocks need: beats that tell who they are, and parts side by side."""

from amaranth.hdl import Module


def side_by_side(*parts) -> Module:
    """A top that holds parts which the bench drives one by one."""
    m = Module()
    m.submodules += parts
    return m


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
