"""The kernels that can be asked for: what identifies one, and how much it computes and moves.

Each class is one family. Its fields are the columns of its measured tables, in this order:
``LABELS`` are words, ``EXACT`` are numbers that a table must hold as they are, ``AXES`` are
sizes between which a table may be interpolated. Operations count a multiplication and an addition
each; bytes are those that have to move once, with operands in the GPU's memory.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

from hw.errors import InputError, named

ELEMENT_BYTES = {"bf16": 2, "fp8": 1, "fp8_block": 1}  # fp8_block: one scale for 128 x 128
DISTRIBUTIONS = ("balanced", "power_law_1.01", "power_law_1.2")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
_WORDS = {
    "dtype": tuple(ELEMENT_BYTES),
    "kv_dtype": ("bf16", "fp8"),
    "distribution": DISTRIBUTIONS,
    "op": COLLECTIVES,
}
MOST = 1 << 40  # of any number: beyond any real shape


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One call of a kernel.

    Raises:
        InputError: a word is unknown or a number out of range; names the field.
    """

    NAME: ClassVar[str]
    LABELS: ClassVar[tuple[str, ...]]
    EXACT: ClassVar[tuple[str, ...]] = ()
    AXES: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in self.LABELS:
                check_word(self.NAME, field.name, value)
            elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise InputError(
                    f"{self.NAME}: {field.name} is {value!r}: must be a whole number from 1"
                )

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    @property
    def group(self) -> tuple[str | int, ...]:
        """What must be equal for two calls to be on one grid."""
        return tuple(getattr(self, name) for name in (*self.LABELS, *self.EXACT))

    @property
    def labels(self) -> tuple[str, ...]:
        """Which of the family's fits applies."""
        return tuple(getattr(self, name) for name in self.LABELS)

    @property
    def point(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in self.AXES)

    @property
    def numbers(self) -> dict[str, float]:
        """Sizes whose range a fit is told with; besides the columns, those that decide a regime."""
        return {name: float(getattr(self, name)) for name in (*self.EXACT, *self.AXES)}

    @property
    def fit_to_bandwidth(self) -> bool:
        """Whether a measurement tells the rate of the memory: operands do not stay in a cache."""
        return True

    @property
    def arithmetic(self) -> str:
        """Whose peak the operations are held against: ``bf16`` or ``fp8``."""
        return "bf16"

    @property
    def flops(self) -> float:
        raise NotImplementedError

    @property
    def row_flops(self) -> float:
        """Operations on the rows there are, where ``flops`` counts whole tiles of them."""
        return self.flops

    @property
    def data_bytes(self) -> float:
        raise NotImplementedError

    @property
    def items(self) -> float:
        """Independent work items that cost something each, besides operations and bytes."""
        return 0.0

    def __str__(self) -> str:
        values = " ".join(f"{name}={getattr(self, name)}" for name in self.columns())
        return f"{self.NAME} {values}"


def check_word(kernel: str, name: str, value: object) -> None:
    """Refuse a word that no kernel has.

    Raises:
        InputError: names kernel, field and the words there are.
    """
    if value not in _WORDS[name]:
        raise InputError(f"{kernel}: {name} is {value!r}: must be one of {', '.join(_WORDS[name])}")


@dataclass(frozen=True, kw_only=True)
class Gemm(Kernel):
    """``m`` rows times an ``n`` x ``k`` weight."""

    dtype: str
    m: int
    n: int
    k: int
    NAME: ClassVar[str] = "gemm"
    LABELS: ClassVar[tuple[str, ...]] = ("dtype",)
    AXES: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    CACHED_BYTES: ClassVar[int] = 16_000_000  # benchmarks cycle a few copies of smaller weights

    @property
    def numbers(self) -> dict[str, float]:
        return super().numbers | {"weight_bytes": self._weight_bytes}

    @property
    def fit_to_bandwidth(self) -> bool:
        return self._weight_bytes >= self.CACHED_BYTES

    @property
    def _weight_bytes(self) -> float:
        return float(ELEMENT_BYTES[self.dtype] * self.n * self.k)

    @property
    def arithmetic(self) -> str:
        return "bf16" if self.dtype == "bf16" else "fp8"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def data_bytes(self) -> float:
        width = ELEMENT_BYTES[self.dtype]
        return float(width * (self.n * self.k + self.m * self.k) + 2 * self.m * self.n)


