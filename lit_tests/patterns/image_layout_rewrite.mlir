// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=image_layout_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=DEFAULT
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=image_layout_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=image_layout_rewrite | FileCheck %s --check-prefix=OFF
// DEFAULT: image_layout_rewrite
// OFF-LABEL: @sum_scale_and_contraction
// OFF: arith.mulf
// OFF: arith.addf
// OFF: -> tensor<8x6x7xf32>

// The epilogue, the product, the sum and the contraction have channels last.
// CHECK-DAG: #[[WHOLE:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[LAST:.*]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG: #[[SUMMED:.*]] = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
// CHECK-DAG: #[[CONTRACTED:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-LABEL: @sum_scale_and_contraction
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[H:.*]] = linalg.generic {indexing_maps = [#[[WHOLE]], #[[LAST]], #[[WHOLE]]], {{.*}} ins(%[[C]], %arg2 : {{.*}} outs({{.*}} : tensor<6x7x8xf32>)
// CHECK: %[[S:.*]] = linalg.generic {indexing_maps = [#[[SUMMED]], {{.*}} ins(%[[H]] :
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[WHOLE]], #[[LAST]], #[[WHOLE]]], {{.*}} ins(%[[H]], %[[S]] :
// CHECK: %[[D:.*]] = linalg.generic {indexing_maps = [#[[CONTRACTED]], {{.*}} ins(%[[Y]], %arg3 :
// CHECK: return %[[D]]
func.func @sum_scale_and_contraction(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8x5xf32>) -> (tensor<6x7x5xf32>) {
  %v0 = arith.constant 0.000000000e+00 : f32
  %v1 = tensor.empty() : tensor<6x7x8xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<6x7x8xf32>) -> tensor<6x7x8xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0 * 1 + d3, d1 * 1 + d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%v2 : tensor<6x7x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<6x7x8xf32>
  %v4 = tensor.empty() : tensor<8x6x7xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2, d0)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v3, %arg2 : tensor<6x7x8xf32>, tensor<8xf32>) outs(%v4 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v6 = arith.constant 0.000000000e+00 : f32
  %v7 = tensor.empty() : tensor<8xf32>
  %v8 = linalg.fill ins(%v6 : f32) outs(%v7 : tensor<8xf32>) -> tensor<8xf32>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v5 : tensor<8x6x7xf32>) outs(%v8 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %v10 = tensor.empty() : tensor<8x6x7xf32>
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %v9 : tensor<8x6x7xf32>, tensor<8xf32>) outs(%v10 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v12 = arith.constant 0.000000000e+00 : f32
  %v13 = tensor.empty() : tensor<6x7x5xf32>
  %v14 = linalg.fill ins(%v12 : f32) outs(%v13 : tensor<6x7x5xf32>) -> tensor<6x7x5xf32>
  %v15 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d3, d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%v11, %arg3 : tensor<8x6x7xf32>, tensor<8x5xf32>) outs(%v14 : tensor<6x7x5xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %p, %out : f32
    linalg.yield %r : f32
  } -> tensor<6x7x5xf32>
  return %v15 : tensor<6x7x5xf32>
}

// -----

// The order of the result is the caller's.
// WHY: func.return {{.*}} reads its order
// CHECK-LABEL: @no_rewrite_returned
// CHECK: arith.addf
// CHECK: -> tensor<8x6x7xf32>
func.func @no_rewrite_returned(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<8xf32>, tensor<8x6x7xf32>) {
  %v0 = arith.constant 0.000000000e+00 : f32
  %v1 = tensor.empty() : tensor<6x7x8xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<6x7x8xf32>) -> tensor<6x7x8xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0 * 1 + d3, d1 * 1 + d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%v2 : tensor<6x7x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<6x7x8xf32>
  %v4 = tensor.empty() : tensor<8x6x7xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2, d0)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v3, %arg2 : tensor<6x7x8xf32>, tensor<8xf32>) outs(%v4 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v6 = arith.constant 0.000000000e+00 : f32
  %v7 = tensor.empty() : tensor<8xf32>
  %v8 = linalg.fill ins(%v6 : f32) outs(%v7 : tensor<8xf32>) -> tensor<8xf32>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v5 : tensor<8x6x7xf32>) outs(%v8 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %v9, %v5 : tensor<8xf32>, tensor<8x6x7xf32>
}

// -----

