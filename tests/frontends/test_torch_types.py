"""PyTorch programs of bytes, integers, booleans and special numbers, against PyTorch."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import mlirfuse
from helpers.torch_programs import INF, NAN, WITH_BF16, WITH_F16, check
from mlirfuse.builders import float8_casts
from mlirfuse.core import CallError


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_arithmetic_of_bytes_wraps(dtype):
    def model(x, m):
        return (
            x + 100,
            x * 2,
            -x,
            3 - x,
            x.sum(),
            x.amax(),
            x.max(),
            x.min(),
            x.clamp(3, 7),
            x.clamp_min(100),
            x @ x,
            m @ m,
            torch.addmm(x, m, m, beta=2, alpha=3),
            torch.addcmul(x, x, x, value=2),
            x.index_add(0, torch.tensor([0, 0]), m),
            x.scatter_add(0, torch.zeros(2, 2, dtype=torch.int64), m),
            x**3,
            x >> 1,
            x.to(torch.int8),
            x.to(torch.uint8),
        )

    bits = torch.tensor([[0, 1], [200, 255]], dtype=torch.uint8)
    check(model, bits.view(dtype), bits.flip(0).view(dtype))


def test_bytes_as_booleans_and_constants():
    def model(x):
        return (
            x.any(),
            x.any(0),
            x.all(1),
            torch.full((2, 2), 200, dtype=torch.uint8),
            torch.zeros_like(x),
            torch.tensor([200, 255], dtype=torch.uint8),
            torch.tensor(200, dtype=torch.uint8),
            torch.full((3,), 10, dtype=torch.bool),
            torch.arange(0, 250, 50, dtype=torch.uint8),
            torch.linspace(0, 200, 5, dtype=torch.uint8),
        )

    check(model, torch.tensor([[0, 2], [0, 4]], dtype=torch.uint8))


def test_result_that_is_an_argument_of_another_sign():
    x = torch.tensor([1, 200], dtype=torch.uint8)
    check(lambda x: x.to(torch.int8), x)
    program = mlirfuse.compile(lambda x: (x.to(torch.int8), x[:0]), (x,))
    got = program(x.numpy())
    assert [array.dtype for array in got] == [np.int8, np.uint8]


def test_booleans():
    def model(x, y):
        index = torch.tensor([0, 0, 1])
        return (
            x.clamp_min(y),
            x.clamp_max(y),
            x.scatter(0, torch.tensor([1, 0, 2]), y),
            x.index_add(0, index, y),
            torch.index_put(x, (index,), y, accumulate=True),
            torch.atan2(x, y),
            x**2,
        )

    check(model, torch.tensor([True, False, False]), torch.tensor([False, False, True]))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_integers():
    def model(x, y, s, image, volume, w3):
        return (
            x**y,
            x**3,
            2**y,
            torch.square(x),
            torch.float_power(x, 2),
            x**-1.0,
            torch.atan2(x, y),
            F.linear(x.view(2, 2), y.view(2, 2), x[:2]),
            torch.addmm(x[:2], x.view(2, 2), y.view(2, 2), beta=2, alpha=3),
            torch.addbmm(x[:2], x.view(1, 2, 2), y.view(1, 2, 2)),
            s.cumsum(0),
            torch.gcd(s, s + 4),
            s**s,
            torch.index_reduce(x, 0, torch.tensor([0, 0]), y[:2], "mean"),
            F.avg_pool2d(image, 3, 2, 1),
            F.conv3d(volume, w3, stride=2, padding=1),
            F.conv_transpose3d(volume, w3.transpose(0, 1), stride=2, padding=1),
            torch.arange(1.5, 7, 2, dtype=torch.int32),
        )

    torch.manual_seed(0)
    check(
        model,
        torch.tensor([-3, 7, 0, -1]),
        torch.tensor([3, 20, 0, 5]),
        torch.tensor(3),
        torch.randint(-9, 9, (1, 2, 5, 5)),
        torch.randint(-9, 9, (1, 2, 3, 4, 5)),
        torch.randint(-3, 3, (3, 2, 2, 2, 2)),
    )


SPECIAL = [NAN, 0.0, -0.0, INF, -INF, -2.0, 2.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 2.5]


@pytest.mark.parametrize("dtype", WITH_BF16)
def test_special_numbers(dtype):
    def model(x, y):
        return (
            torch.pow(x, y),
            [torch.pow(x, e) for e in (2, -1, -2, -3.0, 2.5)],
            [torch.pow(base, y) for base in (2.0, -2.0, 0.0)],
            torch.atan2(x, y),
            torch.div(x, y, rounding_mode="trunc"),
            torch.floor_divide(x, y),
            torch.frexp(y[0, 5]),
            torch.clamp(x, torch.tensor(-1.0), torch.tensor(1.0)),
        )

    numbers = torch.tensor(SPECIAL, dtype=dtype)
    check(model, numbers.view(-1, 1), numbers.view(1, -1))


@pytest.mark.parametrize("dtype", WITH_F16)
def test_rounded_quotients(dtype):
    torch.manual_seed(0)
    x, y = (torch.rand(2, 500) * 20 - 10).to(dtype)

    def model(x, y):
        return torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc")

    for got, expected in zip(mlirfuse.compile(model, (x, y))(x, y), model(x, y), strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_remainders_are_exact(dtype):
    torch.manual_seed(0)
    x, y = (torch.randn(2, 500) * torch.randint(-8, 8, (2, 500)).exp2()).to(dtype)
    numbers = torch.tensor(SPECIAL, dtype=dtype)

    def model(x, y, u, v):
        return torch.fmod(x, y), torch.fmod(x, 0.3), torch.fmod(u, v)

    arguments = (x, y, numbers.view(-1, 1), numbers.view(1, -1))
    for got, expected in zip(
        mlirfuse.compile(model, arguments)(*arguments), model(*arguments), strict=True
    ):
        assert torch.equal(got.nan_to_num(9.0), expected.nan_to_num(9.0))
        assert torch.equal(got.isnan(), expected.isnan())


def test_numbers_as_operands():
    """Overloads with a number for which IREE has no lowering, or loses the type."""
    x, n = torch.tensor([-2.5, -0.5, 0.75, 3.0]), torch.tensor([-4, -1, 2, 7])

    def model(x, n):
        return (
            *(torch.fmod(x, 0.3), torch.fmod(x, 2), torch.fmod(n, 3), torch.fmod(n, 1.5)),
            *(torch.remainder(3, x), torch.remainder(3.5, n), torch.remainder(7, n)),
            *(n.clamp(-1.5), n.clamp(max=2.5), n.clamp(-1, 3.5), n.clamp(-1, 3)),
        )

    found = mlirfuse.compile(model, (x, n))(x, n)
    for got, expected in zip(found, model(x, n), strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("dtype", WITH_BF16)
def test_shapes_and_factors(dtype):
    def model(x, m, w):
        return (
            torch.addmm(x[0], x, m, beta=0.5, alpha=2),
            torch.addmm(x[0], x[:, :0], m[:0], beta=0.5),
            F.pad(x, (-1, 2, 1, -2)),
            F.pad(x, (-1, -2)),
            torch.cosine_similarity(x[0, 0], x[0, 1], 0),
            torch.aminmax(x[0, 0], dim=0),
            torch.logsumexp(x, 1),
            torch.logsumexp(x, (0, 1), keepdim=True),
            x[:, :1].max(1),
            x.masked_scatter(x > 0, x.flip(0)),
            F.adaptive_max_pool2d(x.view(1, 1, 4, 4), (3, 4), return_indices=True),
            F.avg_pool2d(x.view(1, 1, 4, 4), 2, divisor_override=-2),
            F.conv_transpose2d(x.view(1, 4, 2, 2), w, stride=2, padding=1, groups=4),
            F.conv3d(x.view(1, 4, 2, 2, 1), w[..., None], padding=(1, 1, 0), groups=4),
            torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        )

    torch.manual_seed(0)
    x, m = torch.randn(2, 4, 4).to(dtype)
    check(model, x, m, torch.randn(4, 1, 3, 3).to(dtype))


def test_assignment_by_mask():
    def model(x, mask, row, rows):
        results = []
        for accumulate in (False, True):
            for values in (row, row[0], rows):
                results.append(torch.index_put(x, (mask,), values, accumulate))
        whole = torch.index_put(x, (x > 0,), row[0])
        return results, whole, torch.index_put(x > 0, (mask,), row > 0)

    torch.manual_seed(0)
    mask = torch.tensor([True, False, True, False, True])
    check(model, torch.randn(5, 3), mask, torch.randn(3), torch.randn(3, 3))


def test_loops_over_scalars():
    def model(a):
        return torch.linalg.inv(a), torch.linalg.cholesky(a), torch.linalg.matrix_power(a, -2)

    check(model, torch.tensor([[2.0]]))


def test_sums_of_products_with_a_broadcast_factor():
    def model(x, y, w):
        return (
            (x * w).sum(),
            (x * w).mean(),
            (y * w).sum((0, 2), keepdim=True),
            (y * w).mean((1, 2)),
            (x[:, :1] * w).sum(),
            F.binary_cross_entropy_with_logits(x, x.sigmoid(), w, reduction="sum"),
        )

    torch.manual_seed(0)
    check(model, torch.randn(7, 9), torch.randn(3, 7, 9), torch.rand(9))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes(mode):
    def model(x):
        return (F.interpolate(x, size=(5, 9), mode=mode),)

    torch.manual_seed(0)
    check(model, torch.randint(0, 256, (2, 3, 6, 7), dtype=torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_depthwise_convolutions_of_volumes(dtype):
    """With several filters of a channel, strides, dilations and paddings that differ by axis."""

    def model(x, w, wide, bias):
        return (
            F.conv3d(x, w, bias, padding=1, groups=4),
            F.conv3d(x, w, None, stride=(2, 1, 2), padding=(1, 0, 2), groups=4),
            F.conv3d(x, wide, None, stride=2, padding=(2, 1, 0), dilation=(2, 1, 2), groups=4),
        )

    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 6, 5, 7), torch.randn(4, 1, 3, 3, 3) / 5
    wide, bias = torch.randn(8, 1, 2, 3, 2) / 5, torch.randn(4)
    check(model, *(t.to(dtype) for t in (x, w, wide, bias)))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_a_depthwise_convolution_of_volumes_is_one_kernel(target):
    """With its padding, its bias and what follows, beside the transposes that a CPU's needs."""
    if target != "cpu":
        pytest.importorskip("triton")

    class Model(torch.nn.Module):
        def forward(self, x, w, bias):
            return F.relu(F.conv3d(x, w, bias, padding=1, groups=4))

    given = (torch.randn(2, 4, 6, 5, 7), torch.randn(4, 1, 3, 3, 3), torch.randn(4))
    module = mlirfuse.compile(Model(), given, target=target)
    kernels = [kernel for kernel in module.kernels if "transpose" not in kernel.name]
    assert len(kernels) == 1
    assert "conv" in kernels[0].name


