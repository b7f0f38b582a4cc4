# amaranth: UnusedElaboratable=no
"""The channel dependency graph: of every topology, without a cycle; cycles are found."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import pytest

from hw.channel_graph import DIES, ChannelGraph, LinkChannel, declared, link_ports
from hw.channel_page import channels, renewed
from hw.gpu.io_die import GpuIoDie
from hw.hbf.base_die import HbfBaseDie
from hw.hbm.base_die import HbmBaseDie
from hw.presets import TOPOLOGIES, preset

FORMAL = preset("formal")
PAGE = Path(__file__).parents[2] / "docs" / "channels.md"
DASH = TOPOLOGIES["dash"]


@pytest.mark.parametrize("flits", [False, True], ids=["beats", "flits"])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_no_topology_has_a_cycle(name, flits):
    graph = ChannelGraph(replace(TOPOLOGIES[name], flits=flits))
    assert graph.cycle() is None
    order = {channel: k for k, channel in enumerate(graph.order())}
    assert order.keys() == graph.channels.keys()
    for channel, others in graph.waits.items():
        assert all(order[other] < order[channel] for other in others)
        assert all(graph.ranks()[other] < graph.ranks()[channel] for other in others)
        assert all(other.pair == channel.pair for other in others)


def test_every_port_with_credits_is_in_the_graph():
    """A port that a die gains is noticed, and so is one that no longer declares its waits."""
    dies = {
        "gpu": GpuIoDie(FORMAL, pairs=1, direct=True, relay=True),
        "hbm": HbmBaseDie(FORMAL),
        "hbf": HbfBaseDie(FORMAL),
    }
    for name, die in dies.items():
        found = {}
        for path, member, _ in die.signature.flatten(die):
            if path[-1] == "credit":
                found[path[0]] = member.flow.name == "In"  # a sender gets credits
        assert found == link_ports(name)
        assert DIES[name].WAITS.keys() == {port for port, sends in found.items() if not sends}


def with_waits(die: str, port: str, *others: str) -> dict:
    """What the dies declare, and more."""
    waits = declared()
    waits[die] = MappingProxyType({**waits[die], port: (*waits[die][port], *others)})
    return waits


@pytest.mark.parametrize(
    ("planted", "parts"),
    [
        # The region of a write is taken only when it comes, behind relayed data.
        ({"hbf": ("c_write_data", "c_data"), "hbm": ("c_data", "c_write_data")},
         {"C data", "C write data"}),
        # Answers to reads, which need the link that reads hold.
        ({"hbm": ("c_data", "c_request")}, {"C data", "C request"}),
        # A completion waits for data that go the other way, and they for it.
        ({"gpu": ("direct_data", "direct_write")}, {"A data", "A write"}),
        ({"hbf": ("a_write_data", "a_reply")}, {"A write data", "A reply"}),
    ],
    ids=["writeback", "requests", "completions", "data behind grants"],
)  # fmt: skip
def test_a_planted_cycle_is_found(planted, parts):
    waits = declared()
    for die, (port, other) in planted.items():
        waits[die] = with_waits(die, port, other)[die]
    graph = ChannelGraph(DASH, waits)
    cycle = graph.cycle()
    assert cycle is not None and {str(channel) for channel in cycle} >= parts
    for channel, other in pairwise((*cycle, cycle[0])):
        assert other in graph.waits[channel]


def test_ports_that_are_not_declared_or_not_there_are_refused():
    waits = declared()
    waits["hbm"] = {"b_request": ()}
    with pytest.raises(ValueError, match="hbm die does not declare what c_data waits for"):
        ChannelGraph(DASH, waits).cycle()
    with pytest.raises(ValueError, match="nowhere, which is no port"):
        ChannelGraph(DASH, with_waits("hbm", "c_data", "nowhere")).cycle()


def test_a_wait_is_that_of_the_ports():
    """By hand: relayed data of link C wait for link B, grants for write data of their link."""
    graph = ChannelGraph(DASH)
    for pair in range(2):
        assert graph.waits[LinkChannel(pair, "C", "data")] == (LinkChannel(pair, "B", "data"),)
        for link in "AC":
            reply, data = LinkChannel(pair, link, "reply"), LinkChannel(pair, link, "write data")
            assert graph.waits[reply] == (data,)
            assert graph.sends(reply, data) and not graph.sends(
                LinkChannel(pair, link, "write"), data
            )
        assert len(graph.waits[LinkChannel(pair, "A", "request")]) == 6


def test_page_is_that_of_the_graph():
    page = PAGE.read_text()
    assert page == renewed(page), "run `make docs`"
    assert channels().count("```mermaid") == 3
    with pytest.raises(ValueError, match="no block"):
        renewed("# A page\n")
