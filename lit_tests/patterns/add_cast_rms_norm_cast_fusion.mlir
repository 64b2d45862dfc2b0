// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_cast_rms_norm_cast_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_cast_rms_norm_cast_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_mn_row = {indexing_maps = [#mn, #row, #mn], iterator_types = ["parallel", "parallel"]}
#map_col_mn = {indexing_maps = [#col, #mn, #mn], iterator_types = ["parallel", "parallel"]}

// From: h = x + r; w = h.float(); gamma * (w * rsqrt(w.pow(2).mean(-1, True) + 1e-5)).half(), h, by
//       mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @pytorch
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf16>, %[[A1:.*]]: tensor<4x16xf16>, %[[A2:.*]]: tensor<16xf16>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x16xf16>, tensor<4x16xf16>) {{.*}}"add_cast_rms_norm_cast_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V1]], %[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[A2]], %[[V8]] :
// CHECK: flow.return %[[V0]], %[[V9]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @pytorch(%x: tensor<4x16xf16>, %r: tensor<4x16xf16>, %gamma: tensor<16xf16>) -> (tensor<4x16xf16>, tensor<4x16xf16>) {
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %zero = arith.constant 0.0 : f32
  %c2_i64 = arith.constant 2 : i64
  %e = tensor.empty() : tensor<4x16xf16>
  %0 = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %1 = linalg.generic #map_mn ins(%0 : tensor<4x16xf16>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f16, %o: f32): %v = arith.extf %i : f16 to f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %2 = linalg.generic #map_mn ins(%1 : tensor<4x16xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.fpowi %i, %c2_i64 : f32, i64  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e2 : tensor<4xf32>) -> tensor<4xf32>
  %3 = linalg.generic #sum_mn_row ins(%2 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %4 = linalg.generic #map_m ins(%3 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %5 = linalg.generic #map_m ins(%4 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %6 = linalg.generic #map_m ins(%5 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %7 = linalg.generic #map_mn_row ins(%1, %6 : tensor<4x16xf32>, tensor<4xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %8 = linalg.generic #map_mn ins(%7 : tensor<4x16xf32>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i: f32, %o: f16): %v = arith.truncf %i : f32 to f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %9 = linalg.generic #map_col_mn ins(%gamma, %8 : tensor<16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.mulf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  return %9, %0 : tensor<4x16xf16>, tensor<4x16xf16>
}

// -----

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mn], iterator_types = ["parallel", "parallel"]}
#map_col = {indexing_maps = [#col, #mn], iterator_types = ["parallel", "parallel"]}

// Gamma is f32 and stands before the cast. From: the same in jnp, imported the same way.
// CHECK-LABEL: @jax
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf16>, %[[A1:.*]]: tensor<4x16xf16>, %[[A2:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x16xf16>, tensor<4x16xf16>) {{.*}}"add_cast_rms_norm_cast_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[A2]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]] :
// CHECK: flow.return %[[V0]], %[[V11]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @jax(%x: tensor<4x16xf16>, %r: tensor<4x16xf16>, %gamma: tensor<16xf32>) -> (tensor<4x16xf16>, tensor<4x16xf16>) {
  %zero = arith.constant 0.0 : f32
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xf16>
  %0 = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %1 = linalg.generic #map_mn ins(%0 : tensor<4x16xf16>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f16, %o: f32): %v = arith.extf %i : f16 to f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %2 = linalg.generic #map_mn ins(%1 : tensor<4x16xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e2 : tensor<4xf32>) -> tensor<4xf32>
  %3 = linalg.generic #sum_mn_row ins(%2 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %4 = linalg.generic #map_m ins(%3 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %5 = linalg.generic #map_m ins(%4 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %6 = linalg.generic #map_m ins(%5 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %7 = linalg.generic #map_row ins(%6 : tensor<4xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %8 = linalg.generic #map_mn_mn ins(%1, %7 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %9 = linalg.generic #map_col ins(%gamma : tensor<16xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %10 = linalg.generic #map_mn_mn ins(%8, %9 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %11 = linalg.generic #map_mn ins(%10 : tensor<4x16xf32>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i: f32, %o: f16): %v = arith.truncf %i : f32 to f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  return %11, %0 : tensor<4x16xf16>, tensor<4x16xf16>
}

