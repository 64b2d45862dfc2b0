// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=transposed_gather_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=transposed_gather_rewrite --disable-pass=transposed_gather_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=transposed_gather_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

#t = affine_map<(d0, d1) -> (d1, d0)>
#m = affine_map<(d0, d1) -> (d0, d1)>
#i = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[X:.+]]: tensor<6x16xf32>, %[[I:.+]]: tensor<9xi64>
// CHECK: linalg.generic {{.*}} ins(%[[I]] : tensor<9xi64>)
// CHECK: %[[C:.+]] = linalg.index 1
// CHECK: %[[P:.+]] = arith.index_cast
// CHECK: tensor.extract %[[X]][%[[P]], %[[C]]] : tensor<6x16xf32>
// OFF-LABEL: func.func @gather
// OFF: tensor.extract {{.*}} : tensor<16x6xf32>
func.func @gather(%x: tensor<6x16xf32>, %i: tensor<9xi64>) -> tensor<9x16xf32> {
  %e = tensor.empty() : tensor<16x6xf32>
  %t = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf32>) outs(%e : tensor<16x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<16x6xf32>
  %e1 = tensor.empty() : tensor<9x16xf32>
  %g = linalg.generic {indexing_maps = [#i, #m], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<9xi64>) outs(%e1 : tensor<9x16xf32>) {
  ^bb0(%n: i64, %o: f32):
    %c = linalg.index 1 : index
    %p = arith.index_cast %n : i64 to index
    %v = tensor.extract %t[%c, %p] : tensor<16x6xf32>
    linalg.yield %v : f32
  } -> tensor<9x16xf32>
  return %g : tensor<9x16xf32>
}

// -----

// Adjacent lanes have adjacent pixels, which the transpose has made adjacent.
#t = affine_map<(d0, d1) -> (d1, d0)>
#m = affine_map<(d0, d1) -> (d0, d1)>
#j = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @no_rewrite_lanes_of_pixels
// CHECK: %[[T:.+]] = linalg.generic
// CHECK: tensor.extract %[[T]]
func.func @no_rewrite_lanes_of_pixels(%x: tensor<6x16xf32>, %i: tensor<9xi64>) -> tensor<16x9xf32> {
  %e = tensor.empty() : tensor<16x6xf32>
  %t = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf32>) outs(%e : tensor<16x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<16x6xf32>
  %e1 = tensor.empty() : tensor<16x9xf32>
  %g = linalg.generic {indexing_maps = [#j, #m], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<9xi64>) outs(%e1 : tensor<16x9xf32>) {
  ^bb0(%n: i64, %o: f32):
    %c = linalg.index 0 : index
    %p = arith.index_cast %n : i64 to index
    %v = tensor.extract %t[%c, %p] : tensor<16x6xf32>
    linalg.yield %v : f32
  } -> tensor<16x9xf32>
  return %g : tensor<16x9xf32>
}

// -----

// The gather is computed in the order in which the sum reads it; its transposed tensor is split.
#t = affine_map<(d0, d1) -> (d1, d0)>
#m = affine_map<(d0, d1) -> (d0, d1)>
#z = affine_map<(c, y, x) -> (c, y, x)>
#y = affine_map<(c, y, x) -> (y)>
#c = affine_map<(y, x, c) -> (c, y, x)>
// CHECK-DAG: #[[Z:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[Y:.+]] = affine_map<(d0, d1, d2) -> (d0)>
// CHECK-LABEL: func.func @read_in_another_order
// CHECK-SAME: %[[X:.+]]: tensor<6x16xf32>, %[[I:.+]]: tensor<5xi64>, %[[B:.+]]: tensor<5x3x16xf32>
// CHECK: %[[S:.+]] = tensor.expand_shape %[[X]] {{\[\[}}0, 1], [2]] output_shape [2, 3, 16]
// CHECK: %[[G:.+]] = linalg.generic {indexing_maps = [#[[Y]], #[[Z]]], {{.*}}} ins(%[[I]] : tensor<5xi64>)
// CHECK: %[[L:.+]] = linalg.index 2
// CHECK: %[[H:.+]] = linalg.index 1
// CHECK: %[[P:.+]] = arith.index_cast
// CHECK: tensor.extract %[[S]][%[[P]], %[[H]], %[[L]]] : tensor<2x3x16xf32>
// CHECK: linalg.generic {indexing_maps = [#[[Z]], #[[Z]], #[[Z]]], {{.*}}} ins(%[[G]], %[[B]]
func.func @read_in_another_order(%x: tensor<6x16xf32>, %i: tensor<5xi64>, %b: tensor<5x3x16xf32>) -> tensor<5x3x16xf32> {
  %e = tensor.empty() : tensor<16x6xf32>
  %t = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf32>) outs(%e : tensor<16x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<16x6xf32>
  %s = tensor.expand_shape %t [[0], [1, 2]] output_shape [16, 2, 3] : tensor<16x6xf32> into tensor<16x2x3xf32>
  %e1 = tensor.empty() : tensor<16x5x3xf32>
  %g = linalg.generic {indexing_maps = [#y, #z], iterator_types = ["parallel", "parallel", "parallel"]} ins(%i : tensor<5xi64>) outs(%e1 : tensor<16x5x3xf32>) {
  ^bb0(%n: i64, %o: f32):
    %c = linalg.index 0 : index
    %w = linalg.index 2 : index
    %p = arith.index_cast %n : i64 to index
    %v = tensor.extract %s[%c, %p, %w] : tensor<16x2x3xf32>
    linalg.yield %v : f32
  } -> tensor<16x5x3xf32>
  %e2 = tensor.empty() : tensor<5x3x16xf32>
  %r = linalg.generic {indexing_maps = [#c, #z, #z], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %b : tensor<16x5x3xf32>, tensor<5x3x16xf32>) outs(%e2 : tensor<5x3x16xf32>) {
  ^bb0(%a: f32, %d: f32, %o: f32):
    %v = arith.addf %a, %d : f32
    linalg.yield %v : f32
  } -> tensor<5x3x16xf32>
  return %r : tensor<5x3x16xf32>
}

// -----

// A part of the concatenation is transposed by a copy.
#t = affine_map<(d0, d1) -> (d1, d0)>
#m = affine_map<(d0, d1) -> (d0, d1)>
#j = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @concatenation
// CHECK-SAME: %[[X:.+]]: tensor<6x16xf32>, %[[I:.+]]: tensor<9xi64>, %[[B:.+]]: tensor<8x9xf32>
// CHECK: %[[E:.+]] = tensor.empty() : tensor<9x24xf32>
// CHECK: %[[G:.+]] = linalg.generic {{.*}} ins(%[[I]] : tensor<9xi64>)
// CHECK: tensor.extract %[[X]]
// CHECK: %[[C:.+]] = tensor.insert_slice %[[G]] into %[[E]][0, 0] [9, 16]
// CHECK: %[[D:.+]] = linalg.generic {{.*}} ins(%[[B]] : tensor<8x9xf32>)
// CHECK: %[[W:.+]] = tensor.insert_slice %[[D]] into %[[C]][0, 16] [9, 8]
// CHECK: return %[[W]]
func.func @concatenation(%x: tensor<6x16xf32>, %i: tensor<9xi64>, %b: tensor<8x9xf32>) -> tensor<9x24xf32> {
  %e = tensor.empty() : tensor<16x6xf32>
  %t = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf32>) outs(%e : tensor<16x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<16x6xf32>
  %e1 = tensor.empty() : tensor<16x9xf32>
  %g = linalg.generic {indexing_maps = [#j, #m], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<9xi64>) outs(%e1 : tensor<16x9xf32>) {
  ^bb0(%n: i64, %o: f32):
    %c = linalg.index 0 : index
    %p = arith.index_cast %n : i64 to index
    %v = tensor.extract %t[%c, %p] : tensor<16x6xf32>
    linalg.yield %v : f32
  } -> tensor<16x9xf32>
  %w = tensor.empty() : tensor<24x9xf32>
  %c0 = tensor.insert_slice %g into %w[0, 0] [16, 9] [1, 1] : tensor<16x9xf32> into tensor<24x9xf32>
  %c1 = tensor.insert_slice %b into %c0[16, 0] [8, 9] [1, 1] : tensor<8x9xf32> into tensor<24x9xf32>
  %e3 = tensor.empty() : tensor<9x24xf32>
  %r = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%c1 : tensor<24x9xf32>) outs(%e3 : tensor<9x24xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<9x24xf32>
  return %r : tensor<9x24xf32>
}

// -----

// Copies would transpose most of it.
#t = affine_map<(d0, d1) -> (d1, d0)>
#m = affine_map<(d0, d1) -> (d0, d1)>
#j = affine_map<(d0, d1) -> (d1)>
// WHY-LABEL: function @no_rewrite_small_part
// WHY: transposed_gather_rewrite
// WHY-NEXT: most of the concatenation has no transposed gather
// CHECK-LABEL: func.func @no_rewrite_small_part
// CHECK: tensor.insert_slice {{.*}} into tensor<40x9xf32>
// CHECK: tensor.insert_slice {{.*}} into tensor<40x9xf32>
func.func @no_rewrite_small_part(%x: tensor<6x16xf32>, %i: tensor<9xi64>, %b: tensor<24x9xf32>) -> tensor<9x40xf32> {
  %e = tensor.empty() : tensor<16x6xf32>
  %t = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf32>) outs(%e : tensor<16x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<16x6xf32>
  %e1 = tensor.empty() : tensor<16x9xf32>
  %g = linalg.generic {indexing_maps = [#j, #m], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<9xi64>) outs(%e1 : tensor<16x9xf32>) {
  ^bb0(%n: i64, %o: f32):
    %c = linalg.index 0 : index
    %p = arith.index_cast %n : i64 to index
    %v = tensor.extract %t[%c, %p] : tensor<16x6xf32>
    linalg.yield %v : f32
  } -> tensor<16x9xf32>
  %w = tensor.empty() : tensor<40x9xf32>
  %c0 = tensor.insert_slice %g into %w[0, 0] [16, 9] [1, 1] : tensor<16x9xf32> into tensor<40x9xf32>
  %c1 = tensor.insert_slice %b into %c0[16, 0] [24, 9] [1, 1] : tensor<24x9xf32> into tensor<40x9xf32>
  %e3 = tensor.empty() : tensor<9x40xf32>
  %r = linalg.generic {indexing_maps = [#t, #m], iterator_types = ["parallel", "parallel"]} ins(%c1 : tensor<40x9xf32>) outs(%e3 : tensor<9x40xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<9x40xf32>
  return %r : tensor<9x40xf32>
}
