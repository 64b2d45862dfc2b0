"""Operators of PyTorch that IREE lacks or lowers wrong, against PyTorch; many to a program."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import mlirfuse
from helpers.stock_program import operations
from helpers.torch_programs import HALVES, INF, NAN, WITH_BF16, WITH_F16, check
from mlirfuse.frontends import import_model


def extremes(dtype):
    rows = [
        [3.0, -1.0, NAN, 3.0, INF, 0.0, -0.0],
        [-INF, 2.0, 2.0, -5.0, 0.5, 0.5, 2.0],
        [NAN, 1.0, NAN, -2.0, 1.0, -INF, 4.0],
    ]
    return torch.tensor(rows, dtype=dtype)


@pytest.mark.parametrize("dtype", WITH_BF16)
def test_order_with_ties_and_nan(dtype):
    def model(x):
        return (
            torch.sort(x, stable=True),
            torch.sort(x, dim=0, descending=True, stable=True),
            torch.argsort(x, stable=True),
            torch.topk(x, 2, sorted=True).values,
            torch.topk(x, 1),
            torch.topk(x, 1, dim=0, largest=False).values,
            torch.kthvalue(x, 3).values,
            torch.median(x, 1).values,
            torch.median(x),
            torch.nanmedian(x, 1).values,
            torch.nanmedian(x),
            torch.max(x, 1),
            torch.min(x, 0),
            torch.argmax(x),
            torch.argmin(x, 1, keepdim=True),
            torch.cummax(x, 1),
            torch.cummin(x, 0),
            torch.logcumsumexp(x, 1),
            torch.cumprod(x[1:2], 1),
            torch.mode(x[1:2]).values,
            torch.searchsorted(x[1:2].sort(1).values[0], x[1]),
        )

    check(model, extremes(dtype))


@pytest.mark.parametrize("dtype", WITH_F16)
def test_elementwise(dtype):
    def model(x, y):
        return (
            torch.signbit(x),
            torch.copysign(y, x),
            torch.hypot(x, y),
            torch.fmax(x, y),
            torch.fmin(x, y),
            torch.isfinite(x),
            torch.heaviside(x, y),
            torch.asinh(x),
            torch.log10(y),
            torch.tan(y),
            torch.angle(x),
            torch.erfc(x),
            torch.lgamma(y),
            torch.digamma(y),
            torch.frexp(y),
            torch.ldexp(y, torch.tensor([1, 2, 3, 0, -1, -2, 5])),
            torch.roll(x, (1, -2), (0, 1)),
            torch.roll(y, 3),
            torch.histc(y.float(), 5),
            torch.softmax(x[0, 1], 0),
        )

    check(model, extremes(dtype), torch.linspace(0.5, 6, 21, dtype=dtype).view(3, 7))


@pytest.mark.parametrize("dtype", WITH_BF16)
def test_lerp_of_operands_in_several_orders_of_memory(dtype):
    def model(x, y, w):
        return torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.75), torch.lerp(x, y, w)

    x, y = (torch.randn(4, 3, 5, generator=torch.manual_seed(n)).to(dtype) for n in (1, 2))
    w = torch.linspace(-0.5, 1.5, 60, dtype=dtype).view(4, 3, 5)
    check(model, x, y.permute(1, 2, 0).contiguous().permute(2, 0, 1), w)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_functions_near_zero_keep_their_digits(dtype):
    """The error is relative to each element: no terms cancel."""
    size = torch.logspace(-6 if dtype == torch.float32 else -4, -0.05, 2000)
    x = torch.cat((size, -size)).to(dtype)

    def model(x):
        functions = torch.nn.functional
        return (
            functions.elu(x),
            functions.elu(x, alpha=0.5),
            functions.selu(x),
            functions.celu(x, 1.5),
            torch.sinh(x),
            torch.sinh(8 * x),
            torch.atanh(x),
            torch.asinh(x),
            torch.expm1(x),
            torch.log1p(x),
        )

    results = mlirfuse.compile(model, (x,), target="cpu", cache=False)(x)
    limit = 1e-6 if dtype == torch.float32 else 2e-3
    for ours, right in zip(results, model(x.double()), strict=True):
        torch.testing.assert_close(ours.double(), right, rtol=limit, atol=1e-7 * limit)


def test_neighbours():
    def model(x):
        return torch.nextafter(x, x.flip(1)), torch.nextafter(x[0, 0], x[0, 1])

    check(model, extremes(torch.float32))


def test_special_functions():
    names = [
        "i0e",
        "i1",
        "i1e",
        "erfcx",
        "log_ndtr",
        "bessel_j0",
        "bessel_j1",
        "bessel_y0",
        "bessel_y1",
        "airy_ai",
        "spherical_bessel_j0",
        "modified_bessel_i0",
        "modified_bessel_k0",
        "modified_bessel_k1",
        "scaled_modified_bessel_k1",
    ]
    functions = [getattr(torch.special, name) for name in names]

    def model(x, p, a):
        return (
            [function(x) for function in functions],
            torch.special.ndtri(p),
            torch.polygamma(2, a),
            torch.special.zeta(a + 1, a),
            torch.igamma(a, a.flip(0)),
            torch.igammac(a, a.flip(0)),
            torch.special.chebyshev_polynomial_t(p, a),
            torch.special.laguerre_polynomial_l(p, a),
        )

    x = torch.tensor([-9.0, -2.5, -0.3, 0.0, 0.7, 1.9, 2.1, 7.9, 8.1, 30.0, NAN])
    p = torch.tensor([0.0, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0])
    a = torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0, 5.5, 9.0, 12.0])
    check(model, x, p, a)


@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
def test_linear_algebra():
    def model(a, b):
        spd = a @ a.mT + torch.eye(5)
        q, r = torch.linalg.qr(a)
        return (
            torch.linalg.cholesky(spd),
            torch.cholesky_solve(b, torch.linalg.cholesky(spd)),
            torch.linalg.solve(a, b),
            torch.linalg.inv(a),
            torch.linalg.det(a),
            torch.linalg.lu(a),
            q,
            r,
            torch.linalg.solve_triangular(a.triu(), b, upper=True),
            torch.triangular_solve(b, a, upper=False).solution,
            torch.linalg.matrix_exp(a),
            torch.linalg.svdvals(a[..., :3]),
            torch.linalg.eigvalsh(spd),
            torch.linalg.pinv(a[..., :3]),
        )

    torch.manual_seed(0)
    a = torch.randn(2, 5, 5) + 2 * torch.eye(5)
    check(model, a, torch.randn(2, 5, 3), rtol=1e-3)


@pytest.mark.slow
def test_linear_algebra_of_other_factorizations():
    """What PyTorch computes from the factorizations of `test_linear_algebra`."""

    def model(a, b):
        return (
            torch.linalg.slogdet(a),
            torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
            torch.linalg.matrix_rank(a),
            torch.linalg.matrix_norm(a, "nuc"),
        )

    torch.manual_seed(0)
    a = torch.randn(2, 5, 5) + 2 * torch.eye(5)
    check(model, a, torch.randn(2, 5, 3), rtol=1e-3)


@pytest.mark.parametrize("size", [1, 6, 13, 96, 131])
def test_fourier_transforms(size):
    """One matmul, and the recursion for sizes above 64 that have divisors."""

    def model(x):
        spectrum = torch.fft.rfft(x)
        full = torch.fft.fft(x, norm="ortho")
        return (
            torch.view_as_real(spectrum),
            torch.view_as_real(torch.fft.ifft(full)),
            torch.fft.irfft(spectrum, size),
            torch.view_as_real(torch.fft.fft2(x)),
            torch.fft.fftshift(x),
        )

    torch.manual_seed(0)
    check(model, torch.randn(3, size))


@pytest.mark.parametrize("dtype", WITH_F16)
def test_pooling(dtype):
    def model(x):
        twice = F.max_pool2d(F.max_pool2d(x, 3, 2, ceil_mode=True), 3, 2, ceil_mode=True)
        value, index = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        return (
            twice,
            F.max_pool2d(F.max_pool2d(x, 3, 2), 3, 2, padding=1),
            value,
            index,
            F.max_pool1d(x[0, 0], 2, 3, ceil_mode=True),
            F.max_pool3d(x, 2, 3),
            F.max_unpool2d(value, index, 3, 2, 1, x.shape[2:]),
            F.avg_pool2d(x, 3, 2, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.avg_pool3d(x.float(), 2, 2),
            F.adaptive_avg_pool2d(x, (3, 4)),
            F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
            F.interpolate(x, size=(3, 7), mode="nearest-exact"),
            F.interpolate(x, size=(3, 7), mode="nearest"),
        )

    torch.manual_seed(0)
    check(model, torch.randn(2, 3, 10, 13).to(dtype))


@pytest.mark.parametrize("dtype", WITH_BF16)
def test_adaptive_pooling_of_even_windows(dtype):
    def model(x):
        return (
            F.adaptive_avg_pool1d(x[0], 3),
            F.adaptive_avg_pool2d(x, (3, 4)),
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool3d(x, (1, 2, 4)),
            *F.adaptive_max_pool2d(x, (2, 3), return_indices=True),
            *F.adaptive_max_pool3d(x, (2, 1, 3), return_indices=True),
        )

    torch.manual_seed(0)
    check(model, torch.randn(2, 4, 6, 12).to(dtype))


def test_even_adaptive_pooling_is_one_kernel():
    """30 in 15 did not compile: IREE's import makes windows of three."""

    class Model(nn.Module):
        def forward(self, x):
            return F.adaptive_avg_pool2d(x, 15).relu(), F.adaptive_max_pool2d(x, 10)

    x = torch.randn(2, 4, 30, 30)
    program = mlirfuse.compile(Model(), (x,), target="cuda:sm_90")
    assert [kernel.code for kernel in program.kernels] == ["pool_triton_kernel"] * 2


