"""Claims of the serving study on scheduling, beside what a run of ours gives.

Source: "Characterizing High Bandwidth Flash for LLM Serving", section 5.2 and table 4, of Qwen3-32B
on one GPU with 25,000 turns. Its table has no cells in our text, and bandwidths, running cap,
granularity of eviction and mean output are not stated. Claims that hang on those are *sensitive*:
their difference is shown and no verdict is given. The paper does not say which hybrid its pair of
FCFS and buffered is, so that both are shown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from perfmodel.agents.study import Cell

Cells = dict[tuple[str, str], Cell]
FCFS, AWARE, BUFFERED = "fcfs", "cache-aware", "cache-aware, 10 %"
HBM, H3, SHARED = "hbm-only", "h3", "4+4"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One number of the paper.

    Attributes:
        reference: Its number in the project's list of claims.
        points: How far from the paper still agrees, in the unit of the claim; None: sensitive.
        below: The paper only says that it is less.
    """

    reference: str
    text: str
    paper: float
    unit: str
    ours: Callable[[Cells], float]
    points: float | None
    below: bool = False
    hangs_on: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim and what came out."""

    claim: Claim
    ours: float

    @property
    def verdict(self) -> str:
        """``agrees``, ``direction``, ``misses``, or for sensitive claims what they hang on."""
        if self.claim.points is None:
            return f"sensitive: {self.claim.hangs_on}"
        if self.claim.below:
            return "agrees" if self.ours < self.claim.paper else "misses"
        if abs(self.ours - self.claim.paper) <= self.claim.points:
            return "agrees"
        return "direction" if self.ours * self.claim.paper > 0 else "misses"


def _change(name: str, architecture: str, before: str, after: str) -> Callable[[Cells], float]:
    def percent(cells: Cells) -> float:
        one, other = cells[architecture, before][name], cells[architecture, after][name]
        return 100 * (float(other) / float(one) - 1)

    return percent


def _value(name: str, architecture: str, policy: str) -> Callable[[Cells], float]:
    return lambda cells: float(cells[architecture, policy][name])


_TIME, _WRITES, _LIFE = "clock_s", "hbf_written_bytes", "lifetime_years"


def _claims() -> Iterator[Claim]:
    yield Claim(
        reference="S2-050",
        text="HBM-only device hits, unbuffered",
        paper=6.61,
        unit="%",
        ours=_value("device_hits_pct", HBM, AWARE),
        points=None,
        hangs_on="granularity of eviction, gaps",
    )
    yield Claim(
        reference="S2-051",
        text="HBM-only device hits, 10 % headroom",
        paper=56.79,
        unit="%",
        ours=_value("device_hits_pct", HBM, BUFFERED),
        points=None,
        hangs_on="gaps, output lengths",
    )
    yield Claim(
        reference="S2-052",
        text="HBM-only KV writes, buffered over unbuffered (paper: less)",
        paper=0.5,
        unit="",
        ours=lambda cells: (
            cells[HBM, BUFFERED]["hbm_written_bytes"] / cells[HBM, AWARE]["hbm_written_bytes"]
        ),
        points=0.0,
        below=True,
    )
    for reference, name, paper, on in (
        ("S2-053", _WRITES, -69.33, "running cap, working set"),
        ("S2-054", _TIME, -4.68, "running cap, working set"),
    ):
        what = "HBF writes" if name == _WRITES else "time"
        yield Claim(
            reference=reference,
            text=f"H3 {what}, by the buffer",
            paper=paper,
            unit="%",
            ours=_change(name, H3, AWARE, BUFFERED),
            points=None,
            hangs_on=on,
        )
    yield Claim(
        reference="S2-055",
        text="4+4 HBF writes, by the buffer",
        paper=-91.96,
        unit="%",
        ours=_change(_WRITES, SHARED, AWARE, BUFFERED),
        points=4.0,
    )
    yield Claim(
        reference="S2-056",
        text="4+4 time, by the buffer (serial movement)",
        paper=-20.21,
        unit="%",
        ours=_change(_TIME, SHARED, AWARE, BUFFERED),
        points=4.0,
    )
    yield Claim(
        reference="S2-057",
        text="4+4 time against HBM-only, both buffered",
        paper=1.84,
        unit="%",
        ours=lambda cells: 100 * (cells[SHARED, BUFFERED][_TIME] / cells[HBM, BUFFERED][_TIME] - 1),
        points=None,
        hangs_on="HBF bandwidth, mean output",
    )
    for hybrid in (H3, SHARED):
        yield Claim(
            reference="S2-102",
            text=f"{hybrid} HBF writes, FCFS to buffered",
            paper=-94.0,
            unit="%",
            ours=_change(_WRITES, hybrid, FCFS, BUFFERED),
            points=4.0,
        )
        yield Claim(
            reference="S2-003",
            text=f"{hybrid} time, FCFS to buffered",
            paper=-23.1,
            unit="%",
            ours=_change(_TIME, hybrid, FCFS, BUFFERED),
            points=5.0,
        )
        for reference, policy, paper in (("S2-004", FCFS, 1.21), ("S2-005", BUFFERED, 14.82)):
            yield Claim(
                reference=reference,
                text=f"{hybrid} HBF lifetime, {policy}",
                paper=paper,
                unit="years",
                ours=_value(_LIFE, hybrid, policy),
                points=None,
                hangs_on="mean output, length of the run",
            )


CLAIMS = tuple(_claims())
NEEDED = tuple((arch, policy) for arch in (HBM, H3, SHARED) for policy in (FCFS, AWARE, BUFFERED))


def verdicts(cells: list[Cell]) -> list[Verdict]:
    """All claims, when all cells that they need are there; nothing else."""
    found = {(cell["architecture"], cell["policy"]): cell for cell in cells}
    if not set(NEEDED) <= set(found):
        return []
    return [Verdict(claim=claim, ours=claim.ours(found)) for claim in CLAIMS]
