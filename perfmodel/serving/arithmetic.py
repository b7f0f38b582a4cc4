"""GPU arithmetic of the stages of a pass, asked of a source of kernel times.

Operands come from HBF and HBM, so a stage takes what its kernels need before arithmetic begins, and
then the longer of arithmetic and delivery. What was asked is kept, with what the answers rest on.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.kernels import Kernel, KernelTime
from perfmodel.kernels.calls import ModelCalls, Widths, equal_prompts
from perfmodel.memory.delivery import Floats, Ints
from perfmodel.system import System

# From the best known to the least.
_STATUS = ("measured", "interpolated", "fitted", "extrapolated", "assumed")


@dataclass(frozen=True)
class Span:
    """``start_s`` passes first; ``busy_s`` of arithmetic may overlap delivery."""

    start_s: float
    busy_s: float

    def beside(self, delivery_s: float) -> float:
        """Time of the stage."""
        return self.start_s + max(self.busy_s, delivery_s)


class Arithmetic:
    """Kernels of one system. Times are those of one layer."""

    def __init__(self, system: System) -> None:
        self.calls = ModelCalls(system.model, system.gpus)
        self._source, self._model = system.kernel_source, system.model
        self._gpus = system.gpus
        self.answers: dict[Kernel, KernelTime] = {}
        self._decodes: dict[tuple[int, int], tuple[float, float]] = {}
        self._prefills: dict[tuple[int, int], tuple[float, float]] = {}
        model = system.model
        routed = model.experts_per_token * sum(m.params for m in model.expert)
        # Shared experts compute at the rate of the routed ones.
        self._shared_factor = 1 + sum(m.params for m in model.shared_expert) / routed

    def linear(self, widths: Widths, rows: int) -> Span:
        """GEMMs one after the other."""
        answers = [self._ask(gemm) for gemm in self.calls.gemms(widths, rows)]
        return Span(sum(a.start_s for a in answers), sum(a.busy_s for a in answers))

    def experts(self, rows: int) -> Span:
        """Routed and shared experts."""
        answer = self._ask(self.calls.experts(rows))
        return Span(answer.start_s, self._shared_factor * answer.busy_s)

    def all_reduce(self, rows: int, width: int, **sizes: int) -> float:
        """Sum over the GPUs; nothing on a single one."""
        if self._gpus == 1:
            return 0.0
        return self._ask(self.calls.all_reduce(rows, width, **sizes)).seconds

    def decode(self, rows: int, context: Ints) -> tuple[float, Floats]:
        """Attention of ``rows`` sequences with ``context`` tokens together, pass by pass.

        Returns:
            Start-up, and arithmetic of each pass.
        """
        means = np.maximum(1, np.rint(context / rows)).astype(np.int64)
        if self._source.proportional:
            means = means[:1]
        starts, rates = zip(*(self._decode(rows, mean) for mean in means.tolist()), strict=True)
        flops = context * (self._model.attention.decode_flops / self._gpus)
        return max(starts), np.array(rates) * flops

    def prefill(self, rows: int, pairs: int, reread_tokens: int) -> Span:
        """Attention of ``rows`` prompt tokens with ``pairs`` query-key pairs."""
        batch, length = equal_prompts(rows, pairs)
        start_s, rate = self._prefill(batch, length)
        attention = self._model.attention
        flops = pairs * attention.prefill_flops + reread_tokens * attention.reread_flops
        return Span(start_s, rate * flops / self._gpus)

    def _decode(self, rows: int, context: int) -> tuple[float, float]:
        """Start-up, and seconds an operation."""
        if self._source.proportional:
            context = _power_of_two(context)
        key = rows, context
        if key not in self._decodes:
            kernel = self.calls.decode(rows, context)
            answer = self._ask(kernel)
            self._decodes[key] = answer.start_s, answer.busy_s / kernel.flops
        return self._decodes[key]

    def _prefill(self, batch: int, length: int) -> tuple[float, float]:
        """Start-up, and seconds an operation."""
        if self._source.proportional:
            batch, length = _power_of_two(batch), _power_of_two(length)
        key = batch, length
        if key not in self._prefills:
            kernel = self.calls.prefill(batch, length)
            answer = self._ask(kernel)
            self._prefills[key] = answer.start_s, answer.busy_s / kernel.flops
        return self._prefills[key]

    def _ask(self, kernel: Kernel) -> KernelTime:
        if kernel not in self.answers:
            self.answers[kernel] = self._source.time(kernel)
        return self.answers[kernel]

    def rests_on(self) -> list[dict[str, Any]]:
        """For each kernel that was asked for, the least sure of its answers, JSON-ready."""
        return rests_on(self.answers.items())


def rests_on(answers: Iterable[tuple[Kernel, KernelTime]]) -> list[dict[str, Any]]:
    """One row a kernel: the worst status and its provenance, the largest distance and error."""
    worst: dict[str, dict[str, Any]] = {}
    for kernel, answer in answers:
        row = worst.setdefault(kernel.NAME, _row(kernel, answer))
        new = _row(kernel, answer)
        if _STATUS.index(new["status"]) > _STATUS.index(row["status"]):
            row |= {"status": new["status"], "provenance": new["provenance"]}
        for name in ("distance_octaves", "p90_error_pct"):
            known = [value for value in (row[name], new[name]) if value is not None]
            row[name] = max(known, default=None)
    return [worst[name] for name in sorted(worst)]


def _row(kernel: Kernel, answer: KernelTime) -> dict[str, Any]:
    return {
        "kernel": kernel.NAME,
        "status": answer.status,
        "distance_octaves": answer.distance_octaves,
        "p90_error_pct": answer.p90_error_pct,
        "provenance": answer.provenance,
    }


def _power_of_two(size: int) -> int:
    """The nearest on a logarithmic scale: where time is proportional, the size itself is not."""
    return 1 << round(math.log2(size))
