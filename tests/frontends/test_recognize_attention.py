"""Attention is recognized in the ways that PyTorch, JAX and ONNX write it, on real imports.

Every variant has its own number of queries, which identifies its group.
"""

import math

import jax
import jax.numpy as jnp
import onnx
import onnx.parser
import pytest
import torch
import torch.nn.functional as F

from helpers.group_sizes import passes_by_size, sizes

V1, V2 = "flash_attention_fusion_v1", "flash_attention_fusion_v2"
BATCH, HEADS, WIDTH, KEYS = 2, 4, 8, 24
EACH = BATCH * HEADS * WIDTH
"""Elements of the result for each query."""

TARGET = "rocm"
"""Where no size is left to the ops of the attention."""

SCALE = 0.3
"""Not one over the root of the width."""


def fused(model, inputs=None) -> dict[int, set[str]]:
    """Number of queries -> the passes that formed groups with so many."""
    return passes_by_size(
        model,
        inputs,
        elements_per_size=EACH,
        target=TARGET,
        pipeline=f"{V1},{V2}",
        required_op="iree_linalg_ext.attention",
    )


# --- PyTorch -------------------------------------------------------------------------------------


def by_hand(scores, v):
    return torch.softmax(scores, -1) @ v


def f32_inside(q, k, v):
    scores = torch.matmul(q, k.transpose(2, 3)) * WIDTH**-0.5
    return torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype), v)


def triangle(q, k):
    shape = q.shape[-2], k.shape[-2]
    return torch.full(shape, -math.inf, dtype=q.dtype).triu(1)


TORCH = {
    # name: (function of q, k and v; element type; pass)
    "sdpa": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "f32", V2),
    "sdpa_f16": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "f16", V2),
    "sdpa_bf16": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "bf16", V2),
    "sdpa_causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "f32",
        V1,
    ),
    "sdpa_causal_bf16": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "bf16",
        V1,
    ),
    "sdpa_mask_bf16": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, triangle(q, k)),
        "bf16",
        V1,
    ),
    "sdpa_scale": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=SCALE),
        "f32",
        V2,
    ),
    "scale_on_q": (lambda q, k, v: by_hand((q * SCALE) @ k.mT, v), "f32", V2),
    "scale_on_k": (lambda q, k, v: by_hand(q @ (k * SCALE).mT, v), "f32", V2),
    "scale_on_product": (lambda q, k, v: by_hand(q @ k.mT * SCALE, v), "f32", V2),
    "division": (lambda q, k, v: by_hand(q @ k.mT / math.sqrt(WIDTH), v), "f32", V2),
    "einsum": (
        lambda q, k, v: torch.einsum(
            "bhqk,bhkd->bhqd", (torch.einsum("bhqd,bhkd->bhqk", q, k) * SCALE).softmax(-1), v
        ),
        "f32",
        V2,
    ),
    "f32_inside": (f32_inside, "f16", V2),
    "causal_by_hand": (
        lambda q, k, v: by_hand(q @ k.mT / math.sqrt(WIDTH) + triangle(q, k), v),
        "f32",
        V1,
    ),
}


class Variants(torch.nn.Module):
    def forward(self, *arguments):
        triples = zip(*[iter(arguments)] * 3, strict=True)
        return tuple(write(*t) for (write, _, _), t in zip(TORCH.values(), triples, strict=True))


@pytest.fixture(scope="module")
def from_torch():
    kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    arguments = [
        torch.zeros((BATCH, HEADS, rows, WIDTH), dtype=kinds[dtype])
        for (_, dtype, _), number in zip(TORCH.values(), sizes(TORCH).values(), strict=True)
        for rows in (number, KEYS, KEYS)
    ]
    return fused(Variants(), tuple(arguments))


@pytest.mark.parametrize("name", TORCH)
def test_torch(name, from_torch):
    assert from_torch.get(sizes(TORCH)[name]) == {TORCH[name][2]}


# --- JAX -----------------------------------------------------------------------------------------


def jax_by_hand(scores, v):
    return jnp.einsum("bhmn,bnhd->bmhd", jax.nn.softmax(scores, -1), v)


