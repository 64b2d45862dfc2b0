// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=weighted_sum_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --disable-feature=kernels --pipeline=weighted_sum_rewrite | FileCheck %s --check-prefix=OFF

// A batch of dot products.
// CHECK-LABEL: @dots
// CHECK: %[[P:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: arith.mulf
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]{{.*}} ins(%[[P]] :
// CHECK: arith.addf
// OFF-LABEL: @dots
// OFF: linalg.batch_matmul
func.func @dots(%x: tensor<30x1x16xf32>, %w: tensor<30x16x1xf32>) -> tensor<30x1x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<30x1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<30x1x1xf32>) -> tensor<30x1x1xf32>
  %y = linalg.batch_matmul ins(%x, %w : tensor<30x1x16xf32>, tensor<30x16x1xf32>) outs(%z : tensor<30x1x1xf32>) -> tensor<30x1x1xf32>
  return %y : tensor<30x1x1xf32>
}

// -----

// `matmul_vector_kernel` has a matrix times a vector.
// CHECK-LABEL: @matrix_times_vector
// CHECK: linalg.matmul
func.func @matrix_times_vector(%x: tensor<30x16xf32>, %w: tensor<16x1xf32>) -> tensor<30x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<30x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<30x1xf32>) -> tensor<30x1xf32>
  %y = linalg.matmul ins(%x, %w : tensor<30x16xf32>, tensor<16x1xf32>) outs(%z : tensor<30x1xf32>) -> tensor<30x1xf32>
  return %y : tensor<30x1xf32>
}
