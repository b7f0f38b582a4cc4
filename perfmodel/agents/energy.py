"""Energy of a run: traffic and arithmetic, each at a price.

The paper gives two ratios and no absolute price in its text: HBF reads cost twice HBM reads, four
times as a variant, and arithmetic at 7 nm is scaled by 0.546. Prices here:

- HBM 3.9 pJ/bit, assumed: the order of what is published for HBM2;
- arithmetic 0.16 pJ an operation: half of a fused BF16 multiply-add of 0.59 pJ at 7 nm, which is
  assumed, scaled;
- DRAM 15 pJ/bit, SSD 60 pJ/bit, PCIe 5 pJ/bit, NVLink 1.3 pJ/bit: assumed, of that order;
- HBF writes 100 pJ/bit: assumed; the paper finds that they matter little.
"""

from dataclasses import asdict, dataclass, fields, replace

from hw.errors import InputError
from perfmodel.agents.counters import Counters
from perfmodel.agents.machine import Machine, WeightTier
from perfmodel.tiers import NOWHERE, Tier

_PICO = 1e-12
_BITS = 8


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Picojoules a bit, and an operation."""

    hbm_read_pj: float = 3.9
    hbm_write_pj: float = 3.9
    hbf_read_pj: float = 7.8
    hbf_write_pj: float = 100.0
    dram_pj: float = 15.0
    ssd_pj: float = 60.0
    pcie_pj: float = 5.0
    nvlink_pj: float = 1.3
    flop_pj: float = 0.16

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not 0 <= value < 1e9:
                raise InputError(f"{each.name} is {value}: must be zero or more, below 1e9")

    def with_hbf_reads(self, times_hbm: float) -> "Prices":
        """HBF reads at a multiple of HBM reads."""
        return replace(self, hbf_read_pj=times_hbm * self.hbm_read_pj)


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Joules of a run by what they are for."""

    arithmetic_j: float
    weights_j: float
    kv_read_hbm_j: float
    kv_read_hbf_j: float
    kv_write_hbm_j: float
    kv_write_hbf_j: float
    dram_j: float
    ssd_j: float
    links_j: float

    @property
    def total_j(self) -> float:
        return float(sum(asdict(self).values()))


def energy(machine: Machine, counters: Counters, prices: Prices | None = None) -> Energy:
    """Price the traffic of a run: linear in every price, so that repricing needs no new run."""
    prices = prices or Prices()
    model, ledger = machine.model, counters.ledger
    kv_pj = _BITS * model.kv_token_bytes * _PICO
    rows = counters.prefill_tokens + counters.decode_tokens
    flops = 2 * model.gemm_params * rows + 2 * model.head_params * counters.outputs
    decode_pairs = counters.decode_read_tokens
    flops += model.pair_flops * counters.pairs
    flops += model.layers * model.attention.decode_flops * decode_pairs
    in_hbm = machine.weights == WeightTier.HBM
    weight_pj = prices.hbm_read_pj if in_hbm else prices.hbf_read_pj
    dram = ledger.written(Tier.DRAM) + ledger.left(Tier.DRAM)
    ssd = ledger.written(Tier.SSD) + ledger.left(Tier.SSD)
    leaving_hbm = ledger.left(Tier.HBM) - ledger.between((Tier.HBM,), (NOWHERE,))
    leaving_hbf = ledger.left(Tier.HBF) - ledger.between((Tier.HBF,), (NOWHERE,))
    reduced_bits = 0.0
    if machine.gpus > 1:
        message = 2 * model.hidden * rows * _BITS
        reduced_bits = 2 * model.layers * 2 * (machine.gpus - 1) * message
    host = ledger.to_host + ledger.from_host
    return Energy(
        arithmetic_j=flops * prices.flop_pj * _PICO,
        weights_j=counters.steps * model.read_bytes * _BITS * weight_pj * _PICO,
        kv_read_hbm_j=(counters.read_hbm_tokens + leaving_hbm) * kv_pj * prices.hbm_read_pj,
        kv_read_hbf_j=(counters.read_hbf_tokens + leaving_hbf) * kv_pj * prices.hbf_read_pj,
        kv_write_hbm_j=ledger.written(Tier.HBM) * kv_pj * prices.hbm_write_pj,
        kv_write_hbf_j=ledger.written(Tier.HBF) * kv_pj * prices.hbf_write_pj,
        dram_j=dram * kv_pj * prices.dram_pj,
        ssd_j=ssd * kv_pj * prices.ssd_pj,
        links_j=host * kv_pj * prices.pcie_pj + reduced_bits * prices.nvlink_pj * _PICO,
    )
