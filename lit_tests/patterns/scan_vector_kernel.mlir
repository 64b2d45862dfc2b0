// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=scan_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=scan_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-pass=scan_vector_kernel --pipeline=scan_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=scan_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// A row of 21 elements is two vectors of eight and five lanes. The lanes of each are added in three
// steps, in f64, and the last one of the first vector is added to those of the next.
// CHECK: %[[MASK:.*]] = vector.constant_mask [5] : vector<8xi1>
// CHECK: %[[X0:.*]] = vector.load
// CHECK: %[[E0:.*]] = arith.extf %[[X0]] : vector<8xf32> to vector<8xf64>
// CHECK: vector.shuffle %[[E0]], %[[E0]] [0, 0, 1, 2, 3, 4, 5, 6]
// CHECK: vector.shuffle %{{.*}} [0, 0, 0, 1, 2, 3, 4, 5]
// CHECK: vector.shuffle %{{.*}} [0, 0, 0, 0, 0, 1, 2, 3]
// CHECK: %[[S0:.*]] = arith.select
// CHECK: %[[Y0:.*]] = arith.truncf %[[S0]]
// CHECK: vector.store %[[Y0]]
// CHECK: vector.shuffle %[[S0]], %[[S0]] [7, 7, 7, 7, 7, 7, 7, 7]
// CHECK: vector.maskedstore {{.*}}, %[[MASK]]
// CHECK-LABEL: @rows
// CHECK-SAME: %[[X:.*]]: tensor<40x21xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@scan_{{.*}}(%[[X]])
// CHECK: return %[[Y]]
func.func @rows(%x: tensor<40x21xf32>) -> tensor<40x21xf32> {
  %e = tensor.empty() : tensor<40x21xf32>
  %t = tensor.empty() : tensor<40xf32>
  %y = flow.dispatch.region -> (tensor<40x21xf32>) {
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<40x21xf32>) outs(%e, %t : tensor<40x21xf32>, tensor<40xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<40x21xf32>, tensor<40xf32>
    flow.return %s#0 : tensor<40x21xf32>
  }
  return %y : tensor<40x21xf32>
}

// -----

// Lanes are columns: no lanes are combined. The absolute values are computed in the kernel, and the
// sums of 16-bit results are accumulated in f32.
// CHECK-NOT: vector.shuffle
// CHECK: %[[A0:.*]] = math.absf
// CHECK: %[[SUMS:.*]] = scf.for %[[ROW:.*]] = %{{.*}} iter_args(%[[SUM:.*]] = %[[A0]]) -> (vector<8xf32>)
// CHECK: %[[A:.*]] = math.absf
// CHECK: %[[NEXT:.*]] = arith.addf %[[SUM]], %[[A]] : vector<8xf32>
// CHECK: arith.truncf %[[NEXT]] : vector<8xf32> to vector<8xf16>
// CHECK-NOT: vector.shuffle
// CHECK-LABEL: @columns
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@scan_
#id = affine_map<(r, c) -> (r, c)>
func.func @columns(%x: tensor<9x8xf16>) -> tensor<9x8xf16> {
  %y = flow.dispatch.region -> (tensor<9x8xf16>) {
    %e = tensor.empty() : tensor<9x8xf32>
    %h = tensor.empty() : tensor<9x8xf16>
    %t = tensor.empty() : tensor<8xf32>
    %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<9x8xf16>) outs(%e : tensor<9x8xf32>) {
    ^bb0(%i: f16, %o: f32):
      %w = arith.extf %i : f16 to f32
      %v = math.absf %w : f32
      linalg.yield %v : f32
    } -> tensor<9x8xf32>
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(0) inclusive(true) ins(%p : tensor<9x8xf32>) outs(%e, %t : tensor<9x8xf32>, tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<9x8xf32>, tensor<8xf32>
    %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s#0 : tensor<9x8xf32>) outs(%h : tensor<9x8xf16>) {
    ^bb0(%i: f32, %o: f16):
      %v = arith.truncf %i : f32 to f16
      linalg.yield %v : f16
    } -> tensor<9x8xf16>
    flow.return %g : tensor<9x8xf16>
  }
  return %y : tensor<9x8xf16>
}

// -----

// Flips around a scan: it runs from the last lane to the first one, and no lanes are reversed.
// CHECK: vector.shuffle %{{.*}} [1, 2, 3, 4, 5, 6, 7, 7]
// CHECK-NOT: [7, 6, 5, 4, 3, 2, 1, 0]
// CHECK-LABEL: @reversed
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@scan_
#id = affine_map<(r, c) -> (r, c)>
func.func @reversed(%x: tensor<4x16xi32>) -> tensor<4x16xi32> {
  %last = arith.constant 15 : index
  %y = flow.dispatch.region -> (tensor<4x16xi32>) {
    %e = tensor.empty() : tensor<4x16xi32>
    %t = tensor.empty() : tensor<4xi32>
    %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x16xi32>) {
    ^bb0(%o: i32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %k = arith.subi %last, %j : index
      %v = tensor.extract %x[%i, %k] : tensor<4x16xi32>
      linalg.yield %v : i32
    } -> tensor<4x16xi32>
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%f : tensor<4x16xi32>) outs(%e, %t : tensor<4x16xi32>, tensor<4xi32>) {
    ^bb0(%a: i32, %b: i32):
      %r = arith.maxsi %a, %b : i32
      iree_linalg_ext.yield %r : i32
    } -> tensor<4x16xi32>, tensor<4xi32>
    %g = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x16xi32>) {
    ^bb0(%o: i32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %k = arith.subi %last, %j : index
      %v = tensor.extract %s#0[%i, %k] : tensor<4x16xi32>
      linalg.yield %v : i32
    } -> tensor<4x16xi32>
    flow.return %g : tensor<4x16xi32>
  }
  return %y : tensor<4x16xi32>
}

