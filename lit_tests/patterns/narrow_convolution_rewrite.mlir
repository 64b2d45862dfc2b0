// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v4 --pipeline=narrow_convolution_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v4 --pipeline=narrow_convolution_rewrite --disable-pass=narrow_convolution_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=narrow_convolution_rewrite | FileCheck %s --check-prefix=OFF
// OFF-NOT: tensor.extract_slice

// A padded image, which a transpose made channels-last: each pixel is multiplied once by all taps.
#nchw = affine_map<(h, w, c) -> (c, h, w)>
#nhwc = affine_map<(h, w, c) -> (h, w, c)>
#image = affine_map<(h, w, f, i, j, c) -> (h + i, w + j, c)>
#filter = affine_map<(h, w, f, i, j, c) -> (f, c, i, j)>
#result = affine_map<(h, w, f, i, j, c) -> (h, w, f)>
// CHECK-LABEL: @padded
// CHECK-SAME: %[[X:.*]]: tensor<64x8x8xf32>, %[[W:.*]]: tensor<3x64x3x3xf32>
// CHECK-DAG: %[[F:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<3x64x3x3xf32>) outs(%{{.*}} : tensor<3x3x3x64xf32>)
// CHECK-DAG: %[[R:.*]] = tensor.collapse_shape %[[F]] {{\[\[}}0, 1, 2], [3]] : tensor<3x3x3x64xf32> into tensor<27x64xf32>
// CHECK-DAG: %[[P:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0], [1, 2]] : tensor<64x8x8xf32> into tensor<64x64xf32>
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[R]] : tensor<64x64xf32>, tensor<27x64xf32>) outs(%{{.*}} : tensor<27x64xf32>)
// CHECK: %[[E:.*]] = tensor.expand_shape %[[Z]] {{\[\[}}0, 1], [2, 3]] output_shape [9, 3, 8, 8]
// CHECK: %[[I:.*]] = tensor.insert_slice %[[E]] into %{{.*}}[0, 0, 1, 1] [9, 3, 8, 8] [1, 1, 1, 1] : tensor<9x3x8x8xf32> into tensor<9x3x10x10xf32>
// CHECK: tensor.extract_slice %[[I]][0, 0, 0, 0] [1, 3, 8, 8] [1, 1, 1, 1] : tensor<9x3x10x10xf32> to tensor<3x8x8xf32>
// CHECK: tensor.extract_slice %[[I]][5, 0, 1, 2] [1, 3, 8, 8] [1, 1, 1, 1]
// CHECK: tensor.extract_slice %[[I]][8, 0, 2, 2] [1, 3, 8, 8] [1, 1, 1, 1]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel"]}
// CHECK-COUNT-8: arith.addf
// CHECK: -> tensor<8x8x3xf32>
// CHECK: return %[[Y]]
func.func @padded(%x: tensor<64x8x8xf32>, %w: tensor<3x64x3x3xf32>) -> tensor<8x8x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8x64xf32>
  %t = linalg.generic {indexing_maps = [#nchw, #nhwc], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<64x8x8xf32>) outs(%e : tensor<8x8x64xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x8x64xf32>
  %p = tensor.pad %t low[1, 1, 0] high[1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<8x8x64xf32> to tensor<10x10x64xf32>
  %r = tensor.empty() : tensor<8x8x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<8x8x3xf32>) -> tensor<8x8x3xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<10x10x64xf32>, tensor<3x64x3x3xf32>) outs(%z : tensor<8x8x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8x8x3xf32>
  return %y : tensor<8x8x3xf32>
}

// -----

// One output channel of a batch, taps two elements apart, accumulators that start from a tensor.
#image = affine_map<(n, h, i, c) -> (n, c, h + 2 * i)>
#filter = affine_map<(n, h, i, c) -> (c, i)>
#result = affine_map<(n, h, i, c) -> (n, h)>
// CHECK-LABEL: @batch
// CHECK-SAME: %[[X:.*]]: tensor<2x64x12xf16>, %{{.*}}: tensor<64x3xf16>, %[[B:.*]]: tensor<2x8xf32>
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<2x64x12xf16>, tensor<3x64xf16>) outs(%{{.*}} : tensor<2x3x12xf32>)
// CHECK: tensor.extract_slice %[[Z]][0, 2, 4] [2, 1, 8] [1, 1, 1] : tensor<2x3x12xf32> to tensor<2x8xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %[[B]] :
func.func @batch(%x: tensor<2x64x12xf16>, %w: tensor<64x3xf16>, %b: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x64x12xf16>, tensor<64x3xf16>) outs(%b : tensor<2x8xf32>) {
  ^bb0(%a: f16, %f: f16, %o: f32):
    %c = arith.extf %a : f16 to f32
    %d = arith.extf %f : f16 to f32
    %m = arith.mulf %c, %d : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// Every second pixel: three quarters of the products would not be read.
#image = affine_map<(h, i, c) -> (c, 2 * h + i)>
#filter = affine_map<(h, i, c) -> (c, i)>
#result = affine_map<(h, i, c) -> (h)>
// CHECK-LABEL: @no_rewrite_of_strides
// CHECK-NOT: tensor.extract_slice
func.func @no_rewrite_of_strides(%x: tensor<64x17xf32>, %w: tensor<64x3xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x, %w : tensor<64x17xf32>, tensor<64x3xf32>) outs(%b : tensor<8xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %m = arith.mulf %a, %f : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Few channels: the products would be as large as the image.
#image = affine_map<(h, i, c) -> (c, h + i)>
#filter = affine_map<(h, i, c) -> (c, i)>
#result = affine_map<(h, i, c) -> (h)>
// CHECK-LABEL: @no_rewrite_of_few_channels
// CHECK-NOT: tensor.extract_slice
func.func @no_rewrite_of_few_channels(%x: tensor<4x10xf32>, %w: tensor<4x3xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x10xf32>, tensor<4x3xf32>) outs(%b : tensor<8xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %m = arith.mulf %a, %f : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// The channels are innermost in memory, as an argument has them.
#image = affine_map<(h, i, c) -> (h + i, c)>
#filter = affine_map<(h, i, c) -> (c, i)>
#result = affine_map<(h, i, c) -> (h)>
// CHECK-LABEL: @no_rewrite_of_channels_last
// CHECK-NOT: tensor.extract_slice
func.func @no_rewrite_of_channels_last(%x: tensor<10x64xf32>, %w: tensor<64x3xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x, %w : tensor<10x64xf32>, tensor<64x3xf32>) outs(%b : tensor<8xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %m = arith.mulf %a, %f : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

#image = affine_map<(h, i, c) -> (c, h + i)>
#filter = affine_map<(h, i, c) -> (c, i)>
#result = affine_map<(h, i, c) -> (h)>
// CHECK-LABEL: @no_rewrite_of_integers
// CHECK-NOT: tensor.extract_slice
func.func @no_rewrite_of_integers(%x: tensor<64x10xi8>, %w: tensor<64x3xi8>, %b: tensor<8xi32>) -> tensor<8xi32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x, %w : tensor<64x10xi8>, tensor<64x3xi8>) outs(%b : tensor<8xi32>) {
  ^bb0(%a: i8, %f: i8, %o: i32):
    %c = arith.extsi %a : i8 to i32
    %d = arith.extsi %f : i8 to i32
    %m = arith.muli %c, %d : i32
    %s = arith.addi %o, %m : i32
    linalg.yield %s : i32
  } -> tensor<8xi32>
  return %y : tensor<8xi32>
}
