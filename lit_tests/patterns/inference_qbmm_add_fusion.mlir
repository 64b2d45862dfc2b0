// RUN: %mlirfuse-opt %s --split-input-file --pipeline=inference_qbmm_add_fusion | FileCheck %s

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// PyTorch: torch._int_mm(x, w).float() * s + b.
// CHECK-LABEL: @channel_scale_and_bias
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: %[[Y2:.*]] = linalg.generic {{.*}} ins(%[[Y1]], %{{.*}} :
// CHECK: flow.return %[[Y2]]
// CHECK: return %[[R]]
func.func @channel_scale_and_bias(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %et = tensor.empty() : tensor<8x32xf32>
  %t = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%et : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%t, %bias : tensor<8x32xf32>, tensor<32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// JAX: both adds in one body, cast to f16.
// CHECK-LABEL: @one_body_f16_dynamic
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}}, %{{.*}} :
// CHECK: flow.return %[[Y0]]
// CHECK: return %[[R]]
func.func @one_body_f16_dynamic(%a: tensor<?x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf32>, %bias: tensor<32xf32>) -> tensor<?x32xf16> {
  %zero = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %a, %c0 : tensor<?x16xi8>
  %ec = tensor.empty(%rows) : tensor<?x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<?x32xi32>) -> tensor<?x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<?x16xi8>, tensor<16x32xi8>) outs(%f : tensor<?x32xi32>) -> tensor<?x32xi32>
  %ey = tensor.empty(%rows) : tensor<?x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #n, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %s, %bias : tensor<?x32xi32>, tensor<32xf32>, tensor<32xf32>) outs(%ey : tensor<?x32xf16>) {
  ^bb0(%i0: i32, %i1: f32, %i2: f32, %o: f16):
    %0 = arith.sitofp %i0 : i32 to f32
    %1 = arith.mulf %i1, %0 : f32
    %2 = arith.addf %i2, %1 : f32
    %r = arith.truncf %2 : f32 to f16
    linalg.yield %r : f16
  } -> tensor<?x32xf16>
  return %y : tensor<?x32xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// A number for the scale, no bias.
// CHECK-LABEL: @tensor_scale_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[Y0]]
// CHECK: return %[[R]]
func.func @tensor_scale_bf16(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>) -> tensor<8x32xbf16> {
  %zero = arith.constant 0 : i32
  %scale = arith.constant 0.5 : bf16
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ey = tensor.empty() : tensor<8x32xbf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ey : tensor<8x32xbf16>) {
  ^bb0(%i0: i32, %o: bf16):
    %0 = arith.sitofp %i0 : i32 to bf16
    %r = arith.mulf %0, %scale : bf16
    linalg.yield %r : bf16
  } -> tensor<8x32xbf16>
  return %y : tensor<8x32xbf16>
}

// -----

#s = affine_map<(m, n) -> ()>
#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// ONNX: MatMulInteger, Add, Cast, Mul: the bias is added to the accumulators.
// CHECK-LABEL: @bias_in_i32
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]] :
// CHECK: %[[Y2:.*]] = linalg.generic {{.*}} ins(%[[Y1]], %{{.*}} :
// CHECK: flow.return %[[Y2]]
// CHECK: return %[[R]]
func.func @bias_in_i32(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<f32>, %bias: tensor<32xi32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ep = tensor.empty() : tensor<8x32xi32>
  %p = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xi32>, tensor<32xi32>) outs(%ep : tensor<8x32xi32>) {
  ^bb0(%i0: i32, %i1: i32, %o: i32):
    %r = arith.addi %i0, %i1 : i32
    linalg.yield %r : i32
  } -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #s, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<f32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// Scales of the rows of x and of the channels of w.
