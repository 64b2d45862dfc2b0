"""Programs of the attention passes agree with the unfused program and float64."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import mlirfuse
from helpers.attention_text import LOWEST, B, D, G, H, K, M, N, kept, write
from helpers.harness import FLOATS, Batch, Case, section
from helpers.spread import Runs

V1, V2 = "flash_attention_fusion_v1", "flash_attention_fusion_v2"
# On a CPU the passes form groups for a kernel only, unless sizes do not matter.
_ANY = "{dynamic-keys=true any-size=true}"
ALL = f"{V1}{_ANY},{V2}{_ANY}"
KERNEL = "attention_vector_kernel"

ULPS = 8.0
"""Two contractions, an exponential and a division; exp2 in place of exp."""

LENGTH = 32
"""Elements of a query that this is for; the sums of longer ones are rounded more often."""


def attend(q, k, v, scale, mask=0.0, zero=False):
    """Attention in float64: q has a dimension for the heads of q that share one of k."""
    scores = np.einsum("bhgmd,bhkd->bhgmk", q, k) * scale + mask
    highest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - highest)
    weights /= weights.sum(-1, keepdims=True)
    if zero:
        weights = np.where(highest == -np.inf, 0.0, weights)
    return np.einsum("bhgmk,bhkn->bhgmn", weights, v)


SIZES = {
    "self": (2, 2, 1, 32, 16, 16, 32),
    "odd": (1, 3, 1, 37, 20, 12, 53),
    "grouped": (2, 2, 4, 24, 16, 16, 40),
    "few_queries": (2, 2, 8, 4, 16, 16, 40),
    "shared": (1, 1, 8, 33, 32, 32, 33),
    "long": (1, 2, 1, 66, 32, 32, 129),
    "blocks": (1, 2, 1, 120, 40, 44, 333),
    "one_query": (2, 3, 1, 1, 40, 33, 300),
    "one_grouped": (2, 2, 4, 1, 16, 32, 53),
    "many_rows": (1, 1, 7, 5, 200, 24, 67),
    "wide_heads": (1, 1, 1, 33, 160, 152, 67),
    "split": (1, 2, 1, 3, 64, 64, 1100),
}
"""Sizes of the loops; a size of one is left out of the tensors."""


def make(name: str, sizes: str = "self", **how) -> Case:
    """A case of one attention, of sizes `SIZES[sizes]`, written as `write` says."""
    extents = SIZES[sizes]
    text, arguments = write(name, extents, **how)
    dtype, mask = how.get("dtype", "f32"), how.get("mask", "")
    scale, zero, dynamic = how.get("scale", 0.25), how.get("zero", False), how.get("dynamic", ())

    def full(array: np.ndarray, *axes: int) -> np.ndarray:
        lengths = iter(array.shape)
        return array.reshape([next(lengths) if a in kept(extents, *axes) else 1 for a in axes])

    def reference(q, k, v, *rest):
        lengths = (q.shape[-2], k.shape[-2])
        added = 0.0
        if mask == "causal":
            added = np.where(np.tri(*lengths, dtype=bool), 0.0, -np.inf)
        elif mask == "window":
            added = np.where(
                np.arange(lengths[1]) - np.arange(lengths[0])[:, None] >= 5, 0, -np.inf
            )
        elif mask:
            added = full(rest[0], B, M, K)[:, None, None]
            if mask != "bias":
                added = np.where(added, 0.0, -np.inf if mask == "boolean" else -1e38)
            # The harness moves every number by one rounding, which says nothing about these.
            added = np.where(np.isnan(added), -np.inf, added)
            added = np.where((added < -1e38) & np.isfinite(added), -1e38, added)
        out = attend(
            full(q, B, H, G, M, D), full(k, B, H, K, D), full(v, B, H, K, N), scale, added, zero
        )
        lengths = [s for s, a in zip(out.shape, (B, H, G, M, N), strict=True) if extents[a] != 1]
        return (out.reshape(lengths),)

    generator = np.random.default_rng(len(name))

    def random(lengths: tuple[int, int], size: float) -> tuple[np.ndarray, ...]:
        actual = [*extents]
        actual[M], actual[K] = lengths
        shapes = [[actual[a] for a in t.axes] for t in arguments]
        made = [generator.standard_normal(s) for s in shapes]
        made[0] *= size
        if len(made) == 4:
            if mask == "bias":
                # One key that no query sees, a row of the lowest finite number, a row of -inf.
                made[3][..., 1] = -np.inf
                made[3][..., 2, :] = float(ml_dtypes.finfo(FLOATS[dtype]).min)
                made[3][..., 3, :] = -np.inf
            else:
                made[3] = made[3] > -0.5
                closed = made[3].reshape(-1, actual[M], actual[K])
                if actual[M] > 2:
                    closed[:, 2] = False
                else:
                    closed[0] = False
        kinds = [FLOATS.get(t.dtype, np.bool_) for t in arguments]
        return tuple(a.astype(kind) for a, kind in zip(made, kinds, strict=True))

    lengths = [(extents[M], extents[K])] + ([(19, 35), (64, 16)] if dynamic else [])
    inputs = {f"{m} by {n}": random((m, n), 1.0) for m, n in lengths}
    inputs["large scores"] = random(lengths[0], 30.0)
    return Case(
        name=name,
        text=text,
        inputs=inputs,
        reference=reference,
        fires={V1 if mask else V2: 1},
        ulps=ULPS * max(1.0, extents[D] / LENGTH),
        computed=dtype,
    )


def imported(name: str, fires: str, reference, *arguments: np.ndarray) -> Case:
    """A case of a framework's output."""
    return Case(
        name=name,
        text=section(name, V1, V2),
        inputs={"normal": arguments},
        reference=lambda *wide: (reference(*wide),),
        fires={fires: 1},
        ulps=ULPS,
        computed="f16" if arguments[0].dtype == np.float16 else "f32",
    )


