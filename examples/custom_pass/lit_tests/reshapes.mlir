// RUN: %mlirfuse-opt %s %patterns --pipeline=collapse_of_expand_rewrite,scores_softmax_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s %patterns --pipeline=collapse_of_expand_rewrite,scores_softmax_fusion --disable-pass=collapse_of_expand_rewrite@func=undone,scores_softmax_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s %patterns --pipeline=collapse_of_expand_rewrite,scores_softmax_fusion -v 2>&1 >/dev/null | FileCheck %s --check-prefix=LOG

// LOG: collapse_of_expand_rewrite: 2 rewrites
// LOG: scores_softmax_fusion: 1 rewrite,

// CHECK-LABEL: @undone
// CHECK-SAME: %[[X:.*]]: tensor<8x16xf32>
// CHECK-NEXT: return %[[X]]
// OFF-LABEL: @undone
// OFF: tensor.expand_shape
// OFF: tensor.collapse_shape
func.func @undone(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf32> into tensor<2x4x16xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x4x16xf32> into tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// CHECK-LABEL: @expanded_read_too
// CHECK-SAME: %[[X:.*]]: tensor<8x16xf32>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]]
// CHECK-NEXT: return %[[X]], %[[E]]
// OFF-LABEL: @expanded_read_too
// OFF-NOT: tensor.collapse_shape
func.func @expanded_read_too(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<2x4x16xf32>) {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf32> into tensor<2x4x16xf32>
  %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x4x16xf32> into tensor<8x16xf32>
  return %1, %0 : tensor<8x16xf32>, tensor<2x4x16xf32>
}

// OFF-LABEL: @no_rewrite_of_another_shape
// CHECK-LABEL: @no_rewrite_of_another_shape
// CHECK: tensor.collapse_shape
func.func @no_rewrite_of_another_shape(%x: tensor<8x16xf32>) -> tensor<2x64xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf32> into tensor<2x4x16xf32>
  %1 = tensor.collapse_shape %0 [[0], [1, 2]] : tensor<2x4x16xf32> into tensor<2x64xf32>
  return %1 : tensor<2x64xf32>
}

// CHECK-LABEL: @scores
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK-SAME: mlirfuse.pass = "scores_softmax_fusion"
// CHECK: %[[S:.*]] = linalg.batch_matmul
// CHECK: %[[P:.*]] = linalg.softmax {{.*}} ins(%[[S]]
// CHECK: flow.return %[[P]]
// CHECK: return %[[G]]
// OFF-LABEL: @scores
// OFF-NOT: flow.dispatch.region
func.func @scores(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %o: tensor<2x8x8xf32>) -> tensor<2x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%f : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%o : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return %p : tensor<2x8x8xf32>
}