def test_a_depthwise_convolution_of_any_number_of_volumes():
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return F.conv3d(x, w, None, stride=2, padding=1, groups=4)

    x, w = torch.randn(3, 4, 6, 5, 7), torch.randn(4, 1, 3, 3, 3)
    batch = torch.export.Dim("batch", min=2, max=64)
    module = mlirfuse.compile(Model(), (x, w), dynamic_shapes={"x": {0: batch}, "w": None})
    for count in (2, 5):
        given = torch.randn(count, 4, 6, 5, 7)
        torch.testing.assert_close(torch.as_tensor(module(given, w)), Model()(given, w))


def test_numbers_and_constants_of_f64():
    """0.1 is no f32, in front of a tensor, in a range or in the representation of a number."""

    def model(x):
        return (
            *(0.1 - x, 0.1 / x, 0.3**x, torch.rsub(x, 0.7, alpha=0.1)),
            *(torch.linspace(0.1, 0.7, 5, dtype=torch.float64) + x, torch.tan(x * 1e6)),
            *(torch.atan2(x, x + 1), *torch.frexp(x * 1e-300), torch.frexp(x)[0]),
        )

    x = torch.randn(4, 5, generator=torch.manual_seed(0), dtype=torch.float64)
    check(model, x, rtol=1e-13)


