// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=reduced_softmax_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --enable-feature=kernels --pipeline=reduced_softmax_rewrite | FileCheck %s --check-prefix=OFF

// The expected value of numbers.
// OFF-LABEL: @expected
// OFF: linalg.softmax
// CHECK-LABEL: @expected
// CHECK-NOT: linalg.softmax
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK: arith.mulf
// CHECK: arith.addf
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @expected(%x: tensor<64x300xf32>, %v: tensor<64x300xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  %de = tensor.empty() : tensor<64x300xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]} ins(%p, %v : tensor<64x300xf32>, tensor<64x300xf32>) outs(%de : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<64xf32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<64xf32>) -> tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<64x300xf32>) outs(%qi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %q : tensor<64xf32>
}

// -----

// The reduction is over the other dimension.
// OFF-LABEL: @other_dimension
// CHECK-LABEL: @other_dimension
// CHECK: linalg.softmax
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @other_dimension(%x: tensor<64x300xf32>) -> tensor<300xf32> {
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<300xf32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<300xf32>) -> tensor<300xf32>
  %q = linalg.generic {indexing_maps = [#all, #column], iterator_types = ["reduction", "parallel"]} ins(%p : tensor<64x300xf32>) outs(%qi : tensor<300xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<300xf32>
  return %q : tensor<300xf32>
}

// -----

// No reduction.
// OFF-LABEL: @elementwise
// CHECK-LABEL: @elementwise
// CHECK: linalg.softmax
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @elementwise(%x: tensor<64x300xf32>, %v: tensor<64x300xf32>) -> tensor<64x300xf32> {
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  %de = tensor.empty() : tensor<64x300xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]} ins(%p, %v : tensor<64x300xf32>, tensor<64x300xf32>) outs(%de : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  return %d : tensor<64x300xf32>
}

// -----

// A softmax of rows that are divided by their sum.
// CHECK-LABEL: @behind
// CHECK-NOT: linalg.softmax
// CHECK: math.exp
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
func.func @behind(%x: tensor<64x300xf32>) -> tensor<64x300xf32> {
  %zero = arith.constant 0.0 : f32
  %re = tensor.empty() : tensor<64xf32>
  %zi = linalg.fill ins(%zero : f32) outs(%re : tensor<64xf32>) -> tensor<64xf32>
  %e = tensor.empty() : tensor<64x300xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%zi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %t : tensor<64x300xf32>, tensor<64xf32>) outs(%e : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.divf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %z = linalg.softmax dimension(1) ins(%y : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  return %z : tensor<64x300xf32>
}
