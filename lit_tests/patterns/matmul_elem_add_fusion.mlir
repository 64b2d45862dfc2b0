// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_add_fusion | FileCheck %s

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @residual
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_elem_add_fusion"
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @residual(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %s = arith.addf %i0, %i1 : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// PyTorch: F.linear(x, w, b) + r in f16, which is summed in f32 and cast.
// CHECK-LABEL: @bias_then_residual_f16_dynamic
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<?x32xf16>{%{{.*}}})
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[T]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[D]] :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @bias_then_residual_f16_dynamic(%a: tensor<?x16xf16>, %b: tensor<32x16xf16>, %bias: tensor<32xf16>, %r: tensor<?x32xf16>) -> tensor<?x32xf16> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %a, %c0 : tensor<?x16xf16>
  %wide = tensor.empty(%rows) : tensor<?x32xf32>
  %e = tensor.empty(%rows) : tensor<?x32xf16>
  %f = linalg.fill ins(%zero : f32) outs(%wide : tensor<?x32xf32>) -> tensor<?x32xf32>
  %c = linalg.matmul indexing_maps = [#x, #w, #c] ins(%a, %b : tensor<?x16xf16>, tensor<32x16xf16>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  %t = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<?x32xf32>) outs(%e : tensor<?x32xf16>) {
  ^bb0(%i0: f32, %o: f16):
    %s = arith.truncf %i0 : f32 to f16
    linalg.yield %s : f16
  } -> tensor<?x32xf16>
  %d = linalg.generic {indexing_maps = [#n, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%bias, %t : tensor<32xf16>, tensor<?x32xf16>) outs(%e : tensor<?x32xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %s = arith.addf %i0, %i1 : f16
    linalg.yield %s : f16
  } -> tensor<?x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%r, %d : tensor<?x32xf16>, tensor<?x32xf16>) outs(%e : tensor<?x32xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %s = arith.addf %i0, %i1 : f16
    linalg.yield %s : f16
  } -> tensor<?x32xf16>
  return %y : tensor<?x32xf16>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// JAX: jnp.dot(x, w) + b + r, one body.
// CHECK-LABEL: @one_body_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}}, %{{.*}} :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @one_body_bf16(%a: tensor<8x16xbf16>, %b: tensor<16x32xbf16>, %bias: tensor<32xbf16>, %r: tensor<8x32xbf16>) -> tensor<8x32xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<8x32xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias, %r : tensor<8x32xbf16>, tensor<32xbf16>, tensor<8x32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %i2: bf16, %o: bf16):
    %s = arith.addf %i0, %i1 : bf16
    %t = arith.addf %s, %i2 : bf16
    linalg.yield %t : bf16
  } -> tensor<8x32xbf16>
  return %y : tensor<8x32xbf16>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// A bias is no residual.
// CHECK-LABEL: @no_fusion_bias_alone
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: return %[[Y]]
func.func @no_fusion_bias_alone(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %r: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %s = arith.addf %i0, %i1 : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_product
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: return %[[Y]]
func.func @no_fusion_product(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %s = arith.mulf %i0, %i1 : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The matmul has another user.
// CHECK-LABEL: @no_fusion_matmul_has_another_user
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: return %[[Y]], %[[C]]
func.func @no_fusion_matmul_has_another_user(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %r: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %s = arith.addf %i0, %i1 : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y, %c : tensor<8x32xf32>, tensor<8x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_f64(%a: tensor<8x16xf64>, %b: tensor<16x32xf64>, %r: tensor<8x32xf64>) -> tensor<8x32xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<8x32xf64>
  %f = linalg.fill ins(%zero : f64) outs(%e : tensor<8x32xf64>) -> tensor<8x32xf64>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf64>, tensor<16x32xf64>) outs(%f : tensor<8x32xf64>) -> tensor<8x32xf64>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<8x32xf64>, tensor<8x32xf64>) outs(%e : tensor<8x32xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64):
    %s = arith.addf %i0, %i1 : f64
    linalg.yield %s : f64
  } -> tensor<8x32xf64>
  return %y : tensor<8x32xf64>
}
