// The init of a group's op is a reshape of an empty tensor with dynamic sizes: the region's size is
// their product, computed outside it.
// RUN: %mlirfuse-opt %s --pipeline=elementwise_fusion | FileCheck %s

// CHECK-LABEL: @merged
// CHECK-SAME: %[[X:.*]]: tensor<?x16xf32>, %[[B:.*]]: index
// CHECK: %[[FOUR:.*]] = arith.constant 4 : index
// CHECK: %[[M:.*]] = arith.muli %[[B]], %[[FOUR]] : index
// CHECK: flow.dispatch.region -> (tensor<?x16xf32>{%[[M]]})
#mn = affine_map<(m, n) -> (m, n)>
func.func @merged(%x: tensor<?x16xf32>, %b: index) -> tensor<?x16xf32> {
  %e3 = tensor.empty(%b) : tensor<?x4x16xf32>
  %e = tensor.collapse_shape %e3 [[0, 1], [2]] : tensor<?x4x16xf32> into tensor<?x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<?x16xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.negf %i : f32
    linalg.yield %s : f32
  } -> tensor<?x16xf32>
  return %q : tensor<?x16xf32>
}
