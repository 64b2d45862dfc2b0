// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=reduced_row_fusion | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --enable-feature=kernels --pipeline=reduced_row_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: mlirfuse.pass = "reduced_row_fusion"

// The squares of a row around its mean, and not the sum of them all.
// CHECK-LABEL: @squares_around_mean
// CHECK-SAME: %[[X:.*]]: tensor<64x300xf32>
// CHECK: %[[Y:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "reduced_row_fusion"
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[S]] :
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[D]] :
// CHECK: flow.return %[[Q]]
// CHECK: return %[[Y]]
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @squares_around_mean(%x: tensor<64x300xf32>) -> tensor<64xf32> {
  %sc = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<64xf32>
  %si = linalg.fill ins(%sc : f32) outs(%se : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%si : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %de = tensor.empty() : tensor<64x300xf32>
  %d = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x300xf32>, tensor<64xf32>) outs(%de : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<64xf32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<64xf32>) -> tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<64x300xf32>) outs(%qi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %w = arith.mulf %i, %i : f32
    %r = arith.addf %w, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %q : tensor<64xf32>
}

// -----

// An element of the row reads the second sum: a norm.
// CHECK-LABEL: @norm
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @norm(%x: tensor<64x300xf32>) -> tensor<64x300xf32> {
  %sc = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<64xf32>
  %si = linalg.fill ins(%sc : f32) outs(%se : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%si : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %de = tensor.empty() : tensor<64x300xf32>
  %d = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x300xf32>, tensor<64xf32>) outs(%de : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<64xf32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<64xf32>) -> tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<64x300xf32>) outs(%qi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %w = arith.mulf %i, %i : f32
    %r = arith.addf %w, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %ye = tensor.empty() : tensor<64x300xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%d, %q : tensor<64x300xf32>, tensor<64xf32>) outs(%ye : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.divf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  return %y : tensor<64x300xf32>
}

// -----

// The first sum is over the other dimension.
// CHECK-LABEL: @other_dimension
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @other_dimension(%x: tensor<64x300xf32>) -> tensor<64xf32> {
  %sc = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<300xf32>
  %si = linalg.fill ins(%sc : f32) outs(%se : tensor<300xf32>) -> tensor<300xf32>
  %s = linalg.generic {indexing_maps = [#all, #column], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<64x300xf32>) outs(%si : tensor<300xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<300xf32>
  %de = tensor.empty() : tensor<64x300xf32>
  %d = linalg.generic {indexing_maps = [#all, #column, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x300xf32>, tensor<300xf32>) outs(%de : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<64xf32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<64xf32>) -> tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<64x300xf32>) outs(%qi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %w = arith.mulf %i, %i : f32
    %r = arith.addf %w, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %q : tensor<64xf32>
}

// -----

// One sum alone.
// CHECK-LABEL: @one_sum
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @one_sum(%x: tensor<64x300xf32>) -> tensor<64xf32> {
  %qc = arith.constant 0.0 : f32
  %qe = tensor.empty() : tensor<64xf32>
  %qi = linalg.fill ins(%qc : f32) outs(%qe : tensor<64xf32>) -> tensor<64xf32>
  %q = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%qi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %w = arith.mulf %i, %i : f32
    %r = arith.addf %w, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %q : tensor<64xf32>
}

// -----

// Two sums of one tensor do not wait for each other.
// CHECK-LABEL: @siblings
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @siblings(%x: tensor<64x300xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %sc = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<64xf32>
  %si = linalg.fill ins(%sc : f32) outs(%se : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%si : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %tc = arith.constant 0.0 : f32
  %te = tensor.empty() : tensor<64xf32>
  %ti = linalg.fill ins(%tc : f32) outs(%te : tensor<64xf32>) -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%ti : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %s, %t : tensor<64xf32>, tensor<64xf32>
}

// -----

// No kernel has the first reduction.
// CHECK-LABEL: @unknown
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
#column = affine_map<(n, c) -> (c)>
#none = affine_map<(n, c) -> ()>
func.func @unknown(%x: tensor<64x300xf32>) -> tensor<64xf32> {
  %sc = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<64xf32>
  %si = linalg.fill ins(%sc : f32) outs(%se : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%si : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.subf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %de = tensor.empty() : tensor<64x300xf32>
  %d = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x300xf32>, tensor<64xf32>) outs(%de : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
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

// A softmax's gradient reads its rows once more: all of them stay in registers.
// CHECK-LABEL: @gradient
// CHECK: flow.dispatch.region {{.*}}mlirfuse.pass = "reduced_row_fusion"
// CHECK-COUNT-7: linalg.generic
// CHECK: flow.return
// CHECK-NOT: linalg.generic
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
func.func @gradient(%x: tensor<64x300xf32>, %g: tensor<64x300xf32>) -> tensor<64x300xf32> {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %re = tensor.empty() : tensor<64xf32>
  %mi = linalg.fill ins(%low : f32) outs(%re : tensor<64xf32>) -> tensor<64xf32>
  %zi = linalg.fill ins(%zero : f32) outs(%re : tensor<64xf32>) -> tensor<64xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x300xf32>) outs(%mi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %e = tensor.empty() : tensor<64x300xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<64x300xf32>, tensor<64xf32>) outs(%e : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %d = arith.subf %i, %j : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<64x300xf32>) outs(%zi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%p, %t : tensor<64x300xf32>, tensor<64xf32>) outs(%e : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.divf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %q = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]} ins(%y, %g : tensor<64x300xf32>, tensor<64x300xf32>) outs(%e : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%q : tensor<64x300xf32>) outs(%zi : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %z = linalg.generic {indexing_maps = [#all, #all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%y, %g, %s : tensor<64x300xf32>, tensor<64x300xf32>, tensor<64xf32>) outs(%e : tensor<64x300xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %d = arith.subf %j, %k : f32
    %r = arith.mulf %i, %d : f32
    linalg.yield %r : f32
  } -> tensor<64x300xf32>
  return %z : tensor<64x300xf32>
}
