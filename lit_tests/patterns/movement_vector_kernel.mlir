// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=movement_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=movement_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-pass=movement_vector_kernel --pipeline=movement_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=movement_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// A flip of rows of 16: two vectors are loaded from the row's end, and their lanes reversed.
// CHECK: %[[V:.*]] = vector.load {{.*}} vector<8xf32>
// CHECK: %[[R:.*]] = vector.shuffle %[[V]], %[[V]] [7, 6, 5, 4, 3, 2, 1, 0]
// CHECK: vector.store %[[R]]
// CHECK-LABEL: @flip
// CHECK-SAME: %[[X:.*]]: tensor<6x16xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@movement_{{.*}}(%[[X]])
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @flip(%x: tensor<6x16xf32>) -> tensor<6x16xf32> {
  %last = arith.constant 15 : index
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<6x16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<6x16xf32>
    linalg.yield %v : f32
  } -> tensor<6x16xf32>
  return %f : tensor<6x16xf32>
}

// -----

// Rows at computed indices: the index is a scalar, and the row is contiguous.
// CHECK: %[[ROW:.*]] = vector.extract %{{.*}}[0] : index from vector<8xindex>
// CHECK: arith.muli %[[ROW]]
// CHECK: %[[V:.*]] = vector.load {{.*}} vector<8xf32>
// CHECK: %[[A:.*]] = math.absf %[[V]]
// CHECK: vector.store %[[A]]
// CHECK-LABEL: @rows_at_indices
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@movement_
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @rows_at_indices(%x: tensor<9x21xf32>, %n: tensor<6xi64>) -> tensor<6x21xf32> {
  %y = flow.dispatch.region -> (tensor<6x21xf32>) {
    %e = tensor.empty() : tensor<6x21xf32>
    %g = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<6xi64>) outs(%e : tensor<6x21xf32>) {
    ^bb0(%i: i64, %o: f32):
      %r = arith.index_cast %i : i64 to index
      %c = linalg.index 1 : index
      %v = tensor.extract %x[%r, %c] : tensor<9x21xf32>
      linalg.yield %v : f32
    } -> tensor<6x21xf32>
    %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<6x21xf32>) outs(%e : tensor<6x21xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = math.absf %i : f32
      linalg.yield %v : f32
    } -> tensor<6x21xf32>
    flow.return %a : tensor<6x21xf32>
  }
  return %y : tensor<6x21xf32>
}

// -----

// CHECK-LABEL: @elements_at_indices
// CHECK: flow.dispatch @
// CHECK-NOT: linalg.generic
#id = affine_map<(r, c) -> (r, c)>
#column = affine_map<(r, c) -> (c)>
func.func @elements_at_indices(%x: tensor<6x21xf32>, %n: tensor<16xi64>) -> tensor<6x16xf32> {
  %e = tensor.empty() : tensor<6x16xf32>
  %g = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<16xi64>) outs(%e : tensor<6x16xf32>) {
  ^bb0(%i: i64, %o: f32):
    %r = linalg.index 0 : index
    %c = arith.index_cast %i : i64 to index
    %v = tensor.extract %x[%r, %c] : tensor<6x21xf32>
    linalg.yield %v : f32
  } -> tensor<6x16xf32>
  return %g : tensor<6x16xf32>
}

// -----

// WHY-LABEL: @no_kernel_index_of_an_index
// WHY: movement_vector_kernel:
// WHY-NEXT: an index that is computed from a computed index
// CHECK-LABEL: @no_kernel_index_of_an_index
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#column = affine_map<(r, c) -> (c)>
func.func @no_kernel_index_of_an_index(%x: tensor<6x21xf32>, %n: tensor<16xi64>, %m: tensor<16xi64>) -> tensor<6x16xf32> {
  %y = flow.dispatch.region -> (tensor<6x16xf32>) {
    %e = tensor.empty() : tensor<6x16xf32>
    %g = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<16xi64>) outs(%e : tensor<6x16xf32>) {
    ^bb0(%i: i64, %o: f32):
      %r = linalg.index 0 : index
      %c = arith.index_cast %i : i64 to index
      %v = tensor.extract %x[%r, %c] : tensor<6x21xf32>
      linalg.yield %v : f32
    } -> tensor<6x16xf32>
    %h = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<16xi64>) outs(%e : tensor<6x16xf32>) {
    ^bb0(%i: i64, %o: f32):
      %r = linalg.index 0 : index
      %c = arith.index_cast %i : i64 to index
      %v = tensor.extract %g[%r, %c] : tensor<6x16xf32>
      linalg.yield %v : f32
    } -> tensor<6x16xf32>
    flow.return %h : tensor<6x16xf32>
  }
  return %y : tensor<6x16xf32>
}

