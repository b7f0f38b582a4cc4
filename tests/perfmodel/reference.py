"""A slow second implementation: plain loops over layers, iterations, requests and assignments.

It shares shapes, rates and GPU constants with the model, and none of its closed forms.
"""

import math
from dataclasses import dataclass, field

from perfmodel.lookahead import decide
from perfmodel.serving.arrivals import Request
from perfmodel.system import System


@dataclass
class Moved:
    """Bytes of one package."""

    hbf_read: int = 0
    hbm_read: int = 0
    hbf_written: int = 0
    hbm_written: int = 0


@dataclass
class Sequence:
    """A running request."""

    index: int
    request: Request
    prompt_done: int = 0
    decoded: int = 0


@dataclass
class Package:
    """State that outlives a pass."""

    spilled: int = 0
    moved: Moved = field(default_factory=Moved)


def best_assignment(
    items: list[int], rates: tuple[float, float], dual: float, gaps: tuple[float, float],
    starts: tuple[float, float],
) -> float:  # fmt: skip
    """Least finishing time over all ways to send each item over one of two paths.

    A rate of zero marks a path that does not exist.
    """
    best = math.inf
    for choice in range(2 ** len(items)):
        sides = ([], [])
        for number, item in enumerate(items):
            sides[choice >> number & 1].append(item)
        if any(side and not rate for side, rate in zip(sides, rates, strict=True)):
            continue
        best = min(best, finish_time(sides, rates, dual, gaps, starts))
    return best


def finish_time(sides, rates, dual, gaps, starts):
    """When both paths are done: fluid simulation of two flows that share the dual rate."""
    left = [
        sum(side) + rate * gap * max(0, len(side) - 1)
        for side, rate, gap in zip(sides, rates, gaps, strict=True)
    ]
    used = [bool(side) for side in sides]
    time, ends = 0.0, [0.0, 0.0]
    while max(left) > 1e-9:
        active = [amount > 1e-9 for amount in left]
        scale = min(1.0, dual / sum(rates)) if all(active) else 1.0
        step = min(left[p] / (rates[p] * scale) for p in (0, 1) if active[p])
        time += step
        for p in (0, 1):
            if active[p]:
                left[p] -= rates[p] * scale * step
                ends[p] = time
    return max((starts[p] + ends[p] for p in (0, 1) if used[p]), default=0.0)


def split_counts(count: int, expert: int, shared: int, **paths) -> float:
    """Like `best_assignment`, for many equal experts: all counts instead of all subsets."""
    best = math.inf
    for direct in range(count + 1):
        for shared_side in (0, 1):
            sides = ([expert] * direct, [expert] * (count - direct))
            if shared:
                sides[shared_side].append(shared)
            if any(s and not rate for s, rate in zip(sides, paths["rates"], strict=True)):
                continue
            best = min(best, finish_time(sides, **paths))
    return best


