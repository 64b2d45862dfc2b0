// RUN: %mlirfuse-opt %s --split-input-file --pipeline=unit_batch_rewrite | FileCheck %s

// CHECK-LABEL: func.func @one_matrix
// CHECK-SAME: %[[X:.+]]: tensor<6x8xf16>, %[[W:.+]]: tensor<1x8x5xf16>
// CHECK-DAG: %[[Y:.+]] = tensor.collapse_shape %[[W]] {{\[\[}}0, 1], [2]] : tensor<1x8x5xf16> into tensor<8x5xf16>
// CHECK-DAG: %[[Z:.+]] = linalg.fill ins(%{{.+}} : f32) outs(%{{.+}} : tensor<6x5xf32>)
// CHECK: %[[C:.+]] = linalg.matmul ins(%[[X]], %[[Y]] : tensor<6x8xf16>, tensor<8x5xf16>) outs(%[[Z]] : tensor<6x5xf32>) -> tensor<6x5xf32>
// CHECK: %[[E:.+]] = tensor.expand_shape %[[C]] {{\[\[}}0, 1], [2]] output_shape [1, 6, 5]
// CHECK: return %[[E]]
func.func @one_matrix(%x: tensor<6x8xf16>, %w: tensor<1x8x5xf16>) -> tensor<1x6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %a = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, 6, 8] : tensor<6x8xf16> into tensor<1x6x8xf16>
  %e = tensor.empty() : tensor<1x6x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x6x5xf32>) -> tensor<1x6x5xf32>
  %c = linalg.batch_matmul ins(%a, %w : tensor<1x6x8xf16>, tensor<1x8x5xf16>) outs(%z : tensor<1x6x5xf32>) -> tensor<1x6x5xf32>
  return %c : tensor<1x6x5xf32>
}

// -----

// CHECK-LABEL: func.func @accumulator
// CHECK-SAME: %[[A:.+]]: tensor<1x6x8xf32>, %[[B:.+]]: tensor<1x8x5xf32>, %[[I:.+]]: tensor<1x6x5xf32>
// CHECK: %[[S:.+]] = tensor.collapse_shape %[[I]]
// CHECK: linalg.matmul ins(%{{.+}}, %{{.+}} : tensor<6x8xf32>, tensor<8x5xf32>) outs(%[[S]] : tensor<6x5xf32>)
func.func @accumulator(%a: tensor<1x6x8xf32>, %b: tensor<1x8x5xf32>, %i: tensor<1x6x5xf32>) -> tensor<1x6x5xf32> {
  %c = linalg.batch_matmul ins(%a, %b : tensor<1x6x8xf32>, tensor<1x8x5xf32>) outs(%i : tensor<1x6x5xf32>) -> tensor<1x6x5xf32>
  return %c : tensor<1x6x5xf32>
}

// -----

// CHECK-LABEL: func.func @no_rewrite_of_two
// CHECK: linalg.batch_matmul
func.func @no_rewrite_of_two(%a: tensor<2x6x8xf32>, %b: tensor<2x8x5xf32>, %i: tensor<2x6x5xf32>) -> tensor<2x6x5xf32> {
  %c = linalg.batch_matmul ins(%a, %b : tensor<2x6x8xf32>, tensor<2x8x5xf32>) outs(%i : tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  return %c : tensor<2x6x5xf32>
}

// -----

// CHECK-LABEL: func.func @no_rewrite_of_an_unknown_size
// CHECK: linalg.batch_matmul
func.func @no_rewrite_of_an_unknown_size(%a: tensor<1x?x8xf32>, %b: tensor<1x8x5xf32>, %i: tensor<1x?x5xf32>) -> tensor<1x?x5xf32> {
  %c = linalg.batch_matmul ins(%a, %b : tensor<1x?x8xf32>, tensor<1x8x5xf32>) outs(%i : tensor<1x?x5xf32>) -> tensor<1x?x5xf32>
  return %c : tensor<1x?x5xf32>
}

// -----

// The reshape behind the result merges its dimensions, too: an op behind it stays an epilogue.
// CHECK-LABEL: func.func @merged_result
// CHECK: %[[C:.+]] = linalg.matmul
// CHECK-NOT: tensor.expand_shape
// CHECK: %[[M:.+]] = tensor.collapse_shape %[[C]] {{\[\[}}0, 1]] : tensor<6x1xf32> into tensor<6xf32>
// CHECK: return %[[M]]
func.func @merged_result(%a: tensor<1x6x8xf32>, %b: tensor<1x8x1xf32>, %i: tensor<1x6x1xf32>) -> tensor<6xf32> {
  %c = linalg.batch_matmul ins(%a, %b : tensor<1x6x8xf32>, tensor<1x8x1xf32>) outs(%i : tensor<1x6x1xf32>) -> tensor<1x6x1xf32>
  %m = tensor.collapse_shape %c [[0, 1, 2]] : tensor<1x6x1xf32> into tensor<6xf32>
  return %m : tensor<6xf32>
}

// -----

// CHECK-LABEL: func.func @cut_result
// CHECK: %[[E:.+]] = tensor.expand_shape
// CHECK: tensor.collapse_shape %[[E]] {{\[\[}}0], [1, 2]]
func.func @cut_result(%a: tensor<1x6x8xf32>, %b: tensor<1x8x5xf32>, %i: tensor<1x6x5xf32>) -> tensor<1x30xf32> {
  %c = linalg.batch_matmul ins(%a, %b : tensor<1x6x8xf32>, tensor<1x8x5xf32>) outs(%i : tensor<1x6x5xf32>) -> tensor<1x6x5xf32>
  %m = tensor.collapse_shape %c [[0], [1, 2]] : tensor<1x6x5xf32> into tensor<1x30xf32>
  return %m : tensor<1x30xf32>
}
