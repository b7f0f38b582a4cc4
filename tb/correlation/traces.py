"""Random traces of reads over parameter corners, each given by its name alone.

A name says preset, topology, kind and seed, for instance ``mini-dash-stream-7``.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hw.address_map import AddressMap
from hw.errors import InputError, named
from hw.params import TRANSACTION_PAGES, Machine, Sensing, Topology
from hw.presets import preset, topology
from perfmodel.memory.twin import Path, Read, Trace
from perfmodel.memory.twin.trace import UNIT_BYTES

# Of the machine's own values: low, usual and high ones. The TSVs run at two beats a clock at most,
# a link at one.
T_READ = (1 / 3, 2 / 3, 1.0, 1.0, 5 / 3)
TSV = (0.5, 0.75, 1.0, 1.0, 1.28)
LINK = (0.5, 1.0, 1.0, 1.28)
WINDOW_WAVES = (0.25, 0.5, 1, 3)
WIDE_WAVES = (1.5, 3, 3, 6)  # enough to keep a resource busy all the time
NAND_CLOCKS = {  # now and then; they are zero on an ideal die
    "t_latch": (0, 8, 40),
    "t_rr": (0, 4, 20),
    "t_ccs": (0, 2, 12),
    "t_plane_busy": (0, 3, 30),
}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How long the traces of a preset are.

    Attributes:
        waves: Page waves of a stream, least and most.
        reads: Small reads, least and most.
    """

    waves: tuple[int, int]
    reads: tuple[int, int]


SIZES = {
    "mini": Size(waves=(10, 20), reads=(60, 240)),
    "paper": Size(waves=(3, 6), reads=(100, 400)),
}


def corner(machine: Machine, pick: Random) -> Machine:
    """The machine with registers drawn from low, usual and high values."""
    nand, tsv, link = machine.nand, machine.tsv, machine.link
    times: dict[str, float] = {"t_read_ns": nand.t_read_ns * pick.choice(T_READ)}
    if pick.random() < 0.25:
        clock_ns = 1e9 / machine.clock_hz
        times |= {
            f"{name}_ns": pick.choice(clocks) * clock_ns for name, clocks in NAND_CLOCKS.items()
        }
    return dataclasses.replace(
        machine,
        nand=dataclasses.replace(
            nand,
            **times,
            sensing=pick.choice((Sensing.INDEPENDENT,) * 3 + (Sensing.LOCKSTEP,)),
            cache_read=pick.random() < 0.7,
        ),
        tsv=dataclasses.replace(tsv, bytes_per_s=tsv.bytes_per_s * pick.choice(TSV)),
        link=dataclasses.replace(
            link, usable_bytes_per_s=link.usable_bytes_per_s * pick.choice(LINK)
        ),
    )


class _Writer:
    """What a kind of trace is written with."""

    def __init__(self, machine: Machine, joined: Topology, pick: Random) -> None:
        self.machine, self.pick, self.size = machine, pick, SIZES[machine.name]
        self.geometry, self.both = machine.geometry, joined.direct and joined.relay
        self.only = Path.DIRECT if joined.direct else Path.RELAY
        self.mode = pick.choice(("direct", "relay", "turns", "least", "least", "random"))

    def path(self, k: int) -> Path:
        """The path of read ``k``: one for all, in turns, the router's choice, or any of these."""
        if not self.both:
            return self.pick.choice((self.only, Path.LEAST_LOADED))
        match self.mode:
            case "direct":
                return Path.DIRECT
            case "relay":
                return Path.RELAY
            case "turns":
                return Path(k % 2)
            case "least":
                return Path.LEAST_LOADED
        return self.pick.choice(tuple(Path))

    def pages(self) -> int:
        """A size between one page and two waves, equally often of each magnitude."""
        most = min(2 * self.geometry.wave_pages, TRANSACTION_PAGES)
        return min(most, max(1, round(most ** self.pick.random())))

    def anywhere(self, pages: int) -> int:
        return self.pick.randrange(self.geometry.stack_pages - pages + 1)

    def waves(self) -> int:
        """Pages of a whole trace."""
        return self.pick.randint(*self.size.waves) * self.geometry.wave_pages


