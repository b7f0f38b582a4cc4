# amaranth: UnusedElaboratable=no
"""What the machine description refuses, and with which words; what it never lets through."""

import dataclasses
import math
import re
from fractions import Fraction
from typing import Any

import pytest
from amaranth.hdl import Fragment
from hypothesis import given
from hypothesis import strategies as st

from hw.errors import InputError
from hw.package import Package
from hw.params import Machine, Topology
from hw.presets import PRESETS, preset, topology

INF, NAN = math.inf, math.nan


def changed(machine: Machine, **fields: Any) -> Machine:
    """``machine`` with other values; ``link__lanes`` is the field ``lanes`` of its ``link``."""
    groups: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for path, value in fields.items():
        group, _, name = path.rpartition("__")
        (groups.setdefault(group, {}) if group else own)[name] = value
    for group, values in groups.items():
        own[group] = dataclasses.replace(getattr(machine, group), **values)
    return dataclasses.replace(machine, **own)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clock_hz", 0.0),
        ("clock_hz", NAN),
        ("clock_hz", INF),
        *((f"geometry__{name}", 3) for name in ("dies", "planes", "subarrays")),
        *((f"geometry__{name}", 1) for name in ("dies", "planes", "page_bytes", "pages_per_block")),
        ("geometry__subarrays", 0),
        ("geometry__dies", 16.0),
        ("geometry__page_bytes", 8192),
        ("geometry__page_bytes", 32),
        ("geometry__pages_per_block", 255),
        ("geometry__blocks_per_subarray", 0),
        *(
            (f"nand__t_{name}_ns", value)
            for name in ("read", "program", "erase")
            for value in (0.0, -1.0, NAN, INF)
        ),
        ("nand__t_read_ns", 2**20 / 2),
        *(("tsv__bytes_per_s", value) for value in (0.0, 4.0961e12, NAN, INF)),
        ("link__modules", 3),
        ("link__lanes", 0),
        ("link__gt_per_s", -64.0),
        *(("link__usable_bytes_per_s", value) for value in (0.0, 2.0481e12, NAN, INF)),
        ("link__beat_bytes", 1000),
        ("link__beat_bytes", 2048),
        ("link__beat_bytes", 32),
        ("link__flit_bytes", 4),
        ("link__one_way_cycles", 1),
        ("link__one_way_cycles", 65),
        ("sram__hbf_regions", 1),
        ("sram__relay_regions", 3),
        ("sram__bank_groups", 8),
        ("sram__hbf_region_bytes", 2**22),
        ("sram__hbf_region_bytes", 2**23 + 1),
        ("sram__relay_region_bytes", 2**12),
        ("sram__relay_region_bytes", 2**24),
        ("sram__bank_bytes", 4),
        ("sram__bank_bytes", 2048),
        ("sram__ecc_data_bits", 0),
        ("sram__ecc_check_bits", 0),
        ("credits__rx_beats", 2),
        ("credits__rx_beats", 65),
        ("credits__descriptors", 1),
        ("hbm__stack_bytes", 0),
        ("hbm__data_bits", 0),
        ("hbm__pin_gbit_per_s", NAN),
        ("hbm__pseudo_channels", -1),
    ],
)
def test_bad_field_is_named_in_one_line(field: str, value: float) -> None:
    group, _, name = field.rpartition("__")
    owner = type(getattr(preset("paper"), group)) if group else Machine
    where = f"{owner.__name__}.{name} is {value!r}: "
    with pytest.raises(InputError, match=f"^{re.escape(where)}[^\\n]+$"):
        changed(preset("paper"), **{field: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pairs": 0}, r"Topology\.pairs is 0: must be 1 to 8"),
        ({"pairs": 9}, r"Topology\.pairs is 9: must be 1 to 8"),
        ({"direct": False, "relay": False}, r"Topology\.direct is False: needs direct or relay"),
    ],
)
def test_bad_topology_is_named_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}[^\\n]*$"):
        Topology(**({"name": "x", "pairs": 2, "direct": True, "relay": True} | fields))


