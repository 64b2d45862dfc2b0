"""Selections by values, whose sizes the program reads from the device, against PyTorch."""

import pytest
import torch
from torch.nn import functional as F

import mlirfuse
from helpers.torch_programs import INF, NAN, TOLERANCE, WITH_F16, check
from mlirfuse.core import Reason


def test_elements_and_indices_that_a_mask_selects():
    def model(x, y, mask):
        return (
            torch.masked_select(x, mask),
            torch.nonzero(x.unsqueeze(0)),
            torch.nonzero(y),
            torch.nonzero_static(x, size=2),
            torch.nonzero_static(x, size=9, fill_value=-7),
            torch.take(x, torch.tensor([[-1, 0], [3, 2]])),
            torch.take(x, torch.tensor(1)),
        )

    x = torch.tensor([[0.0, 1.5, NAN], [-2.0, 0.0, -0.0]])
    program = check(model, x, torch.tensor(3.0), x > -5)
    assert all(d.reason is not Reason.FELL_BACK for d in program.report.decisions)
    assert program(x, torch.tensor(0.0), x > 1)[0].tolist() == [1.5]


def test_parts_that_a_mask_indexes():
    """IREE 3.13's importer does not end on the first one, and crashes on the second one."""

    def model(x, index, mask):
        return (
            x[x > 0],
            x[:, mask],
            x[x[:, 0, 0] > 0],
            x[:, x[0] > 0],
            x[1, mask],
            x[index][:, mask][..., index],
            x[x[:, 0, 0] > INF],
            x[torch.tensor(True)],
        )

    torch.manual_seed(0)
    mask = torch.tensor([True, False, True, False])
    program = check(model, torch.randn(3, 4, 5), torch.tensor([0, 2, 2]), mask)
    assert all(d.reason is not Reason.FELL_BACK for d in program.report.decisions)


def test_numbers_that_occur():
    def model(x, weights, row, rows):
        return (
            torch.bincount(x),
            torch.bincount(x, weights, 12),
            torch.repeat_interleave(weights, x),
            torch.repeat_interleave(rows, torch.tensor([2, 0, 1]), 0, output_size=3),
            torch.unique(row, return_inverse=True, return_counts=True),
            torch.unique(rows, dim=0, return_inverse=True, return_counts=True),
            torch.unique(rows, dim=1),
            torch.unique_consecutive(row, return_inverse=True, return_counts=True),
            torch.unique_consecutive(rows, dim=0),
        )

    row = torch.tensor([[2.0, 2.0, -INF], [NAN, NAN, 0.0], [-0.0, 2.0, 1.0]])
    rows = torch.tensor([[1, 0, 1], [1, 0, 1], [0, 5, 0]])
    check(model, torch.tensor([1, 0, 7, 1]), torch.tensor([0.5, 2.0, 1.0, 4.0]), row, rows)


def test_nothing_occurs_in_no_elements():
    def model(x):
        return (
            torch.unique(x, return_inverse=True, return_counts=True),
            torch.unique(x),
            torch.unique_consecutive(x, return_inverse=True),
        )

    check(model, torch.zeros(0, 3, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", WITH_F16)
def test_rows_of_a_largest_norm(dtype):
    """Rows that are read, and are larger, are scaled; PyTorch scales them in its argument."""

    def model(table, index, offsets):
        found = F.embedding(index, table, max_norm=1.0)
        return found, F.embedding_bag(
            index.flatten(), table, offsets, mode="sum", max_norm=0.5, norm_type=1.0
        )

    torch.manual_seed(0)
    table, index = torch.randn(6, 4).to(dtype), torch.tensor([[1, 4], [4, 0]])
    offsets = torch.tensor([0, 3])
    expected = model(table.clone(), index, offsets)
    got = mlirfuse.compile(model, (table.clone(), index, offsets))(table.clone(), index, offsets)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_histograms_of_several_columns():
    def model(x, weight, first, second):
        return (
            torch.histogramdd(x, [2, 3], weight=weight),
            torch.histogramdd(x, [2, 3], range=[-1.0, 1.0, 0.0, 1.0], density=True),
            torch.histogramdd(x, (first, second)),
            torch.histogramdd(x[:0], [2, 3]),
            torch.histogram(x, 4, weight=x.abs()),
        )

    torch.manual_seed(0)
    edges = torch.tensor([-2.0, -0.5, 0.0, 2.0]), torch.tensor([-1.0, 0.0, 3.0])
    check(model, torch.randn(9, 2), torch.rand(9), *edges)


def test_complex_numbers_and_scalars():
    def model(a, x):
        return (
            torch.any(a),
            torch.any(a, 1),
            torch.logsumexp(a, 1),
            torch.linalg.vector_norm(x, INF, 0, keepdim=True),
            torch.linalg.vector_norm(x, 2),
        )

    a = torch.tensor([[0j, 1 + 2j], [0j, 0j], [60 - 3j, 2j]])
    check(model, a, torch.tensor(-3.0))
