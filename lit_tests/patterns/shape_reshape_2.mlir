// RUN: %mlirfuse-opt %s --split-input-file --pipeline=shape_reshape_2 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=shape_reshape_2 --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

// CHECK-LABEL: @constant_sizes
// CHECK-SAME: %[[X:.*]]: tensor<8x4x6xf32>
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[X]] {{\[\[0\], \[1, 2\]\]}} : tensor<8x4x6xf32> into tensor<8x24xf32>
// CHECK: tensor.cast %[[C]] : tensor<8x24xf32> to tensor<?x?xf32>
func.func @constant_sizes(%x: tensor<8x4x6xf32>) -> tensor<?x?xf32> {
  %s = arith.constant dense<[8, 24]> : tensor<2xi64>
  %y = tensor.reshape %x(%s) : (tensor<8x4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// CHECK-LABEL: @constant_sizes_bf16
// CHECK-SAME: %[[X:.*]]: tensor<8x24xbf16>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{\[\[0\], \[1, 2\]\]}} output_shape [8, 4, 6] : tensor<8x24xbf16> into tensor<8x4x6xbf16>
// CHECK: tensor.cast %[[E]]
func.func @constant_sizes_bf16(%x: tensor<8x24xbf16>) -> tensor<?x?x?xbf16> {
  %s = arith.constant dense<[8, 4, 6]> : tensor<3xi64>
  %y = tensor.reshape %x(%s) : (tensor<8x24xbf16>, tensor<3xi64>) -> tensor<?x?x?xbf16>
  return %y : tensor<?x?x?xbf16>
}

// -----

#v = affine_map<(i) -> (i)>

// Sizes from a sub-graph of tensors, and a number that is read back. Neither of 8 and 6 divides the
// other: all axes are merged before they are split.
// CHECK-LABEL: @computed
// CHECK-NOT: linalg.generic
// CHECK: %[[F:.*]] = tensor.collapse_shape %{{.*}} {{\[\[0, 1\]\]}} : tensor<8x9xf16> into tensor<72xf16>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[F]] {{\[\[0, 1\]\]}} output_shape [6, 12] : tensor<72xf16> into tensor<6x12xf16>
// CHECK: %[[R:.*]] = tensor.cast %[[E]]
// CHECK: %[[C:.*]] = arith.constant 12 : i64
// CHECK: return %[[R]], %[[C]]
func.func @computed(%x: tensor<8x9xf16>) -> (tensor<?x?xf16>, i64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %five = arith.constant 5 : i64
  %a = arith.constant dense<[3, 4]> : tensor<2xi64>
  %e = tensor.empty() : tensor<2xi64>
  %b = arith.constant dense<[2, 3]> : tensor<2xi64>
  %p = linalg.generic {indexing_maps = [#v, #v, #v], iterator_types = ["parallel"]} ins(%a, %b : tensor<2xi64>, tensor<2xi64>) outs(%e : tensor<2xi64>) {
  ^bb0(%i: i64, %j: i64, %o: i64):
    %m = arith.muli %i, %j : i64
    linalg.yield %m : i64
  } -> tensor<2xi64>
  %t = tensor.insert %five into %p[%c0] : tensor<2xi64>
  %y = tensor.reshape %x(%p) : (tensor<8x9xf16>, tensor<2xi64>) -> tensor<?x?xf16>
  %n = tensor.extract %t[%c1] : tensor<2xi64>
  return %y, %n : tensor<?x?xf16>, i64
}

// -----

// CHECK-LABEL: @no_rewrite_other_count
// CHECK: tensor.reshape
// WHY: function @no_rewrite_other_count
// WHY: shape_mismatch (1)
// WHY: the result has another number of elements
func.func @no_rewrite_other_count(%x: tensor<8x9xf32>) -> tensor<?x?xf32> {
  %s = arith.constant dense<[8, 8]> : tensor<2xi64>
  %y = tensor.reshape %x(%s) : (tensor<8x9xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// At run time: shape_reshape's.
// CHECK-LABEL: @no_rewrite_dynamic
// CHECK: tensor.reshape
// WHY: 0 groups of 0 ops; 0 candidates refused
func.func @no_rewrite_dynamic(%x: tensor<?x4x6xf32>) -> tensor<?x24xf32> {
  %c0 = arith.constant 0 : index
  %c24 = arith.constant 24 : index
  %n = tensor.dim %x, %c0 : tensor<?x4x6xf32>
  %s = tensor.from_elements %n, %c24 : tensor<2xindex>
  %y = tensor.reshape %x(%s) : (tensor<?x4x6xf32>, tensor<2xindex>) -> tensor<?x24xf32>
  return %y : tensor<?x24xf32>
}

// -----

// CHECK-LABEL: @units
// CHECK: tensor.expand_shape %{{.*}} {{\[\[0\], \[1, 2\]\]}} output_shape [8, 9, 1]
// CHECK: tensor.reshape
// WHY: function @units
// WHY: shape_mismatch (1)
// WHY: the result has another number of elements
func.func @units(%x: tensor<8x9xf32>) -> (tensor<?x?x?xf32>, tensor<?x?x?xf32>) {
  %s = arith.constant dense<[8, 9, 1]> : tensor<3xi64>
  %y = tensor.reshape %x(%s) : (tensor<8x9xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  %t = arith.constant dense<[8, 9, 2]> : tensor<3xi64>
  %z = tensor.reshape %x(%t) : (tensor<8x9xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  return %y, %z : tensor<?x?x?xf32>, tensor<?x?x?xf32>
}

// -----

#v = affine_map<(i) -> (i)>
#s = affine_map<(i) -> ()>

// A product of 64 bits may have wrapped: n 2^62 over n is 2^62 for a small n only. A sum over a
// tensor of sizes is not followed.
// CHECK-LABEL: @no_rewrite_not_followed
// CHECK-COUNT-2: tensor.extract
func.func @no_rewrite_not_followed(%x: tensor<?xf32>) -> (i64, i64) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %large = arith.constant 4611686018427387904 : i64
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %n = arith.index_cast %d : index to i64
  %m = arith.muli %n, %large : i64
  %q = arith.divsi %m, %n : i64
  %e = tensor.empty() : tensor<1xi64>
  %f = linalg.fill ins(%q : i64) outs(%e : tensor<1xi64>) -> tensor<1xi64>
  %g = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%f : tensor<1xi64>) outs(%e : tensor<1xi64>) {
  ^bb0(%i: i64, %o: i64):
    linalg.yield %i : i64
  } -> tensor<1xi64>
  %y = tensor.extract %g[%c0] : tensor<1xi64>
  %a = arith.constant dense<[3, 4]> : tensor<2xi64>
  %e0 = tensor.empty() : tensor<i64>
  %init = linalg.fill ins(%zero : i64) outs(%e0 : tensor<i64>) -> tensor<i64>
  %sum = linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]} ins(%a : tensor<2xi64>) outs(%init : tensor<i64>) {
  ^bb0(%i: i64, %o: i64):
    %p = arith.addi %o, %i : i64
    linalg.yield %p : i64
  } -> tensor<i64>
  %z = tensor.extract %sum[] : tensor<i64>
  return %y, %z : i64, i64
}
