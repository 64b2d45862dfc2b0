// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_layer_norm_v3_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_layer_norm_v3_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#cols = affine_map<(m, a, b) -> (a, b)>
#m = affine_map<(m) -> (m)>
#row = affine_map<(m, a, b) -> (m)>
#mab = affine_map<(m, a, b) -> (m, a, b)>
#map_mab_mab = {indexing_maps = [#mab, #mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#sum_mab_row = {indexing_maps = [#mab, #row], iterator_types = ["parallel", "reduction", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab = {indexing_maps = [#mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab_cols = {indexing_maps = [#mab, #cols, #mab], iterator_types = ["parallel", "parallel", "parallel"]}

// From: h = x + r; F.layer_norm(h, (4, 8), gamma, beta), h, by mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @pytorch
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x8xf32>, %[[A1:.*]]: tensor<2x4x8xf32>, %[[A2:.*]]: tensor<4x8xf32>, %[[A3:.*]]: tensor<4x8xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>) {{.*}}"add_layer_norm_v3_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V4]], %[[V10]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[V11]], %[[A2]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[V12]], %[[A3]] :
// CHECK: flow.return %[[V0]], %[[V13]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @pytorch(%x: tensor<2x4x8xf32>, %r: tensor<2x4x8xf32>, %gamma: tensor<4x8xf32>, %beta: tensor<4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>) {
  %c32 = arith.constant 32.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %0 = linalg.generic #map_mab_mab ins(%x, %r : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %e1 = tensor.empty() : tensor<2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.generic #sum_mab_row ins(%0 : tensor<2x4x8xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c32 : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %3 = linalg.generic #map_row ins(%2 : tensor<2xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %4 = linalg.generic #map_mab_mab ins(%0, %3 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %5 = linalg.generic #map_mab ins(%4 : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %6 = linalg.generic #sum_mab_row ins(%5 : tensor<2x4x8xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %7 = linalg.generic #map_m ins(%6 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c32 : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %8 = linalg.generic #map_m ins(%7 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %9 = linalg.generic #map_m ins(%8 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %10 = linalg.generic #map_row ins(%9 : tensor<2xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %11 = linalg.generic #map_mab_mab ins(%4, %10 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %12 = linalg.generic #map_mab_cols ins(%11, %gamma : tensor<2x4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %13 = linalg.generic #map_mab_cols ins(%12, %beta : tensor<2x4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  return %13, %0 : tensor<2x4x8xf32>, tensor<2x4x8xf32>
}

// -----

#cols = affine_map<(m, a, b) -> (a, b)>
#m = affine_map<(m) -> (m)>
#row = affine_map<(m, a, b) -> (m)>
#mab = affine_map<(m, a, b) -> (m, a, b)>
#map_mab_mab = {indexing_maps = [#mab, #mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#sum_mab_row = {indexing_maps = [#mab, #row], iterator_types = ["parallel", "reduction", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab = {indexing_maps = [#mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_cols = {indexing_maps = [#cols, #mab], iterator_types = ["parallel", "parallel", "parallel"]}

// From: h = x + r; c = h - mean(h, (-2, -1)); c * rsqrt(mean(square(c), (-2, -1)) + 1e-5) * gamma + beta in jnp, imported the same way.
// CHECK-LABEL: @jax
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x8xf32>, %[[A1:.*]]: tensor<2x4x8xf32>, %[[A2:.*]]: tensor<4x8xf32>, %[[A3:.*]]: tensor<4x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x8xf32>) {{.*}}"add_layer_norm_v3_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[A2]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[V12]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[A3]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V13]], %[[V14]] :
// CHECK: flow.return %[[V15]] :
// CHECK: return %[[R]] :
func.func @jax(%x: tensor<2x4x8xf32>, %r: tensor<2x4x8xf32>, %gamma: tensor<4x8xf32>, %beta: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c32 = arith.constant 32.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %0 = linalg.generic #map_mab_mab ins(%x, %r : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %e1 = tensor.empty() : tensor<2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.generic #sum_mab_row ins(%0 : tensor<2x4x8xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c32 : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %3 = linalg.generic #map_row ins(%2 : tensor<2xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %4 = linalg.generic #map_mab_mab ins(%0, %3 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %5 = linalg.generic #map_mab ins(%4 : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %6 = linalg.generic #sum_mab_row ins(%5 : tensor<2x4x8xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %7 = linalg.generic #map_m ins(%6 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c32 : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %8 = linalg.generic #map_m ins(%7 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %9 = linalg.generic #map_m ins(%8 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %10 = linalg.generic #map_row ins(%9 : tensor<2xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %11 = linalg.generic #map_mab_mab ins(%4, %10 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %12 = linalg.generic #map_cols ins(%gamma : tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %13 = linalg.generic #map_mab_mab ins(%11, %12 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %14 = linalg.generic #map_cols ins(%beta : tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %15 = linalg.generic #map_mab_mab ins(%13, %14 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  return %15 : tensor<2x4x8xf32>
}

