// RUN: %mlirfuse-opt %s --split-input-file --pipeline=shape_reshape | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=shape_reshape --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

// From: torch.relu(x).view(x.shape[0], -1), by mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @torch_view
// CHECK-NOT: arith.divui
// CHECK-NOT: tensor.reshape
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}} : tensor<?x3x5xf32> into tensor<?x15xf32>
util.func public @torch_view(%arg: !hal.buffer_view) -> tensor<?x15xf32> {
  %c15 = arith.constant 15 : i64
  %n = hal.buffer_view.dim<%arg : !hal.buffer_view>[0] : index
  %in = hal.tensor.import %arg "input0" : !hal.buffer_view -> tensor<?x3x5xf32>{%n}
  %x = iree_tensor_ext.compute_barrier.start %in : tensor<?x3x5xf32>{%n} -> tensor<?x3x5xf32>
  %i = arith.index_cast %n : index to i64
  %all = arith.muli %i, %c15 : i64
  %rest = arith.divui %all, %i : i64
  %s = tensor.from_elements %i, %rest : tensor<2xi64>
  %y = tensor.reshape %x(%s) : (tensor<?x3x5xf32>, tensor<2xi64>) -> tensor<?x15xf32>
  util.return %y : tensor<?x15xf32>
}

// -----

// The sizes come from a dispatch, for which the host would wait.
// CHECK-LABEL: @computed_in_a_dispatch
// CHECK-SAME: %[[X:.*]]: tensor<?x4x6xf16>
// CHECK-NOT: linalg.generic
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[X]], %{{.*}}
// CHECK-DAG: %[[C:.*]] = tensor.collapse_shape %[[X]] {{\[\[0\], \[1, 2\]\]}} : tensor<?x4x6xf16> into tensor<?x24xf16>
// CHECK-DAG: tensor.cast %[[C]] : tensor<?x24xf16> to tensor<?x?xf16>
// CHECK-DAG: arith.index_cast %[[N]] : index to i64
// CHECK-NOT: tensor.extract
// CHECK: return
#v = affine_map<(i) -> (i)>
func.func @computed_in_a_dispatch(%x: tensor<?x4x6xf16>) -> (tensor<?x?xf16>, index) {
  %c0 = arith.constant 0 : index
  %four = arith.constant 4 : i64
  %factors = arith.constant dense<[1, 6]> : tensor<2xi64>
  %n = tensor.dim %x, %c0 : tensor<?x4x6xf16>
  %i = arith.index_cast %n : index to i64
  %t = tensor.from_elements %i, %four : tensor<2xi64>
  %e = tensor.empty() : tensor<2xi64>
  %s = linalg.generic {indexing_maps = [#v, #v, #v], iterator_types = ["parallel"]} ins(%t, %factors : tensor<2xi64>, tensor<2xi64>) outs(%e : tensor<2xi64>) {
  ^bb0(%a: i64, %b: i64, %o: i64):
    %p = arith.muli %a, %b : i64
    linalg.yield %p : i64
  } -> tensor<2xi64>
  %y = tensor.reshape %x(%s) : (tensor<?x4x6xf16>, tensor<2xi64>) -> tensor<?x?xf16>
  %first = tensor.extract %s[%c0] : tensor<2xi64>
  %size = arith.index_cast %first : i64 to index
  return %y, %size : tensor<?x?xf16>, index
}

// -----

// Two dynamic sizes are split and merged; the ones between pass unchanged.
// CHECK-LABEL: @heads
// CHECK: tensor.expand_shape %{{.*}} {{\[\[0\], \[1\], \[2, 3\]\]}} output_shape [%{{.*}}, %{{.*}}, 4, 8] : tensor<?x?x32xbf16> into tensor<?x?x4x8xbf16>
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[0, 1\], \[2\]\]}} : tensor<?x?x32xbf16> into tensor<?x32xbf16>
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}} : tensor<?x4x6xf32> into tensor<?x24xf32>
// CHECK: tensor.expand_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}} output_shape [%{{.*}}, 8, 3] : tensor<?x24xf32> into tensor<?x8x3xf32>
func.func @heads(%x: tensor<?x?x32xbf16>, %z: tensor<?x4x6xf32>)
    -> (tensor<?x?x4x8xbf16>, tensor<?x32xbf16>, tensor<?x8x3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x32xbf16>
  %s = tensor.dim %x, %c1 : tensor<?x?x32xbf16>
  %four = tensor.from_elements %b, %s, %c4, %c8 : tensor<4xindex>
  %y = tensor.reshape %x(%four) : (tensor<?x?x32xbf16>, tensor<4xindex>) -> tensor<?x?x4x8xbf16>
  %rows = arith.muli %s, %b : index
  %two = tensor.from_elements %rows, %c32 : tensor<2xindex>
  %w = tensor.reshape %x(%two) : (tensor<?x?x32xbf16>, tensor<2xindex>) -> tensor<?x32xbf16>
  %n = tensor.dim %z, %c0 : tensor<?x4x6xf32>
  %three = tensor.from_elements %n, %c8, %c3 : tensor<3xindex>
  %u = tensor.reshape %z(%three) : (tensor<?x4x6xf32>, tensor<3xindex>) -> tensor<?x8x3xf32>
  return %y, %w, %u : tensor<?x?x4x8xbf16>, tensor<?x32xbf16>, tensor<?x8x3xf32>
}

