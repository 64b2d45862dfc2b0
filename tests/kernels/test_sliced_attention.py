"""Attention reads slices of projections in place: kernels for CPUs, and for GPUs interpreted."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from iree.compiler import ir

import mlirfuse
from helpers.kernel_runner import TARGET, TOLERANCE, needs_triton, planned, run
from mlirfuse.compilation import open_model
from mlirfuse.options import FusionOptions

B, N, D = 2, 37, 24


def heads(x, size=D):
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def split(x):
    q, k, v = x.chunk(3, -1)
    return heads(q), heads(k), heads(v)


def unbound(x):
    return x.unflatten(-1, (3, -1, D)).permute(2, 0, 3, 1, 4).unbind(0)


def interleaved(x):
    """Queries, keys and values of a head next to each other."""
    q, k, v = x.unflatten(-1, (-1, 3 * D)).chunk(3, -1)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def unequal(x):
    """Fewer heads of keys and values than of queries."""
    q, k, v = x.split([4 * D, 2 * D, 2 * D], -1)
    return heads(q), *(heads(t).repeat_interleave(2, 1) for t in (k, v))


def sequence_first(x):
    """As `torch.nn.MultiheadAttention` has its projection."""
    q, k, v = x.transpose(0, 1).unflatten(-1, (3, -1)).unsqueeze(0).transpose(0, -2).squeeze(-2)
    return [t.unflatten(-1, (-1, D)).permute(1, 2, 0, 3) for t in (q, k, v)]


FORMS = {
    "split": (split, 3 * 3 * D),
    "unbound": (unbound, 3 * 3 * D),
    "interleaved": (interleaved, 3 * 3 * D),
    "unequal": (unequal, 8 * D),
    "sequence_first": (sequence_first, 3 * 3 * D),
}


def attention(form):
    def model(x):
        q, k, v = form(x)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)

    return model


def drawn(width, dtype):
    return torch.randn((B, N, width), generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FORMS)
def test_cpu(name, dtype):
    form, width = FORMS[name]
    model, x = attention(form), drawn(width, dtype)
    program = mlirfuse.compile(model, (x,), target="cpu", cache=False)
    assert [kernel.code for kernel in program.kernels] == ["attention_vector_kernel"]
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(
        program(x).double(), model(x.double()), rtol=tolerance, atol=tolerance
    )


@needs_triton
@pytest.mark.parametrize("name", FORMS)
def test_gpu(name, interpreter):
    form, width = FORMS[name]
    model, x = attention(form), drawn(width, torch.float32)
    expected = model(x.double()).numpy()
    with open_model(model, (x,), target=TARGET, options=FusionOptions()) as work, ir.Context():
        text = str(ir.Module.parseFile(str(work.normalized)))
    (found,) = run(interpreter, text, "attention", [x.numpy()], [expected.shape])
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE["f32"] * 4)


@pytest.mark.parametrize("name", FORMS)
def test_kernels_for_hopper(name):
    """Slices that start at whole vectors are read by asynchronous copies."""
    form, width = FORMS[name]
    model, x = attention(form), drawn(width, torch.float16)
    with open_model(model, (x,), target=TARGET, options=FusionOptions()) as work, ir.Context():
        text = str(ir.Module.parseFile(str(work.normalized)))
        _, (plan,) = planned(text, "attention")
        assert len({str(value) for value in plan.operands}) == 1


@pytest.mark.parametrize(
    ("offset", "width", "aligned"), [(64, 192, True), (4, 192, False), (64, 219, False)]
)
def test_rows_of_slices_start_at_whole_vectors(offset, width, aligned):
    """Kernels for Hopper copy vectors; others take what is not aligned."""

    def model(q, x):
        k = x[..., offset : offset + 64]
        return F.scaled_dot_product_attention(q, k, k)

    q, x = torch.zeros(1, 8, 256, 64).half(), torch.zeros(1, 8, 256, width).half()
    with open_model(model, (q, x), target=TARGET, options=FusionOptions()) as work, ir.Context():
        text = str(ir.Module.parseFile(str(work.normalized)))
        _, (plan,) = planned(text, "attention")
        assert ("_sm90.attention(" in plan.program.source) == aligned


def multihead(batch_first, cross):
    layer = torch.nn.MultiheadAttention(48, 3, batch_first=batch_first, kdim=48, vdim=48).eval()
    with torch.no_grad():
        layer.in_proj_bias.normal_(generator=torch.Generator().manual_seed(2))

    def model(x, y):
        return layer(x, y, y, need_weights=False)[0] if cross else layer(x, x, x)[0]

    return layer, model


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_multihead_attention(batch_first, cross):
    """The projections' rows are not transposed in memory."""
    layer, model = multihead(batch_first, cross)
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn((5, n, 48), generator=generator) for n in (9, 37))
    y = y if cross else x
    x, y = (t if batch_first else t.transpose(0, 1).contiguous() for t in (x, y))
    with torch.no_grad():
        program = mlirfuse.compile(model, (x, y), target="cpu", cache=False)
        found = program(x, y)
        layer.double()
        expected = model(x.double(), y.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    moves = ("transpose", "memcpy")
    moved = [n for n, k in enumerate(program.kernels) if any(word in k.name for word in moves)]
    # The result is transposed where nothing reads it.
    assert moved in ([], [len(program.kernels) - 1])


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("rotated", [8, D])
def test_rotary_embedding_of_interleaved_heads(batch, rotated):
    """As GPT-NeoX has it: a part of each head is rotated, and joined with the rest."""
    cos, sin = torch.rand(2, N, rotated, generator=torch.Generator().manual_seed(3)).unbind()

    def rotate(x):
        turned, kept = x[..., :rotated], x[..., rotated:]
        low, high = turned.chunk(2, -1)
        return torch.cat((turned * cos + torch.cat((-high, low), -1) * sin, kept), -1)

    def model(x):
        q, k, v = x.unflatten(-1, (-1, 3 * D)).transpose(1, 2).chunk(3, -1)
        return F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)

    x = drawn(3 * 3 * D, torch.float32)[:batch]
    program = mlirfuse.compile(model, (x,), target="cpu", cache=False)
    expected = model(x.double())
    torch.testing.assert_close(program(x).double(), expected, rtol=1e-5, atol=1e-5)
