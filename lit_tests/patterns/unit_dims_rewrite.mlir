// RUN: %mlirfuse-opt %s --split-input-file --pipeline=unit_dims_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=unit_dims_rewrite --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

// Parts with and without the dimension.
// CHECK-LABEL: @concat
// CHECK-SAME: %[[A:.*]]: tensor<6x3xf32>, %[[B:.*]]: tensor<6x5xf32>
// CHECK: %[[E:.*]] = tensor.empty() : tensor<6x8xf32>
// CHECK: %[[I:.*]] = tensor.insert_slice %[[A]] into %[[E]][0, 0] [6, 3] [1, 1]
// CHECK: %[[C:.*]] = tensor.insert_slice %[[B]] into %[[I]][0, 3] [6, 5] [1, 1]
// CHECK: return %[[C]]
func.func @concat(%a: tensor<6x3xf32>, %b: tensor<6x5xf32>) -> tensor<6x8xf32> {
  %e = tensor.empty() : tensor<1x6x8xf32>
  %i = tensor.insert_slice %a into %e[0, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<6x3xf32> into tensor<1x6x8xf32>
  %x = tensor.expand_shape %b [[0, 1], [2]] output_shape [1, 6, 5] : tensor<6x5xf32> into tensor<1x6x5xf32>
  %c = tensor.insert_slice %x into %i[0, 0, 3] [1, 6, 5] [1, 1, 1] : tensor<1x6x5xf32> into tensor<1x6x8xf32>
  %y = tensor.collapse_shape %c [[0, 1], [2]] : tensor<1x6x8xf32> into tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

// Two dimensions of other sizes are merged, or the tensor is read with the dimension.
// CHECK-LABEL: @no_rewrite
// CHECK-COUNT-2: tensor.collapse_shape
func.func @no_rewrite(%a: tensor<2x6x3xf32>, %b: tensor<1x6x3xf32>) -> (tensor<12x3xf32>, tensor<6x3xf32>, tensor<1x6x3xf32>) {
  %e = tensor.empty() : tensor<2x6x3xf32>
  %i = tensor.insert_slice %a into %e[0, 0, 0] [2, 6, 3] [1, 1, 1] : tensor<2x6x3xf32> into tensor<2x6x3xf32>
  %y = tensor.collapse_shape %i [[0, 1], [2]] : tensor<2x6x3xf32> into tensor<12x3xf32>
  %f = tensor.empty() : tensor<1x6x3xf32>
  %j = tensor.insert_slice %b into %f[0, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<1x6x3xf32> into tensor<1x6x3xf32>
  %z = tensor.collapse_shape %j [[0, 1], [2]] : tensor<1x6x3xf32> into tensor<6x3xf32>
  return %y, %z, %j : tensor<12x3xf32>, tensor<6x3xf32>, tensor<1x6x3xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_offset
// CHECK: tensor.collapse_shape
// WHY: function @no_rewrite_offset
// WHY: dynamic_shape (1)
// WHY: an offset is not static
func.func @no_rewrite_offset(%a: tensor<6x3xf32>, %o: index) -> tensor<6x8xf32> {
  %e = tensor.empty() : tensor<1x6x8xf32>
  %i = tensor.insert_slice %a into %e[0, 0, %o] [1, 6, 3] [1, 1, 1] : tensor<6x3xf32> into tensor<1x6x8xf32>
  %y = tensor.collapse_shape %i [[0, 1], [2]] : tensor<1x6x8xf32> into tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_shape
// CHECK: tensor.collapse_shape
// WHY: function @no_rewrite_shape
// WHY: shape_mismatch (1)
// WHY: a part lacks other dimensions
func.func @no_rewrite_shape(%a: tensor<3xf32>) -> tensor<6x8xf32> {
  %e = tensor.empty() : tensor<1x6x8xf32>
  %i = tensor.insert_slice %a into %e[0, 2, 1] [1, 1, 3] [1, 1, 1] : tensor<3xf32> into tensor<1x6x8xf32>
  %y = tensor.collapse_shape %i [[0, 1], [2]] : tensor<1x6x8xf32> into tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

// CHECK-LABEL: @slices_of_gates
// CHECK-SAME: %[[X:.+]]: tensor<12xf32>
// CHECK-DAG: tensor.extract_slice %[[X]][0] [4] [1] : tensor<12xf32> to tensor<4xf32>
// CHECK-DAG: tensor.extract_slice %[[X]][8] [4] [1] : tensor<12xf32> to tensor<4xf32>
// CHECK-NOT: tensor.expand_shape
func.func @slices_of_gates(%x: tensor<12xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.expand_shape %x [[0, 1]] output_shape [1, 12] : tensor<12xf32> into tensor<1x12xf32>
  %a = tensor.extract_slice %e[0, 0] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<4xf32>
  %b = tensor.extract_slice %e[0, 8] [1, 4] [1, 1] : tensor<1x12xf32> to tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_of_a_split
// CHECK: tensor.expand_shape
// CHECK: tensor.extract_slice
func.func @no_rewrite_of_a_split(%x: tensor<12xf32>) -> tensor<4xf32> {
  %e = tensor.expand_shape %x [[0, 1]] output_shape [3, 4] : tensor<12xf32> into tensor<3x4xf32>
  %a = tensor.extract_slice %e[1, 0] [1, 4] [1, 1] : tensor<3x4xf32> to tensor<4xf32>
  return %a : tensor<4xf32>
}

// -----

// A dimension of size one that the slice keeps is added to its result.
// CHECK-LABEL: @slice_that_keeps_the_dimension
// CHECK-SAME: %[[X:.+]]: tensor<12xf32>
// CHECK: %[[S:.+]] = tensor.extract_slice %[[X]][8] [2] [2] : tensor<12xf32> to tensor<2xf32>
// CHECK: %[[E:.+]] = tensor.expand_shape %[[S]] {{\[\[}}0, 1]] output_shape [1, 2]
// CHECK: return %[[E]]
func.func @slice_that_keeps_the_dimension(%x: tensor<12xf32>) -> tensor<1x2xf32> {
  %e = tensor.expand_shape %x [[0, 1]] output_shape [1, 12] : tensor<12xf32> into tensor<1x12xf32>
  %a = tensor.extract_slice %e[0, 8] [1, 2] [1, 2] : tensor<1x12xf32> to tensor<1x2xf32>
  return %a : tensor<1x2xf32>
}

// -----

// One column of a batch of one; the slice drops that dimension, too.
// CHECK-LABEL: @slice_of_a_column
// CHECK-SAME: %[[X:.+]]: tensor<6x5x2xf32>
// CHECK: %[[S:.+]] = tensor.extract_slice %[[X]][0, 0, 1] [6, 5, 1] [1, 1, 1] : tensor<6x5x2xf32> to tensor<6x5xf32>
// CHECK: return %[[S]]
func.func @slice_of_a_column(%x: tensor<6x5x2xf32>) -> tensor<6x5xf32> {
  %e = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [1, 6, 5, 2] : tensor<6x5x2xf32> into tensor<1x6x5x2xf32>
  %a = tensor.extract_slice %e[0, 0, 0, 1] [1, 6, 5, 1] [1, 1, 1, 1] : tensor<1x6x5x2xf32> to tensor<6x5xf32>
  return %a : tensor<6x5xf32>
}

// -----

// The same before a collapse of the dimensions; the start is not static.
// CHECK-LABEL: @slice_before_a_collapse
// CHECK-SAME: %[[X:.+]]: tensor<6x8xf32>, %[[N:.+]]: index
// CHECK: %[[S:.+]] = tensor.extract_slice %[[X]][0, %[[N]]] [6, 4] [1, 1] : tensor<6x8xf32> to tensor<6x4xf32>
// CHECK: return %[[S]]
func.func @slice_before_a_collapse(%x: tensor<6x8xf32>, %n: index) -> tensor<6x4xf32> {
  %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, 6, 8] : tensor<6x8xf32> into tensor<1x6x8xf32>
  %a = tensor.extract_slice %e[0, 0, %n] [1, 6, 4] [1, 1, 1] : tensor<1x6x8xf32> to tensor<1x6x4xf32>
  %c = tensor.collapse_shape %a [[0, 1], [2]] : tensor<1x6x4xf32> into tensor<6x4xf32>
  return %c : tensor<6x4xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_of_an_open_size
// CHECK: tensor.expand_shape
// CHECK: tensor.extract_slice %{{.+}}[0, 0, 0] [1, %{{.+}}, 4] [1, 1, 1]
func.func @no_rewrite_of_an_open_size(%x: tensor<?x8xf32>, %n: index) -> tensor<?x4xf32> {
  %e = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, %n, 8] : tensor<?x8xf32> into tensor<1x?x8xf32>
  %a = tensor.extract_slice %e[0, 0, 0] [1, %n, 4] [1, 1, 1] : tensor<1x?x8xf32> to tensor<?x4xf32>
  return %a : tensor<?x4xf32>
}

// -----

// A part that an elementwise op computes, and one that has the dimension of size one.
// CHECK-LABEL: @concatenation
// CHECK-SAME: %[[A:.*]]: tensor<6x3xf32>, %[[B:.*]]: tensor<4x3x1xf32>
// CHECK-DAG: %[[S:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<6x3xf32>)
// CHECK-DAG: %[[C:.*]] = tensor.collapse_shape %[[B]] {{\[\[}}0], [1, 2]] : tensor<4x3x1xf32> into tensor<4x3xf32>
// CHECK: %[[N:.*]] = tensor.concat dim(0) %[[S]], %[[C]] : (tensor<6x3xf32>, tensor<4x3xf32>) -> tensor<10x3xf32>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[N]] {{\[\[}}0], [1, 2]] output_shape [10, 3, 1]
// CHECK: return %[[E]]
func.func @concatenation(%a: tensor<6x3xf32>, %b: tensor<4x3x1xf32>) -> tensor<10x3x1xf32> {
  %e = tensor.empty() : tensor<6x3xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<6x3xf32>) outs(%e : tensor<6x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.sin %i : f32
    linalg.yield %r : f32
  } -> tensor<6x3xf32>
  %x = tensor.expand_shape %s [[0], [1, 2]] output_shape [6, 3, 1] : tensor<6x3xf32> into tensor<6x3x1xf32>
  %c = tensor.concat dim(0) %x, %b : (tensor<6x3x1xf32>, tensor<4x3x1xf32>) -> tensor<10x3x1xf32>
  return %c : tensor<10x3x1xf32>
}

// -----

// Parts in memory, and the dimension of size one is the one that grows.
// CHECK-LABEL: @no_concatenation
// CHECK: tensor.concat dim(0) %{{.*}}, %{{.*}} : (tensor<6x3x1xf32>, tensor<4x3x1xf32>)
// CHECK: tensor.concat dim(2) %{{.*}}, %{{.*}} : (tensor<6x3x1xf32>, tensor<6x3x1xf32>)
func.func @no_concatenation(%a: tensor<6x3xf32>, %b: tensor<4x3x1xf32>, %z: tensor<6x3x1xf32>) -> (tensor<10x3x1xf32>, tensor<6x3x2xf32>) {
  %x = tensor.expand_shape %a [[0], [1, 2]] output_shape [6, 3, 1] : tensor<6x3xf32> into tensor<6x3x1xf32>
  %c = tensor.concat dim(0) %x, %b : (tensor<6x3x1xf32>, tensor<4x3x1xf32>) -> tensor<10x3x1xf32>
  %e = tensor.empty() : tensor<6x3xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<6x3xf32>) outs(%e : tensor<6x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.sin %i : f32
    linalg.yield %r : f32
  } -> tensor<6x3xf32>
  %y = tensor.expand_shape %s [[0], [1, 2]] output_shape [6, 3, 1] : tensor<6x3xf32> into tensor<6x3x1xf32>
  %d = tensor.concat dim(2) %y, %z : (tensor<6x3x1xf32>, tensor<6x3x1xf32>) -> tensor<6x3x2xf32>
  return %c, %d : tensor<10x3x1xf32>, tensor<6x3x2xf32>
}

// -----

// One part twice.
// CHECK-LABEL: @repeated
// CHECK: %[[S:.*]] = linalg.generic
// CHECK: %[[N:.*]] = tensor.concat dim(0) %[[S]], %[[S]] : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<12x3xf32>
func.func @repeated(%a: tensor<6x3xf32>) -> tensor<12x3x1xf32> {
  %e = tensor.empty() : tensor<6x3xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<6x3xf32>) outs(%e : tensor<6x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.sin %i : f32
    linalg.yield %r : f32
  } -> tensor<6x3xf32>
  %x = tensor.expand_shape %s [[0], [1, 2]] output_shape [6, 3, 1] : tensor<6x3xf32> into tensor<6x3x1xf32>
  %c = tensor.concat dim(0) %x, %x : (tensor<6x3x1xf32>, tensor<6x3x1xf32>) -> tensor<12x3x1xf32>
  return %c : tensor<12x3x1xf32>
}

// -----

// The zeros between the elements of a transposed convolution's image of one channel.
// CHECK-LABEL: @zeros_between
// CHECK-SAME: %[[X:.*]]: tensor<4x5x6xf32>
// CHECK: %[[Z:.*]] = linalg.fill {{.*}} outs({{.*}} : tensor<4x11x13xf32>)
// CHECK: %[[Y:.*]] = tensor.insert_slice %[[X]] into %[[Z]][0, 1, 2] [4, 5, 6] [1, 2, 2] : tensor<4x5x6xf32> into tensor<4x11x13xf32>
// CHECK: return %[[Y]]
func.func @zeros_between(%x: tensor<4x5x6xf32>) -> tensor<4x11x13xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x1x11x13xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x1x11x13xf32>) -> tensor<4x1x11x13xf32>
  %i = tensor.insert_slice %x into %z[0, 0, 1, 2] [4, 1, 5, 6] [1, 1, 2, 2] : tensor<4x5x6xf32> into tensor<4x1x11x13xf32>
  %y = tensor.collapse_shape %i [[0, 1], [2], [3]] : tensor<4x1x11x13xf32> into tensor<4x11x13xf32>
  return %y : tensor<4x11x13xf32>
}

// -----

// A scan between the reshapes of a batch of one.
// CHECK-LABEL: @scan
// CHECK-SAME: %[[X:.*]]: tensor<6x9xf32>
// CHECK: %[[S:.*]]:2 = iree_linalg_ext.scan {{.*}}dimension(1) inclusive(true) ins(%[[X]] : tensor<6x9xf32>) outs(%{{.*}}, %{{.*}} : tensor<6x9xf32>, tensor<6xf32>)
// CHECK: return %[[S]]#0
func.func @scan(%x: tensor<6x9xf32>) -> tensor<6x9xf32> {
  %zero = arith.constant 0.0 : f32
  %w = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, 6, 9] : tensor<6x9xf32> into tensor<1x6x9xf32>
  %e = tensor.empty() : tensor<1x6x9xf32>
  %a = tensor.empty() : tensor<1x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%a : tensor<1x6xf32>) -> tensor<1x6xf32>
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(2) inclusive(true) ins(%w : tensor<1x6x9xf32>) outs(%e, %f : tensor<1x6x9xf32>, tensor<1x6xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<1x6x9xf32>, tensor<1x6xf32>
  %y = tensor.collapse_shape %s#0 [[0, 1], [2]] : tensor<1x6x9xf32> into tensor<6x9xf32>
  return %y : tensor<6x9xf32>
}