// -----

#cols = affine_map<(m, a, b) -> (a, b)>
#m = affine_map<(m) -> (m)>
#row = affine_map<(m, a, b) -> (m)>
#mab = affine_map<(m, a, b) -> (m, a, b)>
#map_mab_mab = {indexing_maps = [#mab, #mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#sum_mab_row = {indexing_maps = [#mab, #row], iterator_types = ["parallel", "reduction", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab = {indexing_maps = [#mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab_cols = {indexing_maps = [#mab, #cols, #mab], iterator_types = ["parallel", "parallel", "parallel"]}

// From: ONNX Add and LayerNormalization with axis = -2, imported the same way.
// CHECK-LABEL: @onnx
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x8xf32>, %[[A1:.*]]: tensor<2x4x8xf32>, %[[A2:.*]]: tensor<4x8xf32>, %[[A3:.*]]: tensor<4x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x8xf32>) {{.*}}"add_layer_norm_v3_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[A2]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[V12]], %[[A3]] :
// CHECK: flow.return %[[V13]] :
// CHECK: return %[[R]] :
func.func @onnx(%x: tensor<2x4x8xf32>, %r: tensor<2x4x8xf32>, %gamma: tensor<4x8xf32>, %beta: tensor<4x8xf32>) -> tensor<2x4x8xf32> {
  %eps = arith.constant 1.0e-5 : f32
  %c32 = arith.constant 32.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x8xf32>
  %0 = linalg.generic #map_mab_mab ins(%x, %r : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %e1 = tensor.empty() : tensor<2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2xf32>) -> tensor<2xf32>
  %1 = linalg.generic #sum_mab_row ins(%0 : tensor<2x4x8xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c32 : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %3 = linalg.generic #map_row ins(%2 : tensor<2xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %4 = linalg.generic #map_mab_mab ins(%0, %3 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %5 = linalg.generic #map_mab ins(%4 : tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %6 = linalg.generic #sum_mab_row ins(%5 : tensor<2x4x8xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %7 = linalg.generic #map_m ins(%6 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c32 : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %8 = linalg.generic #map_m ins(%7 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %9 = linalg.generic #map_m ins(%8 : tensor<2xf32>) outs(%e1 : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<2xf32>
  %10 = linalg.generic #map_row ins(%9 : tensor<2xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x8xf32>
  %11 = linalg.generic #map_mab_mab ins(%4, %10 : tensor<2x4x8xf32>, tensor<2x4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %12 = linalg.generic #map_mab_cols ins(%11, %gamma : tensor<2x4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  %13 = linalg.generic #map_mab_cols ins(%12, %beta : tensor<2x4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<2x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x8xf32>
  return %13 : tensor<2x4x8xf32>
}

// -----

#mab = affine_map<(m, a, b) -> (m, a, b)>
#row = affine_map<(m, a, b) -> (m)>
#m = affine_map<(m) -> (m)>
#cols = affine_map<(m, a, b) -> (a, b)>
#mn = affine_map<(m, n) -> (m, n)>
#map_mab_mab = {indexing_maps = [#mab, #mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#sum_mab = {indexing_maps = [#mab, #row], iterator_types = ["parallel", "reduction", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#sum_mab_row = {indexing_maps = [#mab, #row, #row], iterator_types = ["parallel", "reduction", "reduction"]}
#map_mab_row_row_cols = {indexing_maps = [#mab, #row, #row, #cols, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab_row_row = {indexing_maps = [#mab, #row, #row, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mab_row_row_cols_cols = {indexing_maps = [#mab, #row, #row, #cols, #cols, #mab], iterator_types = ["parallel", "parallel", "parallel"]}

