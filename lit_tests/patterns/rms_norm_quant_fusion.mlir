// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_quant_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_quant_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_mn_row = {indexing_maps = [#mn, #row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_col = {indexing_maps = [#mn, #col, #mn], iterator_types = ["parallel", "parallel"]}

// From: y = x * rsqrt(x.pow(2).mean(-1, True) + 1e-5) * gamma;
//       clamp(round(y * scale + offset), -128, 127).to(int8), by mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @pytorch
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf32>, %[[A1:.*]]: tensor<16xf32>, %[[A2:.*]]: tensor<16xf32>, %[[A3:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16xi8>) {{.*}}"rms_norm_quant_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}} ins(%[[A0]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V3]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[V4]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]], %[[A1]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V6]], %[[A2]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]], %[[A3]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}} ins(%[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]] :
// CHECK: flow.return %[[V11]] :
// CHECK: return %[[R]] :
func.func @pytorch(%x: tensor<4x16xf32>, %gamma: tensor<16xf32>, %scale: tensor<16xf32>, %offset: tensor<16xf32>) -> tensor<4x16xi8> {
  %high = arith.constant 127.0 : f32
  %low = arith.constant -128.0 : f32
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %zero = arith.constant 0.0 : f32
  %c2_i64 = arith.constant 2 : i64
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = linalg.generic #map_mn ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.fpowi %i, %c2_i64 : f32, i64  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic #sum_mn_row ins(%0 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %3 = linalg.generic #map_m ins(%2 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %4 = linalg.generic #map_m ins(%3 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %5 = linalg.generic #map_mn_row ins(%x, %4 : tensor<4x16xf32>, tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %6 = linalg.generic #map_mn_col ins(%5, %gamma : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %7 = linalg.generic #map_mn_col ins(%6, %scale : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %8 = linalg.generic #map_mn_col ins(%7, %offset : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %9 = linalg.generic #map_mn ins(%8 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.roundeven %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %10 = linalg.generic #map_mn ins(%9 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %v0 = arith.cmpf ult, %i, %low : f32
    %v1 = arith.select %v0, %low, %i : f32
    %v2 = arith.cmpf ugt, %v1, %high : f32
    %v3 = arith.select %v2, %high, %v1 : f32
    linalg.yield %v3 : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %11 = linalg.generic #map_mn ins(%10 : tensor<4x16xf32>) outs(%e2 : tensor<4x16xi8>) {
  ^bb0(%i: f32, %o: i8): %v = arith.fptosi %i : f32 to i8  linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %11 : tensor<4x16xi8>
}

// -----

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#scalar = affine_map<(m, n) -> ()>
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_row = {indexing_maps = [#row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_mn = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_col = {indexing_maps = [#col, #mn], iterator_types = ["parallel", "parallel"]}
#map_scalar = {indexing_maps = [#scalar, #mn], iterator_types = ["parallel", "parallel"]}

// Scale and offset are numbers. From: jnp.clip(jnp.round(y * 20 + 3), -128, 127).astype(jnp.int8), imported the same way.
// CHECK-LABEL: @jax
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf32>, %[[A1:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16xi8>) {{.*}}"rms_norm_quant_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[A0]] :
// CHECK: linalg.generic {{.*}} ins(%[[A0]], %{{.*}} :
// CHECK: linalg.generic {{.*}} ins(%[[A1]] :
// CHECK: flow.return %{{.*}} :
// CHECK: return %[[R]] :
func.func @jax(%x: tensor<4x16xf32>, %gamma: tensor<16xf32>) -> tensor<4x16xi8> {
  %zero = arith.constant 0.0 : f32
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %c20 = arith.constant 20.0 : f32
  %c3 = arith.constant 3.0 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = linalg.generic #map_mn ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic #sum_mn_row ins(%0 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %3 = linalg.generic #map_m ins(%2 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %4 = linalg.generic #map_m ins(%3 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %5 = linalg.generic #map_row ins(%4 : tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %6 = linalg.generic #map_mn_mn ins(%x, %5 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %7 = linalg.generic #map_col ins(%gamma : tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %8 = linalg.generic #map_mn_mn ins(%6, %7 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %9 = linalg.generic #map_mn ins(%8 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %c20 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %10 = linalg.generic #map_mn ins(%9 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.roundeven %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %11 = linalg.generic #map_mn ins(%10 : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %c3 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<f32>
  %z1 = linalg.fill ins(%low : f32) outs(%e2 : tensor<f32>) -> tensor<f32>
  %12 = linalg.generic #map_scalar ins(%z1 : tensor<f32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %13 = linalg.generic #map_mn_mn ins(%12, %11 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.maximumf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %z2 = linalg.fill ins(%high : f32) outs(%e2 : tensor<f32>) -> tensor<f32>
  %14 = linalg.generic #map_scalar ins(%z2 : tensor<f32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<4x16xf32>
  %15 = linalg.generic #map_mn_mn ins(%14, %13 : tensor<4x16xf32>, tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.minimumf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e3 = tensor.empty() : tensor<4x16xi8>
  %16 = linalg.generic #map_mn ins(%15 : tensor<4x16xf32>) outs(%e3 : tensor<4x16xi8>) {
  ^bb0(%i: f32, %o: i8): %v = arith.fptosi %i : f32 to i8  linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %16 : tensor<4x16xi8>
}

// -----

#m = affine_map<(m) -> (m)>
#row = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>
#col = affine_map<(m, n) -> (n)>
#scalar_of_row = affine_map<(m) -> ()>
#scalar = affine_map<(m, n) -> ()>
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#sum_mn_row = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_m_scalar_of_row = {indexing_maps = [#m, #scalar_of_row, #m], iterator_types = ["parallel"]}
#map_mn_row = {indexing_maps = [#mn, #row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_col = {indexing_maps = [#mn, #col, #mn], iterator_types = ["parallel", "parallel"]}

// From: ONNX Mul, ReduceMean, Add, Sqrt, Div, Mul, QuantizeLinear, imported the same way.
// CHECK-LABEL: @onnx_unsigned
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf32>, %[[A1:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16xi8>) {{.*}}"rms_norm_quant_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[A0]] :
// CHECK: %[[V5:.*]] = linalg.generic {{.*}} ins(%[[A0]], %{{.*}} :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]], %[[A1]] :
// CHECK: %[[V7:.*]] = iree_linalg_ext.quantize_affine {{.*}} ins(%[[V6]],
// CHECK: flow.return %[[V7]] :
// CHECK: return %[[R]] :
func.func @onnx_unsigned(%x: tensor<4x16xf32>, %gamma: tensor<16xf32>) -> tensor<4x16xi8> {
  %c0_05 = arith.constant 0.05 : f32
  %c16 = arith.constant 16.0 : f32
  %eps = arith.constant dense<1.0e-5> : tensor<f32>
  %zero = arith.constant 0.0 : f32
  %c128_i64 = arith.constant 128 : i64
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = linalg.generic #map_mn ins(%x : tensor<4x16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic #sum_mn_row ins(%0 : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %2 = linalg.generic #map_m ins(%1 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c16 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %3 = linalg.generic #map_m_scalar_of_row ins(%2, %eps : tensor<4xf32>, tensor<f32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %4 = linalg.generic #map_m ins(%3 : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.sqrt %i : f32  linalg.yield %v : f32 } -> tensor<4xf32>
  %5 = linalg.generic #map_mn_row ins(%x, %4 : tensor<4x16xf32>, tensor<4xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.divf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %6 = linalg.generic #map_mn_col ins(%5, %gamma : tensor<4x16xf32>, tensor<16xf32>) outs(%e : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %7 = iree_linalg_ext.quantize_affine <indexing_maps = [#mn, #scalar, #scalar, #mn], quant_min = 0, quant_max = 255, storage_unsigned> ins(%6, %c0_05, %c128_i64 : tensor<4x16xf32>, f32, i64) outs(%e2 : tensor<4x16xi8>) -> tensor<4x16xi8>
  return %7 : tensor<4x16xi8>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
#m = affine_map<(m) -> (m)>
#col = affine_map<(m, n) -> (n)>
#scalar = affine_map<(m, n) -> ()>
#sum_mn = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_m = {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
#map_mn_row_col = {indexing_maps = [#mn, #row, #col, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_scalar_col = {indexing_maps = [#mn, #scalar, #col, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn_row = {indexing_maps = [#mn, #row, #mn], iterator_types = ["parallel", "parallel"]}

// One scale for the tensor, offset by channel; the unquantized norm is a further result.
// CHECK-LABEL: @f16
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xf16>, %[[A1:.*]]: tensor<16xf16>, %[[A2:.*]]: tensor<f32>, %[[A3:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4x16xf16>, tensor<4x16xi8>) {{.*}}"rms_norm_quant_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A0]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[V1]], %[[A1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V2]], %[[A2]], %[[A3]] :
// CHECK: flow.return %[[V2]], %[[V3]] :
// CHECK: return %[[R]]#1, %[[R]]#0 :
func.func @f16(%x: tensor<4x16xf16>, %gamma: tensor<16xf16>, %scale: tensor<f32>, %offset: tensor<16xf32>) -> (tensor<4x16xi8>, tensor<4x16xf16>) {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
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
    %gw = arith.extf %i2 : f16 to f32
    %d = arith.mulf %w, %i1 : f32
    %p = arith.mulf %d, %gw : f32
    %v = arith.truncf %p : f32 to f16
    linalg.yield %v : f16 } -> tensor<4x16xf16>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %z8 = linalg.generic #map_mn_scalar_col ins(%y, %scale, %offset : tensor<4x16xf16>, tensor<f32>, tensor<16xf32>) outs(%e2 : tensor<4x16xi8>) {
  ^bb0(%i0: f16, %i1: f32, %i2: f32, %o: i8):
    %w = arith.extf %i0 : f16 to f32
    %s = arith.mulf %w, %i1 : f32
    %t = arith.addf %s, %i2 : f32
    %n8 = math.roundeven %t : f32
    %lo = arith.maximumf %n8, %low : f32
    %hi = arith.minimumf %lo, %high : f32
    %v = arith.fptosi %hi : f32 to i8
    linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %z8, %y : tensor<4x16xi8>, tensor<4x16xf16>
}

// Symmetric, to the numbers that 8 bits without a sign hold.
// CHECK-LABEL: @bf16_unsigned
// CHECK-SAME: %[[A0:.*]]: tensor<4x16xbf16>, %[[A1:.*]]: tensor<16xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x16xi8>) {{.*}}"rms_norm_quant_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A0]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[V1]], %[[A1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: flow.return %[[V3]] :
// CHECK: return %[[R]] :
func.func @bf16_unsigned(%x: tensor<4x16xbf16>, %gamma: tensor<16xbf16>) -> tensor<4x16xi8> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %low = arith.constant 0.0 : f32
  %high = arith.constant 255.0 : f32
  %step = arith.constant 0.05 : f32
  %e = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%x : tensor<4x16xbf16>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %w = arith.extf %i : bf16 to f32
    %p = arith.mulf %w, %w : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %rstd = linalg.generic #map_m ins(%q : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4x16xbf16>
  %y = linalg.generic #map_mn_row_col ins(%x, %rstd, %gamma : tensor<4x16xbf16>, tensor<4xf32>, tensor<16xbf16>) outs(%e1 : tensor<4x16xbf16>) {
  ^bb0(%i0: bf16, %i1: f32, %i2: bf16, %o: bf16):
    %w = arith.extf %i0 : bf16 to f32
    %gw = arith.extf %i2 : bf16 to f32
    %d = arith.mulf %w, %i1 : f32
    %p = arith.mulf %d, %gw : f32
    %v = arith.truncf %p : f32 to bf16
    linalg.yield %v : bf16 } -> tensor<4x16xbf16>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %z8 = linalg.generic #map_mn ins(%y : tensor<4x16xbf16>) outs(%e2 : tensor<4x16xi8>) {
  ^bb0(%i: bf16, %o: i8):
    %w = arith.extf %i : bf16 to f32
    %s = arith.divf %w, %step : f32
    %n8 = math.roundeven %s : f32
    %lo = arith.maximumf %n8, %low : f32
    %hi = arith.minimumf %lo, %high : f32
    %v = arith.fptoui %hi : f32 to i8
    linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %z8 : tensor<4x16xi8>
}

// The offset is added after the rounding and before the clamp.
// CHECK-LABEL: @dynamic_rows
// CHECK-SAME: %[[A0:.*]]: tensor<?x16xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> ({{.*}}) {{.*}}"rms_norm_quant_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A0]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}} ins(%[[V1]] :
// CHECK: flow.return %[[V2]] :
// CHECK: return %[[R]] :
func.func @dynamic_rows(%x: tensor<?x16xf32>) -> tensor<?x16xi8> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x16xf32>
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %step = arith.constant 0.05 : f32
  %point = arith.constant 3.0 : f32
  %e = tensor.empty(%rows) : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %q = linalg.generic #sum_mn ins(%x : tensor<?x16xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.mulf %i, %i : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<?xf32>
  %e1 = tensor.empty(%rows) : tensor<?x16xf32>
  %y = linalg.generic #map_mn_row ins(%x, %q : tensor<?x16xf32>, tensor<?xf32>) outs(%e1 : tensor<?x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %m = arith.divf %i1, %n : f32
    %a = arith.addf %m, %eps : f32
    %d = math.rsqrt %a : f32
    %v = arith.mulf %i0, %d : f32
    linalg.yield %v : f32 } -> tensor<?x16xf32>
  %e2 = tensor.empty(%rows) : tensor<?x16xi8>
  %z8 = linalg.generic #map_mn ins(%y : tensor<?x16xf32>) outs(%e2 : tensor<?x16xi8>) {
  ^bb0(%i: f32, %o: i8):
    %s = arith.divf %i, %step : f32
    %n8 = math.roundeven %s : f32
    %t = arith.addf %n8, %point : f32
    %lo = arith.maximumf %t, %low : f32
    %hi = arith.minimumf %lo, %high : f32
    %v = arith.fptosi %hi : f32 to i8
    linalg.yield %v : i8 } -> tensor<?x16xi8>
  return %z8 : tensor<?x16xi8>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
#sum_mn = {indexing_maps = [#mn, #row], iterator_types = ["parallel", "reduction"]}
#map_mn_row = {indexing_maps = [#mn, #row, #mn], iterator_types = ["parallel", "parallel"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}

// CHECK-LABEL: @no_fusion_half_away_from_zero
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_half_away_from_zero
// WHY: structure (
// WHY: math.round where math.roundeven is expected
func.func @no_fusion_half_away_from_zero(%x: tensor<4x16xf32>) -> tensor<4x16xi8> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%x : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.mulf %i, %i : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %y = linalg.generic #map_mn_row ins(%x, %q : tensor<4x16xf32>, tensor<4xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %m = arith.divf %i1, %n : f32
    %a = arith.addf %m, %eps : f32
    %d = math.rsqrt %a : f32
    %v = arith.mulf %i0, %d : f32
    linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %z8 = linalg.generic #map_mn ins(%y : tensor<4x16xf32>) outs(%e2 : tensor<4x16xi8>) {
  ^bb0(%i: f32, %o: i8):
    %n8 = math.round %i : f32
    %lo = arith.maximumf %n8, %low : f32
    %hi = arith.minimumf %lo, %high : f32
    %v = arith.fptosi %hi : f32 to i8
    linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %z8 : tensor<4x16xi8>
}

// A value above 127 is outside of i8.
// CHECK-LABEL: @no_fusion_wider_clamp
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_wider_clamp
// WHY: constant_unverified (
// WHY: clamped to [-128, 255], which exceeds [-128, 127]
func.func @no_fusion_wider_clamp(%x: tensor<4x16xf32>) -> tensor<4x16xi8> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 255.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%x : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.mulf %i, %i : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %y = linalg.generic #map_mn_row ins(%x, %q : tensor<4x16xf32>, tensor<4xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %m = arith.divf %i1, %n : f32
    %a = arith.addf %m, %eps : f32
    %d = math.rsqrt %a : f32
    %v = arith.mulf %i0, %d : f32
    linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %z8 = linalg.generic #map_mn ins(%y : tensor<4x16xf32>) outs(%e2 : tensor<4x16xi8>) {
  ^bb0(%i: f32, %o: i8):
    %n8 = math.roundeven %i : f32
    %lo = arith.maximumf %n8, %low : f32
    %hi = arith.minimumf %lo, %high : f32
    %v = arith.fptosi %hi : f32 to i8
    linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %z8 : tensor<4x16xi8>
}

