"""How the bytes of one stage reach the GPU, over the paths that a topology has.

Two kinds of data are told apart. *Experts* are whole: each takes one path (DASH paper, VI-E), and
while both paths are busy together they share the dual rate of the HBF stacks. Everything else is
*divisible* and is spread so that all paths finish together. Relayed and HBM-local data share
link B. Rates are those of a package: every object is striped over all its stack pairs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hw.params import Topology
from perfmodel.memory.timing import MemoryTiming
from perfmodel.memory.traffic import Traffic

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ExpertDelivery:
    """Delivery of the experts of one layer.

    The first byte arrives after ``start_s``; the last ``transfer_s`` later.
    """

    start_s: float
    transfer_s: float
    direct_experts: int
    relay_experts: int
    traffic: Traffic

    @property
    def seconds(self) -> float:
        return self.start_s + self.transfer_s


class Delivery:
    """The paths of one package."""

    def __init__(self, topology: Topology, timing: MemoryTiming) -> None:
        pairs = topology.pairs
        self.topology, self.timing = topology, timing
        self.direct_rate = pairs * timing.direct.bytes_per_s if topology.direct else 0.0
        self.relay_rate = pairs * timing.relay.bytes_per_s if topology.relay else 0.0
        alone = self.direct_rate + self.relay_rate
        # One path alone is always a choice, so two are never slower.
        best_single = max(self.direct_rate, self.relay_rate)
        self.hbf_rate = min(alone, max(pairs * timing.dual_bytes_per_s, best_single))
        self.slowdown = alone / self.hbf_rate  # of each path while both are busy
        self.link_b_rate = pairs * timing.gpu_hbm_link_bytes_per_s
        self.hbm_rate = min(self.link_b_rate, pairs * timing.hbm_local_bytes_per_s)
        spare = self.direct_rate + min(self.relay_rate, self.link_b_rate - self.hbm_rate)
        self._replica_hbf_rate = min(self.hbf_rate, spare)

    # Divisible data -----------------------------------------------------------------------------

    def from_hbm(self, size: int) -> tuple[float, Traffic]:
        """Time and traffic of data that only HBM holds."""
        return size / self.hbm_rate, Traffic(hbm_local=size)

    def from_hbf(self, size: int) -> tuple[float, Traffic]:
        """Time and traffic of divisible data that only HBF holds."""
        seconds, direct = self.read(np.array([size], np.int64), np.zeros(1, np.int64))
        return float(seconds[0]), Traffic(direct=int(direct[0]), relay=size - int(direct[0]))

    def replicated(self, size: int) -> tuple[float, Traffic]:
        """Time and traffic of data that both memories hold: HBM at its full rate, HBF the rest."""
        seconds = size / (self.hbm_rate + self._replica_hbf_rate)
        hbf = round(seconds * self._replica_hbf_rate)
        direct = min(hbf, round(seconds * self.direct_rate))
        return seconds, Traffic(direct=direct, relay=hbf - direct, hbm_local=size - hbf)

    def read(self, hbf: Ints, hbm: Ints) -> tuple[Floats, Ints]:
        """Time to read ``hbf`` and ``hbm`` bytes at once, and the bytes that go Direct.

        Direct takes what it can in that time and Relay the rest, so that link B is left to
        HBM-local data as far as possible. The time is the largest of the bounds set by each
        resource: HBF stacks, both HBF routes, all links to the GPU, and HBM.
        """
        seconds = np.maximum.reduce(
            [
                hbf / self.hbf_rate,
                (hbf + hbm) / (self.direct_rate + self.link_b_rate),
                hbm / self.hbm_rate,
            ]
        )
        direct = np.minimum(hbf, np.rint(seconds * self.direct_rate).astype(np.int64))
        if not self.topology.relay:
            direct = hbf.copy()
        return seconds, direct

    # Whole experts ------------------------------------------------------------------------------

    def experts(
        self, count: int, expert_bytes: int, shared_bytes: int, hidden_s: float
    ) -> ExpertDelivery:
        """Deliver ``count`` routed experts and, if it has bytes, one shared block.

        The best of all assignments is taken: how many experts go Direct, and where the shared
        block.

        Args:
            count: distinct experts.
            expert_bytes: bytes of one expert.
            shared_bytes: bytes of the shared expert block, moved as one more item; 0 for none.
            hidden_s: how much of the first-byte latency earlier work hides.
        """
        direct = np.arange(count + 1) if self.topology.relay else np.array([count])
        if not self.topology.direct:
            direct = np.array([0])
        places = (1, 0) if self.topology.direct else (0,)
        if not shared_bytes or not self.topology.relay:
            places = places[:1]
        best: ExpertDelivery | None = None
        for shared_direct in places:
            found = self._best_count(
                direct, count, expert_bytes, shared_bytes, shared_direct, hidden_s
            )
            if best is None or found.seconds < best.seconds:
                best = found
        assert best is not None
        return best

    def _best_count(
        self,
        direct: npt.NDArray[np.int_],
        count: int,
        expert_bytes: int,
        shared_bytes: int,
        shared_direct: int,
        hidden_s: float,
    ) -> ExpertDelivery:
        shared = 1 if shared_bytes else 0
        on_direct = direct + shared * shared_direct
        on_relay = count - direct + shared * (1 - shared_direct)
        direct_bytes = direct * expert_bytes + shared_direct * shared_bytes
        relay_bytes = (count - direct) * expert_bytes + (1 - shared_direct) * shared_bytes
        d, r = self.timing.direct, self.timing.relay
        work_d = _busy(on_direct, direct_bytes, self.direct_rate, d.request_gap_s)
        work_r = _busy(on_relay, relay_bytes, self.relay_rate, r.request_gap_s)
        # Both busy: each slowed alike, so the shorter ends first; then the longer runs alone.
        together = self.slowdown * np.minimum(work_d, work_r)
        start_d = np.where(on_direct > 0, max(0.0, d.first_byte_s - hidden_s), 0.0)
        start_r = np.where(on_relay > 0, max(0.0, r.first_byte_s - hidden_s), 0.0)
        end_d = start_d + together + np.maximum(work_d - work_r, 0.0)
        end_r = start_r + together + np.maximum(work_r - work_d, 0.0)
        end = np.maximum(np.where(on_direct > 0, end_d, 0.0), np.where(on_relay > 0, end_r, 0.0))
        pick = int(np.argmin(end))
        starts = [
            float(start[pick])
            for start, used in ((start_d, on_direct), (start_r, on_relay))
            if used[pick]
        ]
        start_s = min(starts, default=0.0)
        return ExpertDelivery(
            start_s=start_s,
            transfer_s=float(end[pick]) - start_s,
            direct_experts=int(on_direct[pick]),
            relay_experts=int(on_relay[pick]),
            traffic=Traffic(direct=int(direct_bytes[pick]), relay=int(relay_bytes[pick])),
        )


def _busy(
    items: npt.NDArray[np.int_], sizes: npt.NDArray[np.int_], rate: float, gap_s: float
) -> Floats:
    """How long a path is busy on its own; a path that does not exist carries nothing."""
    if rate == 0.0:
        return np.zeros(len(items))
    busy: Floats = sizes / rate + gap_s * np.maximum(items - 1, 0)
    return busy