// Without beta; gamma is f32, the rest f16; the residual add is a further result.
// CHECK-LABEL: @f16_wide_gamma
// CHECK-SAME: %[[A0:.*]]: tensor<4x4x8xf16>, %[[A1:.*]]: tensor<4x4x8xf16>, %[[A2:.*]]: tensor<4x8xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x4x8xf16>, tensor<4x4x8xf16>) {{.*}}"add_layer_norm_v3_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[V4]], %[[A2]] :
// CHECK: flow.return %[[V0]], %[[V5]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @f16_wide_gamma(%x: tensor<4x4x8xf16>, %r: tensor<4x4x8xf16>, %gamma: tensor<4x8xf32>) -> (tensor<4x4x8xf16>, tensor<4x4x8xf16>) {
  %n = arith.constant 32.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x4x8xf16>
  %h = linalg.generic #map_mab_mab ins(%x, %r : tensor<4x4x8xf16>, tensor<4x4x8xf16>) outs(%e : tensor<4x4x8xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x4x8xf16>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mab ins(%h : tensor<4x4x8xf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f16, %o: f32):
    %w = arith.extf %i : f16 to f32
    %v = arith.addf %o, %w : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mab_row ins(%h, %mean : tensor<4x4x8xf16>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i0: f16, %i1: f32, %o: f32):
    %w = arith.extf %i0 : f16 to f32
    %c = arith.subf %w, %i1 : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %y = linalg.generic #map_mab_row_row_cols ins(%h, %mean, %rstd, %gamma : tensor<4x4x8xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) outs(%e : tensor<4x4x8xf16>) {
  ^bb0(%i0: f16, %i1: f32, %i2: f32, %i3: f32, %o: f16):
    %w = arith.extf %i0 : f16 to f32
    %c = arith.subf %w, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    %v = arith.truncf %g : f32 to f16
    linalg.yield %v : f16 } -> tensor<4x4x8xf16>
  return %y, %h : tensor<4x4x8xf16>, tensor<4x4x8xf16>
}

// CHECK-LABEL: @bf16_without_affine_part
// CHECK-SAME: %[[A0:.*]]: tensor<4x4x8xbf16>, %[[A1:.*]]: tensor<4x4x8xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x4x8xbf16>) {{.*}}"add_layer_norm_v3_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[V4]] :
// CHECK: flow.return %[[V5]] :
// CHECK: return %[[R]] :
func.func @bf16_without_affine_part(%x: tensor<4x4x8xbf16>, %r: tensor<4x4x8xbf16>) -> tensor<4x4x8xbf16> {
  %n = arith.constant 32.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x4x8xbf16>
  %h = linalg.generic #map_mab_mab ins(%x, %r : tensor<4x4x8xbf16>, tensor<4x4x8xbf16>) outs(%e : tensor<4x4x8xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16): %v = arith.addf %i0, %i1 : bf16  linalg.yield %v : bf16 } -> tensor<4x4x8xbf16>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mab ins(%h : tensor<4x4x8xbf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %w = arith.extf %i : bf16 to f32
    %v = arith.addf %o, %w : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mab_row ins(%h, %mean : tensor<4x4x8xbf16>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i0: bf16, %i1: f32, %o: f32):
    %w = arith.extf %i0 : bf16 to f32
    %c = arith.subf %w, %i1 : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %y = linalg.generic #map_mab_row_row ins(%h, %mean, %rstd : tensor<4x4x8xbf16>, tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4x4x8xbf16>) {
  ^bb0(%i0: bf16, %i1: f32, %i2: f32, %o: bf16):
    %w = arith.extf %i0 : bf16 to f32
    %c = arith.subf %w, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %v = arith.truncf %d : f32 to bf16
    linalg.yield %v : bf16 } -> tensor<4x4x8xbf16>
  return %y : tensor<4x4x8xbf16>
}

