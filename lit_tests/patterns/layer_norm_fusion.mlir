// RUN: %mlirfuse-opt %s --split-input-file --pipeline=layer_norm_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=layer_norm_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2) -> (d2)>

// torch.nn.LayerNorm as it is after global optimization, one op per arithmetic operation.
// CHECK-LABEL: @pytorch_op_by_op
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[G:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x3x8xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "layer_norm_fusion"}
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]] :
// CHECK: %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]] :
// CHECK: %[[MEANS:.*]] = linalg.generic {{.*}} ins(%[[MEAN]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[MEANS]] :
// CHECK: %[[CC:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[CC]] :
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%[[SQUARES]] :
// CHECK: %[[VE:.*]] = linalg.generic {{.*}} ins(%[[V]] :
// CHECK: %[[RSTD:.*]] = linalg.generic {{.*}} ins(%[[VE]] :
// CHECK: %[[RSTDS:.*]] = linalg.generic {{.*}} ins(%[[RSTD]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[RSTDS]] :
// CHECK: %[[NG:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[G]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[NG]], %[[B]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @pytorch_op_by_op(%arg0: tensor<2x3x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x3xf32>
  %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<2x3x8xf32>) outs(%1 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<2x3xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x3xf32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<2x3xf32>
  %4 = tensor.empty() : tensor<2x3x8xf32>
  %5 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3 : tensor<2x3xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x3x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %5 : tensor<2x3x8xf32>, tensor<2x3x8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.subf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<2x3x8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<2x3x8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.mulf %in, %in : f32
    linalg.yield %16 : f32
  } -> tensor<2x3x8xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%7 : tensor<2x3x8xf32>) outs(%1 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<2x3xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<2x3xf32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<2x3xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<2x3xf32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %cst : f32
    linalg.yield %16 : f32
  } -> tensor<2x3xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<2x3xf32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = math.rsqrt %in : f32
    linalg.yield %16 : f32
  } -> tensor<2x3xf32>
  %12 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11 : tensor<2x3xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x3x8xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6, %12 : tensor<2x3x8xf32>, tensor<2x3x8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<2x3x8xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13, %arg1 : tensor<2x3x8xf32>, tensor<8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<2x3x8xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%14, %arg2 : tensor<2x3x8xf32>, tensor<8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.addf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<2x3x8xf32>
  return %15 : tensor<2x3x8xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0) -> ()>
#map4 = affine_map<() -> ()>
#map5 = affine_map<(d0, d1) -> (d1)>

