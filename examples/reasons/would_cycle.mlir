// The sine would have to run after one half of the group and before the other.
// mlirfuse-opt examples/reasons/would_cycle.mlir --load-pass=examples/reasons/groups.pdl.mlir
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = math.exp %x : tensor<8xf32>
  %b = math.sin %a : tensor<8xf32>
  %c = arith.addf %a, %b : tensor<8xf32>
  return %c : tensor<8xf32>
}
