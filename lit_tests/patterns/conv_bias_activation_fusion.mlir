// RUN: %mlirfuse-opt %s --split-input-file --pipeline=conv_bias_activation_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline='conv_bias_activation_fusion{fuse_padding=true}' | FileCheck %s --check-prefix=PAD
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=conv_bias_activation_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#f = affine_map<(n, f, h, w) -> (f)>
#nfhw = affine_map<(n, f, h, w) -> (n, f, h, w)>
#x = affine_map<(n, f, h, w, c, p, q) -> (n, c, h + p, w + q)>
#k = affine_map<(n, f, h, w, c, p, q) -> (f, c, p, q)>
#y = affine_map<(n, f, h, w, c, p, q) -> (n, f, h, w)>

// As it arrives from PyTorch: nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU())
//   mlirfuse-compile model:main --pipeline=none --dump-ir-dir=ir
// CHECK-LABEL: @torch
// CHECK: %[[P:.*]] = tensor.pad
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<8xf32>)
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[P]], %{{.*}} :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[B]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
// PAD-LABEL: @torch
// PAD: flow.dispatch.region
// PAD: %[[P:.*]] = tensor.pad
// PAD: linalg.generic {{.*}} ins(%[[P]], %{{.*}} :
func.func @torch(%x: tensor<2x4x8x8xf32>, %w: tensor<8x4x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %zero : f32
  } : tensor<2x4x8x8xf32> to tensor<2x4x10x10xf32>
  %e = tensor.empty() : tensor<2x8x8x8xf32>
  %b = linalg.generic {indexing_maps = [#f, #nfhw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x8x8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<2x4x10x10xf32>, tensor<8x4x3x3xf32>) outs(%f : tensor<2x8x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8x8xf32>
  %s = linalg.generic {indexing_maps = [#nfhw, #nfhw, #nfhw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c, %b : tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>) outs(%f : tensor<2x8x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x8x8x8xf32>
  %y = linalg.generic {indexing_maps = [#nfhw, #nfhw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x8x8x8xf32>) outs(%e : tensor<2x8x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %g = arith.cmpf ugt, %i, %zero : f32
    %r = arith.select %g, %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<2x8x8x8xf32>
  return %y : tensor<2x8x8x8xf32>
}

// -----

#f = affine_map<(n, h, w, f) -> (f)>
#nhwf = affine_map<(n, h, w, f) -> (n, h, w, f)>
#x = affine_map<(n, h, w, f, p, q, c) -> (n, h * 2 + p, w * 2 + q, c)>
#k = affine_map<(n, h, w, f, p, q, c) -> (p, q, c, f)>
#y = affine_map<(n, h, w, f, p, q, c) -> (n, h, w, f)>

// As it arrives from JAX: jax.lax.conv_general_dilated(x, w, (2, 2), "VALID", NHWC, HWIO), plus a
// bias and a residual, jnp.tanh; f16 with accumulators of f32.
// CHECK-LABEL: @jax_f16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<?x9x9x4xf16>, tensor<3x3x4x8xf16>)
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[H]], %{{.*}}, %{{.*}} :
// CHECK: flow.return %[[S]]
// CHECK: return %[[R]]
func.func @jax_f16(%x: tensor<?x9x9x4xf16>, %w: tensor<3x3x4x8xf16>, %bias: tensor<8xf16>, %r: tensor<?x4x4x8xf16>) -> tensor<?x4x4x8xf16> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x9x9x4xf16>
  %e = tensor.empty(%n) : tensor<?x4x4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4x4x8xf32>) -> tensor<?x4x4x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<?x9x9x4xf16>, tensor<3x3x4x8xf16>) outs(%f : tensor<?x4x4x8xf32>) {
  ^bb0(%i: f16, %j: f16, %o: f32):
    %a = arith.extf %i : f16 to f32
    %b = arith.extf %j : f16 to f32
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<?x4x4x8xf32>
  %e16 = tensor.empty(%n) : tensor<?x4x4x8xf16>
  %h = linalg.generic {indexing_maps = [#nhwf, #nhwf], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<?x4x4x8xf32>) outs(%e16 : tensor<?x4x4x8xf16>) {
  ^bb0(%i: f32, %o: f16):
    %t = arith.truncf %i : f32 to f16
    linalg.yield %t : f16
  } -> tensor<?x4x4x8xf16>
  %s = linalg.generic {indexing_maps = [#nhwf, #f, #nhwf, #nhwf], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%h, %bias, %r : tensor<?x4x4x8xf16>, tensor<8xf16>, tensor<?x4x4x8xf16>) outs(%e16 : tensor<?x4x4x8xf16>) {
  ^bb0(%i: f16, %j: f16, %l: f16, %o: f16):
    %a = arith.addf %i, %j : f16
    %b = arith.addf %a, %l : f16
    %t = math.tanh %b : f16
    linalg.yield %t : f16
  } -> tensor<?x4x4x8xf16>
  return %s : tensor<?x4x4x8xf16>
}

// -----

#nfhw = affine_map<(n, f, h, w) -> (n, f, h, w)>
#x = affine_map<(n, h, w, c, p, q) -> (n, c, h + p, w + q)>
#k = affine_map<(n, h, w, c, p, q) -> (c, p, q)>
#y = affine_map<(n, h, w, c, p, q) -> (n, c, h, w)>

// ONNX: Conv with group = channels, then Elu: a depthwise one, with a select in the epilogue.
// CHECK-LABEL: @onnx_depthwise_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.generic {{.*}}"reduction", "reduction"]
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[C]] : {{.*}} outs(%{{.*}} : tensor<2x8x6x6xi1>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[G]], %[[C]] :
// CHECK: flow.return %[[Y]]
func.func @onnx_depthwise_bf16(%x: tensor<2x8x8x8xbf16>, %w: tensor<8x3x3xbf16>) -> tensor<2x8x6x6xbf16> {
  %zero = arith.constant 0.0 : bf16
  %one = arith.constant 1.0 : bf16
  %e = tensor.empty() : tensor<2x8x6x6xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<2x8x6x6xbf16>) -> tensor<2x8x6x6xbf16>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x8x8x8xbf16>, tensor<8x3x3xbf16>) outs(%f : tensor<2x8x6x6xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %m = arith.mulf %i, %j : bf16
    %s = arith.addf %o, %m : bf16
    linalg.yield %s : bf16
  } -> tensor<2x8x6x6xbf16>
  %e1 = tensor.empty() : tensor<2x8x6x6xi1>
  %g = linalg.generic {indexing_maps = [#nfhw, #nfhw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<2x8x6x6xbf16>) outs(%e1 : tensor<2x8x6x6xi1>) {
  ^bb0(%i: bf16, %o: i1):
    %r = arith.cmpf ogt, %i, %zero : bf16
    linalg.yield %r : i1
  } -> tensor<2x8x6x6xi1>
  %y2 = linalg.generic {indexing_maps = [#nfhw, #nfhw, #nfhw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%g, %c : tensor<2x8x6x6xi1>, tensor<2x8x6x6xbf16>) outs(%e : tensor<2x8x6x6xbf16>) {
  ^bb0(%i: i1, %j: bf16, %o: bf16):
    %a = math.exp %j : bf16
    %b = arith.subf %a, %one : bf16
    %r = arith.select %i, %j, %b : bf16
    linalg.yield %r : bf16
  } -> tensor<2x8x6x6xbf16>
  return %y2 : tensor<2x8x6x6xbf16>
}

// -----

#f = affine_map<(n, f, h, w) -> (f)>
#nfhw = affine_map<(n, f, h, w) -> (n, f, h, w)>
#x = affine_map<(n, g, f, h, w, c, p, q) -> (n, g, c, h + p, w + q)>
#k = affine_map<(n, g, f, h, w, c, p, q) -> (g, f, c, p, q)>
#y = affine_map<(n, g, f, h, w, c, p, q) -> (n, g, f, h, w)>

// Grouped, as it arrives from PyTorch: the bias is the init, and a reshape merges
// the groups: it moves after the activation.
// CHECK-LABEL: @grouped
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x2x6x6xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<4x2xf32>)
// CHECK: %[[C:.*]] = linalg.generic {{.*}} outs(%[[B]] : tensor<2x4x2x6x6xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<2x4x2x6x6xf32>)
// CHECK: flow.return %[[Y]]
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0], [1, 2], [3], [4]]
// CHECK: return %[[M]]
func.func @grouped(%x: tensor<2x4x4x8x8xf32>, %w: tensor<4x2x4x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x6x6xf32>
  %b = linalg.generic {indexing_maps = [#f, #nfhw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x6x6xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x8x6x6xf32>
  %s = tensor.expand_shape %b [[0], [1, 2], [3], [4]] output_shape [2, 4, 2, 6, 6] : tensor<2x8x6x6xf32> into tensor<2x4x2x6x6xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<2x4x4x8x8xf32>, tensor<4x2x4x3x3xf32>) outs(%s : tensor<2x4x2x6x6xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %a = arith.addf %o, %m : f32
    linalg.yield %a : f32
  } -> tensor<2x4x2x6x6xf32>
  %m = tensor.collapse_shape %c [[0], [1, 2], [3], [4]] : tensor<2x4x2x6x6xf32> into tensor<2x8x6x6xf32>
  %y = linalg.generic {indexing_maps = [#nfhw, #nfhw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m : tensor<2x8x6x6xf32>) outs(%e : tensor<2x8x6x6xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<2x8x6x6xf32>
  return %y : tensor<2x8x6x6xf32>
}

// -----

#nfhw = affine_map<(n, f, h, w) -> (n, f, h, w)>
#nhwf = affine_map<(n, f, h, w) -> (n, h, w, f)>
#x = affine_map<(n, g, f, h, w, c, p, q) -> (n, g, c, h + p, w + q)>
#k = affine_map<(n, g, f, h, w, c, p, q) -> (g, f, c, p, q)>
#y = affine_map<(n, g, f, h, w, c, p, q) -> (n, g, f, h, w)>

// The last op writes the merged channels elsewhere.
// CHECK-LABEL: @no_fusion_transposed_groups
// CHECK-NOT: flow.dispatch.region
// WHY: indexing_map (1)
// WHY: the epilogue moves the merged groups
func.func @no_fusion_transposed_groups(%x: tensor<2x4x4x8x8xf32>, %w: tensor<4x2x4x3x3xf32>) -> tensor<2x6x6x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x6x8xf32>
  %e5 = tensor.empty() : tensor<2x4x2x6x6xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e5 : tensor<2x4x2x6x6xf32>) -> tensor<2x4x2x6x6xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<2x4x4x8x8xf32>, tensor<4x2x4x3x3xf32>) outs(%s : tensor<2x4x2x6x6xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %a = arith.addf %o, %m : f32
    linalg.yield %a : f32
  } -> tensor<2x4x2x6x6xf32>
  %m = tensor.collapse_shape %c [[0], [1, 2], [3], [4]] : tensor<2x4x2x6x6xf32> into tensor<2x8x6x6xf32>
  %y = linalg.generic {indexing_maps = [#nfhw, #nhwf], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m : tensor<2x8x6x6xf32>) outs(%e : tensor<2x6x6x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<2x6x6x8xf32>
  return %y : tensor<2x6x6x8xf32>
}

// -----

#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// CHECK-LABEL: @no_fusion_accumulators_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// WHY: extra_users (1)
// WHY: the convolution has users outside its epilogue
func.func @no_fusion_accumulators_read_elsewhere(%x: tensor<2x4x10xf32>, %w: tensor<8x4x3xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x4x10xf32>, tensor<8x4x3xf32>) outs(%f : tensor<2x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8xf32>
  %y2 = linalg.generic {indexing_maps = [#nfw, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.absf %i : f32
    linalg.yield %r : f32
  } -> tensor<2x8x8xf32>
  return %y2, %c : tensor<2x8x8xf32>, tensor<2x8x8xf32>
}

// -----

#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// WHY: element_type (1)
// WHY: f64
func.func @no_fusion_f64(%x: tensor<2x4x10xf64>, %w: tensor<8x4x3xf64>) -> tensor<2x8x8xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<2x8x8xf64>
  %f = linalg.fill ins(%zero : f64) outs(%e : tensor<2x8x8xf64>) -> tensor<2x8x8xf64>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x4x10xf64>, tensor<8x4x3xf64>) outs(%f : tensor<2x8x8xf64>) {
  ^bb0(%i: f64, %j: f64, %o: f64):
    %m = arith.mulf %i, %j : f64
    %s = arith.addf %o, %m : f64
    linalg.yield %s : f64
  } -> tensor<2x8x8xf64>
  %y2 = linalg.generic {indexing_maps = [#nfw, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x8x8xf64>) outs(%e : tensor<2x8x8xf64>) {
  ^bb0(%i: f64, %o: f64):
    %r = math.absf %i : f64
    linalg.yield %r : f64
  } -> tensor<2x8x8xf64>
  return %y2 : tensor<2x8x8xf64>
}
