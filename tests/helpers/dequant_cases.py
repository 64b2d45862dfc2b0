"""Matmuls with a dequantized weight, as cases of the harness."""

import numpy as np

from helpers.harness import FLOATS, Case

M, N, K, GROUP = 8, 32, 64, 16
GROUPS = K // GROUP


def inputs(
    dtype: str, *weights: tuple[int, ...], scale: tuple[int, ...], extra: tuple = ()
) -> dict[str, tuple[np.ndarray, ...]]:
    """Activations, integers of four bits' range, scales and further tensors of floats."""
    rng = np.random.default_rng(2)
    kind = FLOATS[dtype]
    whole = [rng.integers(-8, 8, shape).astype(np.int8) for shape in weights]

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(kind)

    # Quarters: exact in any order of the sum.
    rest = [np.round(4 * draw(*shape)) / 4 for shape in extra]
    hostile = draw(M, K)
    hostile[0, 0], hostile[1, 1] = np.inf, np.nan
    sets = {
        "normal": (draw(M, K), draw(*scale)),
        "zeros": (np.zeros((M, K), kind), draw(*scale)),
        "zero scale": (draw(M, K), np.zeros(scale, kind)),
        "negative scale": (draw(M, K), -abs(draw(*scale))),
        "powers": (np.ones((M, K), kind), np.full(scale, 0.5, kind)),
        "hostile": (hostile, draw(*scale)),
    }
    return {name: (x, *whole, s, *rest) for name, (x, s) in sets.items()}


def case(name: str, text: str, arrays: dict, reference, dtype: str, dispatches: int) -> Case:
    return Case(
        name=name,
        text=text,
        inputs=arrays,
        reference=reference,
        fires={"dequant_matmul_fusion": 1},
        ulps=K,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        exact=frozenset({"zeros", "powers"}),
        dispatches=dispatches,
    )


def torch_form(name: str) -> Case:
    """F.linear(x, ((w - z) * s).reshape(N, K), b): groups along the rows of an NxK weight."""
    text = f"""
  func.func @{name}(%x: tensor<{M}x{K}xf32>, %w: tensor<{N}x{GROUPS}x{GROUP}xi8>,
      %z: tensor<{N}x{GROUPS}xi8>, %s: tensor<{N}x{GROUPS}xf32>, %b: tensor<{N}xf32>)
      -> tensor<{M}x{N}xf32> {{
    %cst = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<{N}x{GROUPS}x{GROUP}xf32>
    %d = linalg.generic {{indexing_maps = [affine_map<(n, g, s) -> (n, g, s)>,
        affine_map<(n, g, s) -> (n, g)>, affine_map<(n, g, s) -> (n, g)>,
        affine_map<(n, g, s) -> (n, g, s)>],
        iterator_types = ["parallel", "parallel", "parallel"]}}
        ins(%w, %z, %s : tensor<{N}x{GROUPS}x{GROUP}xi8>, tensor<{N}x{GROUPS}xi8>,
            tensor<{N}x{GROUPS}xf32>) outs(%e : tensor<{N}x{GROUPS}x{GROUP}xf32>) {{
    ^bb0(%i0: i8, %i1: i8, %i2: f32, %out: f32):
      %f = arith.sitofp %i0 : i8 to f32
      %g = arith.sitofp %i1 : i8 to f32
      %h = arith.subf %f, %g : f32
      %r = arith.mulf %h, %i2 : f32
      linalg.yield %r : f32
    }} -> tensor<{N}x{GROUPS}x{GROUP}xf32>
    %k = tensor.collapse_shape %d [[0], [1, 2]]
        : tensor<{N}x{GROUPS}x{GROUP}xf32> into tensor<{N}x{K}xf32>
    %e1 = tensor.empty() : tensor<{M}x{N}xf32>
    %f0 = linalg.fill ins(%cst : f32) outs(%e1 : tensor<{M}x{N}xf32>) -> tensor<{M}x{N}xf32>
    %c = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
        affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
        ins(%x, %k : tensor<{M}x{K}xf32>, tensor<{N}x{K}xf32>)
        outs(%f0 : tensor<{M}x{N}xf32>) -> tensor<{M}x{N}xf32>
    %y = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>,
        affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
        iterator_types = ["parallel", "parallel"]}}
        ins(%c, %b : tensor<{M}x{N}xf32>, tensor<{N}xf32>) outs(%e1 : tensor<{M}x{N}xf32>) {{
    ^bb0(%i0: f32, %i1: f32, %out: f32):
      %r = arith.addf %i0, %i1 : f32
      linalg.yield %r : f32
    }} -> tensor<{M}x{N}xf32>
    return %y : tensor<{M}x{N}xf32>
  }}
"""

    def reference(x, w, z, s, b):
        wide = (w.astype(float) - z[..., None].astype(float)) * s[..., None]
        return (x @ wide.reshape(N, K).T + b,)

    arrays = inputs("f32", (N, GROUPS, GROUP), (N, GROUPS), scale=(N, GROUPS), extra=((N,),))
    return case(name, text, arrays, reference, "f32", 1)


