"""Updates of one tensor, and concatenations that begin alike, do not share memory."""

import jax
import numpy as np
import pytest
import torch

import mlirfuse
from helpers.torch_programs import check

ELEMENTWISE = """
    %{name} = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
        ins(%x : tensor<{size}xf32>) outs(%{init} : tensor<{size}xf32>) {{
    ^bb0(%in: f32, %out: f32):
      %{name}_0 = math.{op} %in : f32
      linalg.yield %{name}_0 : f32
    }} -> tensor<{size}xf32>"""

PROGRAM = """
#id = affine_map<(i) -> (i)>
func.func @main(%x: tensor<{size}xf32>, %a: tensor<1xf32>) -> tensor<{whole}xf32> {{
    {sizes}
    {late}{early}
    {updates}
    %e = tensor.empty({whole_size}) : tensor<{whole}xf32>
    %y = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}}
        ins(%s, %t : tensor<{whole}xf32>, tensor<{whole}xf32>) outs(%e : tensor<{whole}xf32>) {{
    ^bb0(%p: f32, %q: f32, %out: f32):
      %d = arith.subf %p, %q : f32
      linalg.yield %d : f32
    }} -> tensor<{whole}xf32>
    return %y : tensor<{whole}xf32>
}}
"""
CONCATENATIONS = """
    %s = tensor.concat dim(0) %a, %early
        : (tensor<1xf32>, tensor<{size}xf32>) -> tensor<{whole}xf32>
    %t = tensor.concat dim(0) %a, %late
        : (tensor<1xf32>, tensor<{size}xf32>) -> tensor<{whole}xf32>
"""
CHAINS = """
    %w = tensor.empty() : tensor<3xf32>
    %v = tensor.insert_slice %a into %w[0] [1] [1] : tensor<1xf32> into tensor<3xf32>
    %u = tensor.insert_slice %a into %w[0] [1] [1] : tensor<1xf32> into tensor<3xf32>
    %s = tensor.insert_slice %early into %v[1] [2] [1] : tensor<2xf32> into tensor<3xf32>
    %t = tensor.insert_slice %late into %u[1] [2] [1] : tensor<2xf32> into tensor<3xf32>
"""
UPDATES = """
    %w = tensor.empty() : tensor<3xf32>
    %v = linalg.generic {{indexing_maps = [affine_map<(i) -> (0)>, #id],
        iterator_types = ["parallel"]}} ins(%a : tensor<1xf32>) outs(%w : tensor<3xf32>) {{
    ^bb0(%in: f32, %out: f32):
      %v_0 = math.exp %in : f32
      linalg.yield %v_0 : f32
    }} -> tensor<3xf32>
    %s = tensor.insert_slice %early into %v[1] [2] [1] : tensor<2xf32> into tensor<3xf32>
    %t = tensor.insert_slice %late into %v[1] [2] [1] : tensor<2xf32> into tensor<3xf32>
"""
STATIC = {
    "size": "2",
    "whole": "3",
    "whole_size": "",
    "sizes": "%z = tensor.empty() : tensor<2xf32>",
}
DYNAMIC = {
    "size": "?",
    "whole": "?",
    "whole_size": "%n",
    "sizes": """%c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %m = tensor.dim %x, %c0 : tensor<?xf32>
    %n = arith.addi %m, %c1 : index
    %z = tensor.empty(%m) : tensor<?xf32>""",
}


@pytest.mark.parametrize(
    ("updates", "sizes"),
    [(CONCATENATIONS, STATIC), (CONCATENATIONS, DYNAMIC), (CHAINS, STATIC), (UPDATES, STATIC)],
)
def test_two_updates_of_one_tensor(updates, sizes, tmp_path):
    """IREE 3.13 gives zeros where the part of the second one is computed first."""
    late = ELEMENTWISE.format(name="late", op="exp", init="z", size=sizes["size"])
    early = ELEMENTWISE.format(name="early", op="absf", init="z", size=sizes["size"])
    body = updates.format(**sizes)
    path = tmp_path / "main.mlir"
    path.write_text(PROGRAM.format(**sizes, late=late, early=early, updates=body))
    x = np.array([2.0, -3.0], np.float32)
    got = mlirfuse.compile(path, pipeline="none", cache=False)(x, np.zeros(1, np.float32))
    np.testing.assert_allclose(got, [0.0, *(np.abs(x) - np.exp(x))], rtol=1e-5)


def test_parts_of_complex_concatenations():
    def model(x):
        return torch.diagflat(x, 1), torch.complex(
            torch.cat([torch.zeros(1), x.real]), torch.cat([torch.zeros(1), x.imag])
        )

    check(model, torch.tensor([1 + 2j, 3 - 4j]))


@pytest.mark.parametrize("combination", ["multiply", "max"])
def test_complex_arguments_are_not_written(combination):
    """Their parts are taken, joined again, and folded to the argument in the scatter's dispatch."""
    x, u = (jax.numpy.arange(1, 7) * n for n in (1j, 2 + 1j))
    before = np.array(x)

    def function(x, u):
        return getattr(x.at[np.array([1, 4, 3])], combination)(u[:3])

    found = mlirfuse.compile(jax.jit(function), (x, u))(x, u)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(found, function(jax.numpy.asarray(before), u), rtol=1e-6)
