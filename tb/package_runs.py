"""Random runs of the package: what to play, and what came of it.

This side runs outside the simulator; :mod:`tb.benches.package` plays the plan inside.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hw.errors import InputError
from hw.hbm.relay import most_early_pages
from hw.package import Package
from hw.params import NAND_TIME_BITS, RATE_BITS, Credits, Machine, Sensing, Sram, Topology
from hw.presets import PRESETS, topology
from hw.registers.hbf import hbf_resets
from hw.sram.macro import VERILOG_MODELS, MacroPlatform
from tb.settings import RelayModes
from tb.simulator import Design, Simulator, build, run
from tb.vip.probes import probes

PLAN = "PAGEWAVE_PACKAGE_PLAN"

# The least in which the subarrays of a die share planes and blocks have several pages. Fewer pages
# in a stack would leave bits of page numbers constant, which Verilator refuses.
_FORMAL = PRESETS["formal"]
SMALL = dataclasses.replace(
    _FORMAL,
    name="small",
    geometry=dataclasses.replace(
        _FORMAL.geometry, subarrays=2, pages_per_block=4, blocks_per_subarray=16
    ),
    sram=Sram(hbf_region_bytes=2048, relay_region_bytes=1024, bank_bytes=16),
    credits=Credits(rx_beats=16, descriptors=4, writes=4),
)
CHECKED = dataclasses.replace(
    SMALL, name="checked", sram=dataclasses.replace(SMALL.sram, relay_ecc=True)
)
MACHINES = {
    machine.name: machine for machine in (SMALL, CHECKED, PRESETS["formal"], PRESETS["mini"])
}

# One pair has the links of `compact`, so that is what it is called here; `dash` has its two pairs.
PAIRS = {"compact": 1, "direct-only": 1, "relay-only": 1, "dash": 2}


def links(name: str, *, flits: bool = False) -> Topology:
    """The topology as the package bench builds it."""
    return dataclasses.replace(topology(name), pairs=PAIRS[name], flits=flits)


def package_design(machine: Machine, joined: Topology) -> Design:
    """The package alone, with the signals that the bench looks at."""
    return Design(
        component=Package,
        params={"machine": machine, "topology": joined},
        platform=MacroPlatform(),
        sources=VERILOG_MODELS,
        probes=probes(machine, joined),
    )


@dataclass(frozen=True, kw_only=True)
class PackageRun:
    """A run of random reads and writes.

    Attributes:
        machine, topology: Names, see :data:`MACHINES` and :data:`PAIRS`.
        flits: The links carry flits of UCIe.
        seed: Of everything random in the bench.
        reads, writes: Requests, of all ports together.
        registers: Fields of the register map that differ from the machine's own values.
        relay: Inputs of the package that say how the relay buffers forward, all 0 if not given.
        switch_relay: Change them at random times.
        mix: Shares of the traffic that differ from those of :class:`tb.vip.traffic.Mix`.
        program_failures, erase_failures: Share of the programs and erases that fail.
        injections: Bit errors planted in the transfer regions.
        switch_collection: Turn the background collection off and on.
        link_resets: Resets of links at random times, which must carry flits.
        fault: A fault of the NAND that the bench must find, see :mod:`tb.vip.stack`.
        coverage: Count what was covered.
    """

    machine: str = "small"
    topology: str = "compact"
    flits: bool = False
    seed: int = 1
    reads: int = 100
    writes: int = 100
    registers: dict[str, int] = field(default_factory=dict)
    relay: dict[str, int] = field(default_factory=dict)
    switch_relay: bool = False
    mix: dict[str, float] = field(default_factory=dict)
    program_failures: float = 0.0
    erase_failures: float = 0.0
    injections: int = 0
    switch_collection: bool = False
    link_resets: int = 0
    fault: str | None = None
    coverage: bool = True

    def __post_init__(self) -> None:
        for what, value, known in (
            ("machine", self.machine, MACHINES),
            ("topology", self.topology, PAIRS),
        ):
            if value not in known:
                raise InputError(f"{what} {value!r} is unknown: choose {', '.join(known)}")
        if self.link_resets and not self.flits:
            raise InputError(f"link_resets is {self.link_resets!r}: needs links that carry flits")
        if (self.relay or self.switch_relay) and not links(self.topology).relay:
            raise InputError(
                f"relay is {self.relay!r} and switch_relay {self.switch_relay!r}: topology "
                f"{self.topology!r} has no relay path"
            )
        unknown = self.relay.keys() - RelayModes().inputs().keys()
        if unknown:
            raise InputError(f"relay has {', '.join(sorted(unknown))}: is no input of the package")
        for what in ("reads", "writes", "injections", "link_resets"):
            if getattr(self, what) < 0:
                raise InputError(f"{what} is {getattr(self, what)!r}: must not be negative")

    def with_registers(self) -> Machine:
        """The machine with the run's registers."""
        return machine_with(MACHINES[self.machine], self.registers)


