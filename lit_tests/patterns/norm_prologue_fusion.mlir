// RUN: %mlirfuse-opt %s --split-input-file --pipeline=softmax_fusion,norm_prologue_fusion | FileCheck %s

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#map = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sums = {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}

// Only the group reads the activation.
// CHECK-LABEL: @activation
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>
// CHECK-NOT: linalg.generic
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4xf32>) {{.*}}"norm_prologue_fusion"
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: math.tanh
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%[[G]] :
// CHECK: return %[[R]]
func.func @activation(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %g = linalg.generic #map ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.tanh %a : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %r = flow.dispatch.region -> (tensor<4xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "reduction_fusion"} {
    %s = linalg.generic #sums ins(%g : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = arith.addf %a, %o : f32
      linalg.yield %q : f32
    } -> tensor<4xf32>
    flow.return %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#map = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sums = {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}

// Another op reads it, too: it is written out anyway.
// CHECK-LABEL: @no_fusion_of_other_users
// CHECK-NOT: "norm_prologue_fusion"
func.func @no_fusion_of_other_users(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %g = linalg.generic #map ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.tanh %a : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %r = flow.dispatch.region -> (tensor<4xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "reduction_fusion"} {
    %s = linalg.generic #sums ins(%g : tensor<4x8xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %q = arith.addf %a, %o : f32
      linalg.yield %q : f32
    } -> tensor<4xf32>
    flow.return %s : tensor<4xf32>
  }
  return %r, %g : tensor<4xf32>, tensor<4x8xf32>
}
