// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_layer_norm_ext_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_layer_norm_ext_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_col = {indexing_maps = [#mn, #col, #mn], iterator_types = ["parallel", "parallel"]}

// From: h = x + r; F.layer_norm(h, (16,), gamma), h, by mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @pytorch_without_beta
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf32>, %[[A1:.*]]: tensor<4x16xf32>, %[[A2:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x16xf32>, tensor<4x16xf32>) {{.*}}"add_layer_norm_ext_fusion"
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
// CHECK: flow.return %[[V0]], %[[V12]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @pytorch_without_beta(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>, %gamma: tensor<16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic #sum_mn_row ins(%0 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %3 = linalg.generic #map_row ins(%2 : tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %4 = linalg.generic #map_mn_mn ins(%0, %3 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %5 = linalg.generic #map_mn ins(%4 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %6 = linalg.generic #sum_mn_row ins(%5 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %7 = linalg.generic #map_m ins(%6 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %8 = linalg.generic #map_m ins(%7 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %9 = linalg.generic #map_m ins(%8 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %10 = linalg.generic #map_row ins(%9 : tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %11 = linalg.generic #map_mn_mn ins(%4, %10 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %12 = linalg.generic #map_mn_col ins(%11, %gamma : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  return %12, %0 : tensor<4x16xf32>, tensor<4x16xf32>
}

