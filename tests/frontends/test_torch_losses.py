"""Losses and layers of PyTorch that its exporter refuses or that IREE has no lowering for."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import mlirfuse
from helpers.torch_programs import check
from mlirfuse.core import ImportFailedError, Reason


@pytest.mark.parametrize("flat", [False, True], ids=["rows", "one dimension"])
def test_ctc_loss(flat):
    """Sequences of several lengths: one without targets, one that has fewer steps than targets."""
    torch.manual_seed(0)
    steps, counts = torch.tensor([12, 9, 2]), torch.tensor([4, 0, 3])
    rows = torch.randint(1, 6, (3, 4))
    rows[0] = torch.tensor([2, 2, 5, 1])
    targets = torch.cat([row[:n] for row, n in zip(rows, counts, strict=True)]) if flat else rows

    def model(x, targets, steps, counts):
        logits = x.log_softmax(2)
        return (
            F.ctc_loss(logits, targets, steps, counts, reduction="none"),
            F.ctc_loss(logits, targets, steps, counts, reduction="sum", zero_infinity=True),
            F.ctc_loss(logits, targets, (12, 9, 2), (4, 0, 3), zero_infinity=True),
            F.ctc_loss(logits[:, 0], rows[0], steps[:1], counts[:1], reduction="none"),
            F.ctc_loss(logits[:, :1].flip(2), 5 - rows[:1], steps[:1], counts[:1], blank=5),
        )

    check(model, torch.randn(12, 3, 6), targets, steps, counts)


def test_gaussian_nll_loss():
    def model(x, target, var):
        return (
            F.gaussian_nll_loss(x, target, var),
            F.gaussian_nll_loss(x, target, var[:, :1], full=True, reduction="sum"),
            F.gaussian_nll_loss(x, target, var[:, 0], reduction="none"),
        )

    torch.manual_seed(0)
    check(model, torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4) * 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_sums_of_products_with_an_expanded_factor(dtype):
    """A mean over both axes of products with one weight for each column did not compile."""

    def model(x, y, w):
        return F.binary_cross_entropy(x, y, w), ((x - y) * w.expand(15, 10)).sum()

    torch.manual_seed(0)
    shapes = ((15, 10), (15, 10), (10,))
    program = check(model, *(torch.rand(shape).to(dtype) for shape in shapes))
    assert not any(d.reason is Reason.FELL_BACK for d in program.report.decisions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_fractional_max_pooling(dtype):
    """The windows of both image axes, of three axes without a batch, and of a single place."""
    torch.manual_seed(0)
    samples = torch.randint(0, 16, (2, 3, 3)) / 16

    class Pools(nn.Module):
        def forward(self, x):
            pool2d = torch.ops.aten.fractional_max_pool2d
            pool3d = torch.ops.aten.fractional_max_pool3d
            numbers = samples.to(x.dtype)
            return (
                *pool2d(x[..., 0], [2, 3], [4, 3], numbers[..., :2]),
                *pool2d(x[..., 0], [2, 3], [1, 3], numbers[..., :2]),
                *pool3d(x[0], [2, 1, 2], [3, 4, 2], numbers[:1]),
            )

    x = torch.randn(2, 3, 7, 9, 5)
    program = mlirfuse.compile(Pools(), (x.to(dtype),), target="cpu")
    for got, want in zip(program(x.to(dtype)), Pools()(x.to(dtype).float()), strict=True):
        assert torch.equal(torch.as_tensor(got).to(want.dtype), want)


def test_rrelu_in_evaluation_mode():
    x = torch.linspace(-3, 3, 7)
    check(nn.RReLU().eval(), x)
    with pytest.raises(ImportFailedError, match="draws random numbers"):
        mlirfuse.compile(nn.RReLU(), (x,))


def test_a_mask_of_an_encoder_is_an_argument():
    """PyTorch asks whether the mask is causal, which its exporter refuses."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    other = torch.zeros(5, 5).masked_fill(torch.rand(5, 5) > 0.7, float("-inf")).fill_diagonal_(0)
    x = torch.randn(2, 5, 8)
    program = mlirfuse.compile(model, (x, causal), target="cpu")
    with torch.no_grad():
        for mask in (causal, other):
            torch.testing.assert_close(program(x, mask), model(x, mask), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not hasattr(nn, "LinearCrossEntropyLoss"), reason="since PyTorch 2.13")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy_in_chunks(reduction):
    torch.manual_seed(0)
    options = nn.modules.linear_cross_entropy_options.LinearCrossEntropyOptions(batch_chunk_size=2)
    loss = nn.LinearCrossEntropyLoss(6, 5, reduction=reduction, options=options).eval()
    check(loss, torch.randn(8, 6), torch.randint(0, 5, (8,)))
