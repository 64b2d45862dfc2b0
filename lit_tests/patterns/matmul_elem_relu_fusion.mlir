// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_relu_fusion | FileCheck %s

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// PyTorch: F.relu(F.linear(x, w, b)).
// CHECK-LABEL: @bias_relu
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]] :
// CHECK: flow.return %[[Y1]]
// CHECK: return %[[R]]
func.func @bias_relu(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %g = arith.cmpf ugt, %i0, %zero : f32
    %r = arith.select %g, %i0, %zero : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// JAX: jax.nn.relu(x @ w).
// CHECK-LABEL: @relu_f16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[Y0]]
// CHECK: return %[[R]]
func.func @relu_f16(%a: tensor<8x16xf16>, %b: tensor<16x32xf16>) -> tensor<8x32xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<8x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<8x32xf16>) -> tensor<8x32xf16>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf16>, tensor<16x32xf16>) outs(%f : tensor<8x32xf16>) -> tensor<8x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf16>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %r = arith.maximumf %i0, %zero : f16
    linalg.yield %r : f16
  } -> tensor<8x32xf16>
  return %y : tensor<8x32xf16>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// ONNX: Clip of a Gemm to 0 and 6.
// CHECK-LABEL: @relu6_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]] :
// CHECK: %[[Y2:.*]] = linalg.generic {{.*}} ins(%[[Y1]] :
// CHECK: flow.return %[[Y2]]
// CHECK: return %[[R]]
func.func @relu6_bf16(%a: tensor<8x16xbf16>, %b: tensor<16x32xbf16>, %bias: tensor<32xbf16>) -> tensor<8x32xbf16> {
  %zero = arith.constant 0.0 : bf16
  %six = arith.constant 6.0 : bf16
  %e = tensor.empty() : tensor<8x32xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xbf16>, tensor<32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16):
    %r = arith.addf %i0, %i1 : bf16
    linalg.yield %r : bf16
  } -> tensor<8x32xbf16>
  %t = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<8x32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i0: bf16, %o: bf16):
    %r = arith.maximumf %i0, %zero : bf16
    linalg.yield %r : bf16
  } -> tensor<8x32xbf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<8x32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i0: bf16, %o: bf16):
    %r = arith.minimumf %i0, %six : bf16
    linalg.yield %r : bf16
  } -> tensor<8x32xbf16>
  return %y : tensor<8x32xbf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// PyTorch: F.leaky_relu(x @ w, 0.1), which reads the matmul twice.
// CHECK-LABEL: @leaky_relu
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y2:.*]] = linalg.generic {{.*}} ins(%[[Y0]], %[[Y1]] :
// CHECK: flow.return %[[Y2]]
// CHECK: return %[[R]]
func.func @leaky_relu(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %slope = arith.constant 0.1 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %g = arith.cmpf ogt, %i0, %zero : f32
    %r = arith.select %g, %i0, %zero : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %g = arith.cmpf olt, %i0, %zero : f32
    %s = arith.select %g, %i0, %zero : f32
    %r = arith.mulf %s, %slope : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %q : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// JAX: jax.nn.leaky_relu; the rest of the epilogue is fused too.
// CHECK-LABEL: @leaky_relu_selected_then_scaled
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[Y1:.*]] = linalg.generic {{.*}} ins(%[[Y0]] :
// CHECK: flow.return %[[Y1]]
// CHECK: return %[[R]]
func.func @leaky_relu_selected_then_scaled(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %slope = arith.constant 0.01 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %g = arith.cmpf oge, %i0, %zero : f32
    %s = arith.mulf %i0, %slope : f32
    %r = arith.select %g, %i0, %s : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.mulf %i0, %slope : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// A clamp at 100 is no relu and no relu6.
// CHECK-LABEL: @no_fusion_clamped_elsewhere
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: return %[[Y0]]
func.func @no_fusion_clamped_elsewhere(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %top = arith.constant 100.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = arith.maximumf %i0, %zero : f32
    %r = arith.minimumf %s, %top : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The corner is not at zero.
// CHECK-LABEL: @no_fusion_not_at_zero
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: return %[[Y0]]
func.func @no_fusion_not_at_zero(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.maximumf %i0, %one : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// Steeper below zero than above.
// CHECK-LABEL: @no_fusion_steeper_below
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: return %[[Y0]]
func.func @no_fusion_steeper_below(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %slope = arith.constant 1.5 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = arith.mulf %i0, %slope : f32
    %g = arith.cmpf ogt, %i0, %zero : f32
    %r = arith.select %g, %i0, %s : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_minimum
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: return %[[Y0]]
func.func @no_fusion_minimum(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.minimumf %i0, %zero : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_matmul_has_another_user
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: return %[[Y0]]
func.func @no_fusion_matmul_has_another_user(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = arith.maximumf %i0, %zero : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y, %c : tensor<8x32xf32>, tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y0:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: return %[[Y0]]
func.func @no_fusion_f64(%a: tensor<8x16xf64>, %b: tensor<16x32xf64>) -> tensor<8x32xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<8x32xf64>
  %f = linalg.fill ins(%zero : f64) outs(%e : tensor<8x32xf64>) -> tensor<8x32xf64>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf64>, tensor<16x32xf64>) outs(%f : tensor<8x32xf64>) -> tensor<8x32xf64>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf64>) outs(%e : tensor<8x32xf64>) {
  ^bb0(%i0: f64, %o: f64):
    %r = arith.maximumf %i0, %zero : f64
    linalg.yield %r : f64
  } -> tensor<8x32xf64>
  return %y : tensor<8x32xf64>
}
