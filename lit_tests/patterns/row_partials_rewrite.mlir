// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=row_partials_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --enable-feature=kernels --pipeline=row_partials_rewrite | FileCheck %s --check-prefix=OFF

// OFF-LABEL: @divergence
// OFF-NOT: tensor<64xf32>
// CHECK-DAG: #[[ALL:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[ROW:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: @divergence
// CHECK: %[[P:.+]] = linalg.softmax
// CHECK: %[[Z:.+]] = linalg.fill {{.*}} -> tensor<64xf32>
// CHECK: %[[R:.+]] = linalg.generic {indexing_maps = [#[[ALL]], #[[ROW]]], iterator_types = ["parallel", "reduction"]} ins(%[[P]] : tensor<64x300xf32>) outs(%[[Z]] :
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: %[[T:.+]] = linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%[[R]] : tensor<64xf32>) outs(%{{.+}} : tensor<f32>)
// CHECK-NOT: arith.mulf
// CHECK: return %[[T]]
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @divergence(%x: tensor<64x300xf32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<f32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<f32>) -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction", "reduction"]} ins(%p : tensor<64x300xf32>) outs(%qi : tensor<f32>) {
  ^bb0(%i: f32, %o: f32):
    %w = arith.mulf %i, %i : f32
    %r = arith.addf %w, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %q : tensor<f32>
}

// -----

// The largest element of all is no sum.
// OFF-LABEL: @largest
// CHECK-LABEL: @largest
// CHECK-NOT: tensor<64xf32>
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @largest(%x: tensor<64x300xf32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<f32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<f32>) -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction", "reduction"]} ins(%p : tensor<64x300xf32>) outs(%qi : tensor<f32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %q : tensor<f32>
}

// -----

// The sum begins with another number, which each row would add.
// OFF-LABEL: @from_one
// CHECK-LABEL: @from_one
// CHECK-NOT: tensor<64xf32>
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @from_one(%x: tensor<64x300xf32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  %qc = arith.constant 1.0 : f32
  %qe = tensor.empty() : tensor<f32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<f32>) -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction", "reduction"]} ins(%p : tensor<64x300xf32>) outs(%qi : tensor<f32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %q : tensor<f32>
}

// -----

// Nothing before the sum looks at whole rows.
// OFF-LABEL: @no_norm
// CHECK-LABEL: @no_norm
// CHECK-NOT: tensor<64xf32>
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @no_norm(%x: tensor<64x300xf32>) -> tensor<f32> {
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<f32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<f32>) -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%qi : tensor<f32>) {
  ^bb0(%i: f32, %o: f32):
    %w = arith.mulf %i, %i : f32
    %r = arith.addf %w, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %q : tensor<f32>
}

// -----

// Rows alone are summed.
// OFF-LABEL: @rows
// CHECK-LABEL: @rows
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @rows(%x: tensor<64x300xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<64xf32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<64xf32>) -> tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<64x300xf32>) outs(%qi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %q : tensor<64xf32>
}

// -----

// The softmax is of a row that all rows share.
// OFF-LABEL: @shared_row
// CHECK-LABEL: @shared_row
// CHECK: linalg.softmax
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "reduction"]}
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @shared_row(%x: tensor<64x300xf32>, %v: tensor<300xf32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<300xf32>
  %p = linalg.softmax dimension(0) ins(%v : tensor<300xf32>) outs(%e : tensor<300xf32>) -> tensor<300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<f32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<f32>) -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#all, #column, #none], iterator_types = ["reduction", "reduction"]} ins(%x, %p : tensor<64x300xf32>, tensor<300xf32>) outs(%qi : tensor<f32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %w = arith.maximumf %i, %j : f32
    %r = arith.addf %w, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %q : tensor<f32>
}

// -----

// The number of rows is not known.
// OFF-LABEL: @dynamic
// CHECK-LABEL: @dynamic
// CHECK: linalg.softmax
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "reduction"]}
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @dynamic(%x: tensor<?x300xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x300xf32>
  %e = tensor.empty(%n) : tensor<?x300xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<?x300xf32>) outs(%e : tensor<?x300xf32>) -> tensor<?x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<f32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<f32>) -> tensor<f32>
  %q = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction", "reduction"]} ins(%p : tensor<?x300xf32>) outs(%qi : tensor<f32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %q : tensor<f32>
}