// -----

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#scalar_of_row = affine_map<(m) -> ()>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_m_scalar_of_row = {indexing_maps = [#m, #scalar_of_row, #m], iterator_types = ["parallel"]}
#map_mn_row = {indexing_maps = [#mn, #row, #mn], iterator_types = ["parallel", "parallel"]}
#map_col_mn = {indexing_maps = [#col, #mn, #mn], iterator_types = ["parallel", "parallel"]}

// From: ONNX Add, Cast, Pow, ReduceMean, Add, Sqrt, Div, Cast, Mul, imported the same way.
// CHECK-LABEL: @onnx
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf16>, %[[A1:.*]]: tensor<4x16xf16>, %[[A2:.*]]: tensor<16xf16>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x16xf16>, tensor<4x16xf16>) {{.*}}"add_cast_rms_norm_cast_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[A2]], %{{.*}} :
// CHECK: flow.return %[[V0]], %[[V9]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @onnx(%x: tensor<4x16xf16>, %r: tensor<4x16xf16>, %gamma: tensor<16xf16>) -> (tensor<4x16xf16>, tensor<4x16xf16>) {
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant dense<1.0e-5> : tensor<f32>
  %zero = arith.constant 0.0 : f32
  %c2_i64 = arith.constant 2 : i64
  %e = tensor.empty() : tensor<4x16xf16>
  %0 = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %1 = linalg.generic #map_mn ins(%0 : tensor<4x16xf16>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f16, %o: f32): %v = arith.extf %i : f16 to f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %2 = linalg.generic #map_mn ins(%1 : tensor<4x16xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.fpowi %i, %c2_i64 : f32, i64  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e2 : tensor<4xf32>) -> tensor<4xf32>
  %3 = linalg.generic #sum_mn_row ins(%2 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %4 = linalg.generic #map_m ins(%3 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %5 = linalg.generic #map_m_scalar_of_row ins(%4, %eps : tensor<4xf32>, tensor<f32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %6 = linalg.generic #map_m ins(%5 : tensor<4xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.sqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %7 = linalg.generic #map_mn_row ins(%1, %6 : tensor<4x16xf32>, tensor<4xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.divf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %8 = linalg.generic #map_mn ins(%7 : tensor<4x16xf32>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i: f32, %o: f16): %v = arith.truncf %i : f32 to f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %9 = linalg.generic #map_col_mn ins(%gamma, %8 : tensor<16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.mulf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  return %9, %0 : tensor<4x16xf16>, tensor<4x16xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
#m = affine_map<(m) -> (m)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_mn_row_col = {indexing_maps = [#mn, #row, #col, #mn], iterator_types = ["parallel", "parallel"]}

// The residual add and the reciprocal root become further results.
// CHECK-LABEL: @bf16
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xbf16>, %[[A1:.*]]: tensor<4x16xbf16>, %[[A2:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]]:3 = flow.dispatch.region -> (tensor<4x16xbf16>, tensor<4xf32>, tensor<4x16xbf16>) {{.*}}"add_cast_rms_norm_cast_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[A2]] :
// CHECK: flow.return %[[V0]], %[[V2]], %[[V3]] :
// CHECK: return %[[R]]#2, %[[R]]#0, %[[R]]#1 :
func.func @bf16(%x: tensor<4x16xbf16>, %r: tensor<4x16xbf16>, %gamma: tensor<16xf32>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4xf32>) {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xbf16>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xbf16>, tensor<4x16xbf16>) outs(%e : tensor<4x16xbf16>) {
  ^bb0(%i0: bf16, %i1: bf16, %o: bf16): %v = arith.addf %i0, %i1 : bf16  linalg.yield %v : bf16 } -> tensor<4x16xbf16>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%h : tensor<4x16xbf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %w = arith.extf %i : bf16 to f32
    %p = arith.mulf %w, %w : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %y = linalg.generic #map_mn_row_col ins(%h, %rstd, %gamma : tensor<4x16xbf16>, tensor<4xf32>, tensor<16xf32>) outs(%e : tensor<4x16xbf16>) {
  ^bb0(%i0: bf16, %i1: f32, %i2: f32, %o: bf16):
    %w = arith.extf %i0 : bf16 to f32
    %d = arith.mulf %w, %i1 : f32
    %g = arith.mulf %d, %i2 : f32
    %v = arith.truncf %g : f32 to bf16
    linalg.yield %v : bf16 } -> tensor<4x16xbf16>
  return %y, %h, %rstd : tensor<4x16xbf16>, tensor<4x16xbf16>, tensor<4xf32>
}

