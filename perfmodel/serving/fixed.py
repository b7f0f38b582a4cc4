"""One fixed batch: all prompts at once, then decode to the last token.

The prefill pass yields the first token of every sequence; ``output_len - 1`` decode passes yield
the others. Every pass is evaluated, as arrays: nothing is sampled or interpolated.
"""

from dataclasses import asdict, dataclass
from typing import Any

from hw.errors import InputError
from perfmodel.memory.traffic import Traffic
from perfmodel.serving.passes import Batch, PassModel
from perfmodel.system import System

_BLOCK = 1 << 16  # passes evaluated at once


@dataclass(frozen=True, kw_only=True)
class GenerateResult:
    """Times of a fixed batch. Throughputs are in tokens per second.

    Attributes:
        kernels: what the times of each GPU kernel rest on.
        tpot_s: mean time of a decode pass.
        decode_throughput: ``batch / tpot``: the throughput that the DASH paper reports.
        output_throughput: all output tokens over the whole time.
        total_token_throughput: prompt and output tokens over the whole time.
        exposed_program_s: part of ``e2e_s`` in which writes of KV to HBF hold up the pass.
    """

    labels: dict[str, str | int | None]
    kernels: list[dict[str, Any]]
    batch: int
    input_len: int
    output_len: int
    prefill_s: float
    decode_s: float
    tpot_s: float
    e2e_s: float
    decode_throughput: float
    output_throughput: float
    total_token_throughput: float
    traffic: Traffic
    decode_traffic: Traffic
    exposed_program_s: float
    kv_in_hbf_bytes: int
    kv_in_hbm_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, with bytes by path and tier."""
        values: dict[str, Any] = asdict(self)
        del values["labels"]
        values["bytes"] = self.traffic.as_dict()
        values["decode_bytes"] = self.decode_traffic.as_dict()
        del values["traffic"], values["decode_traffic"]
        return {**self.labels, **values}


def generate(system: System, *, batch: int, input_len: int, output_len: int) -> GenerateResult:
    """Run a fixed batch of equal sequences.

    Raises:
        InputError: a length is below 1, the context exceeds the model's, or the KV exceeds the
            package.
    """
    for name, value in (("batch", batch), ("input-len", input_len), ("output-len", output_len)):
        if value < 1:
            raise InputError(f"{name} is {value}: must be at least 1")
    _check_room(system, batch, input_len, output_len)
    passes = PassModel(system)
    pairs = batch * input_len * (input_len + 1) // 2
    prompt = Batch(prefill_rows=batch * input_len, samples=batch, prefill_pairs=pairs)
    prefill = passes.stretch(prompt)
    prefill_s, prefill_traffic = float(prefill.seconds[0]), prefill.traffic(1)

    decode_s, stall_s, spilled, decode_traffic = 0.0, float(prefill.stall_s[0]), 0, Traffic()
    for first in range(0, output_len - 1, _BLOCK):
        steps = min(_BLOCK, output_len - 1 - first)
        stretch = passes.stretch(
            Batch(
                decode_rows=batch,
                samples=batch,
                prompt_tokens=batch * input_len,
                decoded_tokens=batch * first,
            ),
            steps,
            spilled,
        )
        decode_s += float(stretch.seconds.sum())
        stall_s += float(stretch.stall_s.sum())
        spilled = int(stretch.spilled_bytes[-1])
        decode_traffic += stretch.traffic(steps)

    tpot_s = decode_s / (output_len - 1) if output_len > 1 else 0.0
    e2e_s = prefill_s + decode_s
    kv, gpus = system.placement.kv_token_bytes, system.gpus
    return GenerateResult(
        labels=system.labels(),
        kernels=passes.arithmetic.rests_on(),
        batch=batch,
        input_len=input_len,
        output_len=output_len,
        prefill_s=prefill_s,
        decode_s=decode_s,
        tpot_s=tpot_s,
        e2e_s=e2e_s,
        decode_throughput=batch / tpot_s if tpot_s else 0.0,
        output_throughput=batch * output_len / e2e_s,
        total_token_throughput=batch * (input_len + output_len) / e2e_s,
        traffic=prefill_traffic + decode_traffic,
        decode_traffic=decode_traffic,
        exposed_program_s=stall_s,
        kv_in_hbf_bytes=(batch * input_len * kv + spilled) * gpus,
        kv_in_hbm_bytes=(batch * (output_len - 1) * kv - spilled) * gpus,
    )


def _check_room(system: System, batch: int, input_len: int, output_len: int) -> None:
    model, placement = system.model, system.placement
    context = input_len + output_len
    if context > model.max_context:
        raise InputError(
            f"input-len + output-len is {context}: {model.name} has a context of at most "
            f"{model.max_context} tokens"
        )
    for what, tokens, room in (
        ("prompt", batch * input_len, placement.prompt_tokens),
        ("prompt and decode", batch * context, placement.kv_tokens),
    ):
        if tokens > room:
            raise InputError(
                f"batch is {batch}: the KV of {tokens} {what} tokens does not fit; topology "
                f"{system.topology.name!r} has room for {room} beside {model.name}"
            )