// jnp.mean and jnp.var: the divisor of the variance is a hoisted global, and a selection guards it.
// From: jax.jit(lambda x, g, b: (x - jnp.mean(x, -1, keepdims=True)) * lax.rsqrt(
//           jnp.var(x, -1, keepdims=True) + 1e-5) * g + b).lower(...).as_text() and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @jax_var
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[N:.*]] = util.global.load immutable
// CHECK: %[[POSITIVE:.*]] = tensor.extract
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]] :
// CHECK: linalg.generic {{.*}} ins(%[[N]] :
// CHECK: arith.select %[[POSITIVE]]
// CHECK: linalg.generic {{.*}} ins(%[[G]] :
// CHECK: %[[BETA:.*]] = linalg.generic {{.*}} ins(%[[B]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[BETA]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
util.global private @__hoisted_tensor_f32 = dense<8.000000e+00> : tensor<f32>
func.func @jax_var(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<4x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0x7FC00000 : f32
  %cst_2 = arith.constant 9.99999974E-6 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %out, %in : f32
    linalg.yield %22 : f32
  } -> tensor<4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<4xf32>
  %4 = tensor.empty() : tensor<4x8xf32>
  %5 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %5 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %22 = arith.subf %in, %in_3 : f32
    linalg.yield %22 : f32
  } -> tensor<4x8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %in : f32
    linalg.yield %22 : f32
  } -> tensor<4x8xf32>
  %__hoisted_tensor_f32 = util.global.load immutable @__hoisted_tensor_f32 : tensor<f32>
  %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %out, %in : f32
    linalg.yield %22 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel"]} ins(%__hoisted_tensor_f32 : tensor<f32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%8, %9 : tensor<4xf32>, tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %22 = arith.divf %in, %in_3 : f32
    linalg.yield %22 : f32
  } -> tensor<4xf32>
  %11 = tensor.empty() : tensor<i1>
  %12 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = []} ins(%__hoisted_tensor_f32 : tensor<f32>) outs(%11 : tensor<i1>) {
  ^bb0(%in: f32, %out: i1):
    %22 = arith.cmpf ogt, %in, %cst : f32
    linalg.yield %22 : i1
  } -> tensor<i1>
  %extracted = tensor.extract %12[] : tensor<i1>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.select %extracted, %in, %cst_1 : f32
    linalg.yield %22 : f32
  } -> tensor<4xf32>
  %14 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%13 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %cst_2 : f32
    linalg.yield %22 : f32
  } -> tensor<4xf32>
  %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%14 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = math.rsqrt %in : f32
    linalg.yield %22 : f32
  } -> tensor<4xf32>
  %16 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%6, %16 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %22 = arith.mulf %in, %in_3 : f32
    linalg.yield %22 : f32
  } -> tensor<4x8xf32>
  %18 = linalg.generic {indexing_maps = [#map5, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%17, %18 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %22 = arith.mulf %in, %in_3 : f32
    linalg.yield %22 : f32
  } -> tensor<4x8xf32>
  %20 = linalg.generic {indexing_maps = [#map5, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %21 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%19, %20 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %22 = arith.addf %in, %in_3 : f32
    linalg.yield %22 : f32
  } -> tensor<4x8xf32>
  return %21 : tensor<4x8xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>

// mean(x^2) - mean(x)^2 clamped at zero, gamma into the reciprocal root, as flax.linen.LayerNorm writes it.
// From: jax.jit of that arithmetic, .lower(...).as_text() and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @flax_fast_variance
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]] :
// CHECK: %[[XX:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%[[XX]] :
// CHECK: arith.maximumf
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[X]], %
// CHECK: %[[GS:.*]] = linalg.generic {{.*}} ins(%[[G]] :
// CHECK: %[[SCALE:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[GS]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[SCALE]] :
// CHECK: %[[BS:.*]] = linalg.generic {{.*}} ins(%[[B]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[BS]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @flax_fast_variance(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<4x8xf32> {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 9.99999997E-7 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %out, %in : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.divf %in, %cst_0 : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %4 = tensor.empty() : tensor<4x8xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.mulf %in, %in : f32
    linalg.yield %21 : f32
  } -> tensor<4x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%5 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %out, %in : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.divf %in, %cst_0 : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%3 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.mulf %in, %in : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%7, %8 : tensor<4xf32>, tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.subf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.maximumf %in, %cst : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %11 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %11 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.subf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<4x8xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = arith.addf %in, %cst_1 : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %14 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%13 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %21 = math.rsqrt %in : f32
    linalg.yield %21 : f32
  } -> tensor<4xf32>
  %15 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%14 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %16 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%15, %16 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.mulf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<4x8xf32>
  %18 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %17 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.mulf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<4x8xf32>
  %19 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %20 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%18, %19 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %21 = arith.addf %in, %in_2 : f32
    linalg.yield %21 : f32
  } -> tensor<4x8xf32>
  return %20 : tensor<4x8xf32>
}

// -----

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
#map3 = affine_map<(d0, d1) -> ()>
#map4 = affine_map<(d0, d1, d2) -> (d2)>