def imports() -> list[Case]:
    """The imports of PyTorch, JAX and ONNX in the lit files, on random numbers."""
    generator = np.random.default_rng(11)

    def normal(*shape: int, kind: type = np.float32) -> np.ndarray:
        return generator.standard_normal(shape).astype(kind)

    def heads_first(q, k, v, scale, mask=0.0):
        return attend(q[:, :, None], k, v, scale, mask)[:, :, 0]

    def heads_last(q, k, v, scale, mask):
        moved = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        return heads_first(*moved, scale, mask).transpose(0, 2, 1, 3)

    causal = np.where(np.tri(16, 24, dtype=bool), 0.0, -np.inf)
    keep = generator.random((2, 1, 16, 24)) < 0.7
    keep[1, 0, 5] = False
    padding = np.where(np.arange(24) < 17, 0.0, LOWEST) * np.ones((2, 1, 1, 1))
    padding[1] = LOWEST
    q, k, v = normal(2, 4, 16, 8), normal(2, 4, 24, 8), normal(2, 4, 24, 8)
    grouped = (normal(2, 8, 16, 8), normal(2, 2, 24, 8), normal(2, 2, 24, 8))
    narrow = [x.astype(np.float16) for x in (q, k, v)]
    last = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    root = 8**-0.5
    return [
        imported(
            "torch_sdpa_causal",
            V1,
            lambda q, k, v: heads_first(q, k, v, root, causal[None, None, None]),
            q,
            k,
            v,
        ),
        imported(
            "torch_sdpa_grouped_queries",
            V2,
            lambda q, k, v: attend(q.reshape(2, 2, 4, 16, 8), k, v, 0.3).reshape(q.shape),
            *grouped,
        ),
        imported(
            "jax_dot_product_attention_mask",
            V1,
            lambda q, k, v, m: heads_last(q, k, v, root, np.where(m, 0.0, -1e38)[:, :, None]),
            *last,
            keep,
        ),
        imported(
            "onnx_additive_mask",
            V1,
            lambda q, k, v, m: heads_first(
                q, k, v, 0.4, np.maximum(m, -1e38)[:, :, None]
            ).transpose(0, 2, 1, 3),
            q,
            k,
            v,
            padding.astype(np.float32),
        ),
        imported(
            "transformers_eager_f16",
            V1,
            lambda q, k, v, m: heads_first(q, k, v, 0.25, m[:, :, None]).transpose(0, 2, 1, 3),
            *narrow,
            np.where(keep, 0.0, -100.0).astype(np.float16),
        ),
        padded(),
    ]