def jax_form(name: str, dtype: str, narrow: str) -> Case:
    """x @ (w.astype(t) * s[:, None, :]).reshape(K, N) of dynamic rows, sums in f32."""
    weight = f"{GROUPS}x{GROUP}x{N}"
    three = 'iterator_types = ["parallel", "parallel", "parallel"]'
    whole = "affine_map<(g, s, n) -> (g, s, n)>"
    shorten = f"""
    %e4 = tensor.empty() : tensor<{weight}xi4>
    %w4 = linalg.generic {{indexing_maps = [{whole}, {whole}], {three}}}
        ins(%w : tensor<{weight}xi8>) outs(%e4 : tensor<{weight}xi4>) {{
    ^bb0(%i0: i8, %out: i4):
      %r = arith.trunci %i0 : i8 to i4
      linalg.yield %r : i4
    }} -> tensor<{weight}xi4>"""
    text = f"""
  func.func @{name}(%x: tensor<?x{K}x{dtype}>, %w: tensor<{weight}xi8>,
      %s: tensor<{GROUPS}x{N}x{dtype}>) -> tensor<?x{N}xf32> {{
    %cst = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %rows = tensor.dim %x, %c0 : tensor<?x{K}x{dtype}>
    {shorten if narrow == "i4" else ""}
    %e = tensor.empty() : tensor<{weight}x{dtype}>
    %f = linalg.generic {{indexing_maps = [{whole}, {whole}], {three}}}
        ins(%{"w4" if narrow == "i4" else "w"} : tensor<{weight}x{narrow}>)
        outs(%e : tensor<{weight}x{dtype}>) {{
    ^bb0(%i0: {narrow}, %out: {dtype}):
      %r = arith.sitofp %i0 : {narrow} to {dtype}
      linalg.yield %r : {dtype}
    }} -> tensor<{weight}x{dtype}>
    %d = linalg.generic {{indexing_maps = [{whole}, affine_map<(g, s, n) -> (g, n)>, {whole}],
        {three}}} ins(%f, %s : tensor<{weight}x{dtype}>, tensor<{GROUPS}x{N}x{dtype}>)
        outs(%e : tensor<{weight}x{dtype}>) {{
    ^bb0(%i0: {dtype}, %i1: {dtype}, %out: {dtype}):
      %r = arith.mulf %i0, %i1 : {dtype}
      linalg.yield %r : {dtype}
    }} -> tensor<{weight}x{dtype}>
    %k = tensor.collapse_shape %d [[0, 1], [2]]
        : tensor<{weight}x{dtype}> into tensor<{K}x{N}x{dtype}>
    %e1 = tensor.empty(%rows) : tensor<?x{N}xf32>
    %f0 = linalg.fill ins(%cst : f32) outs(%e1 : tensor<?x{N}xf32>) -> tensor<?x{N}xf32>
    %c = linalg.matmul ins(%x, %k : tensor<?x{K}x{dtype}>, tensor<{K}x{N}x{dtype}>)
        outs(%f0 : tensor<?x{N}xf32>) -> tensor<?x{N}xf32>
    return %c : tensor<?x{N}xf32>
  }}
"""

    def reference(x, w, s):
        return (x @ (w.astype(float) * s[:, None, :]).reshape(K, N),)

    arrays = inputs(dtype, (GROUPS, GROUP, N), scale=(GROUPS, N))
    return case(name, text, arrays, reference, dtype, 2 if narrow == "i4" else 1)