// -----

// Of one row, whose sum has no dimension; another user has the wide result.
// CHECK-LABEL: @row
// CHECK-SAME: %[[X:.*]]: tensor<9xf32>
// CHECK: %[[S:.*]]:2 = iree_linalg_ext.scan {{.*}}dimension(0) inclusive(false) ins(%[[X]] : tensor<9xf32>) outs(%{{.*}}, %{{.*}} : tensor<9xf32>, tensor<f32>)
// CHECK: %[[Y:.*]] = tensor.expand_shape %[[S]]#0 {{\[\[}}0, 1, 2]]
// CHECK: return %[[Y]]
func.func @row(%x: tensor<9xf32>) -> tensor<1x9x1xf32> {
  %zero = arith.constant 0.0 : f32
  %w = tensor.expand_shape %x [[0, 1, 2]] output_shape [1, 9, 1] : tensor<9xf32> into tensor<1x9x1xf32>
  %e = tensor.empty() : tensor<1x9x1xf32>
  %a = tensor.empty() : tensor<1x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%a : tensor<1x1xf32>) -> tensor<1x1xf32>
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(1) inclusive(false) ins(%w : tensor<1x9x1xf32>) outs(%e, %f : tensor<1x9x1xf32>, tensor<1x1xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<1x9x1xf32>, tensor<1x1xf32>
  return %s#0 : tensor<1x9x1xf32>
}

