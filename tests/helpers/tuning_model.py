"""A small model of MLIR; `OP` stands for the operation of its elements."""

MODEL = """
func.func @main(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
   ^bb0(%a: f32, %b: f32):
    %1 = arith.OPf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}
"""
