"""What public models of HBF published, and the cases that set the RTL beside them.

Rates are of one stack. Sources: OpenHBX, README of github.com/gystar/OpenHBF at 4e6ef42 and, for
16 banks, at f39e9ce; HBFSim, docs/guides/design-space.md of github.com/FlashLab-MBZUAI/HBFSim at
e9ddd1c, whose rates are of four stacks; Ramulator 2.1 (c5b1c3a) with the planes of
github.com/Shivanshmittal023/h3-hbf-sim (55fd005), run on the wave of `paper`.
"""

from dataclasses import dataclass

from hw.params import Machine, Sensing
from hw.presets import preset

HBFSIM_STACKS = 4
# Beyond sensing, HBFSim's published runs take this long. Fitted: 2.28 to 2.38 us in five of six.
HBFSIM_REST_NS = 2_300.0


@dataclass(frozen=True, kw_only=True)
class OneShot:
    """Pages that are all asked for at once.

    Attributes:
        waves: Pages a bank.
        peer_sum: Where the peer's time goes, in nanoseconds.
    """

    id: str
    peer: str
    title: str
    machine: Machine
    waves: int
    peer_bytes_per_s: float
    peer_sum: str


@dataclass(frozen=True, kw_only=True)
class Sustained:
    """Reads without end.

    Attributes:
        limit: What limits them.
        peer_bytes_per_s: The peer's figure or its closed form, if it has one.
    """

    id: str
    peer: str
    title: str
    machine: Machine
    limit: str
    peer_bytes_per_s: float | None


_OPENHBX = preset("openhbx")
_OPENHBX_TSV_TBPS = _OPENHBX.tsv.bytes_per_s / 1e12
# 16 channels of 16 banks are the silicon of HBFSim's grade 2.
_OPENHBX_16 = preset("hbfsim-g2").with_registers(t_read_us=0.011, tsv_tbps=_OPENHBX_TSV_TBPS)
_G1, _G2 = preset("hbfsim-g1"), preset("hbfsim-g2")
_G3 = _G2.with_registers(tsv_tbps=16 * 0.192)
_RAMULATOR = preset("ramulator-hbf")
_OVERLAPPED = _RAMULATOR.with_registers(sensing=Sensing.INDEPENDENT, cache_read=True)

# Grade, machine, pages a bank, and GB/s of four stacks at tR 4, 2 and 1 us.
_HBFSIM = (
    ("g1", "8 x 16 banks, 48 GB/s a channel", _G1, 8, (488, 914, 1300)),
    ("g2", "16 x 16 banks, 96 GB/s a channel", _G2, 4, (917, 1628, 2347)),
    ("g3", "16 x 16 banks, 192 GB/s a channel", _G3, 4, (918, 1631, 2355)),
)


def _hbfsim_shots() -> list[OneShot]:
    return [
        OneShot(
            id=f"{grade}, tR {t_read_us} us",
            peer="HBFSim",
            title=f"HBFSim, {geometry}",
            machine=machine.with_registers(t_read_us=t_read_us),
            waves=waves,
            peer_bytes_per_s=gbps * 1e9 / HBFSIM_STACKS,
            peer_sum=_hbfsim_sum(machine, waves, t_read_us, gbps),
        )
        for grade, geometry, machine, waves, figures in _HBFSIM
        for t_read_us, gbps in zip((4, 2, 1), figures, strict=True)
    ]


def _hbfsim_sum(machine: Machine, waves: int, t_read_us: int, gbps: int) -> str:
    """Sensing back to back, and what is left of the published figure."""
    ns = waves * machine.geometry.wave_bytes * HBFSIM_STACKS / gbps
    return f"{waves} x {1000 * t_read_us:,} + {ns - waves * 1000 * t_read_us:,.0f}"


ONE_SHOTS = (
    OneShot(
        id="A1",
        peer="OpenHBX",
        title="OpenHBX, 16 x 256 banks, 216 GB/s a channel",
        machine=_OPENHBX,
        waves=1,
        peer_bytes_per_s=1888.475e9,
        peer_sum="4,001 + 256 x 19 + 19",
    ),
    OneShot(
        id="A1b",
        peer="OpenHBX",
        title="OpenHBX, 16 x 16 banks, 216 GB/s a channel, tR 11 ns",
        machine=_OPENHBX_16,
        waves=1,
        peer_bytes_per_s=3139.449e9,
        peer_sum="11 + 16 x 19 + 19",
    ),
    *_hbfsim_shots(),
    OneShot(
        id="A3c, 1 wave",
        peer="Ramulator-HBF",
        title="Ramulator-HBF, 32 x 64 planes, 32 GB/s a channel, one register",
        machine=_RAMULATOR,
        waves=1,
        peer_bytes_per_s=755e9,
        peer_sum="3,000 + 8,111",
    ),
    *(
        OneShot(
            id=f"A3c, 4 waves{how}",
            peer="Ramulator-HBF",
            title=title,
            machine=machine,
            waves=4,
            peer_bytes_per_s=731e9,
            peer_sum="4 x (3,000 + 8,475)",
        )
        for how, title, machine in (
            ("", "the same", _RAMULATOR),
            (", overlapped", "the same with two registers and independent sensing", _OVERLAPPED),
        )
    ),
)


def _hbfsim_streams() -> list[Sustained]:
    streams = []
    for grade, geometry, machine, _, _ in _HBFSIM:
        for t_read_us in (4, 2, 1):
            of = machine.with_registers(t_read_us=t_read_us)
            array = of.geometry.wave_bytes / (t_read_us * 1e-6)
            limit = "sensing" if array < of.tsv.bytes_per_s else "TSVs"
            streams.append(
                Sustained(
                    id=f"{grade}, tR {t_read_us} us",
                    peer="HBFSim",
                    title=f"HBFSim, {geometry}",
                    machine=of,
                    limit=limit,
                    peer_bytes_per_s=None,
                )
            )
    return streams


SUSTAINED = (
    Sustained(
        id="A1",
        peer="OpenHBX",
        title="OpenHBX, 16 x 256 banks, one register a bank",
        machine=_OPENHBX.with_registers(cache_read=False),
        limit="TSVs",
        peer_bytes_per_s=16 * 4096 / 19e-9,
    ),
    Sustained(
        id="A1, usual links",
        peer="OpenHBX",
        title="the same behind two links of 1.6 TB/s",
        machine=_OPENHBX.with_registers(cache_read=False, link_tbps=1.6),
        limit="links",
        peer_bytes_per_s=16 * 4096 / 19e-9,
    ),
    *_hbfsim_streams(),
    Sustained(
        id="A3c",
        peer="Ramulator-HBF",
        title="Ramulator-HBF, 32 x 64 planes, one register, a wave at a time",
        machine=_RAMULATOR,
        limit="sensing, then TSVs",
        peer_bytes_per_s=731e9,
    ),
    Sustained(
        id="A3c, overlapped",
        peer="Ramulator-HBF",
        title="the same with two registers and independent sensing",
        machine=_OVERLAPPED,
        limit="TSVs",
        peer_bytes_per_s=731e9,
    ),
)