// A graph of ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add with opset 13.
// From: iree-import-onnx and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @onnx_pow_sqrt_div
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xf32>, %[[G:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[X]], %
// CHECK: linalg.generic {{.*}} ins(%[[C]] :
// CHECK: math.fpowi
// CHECK: %[[SD:.*]] = linalg.generic
// CHECK: math.sqrt
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[C]], %{{.*}} :
// CHECK: arith.divf
// CHECK: %[[NG:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[G]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[NG]], %[[B]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @onnx_pow_sqrt_div(%arg0: tensor<2x3x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %c2_i64 = arith.constant 2 : i64
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant dense<9.99999974E-6> : tensor<f32>
  %cst_1 = arith.constant 8.000000e+00 : f32
  %0 = tensor.empty() : tensor<2x3xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<2x3x8xf32>) outs(%1 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %out : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<2x3xf32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.divf %in, %cst_1 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %4 = tensor.empty() : tensor<2x3x8xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %3 : tensor<2x3x8xf32>, tensor<2x3xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %14 = arith.subf %in, %in_2 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<2x3x8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = math.fpowi %in, %c2_i64 : f32, i64
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%6 : tensor<2x3x8xf32>) outs(%1 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %out : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<2x3xf32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.divf %in, %cst_1 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map3, #map2], iterator_types = ["parallel", "parallel"]} ins(%8, %cst_0 : tensor<2x3xf32>, tensor<f32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %14 = arith.addf %in, %in_2 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<2x3xf32>) outs(%0 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = math.sqrt %in : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %11 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5, %10 : tensor<2x3x8xf32>, tensor<2x3xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %14 = arith.divf %in, %in_2 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11, %arg1 : tensor<2x3x8xf32>, tensor<8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %14 = arith.mulf %in, %in_2 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%12, %arg2 : tensor<2x3x8xf32>, tensor<8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %14 = arith.addf %in, %in_2 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  return %13 : tensor<2x3x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @everything_in_three_bodies
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SUM]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SUM]], %[[SQUARES]], %[[G]], %[[B]] :
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @everything_in_three_bodies(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
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

// -----

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1, d2) -> (d1, d2)>

