// RUN: %mlirfuse-opt %s --split-input-file --pipeline=sliced_transpose_rewrite | FileCheck %s

#r = affine_map<(p, m, d) -> (m, p, d)>
#w = affine_map<(p, m, d) -> (p, m, d)>

// CHECK-LABEL: @projection
// CHECK-SAME: %[[X:.*]]: tensor<6x3x4xf16>
// CHECK: %[[Q:.*]] = tensor.extract_slice %[[X]][0, 0, 0] [6, 1, 4] [1, 1, 1]
// CHECK: %[[QC:.*]] = tensor.collapse_shape %[[Q]] {{\[\[0, 1\], \[2\]\]}}
// CHECK: %[[K:.*]] = tensor.extract_slice %[[X]][2, 2, 1] [4, 1, 2] [1, 1, 1]
// CHECK: %[[KC:.*]] = tensor.collapse_shape %[[K]] {{\[\[0, 1\], \[2\]\]}}
// CHECK: linalg.generic {{.*}} ins(%[[QC]] :
// CHECK: linalg.generic {{.*}} ins(%[[KC]] :
func.func @projection(%x: tensor<6x3x4xf16>) -> (tensor<6x4xf16>, tensor<4x2xf16>) {
  %e = tensor.empty() : tensor<3x6x4xf16>
  %t = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x3x4xf16>) outs(%e : tensor<3x6x4xf16>) {
  ^bb0(%a: f16, %o: f16):
    linalg.yield %a : f16
  } -> tensor<3x6x4xf16>
  %q = tensor.extract_slice %t[0, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<3x6x4xf16> to tensor<6x4xf16>
  %k = tensor.extract_slice %t[2, 2, 1] [1, 4, 2] [1, 1, 1] : tensor<3x6x4xf16> to tensor<4x2xf16>
  %qe = tensor.empty() : tensor<6x4xf16>
  %qy = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<6x4xf16>) outs(%qe : tensor<6x4xf16>) {
  ^bb0(%i: f16, %o: f16):
    %n = math.exp %i : f16
    linalg.yield %n : f16
  } -> tensor<6x4xf16>
  %ke = tensor.empty() : tensor<4x2xf16>
  %ky = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%k : tensor<4x2xf16>) outs(%ke : tensor<4x2xf16>) {
  ^bb0(%i: f16, %o: f16):
    %n = math.exp %i : f16
    linalg.yield %n : f16
  } -> tensor<4x2xf16>
  return %qy, %ky : tensor<6x4xf16>, tensor<4x2xf16>
}

// -----

#r = affine_map<(p, m, b, d) -> (b, m, p, d)>
#w = affine_map<(p, m, b, d) -> (p, m, b, d)>

// The slice is still transposed.
// CHECK-DAG: #[[T:.*]] = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
// CHECK-LABEL: @transposed
// CHECK-SAME: %[[X:.*]]: tensor<2x6x3x4xf32>
// CHECK: tensor.extract_slice %[[X]][0, 0, 1, 0] [2, 6, 1, 4]
// CHECK: linalg.generic {indexing_maps = [#[[T]], #{{.*}}]{{.*}} ins(%{{.*}} : tensor<2x6x4xf32>) outs(%{{.*}} : tensor<6x2x4xf32>)
func.func @transposed(%x: tensor<2x6x3x4xf32>) -> tensor<6x2x4xf32> {
  %e = tensor.empty() : tensor<3x6x2x4xf32>
  %t = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x6x3x4xf32>) outs(%e : tensor<3x6x2x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x6x2x4xf32>
  %q = tensor.extract_slice %t[1, 0, 0, 0] [1, 6, 2, 4] [1, 1, 1, 1] : tensor<3x6x2x4xf32> to tensor<6x2x4xf32>
  %qe = tensor.empty() : tensor<6x2x4xf32>
  %qy = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q : tensor<6x2x4xf32>) outs(%qe : tensor<6x2x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = math.exp %i : f32
    linalg.yield %n : f32
  } -> tensor<6x2x4xf32>
  return %qy : tensor<6x2x4xf32>
}

