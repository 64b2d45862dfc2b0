// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v4 --pipeline=weight_packing_rewrite --disable-feature=kernels | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/weight_packing_rewrite.mlir

// From jax, x: f32[16, 8]
//   x @ (jnp.arange(512, dtype=jnp.float32).reshape(8, 64) / 7)
// CHECK: util.global.store %{{.*}}, @packed_weight : tensor<2x8x32xf32>
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: %[[P:.*]] = util.global.load immutable @packed_weight
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[P]] :
// CHECK: tensor.collapse_shape %[[R]] {{.*}} into tensor<16x64xf32>
util.global private @__hoisted_tensor_8x64xf32 = dense_resource<__elided__> : tensor<8x64xf32>
util.func public @jax(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %cst = arith.constant 0.000000e+00 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<16x8xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<16x8xf32> -> tensor<16x8xf32>
  %__hoisted_tensor_8x64xf32 = util.global.load immutable @__hoisted_tensor_8x64xf32 : tensor<8x64xf32>
  %2 = tensor.empty() : tensor<16x64xf32>
  %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %4 = linalg.matmul ins(%1, %__hoisted_tensor_8x64xf32 : tensor<16x8xf32>, tensor<8x64xf32>) outs(%3 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %5 = iree_tensor_ext.compute_barrier.end %4 : tensor<16x64xf32> -> tensor<16x64xf32>
  %6 = hal.tensor.export %5 "output0" : tensor<16x64xf32> -> !hal.buffer_view
  util.return %6 : !hal.buffer_view
}