// -----

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_col = {indexing_maps = [#col, #mn], iterator_types = ["parallel", "parallel"]}

// From: h = x + r; c = h - mean(h); c * rsqrt(mean(square(c)) + 1e-5) + beta in jnp, imported the same way.
// CHECK-LABEL: @jax_without_gamma
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf32>, %[[A1:.*]]: tensor<4x16xf32>, %[[A2:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16xf32>) {{.*}}"add_layer_norm_ext_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[A2]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[V12]] :
// CHECK: flow.return %[[V13]] :
// CHECK: return %[[R]] :
func.func @jax_without_gamma(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>, %beta: tensor<16xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic #sum_mn_row ins(%0 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %3 = linalg.generic #map_row ins(%2 : tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %4 = linalg.generic #map_mn_mn ins(%0, %3 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %5 = linalg.generic #map_mn ins(%4 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %6 = linalg.generic #sum_mn_row ins(%5 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %7 = linalg.generic #map_m ins(%6 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %8 = linalg.generic #map_m ins(%7 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %9 = linalg.generic #map_m ins(%8 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %10 = linalg.generic #map_row ins(%9 : tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %11 = linalg.generic #map_mn_mn ins(%4, %10 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %12 = linalg.generic #map_col ins(%beta : tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %13 = linalg.generic #map_mn_mn ins(%11, %12 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  return %13 : tensor<4x16xf32>
}

// -----

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_col = {indexing_maps = [#mn, #col, #mn], iterator_types = ["parallel", "parallel"]}

// From: ONNX Add and LayerNormalization of two inputs, imported the same way.
// CHECK-LABEL: @onnx_without_beta
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf32>, %[[A1:.*]]: tensor<4x16xf32>, %[[A2:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16xf32>) {{.*}}"add_layer_norm_ext_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[A2]] :
// CHECK: flow.return %[[V12]] :
// CHECK: return %[[R]] :
func.func @onnx_without_beta(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>, %gamma: tensor<16xf32>) -> tensor<4x16xf32> {
  %eps = arith.constant 1.0e-5 : f32
  %c16 = arith.constant 16.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic #sum_mn_row ins(%0 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %3 = linalg.generic #map_row ins(%2 : tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %4 = linalg.generic #map_mn_mn ins(%0, %3 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %5 = linalg.generic #map_mn ins(%4 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %6 = linalg.generic #sum_mn_row ins(%5 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %7 = linalg.generic #map_m ins(%6 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %8 = linalg.generic #map_m ins(%7 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %9 = linalg.generic #map_m ins(%8 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %10 = linalg.generic #map_row ins(%9 : tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %11 = linalg.generic #map_mn_mn ins(%4, %10 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %12 = linalg.generic #map_mn_col ins(%11, %gamma : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  return %12 : tensor<4x16xf32>
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
#map_mn_row_row = {indexing_maps = [#mn, #row, #row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_row_row_col = {indexing_maps = [#mn, #row, #row, #col, #mn], iterator_types = ["parallel", "parallel"]}

// Gamma and beta are f32, the rest is f16; the residual add is a further result.
// CHECK-LABEL: @f16_wide_affine_part
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf16>, %[[A1:.*]]: tensor<4x16xf16>, %[[A2:.*]]: tensor<16xf32>, %[[A3:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x16xf16>, tensor<4x16xf16>) {{.*}}"add_layer_norm_ext_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[V4]], %[[A2]], %[[A3]] :
// CHECK: flow.return %[[V0]], %[[V5]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @f16_wide_affine_part(%x: tensor<4x16xf16>, %r: tensor<4x16xf16>, %gamma: tensor<16xf32>, %beta: tensor<16xf32>) -> (tensor<4x16xf16>, tensor<4x16xf16>) {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xf16>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mn ins(%h : tensor<4x16xf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f16, %o: f32):
    %w = arith.extf %i : f16 to f32
    %v = arith.addf %o, %w : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mn_row ins(%h, %mean : tensor<4x16xf16>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
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
  %y = linalg.generic #map_mn_row_row_col_col ins(%h, %mean, %rstd, %gamma, %beta : tensor<4x16xf16>, tensor<4xf32>, tensor<4xf32>, tensor<16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f32, %i2: f32, %i3: f32, %i4: f32, %o: f16):
    %w = arith.extf %i0 : f16 to f32
    %c = arith.subf %w, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    %b = arith.addf %g, %i4 : f32
    %v = arith.truncf %b : f32 to f16
    linalg.yield %v : f16 } -> tensor<4x16xf16>
  return %y, %h : tensor<4x16xf16>, tensor<4x16xf16>
}

// F.layer_norm(x + r, (16,))
// CHECK-LABEL: @bf16_without_affine_part
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xbf16>, %[[A1:.*]]: tensor<4x16xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16xbf16>) {{.*}}"add_layer_norm_ext_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[V4]] :
// CHECK: flow.return %[[V5]] :
// CHECK: return %[[R]] :
func.func @bf16_without_affine_part(%x: tensor<4x16xbf16>, %r: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xbf16>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xbf16>, tensor<4x16xbf16>) outs(%e : tensor<4x16xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16): %v = arith.addf %i0, %i1 : bf16  linalg.yield %v : bf16 } -> tensor<4x16xbf16>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mn ins(%h : tensor<4x16xbf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %w = arith.extf %i : bf16 to f32
    %v = arith.addf %o, %w : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mn_row ins(%h, %mean : tensor<4x16xbf16>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
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
  %y = linalg.generic #map_mn_row_row ins(%h, %mean, %rstd : tensor<4x16xbf16>, tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4x16xbf16>) {
  ^bb0(%i0: bf16, %i1: f32, %i2: f32, %o: bf16):
    %w = arith.extf %i0 : bf16 to f32
    %c = arith.subf %w, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %v = arith.truncf %d : f32 to bf16
    linalg.yield %v : bf16 } -> tensor<4x16xbf16>
  return %y : tensor<4x16xbf16>
}

// All that others can read of it becomes a result.
// CHECK-LABEL: @dynamic_rows
// CHECK-SAME: %[[A0:.*]]: tensor<?x16xf32>, %[[A1:.*]]: tensor<?x16xf32>, %[[A2:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]]:4 = flow.dispatch.region -> ({{.*}}) {{.*}}"add_layer_norm_ext_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[V4]], %[[A2]] :
// CHECK: flow.return %[[V0]], %[[V2]], %[[V4]], %[[V5]] :
// CHECK: return %[[R]]#3, %[[R]]#0, %[[R]]#1, %[[R]]#2 :
func.func @dynamic_rows(%x: tensor<?x16xf32>, %r: tensor<?x16xf32>, %beta: tensor<16xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x16xf32>
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty(%rows) : tensor<?x16xf32>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<?x16xf32>, tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<?x16xf32>
  %e1 = tensor.empty(%rows) : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic #sum_mn ins(%h : tensor<?x16xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<?xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<?xf32>) outs(%e1 : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<?xf32>
  %q = linalg.generic #sum_mn_row ins(%h, %mean : tensor<?x16xf32>, tensor<?xf32>) outs(%z : tensor<?xf32>) {
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
  %y = linalg.generic #map_mn_row_row_col ins(%h, %mean, %rstd, %beta : tensor<?x16xf32>, tensor<?xf32>, tensor<?xf32>, tensor<16xf32>) outs(%e : tensor<?x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %i3: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %b = arith.addf %d, %i3 : f32
    linalg.yield %b : f32 } -> tensor<?x16xf32>
  return %y, %h, %mean, %rstd : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?xf32>, tensor<?xf32>
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
#map_mn_row_row_col = {indexing_maps = [#mn, #row, #row, #col, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_col = {indexing_maps = [#mn, #col, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_row_col = {indexing_maps = [#mn, #row, #col, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_row_row = {indexing_maps = [#mn, #row, #row, #mn], iterator_types = ["parallel", "parallel"]}

// Left to add_layer_norm_fusion; without the shift the rest is no norm of its own.
// CHECK-LABEL: @no_fusion_plain_affine_part
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_plain_affine_part
func.func @no_fusion_plain_affine_part(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>, %gamma: tensor<16xf32>, %beta: tensor<16xf32>) -> tensor<4x16xf32> {
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
  %scaled = linalg.generic #map_mn_row_row_col ins(%h, %mean, %rstd, %gamma : tensor<4x16xf32>, tensor<4xf32>, tensor<4xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %i3: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    linalg.yield %g : f32 } -> tensor<4x16xf32>
  %y = linalg.generic #map_mn_col ins(%scaled, %beta : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %b = arith.addf %i0, %i1 : f32  linalg.yield %b : f32 } -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// Left to layer_norm_fusion.
// CHECK-LABEL: @no_fusion_without_add
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_without_add
func.func @no_fusion_without_add(%x: tensor<4x16xf32>, %gamma: tensor<16xf32>) -> tensor<4x16xf32> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sum_mn ins(%x : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %q = linalg.generic #sum_mn_row ins(%x, %mean : tensor<4x16xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
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
  %e1 = tensor.empty() : tensor<4x16xf32>
  %y = linalg.generic #map_mn_row_row_col ins(%x, %mean, %rstd, %gamma : tensor<4x16xf32>, tensor<4xf32>, tensor<4xf32>, tensor<16xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %i3: f32, %o: f32):
    %c = arith.subf %i0, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    linalg.yield %g : f32 } -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// No mean is subtracted.
// CHECK-LABEL: @no_fusion_rms
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_rms
func.func @no_fusion_rms(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>, %gamma: tensor<16xf32>) -> tensor<4x16xf32> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%h : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.mulf %i, %i : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %y = linalg.generic #map_mn_row_col ins(%h, %rstd, %gamma : tensor<4x16xf32>, tensor<4xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %o: f32):
    %d = arith.mulf %i0, %i1 : f32
    %g = arith.mulf %d, %i2 : f32
    linalg.yield %g : f32 } -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64
// WHY: element_type (
// WHY: f64
func.func @no_fusion_f64(%x: tensor<4x16xf64>, %r: tensor<4x16xf64>) -> tensor<4x16xf64> {
  %n = arith.constant 16.0 : f64
  %eps = arith.constant 1.0e-5 : f64
  %e = tensor.empty() : tensor<4x16xf64>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf64>, tensor<4x16xf64>) outs(%e : tensor<4x16xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64): %v = arith.addf %i0, %i1 : f64  linalg.yield %v : f64 } -> tensor<4x16xf64>
  %e1 = tensor.empty() : tensor<4xf64>
  %zero = arith.constant 0.0 : f64
  %z = linalg.fill ins(%zero : f64) outs(%e1 : tensor<4xf64>) -> tensor<4xf64>
  %s = linalg.generic #sum_mn ins(%h : tensor<4x16xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i: f64, %o: f64): %v = arith.addf %o, %i : f64  linalg.yield %v : f64 } -> tensor<4xf64>
  %mean = linalg.generic #map_m ins(%s : tensor<4xf64>) outs(%e1 : tensor<4xf64>) {
  ^bb0(%i: f64, %o: f64): %v = arith.divf %i, %n : f64  linalg.yield %v : f64 } -> tensor<4xf64>
  %q = linalg.generic #sum_mn_row ins(%h, %mean : tensor<4x16xf64>, tensor<4xf64>) outs(%z : tensor<4xf64>) {
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
  %y = linalg.generic #map_mn_row_row ins(%h, %mean, %rstd : tensor<4x16xf64>, tensor<4xf64>, tensor<4xf64>) outs(%e : tensor<4x16xf64>) {
  ^bb0(%i0: f64, %i1: f64, %i2: f64, %o: f64):
    %c = arith.subf %i0, %i1 : f64
    %d = arith.mulf %c, %i2 : f64
    linalg.yield %d : f64 } -> tensor<4x16xf64>
  return %y : tensor<4x16xf64>
}
