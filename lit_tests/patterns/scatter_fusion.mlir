// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=scatter_widening_rewrite,scatter_fusion,scatter_triton_kernel | FileCheck %s --check-prefix=KERNEL %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=scatter_fusion | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=scatter_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=scatter_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=scatter_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: mlirfuse.pass = "scatter_fusion"

// WHY: function @alone
// WHY: scatter_fusion match 0: 1 op
// CHECK-LABEL: @alone
// CHECK-SAME: %[[U:[a-z0-9]+]]: tensor<5x8xf32>
// CHECK: %[[Y:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "scatter_fusion"
// CHECK: iree_linalg_ext.scatter {{.*}} ins(%[[U]],
// CHECK: return %[[Y]]
func.func @alone(%u: tensor<5x8xf32>, %i: tensor<5xi64>, %x: tensor<9x8xf32>) -> tensor<9x8xf32> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<5x8xf32>, tensor<5xi64>) outs(%x : tensor<9x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<9x8xf32>
  return %y : tensor<9x8xf32>
}

// -----

// The coordinates are columns of one tensor, as PyTorch's `scatter_add` is imported.
// KERNEL-LABEL: @computed
// KERNEL-SAME: %[[U:[a-z0-9]+]]: tensor<4x3xf32>, %[[I:[a-z0-9]+]]: tensor<4x3xi64>, %[[X:[a-z0-9]+]]: tensor<4x7xf32>
// KERNEL: hal.dispatch.extern "scatter_kernel"(%[[U]], %{{.*}}, %[[X]]) : {{.*}} -> %[[X]]
// CHECK-LABEL: @computed
// CHECK-SAME: %[[U:[a-z0-9]+]]: tensor<4x3xf32>, %[[I:[a-z0-9]+]]: tensor<4x3xi64>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%[[U]]
// CHECK: math.exp
// CHECK: %[[V:.*]] = tensor.collapse_shape
// CHECK: linalg.index 0
// CHECK: tensor.insert_slice
// CHECK: %[[C:.*]] = tensor.insert_slice
// CHECK: iree_linalg_ext.scatter {{.*}} ins(%[[V]], %[[C]] :
// CHECK: flow.return
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @computed(%u: tensor<4x3xf32>, %i: tensor<4x3xi64>, %x: tensor<4x7xf32>) -> tensor<4x7xf32> {
  %ef = tensor.empty() : tensor<4x3xf32>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<4x3xf32>) outs(%ef : tensor<4x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  %flat = tensor.collapse_shape %v [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>
  %ei = tensor.empty() : tensor<4x3xi64>
  %rows = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%ei : tensor<4x3xi64>) {
  ^bb0(%o: i64):
    %n = linalg.index 0 : index
    %r = arith.index_cast %n : index to i64
    linalg.yield %r : i64
  } -> tensor<4x3xi64>
  %row = tensor.collapse_shape %rows [[0, 1]] : tensor<4x3xi64> into tensor<12xi64>
  %column = tensor.collapse_shape %i [[0, 1]] : tensor<4x3xi64> into tensor<12xi64>
  %e = tensor.empty() : tensor<12x2xi64>
  %f = tensor.insert_slice %row into %e[0, 0] [12, 1] [1, 1] : tensor<12xi64> into tensor<12x2xi64>
  %c = tensor.insert_slice %column into %f[0, 1] [12, 1] [1, 1] : tensor<12xi64> into tensor<12x2xi64>
  %y = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(false) ins(%flat, %c : tensor<12xf32>, tensor<12x2xi64>) outs(%x : tensor<4x7xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<4x7xf32>
  return %y : tensor<4x7xf32>
}

// -----

// Two scatters read the indices: each computes them.
// CHECK-LABEL: @shared_indices
// CHECK-SAME: %[[I:[a-z0-9]+]]: tensor<5xi32>
// CHECK: flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%[[I]]
// CHECK: iree_linalg_ext.scatter
// CHECK: flow.return
// CHECK: flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%[[I]]
// CHECK: iree_linalg_ext.scatter
#row = affine_map<(r) -> (r)>
func.func @shared_indices(%u: tensor<5x8xf32>, %i: tensor<5xi32>, %x: tensor<9x8xf32>, %z: tensor<9x8xf32>) -> (tensor<9x8xf32>, tensor<9x8xf32>) {
  %e = tensor.empty() : tensor<5xi64>
  %j = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%i : tensor<5xi32>) outs(%e : tensor<5xi64>) {
  ^bb0(%a: i32, %o: i64):
    %r = arith.extsi %a : i32 to i64
    linalg.yield %r : i64
  } -> tensor<5xi64>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %j : tensor<5x8xf32>, tensor<5xi64>) outs(%x : tensor<9x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<9x8xf32>
  %w = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %j : tensor<5x8xf32>, tensor<5xi64>) outs(%z : tensor<9x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<9x8xf32>
  return %y, %w : tensor<9x8xf32>, tensor<9x8xf32>
}

// -----

// Updates computed from the destination are not computed while it changes.
// CHECK-LABEL: @updates_of_the_destination
// CHECK: %[[V:.*]] = linalg.generic
// CHECK: flow.dispatch.region
// CHECK-NOT: linalg.generic
// CHECK: iree_linalg_ext.scatter {{.*}} ins(%[[V]],
#id = affine_map<(r, c) -> (r, c)>
func.func @updates_of_the_destination(%x: tensor<9x8xf32>, %i: tensor<9xi64>) -> tensor<9x8xf32> {
  %e = tensor.empty() : tensor<9x8xf32>
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<9x8xf32>) outs(%e : tensor<9x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<9x8xf32>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%v, %i : tensor<9x8xf32>, tensor<9xi64>) outs(%x : tensor<9x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<9x8xf32>
  return %y : tensor<9x8xf32>
}

// -----

// WHY-LABEL: function @no_fusion_destination_is_update
// WHY: the updates or indices read the destination in place
// CHECK-LABEL: @no_fusion_destination_is_update
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_destination_is_update(%x: tensor<9x8xf32>, %i: tensor<9xi64>) -> tensor<9x8xf32> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%x, %i : tensor<9x8xf32>, tensor<9xi64>) outs(%x : tensor<9x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<9x8xf32>
  return %y : tensor<9x8xf32>
}

// -----

// WHY-LABEL: function @no_fusion_narrow_sum
// WHY: no atomic ops on f16
// CHECK-LABEL: @no_fusion_narrow_sum
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_narrow_sum(%u: tensor<5x8xf16>, %i: tensor<5xi64>, %x: tensor<9x8xf16>) -> tensor<9x8xf16> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<5x8xf16>, tensor<5xi64>) outs(%x : tensor<9x8xf16>) {
  ^bb0(%a: f16, %b: f16):
    %r = arith.addf %a, %b : f16
    iree_linalg_ext.yield %r : f16
  } -> tensor<9x8xf16>
  return %y : tensor<9x8xf16>
}

// -----

// WHY-LABEL: function @no_fusion_dynamic
// WHY: the kernel takes static sizes
// CHECK-LABEL: @no_fusion_dynamic
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_dynamic(%u: tensor<?x8xf32>, %i: tensor<?xi64>, %x: tensor<9x8xf32>) -> tensor<9x8xf32> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<?x8xf32>, tensor<?xi64>) outs(%x : tensor<9x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<9x8xf32>
  return %y : tensor<9x8xf32>
}
