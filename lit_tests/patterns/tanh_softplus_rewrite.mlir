// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=tanh_softplus_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=tanh_softplus_rewrite --numerics=exact | FileCheck %s --check-prefix=EXACT

// From: torch.nn.Mish of f32.
// CHECK-LABEL: @mish
// CHECK-SAME: %[[X:.+]]: tensor<4x8xf32>
// CHECK: %[[T:.+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4x8xf32>)
// CHECK: %[[M:.+]] = arith.minimumf
// CHECK: %[[E:.+]] = math.exp %[[M]]
// CHECK: %[[S:.+]] = arith.addf %[[E]],
// CHECK: %[[N:.+]] = arith.mulf %[[E]], %[[S]]
// CHECK: %[[D:.+]] = arith.addf %[[N]],
// CHECK: arith.divf %[[N]], %[[D]]
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[T]]
// CHECK-NOT: math.tanh
// EXACT-LABEL: @mish
// EXACT: math.tanh
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @mish(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %large = arith.constant 20.0 : f64
  %e = tensor.empty() : tensor<4x8xf32>
  %c = tensor.empty() : tensor<4x8xi1>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = math.exp %in : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = math.log1p %in : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%c : tensor<4x8xi1>) {
  ^bb0(%in: f32, %out: i1):
    %8 = arith.extf %in : f32 to f64
    %9 = arith.cmpf ogt, %8, %large : f64
    linalg.yield %9 : i1
  } -> tensor<4x8xi1>
  %4 = linalg.generic {indexing_maps = [#map, #map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %x, %2 : tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%in: i1, %in_0: f32, %in_1: f32, %out: f32):
    %8 = arith.select %in, %in_0, %in_1 : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = math.tanh %in : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %5 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %8 = arith.mulf %in, %in_0 : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}

// -----

// The logarithm of 2 + exp(x) is no softplus.
// CHECK-LABEL: @other
// CHECK: math.tanh
// EXACT-LABEL: @other
#map = affine_map<(d0) -> (d0)>
func.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = math.exp %in : f32
    %9 = arith.addf %8, %two : f32
    %10 = math.log %9 : f32
    linalg.yield %10 : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%1 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = math.tanh %in : f32
    linalg.yield %8 : f32
  } -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// A softplus that is 0 where its argument is NaN stays: the other form would be NaN.
// CHECK-LABEL: @without_nan
// CHECK: math.tanh
// EXACT-LABEL: @without_nan
#map = affine_map<(d0) -> (d0)>
func.func @without_nan(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %6 = math.exp %in : f32
    %7 = math.log1p %6 : f32
    %8 = arith.cmpf une, %in, %in : f32
    %9 = arith.select %8, %zero, %7 : f32
    linalg.yield %9 : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%1 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %8 = math.tanh %in : f32
    linalg.yield %8 : f32
  } -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
