// RUN: %mlirfuse-opt %s %pass --pipeline=squared_relu_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s %pass --pipeline=squared_relu_fusion --disable-pass=squared-relu-fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s %pass --pipeline='squared_relu_fusion{min_elements=129}' --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=SMALL
// RUN: %mlirfuse-opt %s %pass --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %pass --list-passes | FileCheck %s --check-prefix=LIST

// LIST: squared_relu_fusion {{ *}}exact
// LIST-NEXT: The square of a ReLU in one dispatch
// LIST-NEXT: options: min_elements=0
// SMALL: not_profitable
// SMALL: squared_relu_fusion
// SMALL: 128 elements
// WHY: function @squared
// WHY: squared_relu_fusion match 0: 2 ops
// WHY: function @no_fusion_other_bound
// WHY: squared_relu_fusion: linalg.generic
// WHY: maximum with 1.0, not with 0

#m = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>

// CHECK-LABEL: @squared
// CHECK-SAME: %[[X:.*]]: tensor<8x16xf32>
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK-SAME: mlirfuse.pass = "squared_relu_fusion"
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[R]]
// CHECK: flow.return %[[S]]
// CHECK: return %[[G]]
// OFF-LABEL: @squared
// OFF-NOT: flow.dispatch.region
func.func @squared(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.maximumf %a, %zero : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// CHECK-LABEL: @no_fusion_other_bound
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_other_bound(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.maximumf %a, %one : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// CHECK-LABEL: @no_fusion_transposed
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_transposed(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %r = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.maximumf %a, %zero : f32
    linalg.yield %b : f32
  } -> tensor<8x8xf32>
  %y = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %a, %a : f32
    linalg.yield %b : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