// CHECK-LABEL: @row_and_channel_scales
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: %[[Y2:.*]] = linalg.generic {{.*}} ins(%[[Y1]], %{{.*}} :
// CHECK: flow.return %[[Y2]]
// CHECK: return %[[R]]
func.func @row_and_channel_scales(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %sx: tensor<8xf32>, %sw: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %et = tensor.empty() : tensor<8x32xf32>
  %t = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %sx : tensor<8x32xf32>, tensor<8xf32>) outs(%et : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%t, %sw : tensor<8x32xf32>, tensor<32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// The epilogue is fused too, back to i8.
// CHECK-LABEL: @scaled_then_quantized
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: %[[Y2:.*]] = linalg.generic {{.*}} ins(%[[Y1]] :
// CHECK: flow.return %[[Y2]]
// CHECK: return %[[R]]
func.func @scaled_then_quantized(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf32>) -> tensor<8x32xi8> {
  %zero = arith.constant 0 : i32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %et = tensor.empty() : tensor<8x32xf32>
  %t = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%et : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xi8>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<8x32xf32>) outs(%ey : tensor<8x32xi8>) {
  ^bb0(%i0: f32, %o: i8):
    %0 = math.roundeven %i0 : f32
    %1 = arith.minimumf %0, %high : f32
    %2 = arith.maximumf %1, %low : f32
    %r = arith.fptosi %2 : f32 to i8
    linalg.yield %r : i8
  } -> tensor<8x32xi8>
  return %y : tensor<8x32xi8>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_scale_of_every_element
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: return %[[Y1]]
func.func @no_fusion_scale_of_every_element(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<8x32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// A residual is no bias.
// CHECK-LABEL: @no_fusion_bias_of_every_element
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]] :
// CHECK: %[[Y2:.*]] = linalg.generic {{.*}} ins(%[[Y1]], %{{.*}} :
// CHECK: return %[[Y2]]
func.func @no_fusion_bias_of_every_element(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf32>, %bias: tensor<8x32xi32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ep = tensor.empty() : tensor<8x32xi32>
  %p = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xi32>, tensor<8x32xi32>) outs(%ep : tensor<8x32xi32>) {
  ^bb0(%i0: i32, %i1: i32, %o: i32):
    %r = arith.addi %i0, %i1 : i32
    linalg.yield %r : i32
  } -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// Converted only.
// CHECK-LABEL: @no_fusion_not_scaled
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: return %[[Y0]]
func.func @no_fusion_not_scaled(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// The accumulators are read as unsigned integers.
// CHECK-LABEL: @no_fusion_unsigned
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: return %[[Y1]]
func.func @no_fusion_unsigned(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.uitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_scale_is_added
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: return %[[Y1]]
func.func @no_fusion_scale_is_added(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_i16
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: return %[[Y1]]
func.func @no_fusion_i16(%a: tensor<8x16xi16>, %b: tensor<16x32xi16>, %s: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi16>, tensor<16x32xi16>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: return %[[Y1]]
func.func @no_fusion_f64(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf64>) -> tensor<8x32xf64> {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf64>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf64>) {
  ^bb0(%i0: i32, %o: f64):
    %r = arith.sitofp %i0 : i32 to f64
    linalg.yield %r : f64
  } -> tensor<8x32xf64>
  %ey = tensor.empty() : tensor<8x32xf64>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf64>, tensor<32xf64>) outs(%ey : tensor<8x32xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64):
    %r = arith.mulf %i0, %i1 : f64
    linalg.yield %r : f64
  } -> tensor<8x32xf64>
  return %y : tensor<8x32xf64>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_accumulators_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %{{.*}} :
// CHECK: return %[[Y1]]
func.func @no_fusion_accumulators_read_elsewhere(%a: tensor<8x16xi8>, %b: tensor<16x32xi8>, %s: tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8x32xi32>) {
  %zero = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%ec : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi8>, tensor<16x32xi8>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %ed = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xi32>) outs(%ed : tensor<8x32xf32>) {
  ^bb0(%i0: i32, %o: f32):
    %r = arith.sitofp %i0 : i32 to f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%d, %s : tensor<8x32xf32>, tensor<32xf32>) outs(%ey : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y, %c : tensor<8x32xf32>, tensor<8x32xi32>
}
