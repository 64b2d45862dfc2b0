// RUN: %mlirfuse-opt %s --split-input-file --pipeline=batch_norm_activation_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=batch_norm_activation_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#c = affine_map<(n, c, h, w) -> (c)>
#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// As it arrives from PyTorch: nn.Sequential(nn.BatchNorm2d(4), nn.ReLU()).eval(), its parameters arguments
// CHECK-LABEL: @torch
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[D]], %arg2 :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[M]], %arg3 :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @torch(%x: tensor<2x4x8x8xf32>, %mean: tensor<4xf32>, %scale: tensor<4xf32>, %shift: tensor<4xf32>, %n: index) -> tensor<2x4x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  
  %e = tensor.empty() : tensor<2x4x8x8xf32>
  %d = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %m = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %scale : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %s = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %y = linalg.generic {indexing_maps = [#nchw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x4x8x8xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  return %y : tensor<2x4x8x8xf32>
}

// -----

#c = affine_map<(n, c, h, w) -> (w)>
#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// JAX: channels last, divided by the deviation, a dynamic batch.
// CHECK-LABEL: @jax_last_f16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[D]], %arg2 :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[M]], %arg3 :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @jax_last_f16(%x: tensor<?x8x8x4xf16>, %mean: tensor<4xf16>, %scale: tensor<4xf16>, %shift: tensor<4xf16>, %n: index) -> tensor<?x8x8x4xf16> {
  %zero = arith.constant 0.0 : f16
  
  %e = tensor.empty(%n) : tensor<?x8x8x4xf16>
  %d = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<?x8x8x4xf16>, tensor<4xf16>) outs(%e : tensor<?x8x8x4xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.subf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<?x8x8x4xf16>
  %m = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %scale : tensor<?x8x8x4xf16>, tensor<4xf16>) outs(%e : tensor<?x8x8x4xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.divf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<?x8x8x4xf16>
  %s = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<?x8x8x4xf16>, tensor<4xf16>) outs(%e : tensor<?x8x8x4xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.addf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<?x8x8x4xf16>
  %y = linalg.generic {indexing_maps = [#nchw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<?x8x8x4xf16>) outs(%e : tensor<?x8x8x4xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = arith.maximumf %i, %zero : f16
    linalg.yield %r : f16
  } -> tensor<?x8x8x4xf16>
  return %y : tensor<?x8x8x4xf16>
}

// -----

#c = affine_map<(n, c, h, w) -> (c)>
#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// ONNX: BatchNormalization and Relu.
// CHECK-LABEL: @onnx_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[D]], %arg2 :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[M]], %arg3 :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @onnx_bf16(%x: tensor<2x4x8x8xbf16>, %mean: tensor<4xbf16>, %scale: tensor<4xbf16>, %shift: tensor<4xbf16>, %n: index) -> tensor<2x4x8x8xbf16> {
  %zero = arith.constant 0.0 : bf16
  
  %e = tensor.empty() : tensor<2x4x8x8xbf16>
  %d = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<2x4x8x8xbf16>, tensor<4xbf16>) outs(%e : tensor<2x4x8x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %r = arith.subf %i, %j : bf16
    linalg.yield %r : bf16
  } -> tensor<2x4x8x8xbf16>
  %m = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %scale : tensor<2x4x8x8xbf16>, tensor<4xbf16>) outs(%e : tensor<2x4x8x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %r = arith.mulf %i, %j : bf16
    linalg.yield %r : bf16
  } -> tensor<2x4x8x8xbf16>
  %s = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<2x4x8x8xbf16>, tensor<4xbf16>) outs(%e : tensor<2x4x8x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %r = arith.addf %i, %j : bf16
    linalg.yield %r : bf16
  } -> tensor<2x4x8x8xbf16>
  %y = linalg.generic {indexing_maps = [#nchw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x4x8x8xbf16>) outs(%e : tensor<2x4x8x8xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    %r = arith.maximumf %i, %zero : bf16
    linalg.yield %r : bf16
  } -> tensor<2x4x8x8xbf16>
  return %y : tensor<2x4x8x8xbf16>
}

// -----

