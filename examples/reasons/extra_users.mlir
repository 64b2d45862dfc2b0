// The exponential is read outside the group, which ends in rows and cannot write the whole matrix.
// mlirfuse-opt examples/reasons/extra_users.mlir --load-pass=examples/reasons/groups.pdl.mlir
func.func @main(%x: tensor<64x128xf32>, %zero: tensor<64xf32>) -> (tensor<64xf32>, tensor<64x128xf32>) {
  %a = math.exp %x : tensor<64x128xf32>
  %s = linalg.reduce {arith.addf} ins(%a : tensor<64x128xf32>) outs(%zero : tensor<64xf32>) dimensions = [1]
  return %s, %a : tensor<64xf32>, tensor<64x128xf32>
}
