// checked: {"target": "cpu", "switches": {}}
// elementwise_fusion: rows gathered from a table of one row, whose ids are left over, as a result
func.func @main(%a0: tensor<1x16xbf16>, %a1: tensor<16x1xi32>) -> (tensor<16x16xbf16>, tensor<16x16xbf16>) {
  %v1 = stablehlo.constant dense<0> : tensor<16x1xi32>
  %v2 = stablehlo.minimum %a1, %v1 : tensor<16x1xi32>
  %v3 = "stablehlo.gather"(%a0, %v2) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>} : (tensor<1x16xbf16>, tensor<16x1xi32>) -> tensor<16x16xbf16>
  %v4 = stablehlo.tanh %v3 : tensor<16x16xbf16>
  %v5 = stablehlo.multiply %v3, %v4 : tensor<16x16xbf16>
  return %v5, %v3 : tensor<16x16xbf16>, tensor<16x16xbf16>
}