// -----

// The size of an argument is not one of the tensor's.
// CHECK-LABEL: @no_rewrite_unproven
// CHECK-COUNT-2: tensor.reshape
// CHECK-NOT: _shape
// WHY: function @no_rewrite_unproven
// WHY: dynamic_shape (2)
// WHY: the numbers of elements are not proven equal
func.func @no_rewrite_unproven(%x: tensor<?x6xf32>, %n: index) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %d = tensor.dim %x, %c0 : tensor<?x6xf32>
  %s = tensor.from_elements %n, %c3 : tensor<2xindex>
  %y = tensor.reshape %x(%s) : (tensor<?x6xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  // Half of an odd number, twice, is less.
  %half = arith.divui %d, %c2 : index
  %c12 = arith.constant 12 : index
  %t = tensor.from_elements %half, %c12 : tensor<2xindex>
  %z = tensor.reshape %x(%t) : (tensor<?x6xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  return %y, %z : tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// The batch of the keys is counted by that of the queries.
// CHECK-LABEL: @batch_of_another_tensor
// CHECK: tensor.collapse_shape %{{.+}} {{\[\[}}0, 1], [2]] : tensor<?x3x8xf32> into tensor<?x8xf32>
func.func @batch_of_another_tensor(%q: tensor<?x3xf32>, %k: tensor<?x3x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c8 = arith.constant 8 : index
  %b = tensor.dim %q, %c0 : tensor<?x3xf32>
  %n = arith.muli %b, %c3 : index
  %s = tensor.from_elements %n, %c8 : tensor<2xindex>
  %y = tensor.reshape %k(%s) : (tensor<?x3x8xf32>, tensor<2xindex>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// An argument may be negative, and the wrapped value does not divide back.
// CHECK-LABEL: @no_rewrite_division_by_a_non_size
// CHECK: tensor.reshape
// WHY: function @no_rewrite_division_by_a_non_size
// WHY: dynamic_shape (1)
// WHY: the numbers of elements are not proven equal
func.func @no_rewrite_division_by_a_non_size(%x: tensor<?x6xf32>, %k: i64) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %six = arith.constant 6 : i64
  %d = tensor.dim %x, %c0 : tensor<?x6xf32>
  %n = arith.index_cast %d : index to i64
  %m = arith.muli %k, %six : i64
  %q = arith.divui %m, %k : i64
  %s = tensor.from_elements %n, %q : tensor<2xi64>
  %y = tensor.reshape %x(%s) : (tensor<?x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_narrow
// CHECK: tensor.reshape
// WHY: function @no_rewrite_narrow
// WHY: structure (1)
// WHY: the sizes are neither i64 nor index
func.func @no_rewrite_narrow(%x: tensor<?x6xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %six = arith.constant 6 : i32
  %d = tensor.dim %x, %c0 : tensor<?x6xf32>
  %n = arith.index_cast %d : index to i32
  %s = tensor.from_elements %n, %six : tensor<2xi32>
  %y = tensor.reshape %x(%s) : (tensor<?x6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// Sizes that the caller gives in a tensor, or that a table gives.
// CHECK-LABEL: @no_rewrite_data
// CHECK: tensor.reshape
// CHECK: tensor.extract
// WHY: function @no_rewrite_data
// WHY: structure (1)
// WHY: a size of the result is not arithmetic on sizes
func.func @no_rewrite_data(%x: tensor<?x6xf32>, %s: tensor<2xi64>) -> (tensor<?x?xf32>, i64) {
  %c1 = arith.constant 1 : index
  %y = tensor.reshape %x(%s) : (tensor<?x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %i = tensor.extract %s[%c1] : tensor<2xi64>
  return %y, %i : tensor<?x?xf32>, i64
}
