// The add runs only when the condition holds, the exponential always.
// mlirfuse-opt examples/reasons/different_blocks.mlir --load-pass=examples/reasons/groups.pdl.mlir
func.func @main(%x: tensor<8xf32>, %condition: i1) -> tensor<8xf32> {
  %a = math.exp %x : tensor<8xf32>
  %r = scf.if %condition -> tensor<8xf32> {
    %b = arith.addf %a, %x : tensor<8xf32>
    scf.yield %b : tensor<8xf32>
  } else {
    scf.yield %x : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}
