"""Operands that a group reads both as they are and reshaped."""

import logging

import pytest
import torch
from torch import nn

import mlirfuse


class Both(nn.Module):
    """A softmax over rows that adds a vector along rows, and the same one along columns."""

    def forward(self, x, rows):
        gate = torch.sigmoid(x)
        split = (rows * gate[:, None]).view(64, 8, 8) + gate.view(8, 8)
        return torch.softmax(split.view(64, 64), -1)


def test_no_pass_takes_one_vector_for_two_axes(caplog):
    torch.manual_seed(0)
    inputs = (torch.randn(64), torch.randn(64, 64))
    with caplog.at_level(logging.WARNING, "mlirfuse"):
        fused = mlirfuse.compile(Both(), inputs, target="cpu", cache=False)
    assert not caplog.records
    expected = Both()(*(x.double() for x in inputs))
    assert torch.allclose(torch.as_tensor(fused(*inputs)).double(), expected, atol=1e-6)


def test_norms_between_layers_whose_batch_is_the_second_dimension(caplog):
    """The rows of the second norm are flat, and moved behind it."""
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(48, 4, 96, 0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(4, 7, 48)
    with caplog.at_level(logging.WARNING, "mlirfuse"):
        fused = mlirfuse.compile(model, (x,), target="cpu", cache=False)
    assert not caplog.records
    assert torch.allclose(torch.as_tensor(fused(x)), model(x), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["f32", "f16"])
def test_attention_with_any_batch_queries_and_keys(dtype):
    """The keys are reshaped to the batch of the queries, which is theirs."""
    pytest.importorskip("triton")

    class Attention(nn.Module):
        def forward(self, q, k, v):
            return nn.functional.scaled_dot_product_attention(q, k, v)

    batch, queries, keys = (torch.export.Dim(name) for name in ("batch", "queries", "keys"))
    shapes = ({0: batch, 2: queries}, {0: batch, 2: keys}, {0: batch, 2: keys})

    def inputs(b, m, n):
        return tuple(torch.randn(b, 3, s, 16).to(dtype) for s in (m, n, n))

    torch.manual_seed(2)
    fused = mlirfuse.compile(Attention(), inputs(2, 7, 9), target="cpu", dynamic_shapes=shapes)
    on_gpu = mlirfuse.compile(
        Attention(), inputs(2, 7, 9), target="cuda:sm_90", dynamic_shapes=shapes
    )
    assert [kernel.code for kernel in on_gpu.kernels] == ["attention_triton_kernel"]
    for sizes in ((2, 7, 9), (1, 1, 33), (3, 20, 1)):
        given = inputs(*sizes)
        expected = Attention()(*(x.double() for x in given))
        found = torch.as_tensor(fused(*given)).double()
        assert torch.allclose(found, expected, atol=1e-5 if dtype == torch.float32 else 3e-3)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_a_pooling_whose_image_is_longer_than_its_windows(rank, ceil_mode):
    """It reads the image in place, and is one op for all ranks."""

    class Pooled(nn.Module):
        def forward(self, x):
            pool = getattr(nn.functional, f"max_pool{rank}d")
            return pool(torch.relu(x), 2, 3, ceil_mode=ceil_mode)

    x = torch.randn(2, 3, *(7 + n for n in range(rank)))
    fused = mlirfuse.compile(Pooled(), (x,), target="cpu")
    assert torch.equal(torch.as_tensor(fused(x)), Pooled()(x))
    assert len(fused.kernels) <= 2
