// RUN: %mlirfuse-opt %s --split-input-file --pipeline=contracted_loops_rewrite | FileCheck %s

#a = affine_map<(m, n, k, l) -> (m, k, l)>
#b = affine_map<(m, n, k, l) -> (k, l, n)>
#y = affine_map<(m, n, k, l) -> (m, n)>

// In the same order, and together: views.
// CHECK-LABEL: @same_order
// CHECK-SAME: %[[A:.*]]: tensor<4x2x3xf32>, %[[B:.*]]: tensor<2x3x5xf32>
// CHECK-DAG: %[[X:.*]] = tensor.collapse_shape %[[A]] {{\[\[}}0], [1, 2]] : tensor<4x2x3xf32> into tensor<4x6xf32>
// CHECK-DAG: %[[W:.*]] = tensor.collapse_shape %[[B]] {{\[\[}}0, 1], [2]] : tensor<2x3x5xf32> into tensor<6x5xf32>
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]{{.*}} ins(%[[X]], %[[W]] :
func.func @same_order(%a: tensor<4x2x3xf32>, %b: tensor<2x3x5xf32>) -> tensor<4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x5xf32>) -> tensor<4x5xf32>
  %y = linalg.generic {indexing_maps = [#a, #b, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%a, %b : tensor<4x2x3xf32>, tensor<2x3x5xf32>) outs(%f : tensor<4x5xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

#a = affine_map<(m, k, l) -> (m, k, l)>
#b = affine_map<(m, k, l) -> (l, k)>
#y = affine_map<(m, k, l) -> (m)>

// In another order: the smaller operand is transposed.
// CHECK-LABEL: @other_order
// CHECK-SAME: %[[A:.*]]: tensor<4x2x3xf32>, %[[B:.*]]: tensor<3x2xf32>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[B]] : tensor<3x2xf32>) outs({{.*}} : tensor<2x3xf32>)
// CHECK: %[[W:.*]] = tensor.collapse_shape %[[T]] {{\[\[}}0, 1]]
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]{{.*}} ins(%{{.*}}, %[[W]] : tensor<4x6xf32>, tensor<6xf32>)
func.func @other_order(%a: tensor<4x2x3xf32>, %b: tensor<3x2xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#a, #b, #y], iterator_types = ["parallel", "reduction", "reduction"]} ins(%a, %b : tensor<4x2x3xf32>, tensor<3x2xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#a = affine_map<(m, k) -> (m, k)>
#b = affine_map<(m, k) -> (k)>
#y = affine_map<(m, k) -> (m)>

// CHECK-LABEL: @no_rewrite_of_one_loop
// CHECK-NOT: tensor.collapse_shape
func.func @no_rewrite_of_one_loop(%a: tensor<4x6xf32>, %b: tensor<6xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#a, #b, #y], iterator_types = ["parallel", "reduction"]} ins(%a, %b : tensor<4x6xf32>, tensor<6xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
