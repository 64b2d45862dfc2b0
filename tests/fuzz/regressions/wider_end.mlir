// checked: {"target": "cpu", "switches": {}}
// elementwise_fusion: an end that widens before another
func.func @main(%x: tensor<64x30xi8>, %y: tensor<64x30xi8>) -> (tensor<64x30xf32>, tensor<64x30xi8>) {
  %one = arith.constant 1 : i8
  %pe = tensor.empty() : tensor<64x30xi8>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x30xi8>) outs(%pe : tensor<64x30xi8>) {
  ^bb0(%i0: i8, %o: i8):
    %r = arith.addi %i0, %one : i8
    linalg.yield %r : i8
  } -> tensor<64x30xi8>
  %ce = tensor.empty() : tensor<64x30xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<64x30xi8>) outs(%ce : tensor<64x30xf32>) {
  ^bb0(%i0: i8, %o: f32):
    %q = arith.sitofp %i0 : i8 to f32
    %r = arith.mulf %q, %q : f32
    linalg.yield %r : f32
  } -> tensor<64x30xf32>
  %ae = tensor.empty() : tensor<64x30xi8>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p, %y : tensor<64x30xi8>, tensor<64x30xi8>) outs(%ae : tensor<64x30xi8>) {
  ^bb0(%i0: i8, %i1: i8, %o: i8):
    %r = arith.muli %i0, %i1 : i8
    linalg.yield %r : i8
  } -> tensor<64x30xi8>
  return %c, %a : tensor<64x30xf32>, tensor<64x30xi8>
}
