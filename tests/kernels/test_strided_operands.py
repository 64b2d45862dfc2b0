"""Kernels that read slices with strides where they are in memory."""

import numpy as np
import pytest

from helpers.kernel_runner import close, draw, needs_triton, run
from mlirfuse.kernels.codegen.iteration_space import Group, Space

SOFTMAX = """
func.func @main(%x: tensor<6x9x14xf32>) -> tensor<ROWSxCOLSxf32> {
  %c0 = arith.constant 0.0 : f32
  %cm = arith.constant 0xFF800000 : f32
  %s = tensor.extract_slice %x[OFFSETS] [SIZES] [STRIDES]
      : tensor<6x9x14xf32> to tensor<ROWSxCOLSxf32>
  %e = tensor.empty() : tensor<ROWSxf32>
  %y = tensor.empty() : tensor<ROWSxCOLSxf32>
  %f = linalg.fill ins(%cm : f32) outs(%e : tensor<ROWSxf32>) -> tensor<ROWSxf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%s : tensor<ROWSxCOLSxf32>) outs(%f : tensor<ROWSxf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<ROWSxf32>
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s, %m : tensor<ROWSxCOLSxf32>, tensor<ROWSxf32>) outs(%y : tensor<ROWSxCOLSxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<ROWSxCOLSxf32>
  %z = linalg.fill ins(%c0 : f32) outs(%e : tensor<ROWSxf32>) -> tensor<ROWSxf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<ROWSxCOLSxf32>) outs(%z : tensor<ROWSxf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<ROWSxf32>
  %q = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %t : tensor<ROWSxCOLSxf32>, tensor<ROWSxf32>) outs(%y : tensor<ROWSxCOLSxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<ROWSxCOLSxf32>
  return %q : tensor<ROWSxCOLSxf32>
}
"""

MATMUL = """
func.func @main(%x: tensor<5x40x70xf32>, %w: tensor<COLSx24xf32>) -> tensor<ROWSx24xf32> {
  %c0 = arith.constant 0.0 : f32
  %s = tensor.extract_slice %x[OFFSETS] [SIZES] [STRIDES]
      : tensor<5x40x70xf32> to tensor<ROWSxCOLSxf32>
  %e = tensor.empty() : tensor<ROWSx24xf32>
  %f = linalg.fill ins(%c0 : f32) outs(%e : tensor<ROWSx24xf32>) -> tensor<ROWSx24xf32>
  %y = linalg.matmul ins(%s, %w : tensor<ROWSxCOLSxf32>, tensor<COLSx24xf32>)
      outs(%f : tensor<ROWSx24xf32>) -> tensor<ROWSx24xf32>
  return %y : tensor<ROWSx24xf32>
}
"""


MAPS = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
"""


def text_of(text, offsets, sizes, strides):
    rows, columns = [size for size in sizes if size != 1]
    parts = {"OFFSETS": offsets, "SIZES": sizes, "STRIDES": strides}
    for name, numbers in parts.items():
        text = text.replace(name, ", ".join(map(str, numbers)))
    return MAPS + text.replace("ROWS", str(rows)).replace("COLS", str(columns))


def part_of(x, offsets, sizes, strides):
    ends = (o + s * n for o, s, n in zip(offsets, strides, sizes, strict=True))
    return x[tuple(map(slice, offsets, ends, strides))].squeeze()


@needs_triton
@pytest.mark.parametrize(
    "taken",
    [
        ((1, 0, 0), (1, 9, 7), (1, 1, 2)),
        ((1, 2, 3), (1, 3, 10), (1, 2, 1)),
        ((0, 4, 1), (3, 1, 4), (2, 3, 3)),
        ((1, 0, 5), (2, 9, 1), (4, 1, 9)),
    ],
    ids=["columns", "rows", "both", "column"],
)
def test_softmax(interpreter, taken):
    x = draw((6, 9, 14), "f32", 0)
    part = part_of(x, *taken).astype(np.float64)
    (found,) = run(interpreter, text_of(SOFTMAX, *taken), "rows", [x], [part.shape])
    powers = np.exp(part - part.max(-1, keepdims=True))
    close(found, powers / powers.sum(-1, keepdims=True), "f32")


@needs_triton
@pytest.mark.parametrize(
    "taken",
    [((3, 1, 2), (1, 39, 34), (1, 1, 2)), ((3, 1, 2), (1, 20, 60), (1, 2, 1))],
    ids=["columns", "rows"],
)
def test_matmul(interpreter, taken):
    x = draw((5, 40, 70), "f32", 0)
    part = part_of(x, *taken).astype(np.float64)
    w = draw((part.shape[1], 24), "f32", 1)
    (found,) = run(interpreter, text_of(MATMUL, *taken), "matmul", [x, w], [(part.shape[0], 24)])
    close(found, part @ w.astype(np.float64), "f32")


@pytest.mark.parametrize("steps", [(2, 1, 1), (1, 2, 1), (1, 1, 3), (2, 3, 1), (1, 1, 1)])
def test_offsets_of_merged_axes(steps):
    """Axes of one group are one index where the elements of the slice are adjacent along them."""
    taken, shape = (4, 5, 6), tuple(n * s for n, s in zip((4, 5, 6), steps, strict=True))
    space = Space((Group("row", taken[:2]), Group("column", taken[2:])))
    text = space.offset(shape, ((0, 0), (0, 1), (1, 0)), taken, steps)
    elements = np.arange(np.prod(shape)).reshape(shape)
    part = elements[tuple(slice(None, None, step) for step in steps)]
    row, column = np.arange(20)[:, None], np.arange(6)[None, :]
    found = eval(text, {"row": row, "column": column})
    np.testing.assert_array_equal(np.broadcast_to(found, (20, 6)), part.reshape(20, 6))
    assert ("//" in text) == (steps[:2] != (1, 1))
