"""One dispatch of several kernels for CPUs, beside PyTorch in float64."""

import functools

import pytest
import torch
import torch.nn.functional as F

import mlirfuse
from helpers.torch_program import Program

PASS = "sibling_kernel_fusion"


@functools.cache
def weight(rows, columns, seed):
    """Numbers of bf16."""
    numbers = torch.randn((rows, columns), generator=torch.manual_seed(seed))
    return (numbers / rows**0.5).bfloat16()


def times(x, columns, seed=0):
    """A product with a constant."""
    return x @ weight(x.shape[1], columns, seed).to(x.dtype)


def projections(x):
    """Of two sizes, one of them twice; all read one operand."""
    return times(x, 80), times(x, 80, 1), (times(x, 48, 2) + x[:, :48]).relu()


def gated(x):
    """The second product goes on where the first one ends."""
    return F.silu(times(x, 176)) * (times(x, 176, 1) + 1)


def gated_by_columns(x):
    """The epilogue of the second product reads the first one's columns where it writes rows."""
    first = times(x, len(x))
    return first, first.T * (times(x, len(x), 1) + 1)


def in_turn(x):
    """The second product reads all of the first one."""
    return times(times(x, 96), 96, 1)


def different(x):
    """A mean of rows and a product."""
    return x.mean(-1), times(x, 33)


def many(x):
    """More calls than become one."""
    return tuple(times(x, 16 + n) for n in range(11))


def on_the_stack(x):
    """Norms whose rows are on the stack, of which IREE allows 32 KiB."""
    rows = ((x[:8, :1] + weight(1, 5000 + 100 * n, n).to(x.dtype)).sin() for n in range(4))
    return tuple(F.layer_norm(row, row.shape[1:]) for row in rows)


CALLS = {
    projections: [3],
    gated: [2],
    gated_by_columns: [],
    in_turn: [],
    different: [2],
    many: [8, 3],
    on_the_stack: None,
}
DTYPES = {"f32": (torch.float32, 1e-5), "bf16": (torch.bfloat16, 2e-2)}


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 61, 200])
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_values(function, size, dtype, target):
    kind, tolerance = DTYPES[dtype]
    x = torch.randn((size, 96), generator=torch.manual_seed(3)).to(kind)
    expected = function(x.double())  # makes the weights
    options = {"target": target, "disable_feature": ["fallback"]}
    program = mlirfuse.compile(Program(function), (x,), **options)
    found = program(x)
    if isinstance(expected, torch.Tensor):
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        error = (torch.as_tensor(one).double() - other).abs().max()
        assert error <= tolerance * other.abs().max()
    taken = [d for d in program.report.decisions if d.pass_name == PASS and d.taken]
    found = [len(d.op_names) for d in taken]
    assert size == 1 or CALLS[function] in (None, found)
