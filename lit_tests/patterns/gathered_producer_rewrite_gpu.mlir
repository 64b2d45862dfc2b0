// RUN: %mlirfuse-opt %s --split-input-file --pipeline=gathered_producer_rewrite --target=cuda:sm_90 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=gathered_producer_rewrite --target=cpu | FileCheck %s --check-prefix=CPU

#m = affine_map<(n, c) -> (n, c)>

// A kernel for a GPU computes each element that it reads.
// CHECK-LABEL: func.func @flip
// CHECK-SAME: %[[X:.+]]: tensor<64x32xf32>
// CHECK-COUNT-1: linalg.generic
// CHECK: %[[E:.+]] = tensor.extract %[[X]]
// CHECK: arith.mulf %[[E]], %[[E]]
// CHECK-NOT: linalg.generic
// CPU-LABEL: func.func @flip
// CPU-COUNT-2: linalg.generic
func.func @flip(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %e = tensor.empty() : tensor<64x32xf32>
  %s = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<64x32xf32>
  %y = linalg.generic {indexing_maps = [#m], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<64x32xf32>) {
  ^bb0(%o: f32):
    %c63 = arith.constant 63 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %r = arith.subi %c63, %i : index
    %p = tensor.extract %s[%r, %j] : tensor<64x32xf32>
    linalg.yield %p : f32
  } -> tensor<64x32xf32>
  return %y : tensor<64x32xf32>
}

// -----

#m = affine_map<(n, c) -> (n, c)>
#g = affine_map<(n, c, k) -> (n, c, k)>

// Eight sines of each of 16 million elements take longer than to write and read them.
// CHECK-LABEL: func.func @no_rewrite_of_many_functions
// CHECK-COUNT-2: linalg.generic
func.func @no_rewrite_of_many_functions(%x: tensor<4096x4096xf32>) -> tensor<4096x4096x8xf32> {
  %e = tensor.empty() : tensor<4096x4096xf32>
  %s = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4096x4096xf32>) outs(%e : tensor<4096x4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.sin %a : f32
    linalg.yield %p : f32
  } -> tensor<4096x4096xf32>
  %f = tensor.empty() : tensor<4096x4096x8xf32>
  %y = linalg.generic {indexing_maps = [#g], iterator_types = ["parallel", "parallel", "parallel"]} outs(%f : tensor<4096x4096x8xf32>) {
  ^bb0(%o: f32):
    %c4095 = arith.constant 4095 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %r = arith.subi %c4095, %i : index
    %p = tensor.extract %s[%r, %j] : tensor<4096x4096xf32>
    linalg.yield %p : f32
  } -> tensor<4096x4096x8xf32>
  return %y : tensor<4096x4096x8xf32>
}

// -----

#m = affine_map<(n, c) -> (n, c)>

// The epilogue of a matmul stays with it.
// CHECK-LABEL: func.func @no_rewrite_of_an_epilogue
// CHECK: linalg.matmul
// CHECK-COUNT-2: linalg.generic
func.func @no_rewrite_of_an_epilogue(%x: tensor<64x32xf32>, %w: tensor<32x32xf32>) -> tensor<64x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<64x32xf32>) -> tensor<64x32xf32>
  %t = linalg.matmul ins(%x, %w : tensor<64x32xf32>, tensor<32x32xf32>) outs(%z : tensor<64x32xf32>) -> tensor<64x32xf32>
  %s = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<64x32xf32>
  %y = linalg.generic {indexing_maps = [#m], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<64x32xf32>) {
  ^bb0(%o: f32):
    %c63 = arith.constant 63 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %r = arith.subi %c63, %i : index
    %p = tensor.extract %s[%r, %j] : tensor<64x32xf32>
    linalg.yield %p : f32
  } -> tensor<64x32xf32>
  return %y : tensor<64x32xf32>
}
