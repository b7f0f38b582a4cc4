"""The two macro wrappers side by side, a plain model of each, and accesses to try on both."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from hw.sram.macro import Sram1r1w, Sram1rw


class MacroPair(wiring.Component):
    """One memory of each port style, so that a single simulation holds both."""

    def __init__(self, *, width: int, depth: int) -> None:
        self._single = Sram1rw(width=width, depth=depth)
        self._dual = Sram1r1w(width=width, depth=depth)
        super().__init__({"single": Out(self._single.signature), "dual": Out(self._dual.signature)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.single, m.submodules.dual = self._single, self._dual
        wiring.connect(m, wiring.flipped(self.single), self._single)
        wiring.connect(m, wiring.flipped(self.dual), self._dual)
        return m


@dataclass
class PairModel:
    """What both memories show; None is not known: nothing read yet, or a row never written."""

    single: dict[int, int] = field(default_factory=dict)
    dual: dict[int, int] = field(default_factory=dict)
    q: int | None = None
    r_data: int | None = None

    def clock(self, access: dict[str, int]) -> None:
        if access["single__en"]:
            if access["single__we"]:
                self.single[access["single__addr"]] = access["single__d"]
            else:
                self.q = self.single.get(access["single__addr"])
        if access["dual__r_en"]:
            self.r_data = self.dual.get(access["dual__r_addr"])
        if access["dual__w_en"]:  # after the read, which returns the old data
            self.dual[access["dual__w_addr"]] = access["dual__w_data"]


def accesses(seed: int, *, width: int, depth: int, count: int) -> Iterator[dict[str, int]]:
    """Random inputs of both memories; the dual one reads the row it writes every other time."""
    rng = random.Random(seed)
    for _ in range(count):
        row = rng.randrange(depth)
        yield {
            "single__en": int(rng.random() < 0.7),
            "single__we": rng.getrandbits(1),
            "single__addr": rng.randrange(depth),
            "single__d": rng.getrandbits(width),
            "dual__w_en": int(rng.random() < 0.6),
            "dual__w_addr": row,
            "dual__w_data": rng.getrandbits(width),
            "dual__r_en": int(rng.random() < 0.6),
            "dual__r_addr": rng.choice([row, rng.randrange(depth)]),
        }