// Statistics in f32; the casts belong to the group.
// CHECK-LABEL: @f16_two_axes_dynamic_rows
// CHECK-SAME: %[[X:.*]]: tensor<?x4x8xf16>, %[[G:.*]]: tensor<4x8xf16>, %[[B:.*]]: tensor<4x8xf16>)
// CHECK: %[[M:.*]] = tensor.dim %[[X]]
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<?x4x8xf16>{%[[M]]})
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: arith.extf
// CHECK: linalg.generic {{.*}}"reduction", "reduction"{{.*}} ins(%[[WIDE]] :
// CHECK: linalg.generic {{.*}} ins(%[[G]] :
// CHECK: linalg.generic {{.*}} ins(%[[B]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<?x4x8xf16>)
// CHECK: arith.truncf
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @f16_two_axes_dynamic_rows(%arg0: tensor<?x4x8xf16>, %arg1: tensor<4x8xf16>, %arg2: tensor<4x8xf16>) -> tensor<?x4x8xf16> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 3.200000e+01 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %c0 = arith.constant 0 : index
  %dim = tensor.dim %arg0, %c0 : tensor<?x4x8xf16>
  %0 = tensor.empty(%dim) : tensor<?x4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<?x4x8xf16>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %22 = arith.extf %in : f16 to f32
    linalg.yield %22 : f32
  } -> tensor<?x4x8xf32>
  %2 = tensor.empty(%dim) : tensor<?xf32>
  %3 = linalg.fill ins(%cst_1 : f32) outs(%2 : tensor<?xf32>) -> tensor<?xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction", "reduction"]} ins(%1 : tensor<?x4x8xf32>) outs(%3 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<?xf32>
  %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<?xf32>) outs(%2 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<?xf32>
  %6 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<?xf32>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x4x8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %6 : tensor<?x4x8xf32>, tensor<?x4x8xf32>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %22 = arith.subf %in, %in_2 : f32
    linalg.yield %22 : f32
  } -> tensor<?x4x8xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%7 : tensor<?x4x8xf32>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.mulf %in, %in : f32
    linalg.yield %22 : f32
  } -> tensor<?x4x8xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction", "reduction"]} ins(%8 : tensor<?x4x8xf32>) outs(%3 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %out : f32
    linalg.yield %22 : f32
  } -> tensor<?xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<?xf32>) outs(%2 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.divf %in, %cst_0 : f32
    linalg.yield %22 : f32
  } -> tensor<?xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<?xf32>) outs(%2 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = arith.addf %in, %cst : f32
    linalg.yield %22 : f32
  } -> tensor<?xf32>
  %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%11 : tensor<?xf32>) outs(%2 : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %22 = math.rsqrt %in : f32
    linalg.yield %22 : f32
  } -> tensor<?xf32>
  %13 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%12 : tensor<?xf32>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?x4x8xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%7, %13 : tensor<?x4x8xf32>, tensor<?x4x8xf32>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %22 = arith.mulf %in, %in_2 : f32
    linalg.yield %22 : f32
  } -> tensor<?x4x8xf32>
  %15 = tensor.empty() : tensor<4x8xf32>
  %16 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<4x8xf16>) outs(%15 : tensor<4x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %22 = arith.extf %in : f16 to f32
    linalg.yield %22 : f32
  } -> tensor<4x8xf32>
  %17 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%14, %16 : tensor<?x4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %22 = arith.mulf %in, %in_2 : f32
    linalg.yield %22 : f32
  } -> tensor<?x4x8xf32>
  %18 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%arg2 : tensor<4x8xf16>) outs(%15 : tensor<4x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %22 = arith.extf %in : f16 to f32
    linalg.yield %22 : f32
  } -> tensor<4x8xf32>
  %19 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%17, %18 : tensor<?x4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<?x4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %22 = arith.addf %in, %in_2 : f32
    linalg.yield %22 : f32
  } -> tensor<?x4x8xf32>
  %20 = tensor.empty(%dim) : tensor<?x4x8xf16>
  %21 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%19 : tensor<?x4x8xf32>) outs(%20 : tensor<?x4x8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %22 = arith.truncf %in : f32 to f16
    linalg.yield %22 : f16
  } -> tensor<?x4x8xf16>
  return %21 : tensor<?x4x8xf16>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>

// CHECK-LABEL: @bf16_without_affine
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[X]], %
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %
// CHECK: flow.return %[[Y]] :
// CHECK: return %[[R]]
func.func @bf16_without_affine(%arg0: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %cst = arith.constant 1.001360e-05 : bf16
  %cst_0 = arith.constant 8.000000e+00 : bf16
  %cst_1 = arith.constant 0.000000e+00 : bf16
  %0 = tensor.empty() : tensor<4xbf16>
  %1 = linalg.fill ins(%cst_1 : bf16) outs(%0 : tensor<4xbf16>) -> tensor<4xbf16>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xbf16>) outs(%1 : tensor<4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %14 = arith.addf %in, %out : bf16
    linalg.yield %14 : bf16
  } -> tensor<4xbf16>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<4xbf16>) outs(%0 : tensor<4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %14 = arith.divf %in, %cst_0 : bf16
    linalg.yield %14 : bf16
  } -> tensor<4xbf16>
  %4 = tensor.empty() : tensor<4x8xbf16>
  %5 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4xbf16>) outs(%4 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<4x8xbf16>
  %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %5 : tensor<4x8xbf16>, tensor<4x8xbf16>) outs(%4 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %14 = arith.subf %in, %in_2 : bf16
    linalg.yield %14 : bf16
  } -> tensor<4x8xbf16>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<4x8xbf16>) outs(%4 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %14 = arith.mulf %in, %in : bf16
    linalg.yield %14 : bf16
  } -> tensor<4x8xbf16>
  %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<4x8xbf16>) outs(%1 : tensor<4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %14 = arith.addf %in, %out : bf16
    linalg.yield %14 : bf16
  } -> tensor<4xbf16>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<4xbf16>) outs(%0 : tensor<4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %14 = arith.divf %in, %cst_0 : bf16
    linalg.yield %14 : bf16
  } -> tensor<4xbf16>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<4xbf16>) outs(%0 : tensor<4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %14 = arith.addf %in, %cst : bf16
    linalg.yield %14 : bf16
  } -> tensor<4xbf16>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<4xbf16>) outs(%0 : tensor<4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %14 = math.rsqrt %in : bf16
    linalg.yield %14 : bf16
  } -> tensor<4xbf16>
  %12 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<4xbf16>) outs(%4 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    linalg.yield %in : bf16
  } -> tensor<4x8xbf16>
  %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%6, %12 : tensor<4x8xbf16>, tensor<4x8xbf16>) outs(%4 : tensor<4x8xbf16>) {
  ^bb0(%in: bf16, %in_2: bf16, %out: bf16):
    %14 = arith.mulf %in, %in_2 : bf16
    linalg.yield %14 : bf16
  } -> tensor<4x8xbf16>
  return %13 : tensor<4x8xbf16>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>

