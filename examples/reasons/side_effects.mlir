// The barrier computes an operand of the group, and nothing may move across it.
// mlirfuse-opt examples/reasons/side_effects.mlir --load-pass=examples/reasons/groups.pdl.mlir
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = math.exp %x : tensor<8xf32>
  %early = math.sin %a : tensor<8xf32>
  %b = util.optimization_barrier %y : tensor<8xf32>
  %c = arith.addf %a, %b : tensor<8xf32>
  return %c, %early : tensor<8xf32>, tensor<8xf32>
}