// The reshape vanishes: all ops are written over the norm's dimensions.
// CHECK-LABEL: @reshape_between
// CHECK-SAME: %[[A0:.*]]: tensor<16x8xf32>, %[[A1:.*]]: tensor<16x8xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} into tensor<128xf32>
// CHECK: %[[V1:.*]] = tensor.expand_shape %[[V0]] {{.*}} into tensor<4x32xf32>
// CHECK: %[[V2:.*]] = tensor.collapse_shape %[[A1]] {{.*}} into tensor<128xf32>
// CHECK: %[[V3:.*]] = tensor.expand_shape %[[V2]] {{.*}} into tensor<4x32xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x32xf32>) {{.*}}"add_layer_norm_v3_fusion"
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V1]], %[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V4]], %[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V4]], %[[V6]], %[[V8]] :
// CHECK: flow.return %[[V9]] :
// CHECK: %[[V10:.*]] = tensor.expand_shape %[[R]] {{.*}} into tensor<4x4x8xf32>
// CHECK: return %[[V10]] :
func.func @reshape_between(%x: tensor<16x8xf32>, %r: tensor<16x8xf32>) -> tensor<4x4x8xf32> {
  %n = arith.constant 32.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<16x8xf32>
  %sum = linalg.generic #map_mn_mn ins(%x, %r : tensor<16x8xf32>, tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<16x8xf32>
  %h = tensor.expand_shape %sum [[0, 1], [2]] output_shape [4, 4, 8] : tensor<16x8xf32> into tensor<4x4x8xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mab ins(%h : tensor<4x4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mab_row ins(%h, %mean : tensor<4x4x8xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e2 = tensor.empty() : tensor<4x4x8xf32>
  %y = linalg.generic #map_mab_row_row ins(%h, %mean, %rstd : tensor<4x4x8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%e2 : tensor<4x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    linalg.yield %d : f32 } -> tensor<4x4x8xf32>
  return %y : tensor<4x4x8xf32>
}

// All that others can read of it becomes a result.
// CHECK-LABEL: @dynamic_rows
// CHECK-SAME: %[[A0:.*]]: tensor<?x4x8xf32>, %[[A1:.*]]: tensor<?x4x8xf32>, %[[A2:.*]]: tensor<4x8xf32>, %[[A3:.*]]: tensor<4x8xf32>
// CHECK: %[[R:.*]]:4 = flow.dispatch.region -> ({{.*}}) {{.*}}"add_layer_norm_v3_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[V4]], %[[A2]], %[[A3]] :
// CHECK: flow.return %[[V0]], %[[V2]], %[[V4]], %[[V5]] :
// CHECK: return %[[R]]#3, %[[R]]#0, %[[R]]#1, %[[R]]#2 :
func.func @dynamic_rows(%x: tensor<?x4x8xf32>, %r: tensor<?x4x8xf32>, %gamma: tensor<4x8xf32>, %beta: tensor<4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %n = arith.constant 32.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty(%rows) : tensor<?x4x8xf32>
  %h = linalg.generic #map_mab_mab ins(%x, %r : tensor<?x4x8xf32>, tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<?x4x8xf32>
  %e1 = tensor.empty(%rows) : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic #sum_mab ins(%h : tensor<?x4x8xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<?xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<?xf32>) outs(%e1 : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<?xf32>
  %q = linalg.generic #sum_mab_row ins(%h, %mean : tensor<?x4x8xf32>, tensor<?xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<?xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<?xf32>) outs(%e1 : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<?xf32>
  %y = linalg.generic #map_mab_row_row_cols_cols ins(%h, %mean, %rstd, %gamma, %beta : tensor<?x4x8xf32>, tensor<?xf32>, tensor<?xf32>, tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %i3: f32, %i4: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    %b = arith.addf %g, %i4 : f32
    linalg.yield %b : f32 } -> tensor<?x4x8xf32>
  return %y, %h, %mean, %rstd : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?xf32>, tensor<?xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
#m = affine_map<(m) -> (m)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row, #row], iterator_types = ["parallel", "reduction"]}
#map_mn_row_row_col_col = {indexing_maps = [#mn, #row, #row, #col, #col, #mn], iterator_types = ["parallel", "parallel"]}

// Left to add_layer_norm_fusion.
// CHECK-LABEL: @no_fusion_one_axis
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_one_axis
func.func @no_fusion_one_axis(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>, %gamma: tensor<16xf32>, %beta: tensor<16xf32>) -> tensor<4x16xf32> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mn ins(%h : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mn_row ins(%h, %mean : tensor<4x16xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %y = linalg.generic #map_mn_row_row_col_col ins(%h, %mean, %rstd, %gamma, %beta : tensor<4x16xf32>, tensor<4xf32>, tensor<4xf32>, tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %i3: f32, %i4: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    %b = arith.addf %g, %i4 : f32
    linalg.yield %b : f32 } -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

#mab = affine_map<(m, a, b) -> (m, a, b)>
#row = affine_map<(m, a, b) -> (m)>
#m = affine_map<(m) -> (m)>
#cols = affine_map<(m, a, b) -> (a, b)>
#sum_mab = {indexing_maps = [#mab, #row], iterator_types = ["parallel", "reduction", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#sum_mab_row = {indexing_maps = [#mab, #row, #row], iterator_types = ["parallel", "reduction", "reduction"]}
#map_mab_row_row_cols_cols = {indexing_maps = [#mab, #row, #row, #cols, #cols, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab_mab = {indexing_maps = [#mab, #mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab_row_row = {indexing_maps = [#mab, #row, #row, #mab], iterator_types = ["parallel", "parallel", "parallel"]}

// Left to layer_norm_fusion.
// CHECK-LABEL: @no_fusion_without_add
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_without_add
func.func @no_fusion_without_add(%x: tensor<4x4x8xf32>, %gamma: tensor<4x8xf32>, %beta: tensor<4x8xf32>) -> tensor<4x4x8xf32> {
  %n = arith.constant 32.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mab ins(%x : tensor<4x4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mab_row ins(%x, %mean : tensor<4x4x8xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4x4x8xf32>
  %y = linalg.generic #map_mab_row_row_cols_cols ins(%x, %mean, %rstd, %gamma, %beta : tensor<4x4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<4x8xf32>) outs(%e1 : tensor<4x4x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %i3: f32, %i4: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    %b = arith.addf %g, %i4 : f32
    linalg.yield %b : f32 } -> tensor<4x4x8xf32>
  return %y : tensor<4x4x8xf32>
}

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64
// WHY: element_type (
// WHY: f64
func.func @no_fusion_f64(%x: tensor<4x4x8xf64>, %r: tensor<4x4x8xf64>) -> tensor<4x4x8xf64> {
  %n = arith.constant 32.0 : f64
  %eps = arith.constant 1.0e-5 : f64
  %e = tensor.empty() : tensor<4x4x8xf64>
  %h = linalg.generic #map_mab_mab ins(%x, %r : tensor<4x4x8xf64>, tensor<4x4x8xf64>) outs(%e : tensor<4x4x8xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64): %v = arith.addf %i0, %i1 : f64  linalg.yield %v : f64 } -> tensor<4x4x8xf64>
  %e1 = tensor.empty() : tensor<4xf64>
  %zero = arith.constant 0.0 : f64
  %z = linalg.fill ins(%zero : f64) outs(%e1 : tensor<4xf64>) -> tensor<4xf64>
  %s = linalg.generic #sum_mab ins(%h : tensor<4x4x8xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i: f64, %o: f64): %v = arith.addf %o, %i : f64  linalg.yield %v : f64 } -> tensor<4xf64>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf64>) outs(%e1 : tensor<4xf64>) {
  ^bb0(%i: f64, %o: f64): %v = arith.divf %i, %n : f64  linalg.yield %v : f64 } -> tensor<4xf64>
  %q = linalg.generic #sum_mab_row ins(%h, %mean : tensor<4x4x8xf64>, tensor<4xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64):
    %c = arith.subf %i0, %i1 : f64
    %p = arith.mulf %c, %c : f64
    %v = arith.addf %o, %p : f64
    linalg.yield %v : f64 } -> tensor<4xf64>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf64>) outs(%e1 : tensor<4xf64>) {
  ^bb0(%i: f64, %o: f64):
    %m = arith.divf %i, %n : f64
    %a = arith.addf %m, %eps : f64
    %v = math.rsqrt %a : f64
    linalg.yield %v : f64 } -> tensor<4xf64>
  %y = linalg.generic #map_mab_row_row ins(%h, %mean, %rstd : tensor<4x4x8xf64>, tensor<4xf64>, tensor<4xf64>) outs(%e : tensor<4x4x8xf64>) {
  ^bb0(%i0: f64, %i1: f64, %i2: f64, %o: f64):
    %c = arith.subf %i0, %i1 : f64
    %d = arith.mulf %c, %i2 : f64
    linalg.yield %d : f64 } -> tensor<4x4x8xf64>
  return %y : tensor<4x4x8xf64>
}
