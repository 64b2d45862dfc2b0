// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=scatter_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=scatter_triton_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=scatter_triton_kernel | FileCheck %s --check-prefix=OFF
// OFF-NOT: hal.dispatch.extern

// CHECK: #[[L:.*]] = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>
// CHECK-LABEL: @sum
// CHECK-SAME: %[[U:[a-z0-9]+]]: tensor<500x64xf32>, %[[I:[a-z0-9]+]]: tensor<500xi64>, %[[X:[a-z0-9]+]]: tensor<90x64xf32>
// CHECK: hal.dispatch.extern "scatter_kernel"(%[[U]], %[[I]], %[[X]]) : (tensor<500x64xf32>, tensor<500xi64>, tensor<90x64xf32>) -> %[[X]]
// CHECK: layout(#[[L]])
util.func public @sum(%u: tensor<500x64xf32>, %i: tensor<500xi64>, %x: tensor<90x64xf32>) -> tensor<90x64xf32> {
  %y = flow.dispatch.region -> (tensor<90x64xf32>) {
    %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<500x64xf32>, tensor<500xi64>) outs(%x : tensor<90x64xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<90x64xf32>
    flow.return %s : tensor<90x64xf32>
  }
  util.return %y : tensor<90x64xf32>
}

// -----

// The fill of the destination stays an op of its own, before the kernel.
// CHECK-LABEL: @product_of_ones
// CHECK: %[[F:.*]] = linalg.fill
// CHECK: hal.dispatch.extern "scatter_kernel"({{.*}}, %[[F]]) : {{.*}} -> %[[F]]
util.func public @product_of_ones(%u: tensor<500xf32>, %i: tensor<500xi32>) -> tensor<90xf32> {
  %one = arith.constant 1.0 : f32
  %y = flow.dispatch.region -> (tensor<90xf32>) {
    %e = tensor.empty() : tensor<90xf32>
    %f = linalg.fill ins(%one : f32) outs(%e : tensor<90xf32>) -> tensor<90xf32>
    %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<500xf32>, tensor<500xi32>) outs(%f : tensor<90xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.mulf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<90xf32>
    flow.return %s : tensor<90xf32>
  }
  util.return %y : tensor<90xf32>
}

// -----

// CHECK-LABEL: @no_kernel_of_a_narrow_sum
// CHECK-NOT: hal.dispatch.extern
util.func public @no_kernel_of_a_narrow_sum(%u: tensor<500xf16>, %i: tensor<500xi32>, %x: tensor<90xf16>) -> tensor<90xf16> {
  %y = flow.dispatch.region -> (tensor<90xf16>) {
    %s = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<500xf16>, tensor<500xi32>) outs(%x : tensor<90xf16>) {
    ^bb0(%a: f16, %b: f16):
      %r = arith.addf %a, %b : f16
      iree_linalg_ext.yield %r : f16
    } -> tensor<90xf16>
    flow.return %s : tensor<90xf16>
  }
  util.return %y : tensor<90xf16>
}