def product(q, k):
    return jnp.einsum("bmhd,bnhd->bhmn", q, k)


JAX = {
    "dot_product_attention": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v), "f32", V2),
    "dot_product_attention_bf16": (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v),
        "bf16",
        V2,
    ),
    "dot_product_attention_causal": (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        "f32",
        V1,
    ),
    "scale_on_q": (lambda q, k, v: jax_by_hand(product(q * SCALE, k), v), "f32", V2),
    "scale_on_product": (lambda q, k, v: jax_by_hand(product(q, k) * SCALE, v), "f32", V2),
    "division": (lambda q, k, v: jax_by_hand(product(q, k) / jnp.sqrt(WIDTH), v), "f32", V2),
}


@pytest.fixture(scope="module")
def from_jax():
    kinds = {"f32": jnp.float32, "bf16": jnp.bfloat16}
    arguments = [
        [
            jax.ShapeDtypeStruct((BATCH, rows, HEADS, WIDTH), kinds[dtype])
            for rows in (number, KEYS, KEYS)
        ]
        for (_, dtype, _), number in zip(JAX.values(), sizes(JAX).values(), strict=True)
    ]

    def everything(*triples):
        return [write(*t) for (write, _, _), t in zip(JAX.values(), triples, strict=True)]

    return fused(everything, tuple(arguments))


@pytest.mark.parametrize("name", JAX)
def test_jax(name, from_jax):
    assert from_jax.get(sizes(JAX)[name]) == {JAX[name][2]}


# --- ONNX ----------------------------------------------------------------------------------------

HEADS_OF = """
  {0}s = Reshape({0}, {0}split) {0}t = Transpose<perm=[0, 2, {1}]>({0}s)"""

ONNX = {
    # name: (from the matmul p to the scores, opset, pass)
    "division": ("s = Div(p, root)", 13, V2),
    "factor": ("s = Mul(p, factor)", 17, V2),
    "mask": ("d = Div(p, root) s = Add(d, mask)", 13, V1),
}


@pytest.mark.parametrize("name", ONNX)
def test_onnx(name, tmp_path):
    """As `torch.onnx.export` writes the eager attention of transformers."""
    scores, opset, expected = ONNX[name]
    rows, all_heads = 16, HEADS * WIDTH
    heads = "".join(
        HEADS_OF.format(of, perm) for of, perm in (("q", "1, 3"), ("k", "3, 1"), ("v", "1, 3"))
    )
    text = f"""<ir_version: 8, opset_import: ["": {opset}]>
      net (float[{BATCH}, {rows}, {all_heads}] q, float[{BATCH}, {KEYS}, {all_heads}] k,
           float[{BATCH}, {KEYS}, {all_heads}] v, float[{BATCH}, 1, 1, {KEYS}] mask)
        => (float[{BATCH}, {rows}, {all_heads}] y)
        <float root = {{2.8284271}}, float factor = {{0.3}},
         int64[4] qsplit = {{{BATCH}, {rows}, {HEADS}, {WIDTH}}},
         int64[4] ksplit = {{{BATCH}, {KEYS}, {HEADS}, {WIDTH}}},
         int64[4] vsplit = {{{BATCH}, {KEYS}, {HEADS}, {WIDTH}}},
         int64[3] back = {{{BATCH}, {rows}, {all_heads}}}>
      {{ {heads} p = MatMul(qt, kt) {scores} w = Softmax<axis=-1>(s) o = MatMul(w, vt)
         t = Transpose<perm=[0, 2, 1, 3]>(o) y = Reshape(t, back) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert fused(str(tmp_path / "net.onnx")) == {rows: {expected}}


# --- no attention ---------------------------------------------------------------------------------


def test_weights_that_are_no_softmax_of_the_rows_are_none():
    def over_queries(q, k, v):
        return torch.softmax(q @ k.mT, -2) @ v

    inputs = tuple(torch.zeros(BATCH, HEADS, rows, WIDTH) for rows in (16, KEYS, KEYS))
    assert fused(over_queries, inputs) == {}
