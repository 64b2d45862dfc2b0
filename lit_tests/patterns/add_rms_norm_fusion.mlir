// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_rms_norm_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_rms_norm_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @add_then_norm
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[RES:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x8xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "add_rms_norm_fusion"}
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[H]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[H]], %[[SQUARES]], %[[G]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @add_then_norm(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @sum_is_a_result_too
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[RES:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[H]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[H]], %[[SQUARES]], %[[G]] :
// CHECK: flow.return %[[H]], %[[Y]] :
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @sum_is_a_result_too(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y, %h : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// The region moves up to the first user of the residual add.
// CHECK-LABEL: @another_user_before_the_norm
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[RES:.*]]: tensor<4x8xf32>, %[[G2:.*]]: tensor<4x8xf32>,
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: flow.return %[[H]], %{{.*}} :
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[R]]#0, %[[G2]] :
// CHECK: return %[[R]]#1, %[[W]]
func.func @another_user_before_the_norm(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %g2: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %w = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %g2 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.mulf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y, %w : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2) -> (d2)>

// The residual add in f16, statistics in f32.
// CHECK-LABEL: @pytorch_f16_dynamic_rows
// CHECK-SAME: %[[X:.*]]: tensor<?x4x8xf16>, %[[RES:.*]]: tensor<?x4x8xf16>, %[[G:.*]]: tensor<8xf16>
// CHECK: %[[M:.*]] = tensor.dim %[[X]]
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<?x4x8xf16>{%[[M]]}, tensor<?x4x8xf16>{%[[M]]})
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[H]] :
// CHECK: arith.extf
// CHECK: flow.return %[[H]], %
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @pytorch_f16_dynamic_rows(%arg0: tensor<?x4x8xf16>, %arg1: tensor<?x4x8xf16>, %arg2: tensor<8xf16>) -> (tensor<?x4x8xf16>, tensor<?x4x8xf16>) {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %c0 = arith.constant 0 : index
  %dim = tensor.dim %arg0, %c0 : tensor<?x4x8xf16>
  %0 = tensor.empty(%dim) : tensor<?x4x8xf16>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %arg1 : tensor<?x4x8xf16>, tensor<?x4x8xf16>) outs(%0 : tensor<?x4x8xf16>) {
  ^bb0(%in: f16, %in_2: f16, %out: f16):
    %14 = arith.addf %in, %in_2 : f16
    linalg.yield %14 : f16
  } -> tensor<?x4x8xf16>
  %2 = tensor.empty(%dim) : tensor<?x4x8xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<?x4x8xf16>) outs(%2 : tensor<?x4x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %14 = arith.extf %in : f16 to f32
    linalg.yield %14 : f32
  } -> tensor<?x4x8xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3 : tensor<?x4x8xf32>) outs(%2 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.mulf %in, %in : f32
    linalg.yield %14 : f32
  } -> tensor<?x4x8xf32>
  %5 = tensor.empty(%dim) : tensor<?x4xf32>
  %6 = linalg.fill ins(%cst_1 : f32) outs(%5 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%4 : tensor<?x4x8xf32>) outs(%6 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %out : f32
    linalg.yield %14 : f32
  } -> tensor<?x4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<?x4xf32>) outs(%5 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.divf %in, %cst_0 : f32
    linalg.yield %14 : f32
  } -> tensor<?x4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<?x4xf32>) outs(%5 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %cst : f32
    linalg.yield %14 : f32
  } -> tensor<?x4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<?x4xf32>) outs(%5 : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = math.rsqrt %in : f32
    linalg.yield %14 : f32
  } -> tensor<?x4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3, %10 : tensor<?x4x8xf32>, tensor<?x4xf32>) outs(%2 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %14 = arith.mulf %in, %in_2 : f32
    linalg.yield %14 : f32
  } -> tensor<?x4x8xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11 : tensor<?x4x8xf32>) outs(%0 : tensor<?x4x8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %14 = arith.truncf %in : f32 to f16
    linalg.yield %14 : f16
  } -> tensor<?x4x8xf16>
  %13 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg2, %12 : tensor<8xf16>, tensor<?x4x8xf16>) outs(%0 : tensor<?x4x8xf16>) {
  ^bb0(%in: f16, %in_2: f16, %out: f16):
    %14 = arith.mulf %in, %in_2 : f16
    linalg.yield %14 : f16
  } -> tensor<?x4x8xf16>
  return %13, %1 : tensor<?x4x8xf16>, tensor<?x4x8xf16>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>