// -----

// The scanned dimension has one element itself.
// CHECK-LABEL: @of_one
// CHECK: iree_linalg_ext.scan {{.*}}dimension(0) {{.*}} ins(%{{.*}} : tensor<1x9xf32>)
func.func @of_one(%x: tensor<9xf32>) -> tensor<1x9xf32> {
  %zero = arith.constant 0.0 : f32
  %w = tensor.expand_shape %x [[0, 1]] output_shape [1, 9] : tensor<9xf32> into tensor<1x9xf32>
  %e = tensor.empty() : tensor<1x9xf32>
  %a = tensor.empty() : tensor<9xf32>
  %f = linalg.fill ins(%zero : f32) outs(%a : tensor<9xf32>) -> tensor<9xf32>
  %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>} dimension(0) inclusive(true) ins(%w : tensor<1x9xf32>) outs(%e, %f : tensor<1x9xf32>, tensor<9xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    iree_linalg_ext.yield %r : f32
  } -> tensor<1x9xf32>, tensor<9xf32>
  return %s#0 : tensor<1x9xf32>
}

// -----

// Parts of one in front of rows: one row behind the other.
// CHECK-LABEL: @stacked
// CHECK-SAME: %[[A:.*]]: tensor<6x3xf32>, %[[B:.*]]: tensor<2x6x3xf32>
// CHECK: %[[S:.*]] = linalg.generic
// CHECK: %[[D:.*]] = tensor.collapse_shape %[[B]] {{\[\[}}0, 1], [2]] : tensor<2x6x3xf32> into tensor<12x3xf32>
// CHECK: %[[C:.*]] = tensor.concat dim(0) %[[S]], %[[D]] : (tensor<6x3xf32>, tensor<12x3xf32>) -> tensor<18x3xf32>
// CHECK: %[[Y:.*]] = tensor.expand_shape %[[C]] {{\[\[}}0, 1], [2]] output_shape [3, 6, 3]
// CHECK: return %[[Y]]
#rows = affine_map<(a, b) -> (a, b)>
func.func @stacked(%a: tensor<6x3xf32>, %b: tensor<2x6x3xf32>) -> tensor<3x6x3xf32> {
  %e = tensor.empty() : tensor<6x3xf32>
  %s = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<6x3xf32>) outs(%e : tensor<6x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.sin %p : f32
    linalg.yield %r : f32
  } -> tensor<6x3xf32>
  %w = tensor.expand_shape %s [[0, 1], [2]] output_shape [1, 6, 3] : tensor<6x3xf32> into tensor<1x6x3xf32>
  %y = tensor.concat dim(0) %w, %b : (tensor<1x6x3xf32>, tensor<2x6x3xf32>) -> tensor<3x6x3xf32>
  return %y : tensor<3x6x3xf32>
}

