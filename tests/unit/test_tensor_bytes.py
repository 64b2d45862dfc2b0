"""The bytes of PyTorch's tensors, whatever their strides."""

import pytest
import torch

from mlirfuse.runtime.arrays import numpy_of


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).as_strided((1,), (3,)),
        torch.tensor(2.5).expand(1, 1),
        torch.tensor(2.5).expand(2, 3),
        torch.arange(6.0, dtype=torch.bfloat16).reshape(2, 3).t(),
        torch.zeros(0, 3),
    ],
    ids=["stride", "expanded", "repeated", "transposed", "empty"],
)
def test_arrays_have_the_elements_of_tensors(tensor):
    found = numpy_of(tensor)
    assert found.shape == tuple(tensor.shape)
    assert found.astype("float64").tolist() == tensor.double().tolist()
