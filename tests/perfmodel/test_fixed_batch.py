"""Fixed batches: hand arithmetic, the slow reference, and the predictions for the DASH paper.

The predictions were made from the paper's description alone (an independent link-limited model:
1.6 TB/s a link, whole experts, no fitted number), before this implementation existed. They are
not targets that anything here was tuned to.
"""

import math
from itertools import product

import pytest

from hw.errors import InputError
from hw.presets import TOPOLOGIES
from perfmodel.serving import Request, generate
from perfmodel.serving.passes import Batch, PassModel
from tests.perfmodel import reference

FIVE = ("qwen3-235b-a22b", "mixtral-8x22b", "grok-1", "llama4-maverick", "deepseek-v3")
BUDGET = 24_456_000_000  # HBM room for decode KV in the paper


def geomean(values):
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def test_one_decode_pass_by_hand(make_system):
    """Qwen3-235B, four sequences at context 1,025, link-limited DASH: every stage by hand."""
    qkv_s = 2 * 4096 * (64 + 2 * 4) * 128 / 6.4e12
    output_s = 2 * 4096 * 64 * 128 / 6.4e12
    kv = 2 * 4 * 128 * 2
    attention_s = 4 * 1025 * kv / 6.4e12  # compute takes less: 4 * 1025 * 4 * 64 * 128 operations
    assert attention_s > 4 * 1025 * 4 * 64 * 128 / (0.4 * 756e12)
    norm_s = (2 * 4096 + 2 * 128) * 2 / 3.2e12
    router_s = 4096 * 128 * 2 / 3.2e12
    experts_s = 16 * 3 * 4096 * 1536 * 2 / 3.2e12  # 32 experts, half on each route; tR is hidden
    assert output_s > 3e-6
    layer_s = qkv_s + output_s + attention_s + norm_s + router_s + experts_s + 6e-6
    head_s = 151_936 * 4096 * 2 / 3.2e12
    batch = Batch(decode_rows=4, samples=4, prompt_tokens=4 * 1024)
    seconds = PassModel(make_system()).stretch(batch).seconds[0]
    assert seconds == pytest.approx(94 * layer_s + head_s, rel=1e-12)


@pytest.mark.parametrize("top", TOPOLOGIES)
@pytest.mark.parametrize("model", ["tiny", "llama4-maverick"])
def test_decode_sum_equals_a_loop_over_tokens(make_system, repackaged, measured, top, model):
    system = make_system(model, top, measured)
    budget = 2 * system.placement.wave_bytes
    system = repackaged(system, decode_kv_budget_bytes=budget, hbf_bytes=2**40)
    batch, input_len, output_len = 3, 50, 400
    result = generate(system, batch=batch, input_len=input_len, output_len=output_len)

    package, assignments = reference.Package(), {}
    sequences = [reference.Sequence(n, Request(0.0, input_len, output_len)) for n in range(batch)]
    prefill_s = reference.pass_seconds(
        system, package, [], [(0, input_len)] * batch, batch, assignments
    )
    assert result.prefill_s == pytest.approx(prefill_s, rel=1e-9)
    decode_s = 0.0
    for _ in range(output_len - 1):
        for sequence in sequences:
            sequence.decoded += 1
        decode_s += reference.pass_seconds(system, package, sequences, [], batch, assignments)
    assert result.decode_s == pytest.approx(decode_s, rel=1e-9)
    assert result.tpot_s == pytest.approx(decode_s / (output_len - 1), rel=1e-9)
    tiers = result.traffic.as_dict()["tiers"]
    assert tiers["hbf_written"] == package.moved.hbf_written
    assert tiers["hbm_written"] == package.moved.hbm_written
    if model == "llama4-maverick":
        assert result.traffic.writeback > 0


