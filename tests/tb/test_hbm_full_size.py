"""The HBM controller at full size: its rates against the peak of the pins and closed forms."""

import itertools

import pytest

from hw.hbm.dram.address import HbmAddressMap
from hw.hbm.dram.stacks import stack
from tb.hbm_reference import ReferenceChannel, random_places
from tb.hbm_runs import (
    ChannelRun,
    StackRun,
    channel_build,
    play_channels,
    play_stack,
    stack_build,
)
from tb.measurements.hbm import activate_bound
from tb.vip.hbm_traffic import Pattern

LEAST_SEQUENTIAL = 0.9

pytestmark = pytest.mark.slow


def clean(result) -> None:
    assert result.errors == 0
    assert result.recorded > 1000
    assert not result.violations, "\n".join(map(str, result.violations[:10]))


@pytest.mark.parametrize("name", ["hbm3e-9200", "hbm3-6400"])
@pytest.mark.parametrize("writes", [False, True])
def test_all_channels_stream_at_ninety_percent_of_the_pins(verilator, name, writes):
    run = StackRun(requests=512, length=64, write_share=256 * writes, record=1024)
    result = play_stack(stack_build(stack(name), verilator), run)
    clean(result)
    assert result.ended == 512
    assert result.of_peak >= LEAST_SEQUENTIAL


@pytest.mark.parametrize("name", ["hbm3e-9200", "hbm3-6400"])
def test_random_reads_come_close_to_four_activates_in_tfaw(verilator, name):
    which = stack(name)
    run = ChannelRun(reads=1500, pattern=Pattern.RANDOM, record=4096)
    result = play_channels(channel_build(which, 1, verilator), run)
    clean(result)
    bound = activate_bound(which)
    assert 0.9 * bound < result.bytes_per_s <= 1.001 * bound


@pytest.mark.parametrize("window", [8, 64])
@pytest.mark.parametrize("pattern", [Pattern.SEQUENTIAL, Pattern.RANDOM])
def test_the_reference_model_has_the_same_rates(verilator, window, pattern):
    which, reads = stack("hbm3e-9200"), 600
    at = HbmAddressMap(which)
    if pattern is Pattern.RANDOM:
        places = itertools.islice(random_places(which, 0, 1), reads)
    else:
        places = (at.place(k << at.channel_bits) for k in range(reads))
    reference = ReferenceChannel(which, window).bytes_per_s(places)
    run = ChannelRun(reads=reads, pattern=pattern, window=window, record=8192)
    result = play_channels(channel_build(which, 1, verilator), run)
    clean(result)
    assert 0.85 < result.bytes_per_s / reference < 1.02
