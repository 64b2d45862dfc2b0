// RUN: %mlirfuse-opt %s --split-input-file --pipeline=sliced_transpose_rewrite | FileCheck %s

#r = affine_map<(p, m, d) -> (m, p, d)>
#w = affine_map<(p, m, d) -> (p, m, d)>

// CHECK-LABEL: @projection
// CHECK-SAME: %[[X:.*]]: tensor<6x3x4xf16>
// CHECK-NOT: linalg.generic
// CHECK: %[[Q:.*]] = tensor.extract_slice %[[X]][0, 0, 0] [6, 1, 4] [1, 1, 1]
// CHECK: %[[QC:.*]] = tensor.collapse_shape %[[Q]] {{\[\[0, 1\], \[2\]\]}}
// CHECK: %[[K:.*]] = tensor.extract_slice %[[X]][2, 2, 1] [4, 1, 2] [1, 1, 1]
// CHECK: %[[KC:.*]] = tensor.collapse_shape %[[K]] {{\[\[0, 1\], \[2\]\]}}
// CHECK: return %[[QC]], %[[KC]]
func.func @projection(%x: tensor<6x3x4xf16>) -> (tensor<6x4xf16>, tensor<4x2xf16>) {
  %e = tensor.empty() : tensor<3x6x4xf16>
  %t = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x3x4xf16>) outs(%e : tensor<3x6x4xf16>) {
  ^bb0(%a: f16, %o: f16):
    linalg.yield %a : f16
  } -> tensor<3x6x4xf16>
  %q = tensor.extract_slice %t[0, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<3x6x4xf16> to tensor<6x4xf16>
  %k = tensor.extract_slice %t[2, 2, 1] [1, 4, 2] [1, 1, 1] : tensor<3x6x4xf16> to tensor<4x2xf16>
  return %q, %k : tensor<6x4xf16>, tensor<4x2xf16>
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
  return %q : tensor<6x2x4xf32>
}

// -----

#r = affine_map<(p, m, d) -> (m, p, d)>
#w = affine_map<(p, m, d) -> (p, m, d)>

// A slice keeps all dimensions, or it is unclear which one it drops, or the whole is returned.
// CHECK-LABEL: @no_rewrite
// CHECK-COUNT-3: linalg.generic
func.func @no_rewrite(%x: tensor<6x3x4xf32>, %u: tensor<6x3x1xf32>) -> (tensor<1x6x4xf32>, tensor<6x1xf32>, tensor<6x4xf32>, tensor<3x6x4xf32>) {
  %e = tensor.empty() : tensor<3x6x4xf32>
  %t = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x3x4xf32>) outs(%e : tensor<3x6x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x6x4xf32>
  %kept = tensor.extract_slice %t[1, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<3x6x4xf32> to tensor<1x6x4xf32>
  %f = tensor.empty() : tensor<3x6x1xf32>
  %v = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%u : tensor<6x3x1xf32>) outs(%f : tensor<3x6x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x6x1xf32>
  %unclear = tensor.extract_slice %v[1, 0, 0] [1, 6, 1] [1, 1, 1] : tensor<3x6x1xf32> to tensor<6x1xf32>
  %s = linalg.generic {indexing_maps = [#r, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<6x3x4xf32>) outs(%e : tensor<3x6x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x6x4xf32>
  %whole = tensor.extract_slice %s[1, 0, 0] [1, 6, 4] [1, 1, 1] : tensor<3x6x4xf32> to tensor<6x4xf32>
  return %kept, %unclear, %whole, %s : tensor<1x6x4xf32>, tensor<6x1xf32>, tensor<6x4xf32>, tensor<3x6x4xf32>
}