def test_throughputs_follow_from_times(make_system):
    result = generate(make_system(), batch=8, input_len=100, output_len=20)
    assert result.e2e_s == result.prefill_s + result.decode_s
    assert result.decode_throughput == pytest.approx(8 / result.tpot_s)
    assert result.output_throughput == pytest.approx(160 / result.e2e_s)
    assert result.total_token_throughput == pytest.approx(960 / result.e2e_s)
    single = generate(make_system(), batch=8, input_len=100, output_len=1)
    assert (single.decode_s, single.tpot_s, single.decode_throughput) == (0, 0, 0)


def test_every_byte_is_counted_once(make_system):
    """Bytes to the GPU by arithmetic on the model alone, for every topology."""
    for top in TOPOLOGIES:
        system = make_system(top=top)
        result = generate(system, batch=4, input_len=1024, output_len=128)
        model, kv = system.model, 192_512
        layer = model.stored_bytes(model.attention.qkv + model.attention.output)
        layer += model.norm_layer_bytes + model.router_layer_bytes
        layers = 94 * (layer + 32 * model.expert_bytes)
        head_and_embedding = model.head_bytes + 4 * 4096 * 2
        context = 4 * sum(1024 + step for step in range(1, 128))
        expected = 127 * (layers + head_and_embedding) + context * kv
        moved = result.decode_traffic
        assert moved.direct + moved.relay + moved.hbm_local == expected
        assert moved.hbm_write == 4 * 127 * kv
        assert result.traffic.hbf_write == 4 * 1024 * kv
        assert (moved.direct > 0) is system.topology.direct
        assert (moved.relay > 0) is system.topology.relay


def test_kv_of_maverick_at_a_million_tokens(make_system):
    """197.413 GB at the end: 24.46 GB of it in HBM and 172.96 GB in HBF (paper, VI-F)."""
    system = make_system("llama4-maverick", decode_kv_budget_bytes=BUDGET)
    result = generate(system, batch=1, input_len=4096, output_len=10**6)
    held = result.kv_in_hbf_bytes + result.kv_in_hbm_bytes
    assert held / 1e9 == pytest.approx(197.413, abs=5e-4)
    assert result.kv_in_hbm_bytes / 1e9 == pytest.approx(24.46, abs=0.02)
    assert result.kv_in_hbf_bytes / 1e9 == pytest.approx(172.96, abs=0.02)
    waves = math.ceil(((10**6 - 1) * 196_608 - BUDGET) / (16 * 2**20))
    assert result.traffic.writeback == waves * 16 * 2**20


@pytest.fixture
def ratio(make_system):
    """Geometric means of a baseline's TPOT and E2E over those of DASH."""

    def compute(cases, baseline, **options):
        pairs = []
        for model, batch, input_len, output_len in cases:
            size = {"batch": batch, "input_len": input_len, "output_len": output_len}
            pairs.append(
                [generate(make_system(model, top, **options), **size) for top in (baseline, "dash")]
            )
        tpot = geomean([base.tpot_s / dash.tpot_s for base, dash in pairs])
        return tpot, geomean([base.e2e_s / dash.e2e_s for base, dash in pairs])

    return compute


FIGURE_9A = [(model, batch, 1024, 128) for model, batch in product(FIVE, (1, 4, 16, 64))]


def test_predicted_ratios_of_figure_9a(ratio):
    """Predicted 1.921 and 1.841 in throughput, 1.641 and 1.583 in E2E; printed 1.90 and 1.84."""
    assert ratio(FIGURE_9A, "relay-only") == pytest.approx((1.921, 1.641), rel=0.005)
    assert ratio(FIGURE_9A, "direct-only") == pytest.approx((1.841, 1.583), rel=0.005)


def test_predicted_ratio_of_the_default_case(ratio):
    """Predicted 1.954 and 1.816 for Qwen3 at 4/1K/128; printed 1.94 and 1.90."""
    case = [("qwen3-235b-a22b", 4, 1024, 128)]
    assert ratio(case, "relay-only") == pytest.approx((1.954, 1.816), rel=0.002)


