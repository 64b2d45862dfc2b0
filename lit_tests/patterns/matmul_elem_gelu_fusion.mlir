// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_gelu_fusion | FileCheck %s

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// PyTorch's F.gelu after IREE's global optimization.
// CHECK-LABEL: @bias_gelu_erf
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[D]]
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @bias_gelu_erf(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %sqrt2 = arith.constant 1.41421354 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
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
    %0 = arith.divf %i0, %sqrt2 : f32
    %1 = math.erf %0 : f32
    %2 = arith.addf %1, %one : f32
    %3 = arith.mulf %2, %half : f32
    %r = arith.mulf %i0, %3 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// The tanh form, as jax.nn.gelu writes it.
// CHECK-LABEL: @gelu_tanh_f16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @gelu_tanh_f16(%a: tensor<8x16xf16>, %b: tensor<16x32xf16>, %bias: tensor<32xf16>) -> tensor<8x32xf16> {
  %zero = arith.constant 0.0 : f16
  %a3 = arith.constant 4.471500e-02 : f16
  %k = arith.constant 0.797884583 : f16
  %one = arith.constant 1.0 : f16
  %half = arith.constant 0.5 : f16
  %e = tensor.empty() : tensor<8x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<8x32xf16>) -> tensor<8x32xf16>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf16>, tensor<16x32xf16>) outs(%f : tensor<8x32xf16>) -> tensor<8x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf16>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %0 = arith.mulf %i0, %i0 : f16
    %1 = arith.mulf %0, %i0 : f16
    %2 = arith.mulf %1, %a3 : f16
    %3 = arith.addf %i0, %2 : f16
    %4 = arith.mulf %3, %k : f16
    %5 = math.tanh %4 : f16
    %6 = arith.addf %5, %one : f16
    %7 = arith.mulf %i0, %half : f16
    %r = arith.mulf %7, %6 : f16
    linalg.yield %r : f16
  } -> tensor<8x32xf16>
  return %y : tensor<8x32xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// sigmoid and multiply as two ops, both users of the matmul.
// CHECK-LABEL: @silu_reads_the_matmul_twice_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[C]]
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @silu_reads_the_matmul_twice_bf16(%a: tensor<8x16xbf16>, %b: tensor<16x32xbf16>, %bias: tensor<32xbf16>) -> tensor<8x32xbf16> {
  %zero = arith.constant 0.0 : bf16
  %one = arith.constant 1.0 : bf16
  %e = tensor.empty() : tensor<8x32xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i0: bf16, %o: bf16):
    %0 = arith.negf %i0 : bf16
    %1 = math.exp %0 : bf16
    %2 = arith.addf %1, %one : bf16
    %r = arith.divf %one, %2 : bf16
    linalg.yield %r : bf16
  } -> tensor<8x32xbf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s, %c : tensor<8x32xbf16>, tensor<8x32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16):
    %r = arith.mulf %i0, %i1 : bf16
    linalg.yield %r : bf16
  } -> tensor<8x32xbf16>
  return %y : tensor<8x32xbf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// The rest of the epilogue after the activation is fused too.
// CHECK-LABEL: @tanh_then_scale
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[T]], %{{.*}} :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @tanh_then_scale(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %t = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = math.tanh %i0 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%t, %bias : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.mulf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// 1.5 is not the square root of two.
// CHECK-LABEL: @no_fusion_wrong_constant
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_wrong_constant(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %sqrt2 = arith.constant 1.5 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %0 = arith.divf %i0, %sqrt2 : f32
    %1 = math.erf %0 : f32
    %2 = arith.addf %1, %one : f32
    %3 = arith.mulf %2, %half : f32
    %r = arith.mulf %i0, %3 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// The activation is not of the matmul.
// CHECK-LABEL: @no_fusion_gelu_of_the_bias_alone
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_gelu_of_the_bias_alone(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %0 = math.tanh %i1 : f32
    %r = arith.addf %i0, %0 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// The matmul has another user.
// CHECK-LABEL: @no_fusion_activation_read_elsewhere_inside
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_activation_read_elsewhere_inside(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %t = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = math.tanh %i0 : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  return %t, %c : tensor<8x32xf32>, tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_f64(%a: tensor<8x16xf64>, %b: tensor<16x32xf64>, %bias: tensor<32xf64>) -> tensor<8x32xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<8x32xf64>
  %f = linalg.fill ins(%zero : f64) outs(%e : tensor<8x32xf64>) -> tensor<8x32xf64>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf64>, tensor<16x32xf64>) outs(%f : tensor<8x32xf64>) -> tensor<8x32xf64>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf64>) outs(%e : tensor<8x32xf64>) {
  ^bb0(%i0: f64, %o: f64):
    %r = math.tanh %i0 : f64
    linalg.yield %r : f64
  } -> tensor<8x32xf64>
  return %y : tensor<8x32xf64>
}