// CHECK-LABEL: @dynamic_rows
// CHECK-SAME: %[[A0:.*]]: tensor<?x16xf16>, %[[A1:.*]]: tensor<?x16xf16>, %[[A2:.*]]: tensor<16xf16>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> ({{.*}}) {{.*}}"add_cast_rms_norm_cast_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[A1]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[A2]] :
// CHECK: flow.return %[[V0]], %[[V3]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @dynamic_rows(%x: tensor<?x16xf16>, %r: tensor<?x16xf16>, %gamma: tensor<16xf16>) -> (tensor<?x16xf16>, tensor<?x16xf16>) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x16xf16>
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty(%rows) : tensor<?x16xf16>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<?x16xf16>, tensor<?x16xf16>) outs(%e : tensor<?x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<?x16xf16>
  %e1 = tensor.empty(%rows) : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?xf32>) -> tensor<?xf32>
  %q = linalg.generic #sum_mn ins(%h : tensor<?x16xf16>) outs(%z : tensor<?xf32>) {
  ^bb0(%i: f16, %o: f32):
    %w = arith.extf %i : f16 to f32
    %p = arith.mulf %w, %w : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<?xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<?xf32>) outs(%e1 : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<?xf32>
  %y = linalg.generic #map_mn_row_col ins(%h, %rstd, %gamma : tensor<?x16xf16>, tensor<?xf32>, tensor<16xf16>) outs(%e : tensor<?x16xf16>) {
  ^bb0(%i0: f16, %i1: f32, %i2: f16, %o: f16):
    %w = arith.extf %i0 : f16 to f32
    %d = arith.mulf %w, %i1 : f32
    %gw = arith.extf %i2 : f16 to f32
    %g = arith.mulf %d, %gw : f32
    %v = arith.truncf %g : f32 to f16
    linalg.yield %v : f16 } -> tensor<?x16xf16>
  return %y, %h : tensor<?x16xf16>, tensor<?x16xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
#m = affine_map<(m) -> (m)>
#col = affine_map<(m, n) -> (n)>
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_mn_row_col = {indexing_maps = [#mn, #row, #col, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_row = {indexing_maps = [#mn, #row, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row, #row], iterator_types = ["parallel", "reduction"]}
#map_mn_row_row_col = {indexing_maps = [#mn, #row, #row, #col, #mn], iterator_types = ["parallel", "parallel"]}

// Left to add_rms_norm_fusion.
// CHECK-LABEL: @no_fusion_wide
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_wide
func.func @no_fusion_wide(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>, %gamma: tensor<16xf32>) -> tensor<4x16xf32> {
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

// Left to add_rms_norm_fusion: an f32 tensor is written.
// CHECK-LABEL: @no_fusion_wide_result
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_wide_result
func.func @no_fusion_wide_result(%x: tensor<4x16xf16>, %r: tensor<4x16xf16>) -> tensor<4x16xf32> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4x16xf16>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %e1 = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%h : tensor<4x16xf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f16, %o: f32):
    %w = arith.extf %i : f16 to f32
    %p = arith.mulf %w, %w : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e2 = tensor.empty() : tensor<4x16xf32>
  %y = linalg.generic #map_mn_row ins(%h, %rstd : tensor<4x16xf16>, tensor<4xf32>) outs(%e2 : tensor<4x16xf32>) {
  ^bb0(%i0: f16, %i1: f32, %o: f32):
    %w = arith.extf %i0 : f16 to f32
    %v = arith.mulf %w, %i1 : f32
    linalg.yield %v : f32 } -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// Left to add_rms_norm_fusion: f32 tensors are read.
// CHECK-LABEL: @no_fusion_wide_addends
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_wide_addends
func.func @no_fusion_wide_addends(%x: tensor<4x16xf32>, %r: tensor<4x16xf32>) -> tensor<4x16xf16> {
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
  %e2 = tensor.empty() : tensor<4x16xf16>
  %y = linalg.generic #map_mn_row ins(%h, %rstd : tensor<4x16xf32>, tensor<4xf32>) outs(%e2 : tensor<4x16xf16>) {
  ^bb0(%i0: f32, %i1: f32, %o: f16):
    %d = arith.mulf %i0, %i1 : f32
    %v = arith.truncf %d : f32 to f16
    linalg.yield %v : f16 } -> tensor<4x16xf16>
  return %y : tensor<4x16xf16>
}