def test_predicted_ratio_of_a_million_tokens(ratio):
    """Predicted 1.915 in both; printed 1.92 and 1/(1 - 0.480) = 1.923."""
    case = [("llama4-maverick", 1, 4096, 10**6)]
    found = ratio(case, "relay-only", decode_kv_budget_bytes=BUDGET)
    assert found == pytest.approx((1.915, 1.915), rel=0.002)


@pytest.mark.parametrize(
    ("model", "tpot", "e2e"), [("qwen3-235b-a22b", 3.57, 2.38), ("deepseek-v2", 2.38, 1.52)]
)
def test_predicted_gain_of_lookahead(make_system, model, tpot, e2e):
    """Reductions in per cent at 1/4K/128; printed 3.86 and 3.33 (Qwen3), 2.45 and 1.99 (V2)."""
    late, early = (
        generate(make_system(model, lookahead=early), batch=1, input_len=4096, output_len=128)
        for early in (False, True)
    )
    assert 100 * (1 - early.tpot_s / late.tpot_s) == pytest.approx(tpot, abs=0.02)
    assert 100 * (1 - early.e2e_s / late.e2e_s) == pytest.approx(e2e, abs=0.02)


@pytest.mark.parametrize(
    ("model", "combined", "router", "layers"),
    [
        ("qwen3-235b-a22b", 4 * 64 * 128 * 128, 2 * 4096 * 128, 94),
        ("deepseek-v2", 4 * 128 * 128 * 160, 2 * 5120 * 160, 59),
    ],
)
def test_charged_lookahead_pays_for_its_reads(make_system, model, combined, router, layers):
    """One row: each layer reads the weight over all four links, and the router from HBM again."""
    size = {"batch": 1, "input_len": 4096, "output_len": 8}
    free, charged = (
        make_system(model, charge_lookahead=charged, decode_kv_budget_bytes=BUDGET)
        for charged in (False, True)
    )
    cost_s = generate(charged, **size).tpot_s - generate(free, **size).tpot_s
    assert cost_s == pytest.approx(layers * (combined / 6.4e12 + router / 3.2e12), rel=1e-6)
    more = charged.placement.hbf_weight_bytes - free.placement.hbf_weight_bytes
    assert more == layers * combined
    assert charged.placement.hbm_weight_bytes - free.placement.hbm_weight_bytes == more


def test_between_gpus_the_choice_waits_for_its_sum(make_system):
    """The all-reduce starts in 18 us, longer than the output projection: nothing is hidden."""
    size = {"batch": 1, "input_len": 64, "output_len": 8}
    late, charged = (
        make_system(gpus=2, lookahead=early, charge_lookahead=True) for early in (False, True)
    )
    assert late.combined_bytes == 0 and charged.combined_bytes == 4 * 32 * 128 * 128
    cost_s = generate(charged, **size).tpot_s - generate(late, **size).tpot_s
    reads_s = 4 * 32 * 128 * 128 / 6.4e12 + 2 * 4096 * 128 / 3.2e12
    assert cost_s == pytest.approx(94 * reads_s, rel=1e-6)


@pytest.mark.parametrize("charged", [False, True])
def test_a_pass_with_and_without_the_cost_of_lookahead(make_system, measured, charged):
    """The reference walks every layer, with the reads where they are charged."""
    system = make_system("tiny", "dash", measured, charge_lookahead=charged)
    package = reference.Package()
    rows = [(0, 50)] * 3
    expected = reference.pass_seconds(system, package, [], rows, 3, {})
    found = generate(system, batch=3, input_len=50, output_len=2).prefill_s
    assert found == pytest.approx(expected, rel=1e-9)


def test_labels_tell_what_lookahead_does(make_system):
    for options, label in (
        ({}, "free"),
        ({"charge_lookahead": True}, "charged"),
        ({"lookahead": False, "charge_lookahead": True}, "off"),
        ({"model": "grok-1"}, "not allowed by the router"),
    ):
        assert make_system(**options).labels()["lookahead"] == label