// As aten.native_layer_norm returns them.
// CHECK-LABEL: @mean_and_rstd_read_elsewhere
// CHECK: %[[R:.*]]:3 = flow.dispatch.region -> (tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]] :
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%[[SQUARES]] :
// CHECK: %[[VE:.*]] = linalg.generic {{.*}} ins(%[[V]] :
// CHECK: %[[RSTD:.*]] = linalg.generic {{.*}} ins(%[[VE]] :
// CHECK: flow.return %[[MEAN]], %[[RSTD]], %{{.*}} :
// CHECK: return %[[R]]#2, %[[R]]#0, %[[R]]#1
func.func @mean_and_rstd_read_elsewhere(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %4 = tensor.empty() : tensor<4x8xf32>
  %5 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %5 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.subf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.mulf %in, %in : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %cst : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = math.rsqrt %in : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %12 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%6, %12 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %arg1 : tensor<4x8xf32>, tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%14, %arg2 : tensor<4x8xf32>, tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.addf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  return %15, %3, %11 : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>

// The broadcast of the mean is no result of the region: users outside get a copy of it.
// CHECK-LABEL: @broadcast_read_elsewhere
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<4xf32>, tensor<4x8xf32>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]] :
// CHECK: flow.return %[[MEAN]], %{{.*}} :
// CHECK: %[[MEANS:.*]] = linalg.generic {{.*}} ins(%[[R]]#0 :
// CHECK-NEXT: ^bb0
// CHECK-NEXT: linalg.yield
// CHECK: return %[[R]]#1, %[[MEANS]]
func.func @broadcast_read_elsewhere(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %4 = tensor.empty() : tensor<4x8xf32>
  %5 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %5 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.subf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.mulf %in, %in : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %cst : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = math.rsqrt %in : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %12 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<4xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x8xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%6, %12 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %14 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%13, %arg1 : tensor<4x8xf32>, tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%14, %arg2 : tensor<4x8xf32>, tensor<8xf32>) outs(%4 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.addf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  return %15, %5 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// A scale that differs from row to row is not the norm's: it is not fused.
// CHECK-LABEL: @gamma_has_two_axes
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<4x8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[SQUARES:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SUM]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SUM]], %[[SQUARES]] :
// CHECK: flow.return %[[N]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[R]], %[[G]] :
// CHECK: return %[[Y]]
func.func @gamma_has_two_axes(%x: tensor<4x8xf32>, %gamma: tensor<4x8xf32>) -> tensor<4x8xf32> {
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
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %squares : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %s: f32, %q: f32, %o: f32):
    %m = arith.divf %s, %n : f32
    %c = arith.subf %i, %m : f32
    %v = arith.divf %q, %n : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %c, %r : f32
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  %yg = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %gamma : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %g: f32, %o: f32):
    %p = arith.mulf %i, %g : f32
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  return %yg : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// Each function on its own; the matches of a pass are counted over the module.
// CHECK-LABEL: @first_of_two
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.match = 0
// CHECK: return %[[R]]
// CHECK-LABEL: @second_of_two
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.match = 1
// CHECK: return %[[R]]
func.func @first_of_two(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
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
func.func @second_of_two(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
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
// CHECK: else
// CHECK: scf.yield %[[X]] :
// CHECK: return %[[T]]
func.func @inside_scf_if(%cond: i1, %x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
  %t = scf.if %cond -> tensor<4x8xf32> {
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
func.func @already_in_a_region(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
  %t = flow.dispatch.region -> (tensor<4x8xf32>) {
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
func.func @no_fusion_epsilon_is_an_argument(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>, %eps: f32) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
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

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_mean_of_another_tensor
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_mean_of_another_tensor
// WHY: structure (
// WHY: the subtracted mean is not the mean of the input
func.func @no_fusion_mean_of_another_tensor(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>, %other: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%other : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
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
func.func @no_fusion_another_tensor_is_scaled(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>, %other: tensor<4x8xf32>) -> tensor<4x8xf32> {
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
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%other, %sum, %squares, %gamma, %beta : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
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

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// The unbiased variance of torch.var is another function.
// CHECK-LABEL: @no_fusion_wrong_size_in_the_variance
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_wrong_size_in_the_variance
// WHY: constant_unverified (
// WHY: the sum of 8 squares is divided by 7
func.func @no_fusion_wrong_size_in_the_variance(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %n7 = arith.constant 7.0 : f32
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
    %v = arith.divf %q, %n7 : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %c, %r : f32
    %pg = arith.mulf %p, %g : f32
    %pb = arith.addf %pg, %b : f32
    linalg.yield %pb : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_wrong_size_in_the_mean
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_wrong_size_in_the_mean
// WHY: constant_unverified (
// WHY: the subtracted sum is not divided by its size
func.func @no_fusion_wrong_size_in_the_mean(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %n7 = arith.constant 7.0 : f32
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
    %m = arith.divf %s, %n7 : f32
    %c = arith.subf %i, %m : f32
    %cc = arith.mulf %c, %c : f32
    %a = arith.addf %acc, %cc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %squares, %gamma, %beta : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %s: f32, %q: f32, %g: f32, %b: f32, %o: f32):
    %m = arith.divf %s, %n7 : f32
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

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#col = affine_map<(d0, d1) -> (d1)>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: @no_fusion_leading_axis
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_leading_axis
// WHY: wrong_axis (
// WHY: normalizes axes {{\[}}0] of a tensor of rank 2
func.func @no_fusion_leading_axis(%x: tensor<4x8xf32>, %gamma: tensor<4xf32>, %beta: tensor<4xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 4.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %sum = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %a = arith.addf %i, %acc : f32
    linalg.yield %a : f32
  } -> tensor<8xf32>
  %squares = linalg.generic {indexing_maps = [#id, #col, #col], iterator_types = ["reduction", "parallel"]} ins(%x, %sum : tensor<4x8xf32>, tensor<8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%i: f32, %s: f32, %acc: f32):
    %m = arith.divf %s, %n : f32
    %c = arith.subf %i, %m : f32
    %cc = arith.mulf %c, %c : f32
    %a = arith.addf %acc, %cc : f32
    linalg.yield %a : f32
  } -> tensor<8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #col, #col, #row, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %squares, %gamma, %beta : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
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

// -----

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: @no_fusion_mean_and_variance_over_other_axes
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_mean_and_variance_over_other_axes
// WHY: wrong_axis (
// WHY: mean and variance are taken over different axes
func.func @no_fusion_mean_and_variance_over_other_axes(%arg0: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 2.400000e+01 : f32
  %cst_2 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<2xf32>
  %1 = linalg.fill ins(%cst_2 : f32) outs(%0 : tensor<2xf32>) -> tensor<2xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction", "reduction"]} ins(%arg0 : tensor<2x3x8xf32>) outs(%1 : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %out : f32
    linalg.yield %14 : f32
  } -> tensor<2xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<2xf32>) outs(%0 : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.divf %in, %cst_1 : f32
    linalg.yield %14 : f32
  } -> tensor<2xf32>
  %4 = tensor.empty() : tensor<2x3x8xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %3 : tensor<2x3x8xf32>, tensor<2xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %14 = arith.subf %in, %in_3 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<2x3x8xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.mulf %in, %in : f32
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  %7 = tensor.empty() : tensor<2x3xf32>
  %8 = linalg.fill ins(%cst_2 : f32) outs(%7 : tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%6 : tensor<2x3x8xf32>) outs(%8 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %out : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %10 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<2x3xf32>) outs(%7 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.divf %in, %cst_0 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %11 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<2x3xf32>) outs(%7 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = arith.addf %in, %cst : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %12 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<2x3xf32>) outs(%7 : tensor<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %14 = math.rsqrt %in : f32
    linalg.yield %14 : f32
  } -> tensor<2x3xf32>
  %13 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5, %12 : tensor<2x3x8xf32>, tensor<2x3xf32>) outs(%4 : tensor<2x3x8xf32>) {
  ^bb0(%in: f32, %in_3: f32, %out: f32):
    %14 = arith.mulf %in, %in_3 : f32
    linalg.yield %14 : f32
  } -> tensor<2x3x8xf32>
  return %13 : tensor<2x3x8xf32>
}

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>

// CHECK-LABEL: @no_fusion_difference_of_other_moments
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_difference_of_other_moments
// WHY: structure (
// WHY: the mean in the variance is not the mean of the squared value
func.func @no_fusion_difference_of_other_moments(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %cst = arith.constant 9.99999974E-6 : f32
  %cst_0 = arith.constant 8.000000e+00 : f32
  %cst_1 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%cst_1 : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %3 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%2 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%arg1 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %6 = tensor.empty() : tensor<4x8xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xf32>) outs(%6 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.mulf %in, %in : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<4x8xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %out : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.divf %in, %cst_0 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.mulf %in, %in : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %11 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel"]} ins(%9, %10 : tensor<4xf32>, tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.subf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %12 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3 : tensor<4x8xf32>, tensor<4xf32>) outs(%6 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.subf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%11 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = arith.addf %in, %cst : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %14 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%13 : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %16 = math.rsqrt %in : f32
    linalg.yield %16 : f32
  } -> tensor<4xf32>
  %15 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %14 : tensor<4x8xf32>, tensor<4xf32>) outs(%6 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_2: f32, %out: f32):
    %16 = arith.mulf %in, %in_2 : f32
    linalg.yield %16 : f32
  } -> tensor<4x8xf32>
  return %15 : tensor<4x8xf32>
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
func.func @no_fusion_dynamic_size(%x: tensor<4x?xf32>, %gamma: tensor<?xf32>, %beta: tensor<?xf32>, %k: index) -> tensor<4x?xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %a = arith.addf %i, %acc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %sum : tensor<4x?xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %s: f32, %acc: f32):
    %m = arith.divf %s, %n : f32
    %c = arith.subf %i, %m : f32
    %cc = arith.mulf %c, %c : f32
    %a = arith.addf %acc, %cc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty(%k) : tensor<4x?xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %squares, %gamma, %beta : tensor<4x?xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<4x?xf32>) {
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
  } -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
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
func.func @no_fusion_f64(%x: tensor<4x8xf64>, %gamma: tensor<8xf64>, %beta: tensor<8xf64>) -> tensor<4x8xf64> {
  %zero = arith.constant 0.0 : f64
  %n = arith.constant 8.0 : f64
  %eps = arith.constant 1.0e-5 : f64
  %er = tensor.empty() : tensor<4xf64>
  %z = linalg.fill ins(%zero : f64) outs(%er : tensor<4xf64>) -> tensor<4xf64>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i: f64, %acc: f64):
    %a = arith.addf %i, %acc : f64
    linalg.yield %a : f64
  } -> tensor<4xf64>
  %squares = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %sum : tensor<4x8xf64>, tensor<4xf64>) outs(%z : tensor<4xf64>) {
  ^bb0(%i: f64, %s: f64, %acc: f64):
    %m = arith.divf %s, %n : f64
    %c = arith.subf %i, %m : f64
    %cc = arith.mulf %c, %c : f64
    %a = arith.addf %acc, %cc : f64
    linalg.yield %a : f64
  } -> tensor<4xf64>
  %e = tensor.empty() : tensor<4x8xf64>
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %squares, %gamma, %beta : tensor<4x8xf64>, tensor<4xf64>, tensor<4xf64>, tensor<8xf64>, tensor<8xf64>) outs(%e : tensor<4x8xf64>) {
  ^bb0(%i: f64, %s: f64, %q: f64, %g: f64, %b: f64, %o: f64):
    %m = arith.divf %s, %n : f64
    %c = arith.subf %i, %m : f64
    %v = arith.divf %q, %n : f64
    %ve = arith.addf %v, %eps : f64
    %r = math.rsqrt %ve : f64
    %p = arith.mulf %c, %r : f64
    %pg = arith.mulf %p, %g : f64
    %pb = arith.addf %pg, %b : f64
    linalg.yield %pb : f64
  } -> tensor<4x8xf64>
  return %y : tensor<4x8xf64>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_integer_input
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_integer_input
// WHY: element_type (
// WHY: i32
func.func @no_fusion_integer_input(%x: tensor<4x8xi32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xi32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i32: i32, %acc: f32):
    %i = arith.sitofp %i32 : i32 to f32
    %a = arith.addf %i, %acc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %squares = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x, %sum : tensor<4x8xi32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i32: i32, %s: f32, %acc: f32):
    %i = arith.sitofp %i32 : i32 to f32
    %m = arith.divf %s, %n : f32
    %c = arith.subf %i, %m : f32
    %cc = arith.mulf %c, %c : f32
    %a = arith.addf %acc, %cc : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #row, #col, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %squares, %gamma, %beta : tensor<4x8xi32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i32: i32, %s: f32, %q: f32, %g: f32, %b: f32, %o: f32):
    %i = arith.sitofp %i32 : i32 to f32
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

