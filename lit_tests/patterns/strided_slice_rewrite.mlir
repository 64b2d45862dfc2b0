// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=strided_slice_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=strided_slice_rewrite --disable-pass=strided_slice_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=strided_slice_rewrite --disable-feature=kernels | FileCheck %s --check-prefix=OFF

#x = affine_map<(m, n, f, k) -> (k, m, n)>
#w = affine_map<(m, n, f, k) -> (f, k)>
#o = affine_map<(m, n, f, k) -> (m, n, f)>

// The slice drops the dimension of one element.
// CHECK-DAG: #[[X:.+]] = affine_map<(d0, d1, d2, d3) -> (d3, d0 * 2, d1 * 3)>
// CHECK-LABEL: func.func @every_second_and_third_pixel
// CHECK-SAME: %[[IMAGE:.+]]: tensor<1x8x10x12xf32>, %[[W:.+]]: tensor<16x8xf32>
// CHECK: %[[C:.+]] = tensor.collapse_shape %[[IMAGE]] {{\[\[}}0, 1], [2], [3]]
// CHECK: linalg.generic {indexing_maps = [#[[X]], {{.*}}} ins(%[[C]], %[[W]] : tensor<8x10x12xf32>, tensor<16x8xf32>)
// OFF-LABEL: func.func @every_second_and_third_pixel
// OFF: tensor.extract_slice
func.func @every_second_and_third_pixel(%x: tensor<1x8x10x12xf32>, %w: tensor<16x8xf32>) -> tensor<5x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x4x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<5x4x16xf32>) -> tensor<5x4x16xf32>
  %s = tensor.extract_slice %x[0, 0, 0, 0] [1, 8, 5, 4] [1, 1, 2, 3] : tensor<1x8x10x12xf32> to tensor<8x5x4xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%s, %w : tensor<8x5x4xf32>, tensor<16x8xf32>) outs(%z : tensor<5x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %t, %p : f32
    linalg.yield %q : f32
  } -> tensor<5x4x16xf32>
  return %c : tensor<5x4x16xf32>
}

// -----

// Another op reads the slice, which is in memory anyway.
#x = affine_map<(m, f, k) -> (m, k)>
#w = affine_map<(m, f, k) -> (f, k)>
#o = affine_map<(m, f, k) -> (m, f)>
// CHECK-LABEL: func.func @no_rewrite_other_user
// CHECK: %[[S:.+]] = tensor.extract_slice
// CHECK: linalg.generic {{.*}} ins(%[[S]],
// CHECK: return {{.*}}, %[[S]]
func.func @no_rewrite_other_user(%x: tensor<10x8xf32>, %w: tensor<16x8xf32>) -> (tensor<5x16xf32>, tensor<5x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<5x16xf32>) -> tensor<5x16xf32>
  %s = tensor.extract_slice %x[0, 0] [5, 8] [2, 1] : tensor<10x8xf32> to tensor<5x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %w : tensor<5x8xf32>, tensor<16x8xf32>) outs(%z : tensor<5x16xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %t, %p : f32
    linalg.yield %q : f32
  } -> tensor<5x16xf32>
  return %c, %s : tensor<5x16xf32>, tensor<5x8xf32>
}

// -----

// A convolution begins with the first pixel; adjacent elements are no strided slice.
#x = affine_map<(m, f, k) -> (m, k)>
#w = affine_map<(m, f, k) -> (f, k)>
#o = affine_map<(m, f, k) -> (m, f)>
// CHECK-LABEL: func.func @no_rewrite_offset
// CHECK: %[[S:.+]] = tensor.extract_slice
// CHECK: linalg.generic {{.*}} ins(%[[S]],
// CHECK-LABEL: func.func @no_rewrite_unit_stride
// CHECK: %[[S:.+]] = tensor.extract_slice
// CHECK: linalg.generic {{.*}} ins(%[[S]],
func.func @no_rewrite_offset(%x: tensor<10x8xf32>, %w: tensor<16x8xf32>) -> tensor<5x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<5x16xf32>) -> tensor<5x16xf32>
  %s = tensor.extract_slice %x[1, 0] [5, 8] [2, 1] : tensor<10x8xf32> to tensor<5x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %w : tensor<5x8xf32>, tensor<16x8xf32>) outs(%z : tensor<5x16xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %t, %p : f32
    linalg.yield %q : f32
  } -> tensor<5x16xf32>
  return %c : tensor<5x16xf32>
}
func.func @no_rewrite_unit_stride(%x: tensor<10x8xf32>, %w: tensor<16x8xf32>) -> tensor<5x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<5x16xf32>) -> tensor<5x16xf32>
  %s = tensor.extract_slice %x[0, 0] [5, 8] [1, 1] : tensor<10x8xf32> to tensor<5x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #o], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %w : tensor<5x8xf32>, tensor<16x8xf32>) outs(%z : tensor<5x16xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %t, %p : f32
    linalg.yield %q : f32
  } -> tensor<5x16xf32>
  return %c : tensor<5x16xf32>
}
