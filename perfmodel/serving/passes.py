"""The time and the traffic of passes through the model: the layer plan.

A pass takes all rows of one iteration (decode tokens and prefill tokens) through every layer:

    QKV -> attention -> output projection -> router -> experts (or dense MLP)

and its sampled rows through the output head. A stage takes the longer of GPU arithmetic and
delivery. Stages follow one another; the first-byte latency of the experts is hidden behind the
output projection where the router allows the early top-k. Everything but attention depends on the
number of rows alone and is computed once for each; attention is evaluated for a whole stretch of
passes at once, as arrays.
"""

from dataclasses import dataclass

import numpy as np

from perfmodel.lookahead import layer_of
from perfmodel.lookahead.cost import COMBINED_ELEMENT_BYTES
from perfmodel.memory.delivery import Floats, Ints
from perfmodel.memory.traffic import Traffic
from perfmodel.system import System

_ACTIVATION_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one pass works on; a stretch repeats it, with one more token for each decode row.

    Attributes:
        decode_rows: sequences that take one decode step.
        prefill_rows: prompt tokens processed.
        samples: rows whose next token is sampled (decode rows, and prompts that end here).
        prefill_pairs: query-key pairs of the prompt tokens, causal.
        reread_tokens: prompt tokens of earlier chunks that the prompt tokens attend to.
        prompt_tokens: prompt tokens behind the decode rows.
        decoded_tokens: tokens of decode KV that the decode rows already hold.
    """

    decode_rows: int = 0
    prefill_rows: int = 0
    samples: int = 0
    prefill_pairs: int = 0
    reread_tokens: int = 0
    prompt_tokens: int = 0
    decoded_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class RowCost:
    """The part of a pass that depends on its rows alone."""

    seconds: float
    output_s: float  # output projection of one layer
    traffic: Traffic


@dataclass(frozen=True)
class Stretch:
    """A run of equal passes: their times, and running totals of what they moved."""

    seconds: Floats
    stall_s: Floats  # part of `seconds` in which programs to HBF hold up the pass
    spilled_bytes: Ints  # decode KV of one package that is in HBF after each pass
    direct: Ints
    relay: Ints
    hbm_local: Ints
    writeback: Ints
    base: Traffic  # of each pass, besides its KV reads and writeback

    def traffic(self, passes: int) -> Traffic:
        """Traffic of the first ``passes`` passes."""
        return self.base * passes + Traffic(
            direct=int(self.direct[:passes].sum()),
            relay=int(self.relay[:passes].sum()),
            hbm_local=int(self.hbm_local[:passes].sum()),
            writeback=int(self.writeback[:passes].sum()),
        )


class PassModel:
    """Times passes through one system. Traffic counts the bytes of all packages together."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.placement = system.placement
        model, gpus, attention = system.model, system.gpus, system.model.attention
        self._decode = system.gpu.decode_mla if attention.kind == "MLA" else system.gpu.decode_gqa
        self._layers, self._moe = model.layers, len(model.moe_layers)
        self._qkv_flops = 2 * sum(m.params for m in attention.qkv) / gpus
        self._output_flops = 2 * sum(m.params for m in attention.output) / gpus
        self._expert_flops = 2 * sum(m.params for m in model.expert) / gpus
        self._shared_flops = 2 * sum(m.params for m in model.shared_expert) / gpus
        self._dense_flops = 2 * sum(m.params for m in model.dense_mlp) / gpus

        def shard(size: int) -> int:
            return -(-size // gpus)

        self._qkv_bytes = shard(model.stored_bytes(attention.qkv))
        self._output_bytes = shard(model.stored_bytes(attention.output))
        self._expert_bytes = shard(model.stored_bytes(model.expert))
        self._shared_bytes = shard(model.stored_bytes(model.shared_expert))
        self._dense_bytes = shard(model.stored_bytes(model.dense_mlp))
        self._head_bytes = shard(model.head_bytes)
        self._embed_row_bytes = shard(model.hidden * model.precision.embed_bytes)
        self._kv_layer_bytes = self.placement.kv_token_bytes // self._layers
        machine = system.machine
        self._transfer_s = machine.geometry.wave_bytes / machine.link.usable_bytes_per_s
        self._program_wave_s = machine.nand.t_program_ns * 1e-9
        self._rows: dict[int, RowCost] = {}
        self._heads: dict[int, tuple[float, Traffic]] = {}

    # The part that depends on rows alone --------------------------------------------------------

    def rows(self, rows: int) -> RowCost:
        """All stages of all layers but attention, for a pass over ``rows`` tokens."""
        if rows not in self._rows:
            self._rows[rows] = self._row_cost(rows)
        return self._rows[rows]

    def _row_cost(self, rows: int) -> RowCost:
        system, gpu, delivery = self.system, self.system.gpu, self.system.delivery
        model = system.model
        qkv_s, qkv = self._projection(rows, self._qkv_flops, self._qkv_bytes)
        output_s, output = self._projection(rows, self._output_flops, self._output_bytes)
        norm_s, norm = delivery.from_hbm(model.norm_layer_bytes)
        message = rows * model.hidden * _ACTIVATION_BYTES
        reduce_s = 2 * gpu.all_reduce.seconds(system.gpus, message)
        layer_s = qkv_s + output_s + norm_s + reduce_s + gpu.layer_overhead_s
        seconds = self._layers * layer_s
        traffic = (qkv + output + norm) * self._layers
        if self._moe:
            moe_s, moe = self._moe_stage(rows, output_s)
            seconds += self._moe * moe_s
            traffic += moe * self._moe
        if dense_layers := model.dense_layers:
            dense_s, dense = delivery.from_hbf(self._dense_bytes)
            compute_s = gpu.compute_s(gpu.gemm, rows * self._dense_flops)
            seconds += dense_layers * (gpu.gemm.start_s + max(compute_s, dense_s))
            traffic += dense * dense_layers
        traffic += Traffic(hbm_local=rows * self._embed_row_bytes)
        return RowCost(seconds=seconds, output_s=output_s, traffic=traffic * system.gpus)

    def _projection(self, rows: int, flops: float, size: int) -> tuple[float, Traffic]:
        gpu = self.system.gpu
        delivery_s, traffic = self.system.delivery.replicated(size)
        return gpu.gemm.start_s + max(gpu.compute_s(gpu.gemm, rows * flops), delivery_s), traffic

    def _moe_stage(self, rows: int, output_s: float) -> tuple[float, Traffic]:
        """Router and experts of one layer."""
        system, gpu, model = self.system, self.system.gpu, self.system.model
        router_s, router = system.delivery.from_hbm(model.router_layer_bytes)
        window_s = output_s if system.chooses_early else 0.0
        if system.combined_bytes:
            terms_s, terms, reduce_s = self._early_terms(rows)
            router_s, router = router_s + terms_s, router + terms
            window_s = max(0.0, window_s - reduce_s)
        active = system.active_experts(rows)
        experts = system.delivery.experts(active, self._expert_bytes, self._shared_bytes, window_s)
        flops = rows * (model.experts_per_token * self._expert_flops + self._shared_flops)
        compute_s = gpu.compute_s(gpu.expert, flops)
        start_s = experts.start_s + gpu.expert.start_s + active * gpu.expert.item_s
        seconds = router_s + start_s + max(compute_s, experts.transfer_s)
        return seconds, router + experts.traffic

    def _early_terms(self, rows: int) -> tuple[float, Traffic, float]:
        """Early and attention term of one layer, and the sum over GPUs that delays the choice."""
        system, gpu, model = self.system, self.system.gpu, self.system.model
        base_s, base = system.delivery.from_hbm(model.router_layer_bytes)
        read_s, combined = system.delivery.replicated(system.combined_bytes)
        flops = 2 * rows * layer_of(model).combined_elements / system.gpus
        seconds = base_s + gpu.gemm.start_s + max(gpu.compute_s(gpu.gemm, flops), read_s)
        message = rows * model.routed_experts * COMBINED_ELEMENT_BYTES
        return seconds, base + combined, gpu.all_reduce.seconds(system.gpus, message)

    def head(self, samples: int) -> tuple[float, Traffic]:
        """The output head over the sampled rows."""
        if samples not in self._heads:
            self._heads[samples] = self._head_cost(samples)
        return self._heads[samples]

    def _head_cost(self, samples: int) -> tuple[float, Traffic]:
        if not samples:
            return 0.0, Traffic()
        system, gpu = self.system, self.system.gpu
        flops = 2 * samples * system.model.vocab * system.model.hidden / system.gpus
        delivery_s, traffic = system.delivery.from_hbm(self._head_bytes)
        seconds = gpu.gemm.start_s + max(gpu.compute_s(gpu.gemm, flops), delivery_s)
        return seconds, traffic * system.gpus

    # Whole passes -------------------------------------------------------------------------------

    def stretch(self, batch: Batch, passes: int = 1, spilled_bytes: int = 0) -> Stretch:
        """Time ``passes`` passes, each with one more token behind every decode row.

        ``spilled_bytes`` is the decode KV of one package that is already in HBF.
        """
        system, delivery, kv = self.system, self.system.delivery, self.placement.kv_token_bytes
        fixed = self.rows(batch.decode_rows + batch.prefill_rows)
        head_s, head = self.head(batch.samples)
        decoded = batch.decoded_tokens + batch.decode_rows * np.arange(1, passes + 1)
        spilled, waves = self._spill(decoded * kv, spilled_bytes)
        writeback = waves * self.placement.wave_bytes
        from_hbf = (batch.prompt_tokens + batch.reread_tokens) * kv + spilled
        from_hbm = decoded * kv - spilled
        # Without link C, a writeback passes through the GPU and takes its share of link B.
        over_link_b = 0 if system.topology.relay else writeback
        delivery_s, direct = delivery.read(from_hbf, from_hbm + over_link_b)
        attention_s = self._attention(batch, batch.prompt_tokens + decoded, delivery_s)
        window_s = attention_s / self._layers + fixed.output_s
        stall_s = self._prefill_stall(batch.prefill_rows, window_s)
        stall_s += waves * np.maximum(0.0, self._program_s(1) - window_s)
        gpus = system.gpus
        writes = Traffic(
            hbf_write=batch.prefill_rows * kv * gpus, hbm_write=batch.decode_rows * kv * gpus
        )
        return Stretch(
            seconds=fixed.seconds + head_s + attention_s + stall_s,
            stall_s=stall_s,
            spilled_bytes=spilled,
            direct=direct * gpus,
            relay=(from_hbf - direct) * gpus,
            hbm_local=from_hbm * gpus,
            writeback=writeback * gpus,
            base=fixed.traffic + head + writes,
        )

    def _attention(self, batch: Batch, context: Ints, delivery_s: Floats) -> Floats:
        """Attention of all layers."""
        gpu, shape = self.system.gpu, self.system.model.attention
        share = self._layers / self.system.gpus
        flops = context * (share * shape.decode_flops if batch.decode_rows else 0.0)
        compute_s = gpu.compute_s(self._decode, 1.0) * flops
        start_s = 0.0
        if batch.decode_rows:
            items = batch.decode_rows * -(-shape.work_items // self.system.gpus)
            start_s += self._decode.start_s + items * self._decode.item_s
        if batch.prefill_rows:
            prompt_flops = batch.prefill_pairs * shape.prefill_flops
            prompt_flops += batch.reread_tokens * shape.reread_flops
            compute_s = compute_s + gpu.compute_s(gpu.prefill, share * prompt_flops)
            start_s += gpu.prefill.start_s
        total: Floats = self._layers * start_s + np.maximum(compute_s, delivery_s)
        return total

    # KV that does not stay in HBM ---------------------------------------------------------------

    def _spill(self, decode_kv: Ints, spilled: int) -> tuple[Ints, Ints]:
        """Decode KV in HBF after each pass, and the page waves that each pass moves there."""
        wave, budget = self.placement.wave_bytes, self.placement.decode_kv_budget_bytes
        total = np.maximum(0, -(-(decode_kv - spilled - budget) // wave))
        waves = total.copy()
        waves[1:] -= total[:-1]
        return spilled + wave * total, waves

    def _program_s(self, waves: int) -> float:
        """Time to write page waves: the first transfer, then programs that hide the others."""
        return self._transfer_s + waves * max(self._program_wave_s, self._transfer_s)

    def _prefill_stall(self, prefill_rows: int, window_s: Floats) -> Floats:
        """Program time of prefill KV that attention and output projection do not cover.

        The experts that follow are read from the same subarrays, so each layer must have
        programmed its KV by then.
        """
        if not prefill_rows:
            return np.zeros_like(window_s)
        waves = -(-prefill_rows * self._kv_layer_bytes // self.placement.wave_bytes)
        stall: Floats = self._layers * np.maximum(0.0, self._program_s(waves) - window_s)
        return stall
