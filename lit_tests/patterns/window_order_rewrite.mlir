// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --pipeline=window_order_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --pipeline=window_order_rewrite --disable-pass=window_order_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=window_order_rewrite | FileCheck %s --check-prefix=OFF

// The image is indexed by sums of other loops then; the result in its own order.
// CHECK-DAG: #[[I:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 + d3, d2 + d4)>
// CHECK-DAG: #[[F:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>
// CHECK-DAG: #[[O:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
// CHECK-LABEL: @depthwise
// CHECK: linalg.generic {indexing_maps = [#[[I]], #[[F]], #[[O]]], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
// OFF: affine_map<(d0, d1, d2, d3, d4) -> (d2, d0 + d3, d1 + d4)>
// OFF-LABEL: @depthwise
#i = affine_map<(h, w, c, y, x) -> (c, h + y, w + x)>
#f = affine_map<(h, w, c, y, x) -> (c, y, x)>
#o = affine_map<(h, w, c, y, x) -> (c, h, w)>
func.func @depthwise(%a: tensor<4x8x8xf32>, %b: tensor<4x3x3xf32>) -> tensor<4x6x6xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6x6xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x6x6xf32>) -> tensor<4x6x6xf32>
  %r = linalg.generic {indexing_maps = [#i, #f, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%a, %b : tensor<4x8x8xf32>, tensor<4x3x3xf32>) outs(%f : tensor<4x6x6xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x6x6xf32>
  return %r : tensor<4x6x6xf32>
}