def test_arguments_in_f64_of_a_program_in_f32(tmp_path, monkeypatch):
    """IREE alone converts no f64 to f8 on CPUs: the program is one of f32."""
    monkeypatch.setattr(float8_casts, "CPU_TYPES", frozenset())

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.float8_e4m3fn).to(x.dtype) * 1.75

    x = torch.randn(4, 5, generator=torch.manual_seed(0), dtype=torch.float64)
    model = Model()
    program = mlirfuse.compile(model, (x,))
    assert [(spec.dtype, spec.wide) for spec in program.inputs] == [("f32", "f64")]
    program.save(tmp_path / "narrow.vmfb")
    for found in (program, mlirfuse.load(tmp_path / "narrow.vmfb")):
        for given in (x, x.float()):
            torch.testing.assert_close(found(given), model(x.float()))
        assert np.allclose(found(x.numpy()), model(x.float()))
        with pytest.raises(CallError, match="4x5xi64"):
            found(x.long())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_casts_to_bf16_and_back_round(dtype):
    def model(x, y):
        narrow = x.to(torch.bfloat16)
        return narrow.to(dtype) * y, narrow.to(torch.float32), (x * y).bfloat16().to(dtype)

    x = torch.randn(40, 50, generator=torch.manual_seed(0), dtype=dtype)
    x[0, :3] = torch.tensor([math.nan, math.inf, -math.inf])
    x[1, :4] = torch.tensor([3.4e38, -3.4e38, 1e-30, 1 + 2.0**-8])
    y = torch.randn(40, 50, generator=torch.manual_seed(1), dtype=dtype)
    check(model, x, y, rtol=1e-6)
    exact = mlirfuse.compile(lambda x: x.bfloat16() + 1, (x,), numerics="exact")
    torch.testing.assert_close(exact(x), x.bfloat16() + 1, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_casts_to_unsigned_types(dtype):
    """IREE 3.13's importer aborts on 16 and 64 bits, and takes 32 bits for signed ones."""
    largest = 2.0 ** (dtype.itemsize * 8 - 1)

    def model(x, whole):
        return x.to(dtype), x.float().to(dtype), whole.to(dtype), x[1].to(dtype), (x > 0).to(dtype)

    x = torch.tensor([0.0, 1.75, largest, 1.5 * largest], dtype=torch.float64)
    check(model, x, torch.tensor([-1, 300, 70000]))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("wide", [torch.float16, torch.float64])
def test_casts_of_float8(dtype, wide):
    """IREE 3.13 has no code for them on CPUs."""

    def model(x):
        return x.to(dtype).view(torch.uint8), (x * 2).to(dtype).to(wide)

    program = check(model, torch.linspace(-9, 9, 37, dtype=wide))
    assert not program.report.notes


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_a_half_on_the_way_to_float8_is_rounded(half, dtype):
    """Above the middle of two numbers, where the half is the middle; IREE casts in f32."""
    x = (1 + torch.arange(8.0) / 8 + 2.0**-4)[:, None] * (1 + torch.tensor([-1, 0, 1]) * 2.0**-13)

    def model(x):
        return x.to(half).to(dtype).float(), (x * 2).to(half), (x * 2).to(half).to(dtype).float()

    check(model, x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_large_integers_are_exact(dtype):
    """IREE 3.13 negates integers, and rounds their quotients down, as floats of 32 bits."""
    large = torch.iinfo(dtype).max

    def model(x, y):
        return (
            -x,
            x // 3,
            x // -7,
            x // y,
            x // x[3],
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            large // y,
            x % y,
            x.abs(),
            3 - x,
        )

    x = torch.tensor([large, -large, large - 1, 16777217, -16777217, 0], dtype=dtype)
    check(model, x, torch.tensor([3, 3, -5, -2, 7, -1], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_numbers_that_are_compared_have_the_type_of_the_tensor(dtype):
    """No f32 is 0.1 in f64."""

    def model(x):
        return x == 0.1, x != 0.1, x > 0.1, x >= 0.2, x < 0.3, x <= 0.3, x > -10001.0, x == 2049

    x = torch.tensor([0.1, 0.2, 0.3, -10001.0, 2049, float("nan")], dtype=dtype)
    for got, expected in zip(mlirfuse.compile(model, (x,))(x), model(x), strict=True):
        assert torch.equal(got, expected)
