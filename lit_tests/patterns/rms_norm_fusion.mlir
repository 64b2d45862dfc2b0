// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2) -> (d2)>

// LlamaRMSNorm: statistics in f32, cast back before gamma, gamma first.
// CHECK-LABEL: @llama_bf16
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xbf16>, %[[G:.*]]: tensor<8xbf16>)
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x3x8xbf16>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "rms_norm_fusion"}
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: arith.extf
// CHECK: %[[WW:.*]] = linalg.generic {{.*}} ins(%[[W]] :
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[WW]] :
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%[[SQUARES]] :
// CHECK: %[[VE:.*]] = linalg.generic {{.*}} ins(%[[V]] :
// CHECK: %[[RSTD:.*]] = linalg.generic {{.*}} ins(%[[VE]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[W]], %[[RSTD]] :
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[N]] :
// CHECK: arith.truncf
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[G]], %[[T]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @llama_bf16(%arg0: tensor<2x3x8xbf16>, %arg1: tensor<8xbf16>) -> tensor<2x3x8xbf16> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x3x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<2x3x8xbf16>) outs(%0 : tensor<2x3x8xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %13 = arith.extf %in : bf16 to f32
    linalg.yield %13 : f32
  } -> tensor<2x3x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<2x3x8xf32>) outs(%0 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %13 = arith.mulf %in, %in : f32
    linalg.yield %13 : f32
  } -> tensor<2x3x8xf32>
  %3 = tensor.empty() : tensor<2x3xf32>
  %4 = linalg.fill ins(%cst_1 : f32) outs(%3 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2 : tensor<2x3x8xf32>) outs(%4 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %13 = arith.addf %in, %out : f32
    linalg.yield %13 : f32
  } -> tensor<2x3xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<2x3xf32>) outs(%3 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %13 = arith.divf %in, %cst_0 : f32
    linalg.yield %13 : f32
  } -> tensor<2x3xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<2x3xf32>) outs(%3 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %13 = arith.addf %in, %cst : f32
    linalg.yield %13 : f32
  } -> tensor<2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<2x3xf32>) outs(%3 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %13 = math.rsqrt %in : f32
    linalg.yield %13 : f32
  } -> tensor<2x3xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %8 : tensor<2x3x8xf32>, tensor<2x3xf32>) outs(%0 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %13 = arith.mulf %in, %in_2 : f32
    linalg.yield %13 : f32
  } -> tensor<2x3x8xf32>
  %10 = tensor.empty() : tensor<2x3x8xbf16>
  %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9 : tensor<2x3x8xf32>) outs(%10 : tensor<2x3x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %13 = arith.truncf %in : f32 to bf16
    linalg.yield %13 : bf16
  } -> tensor<2x3x8xbf16>
  %12 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg1, %11 : tensor<8xbf16>, tensor<2x3x8xbf16>) outs(%10 : tensor<2x3x8xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %13 = arith.mulf %in, %in_2 : bf16
    linalg.yield %13 : bf16
  } -> tensor<2x3x8xbf16>
  return %12 : tensor<2x3x8xbf16>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>

