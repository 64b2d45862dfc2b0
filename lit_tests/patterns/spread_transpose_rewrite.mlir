// RUN: %mlirfuse-opt %s --split-input-file --pipeline=spread_transpose_rewrite | FileCheck %s

#s = affine_map<(h, w, n, c) -> (n, c, h, w)>
#t = affine_map<(h, w, n, c) -> (h, w, n, c)>

// A part without the dimension of size one, which the reshape drops.
// CHECK-LABEL: @one_image
// CHECK-SAME: %[[X:.*]]: tensor<4x3x5xf32>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4x3x5xf32>) outs({{.*}} : tensor<3x5x4xf32>)
// CHECK: %[[Z:.*]] = linalg.fill {{.*}} -> tensor<7x12x4xf32>
// CHECK: %[[Y:.*]] = tensor.insert_slice %[[T]] into %[[Z]][1, 2, 0] [3, 5, 4] [2, 2, 1]
// CHECK: return %[[Y]]
func.func @one_image(%x: tensor<4x3x5xf32>) -> tensor<7x12x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x7x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x7x12xf32>) -> tensor<1x4x7x12xf32>
  %i = tensor.insert_slice %x into %z[0, 0, 1, 2] [1, 4, 3, 5] [1, 1, 2, 2] : tensor<4x3x5xf32> into tensor<1x4x7x12xf32>
  %f = tensor.empty() : tensor<7x12x1x4xf32>
  %c = linalg.generic {indexing_maps = [#s, #t], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%i : tensor<1x4x7x12xf32>) outs(%f : tensor<7x12x1x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<7x12x1x4xf32>
  %y = tensor.collapse_shape %c [[0], [1], [2, 3]] : tensor<7x12x1x4xf32> into tensor<7x12x4xf32>
  return %y : tensor<7x12x4xf32>
}

// -----

#s = affine_map<(n, h, w, c) -> (n, c, h, w)>
#t = affine_map<(n, h, w, c) -> (n, h, w, c)>

// CHECK-LABEL: @several_images
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<2x3x5x4xf16>)
// CHECK: tensor.insert_slice {{.*}}[0, 1, 0, 0] [2, 3, 5, 4] [1, 2, 3, 1]
func.func @several_images(%x: tensor<2x4x3x5xf16>) -> tensor<2x7x13x4xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<2x4x7x13xf16>
  %z = linalg.fill ins(%zero : f16) outs(%e : tensor<2x4x7x13xf16>) -> tensor<2x4x7x13xf16>
  %i = tensor.insert_slice %x into %z[0, 0, 1, 0] [2, 4, 3, 5] [1, 1, 2, 3] : tensor<2x4x3x5xf16> into tensor<2x4x7x13xf16>
  %f = tensor.empty() : tensor<2x7x13x4xf16>
  %c = linalg.generic {indexing_maps = [#s, #t], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%i : tensor<2x4x7x13xf16>) outs(%f : tensor<2x7x13x4xf16>) {
  ^bb0(%a: f16, %o: f16):
    linalg.yield %a : f16
  } -> tensor<2x7x13x4xf16>
  return %c : tensor<2x7x13x4xf16>
}

// -----

#s = affine_map<(i, j) -> (j, i)>
#t = affine_map<(i, j) -> (i, j)>

// Ones between the elements stay where they are, and so does a padding, which is no larger.
// CHECK-LABEL: @no_fusion_ones
// CHECK: tensor.insert_slice
// CHECK: linalg.generic
// CHECK: tensor.insert_slice
// CHECK: linalg.generic
func.func @no_fusion_ones(%x: tensor<4x3xf32>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x5xf32>
  %z = linalg.fill ins(%one : f32) outs(%e : tensor<8x5xf32>) -> tensor<8x5xf32>
  %i = tensor.insert_slice %x into %z[0, 0] [4, 3] [2, 2] : tensor<4x3xf32> into tensor<8x5xf32>
  %f = tensor.empty() : tensor<5x8xf32>
  %c = linalg.generic {indexing_maps = [#s, #t], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<8x5xf32>) outs(%f : tensor<5x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<5x8xf32>
  %y = linalg.fill ins(%zero : f32) outs(%e : tensor<8x5xf32>) -> tensor<8x5xf32>
  %j = tensor.insert_slice %x into %y[1, 1] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<8x5xf32>
  %d = linalg.generic {indexing_maps = [#s, #t], iterator_types = ["parallel", "parallel"]} ins(%j : tensor<8x5xf32>) outs(%f : tensor<5x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<5x8xf32>
  return %c, %d : tensor<5x8xf32>, tensor<5x8xf32>
}
