// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=pooling_fusion | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=pooling_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=pooling_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: flow.dispatch.region

// The padding and the epilogue of the maxima are fused too.
// CHECK-LABEL: @padding_maximum_and_factor
// CHECK-SAME: %[[X:.*]]: tensor<2x8x8x16xf32>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[P:.*]] = tensor.pad %[[X]]
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[P]],
// CHECK: arith.maximumf
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[D]]
// CHECK: return %[[Y]]
#x = affine_map<(b, h, w, c, i, j) -> (b, h * 2 + i, w * 2 + j, c)>
#k = affine_map<(b, h, w, c, i, j) -> (i, j)>
#y = affine_map<(b, h, w, c, i, j) -> (b, h, w, c)>
#id = affine_map<(b, h, w, c) -> (b, h, w, c)>
func.func @padding_maximum_and_factor(%x: tensor<2x8x8x16xf32>) -> tensor<2x4x4x16xf32> {
  %low = arith.constant 0xFF800000 : f32
  %half = arith.constant 0.5 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %low : f32
  } : tensor<2x8x8x16xf32> to tensor<2x10x10x16xf32>
  %k = tensor.empty() : tensor<3x3xf32>
  %e = tensor.empty() : tensor<2x4x4x16xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<2x4x4x16xf32>) -> tensor<2x4x4x16xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %k : tensor<2x10x10x16xf32>, tensor<3x3xf32>) outs(%f : tensor<2x4x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.maximumf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x4x4x16xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<2x4x4x16xf32>) outs(%e : tensor<2x4x4x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.mulf %a, %half : f32
    linalg.yield %t : f32
  } -> tensor<2x4x4x16xf32>
  return %d : tensor<2x4x4x16xf32>
}

// -----

// The padded image has other users: it is not fused.
// CHECK-LABEL: @padding_read_elsewhere
// CHECK: %[[P:.*]] = tensor.pad
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK-NOT: tensor.pad
// CHECK: linalg.generic {{.*}} ins(%[[P]],
// CHECK: return %[[Y]], %[[P]]
#x = affine_map<(b, c, h, w, i, j) -> (b, c, h + i, w + j)>
#k = affine_map<(b, c, h, w, i, j) -> (i, j)>
#y = affine_map<(b, c, h, w, i, j) -> (b, c, h, w)>
func.func @padding_read_elsewhere(%x: tensor<2x16x8x8xf16>) -> (tensor<2x16x8x8xf16>, tensor<2x16x10x10xf16>) {
  %low = arith.constant 0xFC00 : f16
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %low : f16
  } : tensor<2x16x8x8xf16> to tensor<2x16x10x10xf16>
  %k = tensor.empty() : tensor<3x3xf16>
  %e = tensor.empty() : tensor<2x16x8x8xf16>
  %f = linalg.fill ins(%low : f16) outs(%e : tensor<2x16x8x8xf16>) -> tensor<2x16x8x8xf16>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %k : tensor<2x16x10x10xf16>, tensor<3x3xf16>) outs(%f : tensor<2x16x8x8xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %t = arith.maximumf %o, %a : f16
    linalg.yield %t : f16
  } -> tensor<2x16x8x8xf16>
  return %c, %p : tensor<2x16x8x8xf16>, tensor<2x16x10x10xf16>
}

// -----

// A sum of bf16, accumulated in f32.
// CHECK-LABEL: @sums_of_bf16
// CHECK: flow.dispatch.region
// CHECK: arith.extf
// CHECK: arith.addf
#x = affine_map<(b, h, c, i) -> (b, h * 2 + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @sums_of_bf16(%x: tensor<2x8x16xbf16>) -> tensor<2x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %k = tensor.empty() : tensor<2xbf16>
  %e = tensor.empty() : tensor<2x4x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %k : tensor<2x8x16xbf16>, tensor<2xbf16>) outs(%f : tensor<2x4x16xf32>) {
  ^bb0(%a: bf16, %b: bf16, %o: f32):
    %v = arith.extf %a : bf16 to f32
    %t = arith.addf %o, %v : f32
    linalg.yield %t : f32
  } -> tensor<2x4x16xf32>
  return %c : tensor<2x4x16xf32>
}

// -----

// The values of the window are read: a depthwise convolution, no pooling.
// CHECK-LABEL: @no_fusion_of_a_filter
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#x = affine_map<(b, h, c, i) -> (b, h + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @no_fusion_of_a_filter(%x: tensor<2x8x16xf32>, %k: tensor<3xf32>) -> tensor<2x6x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %k : tensor<2x8x16xf32>, tensor<3xf32>) outs(%f : tensor<2x6x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.maximumf %a, %b : f32
    %t = arith.addf %o, %v : f32
    linalg.yield %t : f32
  } -> tensor<2x6x16xf32>
  return %c : tensor<2x6x16xf32>
}

// -----

// Integers have no kernel.
// CHECK-LABEL: @no_fusion_of_integers
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#x = affine_map<(b, h, c, i) -> (b, h + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @no_fusion_of_integers(%x: tensor<2x8x16xi8>, %s: tensor<2x6x16xi8>) -> tensor<2x6x16xi8> {
  %k = tensor.empty() : tensor<3xi8>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %k : tensor<2x8x16xi8>, tensor<3xi8>) outs(%s : tensor<2x6x16xi8>) {
  ^bb0(%a: i8, %b: i8, %o: i8):
    %t = arith.maxsi %o, %a : i8
    linalg.yield %t : i8
  } -> tensor<2x6x16xi8>
  return %c : tensor<2x6x16xi8>
}

// -----

// The cast of the image to f32 is fused.
// CHECK-LABEL: @cast_image
// CHECK: flow.dispatch.region
// CHECK: %[[F:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK: %[[P:.*]] = tensor.pad %[[F]]
// CHECK: linalg.generic {{.*}} ins(%[[P]],
#x = affine_map<(b, h, c, i) -> (b, h + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
#id = affine_map<(b, h, c) -> (b, h, c)>
func.func @cast_image(%x: tensor<2x8x16xf16>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %edge = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x8x16xf16>) outs(%e : tensor<2x8x16xf32>) {
  ^bb0(%a: f16, %o: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  } -> tensor<2x8x16xf32>
  %p = tensor.pad %f low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %edge : f32
  } : tensor<2x8x16xf32> to tensor<2x10x16xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %k = tensor.empty() : tensor<3xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %k : tensor<2x10x16xf32>, tensor<3xf32>) outs(%s : tensor<2x8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x8x16xf32>
  return %c : tensor<2x8x16xf32>
}

// -----

// The padded value is none of f16: it is chosen behind the cast.
// CHECK-LABEL: @cast_of_another_padding
// CHECK: flow.dispatch.region
// CHECK: %[[F:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK: tensor.pad %[[F]]
#x = affine_map<(b, h, c, i) -> (b, h + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
#id = affine_map<(b, h, c) -> (b, h, c)>
func.func @cast_of_another_padding(%x: tensor<2x8x16xf16>) -> tensor<2x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %edge = arith.constant 1.0e30 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x8x16xf16>) outs(%e : tensor<2x8x16xf32>) {
  ^bb0(%a: f16, %o: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  } -> tensor<2x8x16xf32>
  %p = tensor.pad %f low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %edge : f32
  } : tensor<2x8x16xf32> to tensor<2x10x16xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %k = tensor.empty() : tensor<3xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %k : tensor<2x10x16xf32>, tensor<3xf32>) outs(%s : tensor<2x8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x8x16xf32>
  return %c : tensor<2x8x16xf32>
}
