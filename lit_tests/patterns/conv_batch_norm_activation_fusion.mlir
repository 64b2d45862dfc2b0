// RUN: %mlirfuse-opt %s --split-input-file --pipeline=conv_batch_norm_activation_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=conv_batch_norm_activation_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// As it arrives from PyTorch: nn.Sequential(nn.Conv1d(2, 2, 3), nn.BatchNorm1d(2), nn.ReLU()).eval(): bias,
// scale and shift. Weights are literals here.
// CHECK-LABEL: module
// CHECK: util.global private @[[W:scaled_filter[_0-9]*]] : tensor<2x2x3xf32>
// CHECK: util.initializer
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x2x3xf32>, tensor<2xf32>)
// CHECK: arith.mulf
// CHECK: util.global.store %{{.*}}, @[[W]]
// CHECK: util.global private @[[B:shifted_bias[_0-9]*]] : tensor<2xf32>
// CHECK: util.initializer
// CHECK: arith.addf
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: util.global.store %{{.*}}, @[[B]]
// CHECK-LABEL: @torch
// CHECK: %[[K:.*]] = util.global.load immutable @[[W]]
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[K]] :
// CHECK: %[[T:.*]] = util.global.load immutable @[[B]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[T]] :
// CHECK: arith.addf
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK: return %[[Y]]
func.func @torch(%x: tensor<4x2x10xf32>) -> tensor<4x2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]]> : tensor<2x2x3xf32>
  %bias = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %scale = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %shift = arith.constant dense<[5.0, 6.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<4x2x8xf32>
  %bb = linalg.generic {indexing_maps = [#f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%bias : tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x2x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xf32>, tensor<2x2x3xf32>) outs(%z : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2x8xf32>
  %b = linalg.generic {indexing_maps = [#nfw, #nfw, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %bb : tensor<4x2x8xf32>, tensor<4x2x8xf32>) outs(%z : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %scale : tensor<4x2x8xf32>, tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  %n = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<4x2x8xf32>, tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  %r = linalg.generic {indexing_maps = [#nfw, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%n : tensor<4x2x8xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  return %r : tensor<4x2x8xf32>
}

// -----

#f = affine_map<(n, w, f) -> (f)>
#nwf = affine_map<(n, w, f) -> (n, w, f)>
#x = affine_map<(n, w, f, c) -> (n, w, c)>
#k = affine_map<(n, w, f, c) -> (c, f)>
#y = affine_map<(n, w, f, c) -> (n, w, f)>

// JAX, 1x1, channels last, a dynamic batch: (x @ w - mean) / deviation, by a quotient.
// CHECK-LABEL: module
// CHECK: util.initializer
// CHECK: arith.divf
// CHECK: util.initializer
// CHECK: arith.subf
// CHECK: arith.divf
// CHECK-LABEL: @jax_1x1_dynamic
// CHECK: %[[K:.*]] = util.global.load immutable @[[W:.*]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[K]] :
// CHECK: linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
func.func @jax_1x1_dynamic(%x: tensor<?x8x2xf32>) -> tensor<?x8x2xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x8x2xf32>
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %mean = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %dev = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %e = tensor.empty(%d) : tensor<?x8x2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8x2xf32>) -> tensor<?x8x2xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x8x2xf32>, tensor<2x2xf32>) outs(%z : tensor<?x8x2xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<?x8x2xf32>
  %m = linalg.generic {indexing_maps = [#nwf, #f, #nwf], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %mean : tensor<?x8x2xf32>, tensor<2xf32>) outs(%e : tensor<?x8x2xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<?x8x2xf32>
  %n = linalg.generic {indexing_maps = [#nwf, #f, #nwf], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m, %dev : tensor<?x8x2xf32>, tensor<2xf32>) outs(%e : tensor<?x8x2xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.divf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<?x8x2xf32>
  return %n : tensor<?x8x2xf32>
}

// -----

#c = affine_map<(n, c) -> (c)>
#nc = affine_map<(n, c) -> (n, c)>
#x = affine_map<(n, c, k) -> (n, k)>
#k = affine_map<(n, c, k) -> (k, c)>
#y = affine_map<(n, c, k) -> (n, c)>

// Filter and scale are parameters of the program.
// CHECK-LABEL: module
// CHECK-DAG: %[[W:.*]] = flow.tensor.constant #flow.parameter.named<"model"::"w">
// CHECK-DAG: %[[S:.*]] = flow.tensor.constant #flow.parameter.named<"model"::"s">
// CHECK: linalg.generic {{.*}} ins(%[[W]], %[[S]] :
// CHECK-LABEL: @parameters
// CHECK-NOT: flow.tensor.constant
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %scaled_filter :
func.func @parameters(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = arith.constant 0.0 : f32
  %w = flow.tensor.constant #flow.parameter.named<"model"::"w"> : tensor<2x2xf32>
  %scale = flow.tensor.constant #flow.parameter.named<"model"::"s"> : tensor<2xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x2xf32>) -> tensor<4x2xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x2xf32>, tensor<2x2xf32>) outs(%z : tensor<4x2xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2xf32>
  %m = linalg.generic {indexing_maps = [#nc, #c, #nc], iterator_types = ["parallel", "parallel"]} ins(%c, %scale : tensor<4x2xf32>, tensor<2xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2xf32>
  return %m : tensor<4x2xf32>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, g, f, w, c, q) -> (n, g, c, w + q)>
#k = affine_map<(n, g, f, w, c, q) -> (g, f, c, q)>
#y = affine_map<(n, g, f, w, c, q) -> (n, g, f, w)>

// ONNX: Conv with two groups, BatchNormalization. The scale comes apart as the channels do.
// CHECK-LABEL: module
// CHECK: util.initializer
// CHECK: %[[S:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0, 1]] output_shape [2, 2]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[S]] : tensor<2x2x1x3xf32>, tensor<2x2xf32>)
// CHECK-LABEL: @onnx_grouped
// CHECK: %[[K:.*]] = util.global.load immutable
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[K]] :
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[C]]
// CHECK: linalg.generic {{.*}} ins(%[[M]], %{{.*}} :
func.func @onnx_grouped(%x: tensor<4x2x1x10xf32>) -> tensor<4x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.5> : tensor<2x2x1x3xf32>
  %scale = arith.constant dense<[3.0, 4.0, 5.0, 6.0]> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x4x8xf32>
  %e4 = tensor.empty() : tensor<4x2x2x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e4 : tensor<4x2x2x8xf32>) -> tensor<4x2x2x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x1x10xf32>, tensor<2x2x1x3xf32>) outs(%z : tensor<4x2x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2x2x8xf32>
  %g = tensor.collapse_shape %c [[0], [1, 2], [3]] : tensor<4x2x2x8xf32> into tensor<4x4x8xf32>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %scale : tensor<4x4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %j, %i : f32
    linalg.yield %r : f32
  } -> tensor<4x4x8xf32>
  return %m : tensor<4x4x8xf32>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// Rounding the scaled filter to f16 would change the results.
// CHECK-LABEL: @no_fusion_f16
// CHECK-NOT: util.global.load
// WHY: element_type (1)
// WHY: f16
func.func @no_fusion_f16(%x: tensor<4x2x10xf16>) -> tensor<4x2x8xf16> {
  %start = arith.constant 0.0 : f16
  %w = arith.constant dense<1.5> : tensor<2x2x3xf16>
  %scale = arith.constant dense<[3.0, 4.0]> : tensor<2xf16>
  %e = tensor.empty() : tensor<4x2x8xf16>
  %z = linalg.fill ins(%start : f16) outs(%e : tensor<4x2x8xf16>) -> tensor<4x2x8xf16>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xf16>, tensor<2x2x3xf16>) outs(%z : tensor<4x2x8xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %m = arith.mulf %i, %j : f16
    %s = arith.addf %o, %m : f16
    linalg.yield %s : f16
  } -> tensor<4x2x8xf16>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %scale : tensor<4x2x8xf16>, tensor<2xf16>) outs(%e : tensor<4x2x8xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.mulf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<4x2x8xf16>
  return %m : tensor<4x2x8xf16>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// Rounding the scaled filter to bf16 would change the results.
// CHECK-LABEL: @no_fusion_bf16
// CHECK-NOT: util.global.load
// WHY: element_type (1)
// WHY: bf16
func.func @no_fusion_bf16(%x: tensor<4x2x10xbf16>) -> tensor<4x2x8xbf16> {
  %start = arith.constant 0.0 : bf16
  %w = arith.constant dense<1.5> : tensor<2x2x3xbf16>
  %scale = arith.constant dense<[3.0, 4.0]> : tensor<2xbf16>
  %e = tensor.empty() : tensor<4x2x8xbf16>
  %z = linalg.fill ins(%start : bf16) outs(%e : tensor<4x2x8xbf16>) -> tensor<4x2x8xbf16>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xbf16>, tensor<2x2x3xbf16>) outs(%z : tensor<4x2x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %m = arith.mulf %i, %j : bf16
    %s = arith.addf %o, %m : bf16
    linalg.yield %s : bf16
  } -> tensor<4x2x8xbf16>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %scale : tensor<4x2x8xbf16>, tensor<2xbf16>) outs(%e : tensor<4x2x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %r = arith.mulf %i, %j : bf16
    linalg.yield %r : bf16
  } -> tensor<4x2x8xbf16>
  return %m : tensor<4x2x8xbf16>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// The scale cannot move into a filter that is only known at run time.
// CHECK-LABEL: @no_fusion_filter_is_an_argument
// CHECK-NOT: util.global.load
// WHY: constant_unverified (1)
// WHY: no constant filter varies over the scaled channels
func.func @no_fusion_filter_is_an_argument(%x: tensor<4x2x10xf32>, %w: tensor<2x2x3xf32>) -> tensor<4x2x8xf32> {
  %start = arith.constant 0.0 : f32
  
  %scale = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<4x2x8xf32>
  %z = linalg.fill ins(%start : f32) outs(%e : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xf32>, tensor<2x2x3xf32>) outs(%z : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2x8xf32>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %scale : tensor<4x2x8xf32>, tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  return %m : tensor<4x2x8xf32>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// Nothing constant to fold.
// CHECK-LABEL: @no_fusion_scale_is_an_argument
// CHECK-NOT: util.global.load
// WHY-NOT: @no_fusion_scale_is_an_argument
func.func @no_fusion_scale_is_an_argument(%x: tensor<4x2x10xf32>, %scale: tensor<2xf32>) -> tensor<4x2x8xf32> {
  %start = arith.constant 0.0 : f32
  %w = arith.constant dense<1.5> : tensor<2x2x3xf32>
  
  %e = tensor.empty() : tensor<4x2x8xf32>
  %z = linalg.fill ins(%start : f32) outs(%e : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xf32>, tensor<2x2x3xf32>) outs(%z : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2x8xf32>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %scale : tensor<4x2x8xf32>, tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  return %m : tensor<4x2x8xf32>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// The init would have to be scaled too.
// CHECK-LABEL: @no_fusion_init_of_one
// CHECK-NOT: util.global.load
// WHY: constant_unverified (1)
// WHY: the accumulators do not start at zero
func.func @no_fusion_init_of_one(%x: tensor<4x2x10xf32>) -> tensor<4x2x8xf32> {
  %start = arith.constant 1.0 : f32
  %w = arith.constant dense<1.5> : tensor<2x2x3xf32>
  %scale = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<4x2x8xf32>
  %z = linalg.fill ins(%start : f32) outs(%e : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xf32>, tensor<2x2x3xf32>) outs(%z : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2x8xf32>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %scale : tensor<4x2x8xf32>, tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  return %m : tensor<4x2x8xf32>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// The reciprocal of the channel is no scale.
// CHECK-LABEL: @no_fusion_scale_is_divided
// CHECK-NOT: util.global.load
// WHY-NOT: @no_fusion_scale_is_divided
func.func @no_fusion_scale_is_divided(%x: tensor<4x2x10xf32>) -> tensor<4x2x8xf32> {
  %start = arith.constant 0.0 : f32
  %w = arith.constant dense<1.5> : tensor<2x2x3xf32>
  %scale = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<4x2x8xf32>
  %z = linalg.fill ins(%start : f32) outs(%e : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xf32>, tensor<2x2x3xf32>) outs(%z : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2x8xf32>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %scale : tensor<4x2x8xf32>, tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.divf %j, %i : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  return %m : tensor<4x2x8xf32>
}

// -----

#f = affine_map<(n, f, w) -> (f)>
#nfw = affine_map<(n, f, w) -> (n, f, w)>
#x = affine_map<(n, f, w, c, q) -> (n, c, w + q)>
#k = affine_map<(n, f, w, c, q) -> (f, c, q)>
#y = affine_map<(n, f, w, c, q) -> (n, f, w)>

// The unscaled result has another user.
// CHECK-LABEL: @no_fusion_read_elsewhere
// CHECK-NOT: util.global.load
// WHY: extra_users (1)
// WHY: the unscaled channels have other users
func.func @no_fusion_read_elsewhere(%x: tensor<4x2x10xf32>) -> (tensor<4x2x8xf32>, tensor<4x2x8xf32>) {
  %start = arith.constant 0.0 : f32
  %w = arith.constant dense<1.5> : tensor<2x2x3xf32>
  %scale = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<4x2x8xf32>
  %z = linalg.fill ins(%start : f32) outs(%e : tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<4x2x10xf32>, tensor<2x2x3xf32>) outs(%z : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<4x2x8xf32>
  %m = linalg.generic {indexing_maps = [#nfw, #f, #nfw], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c, %scale : tensor<4x2x8xf32>, tensor<2xf32>) outs(%e : tensor<4x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x2x8xf32>
  return %m, %c : tensor<4x2x8xf32>, tensor<4x2x8xf32>
}