def test_gradient_of_max_pooling():
    def model(x, g):
        _, index = F.max_pool2d(x, 2, 2, return_indices=True)
        return torch.ops.aten.max_pool2d_with_indices_backward(
            g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, index
        )

    torch.manual_seed(0)
    check(model, torch.randn(1, 2, 6, 6), torch.randn(1, 2, 3, 3))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_loops(kind):
    torch.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True).eval()
    x = torch.randn(2, 40, 3)
    check(layer, x)
    assert operations(import_model(layer, (x,))).count("linalg.matmul") < 20


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_indices():
    def model(x, i, s):
        return (
            torch.put(x, i, s, accumulate=True),
            torch.index_reduce(x, 0, i, s.unsqueeze(1).expand(3, 7), "amax"),
            torch.scatter(x, 0, i.view(1, 3), s.view(1, 3), reduce="add"),
            torch.diagonal_scatter(x, s, 1),
            torch.as_strided_scatter(x, s, (3,), (8,), 1),
            torch.gather(s[0], 0, i[1]),
            torch.eye(3, dtype=torch.uint8),
            F.grid_sample(x.view(1, 1, 3, 7), s.view(1, 1, 3, 1).expand(1, 1, 3, 2)),
            F.grid_sample(
                x.view(1, 1, 3, 7),
                s.view(1, 1, 3, 1).expand(1, 1, 3, 2),
                mode="bicubic",
                padding_mode="reflection",
            ),
            torch.cdist(x, x[:2], 3.0),
            torch.gcd(i, i + 4),
            torch.lcm(i, i + 4),
        )

    torch.manual_seed(0)
    x, s = torch.randn(3, 7), torch.tensor([0.3, -0.8, 1.4])
    check(model, x, torch.tensor([2, 0, 1]), s)


