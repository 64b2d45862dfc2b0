// RUN: %mlirfuse-opt %s --split-input-file --pipeline=shape_reshape | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/shape_reshape.mlir
// JAX knows the sizes when it traces, symbolic ones too: there is nothing to find. Where they do not
// divide, jax.export writes a `stablehlo.dynamic_reshape`, for which IREE has no lowering.

// From jax, x: f32[?, 4, 6]
//   x.reshape(x.shape[0], -1)
// CHECK-LABEL: @jax
// CHECK-NOT: tensor.reshape
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}}
// CHECK-NOT: tensor.reshape
util.func public @jax(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[0] : index
  %1 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<?x4x6xf32>{%0}
  %2 = iree_tensor_ext.compute_barrier.start %1 : tensor<?x4x6xf32>{%0} -> tensor<?x4x6xf32>
  %3 = iree_tensor_ext.compute_barrier.end %2 : tensor<?x4x6xf32>{%0} -> tensor<?x4x6xf32>
  %collapsed = tensor.collapse_shape %3 [[0], [1, 2]] : tensor<?x4x6xf32> into tensor<?x24xf32>
  %4 = hal.tensor.export %collapsed "output0" : tensor<?x24xf32>{%0} -> !hal.buffer_view
  util.return %4 : !hal.buffer_view
}