// -----

#r = affine_map<(b, h, m, d) -> (m, b, h, d)>
#w = affine_map<(b, h, m, d) -> (b, h, m, d)>

// Parts of heads, of a batch of one: its dimension goes before the slice.
// CHECK-LABEL: @heads
// CHECK-SAME: %[[X:.*]]: tensor<6x3x8xf32>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[X]][0, 0, 4] [6, 3, 2] [1, 1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[S]] : tensor<6x3x2xf32>) outs(%{{.*}} : tensor<3x6x2xf32>)
func.func @heads(%x: tensor<6x3x8xf32>) -> tensor<3x6x2xf32> {
  %u = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [6, 1, 3, 8] : tensor<6x3x8xf32> into tensor<6x1x3x8xf32>
  %e = tensor.empty() : tensor<1x3x6x8xf32>
  %t = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%u : tensor<6x1x3x8xf32>) outs(%e : tensor<1x3x6x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x3x6x8xf32>
  %q = tensor.extract_slice %t[0, 0, 0, 4] [1, 3, 6, 2] [1, 1, 1, 1] : tensor<1x3x6x8xf32> to tensor<3x6x2xf32>
  %qe = tensor.empty() : tensor<3x6x2xf32>
  %qy = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q : tensor<3x6x2xf32>) outs(%qe : tensor<3x6x2xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = math.exp %i : f32
    linalg.yield %n : f32
  } -> tensor<3x6x2xf32>
  return %qy : tensor<3x6x2xf32>
}

// -----

// A contraction reads the rows of a slice.
// CHECK-LABEL: @no_rewrite_contraction
// CHECK: linalg.generic
// CHECK: tensor.extract_slice
func.func @no_rewrite_contraction(%x: tensor<6x3x4xf32>, %w: tensor<4x5xf32>, %z: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %e = tensor.empty() : tensor<3x6x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(p, m, d) -> (m, p, d)>, affine_map<(p, m, d) -> (p, m, d)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x3x4xf32>) outs(%e : tensor<3x6x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x6x4xf32>
  %q = tensor.extract_slice %t[1, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<3x6x4xf32> to tensor<6x4xf32>
  %y = linalg.matmul ins(%q, %w : tensor<6x4xf32>, tensor<4x5xf32>) outs(%z : tensor<6x5xf32>) -> tensor<6x5xf32>
  return %y : tensor<6x5xf32>
}

// -----

#r = affine_map<(d, m, p) -> (m, p, d)>
#w = affine_map<(d, m, p) -> (d, m, p)>

// A slice takes no index and the last dimension moves, or it is unclear which one a slice drops, or
// the whole is returned.
// CHECK-LABEL: @no_rewrite
// CHECK-COUNT-3: linalg.generic
func.func @no_rewrite(%x: tensor<6x3x4xf32>, %u: tensor<6x1x4xf32>) -> (tensor<1x6x3xf32>, tensor<6x1xf32>, tensor<6x3xf32>, tensor<4x6x3xf32>) {
  %e = tensor.empty() : tensor<4x6x3xf32>
  %t = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x3x4xf32>) outs(%e : tensor<4x6x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x6x3xf32>
  %kept = tensor.extract_slice %t[1, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<4x6x3xf32> to tensor<1x6x3xf32>
  %f = tensor.empty() : tensor<4x6x1xf32>
  %v = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%u : tensor<6x1x4xf32>) outs(%f : tensor<4x6x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x6x1xf32>
  %unclear = tensor.extract_slice %v[1, 0, 0] [1, 6, 1] [1, 1, 1] : tensor<4x6x1xf32> to tensor<6x1xf32>
  %s = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x3x4xf32>) outs(%e : tensor<4x6x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x6x3xf32>
  %whole = tensor.extract_slice %s[1, 0, 0] [1, 6, 3] [1, 1, 1] : tensor<4x6x3xf32> to tensor<6x3xf32>
  return %kept, %unclear, %whole, %s : tensor<1x6x3xf32>, tensor<6x1xf32>, tensor<6x3xf32>, tensor<4x6x3xf32>
}
