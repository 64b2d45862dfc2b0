// RUN: %mlirfuse-opt %s --split-input-file --pipeline=split_concat_fusion | FileCheck %s
// By: python lit_tests/frontends/Inputs/write.py lit_tests/frontends/split_concat_fusion.mlir

// From jax, x: bf16[4, 8]
//   jnp.concatenate(jnp.split(x, 2, 0), 1)
// CHECK-LABEL: @jax
// CHECK: %[[X:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<2x2x8xbf16>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[E]] :
// CHECK: %[[Y:.*]] = tensor.collapse_shape %[[T]] {{.*}} into tensor<2x16xbf16>
// CHECK: compute_barrier.end %[[Y]] :
util.func public @jax(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<4x8xbf16>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<4x8xbf16> -> tensor<4x8xbf16>
  %extracted_slice = tensor.extract_slice %1[0, 0] [2, 8] [1, 1] : tensor<4x8xbf16> to tensor<2x8xbf16>
  %extracted_slice_0 = tensor.extract_slice %1[2, 0] [2, 8] [1, 1] : tensor<4x8xbf16> to tensor<2x8xbf16>
  %2 = tensor.empty() : tensor<2x16xbf16>
  %inserted_slice = tensor.insert_slice %extracted_slice into %2[0, 0] [2, 8] [1, 1] : tensor<2x8xbf16> into tensor<2x16xbf16>
  %inserted_slice_1 = tensor.insert_slice %extracted_slice_0 into %inserted_slice[0, 8] [2, 8] [1, 1] : tensor<2x8xbf16> into tensor<2x16xbf16>
  %3 = iree_tensor_ext.compute_barrier.end %inserted_slice_1 : tensor<2x16xbf16> -> tensor<2x16xbf16>
  %4 = hal.tensor.export %3 "output0" : tensor<2x16xbf16> -> !hal.buffer_view
  util.return %4 : !hal.buffer_view
}
