// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=demanded_part_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=demanded_part_rewrite --disable-pass=demanded_part_rewrite | FileCheck %s --check-prefix=OFF

// The first token of each of four samples, behind a matmul of all tokens and an elementwise op.
// CHECK-LABEL: @rows_of_a_matmul
// CHECK-SAME: %[[X:.*]]: tensor<128x16xf32>, %[[W:.*]]: tensor<16x8xf32>
// CHECK: %[[R:.*]] = tensor.extract_slice %[[X]][0, 0] [4, 16] [32, 1]
// CHECK: linalg.matmul ins(%[[R]], %[[W]] : {{.*}} -> tensor<4x8xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: return %{{.*}} : tensor<4x8xf32>
// OFF-LABEL: @rows_of_a_matmul
// OFF: linalg.matmul {{.*}} -> tensor<128x8xf32>
#id = affine_map<(a, b) -> (a, b)>
func.func @rows_of_a_matmul(%x: tensor<128x16xf32>, %w: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x8xf32>) -> tensor<128x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<128x16xf32>, tensor<16x8xf32>) outs(%f : tensor<128x8xf32>) -> tensor<128x8xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<128x8xf32>) outs(%e : tensor<128x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.negf %i : f32
    linalg.yield %r : f32
  } -> tensor<128x8xf32>
  %g = tensor.expand_shape %n [[0, 1], [2]] output_shape [4, 32, 8] : tensor<128x8xf32> into tensor<4x32x8xf32>
  %s = tensor.extract_slice %g[0, 0, 0] [4, 1, 8] [1, 1, 1] : tensor<4x32x8xf32> to tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// -----

// The index of a row is that of the whole tensor.
// CHECK-LABEL: @index
// CHECK: linalg.matmul {{.*}} -> tensor<2x8xf32>
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[M:.*]] = arith.muli %[[I]], %{{.*}}
// CHECK: %[[A:.*]] = arith.addi %[[M]], %{{.*}}
// CHECK: arith.index_cast %[[A]]
// OFF-LABEL: @index
#id = affine_map<(a, b) -> (a, b)>
func.func @index(%x: tensor<32x16xf32>, %w: tensor<16x8xf32>) -> tensor<2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x8xf32>) -> tensor<32x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<32x16xf32>, tensor<16x8xf32>) outs(%f : tensor<32x8xf32>) -> tensor<32x8xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<32x8xf32>) outs(%e : tensor<32x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %d = linalg.index 0 : index
    %c = arith.index_cast %d : index to i32
    %v = arith.sitofp %c : i32 to f32
    %r = arith.mulf %i, %v : f32
    linalg.yield %r : f32
  } -> tensor<32x8xf32>
  %s = tensor.extract_slice %n[5, 0] [2, 8] [3, 1] : tensor<32x8xf32> to tensor<2x8xf32>
  return %s : tensor<2x8xf32>
}

// -----

// Others need all of the matmul; a slice of most of it keeps its rows aligned.
// CHECK-LABEL: @no_rewrite
// CHECK-COUNT-2: linalg.matmul {{.*}} -> tensor<32x8xf32>
// CHECK: tensor.extract_slice {{.*}} tensor<32x8xf32> to tensor<2x8xf32>
// CHECK: tensor.extract_slice {{.*}} tensor<32x8xf32> to tensor<31x8xf32>
// OFF-LABEL: @no_rewrite
func.func @no_rewrite(%x: tensor<32x16xf32>, %z: tensor<32x16xf32>, %w: tensor<16x8xf32>) -> (tensor<32x8xf32>, tensor<2x8xf32>, tensor<31x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x8xf32>) -> tensor<32x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<32x16xf32>, tensor<16x8xf32>) outs(%f : tensor<32x8xf32>) -> tensor<32x8xf32>
  %u = linalg.matmul ins(%z, %w : tensor<32x16xf32>, tensor<16x8xf32>) outs(%f : tensor<32x8xf32>) -> tensor<32x8xf32>
  %s = tensor.extract_slice %y[5, 0] [2, 8] [1, 1] : tensor<32x8xf32> to tensor<2x8xf32>
  %t = tensor.extract_slice %u[1, 0] [31, 8] [1, 1] : tensor<32x8xf32> to tensor<31x8xf32>
  return %y, %s, %t : tensor<32x8xf32>, tensor<2x8xf32>, tensor<31x8xf32>
}