// -----

// WHY-LABEL: @no_kernel_few_elements
// WHY: movement_vector_kernel:
// WHY-NEXT: fewer than 8 contiguous elements
// CHECK-LABEL: @no_kernel_few_elements
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_few_elements(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %last = arith.constant 2 : index
  %e = tensor.empty() : tensor<2x3xf32>
  %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<2x3xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<2x3xf32>
    linalg.yield %v : f32
  } -> tensor<2x3xf32>
  return %f : tensor<2x3xf32>
}

// -----

// WHY-LABEL: @no_kernel_dynamic
// WHY: movement_vector_kernel:
// WHY-NEXT: results of dynamic sizes or of several shapes
// CHECK-LABEL: @no_kernel_dynamic
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_dynamic(%x: tensor<?x16xf32>, %n: index) -> tensor<?x16xf32> {
  %last = arith.constant 15 : index
  %e = tensor.empty(%n) : tensor<?x16xf32>
  %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<?x16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %last, %j : index
    %v = tensor.extract %x[%i, %k] : tensor<?x16xf32>
    linalg.yield %v : f32
  } -> tensor<?x16xf32>
  return %f : tensor<?x16xf32>
}

// -----

// Every second element, of two vectors: the last element of the second one is the last that is read.
// CHECK: %[[A:.*]] = vector.load
// CHECK: %[[NEXT:.*]] = arith.addi {{.*}}, %c7 : index
// CHECK: %[[B:.*]] = vector.load {{.*}}[%[[NEXT]]]
// CHECK: vector.shuffle %[[A]], %[[B]] [0, 2, 4, 6, 9, 11, 13, 15]
// CHECK-LABEL: @every_second_element
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@movement_{{.*}}(%arg0)
#id = affine_map<(r, c) -> (r, c)>
func.func @every_second_element(%x: tensor<6x32xf32>) -> tensor<6x16xf32> {
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<6x16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.muli %j, %two : index
    %v = tensor.extract %x[%i, %k] : tensor<6x32xf32>
    linalg.yield %v : f32
  } -> tensor<6x16xf32>
  return %f : tensor<6x16xf32>
}

// -----

// WHY-LABEL: @no_kernel_every_fifth_element
// WHY: movement_vector_kernel:
// WHY-NEXT: an operand whose channels are not contiguous
// CHECK-LABEL: @no_kernel_every_fifth_element
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_every_fifth_element(%x: tensor<6x80xf32>) -> tensor<6x16xf32> {
  %five = arith.constant 5 : index
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<6x16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.muli %j, %five : index
    %v = tensor.extract %x[%i, %k] : tensor<6x80xf32>
    linalg.yield %v : f32
  } -> tensor<6x16xf32>
  return %f : tensor<6x16xf32>
}

// -----

// The row of a step of a loop: an index from outside of the body.
// WHY-LABEL: @no_kernel_index_from_outside
// WHY: movement_vector_kernel:
// WHY-NEXT: the kernel cannot compute a scalar from outside the group
// CHECK-LABEL: @no_kernel_index_from_outside
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_index_from_outside(%x: tensor<6x4x16xf32>, %n: index) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %g = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x16xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %v = tensor.extract %x[%n, %i, %j] : tensor<6x4x16xf32>
    linalg.yield %v : f32
  } -> tensor<4x16xf32>
  return %g : tensor<4x16xf32>
}

// -----

