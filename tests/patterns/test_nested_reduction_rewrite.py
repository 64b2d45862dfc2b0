"""Reductions over several dimensions: the same numbers as PyTorch's, and fewer kernels."""

import math

import pytest

import mlirfuse
from helpers.kernel_runner import needs_triton

torch = pytest.importorskip("torch")

NAME = "nested_reduction_rewrite"
SHAPE = (3, 4, 5, 6)
DIMS = [(2, 3), (3, 2, 0), (1, 2), (0, -2), (-1, 1), (0, 1), (1, 2, 3), (0, 1, 2, 3)]
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]


def numbers(dtype):
    """Numbers of a type; of floats also a NaN, infinities, and rows with nothing else."""
    torch.manual_seed(0)
    if not dtype.is_floating_point:
        return torch.randint(torch.iinfo(dtype).min, torch.iinfo(dtype).max, SHAPE, dtype=dtype)
    x = torch.randn(SHAPE).to(dtype)
    x[0, 0, 1, 2] = math.nan
    x[1, 1, 2, 3], x[1, 2, 3, 4] = math.inf, -math.inf
    x[2, 0], x[2, 1], x[2, 2] = -math.inf, math.inf, math.nan
    return x


def extremes(*operands):
    """The largest and smallest elements over dimensions in several orders.

    Each has an operand of its own: several would read the same inner reduction.
    """
    found = [x.amax(dims, keepdim=True) for x, dims in zip(operands, DIMS, strict=False)]
    least = zip(operands[len(DIMS) :], DIMS, strict=True)
    return *found, *(x.amin(dims) for x, dims in least)


def combined(*operands):
    """Sums, products and truth values of one dimension after the other."""
    v, w, x, y, z = operands
    return (
        *(v.sum(3).sum(2), w.sum(3, keepdim=True).sum(2, keepdim=True), x.prod(3).prod(2)),
        *((y > 0).any(3).any(2), (y > 1).all(3).all(2), z.amax(3).amax(2).amin(1)),
    )


def fired(program):
    """How many rewrites a program has."""
    return program.report.counts().get(NAME, 0)


def check(model, operands, count):
    """Compares all results, with the pass and without; `count` is the number of its rewrites."""
    on = mlirfuse.compile(model, operands, cache=False)
    off = mlirfuse.compile(model, operands, cache=False, disable_pass=[NAME])
    assert (fired(on), fired(off)) == (count, 0)
    expected = model(*operands)
    for program in (on, off):
        for got, wanted in zip(program(*operands), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_extremes(dtype):
    check(extremes, tuple(numbers(dtype) + n % 3 for n in range(2 * len(DIMS))), 8)


@pytest.mark.parametrize(("dtype", "count"), [(torch.int32, 2), (torch.int64, 5)], ids=str)
def test_combinations_of_integers(dtype, count):
    """The inner sums and products of 32 bits widen what they combine."""
    check(combined, tuple(numbers(dtype) for _ in range(5)), count)


def test_sums_of_floats_keep_their_order():
    program = mlirfuse.compile(
        lambda x: x.sum(3).sum(2), (torch.randn(SHAPE),), cache=False, target="cuda:sm_90"
    )
    assert fired(program) == 0


COUNTS = {
    "amax((2, 3))": (lambda x: x.amax((2, 3)), 1, 2),
    "amin([0, 2, 3])": (lambda x: x.square().amin([0, 2, 3]), 1, 3),
    "amax((1, 3), True)": (lambda x: x.amax((1, 3), keepdim=True), 1, 2),
    "any": (lambda x: (x > 2).any(3).any(1), 1, 2),
    "max-min": (lambda x: x.amax((2, 3)) - x.amin((2, 3)), 1, 2),
}
"""A program, and its kernels with the pass and without."""


@needs_triton
@pytest.mark.parametrize("name", COUNTS)
def test_number_of_kernels(name):
    model, on, off = COUNTS[name]
    x = (torch.empty(4, 64, 24, 40),)
    for disabled, count in (([], on), ([NAME], off)):
        program = mlirfuse.compile(
            model, x, target="cuda:sm_90", cache=False, disable_pass=disabled
        )
        assert [k.code for k in program.kernels] == ["row_triton_kernel"] * count