// The addends are cast first; the group reads them as they are in memory.
// CHECK-LABEL: @sum_in_f32_of_f16
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf16>, %[[RES:.*]]: tensor<4x8xf16>,
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x8xf32>, tensor<4x8xf16>)
// CHECK: %[[XW:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[RW:.*]] = linalg.generic {{.*}} ins(%[[RES]] :
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[XW]], %[[RW]] :
// CHECK: flow.return %[[H]], %
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[R]]#0 :
// CHECK: arith.truncf
// CHECK: return %[[R]]#1, %[[T]]
func.func @sum_in_f32_of_f16(%arg0: tensor<4x8xf16>, %arg1: tensor<4x8xf16>, %arg2: tensor<8xf32>) -> (tensor<4x8xf16>, tensor<4x8xf16>) {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xf16>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %16 = arith.extf %in : f16 to f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<4x8xf16>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %16 = arith.extf %in : f16 to f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %2 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.addf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.mulf %in, %in : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %5 = tensor.empty() : tensor<4xf32>
  %6 = linalg.fill ins(%cst_1 : f32) outs(%5 : tensor<4xf32>) -> tensor<4xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%4 : tensor<4x8xf32>) outs(%6 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%7 : tensor<4xf32>) outs(%5 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<4xf32>) outs(%5 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %cst : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<4xf32>) outs(%5 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = math.rsqrt %in : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %10 : tensor<4x8xf32>, tensor<4xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %12 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2, %11 : tensor<8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %13 = tensor.empty() : tensor<4x8xf16>
  %14 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<4x8xf32>) outs(%13 : tensor<4x8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %16 = arith.truncf %in : f32 to f16
    linalg.yield %16 : f16
  } -> tensor<4x8xf16>
  %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4x8xf32>) outs(%13 : tensor<4x8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %16 = arith.truncf %in : f32 to f16
    linalg.yield %16 : f16
  } -> tensor<4x8xf16>
  return %14, %15 : tensor<4x8xf16>, tensor<4x8xf16>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>

// From: jax.jit of the RMS norm of x + r in bf16, .lower(...).as_text() and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @jax_add_rms_norm
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[RES:.*]]: tensor<4x8xbf16>, %[[G:.*]]: tensor<8xbf16>)
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[H]] :
// CHECK: %[[WW:.*]] = linalg.generic {{.*}} ins(%[[W]] :
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%[[WW]] :
// CHECK: flow.return %[[H]], %
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @jax_add_rms_norm(%arg0: tensor<4x8xbf16>, %arg1: tensor<4x8xbf16>, %arg2: tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 9.99999997E-7 : f32
  %0 = tensor.empty() : tensor<4x8xbf16>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<4x8xbf16>, tensor<4x8xbf16>) outs(%0 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %16 = arith.addf %in, %in_2 : bf16
    linalg.yield %16 : bf16
  } -> tensor<4x8xbf16>
  %2 = tensor.empty() : tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xbf16>) outs(%2 : tensor<4x8xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %16 = arith.extf %in : bf16 to f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4x8xf32>) outs(%2 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.mulf %in, %in : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %5 = tensor.empty() : tensor<4xf32>
  %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<4xf32>) -> tensor<4xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%4 : tensor<4x8xf32>) outs(%6 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %out, %in : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%7 : tensor<4xf32>) outs(%5 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<4xf32>) outs(%5 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %cst_1 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<4xf32>) outs(%5 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = math.rsqrt %in : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %11 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<4xf32>) outs(%2 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %11 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%2 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<4x8xf32>) outs(%0 : tensor<4x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %16 = arith.truncf %in : f32 to bf16
    linalg.yield %16 : bf16
  } -> tensor<4x8xbf16>
  %14 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<8xbf16>) outs(%0 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<4x8xbf16>
  %15 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %14 : tensor<4x8xbf16>, tensor<4x8xbf16>) outs(%0 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %16 = arith.mulf %in, %in_2 : bf16
    linalg.yield %16 : bf16
  } -> tensor<4x8xbf16>
  return %15, %1 : tensor<4x8xbf16>, tensor<4x8xbf16>
}