@pytest.mark.parametrize("model", FIVE)
def test_dash_is_never_slower_than_one_path(make_system, measured, model):
    for timing, batch in product((None, measured), (1, 3, 16)):
        time = {
            top: generate(
                make_system(model, top, timing), batch=batch, input_len=512, output_len=32
            ).tpot_s
            for top in ("dash", "relay-only", "direct-only")
        }
        assert time["dash"] <= min(time["relay-only"], time["direct-only"])


@pytest.mark.parametrize("top", TOPOLOGIES)
def test_faster_links_are_never_slower(make_system, faster_links, top):
    for model in ("qwen3-235b-a22b", "deepseek-v2"):
        size = {"batch": 4, "input_len": 512, "output_len": 64}
        slow = generate(make_system(model, top), **size)
        fast = generate(make_system(model, top, faster_links), **size)
        assert fast.tpot_s < slow.tpot_s
        assert fast.prefill_s <= slow.prefill_s


def test_uniform_routing_activates_the_expected_number(make_system):
    system = make_system(routing="uniform")
    assert system.active_experts(1) == pytest.approx(8)
    assert system.active_experts(4) == pytest.approx(128 * (1 - (120 / 128) ** 4))
    assert make_system().active_experts(4) == 32
    size = {"batch": 16, "input_len": 128, "output_len": 16}
    assert generate(system, **size).tpot_s < generate(make_system(), **size).tpot_s


def test_a_late_router_waits_for_the_first_byte(make_system):
    """Grok-1 gains nothing from lookahead; its 64 layers each wait for tR."""
    size = {"batch": 1, "input_len": 64, "output_len": 8}
    late, early = (generate(make_system("grok-1", lookahead=on), **size) for on in (False, True))
    assert late.tpot_s == early.tpot_s


def test_tensor_parallel_halves_the_bytes_of_a_package(make_system):
    one, two = (make_system(gpus=gpus) for gpus in (1, 2))
    size = {"batch": 4, "input_len": 256, "output_len": 32}
    single, double = generate(one, **size), generate(two, **size)
    assert single.tpot_s / 2 < double.tpot_s < single.tpot_s
    # Routers and norms stand in both packages.
    extra = 94 * (one.model.router_layer_bytes + one.model.norm_layer_bytes)
    moved = [r.decode_traffic.hbf_read + r.decode_traffic.hbm_local for r in (single, double)]
    assert moved[1] - moved[0] == 31 * extra


def test_program_time_shows_only_beyond_its_window(make_system):
    """A prompt of one token has no attention to hide its program behind; a long one has."""
    passes = PassModel(make_system())
    machine = make_system().machine
    program_s = machine.geometry.wave_bytes / 1.6e12 + 100e-6
    short = Batch(prefill_rows=1, samples=1, prefill_pairs=1)
    window_s = 2 * 4096 * 8192 / 6.4e12 + 4 * 64 * 128 / (0.4 * 756e12)
    plain = passes.rows(1).seconds + passes.head(1)[0] + 94 * 4 * 64 * 128 / (0.4 * 756e12)
    stall_s = passes.stretch(short).seconds[0] - plain
    assert stall_s == pytest.approx(94 * (program_s - window_s), rel=1e-9)
    rows = 2048
    long = Batch(prefill_rows=rows, samples=1, prefill_pairs=rows * (rows + 1) // 2)
    attention_s = 94 * 4 * 64 * 128 * long.prefill_pairs / (0.4 * 756e12)
    plain = passes.rows(rows).seconds + passes.head(1)[0] + attention_s
    assert passes.stretch(long).seconds[0] == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((0, 10, 10), "batch is 0: must be at least 1"),
        ((1, 0, 10), "input-len is 0"),
        ((1, 10, 0), "output-len is 0"),
        ((1, 40_960, 1), "input-len \\+ output-len is 40961: qwen3-235b-a22b has a context"),
        ((100, 40_000, 960), "batch is 100: the KV of 4000000 prompt tokens does not fit"),
    ],
)
def test_bad_sizes(make_system, size, message):
    names = ("batch", "input_len", "output_len")
    with pytest.raises(InputError, match=message):
        generate(make_system(), **dict(zip(names, size, strict=True)))