// -----

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>

// Division by the length is no norm of this family: nothing to report.
// CHECK-LABEL: @no_fusion_l2_norm
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_l2_norm
func.func @no_fusion_l2_norm(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %cst = arith.constant 9.99999996E-13 : f32
  %cst_0 = arith.constant 0.000000e+00 : f32
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = arith.mulf %in, %in : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  %2 = tensor.empty() : tensor<4xf32>
  %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<4xf32>) -> tensor<4xf32>
  %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<4x8xf32>) outs(%3 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = arith.addf %in, %out : f32
    linalg.yield %8 : f32
  } -> tensor<4xf32>
  %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = arith.addf %in, %cst : f32
    linalg.yield %8 : f32
  } -> tensor<4xf32>
  %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<4xf32>) outs(%2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = math.sqrt %in : f32
    linalg.yield %8 : f32
  } -> tensor<4xf32>
  %7 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %6 : tensor<4x8xf32>, tensor<4xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %8 = arith.divf %in, %in_1 : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#col = affine_map<(d0, d1) -> (d1)>

// CHECK-LABEL: @no_fusion_rms_norm
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-NOT: function @no_fusion_rms_norm
func.func @no_fusion_rms_norm(%x: tensor<4x8xf32>, %gamma: tensor<8xf32>) -> tensor<4x8xf32> {
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