// An op reads the epilogue in a third order.
// WHY: linalg.generic {{.*}} has another order
// CHECK-LABEL: @no_rewrite_read_transposed
// CHECK: arith.addf
// CHECK: -> tensor<8x6x7xf32>
func.func @no_rewrite_read_transposed(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<8xf32>) {
  %v0 = arith.constant 0.000000000e+00 : f32
  %v1 = tensor.empty() : tensor<6x7x8xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<6x7x8xf32>) -> tensor<6x7x8xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0 * 1 + d3, d1 * 1 + d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%v2 : tensor<6x7x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<6x7x8xf32>
  %v4 = tensor.empty() : tensor<8x6x7xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2, d0)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v3, %arg2 : tensor<6x7x8xf32>, tensor<8xf32>) outs(%v4 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v6 = tensor.empty() : tensor<8x7x6xf32>
  %v7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5 : tensor<8x6x7xf32>) outs(%v6 : tensor<8x7x6xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = math.absf %a0 : f32
    linalg.yield %r : f32
  } -> tensor<8x7x6xf32>
  %v8 = arith.constant 0.000000000e+00 : f32
  %v9 = tensor.empty() : tensor<8xf32>
  %v10 = linalg.fill ins(%v8 : f32) outs(%v9 : tensor<8xf32>) -> tensor<8xf32>
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v7 : tensor<8x7x6xf32>) outs(%v10 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %v11 : tensor<8xf32>
}

// -----

// A tensor of the other order would be read transposed.
// WHY: an operand of all dimensions in another order
// CHECK-LABEL: @no_rewrite_other_tensor
// CHECK: arith.addf
// CHECK: -> tensor<8x6x7xf32>
func.func @no_rewrite_other_tensor(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8x6x7xf32>) -> (tensor<8xf32>) {
  %v0 = arith.constant 0.000000000e+00 : f32
  %v1 = tensor.empty() : tensor<6x7x8xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<6x7x8xf32>) -> tensor<6x7x8xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0 * 1 + d3, d1 * 1 + d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%v2 : tensor<6x7x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<6x7x8xf32>
  %v4 = tensor.empty() : tensor<8x6x7xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2, d0)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v3, %arg2 : tensor<6x7x8xf32>, tensor<8xf32>) outs(%v4 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v6 = tensor.empty() : tensor<8x6x7xf32>
  %v7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5, %arg3 : tensor<8x6x7xf32>, tensor<8x6x7xf32>) outs(%v6 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v8 = arith.constant 0.000000000e+00 : f32
  %v9 = tensor.empty() : tensor<8xf32>
  %v10 = linalg.fill ins(%v8 : f32) outs(%v9 : tensor<8xf32>) -> tensor<8xf32>
  %v11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v7 : tensor<8x6x7xf32>) outs(%v10 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %v11 : tensor<8xf32>
}

// -----

// The epilogue has the order of the convolution already.
// CHECK-LABEL: @no_rewrite_same_order
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 :
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[C]], %arg2 :
// CHECK: -> tensor<6x7x8xf32>
// CHECK: ins(%[[H]] :
func.func @no_rewrite_same_order(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<8xf32>) {
  %v0 = arith.constant 0.000000000e+00 : f32
  %v1 = tensor.empty() : tensor<6x7x8xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<6x7x8xf32>) -> tensor<6x7x8xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0 * 1 + d3, d1 * 1 + d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> (d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%v2 : tensor<6x7x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<6x7x8xf32>
  %v4 = tensor.empty() : tensor<6x7x8xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v3, %arg2 : tensor<6x7x8xf32>, tensor<8xf32>) outs(%v4 : tensor<6x7x8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<6x7x8xf32>
  %v6 = arith.constant 0.000000000e+00 : f32
  %v7 = tensor.empty() : tensor<8xf32>
  %v8 = linalg.fill ins(%v6 : f32) outs(%v7 : tensor<8xf32>) -> tensor<8xf32>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>], iterator_types = ["reduction", "reduction", "parallel"]} ins(%v5 : tensor<6x7x8xf32>) outs(%v8 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %v9 : tensor<8xf32>
}

// -----

// No convolution writes channels last.
// CHECK-LABEL: @no_rewrite_no_convolution
// CHECK: arith.addf
// CHECK: -> tensor<8x6x7xf32>
func.func @no_rewrite_no_convolution(%arg0: tensor<6x7x8xf32>, %arg1: tensor<8xf32>) -> (tensor<8xf32>) {
  %v0 = tensor.empty() : tensor<8x6x7xf32>
  %v1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2, d0)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %arg1 : tensor<6x7x8xf32>, tensor<8xf32>) outs(%v0 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v2 = arith.constant 0.000000000e+00 : f32
  %v3 = tensor.empty() : tensor<8xf32>
  %v4 = linalg.fill ins(%v2 : f32) outs(%v3 : tensor<8xf32>) -> tensor<8xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v1 : tensor<8x6x7xf32>) outs(%v4 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %v5 : tensor<8xf32>
}