def _stream(w: _Writer) -> list[Read]:
    """Requests of one size that follow each other."""
    wave = w.geometry.wave_pages
    sizes = [wave // 4, wave // 2, wave, w.pages()]
    pages = max(min(w.pick.choice(sizes), TRANSACTION_PAGES), wave // 16)
    count = max(2, w.waves() // pages)
    first = w.anywhere(count * pages)
    return [Read(first=first + k * pages, pages=pages, path=w.path(k)) for k in range(count)]


def _scattered(w: _Writer) -> list[Read]:
    """Requests of any size anywhere."""
    left, reads = w.waves(), list[Read]()
    while left > 0:
        pages = w.pages()
        reads.append(Read(first=w.anywhere(pages), pages=pages, path=w.path(len(reads))))
        left -= pages
    return reads


def _hot(w: _Writer) -> list[Read]:
    """Requests to a few planes, whose subarrays all wait for."""
    g, at = w.geometry, AddressMap(w.geometry)
    planes = w.pick.choice([n for n in (1, 2, 4, 8) if n < g.planes])
    begin = w.pick.randrange(0, g.planes, planes)
    rows = min(g.rows, w.pick.randint(*w.size.waves))  # pages of each subarray
    row = w.pick.randrange(g.rows - rows + 1)
    runs = at.plane_runs(range(begin, begin + planes), range(row, row + rows))
    return [Read(first=r.first, pages=r.pages, path=w.path(k)) for k, r in enumerate(runs)]


def _paced(w: _Writer) -> list[Read]:
    """Requests of any size anywhere, at random times, below and above what the stack can do."""
    machine, reads, now = w.machine, list[Read](), 0.0
    paths = 2 if w.both else 1
    share = w.pick.uniform(0.1, 1.2)
    clocks = machine.clock_hz * w.geometry.page_bytes / machine.steady_bound_bytes_per_s(paths)
    left = w.waves()
    while left > 0:
        pages = w.pages()
        read = Read(first=w.anywhere(pages), pages=pages, path=w.path(len(reads)), at=int(now))
        reads.append(read)
        now += w.pick.expovariate(1.0) * pages * clocks / share
        left -= pages
    return reads


def _small(w: _Writer) -> list[Read]:
    """Pieces of a page and single pages, at once or at random times."""
    units = w.geometry.page_bytes // UNIT_BYTES
    gap, now, reads = w.pick.choice((0, 0, 2, 20)), 0.0, list[Read]()
    for k in range(w.pick.randint(*w.size.reads)):
        wanted = w.pick.randrange(1, units) if w.pick.random() < 0.8 else 0
        offset = w.pick.randrange(units - wanted + 1) if wanted else 0
        first = w.anywhere(1)
        reads.append(
            Read(first=first, pages=1, path=w.path(k), at=int(now), offset=offset, units=wanted)
        )
        now += w.pick.expovariate(1.0) * gap
    return reads


KINDS: dict[str, Callable[[_Writer], list[Read]]] = {
    "stream": _stream,
    "scattered": _scattered,
    "hot": _hot,
    "paced": _paced,
    "small": _small,
}
SATURATING = ("stream", "hot")
# How often each comes: at least half of all traces shall saturate what limits them.
DRAWN = (*("stream",) * 5, *("hot",) * 4, "scattered", "scattered", "paced", "small")


def trace_of(name: str) -> Trace:
    """The trace of that name.

    Raises:
        InputError: the name does not say a preset, a topology, a kind and a seed.
    """
    parts = name.split("-")
    if len(parts) < 4 or not parts[-1].isdecimal():
        raise InputError(f"trace {name!r}: must be PRESET-TOPOLOGY-KIND-SEED")
    machine_name, joined_name, kind = parts[0], "-".join(parts[1:-2]), parts[-2]
    named("preset of a trace", machine_name, SIZES)
    write = named("kind of trace", kind, KINDS)
    joined = topology(joined_name)
    pick = Random(f"trace/{name}")
    machine = corner(preset(machine_name), pick)
    waves = pick.choice(WIDE_WAVES if kind in SATURATING else WINDOW_WAVES)
    window = round(waves * machine.geometry.wave_pages * joined.pairs)
    reads = write(_Writer(machine, joined, pick))
    return Trace(
        machine=machine,
        topology=joined,
        reads=tuple(reads),
        window_pages=window,
        drain_whole_region=pick.random() < 0.15,
    )


def names(machine_name: str, joined: tuple[str, ...], *, count: int, seed: int) -> list[str]:
    """Names of ``count`` traces of a preset, over topologies in turn and kinds at random."""
    pick = Random(f"names/{machine_name}/{seed}")
    return [
        f"{machine_name}-{joined[k % len(joined)]}-{pick.choice(DRAWN)}-{seed + k}"
        for k in range(count)
    ]
