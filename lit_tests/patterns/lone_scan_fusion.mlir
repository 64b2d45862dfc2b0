// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=lone_scan_fusion | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=lone_scan_fusion | FileCheck %s
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=lone_scan_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=lone_scan_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=lone_scan_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: mlirfuse.pass = "lone_scan_fusion"

// WHY: function @alone
// WHY: lone_scan_fusion match 0: 1 op
// CHECK-LABEL: @alone
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[Y:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "lone_scan_fusion"
// CHECK: ins(%[[X]] :
// CHECK: return %[[Y]]
func.func @alone(%x: tensor<4x8xf32>, %e: tensor<4x8xf32>, %t: tensor<4xf32>) -> tensor<4x8xf32> {
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<4x8xf32>) outs(%e, %t : tensor<4x8xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<4x8xf32>, tensor<4xf32>
  return %s#0 : tensor<4x8xf32>
}

// -----

// The flip reads the scan at computed indices.
// CHECK-LABEL: @flipped
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[S:.*]]:2 = iree_linalg_ext.scan
// CHECK: tensor.extract %[[S]]#0
// CHECK: flow.return
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @flipped(%x: tensor<4x8xf32>, %t: tensor<4xf32>) -> tensor<4x8xf32> {
  %seven = arith.constant 7 : index
  %e = tensor.empty() : tensor<4x8xf32>
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<4x8xf32>) outs(%e, %t : tensor<4x8xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.mulf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<4x8xf32>, tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %seven, %j : index
    %v = tensor.extract %s#0[%i, %k] : tensor<4x8xf32>
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// WHY-LABEL: function @no_fusion_total
// WHY: the kernel cannot compute the total of a scan
// CHECK-LABEL: @no_fusion_total
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_total(%x: tensor<4x8xf32>, %e: tensor<4x8xf32>, %t: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<4x8xf32>) outs(%e, %t : tensor<4x8xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<4x8xf32>, tensor<4xf32>
  return %s#0, %s#1 : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// WHY-LABEL: function @no_fusion_dynamic
// WHY: results of dynamic sizes or of several shapes
// CHECK-LABEL: @no_fusion_dynamic
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_dynamic(%x: tensor<?x8xf32>, %e: tensor<?x8xf32>, %t: tensor<?xf32>) -> tensor<?x8xf32> {
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<?x8xf32>) outs(%e, %t : tensor<?x8xf32>, tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<?x8xf32>, tensor<?xf32>
  return %s#0 : tensor<?x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>

// The op that computes what a flip reads.
// CHECK-LABEL: @flip_of_computed
// CHECK: flow.dispatch.region
// CHECK: math.cos
// CHECK: tensor.extract
// CHECK: iree_linalg_ext.scan
// CHECK: flow.return
func.func @flip_of_computed(%x: tensor<4x8xf32>, %e: tensor<4x8xf32>, %t: tensor<4xf32>) -> tensor<4x8xf32> {
  %seven = arith.constant 7 : index
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = math.cos %a : f32
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %seven, %j : index
    %v = tensor.extract %c[%i, %k] : tensor<4x8xf32>
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%f : tensor<4x8xf32>) outs(%e, %t : tensor<4x8xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<4x8xf32>, tensor<4xf32>
  return %s#0 : tensor<4x8xf32>
}
