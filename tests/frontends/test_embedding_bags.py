"""Sums, means and maxima of bags of embeddings, beside PyTorch."""

import pytest
import torch
import torch.nn.functional as F

import mlirfuse

TABLE = torch.randn(40, 12, generator=torch.manual_seed(0))
FLAT = torch.randint(0, 40, (30,), generator=torch.manual_seed(1))
OFFSETS = torch.tensor([0, 4, 4, 11, 30, 30])
"""Bags of four, none, seven, nineteen, none and none."""


class Bags(torch.nn.Module):
    """A bag for each row of a matrix of indices, or for each offset."""

    def __init__(self, **options):
        super().__init__()
        self.table = torch.nn.Parameter(TABLE)
        self.options = options

    def forward(self, index, *offsets):
        return F.embedding_bag(index, self.table, *offsets, **self.options)


def check(model, *arguments):
    with torch.inference_mode():
        expected = model(*arguments)
        program = mlirfuse.compile(model, arguments)
        torch.testing.assert_close(program(*arguments), expected, rtol=1e-6, atol=1e-6)
    return program


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_size_are_rows(mode, padding):
    program = check(Bags(mode=mode, padding_idx=padding), FLAT.view(6, 5))
    names = {name for kernel in program.kernels for name in kernel.op_names}
    assert not any("matmul" in name or "scatter" in name for name in names)


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_any_size(mode, padding):
    check(Bags(mode=mode, padding_idx=padding), FLAT, OFFSETS)


def test_no_bags():
    check(Bags(mode="sum"), FLAT[:0].view(0, 5))


def test_an_offset_behind_the_last_bag():
    ends = torch.tensor([0, 4, 11, 30])
    check(Bags(mode="sum", include_last_offset=True), FLAT, ends)


def test_weights_of_each_index():
    class Weighted(Bags):
        def forward(self, index, weights):
            return F.embedding_bag(index, self.table, mode="sum", per_sample_weights=weights)

    check(Weighted(), FLAT.view(6, 5), torch.randn(6, 5))


def test_large_bags_take_no_product_of_all_bags_and_indices():
    """A mask of 4000 bags of 40000 indices would take 640 MB."""
    index = torch.randint(0, 40, (40000,))
    offsets = torch.arange(4000) * 7
    program = check(Bags(mode="sum"), index, offsets)
    sizes = [operand.bytes for kernel in program.kernels for operand in kernel.operands]
    assert max(sizes) <= 40000 * 12 * 4


def test_by_torch_compile():
    model, index = Bags(mode="mean"), FLAT.view(6, 5)
    with torch.inference_mode():
        found = torch.compile(model, backend="mlirfuse")(index)
        torch.testing.assert_close(found, model(index), rtol=1e-6, atol=1e-6)


def test_a_dynamic_number_of_bags():
    class Rows(Bags):
        def forward(self, index):
            return F.embedding_bag(index, self.table, mode="sum")

    sizes = ({0: torch.export.Dim("n", min=2)},)
    exported = torch.export.export(Rows(), (FLAT.view(6, 5),), dynamic_shapes=sizes)
    index = torch.randint(0, 40, (9, 5))
    found = mlirfuse.compile(exported)(index)
    torch.testing.assert_close(found, F.embedding_bag(index, TABLE, mode="sum"))
