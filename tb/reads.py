"""Runs of reads, and of writes beside them: what to ask of the RTL.

This side runs outside the simulator; :mod:`tb.benches.read` plays the plan inside.
"""

import dataclasses
import random
from dataclasses import dataclass, field

from hw.address_map import AddressMap
from hw.errors import InputError
from hw.gpu.router import Choice
from hw.hbf.layouts import MAX_PAGES, Registers
from hw.params import Machine, Topology
from hw.registers.description import Kind
from hw.registers.hbf import hbf_description, hbf_resets
from hw.ucie.transaction import ADDRESS_UNIT_BYTES
from tb.settings import Faults, Modes, RelayModes
from tb.writes import LINKS, WriteRequest

ROUTES = ("direct", "relay", "dual", "auto")
LISTED = "listed"  # the route of a run whose requests are given one by one
REQUESTS_PER_WAVE = 4  # two MiB of each stack at full size
WINDOW_WAVES = 3  # outstanding on a path: sensing, filling, draining
COUNTERS = [field.name for field in hbf_description().fields if field.kind is Kind.COUNTER]
BLOCK_PARTS = ("die", "subarray", "block")  # how a block query names a block
IDLE_CYCLES = 64  # after reset, before the first request
SHOWN = (  # status of the register map, as it is
    "max_cycles",
    "ecc_first_valid",
    "ecc_first_uncorrected",
    "ecc_first_address",
    "ecc_first_word",
    "ecc_first_syndrome",
)


