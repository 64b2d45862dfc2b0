// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=scan_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=scan_triton_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=scan_triton_kernel | FileCheck %s --check-prefix=OFF
// OFF-NOT: hal.dispatch.extern

// CHECK-LABEL: @rows
// CHECK-SAME: %[[X:.*]]: tensor<4096x512xf32>
// CHECK: hal.dispatch.extern "scan_kernel"(%[[X]]) : (tensor<4096x512xf32>) -> tensor<4096x512xf32>
util.func public @rows(%x: tensor<4096x512xf32>, %t: tensor<4096xf32>) -> tensor<4096x512xf32> {
  %y = flow.dispatch.region -> (tensor<4096x512xf32>) {
    %e = tensor.empty() : tensor<4096x512xf32>
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<4096x512xf32>) outs(%e, %t : tensor<4096x512xf32>, tensor<4096xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<4096x512xf32>, tensor<4096xf32>
    flow.return %s#0 : tensor<4096x512xf32>
  }
  util.return %y : tensor<4096x512xf32>
}

// -----

// One long scan: the totals of its segments come first.
// CHECK-LABEL: @one_row
// CHECK-SAME: %[[X:.*]]: tensor<1048576xf32>
// CHECK: %[[S:.*]] = hal.dispatch.extern "scan_totals_kernel"(%[[X]])
// CHECK: hal.dispatch.extern "scan_kernel"(%[[S]], %[[X]])
util.func public @one_row(%x: tensor<1048576xf32>, %t: tensor<f32>) -> tensor<1048576xf32> {
  %y = flow.dispatch.region -> (tensor<1048576xf32>) {
    %e = tensor.empty() : tensor<1048576xf32>
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(0) inclusive(true) ins(%x : tensor<1048576xf32>) outs(%e, %t : tensor<1048576xf32>, tensor<f32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<1048576xf32>, tensor<f32>
    flow.return %s#0 : tensor<1048576xf32>
  }
  util.return %y : tensor<1048576xf32>
}