// CHECK-LABEL: @no_fusion_scale_by_row
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_scale_by_row
// WHY: wrong_axis (
// WHY: scale or offset varies over axes [0]
func.func @no_fusion_scale_by_row(%x: tensor<4x16xf32>, %scale: tensor<4xf32>) -> tensor<4x16xi8> {
  %n = arith.constant 16.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %low = arith.constant -128.0 : f32
  %high = arith.constant 127.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic #sum_mn ins(%x : tensor<4x16xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.mulf %i, %i : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<4xf32>
  %e1 = tensor.empty() : tensor<4x16xf32>
  %y = linalg.generic #map_mn_row ins(%x, %q : tensor<4x16xf32>, tensor<4xf32>) outs(%e1 : tensor<4x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %m = arith.divf %i1, %n : f32
    %a = arith.addf %m, %eps : f32
    %d = math.rsqrt %a : f32
    %v = arith.mulf %i0, %d : f32
    linalg.yield %v : f32 } -> tensor<4x16xf32>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %z8 = linalg.generic #map_mn_row ins(%y, %scale : tensor<4x16xf32>, tensor<4xf32>) outs(%e2 : tensor<4x16xi8>) {
  ^bb0(%i0: f32, %i1: f32, %o: i8):
    %s = arith.mulf %i0, %i1 : f32
    %n8 = math.roundeven %s : f32
    %lo = arith.maximumf %n8, %low : f32
    %hi = arith.minimumf %lo, %high : f32
    %v = arith.fptosi %hi : f32 to i8
    linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %z8 : tensor<4x16xi8>
}

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64
// WHY: element_type (
// WHY: f64
func.func @no_fusion_f64(%x: tensor<4x16xf64>) -> tensor<4x16xi8> {
  %n = arith.constant 16.0 : f64
  %eps = arith.constant 1.0e-5 : f64
  %low = arith.constant -128.0 : f64
  %high = arith.constant 127.0 : f64
  %e = tensor.empty() : tensor<4xf64>
  %zero = arith.constant 0.0 : f64
  %z = linalg.fill ins(%zero : f64) outs(%e : tensor<4xf64>) -> tensor<4xf64>
  %q = linalg.generic #sum_mn ins(%x : tensor<4x16xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i: f64, %o: f64):
    %p = arith.mulf %i, %i : f64
    %v = arith.addf %o, %p : f64
    linalg.yield %v : f64 } -> tensor<4xf64>
  %e1 = tensor.empty() : tensor<4x16xf64>
  %y = linalg.generic #map_mn_row ins(%x, %q : tensor<4x16xf64>, tensor<4xf64>) outs(%e1 : tensor<4x16xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64):
    %m = arith.divf %i1, %n : f64
    %a = arith.addf %m, %eps : f64
    %d = math.rsqrt %a : f64
    %v = arith.mulf %i0, %d : f64
    linalg.yield %v : f64 } -> tensor<4x16xf64>
  %e2 = tensor.empty() : tensor<4x16xi8>
  %z8 = linalg.generic #map_mn ins(%y : tensor<4x16xf64>) outs(%e2 : tensor<4x16xi8>) {
  ^bb0(%i: f64, %o: i8):
    %n8 = math.roundeven %i : f64
    %lo = arith.maximumf %n8, %low : f64
    %hi = arith.minimumf %lo, %high : f64
    %v = arith.fptosi %hi : f64 to i8
    linalg.yield %v : i8 } -> tensor<4x16xi8>
  return %z8 : tensor<4x16xi8>
}