// Left to add_rms_norm_fusion.
// CHECK-LABEL: @no_fusion_narrow_statistics
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_narrow_statistics
func.func @no_fusion_narrow_statistics(%x: tensor<4x16xf16>, %r: tensor<4x16xf16>, %gamma: tensor<16xf16>) -> tensor<4x16xf16> {
  %n = arith.constant 16.0 : f16
  %eps = arith.constant 1.0e-5 : f16
  %e = tensor.empty() : tensor<4x16xf16>
  %h = linalg.generic #map_mn_mn ins(%x, %r : tensor<4x16xf16>, tensor<4x16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16): %v = arith.addf %i0, %i1 : f16  linalg.yield %v : f16 } -> tensor<4x16xf16>
  %e1 = tensor.empty() : tensor<4xf16>
  %zero = arith.constant 0.0 : f16
  %z = linalg.fill ins(%zero : f16) outs(%e1 : tensor<4xf16>) -> tensor<4xf16>
  %q = linalg.generic #sum_mn ins(%h : tensor<4x16xf16>) outs(%z : tensor<4xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = arith.mulf %i, %i : f16
    %v = arith.addf %o, %p : f16
    linalg.yield %v : f16 } -> tensor<4xf16>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf16>) outs(%e1 : tensor<4xf16>) {
  ^bb0(%i: f16, %o: f16):
    %m = arith.divf %i, %n : f16
    %a = arith.addf %m, %eps : f16
    %v = math.rsqrt %a : f16
    linalg.yield %v : f16 } -> tensor<4xf16>
  %y = linalg.generic #map_mn_row_col ins(%h, %rstd, %gamma : tensor<4x16xf16>, tensor<4xf16>, tensor<16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %i2: f16, %o: f16):
    %d = arith.mulf %i0, %i1 : f16
    %g = arith.mulf %d, %i2 : f16
    linalg.yield %g : f16 } -> tensor<4x16xf16>
  return %y : tensor<4x16xf16>
}

// Left to rms_norm_fusion.
// CHECK-LABEL: @no_fusion_without_add
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_without_add
func.func @no_fusion_without_add(%x: tensor<4x16xf16>, %gamma: tensor<16xf16>) -> tensor<4x16xf16> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%x : tensor<4x16xf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f16, %o: f32):
    %w = arith.extf %i : f16 to f32
    %p = arith.mulf %w, %w : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4x16xf16>
  %y = linalg.generic #map_mn_row_col ins(%x, %rstd, %gamma : tensor<4x16xf16>, tensor<4xf32>, tensor<16xf16>) outs(%e1 : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f32, %i2: f16, %o: f16):
    %w = arith.extf %i0 : f16 to f32
    %d = arith.mulf %w, %i1 : f32
    %gw = arith.extf %i2 : f16 to f32
    %g = arith.mulf %d, %gw : f32
    %v = arith.truncf %g : f32 to f16
    linalg.yield %v : f16 } -> tensor<4x16xf16>
  return %y : tensor<4x16xf16>
}

// Left to add_layer_norm_fusion.
// CHECK-LABEL: @no_fusion_layer_norm
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_layer_norm
func.func @no_fusion_layer_norm(%x: tensor<4x16xf16>, %r: tensor<4x16xf16>, %gamma: tensor<16xf16>) -> tensor<4x16xf16> {
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
  %y = linalg.generic #map_mn_row_row_col ins(%h, %mean, %rstd, %gamma : tensor<4x16xf16>, tensor<4xf32>, tensor<4xf32>, tensor<16xf16>) outs(%e : tensor<4x16xf16>) {
  ^bb0(%i0: f16, %i1: f32, %i2: f32, %i3: f16, %o: f16):
    %w = arith.extf %i0 : f16 to f32
    %c = arith.subf %w, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %gw = arith.extf %i3 : f16 to f32
    %g = arith.mulf %d, %gw : f32
    %v = arith.truncf %g : f32 to f16
    linalg.yield %v : f16 } -> tensor<4x16xf16>
  return %y : tensor<4x16xf16>
}