def pass_seconds(
    system: System,
    package: Package,
    decode: list[Sequence],
    prefill: list[tuple[int, int]],
    samples: int,
    assignments: dict,
) -> float:
    """One pass: decode sequences (with the new token already counted) and prompt chunks."""
    model, gpu, timing, top = system.model, system.gpu, system.timing, system.topology
    shape, n = model.attention, top.pairs
    direct = n * timing.direct.bytes_per_s if top.direct else 0.0
    relay = n * timing.relay.bytes_per_s if top.relay else 0.0
    dual = n * timing.dual_bytes_per_s if top.direct and top.relay else direct + relay
    hbf = min(dual, direct + relay)
    link_b = n * timing.gpu_hbm_link_bytes_per_s
    hbm = min(link_b, n * timing.hbm_local_bytes_per_s)
    replica = hbm + min(hbf, direct + min(relay, link_b - hbm))
    kernel = gpu.decode_mla if shape.kind == "MLA" else gpu.decode_gqa
    rows = len(decode) + sum(length for _, length in prefill)
    peak = gpu.peak_flops_per_s
    moved = package.moved

    # KV: per layer, with whole waves leaving a full HBM.
    kv = shape.kv_bytes
    decoded_kv = sum(s.decoded for s in decode) * kv * model.layers
    wave = system.placement.wave_bytes
    waves = 0
    while decoded_kv - package.spilled > system.placement.decode_kv_budget_bytes:
        package.spilled += wave
        waves += 1
    old_kv = sum(s.request.input_len for s in decode) + sum(start for start, _ in prefill)
    from_hbf = old_kv * kv * model.layers + package.spilled
    from_hbm = decoded_kv - package.spilled
    crossing = from_hbm + (0 if top.relay else waves * wave)
    moved.hbf_read += from_hbf
    moved.hbm_read += from_hbm + waves * wave
    moved.hbf_written += sum(length for _, length in prefill) * kv * model.layers + waves * wave
    moved.hbm_written += len(decode) * kv * model.layers

    seconds = 0.0
    for layer in range(model.layers):
        for matrices in (shape.qkv, shape.output):
            flops = 2 * rows * sum(m.params for m in matrices)
            size = model.stored_bytes(matrices)
            stage = gpu.gemm.start_s + max(
                flops / (gpu.gemm.compute_efficiency * peak), size / replica
            )
            seconds += stage
            output_s = stage
        flops_decode = sum((s.request.input_len + s.decoded) * shape.decode_flops for s in decode)
        flops_prefill = sum(
            shape.prefill_flops * sum(start + i + 1 for i in range(length))
            + start * shape.reread_flops
            for start, length in prefill
        )
        compute = flops_decode / (kernel.compute_efficiency * peak)
        compute += flops_prefill / (gpu.prefill.compute_efficiency * peak)
        h, loc = from_hbf / model.layers, crossing / model.layers
        attention_s = max(compute, h / hbf, (h + loc) / (direct + link_b), loc / hbm)
        if decode:
            attention_s += kernel.start_s + kernel.item_s * len(decode) * shape.work_items
        if prefill:
            attention_s += gpu.prefill.start_s
        seconds += attention_s + gpu.layer_overhead_s
        seconds += model.norm_layer_bytes / hbm
        window = attention_s + output_s
        machine = system.machine
        transfer = machine.geometry.wave_bytes / machine.link.usable_bytes_per_s
        program = max(machine.nand.t_program_ns * 1e-9, transfer)
        if prefill:
            layer_kv = sum(length for _, length in prefill) * kv
            seconds += max(0.0, transfer + math.ceil(layer_kv / wave) * program - window)
        if layer == 0:
            seconds += waves * max(0.0, transfer + program - window)
        if layer not in model.moe_layers:
            flops = 2 * rows * sum(m.params for m in model.dense_mlp)
            size = model.stored_bytes(model.dense_mlp)
            seconds += gpu.gemm.start_s
            seconds += max(flops / (gpu.gemm.compute_efficiency * peak), size / hbf)
            moved.hbf_read += size
            continue
        active = min(model.routed_experts, model.experts_per_token * rows)
        hidden = output_s if decide(model.router).early else 0.0
        if system.charge_lookahead and hidden:
            (projection,) = shape.output
            size = 4 * projection.inputs * model.routed_experts
            flops = 2 * rows * projection.inputs * model.routed_experts
            seconds += model.router_layer_bytes / hbm + gpu.gemm.start_s
            seconds += max(flops / (gpu.gemm.compute_efficiency * peak), size / replica)
        starts = tuple(
            max(0.0, path.first_byte_s - hidden) for path in (timing.direct, timing.relay)
        )
        assert starts[0] == starts[1], "the reference takes one start for both paths"
        sizes = model.stored_bytes(model.expert), model.stored_bytes(model.shared_expert)
        if (active, *sizes) not in assignments:
            assignments[active, *sizes] = split_counts(
                active,
                *sizes,
                rates=(direct, relay),
                dual=hbf,
                gaps=(timing.direct.request_gap_s, timing.relay.request_gap_s),
                starts=(0.0, 0.0),
            )
        transfer_s = assignments[active, *sizes]
        flops = 2 * rows * model.experts_per_token * sum(m.params for m in model.expert)
        flops += 2 * rows * sum(m.params for m in model.shared_expert)
        seconds += model.router_layer_bytes / hbm
        seconds += starts[0] + gpu.expert.start_s + gpu.expert.item_s * active
        seconds += max(flops / (gpu.expert.compute_efficiency * peak), transfer_s)
        moved.hbf_read += active * sizes[0] + sizes[1]
        moved.hbm_read += model.router_layer_bytes
    if samples:
        flops = 2 * samples * model.vocab * model.hidden
        seconds += gpu.gemm.start_s
        seconds += max(flops / (gpu.gemm.compute_efficiency * peak), model.head_bytes / hbm)
        moved.hbm_read += model.head_bytes
    moved.hbm_read += model.layers * model.norm_layer_bytes
    moved.hbm_read += rows * model.hidden * model.precision.embed_bytes
    return seconds


def serve(system: System, requests: list[Request], max_batch: int, token_budget: int):
    """Continuous batching, one iteration after the other, one token after the other.

    Returns first-token and finishing times by request, and all inter-token gaps.
    """
    package, assignments = Package(), {}
    now, arrived = 0.0, 0
    waiting: list[int] = []
    prompts: list[Sequence] = []
    decoding: list[Sequence] = []
    first: dict[int, float] = {}
    finish: dict[int, float] = {}
    gaps: list[float] = []
    while arrived < len(requests) or waiting or prompts or decoding:
        if not (waiting or prompts or decoding):
            now = max(now, requests[arrived].arrival_s)
        while arrived < len(requests) and requests[arrived].arrival_s <= now:
            request = requests[arrived]
            if request.input_len + request.output_len <= system.model.max_context:
                waiting.append(arrived)
            arrived += 1
        budget = token_budget - len(decoding)
        chunks = []
        position = 0
        while budget:
            if position == len(prompts):
                if not waiting or len(prompts) + len(decoding) == max_batch:
                    break
                index = waiting.pop(0)
                prompts.append(Sequence(index, requests[index]))
            sequence = prompts[position]
            length = min(budget, sequence.request.input_len - sequence.prompt_done)
            chunks.append((sequence.prompt_done, length))
            sequence.prompt_done += length
            budget -= length
            position += 1
        if not chunks and not decoding:
            continue
        for sequence in decoding:
            sequence.decoded += 1
        ready = [s for s in prompts if s.prompt_done == s.request.input_len]
        seconds = pass_seconds(
            system, package, decoding, chunks, len(decoding) + len(ready), assignments
        )
        now += seconds
        gaps += [seconds] * len(decoding)
        held = sum(s.decoded for s in decoding)
        for sequence in [s for s in decoding if s.decoded == s.request.output_len - 1]:
            decoding.remove(sequence)
            finish[sequence.index] = now
        if held:
            package.spilled = package.spilled * sum(s.decoded for s in decoding) // held
        for sequence in ready:
            prompts.remove(sequence)
            first[sequence.index] = now
            if sequence.request.output_len == 1:
                finish[sequence.index] = now
            else:
                decoding.append(sequence)
    return first, finish, gaps, package.moved
