// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=contraction_fusion | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=contraction_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=contraction_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: mlirfuse.pass = "contraction_fusion"

// The cast is fused too.
// CHECK-LABEL: @matmul_and_cast
// CHECK-SAME: %[[A:.*]]: tensor<32x64xf16>, %[[B:.*]]: tensor<64x48xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul ins(%[[A]], %[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[D]]
// CHECK: return %[[Y]]
#id = affine_map<(m, n) -> (m, n)>
func.func @matmul_and_cast(%a: tensor<32x64xf16>, %b: tensor<64x48xf16>) -> tensor<32x48xf16> {
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

// The ops after the reshape get the row's dimension back, and the bias with them.
// CHECK-LABEL: @row_without_its_dimension
// CHECK-SAME: %[[A:.*]]: tensor<1x64xf16>, %[[B:.*]]: tensor<48x64xf16>, %[[S:.*]]: tensor<48xf32>
// CHECK: %[[WIDE:.*]] = tensor.expand_shape %[[S]] {{\[\[}}0, 1]]
// CHECK: %[[Y:.*]] = flow.dispatch.region -> (tensor<1x48xf16>)
// CHECK: %[[C:.*]] = linalg.matmul {{.*}} ins(%[[A]], %[[B]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[WIDE]] : tensor<1x48xf32>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[D]] : tensor<1x48xf32>
// CHECK: flow.return %[[T]]
// CHECK: %[[N:.*]] = tensor.collapse_shape %[[Y]] {{\[\[}}0, 1]]
// CHECK: return %[[N]]
#rnk = affine_map<(m, n, k) -> (n, k)>
#rmk = affine_map<(m, n, k) -> (m, k)>
#rmn = affine_map<(m, n, k) -> (m, n)>
#rn = affine_map<(n) -> (n)>
func.func @row_without_its_dimension(%a: tensor<1x64xf16>, %b: tensor<48x64xf16>, %s: tensor<48xf32>) -> tensor<48xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x48xf32>) -> tensor<1x48xf32>
  %c = linalg.matmul indexing_maps = [#rmk, #rnk, #rmn] ins(%a, %b : tensor<1x64xf16>, tensor<48x64xf16>) outs(%f : tensor<1x48xf32>) -> tensor<1x48xf32>
  %v = tensor.collapse_shape %c [[0, 1]] : tensor<1x48xf32> into tensor<48xf32>
  %w = tensor.empty() : tensor<48xf32>
  %d = linalg.generic {indexing_maps = [#rn, #rn, #rn], iterator_types = ["parallel"]} ins(%v, %s : tensor<48xf32>, tensor<48xf32>) outs(%w : tensor<48xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<48xf32>
  %h = tensor.empty() : tensor<48xf16>
  %t = linalg.generic {indexing_maps = [#rn, #rn], iterator_types = ["parallel"]} ins(%d : tensor<48xf32>) outs(%h : tensor<48xf16>) {
  ^bb0(%i: f32, %o: f16):
    %r = arith.truncf %i : f32 to f16
    linalg.yield %r : f16
  } -> tensor<48xf16>
  return %t : tensor<48xf16>
}

// -----

// A value with two users is not fused, nor an op that reads an index of merged rows.
// CHECK-LABEL: @only_the_matmuls
// CHECK: %[[X:.*]] = flow.dispatch.region -> (tensor<1x48xf32>)
// CHECK: flow.return
// CHECK: tensor.collapse_shape %[[X]]
// CHECK: %[[Y:.*]] = flow.dispatch.region -> (tensor<2x48xf32>)
// CHECK: flow.return
// CHECK: tensor.collapse_shape %[[Y]]
// CHECK-NOT: flow.dispatch.region
#unk = affine_map<(m, n, k) -> (n, k)>
#umk = affine_map<(m, n, k) -> (m, k)>
#umn = affine_map<(m, n, k) -> (m, n)>
#un = affine_map<(n) -> (n)>
func.func @only_the_matmuls(%a: tensor<1x64xf16>, %g: tensor<2x64xf16>, %b: tensor<48x64xf16>) -> (tensor<48xf32>, tensor<48xf16>, tensor<96xf16>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x48xf32>) -> tensor<1x48xf32>
  %c = linalg.matmul indexing_maps = [#umk, #unk, #umn] ins(%a, %b : tensor<1x64xf16>, tensor<48x64xf16>) outs(%f : tensor<1x48xf32>) -> tensor<1x48xf32>
  %v = tensor.collapse_shape %c [[0, 1]] : tensor<1x48xf32> into tensor<48xf32>
  %h = tensor.empty() : tensor<48xf16>
  %t = linalg.generic {indexing_maps = [#un, #un], iterator_types = ["parallel"]} ins(%v : tensor<48xf32>) outs(%h : tensor<48xf16>) {
  ^bb0(%i: f32, %o: f16):
    %r = arith.truncf %i : f32 to f16
    linalg.yield %r : f16
  } -> tensor<48xf16>
  %e2 = tensor.empty() : tensor<2x48xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x48xf32>) -> tensor<2x48xf32>
  %c2 = linalg.matmul indexing_maps = [#umk, #unk, #umn] ins(%g, %b : tensor<2x64xf16>, tensor<48x64xf16>) outs(%f2 : tensor<2x48xf32>) -> tensor<2x48xf32>
  %v2 = tensor.collapse_shape %c2 [[0, 1]] : tensor<2x48xf32> into tensor<96xf32>
  %h2 = tensor.empty() : tensor<96xf16>
  %t2 = linalg.generic {indexing_maps = [#un, #un], iterator_types = ["parallel"]} ins(%v2 : tensor<96xf32>) outs(%h2 : tensor<96xf16>) {
  ^bb0(%i: f32, %o: f16):
    %x = linalg.index 0 : index
    %j = arith.index_cast %x : index to i32
    %k = arith.sitofp %j : i32 to f32
    %l = arith.addf %i, %k : f32
    %r = arith.truncf %l : f32 to f16
    linalg.yield %r : f16
  } -> tensor<96xf16>
  return %v, %t, %t2 : tensor<48xf32>, tensor<48xf16>, tensor<96xf16>
}

// -----

// Batches that are merged after the contraction are apart in its epilogue, and merged behind it.
// CHECK-LABEL: @merged_batches
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<6x8xf32>)
// CHECK: %[[W:.*]] = tensor.expand_shape %[[V]] {{\[\[}}0, 1], [2]]
// CHECK: %[[Y:.*]] = flow.dispatch.region -> (tensor<2x3x8x5xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[W]] : tensor<2x3x8x5xf32>, tensor<2x3x8xf32>)
// CHECK: tensor.collapse_shape %[[Y]] {{\[\[}}0, 1], [2], [3]]
#ba = affine_map<(b, c, m, n, k) -> (b, c, m, k)>
#bb = affine_map<(b, c, m, n, k) -> (b, c, k, n)>
#bc = affine_map<(b, c, m, n, k) -> (b, c, m, n)>
#id = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (b, m)>
func.func @merged_batches(%a: tensor<2x3x8x4xf32>, %b: tensor<2x3x4x5xf32>, %s: tensor<6x8xf32>) -> tensor<6x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x8x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x8x5xf32>) -> tensor<2x3x8x5xf32>
  %c = linalg.generic {indexing_maps = [#ba, #bb, #bc], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : tensor<2x3x8x4xf32>, tensor<2x3x4x5xf32>) outs(%f : tensor<2x3x8x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x3x8x5xf32>
  %v = tensor.collapse_shape %c [[0, 1], [2], [3]] : tensor<2x3x8x5xf32> into tensor<6x8x5xf32>
  %h = tensor.empty() : tensor<6x8x5xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v, %s : tensor<6x8x5xf32>, tensor<6x8xf32>) outs(%h : tensor<6x8x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<6x8x5xf32>
  return %y : tensor<6x8x5xf32>
}

// -----

// The reshape is in another group already.
// CHECK-LABEL: @reshape_in_a_group
// CHECK: %[[X:.*]] = flow.dispatch.region -> (tensor<1x48xf32>)
// CHECK: flow.return
// CHECK: flow.dispatch.region -> (tensor<48xf16>)
// CHECK: tensor.collapse_shape %[[X]]
#gnk = affine_map<(m, n, k) -> (n, k)>
#gmk = affine_map<(m, n, k) -> (m, k)>
#gmn = affine_map<(m, n, k) -> (m, n)>
#gn = affine_map<(n) -> (n)>
func.func @reshape_in_a_group(%a: tensor<1x64xf16>, %b: tensor<48x64xf16>) -> tensor<48xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x48xf32>) -> tensor<1x48xf32>
  %c = linalg.matmul indexing_maps = [#gmk, #gnk, #gmn] ins(%a, %b : tensor<1x64xf16>, tensor<48x64xf16>) outs(%f : tensor<1x48xf32>) -> tensor<1x48xf32>
  %y = flow.dispatch.region -> (tensor<48xf16>) {
    %v = tensor.collapse_shape %c [[0, 1]] : tensor<1x48xf32> into tensor<48xf32>
    %h = tensor.empty() : tensor<48xf16>
    %t = linalg.generic {indexing_maps = [#gn, #gn], iterator_types = ["parallel"]} ins(%v : tensor<48xf32>) outs(%h : tensor<48xf16>) {
    ^bb0(%i: f32, %o: f16):
      %r = arith.truncf %i : f32 to f16
      linalg.yield %r : f16
    } -> tensor<48xf16>
    flow.return %t : tensor<48xf16>
  }
  return %y : tensor<48xf16>
}

// -----

// CHECK-LABEL: @alone_in_f32
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK-NEXT: flow.return %[[C]]
// CHECK: return %[[Y]]
func.func @alone_in_f32(%a: tensor<32x64xf32>, %b: tensor<64x48xf32>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %c = linalg.matmul ins(%a, %b : tensor<32x64xf32>, tensor<64x48xf32>) outs(%f : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %c : tensor<32x48xf32>
}

// -----

// There is no kernel for matmuls of i16.
// CHECK-LABEL: @no_fusion_i16
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_i16(%a: tensor<32x64xi16>, %b: tensor<64x48xi16>) -> tensor<32x48xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<32x48xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<32x48xi32>) -> tensor<32x48xi32>
  %c = linalg.matmul ins(%a, %b : tensor<32x64xi16>, tensor<64x48xi16>) outs(%f : tensor<32x48xi32>) -> tensor<32x48xi32>
  return %c : tensor<32x48xi32>
}

// -----

// Two dimensions of K.
// CHECK-LABEL: @no_fusion_two_dimensions_of_k
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_two_dimensions_of_k(%a: tensor<32x8x8xf16>, %b: tensor<8x8x48xf16>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x48xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %c = linalg.contract indexing_maps = [affine_map<(m, n, k, l) -> (m, k, l)>, affine_map<(m, n, k, l) -> (k, l, n)>, affine_map<(m, n, k, l) -> (m, n)>] ins(%a, %b : tensor<32x8x8xf16>, tensor<8x8x48xf16>) outs(%f : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %c : tensor<32x48xf32>
}

// -----

// The accumulators start from a tensor.
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

// -----

// An epilogue without dimensions: the contraction is grouped alone.
// CHECK-LABEL: @no_fusion_scalar_epilogue
// CHECK-SAME: %[[A:.*]]: tensor<1x64xf16>, %[[B:.*]]: tensor<64x1xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul ins(%[[A]], %[[B]] :
// CHECK-NEXT: flow.return %[[C]]
// CHECK: %[[S:.*]] = tensor.collapse_shape %[[Y]] []
// CHECK: linalg.generic {{.*}} ins(%[[S]] :
func.func @no_fusion_scalar_epilogue(%a: tensor<1x64xf16>, %b: tensor<64x1xf16>) -> tensor<f16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1xf32>) -> tensor<1x1xf32>
  %c = linalg.matmul ins(%a, %b : tensor<1x64xf16>, tensor<64x1xf16>) outs(%f : tensor<1x1xf32>) -> tensor<1x1xf32>
  %s = tensor.collapse_shape %c [] : tensor<1x1xf32> into tensor<f32>
  %o = tensor.empty() : tensor<f16>
  %y = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%s : tensor<f32>) outs(%o : tensor<f16>) {
  ^bb0(%x: f32, %w: f16):
    %n = arith.truncf %x : f32 to f16
    linalg.yield %n : f16
  } -> tensor<f16>
  return %y : tensor<f16>
}