// A concatenation with ops before and after it: a loop for each part.
// CHECK: scf.for
// CHECK-COUNT-2: math.absf
// CHECK-NOT: arith.negf
// CHECK: scf.for
// CHECK: %[[N:.*]] = arith.negf
// CHECK: math.absf %[[N]]
// CHECK: vector.store
// CHECK-LABEL: @concatenation
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@movement_
#id = affine_map<(r, c) -> (r, c)>
func.func @concatenation(%x: tensor<6x16xf32>, %y: tensor<6x24xf32>) -> tensor<6x40xf32> {
  %z = flow.dispatch.region -> (tensor<6x40xf32>) {
    %p = tensor.empty() : tensor<6x24xf32>
    %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<6x24xf32>) outs(%p : tensor<6x24xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = arith.negf %i : f32
      linalg.yield %v : f32
    } -> tensor<6x24xf32>
    %e = tensor.empty() : tensor<6x40xf32>
    %s = tensor.insert_slice %x into %e[0, 0] [6, 16] [1, 1] : tensor<6x16xf32> into tensor<6x40xf32>
    %t = tensor.insert_slice %n into %s[0, 16] [6, 24] [1, 1] : tensor<6x24xf32> into tensor<6x40xf32>
    %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<6x40xf32>) outs(%e : tensor<6x40xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = math.absf %i : f32
      linalg.yield %v : f32
    } -> tensor<6x40xf32>
    flow.return %a : tensor<6x40xf32>
  }
  return %z : tensor<6x40xf32>
}

// -----

// WHY-LABEL: @no_kernel_short_part
// WHY: movement_vector_kernel:
// WHY-NEXT: a part of fewer contiguous elements than a vector has
// CHECK-LABEL: @no_kernel_short_part
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_short_part(%x: tensor<6x16xf32>, %y: tensor<6x4xf32>) -> tensor<6x20xf32> {
  %z = flow.dispatch.region -> (tensor<6x20xf32>) {
    %e = tensor.empty() : tensor<6x20xf32>
    %s = tensor.insert_slice %x into %e[0, 0] [6, 16] [1, 1] : tensor<6x16xf32> into tensor<6x20xf32>
    %t = tensor.insert_slice %y into %s[0, 16] [6, 4] [1, 1] : tensor<6x4xf32> into tensor<6x20xf32>
    %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<6x20xf32>) outs(%e : tensor<6x20xf32>) {
    ^bb0(%i: f32, %o: f32):
      %v = math.absf %i : f32
      linalg.yield %v : f32
    } -> tensor<6x20xf32>
    flow.return %a : tensor<6x20xf32>
  }
  return %z : tensor<6x20xf32>
}

// -----

// A reflected border: the indices are known, so the lanes of a vector of the row are put in order.
// The last one of the two ends with the row.
// CHECK: %[[A:.*]] = vector.load {{.*}} : memref<72xf32>, vector<8xf32>
// CHECK: vector.shuffle %[[A]], %[[A]] [1, 0, 1, 2, 3, 4, 5, 6] : vector<8xf32>, vector<8xf32>
// CHECK-NOT: vector.gather
// CHECK: %[[AT:.*]] = arith.addi {{.*}}, %c4 : index
// CHECK: %[[B:.*]] = vector.load {{.*}}[%[[AT]]] : memref<72xf32>, vector<8xf32>
// CHECK: vector.shuffle %[[B]], %[[B]] [1, 2, 3, 4, 5, 6, 7, 6] : vector<8xf32>, vector<8xf32>
// CHECK-LABEL: @reflected
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@movement_{{.*}}(%{{.*}}, %arg0) {{.*}} -> tensor<6x14xf32>
#id = affine_map<(r, c) -> (r, c)>
#column = affine_map<(r, c) -> (c)>
func.func @reflected(%x: tensor<6x12xf32>) -> tensor<6x14xf32> {
  %n = arith.constant dense<[1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 10]> : tensor<14xi64>
  %e = tensor.empty() : tensor<6x14xf32>
  %f = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<14xi64>) outs(%e : tensor<6x14xf32>) {
  ^bb0(%c: i64, %o: f32):
    %i = linalg.index 0 : index
    %k = arith.index_cast %c : i64 to index
    %v = tensor.extract %x[%i, %k] : tensor<6x12xf32>
    linalg.yield %v : f32
  } -> tensor<6x14xf32>
  return %f : tensor<6x14xf32>
}
