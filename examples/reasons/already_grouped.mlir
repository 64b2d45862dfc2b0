// The first pass of the file took the exponential into a group with the add.
// mlirfuse-opt examples/reasons/already_grouped.mlir --load-pass=examples/reasons/groups.pdl.mlir
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = math.exp %x : tensor<8xf32>
  %b = arith.addf %a, %x : tensor<8xf32>
  %c = math.absf %a : tensor<8xf32>
  return %b, %c : tensor<8xf32>, tensor<8xf32>
}
