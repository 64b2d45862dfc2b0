// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=contraction_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=contraction_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=contraction_fusion --disable-pass=contraction_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=contraction_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: flow.dispatch.region

// The cast comes along.
// CHECK-LABEL: @product_and_cast
// CHECK-SAME: %[[A:.*]]: tensor<32x64xf16>, %[[B:.*]]: tensor<64x48xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul ins(%[[A]], %[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[D]]
// CHECK: return %[[Y]]
#id = affine_map<(m, n) -> (m, n)>
func.func @product_and_cast(%a: tensor<32x64xf16>, %b: tensor<64x48xf16>) -> tensor<32x48xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %c = linalg.matmul ins(%a, %b : tensor<32x64xf16>, tensor<64x48xf16>) outs(%f : tensor<32x48xf32>) -> tensor<32x48xf32>
  %h = tensor.empty() : tensor<32x48xf16>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<32x48xf32>) outs(%h : tensor<32x48xf16>) {
  ^bb0(%i: f32, %o: f16):
    %r = arith.truncf %i : f32 to f16
    linalg.yield %r : f16
  } -> tensor<32x48xf16>
  return %d : tensor<32x48xf16>
}

// -----

// CHECK-LABEL: @vector_alone
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matvec
// CHECK: flow.return %[[C]]
// CHECK: return %[[Y]]
func.func @vector_alone(%a: tensor<32x64xf16>, %b: tensor<64xf16>) -> tensor<32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32xf32>) -> tensor<32xf32>
  %c = linalg.matvec ins(%a, %b : tensor<32x64xf16>, tensor<64xf16>) outs(%f : tensor<32xf32>) -> tensor<32xf32>
  return %c : tensor<32xf32>
}

// -----

// There is no kernel for products of f32.
// CHECK-LABEL: @no_fusion_f32
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_f32(%a: tensor<32x64xf32>, %b: tensor<64x48xf32>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %c = linalg.matmul ins(%a, %b : tensor<32x64xf32>, tensor<64x48xf32>) outs(%f : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %c : tensor<32x48xf32>
}

// -----

// Two dimensions of terms.
// CHECK-LABEL: @no_fusion_two_dimensions_of_terms
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_two_dimensions_of_terms(%a: tensor<32x8x8xf16>, %b: tensor<8x8x48xf16>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %c = linalg.contract indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, l, n)>, affine_map<(m, n, k, l) -> (m, n)>] ins(%a, %b : tensor<32x8x8xf16>, tensor<8x8x48xf16>) outs(%f : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %c : tensor<32x48xf32>
}

// -----

// The sums go on from others.
// CHECK-LABEL: @no_fusion_start
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_start(%a: tensor<32x64xf16>, %b: tensor<64x48xf16>, %s: tensor<32x48xf32>) -> tensor<32x48xf32> {
  %c = linalg.matmul ins(%a, %b : tensor<32x64xf16>, tensor<64x48xf16>) outs(%s : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %c : tensor<32x48xf32>
}

// -----

// CHECK-LABEL: @no_fusion_dynamic_columns
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dynamic_columns(%a: tensor<32x64xf16>, %b: tensor<64x?xf16>, %n: index) -> tensor<32x?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<32x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x?xf32>) -> tensor<32x?xf32>
  %c = linalg.matmul ins(%a, %b : tensor<32x64xf16>, tensor<64x?xf16>) outs(%f : tensor<32x?xf32>) -> tensor<32x?xf32>
  return %c : tensor<32x?xf32>
}

// -----

// CHECK-LABEL: @no_fusion_unsigned
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_unsigned(%a: tensor<32x64xi8>, %b: tensor<64x48xi8>) -> tensor<32x48xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<32x48xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<32x48xi32>) -> tensor<32x48xi32>
  %c = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%a, %b : tensor<32x64xi8>, tensor<64x48xi8>) outs(%f : tensor<32x48xi32>) -> tensor<32x48xi32>
  return %c : tensor<32x48xi32>
}