// From: jax.jit of x32 * lax.rsqrt(jnp.mean(jnp.square(x32), -1, keepdims=True) + 1e-6) cast back, times g,
//       .lower(...).as_text() and iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @jax_rms_norm
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[G:.*]]: tensor<8xbf16>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[WW:.*]] = linalg.generic {{.*}} ins(%[[W]] :
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%[[WW]] :
// CHECK: linalg.generic {{.*}} ins(%[[W]], %
// CHECK: %[[GS:.*]] = linalg.generic {{.*}} ins(%[[G]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[GS]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @jax_rms_norm(%arg0: tensor<4x8xbf16>, %arg1: tensor<8xbf16>) -> tensor<4x8xbf16> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 9.99999997E-7 : f32
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xbf16>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %15 = arith.extf %in : bf16 to f32
    linalg.yield %15 : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.mulf %in, %in : f32
    linalg.yield %15 : f32
  } -> tensor<4x8xf32>
  %3 = tensor.empty() : tensor<4xf32>
  %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<4xf32>) -> tensor<4xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%2 : tensor<4x8xf32>) outs(%4 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.addf %out, %in : f32
    linalg.yield %15 : f32
  } -> tensor<4xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<4xf32>) outs(%3 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.divf %in, %cst_0 : f32
    linalg.yield %15 : f32
  } -> tensor<4xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<4xf32>) outs(%3 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = arith.addf %in, %cst_1 : f32
    linalg.yield %15 : f32
  } -> tensor<4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%7 : tensor<4xf32>) outs(%3 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %15 = math.rsqrt %in : f32
    linalg.yield %15 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<4xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %9 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %15 = arith.mulf %in, %in_2 : f32
    linalg.yield %15 : f32
  } -> tensor<4x8xf32>
  %11 = tensor.empty() : tensor<4x8xbf16>
  %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<4x8xf32>) outs(%11 : tensor<4x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %15 = arith.truncf %in : f32 to bf16
    linalg.yield %15 : bf16
  } -> tensor<4x8xbf16>
  %13 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<8xbf16>) outs(%11 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<4x8xbf16>
  %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %13 : tensor<4x8xbf16>, tensor<4x8xbf16>) outs(%11 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %15 = arith.mulf %in, %in_2 : bf16
    linalg.yield %15 : bf16
  } -> tensor<4x8xbf16>
  return %14 : tensor<4x8xbf16>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @everything_in_two_bodies
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SQUARES]], %[[G]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @everything_in_two_bodies(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
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

// CHECK-LABEL: @power_of_minus_one_half_times_reciprocal_size
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SQUARES]], %[[G]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @power_of_minus_one_half_times_reciprocal_size(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %nth = arith.constant 0.125 : f32
  %half = arith.constant -0.5 : f32
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
    %v = arith.mulf %nth, %q : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.powf %ve, %half : f32
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

// Gemma's scale.
// CHECK-LABEL: @one_plus_gamma
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SQUARES]], %[[G]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @one_plus_gamma(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %one = arith.constant 1.0 : f32
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
    %g1 = arith.addf %g, %one : f32
    %pg = arith.mulf %p, %g1 : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>

// Pow, ReduceMean, Sqrt and Div.
// CHECK-LABEL: @three_axes_dynamic_rows
// CHECK-SAME: %[[X:.*]]: tensor<?x2x4x8xf32>, %[[G:.*]]: tensor<2x4x8xf32>)
// CHECK: %[[M:.*]] = tensor.dim %[[X]]
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<?x2x4x8xf32>{%[[M]]})
// CHECK: %[[XX:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: linalg.generic {{.*}}"parallel", "reduction", "reduction", "reduction"{{.*}} ins(%[[XX]] :
// CHECK: %[[SD:.*]] = linalg.generic
// CHECK: math.sqrt
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[X]], %{{.*}} :
// CHECK: arith.divf
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[G]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @three_axes_dynamic_rows(%arg0: tensor<?x2x4x8xf32>, %arg1: tensor<2x4x8xf32>) -> tensor<?x2x4x8xf32> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 6.400000e+01 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %cst_2 = arith.constant 2.000000e+00 : f32
  %c0 = arith.constant 0 : index
  %dim = tensor.dim %arg0, %c0 : tensor<?x2x4x8xf32>
  %0 = tensor.empty(%dim) : tensor<?x2x4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0 : tensor<?x2x4x8xf32>) outs(%0 : tensor<?x2x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = math.powf %in, %cst_2 : f32
    linalg.yield %11 : f32
  } -> tensor<?x2x4x8xf32>
  %2 = tensor.empty(%dim) : tensor<?xf32>
  %3 = linalg.fill ins(%cst_1 : f32) outs(%2 : tensor<?xf32>) -> tensor<?xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction", "reduction", "reduction"]} ins(%1 : tensor<?x2x4x8xf32>) outs(%3 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.addf %in, %out : f32
    linalg.yield %11 : f32
  } -> tensor<?xf32>
  %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<?xf32>) outs(%2 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.divf %in, %cst_0 : f32
    linalg.yield %11 : f32
  } -> tensor<?xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<?xf32>) outs(%2 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.addf %in, %cst : f32
    linalg.yield %11 : f32
  } -> tensor<?xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<?xf32>) outs(%2 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = math.sqrt %in : f32
    linalg.yield %11 : f32
  } -> tensor<?xf32>
  %8 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%7 : tensor<?xf32>) outs(%0 : tensor<?x2x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x2x4x8xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %8 : tensor<?x2x4x8xf32>, tensor<?x2x4x8xf32>) outs(%0 : tensor<?x2x4x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %11 = arith.divf %in, %in_3 : f32
    linalg.yield %11 : f32
  } -> tensor<?x2x4x8xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%9, %arg1 : tensor<?x2x4x8xf32>, tensor<2x4x8xf32>) outs(%0 : tensor<?x2x4x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %11 = arith.mulf %in, %in_3 : f32
    linalg.yield %11 : f32
  } -> tensor<?x2x4x8xf32>
  return %10 : tensor<?x2x4x8xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @rstd_read_elsewhere
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4xf32>, tensor<4x8xf32>)
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%[[SQUARES]] :
// CHECK: %[[VE:.*]] = linalg.generic {{.*}} ins(%[[V]] :
// CHECK: %[[RSTD:.*]] = linalg.generic {{.*}} ins(%[[VE]] :
// CHECK: math.rsqrt
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8xf32>)
// CHECK: flow.return %[[RSTD]], %[[Y]] :
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @rstd_read_elsewhere(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.mulf %in, %in : f32
    linalg.yield %11 : f32
  } -> tensor<4x8xf32>
  %2 = tensor.empty() : tensor<4xf32>
  %3 = linalg.fill ins(%cst_1 : f32) outs(%2 : tensor<4xf32>) -> tensor<4xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<4x8xf32>) outs(%3 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.addf %in, %out : f32
    linalg.yield %11 : f32
  } -> tensor<4xf32>
  %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.divf %in, %cst_0 : f32
    linalg.yield %11 : f32
  } -> tensor<4xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = arith.addf %in, %cst : f32
    linalg.yield %11 : f32
  } -> tensor<4xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %11 = math.rsqrt %in : f32
    linalg.yield %11 : f32
  } -> tensor<4xf32>
  %8 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<4xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %8 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %11 = arith.mulf %in, %in_2 : f32
    linalg.yield %11 : f32
  } -> tensor<4x8xf32>
  %10 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%9, %arg1 : tensor<4x8xf32>, tensor<8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %11 = arith.mulf %in, %in_2 : f32
    linalg.yield %11 : f32
  } -> tensor<4x8xf32>
  return %10, %7 : tensor<4x8xf32>, tensor<4xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// add_rms_norm_fusion takes it along; this pass does not.