@dataclass(frozen=True, kw_only=True)
class ReadRun:
    """A run of reads over one route.

    Attributes:
        machine: A preset, its registers set for this run.
        topology: Links and stack pairs.
        route: ``direct`` or ``relay`` for all requests; ``dual`` for Direct and Relay in turn,
            divided so that both finish together; ``auto`` for the router's own choice, the path
            with less outstanding.
        waves: Page waves to read from every stack.
        request_pages: Pages of each stack that one request asks for.
        pages: Pages to read from every stack, where that is less than ``waves``; 0 for all.
        scatter: Requests start at random pages instead of following each other.
        seed: Of the addresses.
        stall: Of 256 clocks, how many the consumers are not ready, per path.
        corrupt: Flip a bit of every beat the NAND returns.
        listed: First page, pages and path of each request, in order, in place of what ``route``
            (then ``listed``), ``waves`` and ``request_pages`` describe. A path takes up to
            ``WINDOW_WAVES`` of them ahead.
        sample_cycles: Clocks between samples of a run's progress; 0 for none.
        piece_bytes: Each request reads a piece of this size within one page, anywhere in the run's
            pages, in place of ``request_pages``; as many as there are pages. 0 for whole pages.
        planes: That the reads keep to, in as many more rows; ``None`` for all.
        writes: Sent beside the reads, each port in order.
        refused: Reads asked for in the end that must be refused: first page, pages, and offset and
            length of the piece in address units.
        blocks: Erase blocks to ask every stack about in the end: die, its subarray, block of that.
        writes_first: Reads begin when all writes have been answered, at row 0, where writes are.
        modes: Of the HBF base die.
        relay: Of the HBM base die; other than the usual ones only if the topology has link C.
        faults: Of the NAND and of the SRAM.
    """

    machine: Machine
    topology: Topology
    route: str = LISTED
    waves: int = 0
    request_pages: int = 0
    pages: int = 0
    scatter: bool = False
    seed: int = 1
    stall: tuple[int, int] = (0, 0)
    corrupt: bool = False
    listed: tuple[tuple[int, int, Choice], ...] = ()
    sample_cycles: int = 0
    piece_bytes: int = 0
    planes: range | None = None
    writes: tuple[WriteRequest, ...] = ()
    refused: tuple[tuple[int, int, int, int], ...] = ()
    blocks: tuple[tuple[int, int, int], ...] = ()
    writes_first: bool = False
    modes: Modes = field(default_factory=Modes)
    relay: RelayModes = field(default_factory=RelayModes)
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        for k, write in enumerate(self.writes):
            write.check(f"writes[{k}]", self.machine, self.topology)
        self._check_blocks()
        self.relay.check(self.machine)
        if self.relay != RelayModes() and not self.topology.relay:
            raise InputError(
                f"relay is {self.relay!r}: topology {self.topology.name!r} has no relay path"
            )
        if self.sample_cycles < 0:
            raise InputError(f"sample_cycles is {self.sample_cycles!r}: must be 0 or more")
        if self.route == LISTED or self.listed:
            self._check_listed()
            return
        if self.route not in ROUTES:
            raise InputError(f"route {self.route!r} is unknown: choose {', '.join(ROUTES)}")
        have = {"direct": self.topology.direct, "relay": self.topology.relay}
        missing = [name for name, there in have.items() if not there]
        if missing and self.route in (*missing, "dual", "auto"):
            raise InputError(
                f"route {self.route!r} needs the {missing[0]} path, which topology "
                f"{self.topology.name!r} does not have"
            )
        rows = self.machine.geometry.rows
        if not 1 <= self.waves <= rows:
            raise InputError(f"waves is {self.waves!r}: must be 1 to {rows}, what a stack holds")
        page = self.machine.geometry.page_bytes
        if self.piece_bytes % ADDRESS_UNIT_BYTES or not 0 <= self.piece_bytes < page:
            raise InputError(
                f"piece_bytes is {self.piece_bytes!r}: must be a multiple of {ADDRESS_UNIT_BYTES} "
                f"and less than a page of {page}"
            )
        if self.piece_bytes:
            object.__setattr__(self, "request_pages", 1)
        if not self.request_pages:
            default = max(1, self.machine.geometry.wave_pages // REQUESTS_PER_WAVE)
            object.__setattr__(self, "request_pages", default)
        if not 1 <= self.request_pages <= MAX_PAGES:
            raise InputError(f"request_pages is {self.request_pages!r}: must be 1 to {MAX_PAGES}")
        most = self.waves * self.machine.geometry.wave_pages
        if not 0 <= self.pages <= most:
            raise InputError(f"pages is {self.pages!r}: must be 0 to {most}, that of the waves")

    def _check_blocks(self) -> None:
        g = self.machine.geometry
        sizes = (g.dies, g.subarrays_per_die, g.blocks_per_subarray)
        for asked in self.blocks:
            for name, value, size in zip(BLOCK_PARTS, asked, sizes, strict=True):
                if not 0 <= value < size:
                    raise InputError(
                        f"block {':'.join(map(str, asked))} has {name} {value!r}: must be 0 to "
                        f"{size - 1}"
                    )

    def _check_listed(self) -> None:
        g = self.machine.geometry
        if self.route != LISTED or not self.listed:
            raise InputError(
                f"route is {self.route!r} and {len(self.listed)} requests are listed: a list of "
                f"requests goes with route {LISTED!r}, and only with that"
            )
        have = {Choice.DIRECT: self.topology.direct, Choice.RELAY: self.topology.relay}
        for k, (first, pages, choice) in enumerate(self.listed):
            if not 1 <= pages <= MAX_PAGES:
                raise InputError(f"listed[{k}] has pages {pages!r}: must be 1 to {MAX_PAGES}")
            if not 0 <= first <= g.stack_pages - pages:
                raise InputError(
                    f"listed[{k}] has first {first!r}: must be 0 to {g.stack_pages - pages}, so "
                    f"that its {pages} pages lie in the stack"
                )
            if not have.get(choice, True):
                raise InputError(
                    f"listed[{k}] has path {choice.name}, which topology {self.topology.name!r} "
                    "does not have"
                )
        pages = sum(pages for _, pages, _ in self.listed)
        object.__setattr__(self, "waves", -(-pages // g.wave_pages))

    @property
    def paths(self) -> int:
        """Read paths of the topology."""
        return self.topology.direct + self.topology.relay

    @property
    def wave_bytes(self) -> int:
        """Bytes of one page wave over all stacks."""
        return self.machine.geometry.wave_bytes * self.topology.pairs

    def requests(self) -> list[tuple[int, int, Choice]]:
        """First page, pages and path of each request, in order."""
        if self.listed:
            return list(self.listed)
        g = self.machine.geometry
        pick = random.Random(f"reads/{self.seed}")
        if self.planes is not None and len(self.planes) < g.planes:
            return self._of_planes(self.planes, pick)
        left = self.pages or self.waves * g.wave_pages
        sizes = [self.request_pages] * (left // self.request_pages)
        if left % self.request_pages:
            sizes.append(left % self.request_pages)
        if self.scatter:
            starts = [pick.randrange(g.stack_pages - size + 1) for size in sizes]
        else:
            row = 0 if self.writes_first else pick.randrange(g.rows - self.waves + 1)
            first = row * g.wave_pages
            starts = list(range(first, first + left, self.request_pages))
        return list(zip(starts, sizes, self._choices(len(sizes)), strict=True))

    def _of_planes(self, planes: range, pick: random.Random) -> list[tuple[int, int, Choice]]:
        g, at = self.machine.geometry, AddressMap(self.machine.geometry)
        if self.waves * g.planes % len(planes):
            raise InputError(
                f"waves is {self.waves!r}: must fill whole rows of {len(planes)} planes"
            )
        count = self.waves * g.planes // len(planes)
        if not 1 <= count <= g.rows:
            raise InputError(f"waves is {self.waves!r}: too many for {len(planes)} planes")
        row = 0 if self.writes_first else pick.randrange(g.rows - count + 1)
        runs = at.split(at.plane_runs(planes, range(row, row + count)), self.request_pages)
        choices = self._choices(len(runs))
        return [(run.first, run.pages, choice) for run, choice in zip(runs, choices, strict=True)]

    def pieces(self) -> list[tuple[int, int]]:
        """Offset and length of each request in its page, in address units; none for whole pages."""
        if not self.piece_bytes:
            return []
        pick = random.Random(f"pieces/{self.seed}")
        units = self.piece_bytes // ADDRESS_UNIT_BYTES
        room = self.machine.geometry.page_bytes // ADDRESS_UNIT_BYTES - units
        return [(pick.randrange(room + 1), units) for _ in self.requests()]

    def _choices(self, count: int) -> list[Choice]:
        if self.route != "dual":
            one = {"direct": Choice.DIRECT, "relay": Choice.RELAY, "auto": Choice.LEAST_LOADED}
            return [one[self.route]] * count
        direct, relay = Choice.DIRECT, Choice.RELAY
        choices = [relay if k % 2 else direct for k in range(count)]
        # Store and forward makes Relay one chunk later than Direct. Half a chunk that changes over
        # at the end makes both finish together.
        late = round(self.machine.relay_chunk_pages / 2 / self.request_pages)
        late = 0 if self.relay.cut_through else late
        relayed = [k for k, choice in enumerate(choices) if choice == relay]
        for k in relayed[1:][-late:] if late else []:
            choices[k] = direct
        return choices

    def plan(self) -> dict:
        """What the bench needs to know, as JSON-ready values."""
        machine, g = self.machine, self.machine.geometry
        return {
            "clock_hz": machine.clock_hz,
            "registers": {
                name: value
                for name, value in hbf_resets(machine).items()
                if name in Registers().members
            },
            "pairs": self.topology.pairs,
            "relay": self.relay.inputs() if self.topology.relay else {},
            "sideband": self.topology.sideband,
            "faults": self.faults.nand(),
            "inject": self.faults.sram(),
            "writes": {
                port: [
                    (write.payload(k), write.barrier)
                    for k, write in enumerate(self.writes)
                    if write.port == port
                ]
                for port, path in LINKS.items()
                if getattr(self.topology, path)
            },
            "writes_first": self.writes_first,
            "controls": self.modes.registers(machine),
            "read_back": [*COUNTERS, "ecc_corrected", "ecc_uncorrected", *SHOWN],
            "window": WINDOW_WAVES * g.wave_pages * self.topology.pairs,
            "stall": self.stall,
            "corrupt": int(self.corrupt),
            "requests": self.requests(),
            "pieces": self.pieces(),
            "refused": self.refused,
            "blocks": self.blocks,
            "preset": machine.name,
            "timeout_cycles": self._timeout_cycles(),
            "idle_cycles": IDLE_CYCLES,
            "sample_cycles": self.sample_cycles,
            "paths": self.paths,
            "sources": self.paths * self.topology.pairs,
        }

    def _timeout_cycles(self) -> int:
        machine = self.machine
        # As if nothing overlapped, sensing took its time for every wave, and consumers were slow.
        slowest = min(machine.link.usable_bytes_per_s, machine.tsv.bytes_per_s)
        wave = machine.geometry.wave_bytes / slowest * machine.clock_hz
        slow = 256 / (256 - max(self.stall))
        senses = sum(
            -(-pages // machine.geometry.wave_pages) + 1 for _, pages, _ in self.requests()
        )
        cycles = machine.nand_cycles
        # Pages of one subarray are programmed one after the other, with suspends in between.
        rows = -(-sum(write.pages for write in self.writes) // machine.geometry.dies)
        writing = rows * (cycles["t_erase"] + 8 * (cycles["t_program"] + cycles["t_suspend"]))
        return int(
            20_000 + 4 * slow * wave * (self.waves + 2) + senses * machine.t_read_cycles + writing
        )


def with_pairs(topology: Topology, pairs: int) -> Topology:
    """The same links with another number of stack pairs."""
    return dataclasses.replace(topology, pairs=pairs)
