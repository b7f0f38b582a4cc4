# amaranth: UnusedElaboratable=no
"""What the GPU I/O die and the HBM base die declare to wait for, against what stands still.

The HBF base die, which is larger, is in :mod:`tests.tb.test_channels`.
"""

import pytest

from hw.gpu.io_die import GpuIoDie
from hw.hbm.base_die import HbmBaseDie
from hw.hbm.dram.stacks import stack
from hw.presets import preset
from tb.channel_probe import GpuHbmProbe, GpuProbe, HbmProbe
from tests.formal.variants import variant
from tests.hw.channel_bench import stand_still

FORMAL = preset("formal")
PAIRS = 2
HBM = {"machine": FORMAL, "clocks": 400, "still": 150}


def declared(component: type) -> set[tuple[str, str]]:
    return {(port, other) for port, others in component.WAITS.items() for other in others}


def measured(found: dict[str, set[str]]) -> set[tuple[str, str]]:
    return {(port, blocked) for blocked, ports in found.items() for port in ports}


def test_hbm_die_waits_for_what_it_declares_and_nothing_else():
    found, sent = stand_still(HbmBaseDie(FORMAL), HbmProbe, blocked=["", *HbmProbe.OUTPUTS], **HBM)
    assert found[""] == set()
    assert min(sent[""].values()) > 10
    assert measured(found) == declared(HbmBaseDie)


def test_gpu_die_waits_for_what_it_declares_and_no_pair_for_another():
    blocked = ["", *(f"{port}__0" for port in GpuProbe.OUTPUTS)]
    found, sent = stand_still(
        GpuIoDie(FORMAL, pairs=PAIRS, direct=True, relay=True),
        GpuProbe,
        FORMAL,
        blocked,
        clocks=300,
        still=120,
        pairs=PAIRS,
    )
    assert found[""] == set()
    assert min(sent[""].values()) > 3
    assert measured(found) == {(f"{port}__0", f"{o}__0") for port, o in declared(GpuIoDie)}


def test_gpu_die_with_hbm_stacks_waits_for_nothing_more():
    blocked = ["", *(f"{port}__0" for port in GpuHbmProbe.OUTPUTS)]
    found, sent = stand_still(
        GpuIoDie(FORMAL, pairs=1, direct=True, relay=True, hbm=stack("formal")),
        GpuHbmProbe,
        FORMAL,
        blocked,
        clocks=300,
        still=120,
        pairs=1,
        stack=stack("formal"),
    )
    assert found[""] == set()
    assert min(sent[""].values()) > 3
    assert measured(found) == {(f"{port}__0", f"{o}__0") for port, o in declared(GpuIoDie)}


@pytest.mark.parametrize(
    ("edits", "extra"),
    [
        (
            # Grants wait behind relayed data.
            (
                "writer.rate.eq(self.link_rate)",
                "writer.rate.eq(self.link_rate & ~relay.occupied.all().replicate(17))",
            ),
            ("c_reply", "b_data"),
        ),
        (
            # Relayed data wait behind requests to write.
            (
                "relay.rate.eq(self.link_rate)",
                "relay.rate.eq(self.link_rate & self.writeback.ready.replicate(17))",
            ),
            ("c_data", "c_write"),
        ),
    ],
    ids=["grants behind data", "data behind requests"],
)
def test_a_planted_wait_is_found(edits, extra):
    die = variant(HbmBaseDie, edits)(FORMAL)
    found, _ = stand_still(die, HbmProbe, blocked=[extra[1]], **HBM)
    assert extra in measured(found) - declared(HbmBaseDie)