@dataclass(frozen=True, kw_only=True)
class Moe(Kernel):
    """All routed experts of a layer on one GPU, gated: up and gate, activation, down.

    Attributes:
        hidden, inner, experts: of the whole layer.
        tp: GPUs that share the inner width of each expert.
        ep: GPUs that share the experts.
        tokens: that enter the layer on the ``ep`` GPUs together.
    """

    dtype: str
    distribution: str
    hidden: int
    inner: int
    top_k: int
    experts: int
    tp: int
    ep: int
    tokens: int
    NAME: ClassVar[str] = "moe"
    LABELS: ClassVar[tuple[str, ...]] = ("dtype", "distribution")
    EXACT: ClassVar[tuple[str, ...]] = ("hidden", "inner", "top_k", "experts", "tp", "ep")
    AXES: ClassVar[tuple[str, ...]] = ("tokens",)
    TILE_ROWS: ClassVar[int] = 64  # rows of an expert are computed in whole tiles

    @property
    def arithmetic(self) -> str:
        return "bf16" if self.dtype == "bf16" else "fp8"

    @property
    def rows(self) -> float:
        """Rows of all experts of this GPU."""
        return self.tokens * self.top_k / self.ep

    @property
    def items(self) -> float:
        """Experts of this GPU that get a row: balanced as many as can be, else as expected."""
        here = self.experts / self.ep
        if self.distribution == "balanced":
            return min(here, max(1.0, self.rows))
        return here * (1 - (1 - 1 / self.experts) ** (self.tokens * self.top_k))

    @property
    def _expert_params(self) -> float:
        return 3.0 * self.hidden * self.inner / self.tp

    @property
    def flops(self) -> float:
        active = self.items
        tiles = -(-self.rows / active // self.TILE_ROWS)
        return 2 * self._expert_params * active * tiles * self.TILE_ROWS

    @property
    def row_flops(self) -> float:
        return 2 * self._expert_params * self.rows

    @property
    def data_bytes(self) -> float:
        weights = self.items * self._expert_params * ELEMENT_BYTES[self.dtype]
        return weights + 2 * 2 * self.rows * (self.hidden + self.inner / self.tp)


@dataclass(frozen=True, kw_only=True)
class GqaDecode(Kernel):
    """One new token of each of ``batch`` sequences against ``kv_len`` tokens of KV."""

    kv_dtype: str
    q_heads: int
    kv_heads: int
    head_dim: int
    batch: int
    kv_len: int
    NAME: ClassVar[str] = "gqa_decode"
    LABELS: ClassVar[tuple[str, ...]] = ("kv_dtype",)
    EXACT: ClassVar[tuple[str, ...]] = ("q_heads", "kv_heads", "head_dim")
    AXES: ClassVar[tuple[str, ...]] = ("batch", "kv_len")

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.q_heads * self.head_dim * self.kv_len

    @property
    def data_bytes(self) -> float:
        kv = 2 * self.kv_len * self.kv_heads * ELEMENT_BYTES[self.kv_dtype]
        return float(self.batch * self.head_dim * (kv + 4 * self.q_heads))

    @property
    def items(self) -> float:
        return float(self.batch * self.kv_heads)


@dataclass(frozen=True, kw_only=True)
class GqaPrefill(Kernel):
    """Causal attention of ``batch`` prompts of ``length`` tokens without earlier context."""

    kv_dtype: str
    q_heads: int
    kv_heads: int
    head_dim: int
    batch: int
    length: int
    NAME: ClassVar[str] = "gqa_prefill"
    LABELS: ClassVar[tuple[str, ...]] = ("kv_dtype",)
    EXACT: ClassVar[tuple[str, ...]] = ("q_heads", "kv_heads", "head_dim")
    AXES: ClassVar[tuple[str, ...]] = ("batch", "length")

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.q_heads * self.head_dim * self.length**2

    @property
    def data_bytes(self) -> float:
        return 4.0 * self.batch * self.head_dim * self.length * (self.q_heads + self.kv_heads)


_LATENT, _ROPE, _NOPE, _VALUE = 512, 64, 128, 128  # of DeepSeek's latent attention


@dataclass(frozen=True, kw_only=True)
class MlaDecode(Kernel):
    """Absorbed latent attention (512 + 64 latent) of one new token of each sequence."""

    kv_dtype: str
    heads: int
    batch: int
    kv_len: int
    NAME: ClassVar[str] = "mla_decode"
    LABELS: ClassVar[tuple[str, ...]] = ("kv_dtype",)
    EXACT: ClassVar[tuple[str, ...]] = ("heads",)
    AXES: ClassVar[tuple[str, ...]] = ("batch", "kv_len")

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.heads * self.kv_len * (2 * _LATENT + _ROPE)

    @property
    def data_bytes(self) -> float:
        latent = self.kv_len * (_LATENT + _ROPE) * ELEMENT_BYTES[self.kv_dtype]
        return float(self.batch * (latent + 2 * self.heads * (2 * _LATENT + _ROPE)))

    @property
    def items(self) -> float:
        return float(self.batch)


@dataclass(frozen=True, kw_only=True)
class MlaPrefill(Kernel):
    """Causal latent attention of prompts, expanded to 128 + 64 query and key and 128 value."""

    kv_dtype: str
    heads: int
    batch: int
    length: int
    NAME: ClassVar[str] = "mla_prefill"
    LABELS: ClassVar[tuple[str, ...]] = ("kv_dtype",)
    EXACT: ClassVar[tuple[str, ...]] = ("heads",)
    AXES: ClassVar[tuple[str, ...]] = ("batch", "length")

    @property
    def flops(self) -> float:
        return 1.0 * self.batch * self.heads * self.length**2 * (_NOPE + _ROPE + _VALUE)

    @property
    def data_bytes(self) -> float:
        return 2.0 * self.batch * self.heads * self.length * 2 * (_NOPE + _ROPE + _VALUE)


@dataclass(frozen=True, kw_only=True)
class Collective(Kernel):
    """One collective over GPUs of one node; ``message_bytes`` is the whole message."""

    op: str
    gpus: int
    message_bytes: int
    NAME: ClassVar[str] = "collective"
    LABELS: ClassVar[tuple[str, ...]] = ("op",)
    EXACT: ClassVar[tuple[str, ...]] = ("gpus",)
    AXES: ClassVar[tuple[str, ...]] = ("message_bytes",)

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def data_bytes(self) -> float:
        """Bytes that leave each GPU in a ring."""
        rounds = 2 if self.op == "all_reduce" else 1
        return rounds * (self.gpus - 1) / self.gpus * self.message_bytes

    @property
    def items(self) -> float:
        """Other GPUs to wait for."""
        return float(self.gpus - 1)


KERNELS: dict[str, type[Kernel]] = {
    kernel.NAME: kernel
    for kernel in (Gemm, Moe, GqaDecode, GqaPrefill, MlaDecode, MlaPrefill, Collective)
}


def kernel_named(name: str) -> type[Kernel]:
    """The family of that name.

    Raises:
        InputError: there is none.
    """
    return named("kernel", name, KERNELS)