// -----

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> ()>
#map4 = affine_map<(d0, d1, d2) -> (d2)>

// Add, Pow, ReduceMean, Add, Sqrt, Div of 1, Mul, Mul with opset 13.
// From: iree-import-onnx and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @onnx_add_pow_reciprocal
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[RES:.*]]: tensor<2x3x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: linalg.generic {{.*}} ins(%[[H]] :
// CHECK: math.fpowi
// CHECK: math.sqrt
// CHECK: %[[RSTD:.*]] = linalg.generic
// CHECK: arith.divf
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[H]], %[[RSTD]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[G]], %[[N]] :
// CHECK: flow.return %[[H]], %[[Y]] :
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @onnx_add_pow_reciprocal(%arg0: tensor<2x3x8xf32>, %arg1: tensor<2x3x8xf32>, %arg2: tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %c2_i64 = arith.constant 2 : i64
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant dense<9.99999974E-6> : tensor<f32>
  %cst_1 = arith.constant dense<1.000000e+00> : tensor<f32>
  %cst_2 = arith.constant 8.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x3x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %arg1 : tensor<2x3x8xf32>, tensor<2x3x8xf32>) outs(%0 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %12 = arith.addf %in, %in_3 : f32
    linalg.yield %12 : f32
  } -> tensor<2x3x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<2x3x8xf32>) outs(%0 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %12 = math.fpowi %in, %c2_i64 : f32, i64
    linalg.yield %12 : f32
  } -> tensor<2x3x8xf32>
  %3 = tensor.empty() : tensor<2x3xf32>
  %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2 : tensor<2x3x8xf32>) outs(%4 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %12 = arith.addf %in, %out : f32
    linalg.yield %12 : f32
  } -> tensor<2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<2x3xf32>) outs(%3 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %12 = arith.divf %in, %cst_2 : f32
    linalg.yield %12 : f32
  } -> tensor<2x3xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel", "parallel"]} ins(%6, %cst_0 : tensor<2x3xf32>, tensor<f32>) outs(%3 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %12 = arith.addf %in, %in_3 : f32
    linalg.yield %12 : f32
  } -> tensor<2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<2x3xf32>) outs(%3 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %12 = math.sqrt %in : f32
    linalg.yield %12 : f32
  } -> tensor<2x3xf32>
  %9 = linalg.generic {indexing_maps = [#map3, #map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%cst_1, %8 : tensor<f32>, tensor<2x3xf32>) outs(%3 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %12 = arith.divf %in, %in_3 : f32
    linalg.yield %12 : f32
  } -> tensor<2x3xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %9 : tensor<2x3x8xf32>, tensor<2x3xf32>) outs(%0 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %12 = arith.mulf %in, %in_3 : f32
    linalg.yield %12 : f32
  } -> tensor<2x3x8xf32>
  %11 = linalg.generic {indexing_maps = [#map4, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg2, %10 : tensor<8xf32>, tensor<2x3x8xf32>) outs(%0 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %12 = arith.mulf %in, %in_3 : f32
    linalg.yield %12 : f32
  } -> tensor<2x3x8xf32>
  return %11, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @first_of_two
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.match = 0
// CHECK: return %[[R]]
// CHECK-LABEL: @second_of_two
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.match = 1
// CHECK: return %[[R]]
func.func @first_of_two(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @second_of_two(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @inside_scf_if
// CHECK-SAME: %[[P:.*]]: i1, %[[X:.*]]: tensor<4x8xf32>, %[[RES:.*]]: tensor<4x8xf32>,
// CHECK: %[[T:.*]] = scf.if %[[P]]
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: scf.yield %[[R]] :
// CHECK: return %[[T]]
func.func @inside_scf_if(%cond: i1, %x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %t = scf.if %cond -> tensor<4x8xf32> {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 8.0 : f32
    %eps = arith.constant 1.0e-5 : f32
    %e = tensor.empty() : tensor<4x8xf32>
    %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %a = arith.addf %i, %j : f32
      linalg.yield %a : f32
    } -> tensor<4x8xf32>
    %er = tensor.empty() : tensor<4xf32>
    %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
    %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
    ^bb0(%i: f32, %acc: f32):
      %ii = arith.mulf %i, %i : f32
      %a = arith.addf %acc, %ii : f32
      linalg.yield %a : f32
    } -> tensor<4xf32>
    %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
      %v = arith.divf %q, %n : f32
      %ve = arith.addf %v, %eps : f32
      %r = math.rsqrt %ve : f32
      %p = arith.mulf %i, %r : f32
      %pg = arith.mulf %p, %g : f32
      linalg.yield %pg : f32
    } -> tensor<4x8xf32>
    scf.yield %y : tensor<4x8xf32>
  } else {
    scf.yield %x : tensor<4x8xf32>
  }
  return %t : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// The norm alone is left to the pass without the add.
// CHECK-LABEL: @no_fusion_add_in_another_block
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_add_in_another_block
func.func @no_fusion_add_in_another_block(%cond: i1, %x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %t = scf.if %cond -> tensor<4x8xf32> {
    %er = tensor.empty() : tensor<4xf32>
    %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
    %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
    ^bb0(%i: f32, %acc: f32):
      %ii = arith.mulf %i, %i : f32
      %a = arith.addf %acc, %ii : f32
      linalg.yield %a : f32
    } -> tensor<4xf32>
    %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
      %v = arith.divf %q, %n : f32
      %ve = arith.addf %v, %eps : f32
      %r = math.rsqrt %ve : f32
      %p = arith.mulf %i, %r : f32
      %pg = arith.mulf %p, %g : f32
      linalg.yield %pg : f32
    } -> tensor<4x8xf32>
    scf.yield %y : tensor<4x8xf32>
  } else {
    scf.yield %h : tensor<4x8xf32>
  }
  return %t : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @already_in_a_region
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK-NOT: flow.dispatch.region
// CHECK-NOT: mlirfuse.pass
// CHECK: return %[[R]]
func.func @already_in_a_region(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %t = flow.dispatch.region -> (tensor<4x8xf32>) {
    %zero = arith.constant 0.0 : f32
    %n = arith.constant 8.0 : f32
    %eps = arith.constant 1.0e-5 : f32
    %e = tensor.empty() : tensor<4x8xf32>
    %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %a = arith.addf %i, %j : f32
      linalg.yield %a : f32
    } -> tensor<4x8xf32>
    %er = tensor.empty() : tensor<4xf32>
    %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
    %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
    ^bb0(%i: f32, %acc: f32):
      %ii = arith.mulf %i, %i : f32
      %a = arith.addf %acc, %ii : f32
      linalg.yield %a : f32
    } -> tensor<4xf32>
    %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
      %v = arith.divf %q, %n : f32
      %ve = arith.addf %v, %eps : f32
      %r = math.rsqrt %ve : f32
      %p = arith.mulf %i, %r : f32
      %pg = arith.mulf %p, %g : f32
      linalg.yield %pg : f32
    } -> tensor<4x8xf32>
    flow.return %y : tensor<4x8xf32>
  }
  return %t : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_add_in_a_region_already
