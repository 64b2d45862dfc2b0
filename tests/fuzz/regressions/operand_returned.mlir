// checked: {"target": "cpu", "switches": {}}
// elementwise_fusion: bits inverted twice are the operand, returned next to another result
func.func @main(%x: tensor<4x8xi32>) -> (tensor<4x8xi32>, tensor<4x8xi32>) {
 %e = tensor.empty() : tensor<4x8xi32>
 %one = arith.constant 1 : i32
 %v0 = linalg.generic {indexing_maps=[affine_map<(i,j)->(i,j)>,affine_map<(i,j)->(i,j)>], iterator_types=["parallel","parallel"]} ins(%x : tensor<4x8xi32>) outs(%e : tensor<4x8xi32>) {
 ^bb0(%i: i32, %o: i32):
  %r = arith.xori %i, %one : i32
  linalg.yield %r : i32 } -> tensor<4x8xi32>
 %v1 = linalg.generic {indexing_maps=[affine_map<(i,j)->(i,j)>,affine_map<(i,j)->(i,j)>], iterator_types=["parallel","parallel"]} ins(%v0 : tensor<4x8xi32>) outs(%e : tensor<4x8xi32>) {
 ^bb0(%i: i32, %o: i32):
  %r = arith.xori %i, %one : i32
  linalg.yield %r : i32 } -> tensor<4x8xi32>
 %v2 = linalg.generic {indexing_maps=[affine_map<(i,j)->(i,j)>,affine_map<(i,j)->(i,j)>], iterator_types=["parallel","parallel"]} ins(%v1 : tensor<4x8xi32>) outs(%e : tensor<4x8xi32>) {
 ^bb0(%i: i32, %o: i32):
  %r = arith.xori %i, %one : i32
  linalg.yield %r : i32 } -> tensor<4x8xi32>
 return %v1, %v2 : tensor<4x8xi32>, tensor<4x8xi32>
}
