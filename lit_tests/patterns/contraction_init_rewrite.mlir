// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=contraction_init_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=contraction_init_rewrite | FileCheck %s --check-prefix=OFF

#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>

// From: torch.nn.Conv1d of one tap, f16: the bias of each channel is where the sums start.
// CHECK-DAG: #[[ROW:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[MN:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @bias_of_rows
// CHECK-SAME: %[[A:.+]]: tensor<8x4xf16>, %[[B:.+]]: tensor<4x6xf16>, %[[V:.+]]: tensor<8xf32>
// CHECK: %[[ZERO:.+]] = linalg.fill
// CHECK: %[[C:.+]] = linalg.matmul ins(%[[A]], %[[B]] : {{.*}}) outs(%[[ZERO]] : tensor<8x6xf32>)
// CHECK: %[[Y:.+]] = linalg.generic {indexing_maps = [#[[MN]], #[[ROW]], #[[MN]]], {{.*}}} ins(%[[C]], %[[V]] : tensor<8x6xf32>, tensor<8xf32>)
// CHECK: arith.addf
// CHECK: return %[[Y]]
// OFF-LABEL: func.func @bias_of_rows
// OFF: %[[I:.+]] = linalg.generic
// OFF: linalg.matmul {{.*}} outs(%[[I]]
func.func @bias_of_rows(%a: tensor<8x4xf16>, %b: tensor<4x6xf16>, %v: tensor<8xf32>) -> tensor<8x6xf32> {
  %e = tensor.empty() : tensor<8x6xf32>
  %i = linalg.generic {indexing_maps = [#row, #mn], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<8xf32>) outs(%e : tensor<8x6xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<8x6xf32>
  %y = linalg.matmul ins(%a, %b : tensor<8x4xf16>, tensor<4x6xf16>) outs(%i : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}

// -----

// A whole tensor, of integers and a dynamic size.
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: %[[A:.+]]: tensor<?x4xi8>, %[[B:.+]]: tensor<4x6xi8>, %[[I:.+]]: tensor<?x6xi32>
// CHECK: %[[C:.+]] = linalg.matmul
// CHECK: linalg.generic {{.*}} ins(%[[C]], %[[I]] : tensor<?x6xi32>, tensor<?x6xi32>)
// CHECK: arith.addi
func.func @accumulate(%a: tensor<?x4xi8>, %b: tensor<4x6xi8>, %i: tensor<?x6xi32>) -> tensor<?x6xi32> {
  %y = linalg.matmul ins(%a, %b : tensor<?x4xi8>, tensor<4x6xi8>) outs(%i : tensor<?x6xi32>) -> tensor<?x6xi32>
  return %y : tensor<?x6xi32>
}

// -----

// Accumulators of 16 bits would be rounded once more.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT: linalg.generic
// CHECK: linalg.matmul {{.*}} outs(%arg2 : tensor<8x6xf16>)
func.func @narrow(%a: tensor<8x4xf16>, %b: tensor<4x6xf16>, %i: tensor<8x6xf16>) -> tensor<8x6xf16> {
  %y = linalg.matmul ins(%a, %b : tensor<8x4xf16>, tensor<4x6xf16>) outs(%i : tensor<8x6xf16>) -> tensor<8x6xf16>
  return %y : tensor<8x6xf16>
}

// -----

// CHECK-LABEL: func.func @zero
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @zero(%a: tensor<8x4xf16>, %b: tensor<4x6xf16>) -> tensor<8x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = linalg.matmul ins(%a, %b : tensor<8x4xf16>, tensor<4x6xf16>) outs(%f : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