def test_negative_indices_of_updates_count_from_the_end():
    """IREE wrote in front of the tensor, into other tensors of the program."""

    def columns(x, j, v):
        x = x.clone()
        x[:, j] = v
        return x

    def model(x, y, i, j, v):
        return (
            torch.index_put(x, (i, j), v, accumulate=True),
            torch.index_put(x, (i.int(), j), v),
            torch.index_put(y, (j,), v.unsqueeze(1)),
            columns(x, j[:2], v[:2]),
            columns(x, torch.arange(2), v[:2]),
            x + 1,
        )

    torch.manual_seed(0)
    i, j = torch.tensor([0, 1, 2, -1]), torch.tensor([1, -5, 3, -2])
    check(model, torch.randn(3, 5), torch.randn(6, 2), i, j, torch.randn(4))


def test_negative_indices_of_updates_of_dynamic_sizes():
    def model(x, i, v):
        return torch.index_put(x, (i,), v)

    rows = torch.export.Dim("rows", max=64)
    i, v = torch.tensor([-1, 0]), torch.randn(2, 3)
    example = (torch.randn(4, 3), i, v)
    program = mlirfuse.compile(model, example, dynamic_shapes=({0: rows}, None, None))
    x = torch.randn(7, 3)
    torch.testing.assert_close(program(x, i, v), model(x, i, v))


