# amaranth: UnusedElaboratable=no
"""Sizes of a link, from a machine and by hand."""

import dataclasses

import pytest

from hw.errors import InputError
from hw.presets import preset
from hw.ucie.flit import LATENCY_OPTIMISED, STANDARD
from hw.ucie.link_end import Channel, LinkEnd
from hw.ucie.link_shape import LinkShape, link_shape, wire_cycles


def test_full_size_is_four_flits_of_256_bytes_over_four_modules():
    shape = link_shape(preset("paper"))
    assert (shape.flits, shape.group_bytes, shape.slots) == (4, 1024, 62)
    assert (shape.modules, shape.module_lanes, shape.lanes) == (4, 64, 128)
    assert shape.flit_format == LATENCY_OPTIMISED
    assert link_shape(preset("paper"), STANDARD).slots == 60
    assert wire_cycles(preset("paper")) == 2


@pytest.mark.parametrize("name", ["mini", "formal"])
def test_small_machines_have_the_same_parts(name):
    shape = link_shape(preset(name))
    assert (shape.flits, shape.group_bytes, shape.slots) == (2, 96, 5)
    assert shape.modules * shape.module_lanes * 4 == shape.group_bytes  # four intervals a clock
    # The paced rate of beats passes.
    assert shape.beats_a_clock >= preset(name).link_beats_per_clock


def test_what_is_no_whole_number_of_flits_is_refused():
    machine = preset("paper")
    odd = dataclasses.replace(machine, link=dataclasses.replace(machine.link, flit_bytes=96))
    with pytest.raises(InputError, match=r"Link\.flit_bytes is 96: 1024 bytes pass in a clock"):
        link_shape(odd)


def test_links_whose_answers_come_after_the_timeout_are_refused():
    """375 flit times of four a clock are 94 clocks, 6 of them in the blocks, so 44 are each way."""
    machine = preset("paper")

    def long(cycles):
        link = dataclasses.replace(machine.link, one_way_cycles=cycles)
        return link_shape(dataclasses.replace(machine, link=link))

    assert long(44).training_clocks > 44 - 4
    with pytest.raises(InputError, match=r"Link\.one_way_cycles is 45: must be at most 44"):
        long(45)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"depth": 0}, "c must be at least 1, not 0"), ({"chunked": True}, "c is chunked")],
)
def test_channels_that_cannot_be_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        Channel(**{"name": "c", "depth": 1} | fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"page_room": 0}, "page_room must be at least 1, not 0"),
        ({"pipeline": 0}, "pipeline must be 1 to 3, not 0"),
        ({"queue_beats": 8}, "queue_beats must be at least page_room, 12, not 8"),
        ({"lanes": 32}, "slots must be 2 to 18"),
    ],
)
def test_shapes_that_cannot_be_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(link_shape(preset("paper")), **fields)


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        ((), "sends must be 1 to 4 channels, not 0"),
        (tuple(Channel(name=f"c{k}", depth=1) for k in range(5)), "not 5"),
        (tuple(Channel(name=f"c{k}", depth=1, lanes=128) for k in range(2)), "more than one"),
        ((Channel(name="c", depth=1, lanes=64),), "channel c must be 0 or 128, .* not 64"),
        (
            (Channel(name="c", depth=1), Channel(name="c", depth=2)),
            "two channels of one name: c, c",
        ),
    ],
    ids=["none", "five", "two of beats", "other beats", "one name"],
)
def test_channels_that_do_not_fit_are_refused(channels, words):
    shape: LinkShape = link_shape(preset("paper"))
    with pytest.raises(ValueError, match=words):
        LinkEnd(shape=shape, sends=channels, receives=(Channel(name="c", depth=1),))