// -----

// The dimension in front of the concatenated one has two elements there.
// CHECK-LABEL: @apart
// CHECK: tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<2x3x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
#rows = affine_map<(a, b) -> (a, b)>
func.func @apart(%a: tensor<6x3xf32>, %b: tensor<2x1x3xf32>) -> tensor<2x4x3xf32> {
  %e = tensor.empty() : tensor<6x3xf32>
  %s = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<6x3xf32>) outs(%e : tensor<6x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.sin %p : f32
    linalg.yield %r : f32
  } -> tensor<6x3xf32>
  %w = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 3, 3] : tensor<6x3xf32> into tensor<2x3x3xf32>
  %y = tensor.concat dim(1) %w, %b : (tensor<2x3x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// -----

// The halves of a tensor in the other order: slices have the dimension of size one.
// CHECK-LABEL: @rolled
// CHECK-SAME: %[[X:.*]]: tensor<2x6x3xf32>
// CHECK-DAG: %[[A:.*]] = tensor.extract_slice %[[X]][1, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<2x6x3xf32> to tensor<1x6x3xf32>
// CHECK-DAG: %[[B:.*]] = tensor.extract_slice %[[X]][0, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<2x6x3xf32> to tensor<1x6x3xf32>
// CHECK: tensor.concat dim(0) %[[A]], %[[B]]
func.func @rolled(%x: tensor<2x6x3xf32>) -> tensor<2x6x3xf32> {
  %a = tensor.extract_slice %x[1, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<2x6x3xf32> to tensor<6x3xf32>
  %b = tensor.extract_slice %x[0, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<2x6x3xf32> to tensor<6x3xf32>
  %c = tensor.expand_shape %a [[0, 1], [2]] output_shape [1, 6, 3] : tensor<6x3xf32> into tensor<1x6x3xf32>
  %d = tensor.expand_shape %b [[0, 1], [2]] output_shape [1, 6, 3] : tensor<6x3xf32> into tensor<1x6x3xf32>
  %y = tensor.concat dim(0) %c, %d : (tensor<1x6x3xf32>, tensor<1x6x3xf32>) -> tensor<2x6x3xf32>
  return %y : tensor<2x6x3xf32>
}