def padded() -> Case:
    """One padding mask for all rows: some keys are unmasked, or none, which gives zero."""
    generator = np.random.default_rng(12)
    read = [generator.standard_normal(s).astype(np.float32) for s in _PADDED]

    def reference(q, k, v, keep):
        if not keep.any():
            return (np.zeros((16, 4, 8)),)
        mask = np.where(keep, 0.0, -np.inf)
        heads = attend(q[None, :, None], k.transpose(0, 2, 1)[None], v[None], 1.0, mask)
        return (heads[0, :, 0].transpose(1, 0, 2),)

    some = np.arange(24) % 3 == 1
    return Case(
        name="zero_without_a_key_then_transpose",
        text=section("zero_without_a_key_then_transpose", V1),
        inputs={"some keys": (*read, some), "no key": (*read, np.zeros(24, np.bool_))},
        reference=reference,
        fires={V1: 1},
        ulps=ULPS,
        computed="f32",
    )


_PADDED = ((4, 16, 8), (4, 8, 24), (4, 24, 8))
"""Shapes of q, k, with its keys last, and v."""


def cases() -> list[Case]:
    return [
        make("plain_f32", writing="parts"),
        make("plain_f16", dtype="f16"),
        make("plain_bf16", dtype="bf16", writing="divided"),
        make("odd_sizes", "odd", writing="on_q on_k", scale=-0.7),
        make("grouped", "grouped", writing="swapped parts"),
        make("few_queries_boolean", "few_queries", mask="boolean"),
        make("grouped_causal_f16", "grouped", dtype="f16", mask="causal"),
        make("shared_heads_boolean", "shared", mask="boolean"),
        make("long_causal", "long", mask="causal", zero=True),
        make("blocks_causal", "blocks", mask="causal"),
        make("blocks_causal_bf16", "blocks", dtype="bf16", mask="causal"),
        make("blocks_bf16", "blocks", dtype="bf16", scale=-0.2),
        make("window_with_closed_rows", mask="window"),
        make("window_with_zero_rows", mask="window", zero=True),
        make("boolean_zero_bf16", "grouped", dtype="bf16", mask="boolean", zero=True),
        make("lowest", mask="lowest", writing="parts"),
        make("billion_swallows_large_scores", mask="billion"),
        make("lowest_is_added", "odd", mask="added"),
        make("bias_bf16", "odd", dtype="bf16", mask="bias"),
        make("bias_zero", mask="bias", zero=True),
        make("one_query", "one_query"),
        make("one_query_bf16", "one_query", dtype="bf16", scale=-0.7),
        make("one_query_boolean_zero", "one_query", mask="boolean", zero=True),
        make("one_query_grouped_f16", "one_grouped", dtype="f16", mask="boolean", zero=True),
        make("one_query_grouped_lowest", "one_grouped", mask="lowest", writing="on_q"),
        make("many_rows_bias", "many_rows", mask="bias"),
        make("split", "split"),
        make("split_causal_bf16", "split", dtype="bf16", mask="causal", zero=True),
        make("split_boolean", "split", mask="boolean", zero=True),
        make("dynamic_zero", dynamic=(M, K), zero=True),
        make("dynamic_causal", dynamic=(M, K), mask="causal", zero=True),
        make("dynamic_boolean_f16", "odd", dtype="f16", dynamic=(M, K), mask="boolean", zero=True),
        *imports(),
    ]


CASES = {case.name: case for case in cases()}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=ALL).run()


@pytest.mark.parametrize("name", CASES)
def test_attention(name, outcomes):
    outcomes[name].check()


VECTORS = {
    case.name: dataclasses.replace(case, fires={**case.fires, KERNEL: 1})
    # IREE 3.13.0 computes attention of such heads itself wrongly.
    for case in (*CASES.values(), make("wide_heads", "wide_heads"))
    if "dynamic" not in case.name
}
"""The cases of static sizes, which a kernel in the vector dialect computes."""

TARGETS = ("cpu:host", "cpu:x86-64-v3", "cpu:x86-64")


RUNS = Runs(VECTORS, TARGETS, pipeline=f"{V1},{V2},{KERNEL}")


@pytest.mark.parametrize(("target", "name"), RUNS.parameters)
def test_kernel(target, name):
    RUNS.outcome(target, name).check()


def test_values_whose_elements_are_not_adjacent():
    """Attention over channels: no kernel takes it, and IREE computes its 196 elements wrongly."""
    torch = pytest.importorskip("torch")

    def attention(q, k, v):
        weights = ((q * q.shape[-2] ** -0.5).mT @ k).softmax(-1)
        return (weights @ v.mT).mT

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 196, 32, generator=generator) for _ in range(3))
    module = mlirfuse.compile(attention, (q, k, v), target="cpu")
    exact = attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(module(q, k, v).double(), exact, rtol=1e-5, atol=1e-5)