def test_masks_of_inner_axes():
    def updated(x, mask, value):
        x = x.clone()
        x[:, mask] = value
        return x

    def model(x, mask, rows, few):
        return (
            updated(x, mask, 3.0),
            updated(x, mask, few),
            updated(x, mask, rows),
            updated(x[..., 0], mask, rows[0, :, 0]),
            torch.ops.aten.index_put.default(x, [None, mask], few, True),
        )

    torch.manual_seed(0)
    mask = torch.tensor([True, False, True, False])
    check(model, torch.randn(2, 4, 3), mask, torch.randn(2, 2, 3), torch.randn(2, 1, 3))


def test_reductions_by_index_of_integers_and_booleans():
    def model(x, b, i, s):
        return (
            torch.scatter_reduce(x, 0, i, s, "mean"),
            torch.scatter_reduce(x, 0, i, s, "mean", include_self=False),
            torch.scatter_reduce(x[0], 0, i[0], s[0], "mean"),
            [torch.scatter_reduce(b, 0, i, s > 0, kind) for kind in ("sum", "amax", "amin")],
        )

    torch.manual_seed(0)
    x, s = torch.randint(-9, 9, (3, 4)), torch.randint(-9, 9, (3, 4))
    check(model, x, x > 0, torch.randint(0, 3, (3, 4)), s)


def test_numbers_in_order_and_triangles():
    def model(start, end):
        return (
            torch.logspace(start, 4, 2, 2.0, dtype=torch.int32),
            torch.logspace(1, end, 4, 5.0, dtype=torch.int64),
            torch.logspace(0, 3, 7, 4.0, dtype=torch.int64),
            torch.logspace(0, 12, 13, dtype=torch.int64),
            torch.logspace(start, end, 4),
            torch.tril_indices(4, 5, dtype=torch.int32),
            torch.triu_indices(5, 4, -1, dtype=torch.int32),
            torch.tril_indices(4, 5, 1),
        )

    check(model, torch.tensor(2), torch.tensor(4))


def test_the_divisor_of_a_pooling():
    def model(x):
        return F.avg_pool2d(x, 2, divisor_override=-2), F.avg_pool2d(x, 3, 1, 1, False, True, 5)

    check(model, torch.arange(16.0).view(1, 1, 4, 4))


def test_bins_of_bfloat16():
    """Computed in float32, as by PyTorch's CUDA kernel."""
    x = torch.tensor([-4.4062, -3.8906, -2.4062, -1.7656], dtype=torch.bfloat16)
    got = mlirfuse.compile(lambda x: torch.histc(x, 100, -10, 0), (x,))(x)
    expected = torch.histc(x.float(), 100, -10, 0).bfloat16()
    assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", HALVES[1:])
def test_attention_keeps_its_scores_in_float32(dtype):
    """Scores of about 40, whose rounding would change the weights by 10 % in bfloat16."""

    def model(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 9, 16).mul(scale).to(dtype) for scale in (6, 6, 1))
    check(model, q, k, v, rtol=4e-3 if dtype == torch.float16 else 3e-2)


def test_tensors_without_elements():
    def model(x, e):
        return (
            torch.cat([x, e]),
            e.sum(0),
            e.prod(0),
            (e @ torch.ones(3, 2)).shape[0],
            torch.ones(2, 0) @ e.view(0, 3),
            e.view(3, 0).unflatten(1, (0, 5)),
            torch.softmax(e, 0),
        )

    check(model, torch.ones(2, 3), torch.ones(0, 3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64])
