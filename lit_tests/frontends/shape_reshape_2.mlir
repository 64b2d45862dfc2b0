// RUN: %mlirfuse-opt %s --split-input-file --pipeline=shape_reshape_2 | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/shape_reshape_2.mlir
// The frontends fold known sizes: no constant target is left for the pass.

// From torch, x: f32[8, 4, 6]
//   x.reshape(x.shape[0], -1)
// CHECK-LABEL: @torch
// CHECK-NOT: tensor.reshape
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}}
// CHECK-NOT: tensor.reshape
util.func public @torch(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x4x6xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x4x6xf32> -> tensor<8x4x6xf32>
  %2 = iree_tensor_ext.compute_barrier.end %1 : tensor<8x4x6xf32> -> tensor<8x4x6xf32>
  %collapsed = tensor.collapse_shape %2 [[0], [1, 2]] : tensor<8x4x6xf32> into tensor<8x24xf32>
  %3 = hal.tensor.export %collapsed "output0" : tensor<8x24xf32> -> !hal.buffer_view
  util.return %3 : !hal.buffer_view
}

// -----

// From jax, x: f32[8, 4, 6]
//   x.reshape(x.shape[0], -1)
// CHECK-LABEL: @jax
// CHECK-NOT: tensor.reshape
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}}
// CHECK-NOT: tensor.reshape
util.func public @jax(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x4x6xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x4x6xf32> -> tensor<8x4x6xf32>
  %2 = iree_tensor_ext.compute_barrier.end %1 : tensor<8x4x6xf32> -> tensor<8x4x6xf32>
  %collapsed = tensor.collapse_shape %2 [[0], [1, 2]] : tensor<8x4x6xf32> into tensor<8x24xf32>
  %3 = hal.tensor.export %collapsed "output0" : tensor<8x24xf32> -> !hal.buffer_view
  util.return %3 : !hal.buffer_view
}

// -----

// From onnx 17, x: f32[8, 4, 6] -> y: f32[8, 24]
//   a = Constant<value_ints=[2, 8]>() b = Constant<value_ints=[4, 3]>() t = Mul(a, b) y = Reshape(x, t)
// CHECK-LABEL: @onnx
// CHECK-NOT: tensor.reshape
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}}
// CHECK-NOT: tensor.reshape
util.func public @onnx(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x4x6xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<8x4x6xf32> -> tensor<8x4x6xf32>
  %2 = iree_tensor_ext.compute_barrier.end %1 : tensor<8x4x6xf32> -> tensor<8x4x6xf32>
  %collapsed = tensor.collapse_shape %2 [[0], [1, 2]] : tensor<8x4x6xf32> into tensor<8x24xf32>
  %3 = hal.tensor.export %collapsed "output0" : tensor<8x24xf32> -> !hal.buffer_view
  util.return %3 : !hal.buffer_view
}
