"""Attention whose scores have a soft cap, and the tiles of queries that fill a device."""

import dataclasses

import numpy as np
import pytest

from helpers.attention_text import CAP, write
from helpers.kernel_runner import TARGET, close, draw, needs_triton, run
from helpers.softmax_text import softmax_reference
from mlirfuse.kernels.attention import heuristics
from mlirfuse.kernels.attention.problem import AttentionProblem


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize(
    ("extents", "mask"),
    [
        ((2, 3, 2, 37, 16, 16, 53), ""),
        ((1, 2, 2, 1, 32, 32, 1061), ""),
        ((2, 3, 1, 70, 64, 64, 70), "causal"),
        ((2, 3, 1, 7, 64, 64, 9), "bias"),
    ],
    ids=["shared keys", "one query", "causal", "bias"],
)
@pytest.mark.parametrize("writing", ["capped", "capped on_q parts"])
def test_soft_cap(interpreter, extents, mask, dtype, writing):
    """The cap is inside of the mask, and a scale of q or k inside of the cap."""
    b, h, g, m, n, d, k = extents
    text, _ = write("main", extents, dtype=dtype, mask=mask, writing=writing)
    heads = (b, h, g) if g > 1 else (b, h)
    shape = (*heads[heads[0] == 1 :], *((m,) if m > 1 else ()))
    keys = (*((b, h)[b == 1 :]), k)
    arrays = [draw((*shape, d), dtype, 1), draw((*keys, d), dtype, 2), draw((*keys, n), dtype, 3)]
    addend = np.zeros((b, m, k))
    if mask == "causal":
        addend = np.where(np.arange(k) <= np.arange(m)[:, None], 0.0, -np.inf) + addend
    elif mask:
        arrays.append(draw((b, m, k), dtype, 4))
        addend = arrays[3].astype(np.float64)
    (found,) = run(interpreter, text, "attention", arrays, [(*shape, n)])
    q, key, v = (x.astype(np.float64) for x in arrays[:3])
    q, key, v = q.reshape(b, h, g, m, d), key.reshape(b, h, k, d), v.reshape(b, h, k, n)
    scores = CAP * np.tanh(np.einsum("bhgmd,bhkd->bhgmk", q, key) * 0.25)
    weights = softmax_reference(scores + addend[:, None, None])
    close(found, np.einsum("bhgmk,bhkn->bhgmn", weights, v).reshape(found.shape), dtype)


def test_fewer_queries_of_a_tile_fill_the_device():
    """With few causal heads a tile has 64 queries; where keys can be split, that comes first."""
    few = AttentionProblem(128, 128, 96, 8, mask="causal", operand_bits=32)
    assert heuristics.filling_block(few, 128, TARGET) == 64
    assert heuristics.filling_block(dataclasses.replace(few, heads=128), 128, TARGET) == 128
    long = dataclasses.replace(few, keys=8192, mask="none")
    assert heuristics.filling_block(long, 128, TARGET) == 128
    assert heuristics.filling_block(few, 16, TARGET) == 16