// CHECK: %[[H:.*]] = flow.dispatch.region
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_add_in_a_region_already(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = flow.dispatch.region -> (tensor<4x8xf32>) {
    %inner = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %a = arith.addf %i, %j : f32
      linalg.yield %a : f32
    } -> tensor<4x8xf32>
    flow.return %inner : tensor<4x8xf32>
  }
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// Nothing to report: the pass without the add takes it.
// CHECK-LABEL: @no_fusion_without_an_add
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_without_an_add
func.func @no_fusion_without_an_add(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// An addend that is the same in every row is a bias; its add belongs to the producer.
// CHECK-LABEL: @no_fusion_bias_is_no_residual
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_bias_is_no_residual
func.func @no_fusion_bias_is_no_residual(%x: tensor<4x8xf32>, %res: tensor<8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_number_is_no_residual
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_number_is_no_residual
func.func @no_fusion_number_is_no_residual(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %n : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_product_is_no_residual
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_product_is_no_residual
func.func @no_fusion_product_is_no_residual(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.mulf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// The reshape vanishes: all ops are written over the norm's dimensions.
// CHECK-LABEL: @reshape_between
// CHECK: %[[X:.*]] = tensor.collapse_shape {{.*}} into tensor<4x8xf32>
// CHECK: %[[RES:.*]] = tensor.collapse_shape {{.*}} into tensor<4x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: "reduction"{{.*}} ins(%[[H]] :
// CHECK-NOT: tensor.collapse_shape
// CHECK: return %[[R]]
func.func @reshape_between(%x: tensor<2x2x8xf32>, %res: tensor<2x2x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %e3 = tensor.empty() : tensor<2x2x8xf32>
  %h3 = linalg.generic {indexing_maps = [#id3, #id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %res : tensor<2x2x8xf32>, tensor<2x2x8xf32>) outs(%e3 : tensor<2x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<2x2x8xf32>
  %h = tensor.collapse_shape %h3 [[0, 1], [2]] : tensor<2x2x8xf32> into tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64
// WHY: element_type (
// WHY: f64
func.func @no_fusion_f64(%x: tensor<4x8xf64>, %res: tensor<4x8xf64>, %gamma: tensor<8xf64>) -> tensor<4x8xf64> {
  %zero = arith.constant 0.0 : f64
  %n = arith.constant 8.0 : f64
  %eps = arith.constant 1.0e-5 : f64
  %e = tensor.empty() : tensor<4x8xf64>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf64>, tensor<4x8xf64>) outs(%e : tensor<4x8xf64>) {
  ^bb0(%i: f64, %j: f64, %o: f64):
    %a = arith.addf %i, %j : f64
    linalg.yield %a : f64
  } -> tensor<4x8xf64>
  %er = tensor.empty() : tensor<4xf64>
  %z = linalg.fill ins(%zero : f64) outs(%er : tensor<4xf64>) -> tensor<4xf64>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i: f64, %acc: f64):
    %ii = arith.mulf %i, %i : f64
    %a = arith.addf %acc, %ii : f64
    linalg.yield %a : f64
  } -> tensor<4xf64>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %squares, %gamma : tensor<4x8xf64>, tensor<4xf64>, tensor<8xf64>) outs(%e : tensor<4x8xf64>) {
  ^bb0(%i: f64, %q: f64, %g: f64, %o: f64):
    %v = arith.divf %q, %n : f64
    %ve = arith.addf %v, %eps : f64
    %r = math.rsqrt %ve : f64
    %p = arith.mulf %i, %r : f64
    %pg = arith.mulf %p, %g : f64
    linalg.yield %pg : f64
  } -> tensor<4x8xf64>
  return %y : tensor<4x8xf64>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_layer_norm
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_layer_norm
func.func @no_fusion_layer_norm(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %h = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %res : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %a = arith.addf %i, %j : f32
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %a = arith.addf %i, %acc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%h, %sum : tensor<4x8xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %s: f32, %acc: f32):
    %m = arith.divf %s, %n : f32
    %c = arith.subf %i, %m : f32
    %cc = arith.mulf %c, %c : f32
    %a = arith.addf %acc, %cc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %sum, %squares, %gamma, %beta : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %s: f32, %q: f32, %g: f32, %b: f32, %o: f32):
    %m = arith.divf %s, %n : f32
    %c = arith.subf %i, %m : f32
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %c, %r : f32
    %pg = arith.mulf %p, %g : f32
    %pb = arith.addf %pg, %b : f32
    linalg.yield %pb : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
