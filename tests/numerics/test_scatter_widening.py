"""Scatters of narrow elements that are combined in 32 bits, on the CPU, against numpy."""

import ml_dtypes
import numpy as np
import pytest
import torch
from iree.compiler import ir

import mlirfuse
from helpers import scatter_text
from helpers.scatter_text import Case
from mlirfuse.builders import scatter_builder
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import scatters

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i16": np.int16}


def widened(text):
    """The module with its scatter widened."""
    with ir.Context():
        module = ir.Module.parse(text)
        (op,) = (o for o in ops.nested_ops(module.operation) if o.name == scatters.SCATTER)
        scatter_builder.widened(scatters.scatter(op))
        assert module.operation.verify()
        return str(module)


@pytest.mark.parametrize(
    ("element", "body"),
    [
        *((kind, body) for kind in ("f16", "bf16") for body in ("addf", "mulf", "maximumf")),
        *(("f16", body) for body in ("scaled", "counted", "hypot")),
        *(("i8", body) for body in ("addi", "muli", "maxsi", "minsi", "maxui", "minui", "xori")),
        *(("i16", body) for body in ("addi", "maxui")),
    ],
)
def test_widened(element, body):
    case = Case(body=body, shape=(5, 3), batch=(40,), element=element)
    rng, kind = np.random.default_rng(0), TYPES[element]
    indices = scatter_text.draw_indices(case, 1, repeat=True, outside=False)
    if element.startswith("i"):
        limits = np.iinfo(kind)
        updates, x = (
            rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
            for shape in (case.updates, case.shape)
        )
        wide = updates, x
    else:
        updates, x = (rng.standard_normal(s).astype(kind) for s in (case.updates, case.shape))
        wide = updates.astype(np.float64), x.astype(np.float64)
    program = mlirfuse.compile(widened(scatter_text.text(case)), target="cpu", stock=True)
    found = np.asarray(program(updates, indices, x))
    expected = scatter_text.expected(case, wide[0], indices, None, wide[1])
    if element.startswith("i"):
        assert np.array_equal(found, expected)
        return
    # Rounded once, but for a body that is no combiner, which rounds after each of eight updates.
    ulp = {"f16": 2.0**-11, "bf16": 2.0**-8}[element] * (40 if body == "hypot" else 1.01)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=ulp, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_on_a_cpu_are_rounded_once(dtype):
    class Sum(torch.nn.Module):
        def forward(self, x, indices, updates):
            return x.index_add(0, indices, updates)

    torch.manual_seed(0)
    x, updates = torch.randn(10, 8, dtype=dtype), torch.randn(3000, 8, dtype=dtype)
    indices = torch.randint(0, 10, (3000,))
    program = mlirfuse.compile(Sum(), (x, indices, updates), target="cpu")
    expected = Sum()(x.double(), indices, updates.double())
    found = program(x, indices, updates).double()
    ulp = torch.finfo(dtype).eps / 2
    np.testing.assert_allclose(found, expected, rtol=1.01 * ulp, atol=1e-4)
