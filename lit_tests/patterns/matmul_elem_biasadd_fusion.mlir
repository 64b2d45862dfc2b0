// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_elem_biasadd_fusion | FileCheck %s

#mk = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// CHECK-LABEL: @matmul_then_bias
// CHECK-SAME: %[[A:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<16x32xf32>, %[[BIAS:.*]]: tensor<32xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul ins(%[[A]], %[[B]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[BIAS]]
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @matmul_then_bias(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mk, #n, #mk], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mk = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// The bias may be the first operand; elementwise users are fused too.
// CHECK-LABEL: @bias_first_then_scale_f16_dynamic_rows
// CHECK-SAME: %[[A:.*]]: tensor<?x16xf16>, %[[B:.*]]: tensor<16x32xf16>, %[[BIAS:.*]]: tensor<32xf16>, %[[M:.*]]: index
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<?x32xf16>{%[[M]]})
// CHECK: %[[C:.*]] = linalg.matmul ins(%[[A]], %[[B]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[BIAS]], %[[C]]
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[Y]]
// CHECK: flow.return %[[Z]]
// CHECK: return %[[R]]
func.func @bias_first_then_scale_f16_dynamic_rows(%a: tensor<?x16xf16>, %b: tensor<16x32xf16>, %bias: tensor<32xf16>, %m: index) -> tensor<?x32xf16> {
  %zero = arith.constant 0.0 : f16
  %two = arith.constant 2.0 : f16
  %e = tensor.empty(%m) : tensor<?x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<?x32xf16>) -> tensor<?x32xf16>
  %c = linalg.matmul ins(%a, %b : tensor<?x16xf16>, tensor<16x32xf16>) outs(%f : tensor<?x32xf16>) -> tensor<?x32xf16>
  %y = linalg.generic {indexing_maps = [#n, #mk, #mk], iterator_types = ["parallel", "parallel"]} ins(%bias, %c : tensor<32xf16>, tensor<?x32xf16>) outs(%e : tensor<?x32xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %s = arith.addf %i, %j : f16
    linalg.yield %s : f16
  } -> tensor<?x32xf16>
  %z = linalg.generic {indexing_maps = [#mk, #mk], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<?x32xf16>) outs(%e : tensor<?x32xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = arith.mulf %i, %two : f16
    linalg.yield %s : f16
  } -> tensor<?x32xf16>
  return %z : tensor<?x32xf16>
}

// -----

#mk = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// The add has two users: it ends the group, its users are not fused.
// CHECK-LABEL: @add_has_two_users
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: flow.return %[[Y]]
// CHECK: linalg.generic {{.*}} ins(%[[R]]
// CHECK: return %[[R]]
func.func @add_has_two_users(%a: tensor<8x16xbf16>, %b: tensor<16x32xbf16>, %bias: tensor<32xbf16>) -> (tensor<8x32xbf16>, tensor<8x32xbf16>) {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<8x32xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<8x32xbf16>) -> tensor<8x32xbf16>
  %y = linalg.generic {indexing_maps = [#mk, #n, #mk], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xbf16>, tensor<32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %s = arith.addf %i, %j : bf16
    linalg.yield %s : bf16
  } -> tensor<8x32xbf16>
  %z = linalg.generic {indexing_maps = [#mk, #mk], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<8x32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    %s = math.absf %i : bf16
    linalg.yield %s : bf16
  } -> tensor<8x32xbf16>
  return %y, %z : tensor<8x32xbf16>, tensor<8x32xbf16>
}

// -----

#mk = affine_map<(m, n) -> (m, n)>

// A residual has the result's rank: another pass.
// CHECK-LABEL: @no_fusion_residual
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: linalg.generic {{.*}} ins(%[[C]]
func.func @no_fusion_residual(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mk, #mk, #mk], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// -----

#mk = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// The matmul has another user than the add.
// CHECK-LABEL: @no_fusion_matmul_has_another_user
// CHECK-NOT: flow.dispatch.region
// CHECK: %[[C:.*]] = linalg.matmul
// CHECK: linalg.generic {{.*}} ins(%[[C]]
// CHECK: return {{.*}}%[[C]]
func.func @no_fusion_matmul_has_another_user(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> (tensor<8x32xf32>, tensor<8x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mk, #n, #mk], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y, %c : tensor<8x32xf32>, tensor<8x32xf32>
}

// -----

#mk = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// CHECK-LABEL: @no_fusion_integers
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_integers(%a: tensor<8x16xi32>, %b: tensor<16x32xi32>, %bias: tensor<32xi32>) -> tensor<8x32xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<8x32xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<8x32xi32>) -> tensor<8x32xi32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xi32>, tensor<16x32xi32>) outs(%f : tensor<8x32xi32>) -> tensor<8x32xi32>
  %y = linalg.generic {indexing_maps = [#mk, #n, #mk], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xi32>, tensor<32xi32>) outs(%e : tensor<8x32xi32>) {
  ^bb0(%i: i32, %j: i32, %o: i32):
    %s = arith.addi %i, %j : i32
    linalg.yield %s : i32
  } -> tensor<8x32xi32>
  return %y : tensor<8x32xi32>
}

// -----

#mk = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// CHECK-LABEL: @no_fusion_subtraction
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_subtraction(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %bias: tensor<32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mk, #n, #mk], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.subf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}
