"""Padding and resizing of images, norms and extremes of PyTorch: numbers, and kernels on a GPU."""

import pytest
import torch
from torch.nn import functional as F

import mlirfuse
from helpers.kernel_runner import needs_triton
from helpers.stock_program import operations
from helpers.torch_programs import INF, NAN, WITH_BF16, WITH_F16, check
from mlirfuse.frontends import import_model


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_from_inside(mode):
    def model(x, y):
        return (
            F.pad(x, (2, 1), mode=mode),
            F.pad(x[0], (0, 4), mode=mode),
            F.pad(y, (1, 3, 2, 0), mode=mode),
            F.pad(y, (-1, 3, 2, -2), mode=mode),
            F.pad(y.unsqueeze(0), (1, 1, 2, 0, 1, 1), mode=mode),
        )

    torch.manual_seed(0)
    check(model, torch.randn(2, 3, 5), torch.randn(2, 3, 5, 6))


@pytest.mark.parametrize("dtype", WITH_F16)
def test_resizing_to_the_nearest_element(dtype):
    def model(x):
        return (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, scale_factor=(3, 1)),
            F.interpolate(x, size=(12, 21), mode="nearest-exact"),
            F.interpolate(x, scale_factor=0.5),
            F.interpolate(x, scale_factor=1.7),
            F.interpolate(x[:, :, 0], scale_factor=4),
            F.interpolate(x.unsqueeze(2), scale_factor=2),
        )

    torch.manual_seed(0)
    check(model, torch.randn(2, 3, 6, 7).to(dtype))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("dtype", WITH_BF16)
def test_resizing_by_two_elements_of_each_axis(dtype, align):
    def resized(x, **given):
        return F.interpolate(x, mode="bilinear", align_corners=align, **given)

    def model(x, y):
        return (
            resized(x, scale_factor=2),
            resized(x, scale_factor=(1.7, 0.6)),
            resized(x, size=(12, 5)),
            resized(x, size=(1, 1)),
            resized(y, size=(3, 4)),
            resized(x, scale_factor=1.7, recompute_scale_factor=True),
        )

    torch.manual_seed(0)
    check(model, torch.randn(2, 3, 6, 7).to(dtype), torch.randn(2, 3, 6, 1).to(dtype))


@pytest.mark.parametrize("dtype", WITH_F16)
def test_instance_norm(dtype):
    def model(x, w, b):
        return (
            F.instance_norm(x, weight=w, bias=b),
            F.instance_norm(x[..., 0], weight=w, bias=b, eps=0.1),
            F.instance_norm(x, weight=w),
            F.instance_norm(x),
            F.instance_norm(x, w, w.abs() + 1, w, b, use_input_stats=False),
        )

    torch.manual_seed(0)
    check(model, *(t.to(dtype) for t in (torch.randn(2, 5, 4, 6), torch.rand(5), torch.rand(5))))


@pytest.mark.parametrize("dtype", WITH_BF16)
def test_norms_of_order_two(dtype):
    def model(x):
        return (
            torch.linalg.vector_norm(x),
            torch.linalg.vector_norm(x, 2, 1, keepdim=True),
            torch.linalg.vector_norm(x, 2, (0, 2), dtype=torch.float32),
            torch.linalg.vector_norm(x, 3, 1),
            torch.linalg.vector_norm(x, 1),
            F.cosine_similarity(x, x.flip(0), dim=-1),
            F.normalize(x, dim=1),
        )

    torch.manual_seed(0)
    check(model, torch.randn(3, 4, 9).to(dtype))
    names = operations(
        import_model(lambda x: torch.linalg.vector_norm(x, 2, 1), (torch.ones(2, 3),))
    )
    assert "math.powf" not in names


@pytest.mark.parametrize("dtype", WITH_F16)
def test_extremes_of_all_elements(dtype):
    def model(x, y):
        return (
            *(x.amax(), x.amin((0, 1, 2)), x.amax((2, 0, -2), keepdim=True), x.amin((0, 2))),
            *(y.amax(), y.amin((0, 1))),
        )

    torch.manual_seed(0)
    check(model, torch.randn(2, 3, 5).to(dtype), torch.tensor([[1, NAN], [INF, 0]], dtype=dtype))


torch.manual_seed(0)
IMAGE = torch.randn(2, 8, 16, 16)
PROGRAMS = {
    "reflect": (lambda x, w: F.silu(F.pad(x, (1, 1, 1, 1), mode="reflect")), 1),
    "nearest": (lambda x, w: F.silu(F.interpolate(x, scale_factor=2)), 1),
    "bilinear": (lambda x, w: F.silu(F.interpolate(x, scale_factor=2, mode="bilinear")), 1),
    "instance norm": (lambda x, w: F.instance_norm(x, weight=w, bias=w), 1),
    "extreme": (lambda x, w: F.relu(x * 2).amin(), 1),
}


@needs_triton
@pytest.mark.parametrize("name", PROGRAMS)
def test_number_of_kernels(name):
    function, count = PROGRAMS[name]
    program = mlirfuse.compile(function, (IMAGE, torch.rand(8)), target="cuda:sm_90")
    assert len(program.kernels) == count
    assert all(kernel.code.endswith("_triton_kernel") for kernel in program.kernels)


@pytest.mark.parametrize("dtype", WITH_F16)
def test_transposed_convolutions_by_channel(dtype):
    """With more padding than the filter needs the image is cut."""

    def model(x, w, b):
        return (
            F.conv_transpose2d(x, w, b, stride=2, padding=1, groups=6),
            F.conv_transpose2d(x, w, stride=(3, 1), output_padding=(2, 0), groups=6),
            F.conv_transpose2d(x, w, stride=2, padding=4, groups=6),
            F.conv_transpose2d(x, w, stride=2, dilation=2, groups=6),
            F.conv_transpose1d(x[:, :, 0], w[:, :, 0], stride=4, groups=6),
            F.conv_transpose1d(x[:, :, 0], w[:, :, 0], b[:4], stride=2, groups=2),
            F.conv_transpose3d(x[:, :, None], w[:, :, None], stride=2, groups=6),
        )

    torch.manual_seed(0)
    x, w = torch.randn(2, 6, 5, 7).to(dtype), torch.randn(6, 2, 4, 3).to(dtype)
    check(model, x, w, torch.randn(12).to(dtype))


@pytest.mark.parametrize("dtype", WITH_F16)
def test_transposed_convolutions_of_one_pixel(dtype):
    def model(x, w, b):
        return (
            F.conv_transpose2d(x, w, b),
            F.conv_transpose2d(x, w, padding=1),
            F.conv_transpose2d(x, w, stride=2, dilation=2),
            F.conv_transpose1d(x[..., 0], w[..., 0], b, stride=3),
        )

    torch.manual_seed(0)
    x, w = torch.randn(3, 8, 1, 1).to(dtype), torch.randn(8, 5, 4, 3).to(dtype)
    check(model, x, w, torch.randn(5).to(dtype))


def test_zeros_between_the_elements_of_an_image_are_not_stored():
    def model(x, w):
        return F.conv_transpose2d(x, w, stride=2, padding=1, groups=6)

    names = operations(import_model(model, (torch.randn(2, 6, 5, 7), torch.randn(6, 1, 4, 4))))
    assert "tensor.insert_slice" in names
    assert "tensor.pad" not in names
