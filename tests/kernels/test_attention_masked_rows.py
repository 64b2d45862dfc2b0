"""Fully masked rows of attention: zeros, by the largest score and not by another kernel."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import KERNEL_PASSES, TARGET, close, draw, needs_triton, run
from mlirfuse.compilation import open_model
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import marks

torch = pytest.importorskip("torch")


class Masked(torch.nn.Module):
    """Attention with a mask."""

    def forward(self, q, k, v, mask):
        """`(batch, heads, queries, size)` and keys to the shape of q."""
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Safe(torch.nn.Module):
    """The same, written as PyTorch's own decomposition: scores of -inf alone have zero weights."""

    def forward(self, q, k, v, mask):
        """As `Masked`."""
        scores = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
        if mask.dtype == torch.bool:
            scores = torch.where(mask, scores, float("-inf"))
        else:
            scores = scores + mask
        hidden = (scores == float("-inf")).all(-1, keepdim=True)
        return torch.where(hidden, 0.0, torch.softmax(scores, -1)).half() @ v


class Otherwise(torch.nn.Module):
    """Zeros where another tensor than the mask is false in the whole row."""

    def forward(self, q, k, v, mask, other):
        """As `Masked`, without rows that `other` has no true of."""
        scores = (q @ k.transpose(-1, -2)).float() + mask
        found = torch.softmax(scores, -1).half() @ v
        return torch.where(other.any(-1, keepdim=True), found, 0.0)


def normalized(model, args):
    """The model as the passes get it."""
    with open_model(model, args, target="cuda:sm_90", options=FusionOptions()) as work:
        return work.normalized.read_bytes()


def mask_of(kind, b, h, m, k):
    """A mask that hides the first query and, of all queries, the keys of the last batch."""
    keep = np.random.default_rng(3).random((b, 1 if kind == "padding" else h, m, k)) < 0.7
    keep[:, :, 0] = False
    keep[-1] &= np.arange(k) < 0
    if kind == "padding":
        keep = keep[:, :, -1:]
    if kind == "additive":
        return np.where(keep, draw(keep.shape, "f16", 7), -np.inf).astype(np.float16), keep
    return keep.astype(np.int8), keep


@needs_triton
@pytest.mark.parametrize("model", [Masked, Safe])
@pytest.mark.parametrize(
    ("kind", "extents"),
    [
        ("additive", (2, 3, 37, 53, 32)),
        ("boolean", (2, 3, 64, 64, 16)),
        ("padding", (2, 2, 20, 70, 32)),
        ("additive", (2, 2, 5, 1061, 32)),
    ],
    ids=["additive", "boolean", "padding", "split keys"],
)
def test_fully_masked_rows_are_zeros(interpreter, kind, extents, model):
    b, h, m, k, d = extents
    q, key, v = (draw((b, h, n, d), "f16", seed) for seed, n in enumerate((m, k, k)))
    mask, keep = mask_of(kind, b, h, m, k)
    given = torch.from_numpy(mask if kind == "additive" else keep)
    text = normalized(model(), (*map(torch.from_numpy, (q, key, v)), given))
    collapsed = mask.reshape([s for s in mask.shape if s != 1])
    (found,) = run(interpreter, text, "attention", [q, key, v, collapsed], [(b, h, m, d)])
    addend = np.where(keep, mask if kind == "additive" else 0.0, -np.inf).astype(np.float64)
    scores = np.einsum("bhmd,bhkd->bhmk", q.astype(np.float64), key) / np.sqrt(d) + addend
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(largest), 0.0, largest))
    total = weights.sum(-1, keepdims=True)
    expected = np.einsum("bhmk,bhkd->bhmd", weights / np.where(total == 0, 1.0, total), v)
    assert not found[-1].any()
    close(found, expected, "f16")


def selects(text):
    """The number of selects behind an attention that test its mask."""
    with ir.Context():
        options = FusionOptions(enable_feature=("kernels",), disable_pass=KERNEL_PASSES)
        grouped, _ = engine.run(ir.Module.parse(text), target=TARGET, options=options)
        return str(grouped).count(marks.MASKED_ATTRIBUTE)


@pytest.mark.parametrize("kind", ["additive", "boolean"])
def test_only_a_test_of_the_mask_is_left_out(kind):
    b, h, m, k, d = 2, 3, 16, 24, 16
    q, key, v = (torch.zeros((b, h, n, d), dtype=torch.float16) for n in (m, k, k))
    mask, keep = mask_of(kind, b, h, m, k)
    given = torch.from_numpy(mask if kind == "additive" else keep)
    assert selects(normalized(Masked(), (q, key, v, given))) == 1
    other = torch.from_numpy(keep)
    numbers = torch.from_numpy(mask.astype(np.float32))
    assert selects(normalized(Otherwise(), (q, key, v, numbers, other))) == 0
