// Sixteen tensors in and one out.
// mlirfuse-opt examples/reasons/too_many_operands.mlir --target=vulkan --load-pass=examples/reasons/groups.pdl.mlir
func.func @main(
    %0: tensor<8xf32>, %1: tensor<8xf32>, %2: tensor<8xf32>, %3: tensor<8xf32>,
    %4: tensor<8xf32>, %5: tensor<8xf32>, %6: tensor<8xf32>, %7: tensor<8xf32>,
    %8: tensor<8xf32>, %9: tensor<8xf32>, %10: tensor<8xf32>, %11: tensor<8xf32>,
    %12: tensor<8xf32>, %13: tensor<8xf32>, %14: tensor<8xf32>, %15: tensor<8xf32>
) -> tensor<128xf32> {
  %a = tensor.concat dim(0) %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
       tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
       tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
       tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<128xf32>
  %b = math.exp %a : tensor<128xf32>
  return %b : tensor<128xf32>
}