// -----

// The convolution itself has channels first.
// CHECK-DAG: #[[WHOLE:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d0)>
// CHECK-DAG: #[[SUMMED:.*]] = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
// CHECK-LABEL: @convolution_of_channels_first
// CHECK: %[[F:.*]] = linalg.fill {{.*}} outs({{.*}} : tensor<6x7x8xf32>)
// CHECK: %[[C:.*]] = linalg.generic {indexing_maps = [{{.*}}, #[[OUT]]], {{.*}} ins(%arg0, %arg1 : {{.*}} outs(%[[F]] :
// CHECK: %[[H:.*]] = linalg.generic {indexing_maps = [#[[WHOLE]], {{.*}} ins(%[[C]], %arg2 :
// CHECK: linalg.generic {indexing_maps = [#[[SUMMED]], {{.*}} ins(%[[H]] :
func.func @convolution_of_channels_first(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<8xf32>) {
  %v0 = arith.constant 0.000000000e+00 : f32
  %v1 = tensor.empty() : tensor<8x6x7xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<8x6x7xf32>) -> tensor<8x6x7xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d1 * 1 + d3, d2 * 1 + d4, d0)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%v2 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v4 = tensor.empty() : tensor<8x6x7xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v3, %arg2 : tensor<8x6x7xf32>, tensor<8xf32>) outs(%v4 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v6 = arith.constant 0.000000000e+00 : f32
  %v7 = tensor.empty() : tensor<8xf32>
  %v8 = linalg.fill ins(%v6 : f32) outs(%v7 : tensor<8xf32>) -> tensor<8xf32>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v5 : tensor<8x6x7xf32>) outs(%v8 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %v9 : tensor<8xf32>
}

// -----

// The accumulators start from a broadcast in the same order.
// CHECK-LABEL: @no_rewrite_accumulates
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%arg3 :
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg1 : {{.*}} outs(%[[S]] : tensor<8x6x7xf32>)
func.func @no_rewrite_accumulates(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>) -> (tensor<8xf32>) {
  %se = tensor.empty() : tensor<8x6x7xf32>
  %start = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg3 : tensor<8xf32>) outs(%se : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %out: f32):
    linalg.yield %a0 : f32
  } -> tensor<8x6x7xf32>
  %v0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d1 * 1 + d3, d2 * 1 + d4, d0)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%start : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v1 = tensor.empty() : tensor<8x6x7xf32>
  %v2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v0, %arg2 : tensor<8x6x7xf32>, tensor<8xf32>) outs(%v1 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v3 = arith.constant 0.000000000e+00 : f32
  %v4 = tensor.empty() : tensor<8xf32>
  %v5 = linalg.fill ins(%v3 : f32) outs(%v4 : tensor<8xf32>) -> tensor<8xf32>
  %v6 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%v2 : tensor<8x6x7xf32>) outs(%v5 : tensor<8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = arith.addf %a0, %out : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %v6 : tensor<8xf32>
}

// -----

// An op that transposes back reads in place.
// CHECK: #[[WHOLE:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-LABEL: @transposed_twice
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins({{.*}}, %arg2 : {{.*}} outs({{.*}} : tensor<6x7x8xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[WHOLE]], #[[WHOLE]]], {{.*}} ins(%[[H]] :
// CHECK: math.absf
func.func @transposed_twice(%arg0: tensor<8x9x8xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<6x7x8xf32>) {
  %v0 = arith.constant 0.000000000e+00 : f32
  %v1 = tensor.empty() : tensor<8x6x7xf32>
  %v2 = linalg.fill ins(%v0 : f32) outs(%v1 : tensor<8x6x7xf32>) -> tensor<8x6x7xf32>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d1 * 1 + d3, d2 * 1 + d4, d0)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%arg0, %arg1 : tensor<8x9x8xf32>, tensor<8x3x3xf32>) outs(%v2 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    %r = arith.addf %out, %p : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v4 = tensor.empty() : tensor<8x6x7xf32>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v3, %arg2 : tensor<8x6x7xf32>, tensor<8xf32>) outs(%v4 : tensor<8x6x7xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8x6x7xf32>
  %v6 = tensor.empty() : tensor<6x7x8xf32>
  %v7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v5 : tensor<8x6x7xf32>) outs(%v6 : tensor<6x7x8xf32>) {
  ^bb0(%a0: f32, %out: f32):
    %r = math.absf %a0 : f32
    linalg.yield %r : f32
  } -> tensor<6x7x8xf32>
  return %v7 : tensor<6x7x8xf32>
}