def test_wave_that_outgrows_its_region_names_the_region() -> None:
    with pytest.raises(InputError, match=r"^Sram\.hbf_region_bytes is 8388608: .*16777216 B$"):
        changed(preset("paper"), geometry__dies=32)


@pytest.mark.parametrize(
    ("find", "kind", "choices"),
    [
        (preset, "preset", tuple(PRESETS)),
        (topology, "topology", ("dash", "compact", "relay-only", "direct-only")),
    ],
)
def test_unknown_name_is_answered_with_the_choices(
    find: Any, kind: str, choices: tuple[str, ...]
) -> None:
    message = f"^{kind} 'papers' is unknown: choose {', '.join(choices)}$"
    with pytest.raises(InputError, match=message):
        find("papers")


powers = st.sampled_from([2**k for k in range(13)])


@st.composite
def any_machine(draw: st.DrawFn) -> Machine | None:
    """A machine of random size, consistent but for one random field; None if it is refused."""
    beat = draw(st.sampled_from([32, 64, 128, 256, 1024]))
    dies, planes = draw(st.sampled_from([2, 4, 16])), draw(st.sampled_from([2, 8, 32]))
    subarrays = draw(st.sampled_from([1, 2, 4]))
    wave = dies * planes * subarrays * 4 * beat
    fields: dict[str, Any] = {
        "geometry__dies": dies,
        "geometry__planes": planes,
        "geometry__subarrays": subarrays,
        "geometry__page_bytes": 4 * beat,
        "link__modules": 1,
        "link__lanes": beat // 4,
        "link__beat_bytes": beat,
        "link__usable_bytes_per_s": draw(st.floats(0.01, 1.1)) * beat * 2e9,
        "tsv__bytes_per_s": draw(st.floats(0.01, 2.1)) * beat * 2e9,
        "nand__t_read_ns": draw(st.floats(0.1, 6e5)),
        "sram__hbf_region_bytes": wave,
        "sram__relay_region_bytes": wave // draw(st.sampled_from([1, 2, 4, dies * planes])),
        "sram__bank_bytes": draw(st.sampled_from([8, 16, 64])),
    }
    if draw(st.integers(0, 3)) == 0:
        fields[draw(st.sampled_from(sorted(fields)))] = draw(powers)
    try:
        return changed(preset("mini"), **fields)
    except InputError:
        return None


@given(any_machine())
def test_accepted_machine_is_consistent(machine: Machine | None) -> None:
    if machine is None:
        return
    g, beat = machine.geometry, machine.link.beat_bytes
    assert machine.lanes * 8 == beat
    assert machine.lanes % (machine.sram.bank_bytes // 8) == 0
    assert machine.page_beats * beat == g.page_bytes
    assert beat % 64 == 0  # the header counts in units of 64 bytes
    assert g.wave_pages * 4 * beat == machine.sram.hbf_region_bytes
    assert machine.relay_chunk_pages * g.page_bytes == machine.sram.relay_region_bytes
    assert 2 <= machine.relay_chunk_pages <= g.wave_pages
    assert 0 < machine.link_beats_per_clock <= 1
    assert 0 < machine.tsv_beats_per_clock_per_die * g.dies <= 2
    clocks = Fraction(machine.nand.t_read_ns) * 2
    assert clocks <= machine.t_read_cycles < clocks + 1
    assert machine.t_read_cycles.bit_length() <= 20  # the register


def test_random_machines_are_often_accepted() -> None:
    accepted = []

    @given(any_machine())
    def draw(machine: Machine | None) -> None:
        accepted.append(machine is not None)

    draw()
    assert 20 <= sum(accepted) < len(accepted)


@pytest.mark.parametrize(
    "fields",
    [
        {"sram__relay_region_bytes": 512, "geometry__blocks_per_subarray": 1},
        {"sram__relay_region_bytes": 1024, "link__one_way_cycles": 3},
        {"sram__bank_bytes": 8, "credits__rx_beats": 4},
        {"sram__bank_bytes": 64},
    ],
    ids=str,
)
def test_smallest_accepted_machines_can_be_built(fields: dict[str, Any]) -> None:
    machine = changed(preset("formal"), **fields)
    Fragment.get(Package(machine, topology("compact")), None)