def machine_with(machine: Machine, registers: dict[str, int]) -> Machine:
    """The machine whose own values of these registers are these."""
    clock_ns = 1e9 / machine.clock_hz
    nand: dict[str, Any] = {
        f"{name}_ns": clocks * clock_ns
        for name, clocks in registers.items()
        if name in NAND_TIME_BITS
    }
    if "cache_read" in registers:
        nand["cache_read"] = bool(registers["cache_read"])
    if "lockstep" in registers:
        nand["sensing"] = Sensing.LOCKSTEP if registers["lockstep"] else Sensing.INDEPENDENT
    beats_per_s = machine.link.beat_bytes * machine.clock_hz / 2**RATE_BITS
    tsv, link = machine.tsv, machine.link
    if "tsv_rate" in registers:
        rate = registers["tsv_rate"] * beats_per_s * machine.geometry.dies
        tsv = dataclasses.replace(tsv, bytes_per_s=rate)
    if "link_rate" in registers:
        rate = registers["link_rate"] * beats_per_s
        link = dataclasses.replace(link, usable_bytes_per_s=rate)
    changed = dataclasses.replace(machine.nand, **nand)
    return dataclasses.replace(machine, nand=changed, tsv=tsv, link=link)


def random_registers(seed: int, machine: Machine) -> dict[str, int]:
    """Times, rates and modes: each of zero or small, usual and long, and every mode on or off."""
    pick = Random(f"registers/{seed}")
    own = hbf_resets(machine)
    return {
        "t_read": pick.choice((1, 12, 12, 60)),
        "t_latch": pick.choice((0, 0, 3)),
        "t_program": pick.choice((1, 40, 150)),
        "t_erase": pick.choice((1, 60, 400)),
        "t_suspend": pick.choice((1, 5, 20)),
        "t_wb": pick.choice((0, 0, 3, 50)),
        "t_rr": pick.choice((0, 0, 2)),
        "t_adl": pick.choice((0, 0, 6)),
        "t_ccs": pick.choice((0, 0, 4)),
        "t_plane_busy": pick.choice((0, 0, 5)),
        "tsv_rate": own["tsv_rate"] // pick.choice((1, 1, 2, 8)),
        "link_rate": own["link_rate"] // pick.choice((1, 1, 2, 6)),
        "cache_read": pick.choice((0, 1, 1)),
        "lockstep": pick.choice((0, 0, 0, 1)),
        "drain_whole_region": pick.choice((0, 0, 1)),
        "hold_until_programmed": pick.choice((0, 1)),
        "suspend_enable": pick.choice((0, 1, 1)),
        "collect_enable": pick.choice((0, 1, 1)),
        "suspend_slice": pick.choice((1, 10, 60)),
        "poll_clocks": pick.choice((1, 5, 40)),
    }


def random_relay(random: Random, machine: Machine) -> dict[str, int]:
    """Both switches of the relay buffers, off or on."""
    early = random.choice((0, random.randint(1, most_early_pages(machine))))
    return RelayModes(cut_through=random.random() < 0.5, early_pages=early).inputs()


def random_run(seed: int, **changes: Any) -> PackageRun:
    """A run whose registers, failures and bit errors follow from its seed, but for ``changes``."""
    registers = random_registers(seed, MACHINES[changes.get("machine", "small")])
    pick = Random(f"run/{seed}")
    drawn: dict[str, Any] = {
        "program_failures": pick.choice((0.0, 0.02, 0.1)),
        "erase_failures": pick.choice((0.0, 0.02, 0.1)),
        "injections": pick.choice((0, 10, 40)),
    }
    if links(changes.get("topology", "compact")).relay:
        machine = MACHINES[changes.get("machine", "small")]
        drawn["relay"] = random_relay(Random(f"relay/{seed}"), machine)
        drawn["switch_relay"] = seed % 2 == 0
    drawn |= changes
    drawn["registers"] = registers | changes.get("registers", {})
    return PackageRun(seed=seed, **drawn)


def play_package(what: PackageRun, simulator: Simulator = Simulator.VERILATOR) -> dict[str, Any]:
    """Play a run and return the bench's report.

    Raises:
        BenchFailed: something was wrong; the message has the command that repeats the run.
    """
    design = package_design(MACHINES[what.machine], links(what.topology, flits=what.flits))
    result = run(
        build(design, simulator),
        "tb.benches.package",
        seed=what.seed,
        env={PLAN: json.dumps(dataclasses.asdict(what))},
    )
    report = json.loads((result.directory / "report.json").read_text())
    report["directory"] = str(result.directory)
    return report