def test_unsigned_types(dtype):
    def model(x):
        return x.view(2, 2), x.to(torch.float32), x == 255

    x = torch.tensor([0, 1, 200, 255]).to(dtype)
    program = check(model, x)
    assert program.outputs[0].dtype == f"ui{dtype.itemsize * 8}"


def test_bytes_are_unsigned():
    def model(x):
        return (
            x.amax(),
            x.amin(),
            x.max(0),
            x.sort(stable=True),
            x.clamp(10, 220),
            x > 100,
            x.to(torch.int64),
            x // 3,
            x.cummax(0),
        )

    check(model, torch.tensor([0, 1, 200, 255, 128], dtype=torch.uint8))


@pytest.mark.parametrize(
    ("batch", "size", "kernel", "settings"),
    [
        ((2,), (10, 12), (3, 3), {}),
        ((2,), (11, 9), (3, 2), {"stride": 2, "padding": 1}),
        ((1,), (9, 13), (2, 3), {"dilation": 2, "stride": (1, 3), "padding": (0, 2)}),
        ((), (6, 6), (2, 2), {"stride": 2}),
    ],
)
def test_windows_are_folded(batch, size, kernel, settings):
    image = torch.randn(*batch, 3, *size, generator=torch.Generator().manual_seed(0))
    columns = F.unfold(image, kernel, **settings)
    check(lambda x: F.fold(x, size, kernel, **settings), columns + 1)


def test_euclidean_distances_of_many_rows():
    torch.manual_seed(0)
    a, b = torch.randn(2, 30, 16), torch.randn(2, 40, 16)
    program = mlirfuse.compile(lambda a, b: torch.cdist(a, b), (a, b))
    torch.testing.assert_close(program(a, b), torch.cdist(a, b), rtol=1e-4, atol=1e-4)


def test_primitives_that_decompositions_leave():
    torch.manual_seed(0)
    turned = torch.randn(4, 5, 6, 3).permute(3, 0, 1, 2)
    check(lambda a, b: torch.lerp(a, b, 0.3).clamp(-1, 1), torch.randn(3, 4, 5, 6), turned)
    prims = torch.ops.prims
    check(
        lambda x: (
            prims.rev(x, [0]),
            prims.exp(prims.neg(x)),
            prims.copy_strided(x, [1, 3]),
            prims.where(prims.gt(x, x + 1), x, prims.mul(x, x)),
        ),
        torch.randn(3, 4),
    )


def test_circular_padding():
    """PyTorch copies slices of the result into it, which IREE 3.13 does not compile for CUDA."""

    def model(x):
        return (
            F.pad(x, (1, 2), mode="circular"),
            F.pad(x, (-1, 2), mode="circular"),
            F.pad(x[None], (6, 6, 5, 0), mode="circular"),
        )

    x = torch.arange(2 * 5 * 6.0).reshape(2, 5, 6)
    check(model, x)
    assert "tensor.insert_slice" not in operations(import_model(model, (x,)))


def test_losses_of_targets():
    targets = torch.tensor([[1, 0, -1, 2, 3], [0, -1, 1, 2, 3], [4, 3, 2, 1, 0]])

    class Losses(torch.nn.Module):
        def forward(self, x, rows, classes):
            margin = F.multilabel_margin_loss
            return (
                margin(x, targets),
                margin(x, targets, reduction="none"),
                margin(x[0], targets[0], reduction="sum"),
                # The sum of the losses is larger than f16 can hold.
                F.cross_entropy(rows, classes),
                F.cross_entropy(rows.T[None], classes[None]),
            )

    torch.manual_seed(1)
    x, rows = torch.randn(3, 5), (torch.randn(4096, 32) * 20).half()
    inputs = (x, rows, torch.randint(0, 32, (4096,)))
    found = mlirfuse.compile(Losses(), inputs, target="cpu")(*inputs)
    expected = Losses()(x, rows.float(), inputs[2])
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(torch.as_tensor(one).float(), other, rtol=2e-3)
