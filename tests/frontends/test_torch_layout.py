"""Arguments whose axes have another order in memory: passed, and returned, without copies."""

import json
import zipfile

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import mlirfuse
from mlirfuse.frontends import import_model
from mlirfuse.frontends.torch_layout import memory_order


def strided(shape, order):
    """A tensor whose axes are `order` in memory."""
    stored = torch.randn([shape[axis] for axis in order])
    return stored.permute([order.index(axis) for axis in range(len(order))])


class Module(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


PROGRAMS = [
    (lambda x: torch.nn.functional.gelu(x), [((5, 7), (1, 0))]),
    (lambda x, y: torch.sigmoid(x) * y, [((6, 4), (1, 0)), ((6, 4), (0, 1))]),
    (lambda x: (x.sum(1), x * 2, x), [((2, 3, 4), (2, 0, 1))]),
    (lambda x: x.transpose(0, 1).contiguous(), [((3, 8), (1, 0))]),
    (lambda x: x[:, 1:3] + 1, [((2, 4, 5, 3), (0, 2, 3, 1))]),
]


@pytest.mark.parametrize(("function", "arguments"), PROGRAMS)
def test_results_are_those_of_pytorch(tmp_path, function, arguments):
    tensors = [strided(*given) for given in arguments]
    fused = mlirfuse.compile(Module(function), tuple(tensors))
    fused.save(tmp_path / "m.vmfb")
    expected = function(*tensors)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for program in (fused, mlirfuse.load(tmp_path / "m.vmfb")):
        for given in (
            tensors,
            [tensor.contiguous() for tensor in tensors],
            [np.ascontiguousarray(tensor.numpy()) for tensor in tensors],
        ):
            found = program(*given)
            found = found if isinstance(found, tuple) else (found,)
            for mine, theirs in zip(found, expected, strict=True):
                assert tuple(mine.shape) == tuple(theirs.shape)
                np.testing.assert_allclose(np.asarray(mine), theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_the_program_has_the_order_of_memory():
    x = strided((5, 7), (1, 0))
    imported = import_model(Module(torch.relu), (x,))
    (spec,), (result,) = imported.inputs, imported.outputs
    assert (spec.shape, spec.order) == ((5, 7), (1, 0))
    assert (result.shape, result.order) == ((5, 7), (1, 0))
    fused = mlirfuse.compile(Module(torch.relu), (x,))
    assert fused(x).stride() == x.stride()
    assert fused.inputs[0].order == (1, 0)


def test_results_of_arguments_of_two_orders_are_in_order():
    """One of the two is transposed in any case, where it is loaded."""
    given = strided((6, 4), (1, 0)), torch.randn(6, 4)
    imported = import_model(Module(lambda x, y: torch.sigmoid(x) * y), given)
    assert [spec.order for spec in (*imported.inputs, *imported.outputs)] == [(1, 0), (), ()]


def test_an_argument_in_order_leaves_the_program_as_it_was():
    """A transposed result is copied: plain iree-runtime has the shapes of the model."""
    imported = import_model(Module(lambda x: x.T), (torch.randn(3, 5),))
    assert [spec.order for spec in (*imported.inputs, *imported.outputs)] == [(), ()]
    assert imported.outputs[0].shape == (5, 3)


@pytest.mark.parametrize(
    "tensor",
    [torch.randn(8, 6)[:, :3].T, torch.randn(1, 3).expand(4, 3), torch.randn(2, 1, 3)],
    ids=["gaps", "expanded", "size one"],
)
def test_memory_with_gaps_is_passed_in_order(tensor):
    imported = import_model(Module(lambda x: x + 1), (tensor,))
    assert imported.inputs[0].order == ()
    fused = mlirfuse.compile(Module(lambda x: x + 1), (tensor,))
    assert torch.equal(fused(tensor), tensor + 1)


def test_dynamic_and_updated_arguments_are_passed_in_order():
    x = strided((5, 7), (1, 0))
    shapes = {"tensors": ({1: Dim("n", min=2, max=64)},)}
    imported = import_model(Module(torch.relu), (x,), dynamic_shapes=shapes)
    assert imported.inputs[0].order == ()

    def update(x):
        x.add_(1)
        return x * 2

    imported = import_model(Module(update), (x,))
    assert imported.inputs[0].order == ()


def test_a_damaged_order_is_refused(tmp_path):
    x = strided((5, 7), (1, 0))
    path = tmp_path / "m.vmfb"
    mlirfuse.compile(Module(torch.relu), (x,)).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["mlirfuse.json"])
    document["inputs"][0]["order"] = [0, 0]
    members["mlirfuse.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(mlirfuse.MlirfuseError, match="damaged"):
        mlirfuse.load(path)


def test_order_of_memory():
    assert memory_order(strided((4, 3, 2), (2, 0, 1))) == (2, 0, 1)
    assert memory_order(torch.empty(4, 3)) == (0, 1)
    assert memory_order(torch.empty(4, 3)[:, :2]) is None
