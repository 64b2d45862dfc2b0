"""Convolutions that read or write images with channels first on CPUs, beside float64."""

import pytest
import torch
import torch.nn.functional as F

import mlirfuse
from helpers.torch_program import Program
from mlirfuse import targets

PASS = "channels_last_rewrite"
TARGETS = ("cpu:x86-64-v3", "cpu:x86-64-v4")


def drawn(*shape):
    return torch.randn(shape, generator=torch.manual_seed(5))


class Filtered(torch.nn.Module):
    """A convolution with a constant filter."""

    def __init__(self, shape, **options):
        super().__init__()
        self.filter = torch.nn.Parameter(drawn(*shape) / shape[1] ** 0.5)
        self.options = options

    def forward(self, x):
        return F.conv2d(x, self.filter, **self.options)


def runs(target):
    """Whether this machine has the instructions of a target."""
    return set(targets.parse(target).cpu.features) <= set(targets.parse("cpu").cpu.features)


def check(model, x, target, **options):
    program = mlirfuse.compile(model, (x,), target=target, cache=False, **options)
    if runs(target):
        exact = model.double()(x.double())
        torch.testing.assert_close(program(x).double(), exact, rtol=1e-4, atol=1e-4)
        model.float()
    return program


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [24, 13])
def test_rows_of_pixels_are_stored_by_parts(tmp_path, target, stride, channels):
    """`vmaskmovps` is slow, so AVX2 has stores of four, two and one lanes."""
    model = Filtered((channels, 3, 3, 3), stride=stride, padding=1).eval()
    with torch.no_grad():
        check(model, drawn(2, 3, 17, 27), target, dump_ir_dir=tmp_path)
    text = max(tmp_path.glob("*conv_vector_kernel_after.mlir")).read_text()
    assert ("vector.maskedstore" in text) == (target == TARGETS[1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("taps", [3, 5])
def test_an_image_is_copied_for_minimal_filtering(target, taps):
    model = Filtered((64, 64, taps, taps)).eval()
    with torch.no_grad():
        program = check(model, drawn(1, 64, 40, 41), target)
    assert any(d.taken and d.pass_name == PASS for d in program.report.decisions)
    assert program.kernels[-1].code == "winograd_vector_kernel"


OTHERS = {
    "few_channels": ((64, 3, 3, 3), (1, 3, 40, 40), {}),
    "strided": ((64, 64, 3, 3), (1, 64, 40, 40), {"stride": 2}),
    "one_tap": ((64, 64, 1, 1), (1, 64, 40, 40), {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_image_is_read_as_it_is(name):
    filters, image, options = OTHERS[name]
    model = Filtered(filters, **options).eval()
    with torch.no_grad():
        program = check(model, drawn(*image), "cpu:x86-64-v3")
    assert not any(d.taken and d.pass_name == PASS for d in program.report.decisions)


def test_a_computed_filter_takes_no_copy():
    program = mlirfuse.compile(
        Program(lambda x, w: F.conv2d(x, w)),
        (drawn(1, 64, 40, 40), drawn(64, 64, 3, 3)),
        target="cpu:x86-64-v3",
    )
    assert not any(d.taken and d.pass_name == PASS for d in program.report.decisions)