#c = affine_map<(n, c, h, w) -> (c)>
#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Sums alone are a bias.
// CHECK-LABEL: @no_fusion_no_scale
// CHECK-NOT: flow.dispatch.region
// WHY-NOT: @no_fusion_no_scale
func.func @no_fusion_no_scale(%x: tensor<2x4x8x8xf32>, %mean: tensor<4xf32>, %scale: tensor<4xf32>, %shift: tensor<4xf32>, %n: index) -> tensor<2x4x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  
  %e = tensor.empty() : tensor<2x4x8x8xf32>
  %d = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %m = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %scale : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %s = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %y = linalg.generic {indexing_maps = [#nchw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x4x8x8xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  return %y : tensor<2x4x8x8xf32>
}

// -----

#c = affine_map<(n, c, h, w) -> (c)>
#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// The scaled tensor is returned too.
// CHECK-LABEL: @no_fusion_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// WHY: extra_users (1)
// WHY: an intermediate value of the batch norm has other users
func.func @no_fusion_read_elsewhere(%x: tensor<2x4x8x8xf32>, %mean: tensor<4xf32>, %scale: tensor<4xf32>, %shift: tensor<4xf32>, %n: index) -> (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  
  %e = tensor.empty() : tensor<2x4x8x8xf32>
  %d = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %m = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %scale : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %s = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %y = linalg.generic {indexing_maps = [#nchw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x4x8x8xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  return %y, %m : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
}

// -----

#c = affine_map<(n, c, h, w) -> (c)>
#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Behind a convolution.
// CHECK-LABEL: @no_fusion_convolution
// CHECK-NOT: flow.dispatch.region
// WHY: left_to_producer (1)
// WHY: linalg.generic
func.func @no_fusion_convolution(%x: tensor<2x4x8x8xf32>, %img: tensor<2x4x10x10xf32>, %mean: tensor<4xf32>, %scale: tensor<4xf32>, %shift: tensor<4xf32>, %n: index) -> tensor<2x4x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : tensor<4x3x3xf32>
  %ec = tensor.empty() : tensor<2x4x8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%ec : tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %v = linalg.depthwise_conv_2d_nchw_chw ins(%img, %w : tensor<2x4x10x10xf32>, tensor<4x3x3xf32>) outs(%f : tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %e = tensor.empty() : tensor<2x4x8x8xf32>
  %d = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v, %mean : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %m = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %scale : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %s = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<2x4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  %y = linalg.generic {indexing_maps = [#nchw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x4x8x8xf32>) outs(%e : tensor<2x4x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %zero : f32
    linalg.yield %r : f32
  } -> tensor<2x4x8x8xf32>
  return %y : tensor<2x4x8x8xf32>
}

// -----

#c = affine_map<(n, c, h, w) -> (c)>
#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Another type.
// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// WHY: element_type (1)
// WHY: f64
func.func @no_fusion_f64(%x: tensor<2x4x8x8xf64>, %mean: tensor<4xf64>, %scale: tensor<4xf64>, %shift: tensor<4xf64>, %n: index) -> tensor<2x4x8x8xf64> {
  %zero = arith.constant 0.0 : f64
  
  %e = tensor.empty() : tensor<2x4x8x8xf64>
  %d = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<2x4x8x8xf64>, tensor<4xf64>) outs(%e : tensor<2x4x8x8xf64>) {
  ^bb0(%i: f64, %j: f64, %o: f64):
    %r = arith.subf %i, %j : f64
    linalg.yield %r : f64
  } -> tensor<2x4x8x8xf64>
  %m = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %scale : tensor<2x4x8x8xf64>, tensor<4xf64>) outs(%e : tensor<2x4x8x8xf64>) {
  ^bb0(%i: f64, %j: f64, %o: f64):
    %r = arith.mulf %i, %j : f64
    linalg.yield %r : f64
  } -> tensor<2x4x8x8xf64>
  %s = linalg.generic {indexing_maps = [#nchw, #c, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m, %shift : tensor<2x4x8x8xf64>, tensor<4xf64>) outs(%e : tensor<2x4x8x8xf64>) {
  ^bb0(%i: f64, %j: f64, %o: f64):
    %r = arith.addf %i, %j : f64
    linalg.yield %r : f64
  } -> tensor<2x4x8x8xf64>
  %y = linalg.generic {indexing_maps = [#nchw, #nchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x4x8x8xf64>) outs(%e : tensor<2x4x8x8xf64>) {
  ^bb0(%i: f64, %o: f64):
    %r = arith.maximumf %i, %zero : f64
    linalg.yield %r : f64
  } -> tensor<2x4x8x8xf64>
  return %y : tensor<2x4x8x8xf64>
}
