"""Forms of `attention_triton_kernel`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.gpu.check.case import Chance, Form, Input, Tensor, Work
from benchmarks.gpu.check.rows import spelled

SOFT_CAP = 3.0
"""The largest magnitude of scores with a soft cap."""

HEAD_SIZES = (32, 40, 64, 64, 80, 96, 128, 128, 160, 256)


def whole(chance: Chance) -> Work:
    """No mask; any numbers of queries and keys, and grouped query heads."""
    return _attention(chance, "")


def causal(chance: Chance) -> Work:
    return _attention(chance, "causal")


def boolean(chance: Chance) -> Work:
    return _attention(chance, "boolean")


def added(chance: Chance) -> Work:
    return _attention(chance, "added")


def of_f32(chance: Chance) -> Work:
    """Any mask in f32."""
    mask = chance.pick("", "", "causal", "boolean", "added")
    return _attention(chance, mask, "f32", (16, 32, 40, 64, 80, 96, 128))


def _attention(
    chance: Chance, mask: str, dtype: str = "", head_sizes: Sequence[int] = HEAD_SIZES
) -> Work:
    shared = chance.pick(1, 1, 2, 4)
    key_heads, batch = chance.pick(1, 2, 3, 4), chance.pick(1, 2, 3)
    size = chance.pick(*head_sizes)
    tokens = chance.size(700, 2)
    keys = tokens if mask == "causal" or chance.likely(0.5) else chance.size(900, 2)
    heads = key_heads * shared
    masks = ((batch, 1, tokens, keys), (1, 1, tokens, keys), (batch, heads, tokens, keys))
    shape = masks[chance.below(3)]
    given = {"boolean": (Input(shape, "mask", "i1"),), "added": (Input(shape, "bias"),)}
    q, k = (batch, heads, tokens, size), (batch, key_heads, keys, size)
    description = f"{spelled(q)}, {key_heads} key heads, {keys} keys{f', {mask}' if mask else ''}"
    inputs = (Input(q), Input(k), Input(k), *given.get(mask, ()))
    return Work(_program(mask, shared > 1), inputs, dtype or chance.dtype(), description)


def _program(mask: str, shared: bool) -> Any:
    def program(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(
            q, k, v, seen, is_causal=mask == "causal", enable_gqa=shared
        )

    return program


REAL = (
    (2, 8, 8, 1024, 64, ""),
    (1, 8, 2, 1024, 128, ""),
    (1, 4, 4, 2048, 128, "causal"),
    (2, 12, 12, 512, 64, "causal"),
    (1, 4, 4, 1000, 128, "causal"),
    (2, 4, 4, 997, 64, ""),
    (1, 8, 8, 1024, 64, "boolean"),
    (2, 4, 2, 1031, 128, ""),
)
"""Batch, heads, key heads, tokens, head size, mask; some use the kernels for Hopper."""


def real(chance: Chance) -> Work:
    batch, heads, key_heads, tokens, size, mask = REAL[chance.ordinal % len(REAL)]
    if chance.small:
        tokens = 20
    q, k = (batch, heads, tokens, size), (batch, key_heads, tokens, size)
    given = (Input((batch, 1, tokens, tokens), "mask", "i1"),) if mask == "boolean" else ()
    description = f"{spelled(q)}, {key_heads} key heads{f', {mask}' if mask else ''}"
    inputs = (Input(q), Input(k), Input(k), *given)
    return Work(_program(mask, heads != key_heads), inputs, chance.dtype(), description)


def decode(chance: Chance) -> Work:
    """One or a few queries, with split-KV."""
    batch, shared, key_heads = chance.pick(1, 3, 8), chance.pick(1, 4, 8), chance.pick(1, 2, 8)
    size, tokens = chance.pick(64, 128, 128, 256), 3 if shared == 1 else chance.pick(1, 1, 1, 3)
    keys = chance.size(9000, 2)
    heads = shared * key_heads
    q, k = (batch, heads, tokens, size), (batch, key_heads, keys, size)
    capped = chance.likely(0.4)
    description = (
        f"{spelled(q)}, {key_heads} key heads, {keys} keys{', soft cap' if capped else ''}"
    )
    program = _capped(shared) if capped else _program("", shared > 1)
    return Work(program, (Input(q), Input(k), Input(k)), chance.dtype(), description)


def _capped(shared: int) -> Any:
    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (x.repeat_interleave(shared, 1) for x in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return (SOFT_CAP * torch.tanh(scores / SOFT_CAP)).softmax(-1) @ v

    return program


CALLED = ((1, 2, 7), (2, 7, 64), (1, 131, 131), (3, 64, 197), (1, 1000, 1000), (2, 1, 999))
"""Batch, queries and keys of the calls."""

CALLED_SELF = ((1, 1), (2, 7), (1, 131), (3, 64), (1, 1000))
"""Batch and tokens of the calls of self-attention."""


def dynamic(chance: Chance) -> Work:
    """Dynamic batch, queries and keys, with different masks."""
    heads, shared, size = chance.pick(1, 3), chance.pick(1, 2), chance.pick(32, 64, 80, 128)
    mask = chance.pick("", "", "boolean", "added")
    q: tuple[int | str, ...] = ("batch", heads * shared, "queries", size)
    k: tuple[int | str, ...] = ("batch", heads, "keys", size)
    shape = ("batch", 1, "queries", "keys")
    given = {"boolean": (Input(shape, "mask", "i1"),), "added": (Input(shape, "bias"),)}
    sizes = tuple({"batch": b, "queries": m, "keys": n} for b, m, n in CALLED)
    description = f"{spelled(q, k)}{f', {mask}' if mask else ''}"
    inputs = (Input(q), Input(k), Input(k), *given.get(mask, ()))
    return Work(_program(mask, shared > 1), inputs, chance.dtype(), description, sizes)


def dynamic_causal(chance: Chance) -> Work:
    heads, size = chance.pick(2, 3), chance.pick(64, 128)
    q: tuple[int | str, ...] = ("batch", heads, "tokens", size)
    sizes = tuple({"batch": b, "tokens": n} for b, n in CALLED_SELF)
    return Work(
        _program("causal", False), (Input(q), Input(q), Input(q)), chance.dtype(), spelled(q), sizes
    )


ATTENTIONS: Mapping[str, Form] = {
    "attention": whole,
    "causal_attention": causal,
    "boolean_attention": boolean,
    "added_attention": added,
    "real_attention": real,
    "decode_attention": decode,
    "dynamic_attention": dynamic,
    "dynamic_causal_attention": dynamic_causal,
    "attention_f32": of_f32,
}
