// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=channels_last_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=channels_last_rewrite | FileCheck %s --check-prefix=OFF

// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d2 + d5, d3 + d6, d4)>
// CHECK-LABEL: @padded
// CHECK-SAME: %[[X:.*]]: tensor<8x64x256x256xf32>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[X]] : {{.*}} outs(%{{.*}} : tensor<8x256x256x64xf32>)
// CHECK: %[[P:.*]] = tensor.pad %[[T]] low[0, 0, 1, 0] high[0, 2, 1, 0]
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], {{.*}} ins(%[[P]], {{.*}} outs(%{{.*}} : tensor<8x128x256x256xf32>)
// OFF-LABEL: @padded
// OFF: tensor.pad %{{.*}} low[0, 0, 0, 1] high[0, 0, 2, 1]
#image = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
func.func @padded(%x: tensor<8x64x256x256xf32>, %w: tensor<128x64x3x3xf32>) -> tensor<8x128x256x256xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 0, 1] high[0, 0, 2, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<8x64x256x256xf32> to tensor<8x64x258x258xf32>
  %e = tensor.empty() : tensor<8x128x256x256xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x128x256x256xf32>) -> tensor<8x128x256x256xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<8x64x258x258xf32>, tensor<128x64x3x3xf32>) outs(%z : tensor<8x128x256x256xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8x128x256x256xf32>
  return %y : tensor<8x128x256x256xf32>
}

// -----

// A small image is read as it is: the copy would take longer than it saves.
// CHECK-LABEL: @small
// CHECK-SAME: %[[X:.*]]: tensor<1x16x8x8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]],
// OFF-LABEL: @small
#image = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
func.func @small(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x3x3xf32>) -> tensor<1x16x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x6x6xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) outs(%z : tensor<1x16x6x6xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x16x6x6xf32>
  return %y : tensor<1x16x6x6xf32>
}

// -----

// Few channels: a block of K spans the taps, as the rows of the filter do.
// CHECK-LABEL: @few_channels
// CHECK-SAME: %[[X:.*]]: tensor<64x3x256x256xf16>
// CHECK: linalg.generic {{.*}} ins(%[[X]],
// OFF-LABEL: @few_channels
#image = affine_map<(n, f, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, f, h, w, c, i, j) -> (f, c, i, j)>
#out = affine_map<(n, f, h, w, c, i, j) -> (n, f, h, w)>
func.func @few_channels(%x: tensor<64x3x256x256xf16>, %w: tensor<64x3x3x3xf16>) -> tensor<64x64x254x254xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<64x64x254x254xf16>
  %z = linalg.fill ins(%zero : f16) outs(%e : tensor<64x64x254x254xf16>) -> tensor<64x64x254x254xf16>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<64x3x256x256xf16>, tensor<64x3x3x3xf16>) outs(%z : tensor<64x64x254x254xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %m = arith.mulf %i, %j : f16
    %s = arith.addf %o, %m : f16
    linalg.yield %s : f16
  } -> tensor<64x64x254x254xf16>
  return %y : tensor<64x64x254x254xf16>
}
