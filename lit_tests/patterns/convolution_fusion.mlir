// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=convolution_fusion | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=convolution_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=convolution_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: flow.dispatch.region

// The padding, the factor of each channel, and the user of the factor are fused too.
// CHECK-LABEL: @padding_scale_and_cast
// CHECK-SAME: %[[X:.*]]: tensor<2x12x10x16xf16>, %[[W:.*]]: tensor<3x16x24xf16>, %[[V:.*]]: tensor<24xf32>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[P:.*]] = tensor.pad %[[X]]
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[W]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[V]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[S]] :
// CHECK: flow.return %[[D]]
// CHECK: return %[[Y]]
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
#id = affine_map<(b, h, w, f) -> (b, h, w, f)>
#f = affine_map<(b, h, w, f) -> (f)>
#v = affine_map<(f) -> (f)>
func.func @padding_scale_and_cast(%x: tensor<2x12x10x16xf16>, %w: tensor<3x16x24xf16>, %v: tensor<24xf32>) -> tensor<2x12x10x24xf16> {
  %zero = arith.constant 0.0 : f32
  %edge = arith.constant 0.0 : f16
  %p = tensor.pad %x low[0, 1, 0, 0] high[0, 1, 0, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %edge : f16
  } : tensor<2x12x10x16xf16> to tensor<2x14x10x16xf16>
  %e = tensor.empty() : tensor<2x12x10x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x12x10x24xf32>) -> tensor<2x12x10x24xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x14x10x16xf16>, tensor<3x16x24xf16>) outs(%z : tensor<2x12x10x24xf32>) {
  ^bb0(%i: f16, %j: f16, %o: f32):
    %a = arith.extf %i : f16 to f32
    %b = arith.extf %j : f16 to f32
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x12x10x24xf32>
  %ev = tensor.empty() : tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%v : tensor<24xf32>) outs(%ev : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = math.rsqrt %i : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  %h = tensor.empty() : tensor<2x12x10x24xf16>
  %d = linalg.generic {indexing_maps = [#id, #f, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c, %s : tensor<2x12x10x24xf32>, tensor<24xf32>) outs(%h : tensor<2x12x10x24xf16>) {
  ^bb0(%i: f32, %j: f32, %o: f16):
    %m = arith.mulf %i, %j : f32
    %t = arith.truncf %m : f32 to f16
    linalg.yield %t : f16
  } -> tensor<2x12x10x24xf16>
  return %d : tensor<2x12x10x24xf16>
}

// -----

// The factor has other users: it is not fused.
// CHECK-LABEL: @factor_read_elsewhere_bf16
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%arg2 :
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[S]] :
// CHECK: flow.return %[[D]]
// CHECK: return %[[Y]], %[[S]]
#x = affine_map<(b, h, w, f, c) -> (b, h * 2, w * 2, c)>
#w = affine_map<(b, h, w, f, c) -> (c, f)>
#y = affine_map<(b, h, w, f, c) -> (b, h, w, f)>
#id = affine_map<(b, h, w, f) -> (b, h, w, f)>
#f = affine_map<(b, h, w, f) -> (f)>
#v = affine_map<(f) -> (f)>
func.func @factor_read_elsewhere_bf16(%x: tensor<2x11x9x16xbf16>, %w: tensor<16x24xbf16>, %v: tensor<24xf32>) -> (tensor<2x6x5x24xbf16>, tensor<24xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5x24xf32>) -> tensor<2x6x5x24xf32>
  %ev = tensor.empty() : tensor<24xf32>
  %s = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%v : tensor<24xf32>) outs(%ev : tensor<24xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = math.rsqrt %i : f32
    linalg.yield %t : f32
  } -> tensor<24xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x11x9x16xbf16>, tensor<16x24xbf16>) outs(%z : tensor<2x6x5x24xf32>) {
  ^bb0(%i: bf16, %j: bf16, %o: f32):
    %a = arith.extf %i : bf16 to f32
    %b = arith.extf %j : bf16 to f32
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x6x5x24xf32>
  %h = tensor.empty() : tensor<2x6x5x24xbf16>
  %d = linalg.generic {indexing_maps = [#id, #f, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c, %s : tensor<2x6x5x24xf32>, tensor<24xf32>) outs(%h : tensor<2x6x5x24xbf16>) {
  ^bb0(%i: f32, %j: f32, %o: bf16):
    %m = arith.mulf %i, %j : f32
    %t = arith.truncf %m : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<2x6x5x24xbf16>
  return %d, %s : tensor<2x6x5x24xbf16>, tensor<24xf32>
}

// -----

// A bias that permutes the result, and a ReLU after it.
// CHECK-LABEL: @channels_first_bias_and_relu_f32
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %arg2 :
// CHECK: %[[E:.*]] = linalg.generic {{.*}} ins(%[[D]] :
// CHECK: flow.return %[[E]]
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
#last = affine_map<(b, f, h, w) -> (b, h, w, f)>
#f = affine_map<(b, f, h, w) -> (f)>
#id = affine_map<(b, f, h, w) -> (b, f, h, w)>
func.func @channels_first_bias_and_relu_f32(%x: tensor<2x12x10x16xf32>, %w: tensor<3x16x24xf32>, %v: tensor<24xf32>) -> tensor<2x24x10x10xf32> {
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<2x10x10x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%s : tensor<2x10x10x24xf32>) -> tensor<2x10x10x24xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x10x16xf32>, tensor<3x16x24xf32>) outs(%z : tensor<2x10x10x24xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x10x10x24xf32>
  %e = tensor.empty() : tensor<2x24x10x10xf32>
  %d = linalg.generic {indexing_maps = [#last, #f, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c, %v : tensor<2x10x10x24xf32>, tensor<24xf32>) outs(%e : tensor<2x24x10x10xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %t = arith.addf %i, %j : f32
    linalg.yield %t : f32
  } -> tensor<2x24x10x10xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d : tensor<2x24x10x10xf32>) outs(%e : tensor<2x24x10x10xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.maximumf %i, %zero : f32
    linalg.yield %t : f32
  } -> tensor<2x24x10x10xf32>
  return %y : tensor<2x24x10x10xf32>
}

// -----

// There is no kernel for convolutions of f64.
// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
func.func @no_fusion_f64(%x: tensor<2x12x10x16xf64>, %w: tensor<3x16x24xf64>, %s: tensor<2x10x10x24xf64>) -> tensor<2x10x10x24xf64> {
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x10x16xf64>, tensor<3x16x24xf64>) outs(%s : tensor<2x10x10x24xf64>) {
  ^bb0(%i: f64, %j: f64, %o: f64):
    %m = arith.mulf %i, %j : f64
    %t = arith.addf %o, %m : f64
    linalg.yield %t : f64
  } -> tensor<2x10x10x24xf64>
  return %c : tensor<2x10x10x24xf64>
}
