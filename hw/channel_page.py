"""Renews graphs and tables in the page of the channels: ``python -m hw.channel_page PAGE``."""

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hw.channel_graph import ChannelGraph, LinkChannel
from hw.links import GPU, HBF, HBM
from hw.params import Topology
from hw.presets import TOPOLOGIES
from hw.ucie.tables import table

BEGIN, END = "<!-- made by make docs: channels -->", "<!-- end of channels -->"
NAMES = {GPU: "GPU", HBM: "HBM", HBF: "HBF"}


def channels(topologies: Iterable[Topology] = TOPOLOGIES.values()) -> str:
    """A section for the topologies of the same links, of one pair: pairs are alike."""
    alike = defaultdict(list)
    for topology in topologies:
        alike[topology.direct, topology.relay].append(topology)
    parts = []
    for group in alike.values():
        names = " and ".join(f"`{topology.name}`" for topology in group)
        graph = ChannelGraph(replace(group[0], pairs=1))
        parts += [f"### {names}", _mermaid(graph), _table(graph)]
    return "\n\n".join(parts)


def _mermaid(graph: ChannelGraph) -> str:
    """Channels with the same waits share their lines."""
    lines = ["```mermaid", "flowchart LR"]
    ids = {channel: str(channel).replace(" ", "_") for channel in graph.channels}
    lines += [f'  {ids[channel]}["{channel}"]' for channel in graph.channels]
    shared = defaultdict(list)
    for channel, others in graph.waits.items():
        sends = tuple(other for other in others if graph.sends(channel, other))
        awaits = tuple(other for other in others if other not in sends)
        shared[sends, awaits].append(channel)
    for (sends, awaits), waiting in shared.items():
        for arrow, others in (("-->", sends), ("-.->", awaits)):
            if others:
                left, right = (" & ".join(ids[c] for c in part) for part in (waiting, others))
                lines.append(f"  {left} {arrow} {right}")
    return "\n".join([*lines, "```"])


def _table(graph: ChannelGraph) -> str:
    ranks = graph.ranks()

    def names(channel: LinkChannel, *, sends: bool) -> str:
        others = graph.waits[channel]
        return ", ".join(str(o) for o in others if graph.sends(channel, o) == sends) or "-"

    rows = [
        (
            str(ranks[channel]),
            str(channel),
            f"{NAMES[ends.sender]} to {NAMES[ends.receiver]}",
            names(channel, sends=True),
            names(channel, sends=False),
        )
        for channel, ends in sorted(graph.channels.items(), key=lambda item: ranks[item[0]])
    ]
    head = ("rank", "channel", "from, to", "until it can send on", "until there comes")
    return table(head, "rllll", rows)


def renewed(page: str) -> str:
    """``page`` with what stands between the marks made anew.

    Raises:
        ValueError: it has no such marks.
    """
    begin, end = page.find(BEGIN), page.find(END)
    if not 0 <= begin < end:
        raise ValueError(f"the page has no block of channels: {BEGIN} ... {END}")
    return f"{page[: begin + len(BEGIN)]}\n\n{channels()}\n\n{page[end:]}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text()))