// -----

// Two rows of three elements are in one vector; an exclusive scan begins with the initial value.
// CHECK: dense<7> : vector<8xi32>
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [8, 0, 1, 11, 3, 4, 14, 6]
// CHECK: vector.maskedstore
// CHECK-LABEL: @packed_exclusive
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@scan_
func.func @packed_exclusive(%x: tensor<12x3xi32>) -> tensor<12x3xi32> {
  %seven = arith.constant 7 : i32
  %y = flow.dispatch.region -> (tensor<12x3xi32>) {
    %e = tensor.empty() : tensor<12x3xi32>
    %n = tensor.empty() : tensor<12xi32>
    %t = linalg.fill ins(%seven : i32) outs(%n : tensor<12xi32>) -> tensor<12xi32>
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(false) ins(%x : tensor<12x3xi32>) outs(%e, %t : tensor<12x3xi32>, tensor<12xi32>) {
    ^bb0(%a: i32, %b: i32):
      %r = arith.addi %a, %b : i32
      iree_linalg_ext.yield %r : i32
    } -> tensor<12x3xi32>, tensor<12xi32>
    flow.return %s#0 : tensor<12x3xi32>
  }
  return %y : tensor<12x3xi32>
}

// -----

// WHY-LABEL: @no_kernel_total
// WHY: scan_vector_kernel: flow
// WHY-NEXT: the kernel cannot compute the total of a scan
// CHECK-LABEL: @no_kernel_total
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_total(%x: tensor<4x16xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %t = tensor.empty() : tensor<4xf32>
  %y = flow.dispatch.region -> (tensor<4xf32>) {
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<4x16xf32>) outs(%e, %t : tensor<4x16xf32>, tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<4x16xf32>, tensor<4xf32>
    flow.return %s#1 : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// WHY-LABEL: @no_kernel_one_element
// WHY: scan_vector_kernel: flow
// WHY-NEXT: a scan of one element
// CHECK-LABEL: @no_kernel_one_element
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_one_element(%x: tensor<40x1xf32>) -> tensor<40x1xf32> {
  %e = tensor.empty() : tensor<40x1xf32>
  %t = tensor.empty() : tensor<40xf32>
  %y = flow.dispatch.region -> (tensor<40x1xf32>) {
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<40x1xf32>) outs(%e, %t : tensor<40x1xf32>, tensor<40xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<40x1xf32>, tensor<40xf32>
    flow.return %s#0 : tensor<40x1xf32>
  }
  return %y : tensor<40x1xf32>
}

// -----

// A scan of f16 with a combiner of several ops, each of which would be rounded to f16.
// WHY-LABEL: @no_kernel_long_combiner_of_f16
// WHY: scan_vector_kernel: flow
// WHY-NEXT: a scan of f16 with a combiner of several ops
// CHECK-LABEL: @no_kernel_long_combiner_of_f16
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_long_combiner_of_f16(%x: tensor<4x16xf16>) -> tensor<4x16xf16> {
  %e = tensor.empty() : tensor<4x16xf16>
  %t = tensor.empty() : tensor<4xf16>
  %y = flow.dispatch.region -> (tensor<4x16xf16>) {
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%x : tensor<4x16xf16>) outs(%e, %t : tensor<4x16xf16>, tensor<4xf16>) {
    ^bb0(%a: f16, %b: f16):
      %m = arith.mulf %a, %b : f16
      %q = arith.addf %a, %b : f16
      %r = arith.addf %m, %q : f16
      iree_linalg_ext.yield %r : f16
    } -> tensor<4x16xf16>, tensor<4xf16>
    flow.return %s#0 : tensor<4x16xf16>
  }
  return %y : tensor<4x16xf16>
}

// -----

// The prologue reads its operand in another order: lanes would not be contiguous.
// WHY-LABEL: @no_kernel_transposed_operand
// WHY: scan_vector_kernel: flow
// WHY-NEXT: an operand whose channels are not contiguous
// CHECK-LABEL: @no_kernel_transposed_operand
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#t = affine_map<(r, c) -> (c, r)>
func.func @no_kernel_transposed_operand(%x: tensor<32x16xf32>) -> tensor<16x32xf32> {
  %y = flow.dispatch.region -> (tensor<16x32xf32>) {
    %e = tensor.empty() : tensor<16x32xf32>
    %t = tensor.empty() : tensor<16xf32>
    %p = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x16xf32>) outs(%e : tensor<16x32xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = math.absf %i : f32
      linalg.yield %v : f32
    } -> tensor<16x32xf32>
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(true) ins(%p : tensor<16x32xf32>) outs(%e, %t : tensor<16x32xf32>, tensor<16xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<16x32xf32>, tensor<16xf32>
    flow.return %s#0 : tensor<16x32xf32>
  }
  return %y : tensor<16x32xf32>
}
