"""Norms with elementwise prologues in their kernel are right beside float64."""

import pytest
import torch
from torch.nn import functional

import mlirfuse

NORMS = {
    "layer norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "rms norm": lambda x: functional.rms_norm(x, x.shape[-1:]),
    "group norm": lambda x: functional.group_norm(x, 4),
    "softmax": lambda x: torch.softmax(x, -1),
    "sum": lambda x: x.sum(-1),
}


def prologues(x, y):
    """A norm's name and operand: an activation, or a product that is reshaped; none is shared."""
    for n, name in enumerate(NORMS):
        yield name, functional.gelu(x + n)
        yield name, ((x - n) * y).reshape(3, 8, 5, 24)


def model(x, y):
    """Each norm of its operands."""
    return [NORMS[name](operand) for name, operand in prologues(x, y)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_prologues(dtype):
    x, y = torch.randn(2, 3, 8, 120, generator=torch.Generator().manual_seed(0)).to(dtype)
    program = mlirfuse.compile(model, (x, y), target="cpu", cache=False)
    assert program.report.counts()["norm_prologue_fusion"] >= len(NORMS)
    limit = 1e-5 if dtype == torch.float32 else 5e-3
    # The prologue is rounded to the element type, also by eager PyTorch.
    right = [NORMS[name](operand.double()) for name, operand in prologues(x, y)]
    for ours, expected in zip(program(x, y), right, strict=True):
        torch.testing.assert_close(ours.double(), expected, rtol=limit, atol=limit)


def embedded(ids, kinds, tables, norm):
    """A norm of a sum of embeddings: of tokens, positions and kinds."""
    tokens, positions, spans = tables
    x = functional.embedding(ids, tokens) + positions[: ids.shape[1]]
    return NORMS[norm](x + functional.embedding(kinds, spans))


@pytest.mark.parametrize("norm", ["layer norm", "rms norm", "softmax"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embeddings(norm, dtype):
    """One kernel reads the rows of the tables, of columns that are no whole vectors."""
    generator = torch.Generator().manual_seed(0)
    tables = [torch.randn(n, 75, generator=generator).to(dtype) for n in (50, 40, 2)]
    ids = torch.randint(50, (3, 29), generator=generator)
    kinds = torch.randint(2, (3, 29), generator=generator)
    program = mlirfuse.compile(
        lambda *args: embedded(*args, norm), (ids, kinds, tables), target="cpu", cache=False
    )
    assert program.report.counts()["norm_prologue_fusion"] == 1
    assert len(program.kernels) == 1
    right = embedded(ids, kinds, [table.double() for table in tables], norm)
    limit = 1e-5 if dtype == torch.float32 else 3e-2
    found = program(ids, kinds, tables).double()
    torch.testing.assert_close(found, right, rtol=limit, atol=limit)


@pytest.mark.parametrize(
    "part",
    [
        lambda x, n: x[:, n],
        lambda x, n: x[n].flip(1),
        lambda x, n: x[n].unflatten(1, (8, 8))[:, n % 8].flatten(1),
    ],
    ids=["columns", "flipped", "columns of segments"],
)
def test_other_gathers(part):
    """Columns at computed indices, or in another order, are gathered by a kernel of their own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 64, generator=generator)
    n = torch.randint(64, (40,), generator=generator)

    def model(x, n):
        return torch.softmax(part(x, n), -1)

    program = mlirfuse.compile(model, (x, n), target="cpu", cache=False)
    assert "norm_prologue_fusion" not in program.report.counts()
    torch.testing.assert_close(program(x, n), model(x, n))