// CHECK-LABEL: @residual_stays_outside
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[RES:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[RES]] :
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[H]] :
// CHECK: linalg.generic {{.*}} ins(%[[H]], %[[SQUARES]], %[[G]] :
// CHECK: return %[[R]]
func.func @residual_stays_outside(%x: tensor<4x8xf32>, %res: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
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

// CHECK-LABEL: @first_of_two
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.match = 0
// CHECK: return %[[R]]
// CHECK-LABEL: @second_of_two
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.match = 1
// CHECK: return %[[R]]
func.func @first_of_two(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
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
func.func @second_of_two(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
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

// CHECK-LABEL: @inside_scf_if
// CHECK-SAME: %[[P:.*]]: i1, %[[X:.*]]: tensor<4x8xf32>,
// CHECK: %[[T:.*]] = scf.if %[[P]]
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%[[X]] :
// CHECK: scf.yield %[[R]] :
// CHECK: return %[[T]]
func.func @inside_scf_if(%cond: i1, %x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %t = scf.if %cond -> tensor<4x8xf32> {
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

// CHECK-LABEL: @already_in_a_region
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK-NOT: flow.dispatch.region
// CHECK-NOT: mlirfuse.pass
// CHECK: return %[[R]]
// WHY-NOT: function @already_in_a_region
func.func @already_in_a_region(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %t = flow.dispatch.region -> (tensor<4x8xf32>) {
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
    flow.return %y : tensor<4x8xf32>
  }
  return %t : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_epsilon_is_an_argument
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_epsilon_is_an_argument
// WHY: constant_unverified (
// WHY: the epsilon under the square root is not constant
func.func @no_fusion_epsilon_is_an_argument(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %eps: f32) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
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

// CHECK-LABEL: @no_fusion_another_tensor_is_scaled
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_another_tensor_is_scaled
// WHY: structure (
// WHY: the scaled value is not the one in the variance
func.func @no_fusion_another_tensor_is_scaled(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %other: tensor<4x8xf32>) -> tensor<4x8xf32> {
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
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%other, %squares, %gamma : tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
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

// CHECK-LABEL: @no_fusion_wrong_size
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_wrong_size
// WHY: constant_unverified (
// WHY: the sum of 8 squares is divided by 7
func.func @no_fusion_wrong_size(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 7.0 : f32
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

// CHECK-LABEL: @no_fusion_size_is_an_argument
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_size_is_an_argument
// WHY: constant_unverified (
// WHY: the sum of 8 squares is scaled by a value that is not constant
func.func @no_fusion_size_is_an_argument(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %n: f32) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
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

// CHECK-LABEL: @no_fusion_dynamic_size
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_dynamic_size
// WHY: dynamic_shape (
// WHY: the normalized size is not static
func.func @no_fusion_dynamic_size(%x: tensor<4x?xf32>, %gamma: tensor<?xf32>, %k: index) -> tensor<4x?xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty(%k) : tensor<4x?xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %squares, %gamma : tensor<4x?xf32>, tensor<4xf32>, tensor<?xf32>) outs(%e : tensor<4x?xf32>) {
  ^bb0(%i: f32, %q: f32, %g: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_square_of_two_tensors
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_square_of_two_tensors
func.func @no_fusion_square_of_two_tensors(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %other: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #id, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %other : tensor<4x8xf32>, tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %j: f32, %acc: f32):
    %ii = arith.mulf %i, %j : f32
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

// CHECK-LABEL: @no_fusion_cube
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_cube
func.func @no_fusion_cube(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %three = arith.constant 3.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = math.powf %i, %three : f32
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

// CHECK-LABEL: @no_fusion_sum_starts_at_one
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_sum_starts_at_one
func.func @no_fusion_sum_starts_at_one(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 1.0 : f32
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

// CHECK-LABEL: @no_fusion_maximum_of_squares
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_maximum_of_squares
func.func @no_fusion_maximum_of_squares(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.maximumf %acc, %ii : f32
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

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64
// WHY: element_type (
// WHY: f64
func.func @no_fusion_f64(%x: tensor<4x8xf64>, %gamma: tensor<8xf64>) -> tensor<4x8xf64> {
  %zero = arith.constant 0.0 : f64
  %n = arith.constant 8.0 : f64
  %eps = arith.constant 1.0e-5 : f64
  %er = tensor.empty() : tensor<4xf64>
  %z = linalg.fill ins(%zero : f64) outs(%er : tensor<4xf64>) -> tensor<4xf64>
  %squares = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i: f64, %acc: f64):
    %ii = arith.mulf %i, %i : f64
    %a = arith.addf %acc, %ii : f64
    linalg.yield %a : f64
  } -> tensor<4xf64>
  %e = tensor.empty() : tensor<4x8xf64>
  %y = linalg.generic {indexing_maps = [#id, #row, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %squares, %gamma : tensor<4x8xf64>, tensor<4xf64>, tensor<8xf64>) outs(%e : tensor<4x8xf64>) {
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

// CHECK-LABEL: @no_fusion_f64_inside
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64_inside
// WHY: element_type (
// WHY: f64 inside linalg.generic
func.func @no_fusion_f64_inside(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
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
    %w = arith.extf %ve : f32 to f64
    %wr = math.rsqrt %w : f64
    %r = arith.truncf %wr : f64 to f32
    %p = arith.mulf %i, %r : f32
    %pg = arith.mulf %p, %g : f32
    linalg.yield %pg : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0) -> (d0)>

// CHECK-LABEL: @no_fusion_leading_axis
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_leading_axis
// WHY: wrong_axis (
// WHY: normalizes axes {{\[}}0] of a tensor of rank 2
func.func @no_fusion_leading_axis(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<8x4xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<8x4xf32>) outs(%0 : tensor<8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %9 = arith.mulf %in, %in : f32
    linalg.yield %9 : f32
  } -> tensor<8x4xf32>
  %2 = tensor.empty() : tensor<4xf32>
  %3 = linalg.fill ins(%cst_1 : f32) outs(%2 : tensor<4xf32>) -> tensor<4xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction", "parallel"]} ins(%1 : tensor<8x4xf32>) outs(%3 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %9 = arith.addf %in, %out : f32
    linalg.yield %9 : f32
  } -> tensor<4xf32>
  %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %9 = arith.divf %in, %cst_0 : f32
    linalg.yield %9 : f32
  } -> tensor<4xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %9 = arith.addf %in, %cst : f32
    linalg.yield %9 : f32
  } -> tensor<4xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %9 = math.rsqrt %in : f32
    linalg.yield %9 : f32
  } -> tensor<4xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %7 : tensor<8x4xf32>, tensor<4xf32>) outs(%0 : tensor<8x4xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %9 = arith.mulf %in, %in_2 : f32
    linalg.yield %9 : f32
  } -> tensor<8x4xf32>
  return %8 : tensor<8x4xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_layer_norm
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_layer_norm
func.func @no_fusion_layer_norm(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %a = arith.addf %i, %acc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %sum : tensor<4x8xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %s: f32, %acc: f32):
    %m = arith.divf %s, %n : f32
    %c = arith.subf %i, %m : f32
    %cc = arith.mulf %c, %c : f32
    %a = arith.addf %acc, %cc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %squares, %gamma, %beta : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
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
