// RUN: %mlirfuse-opt %s --split-input-file --pipeline=weight_packing_rewrite --disable-feature=kernels --target=cpu:x86-64-v4 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=weight_packing_rewrite --disable-feature=kernels --target=cpu:x86-64-v4 --explain=json -o %t | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=weight_packing_rewrite --disable-feature=kernels --target=cpu:x86-64-v2 | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=weight_packing_rewrite --disable-feature=kernels --target=cpu:x86-64-v3 | FileCheck %s --check-prefix=AVX2
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=weight_packing_rewrite --disable-feature=kernels --target=cpu:neoverse-n1 | FileCheck %s --check-prefix=NEON
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=weight_packing_rewrite --disable-feature=kernels --target=cuda:sm_80 | FileCheck %s --check-prefix=OFF
// AVX2: distribution = [24, 4, 16, 0], vector_common_parallel = [6, 1, 16, 0], vector_reduction = [0, 0, 0, 1]
// NEON: distribution = [24, 4, 8, 0], vector_common_parallel = [12, 1, 8, 0], vector_reduction = [0, 0, 0, 1]
// OFF-NOT: compilation_info
// OFF-NOT: tensor.collapse_shape

// A linear layer of PyTorch: the weight is stored by columns, the bias follows.
// CHECK-DAG: #[[PACK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
// CHECK-DAG: #[[RHS:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>
// CHECK-DAG: lowering_config<distribution = [24, 2, 32, 0], vector_common_parallel = [12, 1, 32, 0], vector_reduction = [0, 0, 0, 1]>
// CHECK: util.global private @packed_weight : tensor<2x16x32xf32>
// CHECK: %[[K:.*]] = arith.constant dense<2.000000e+00> : tensor<64x16xf32>
// CHECK: %[[W:.*]] = tensor.expand_shape %[[K]] {{.*}} output_shape [2, 32, 16]
// CHECK: %[[T:.*]] = linalg.generic {indexing_maps = [#[[PACK]], {{.*}} ins(%[[W]] :
// CHECK: util.global.store %[[T]], @packed_weight
// CHECK-LABEL: @linear
// CHECK: %[[P:.*]] = util.global.load immutable @packed_weight
// CHECK: %[[C:.*]] = linalg.generic {{.*}}#[[RHS]], {{.*}} ins(%arg0, %[[P]] : {{.*}}compilation_info
// CHECK: %[[B:.*]] = tensor.expand_shape %arg1 {{.*}} output_shape [2, 32]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[B]] : tensor<24x2x32xf32>, tensor<2x32xf32>)
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[Y]]
// CHECK: return %[[R]] : tensor<24x64xf32>
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn_ = affine_map<(m, n, k) -> (m, n)>
#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
func.func @linear(%x: tensor<24x16xf32>, %bias: tensor<64xf32>) -> tensor<24x64xf32> {
  %w = arith.constant dense<2.0> : tensor<64x16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x64xf32>) -> tensor<24x64xf32>
  %c = linalg.matmul indexing_maps = [#mk, #nk, #mn_] ins(%x, %w : tensor<24x16xf32>, tensor<64x16xf32>) outs(%f : tensor<24x64xf32>) -> tensor<24x64xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %bias : tensor<24x64xf32>, tensor<64xf32>) outs(%e : tensor<24x64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<24x64xf32>
  return %y : tensor<24x64xf32>
}

// -----

// A weight that a global holds, stored by rows; four rows take the tile with more columns; the
// epilogue ends in a transpose.
// CHECK-DAG: #[[PACK:.*]] = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
// CHECK-DAG: distribution = [4, 2, 64, 0], vector_common_parallel = [4, 1, 64, 0]
// CHECK: %[[G:.*]] = util.global.load immutable @w
// CHECK: %[[W:.*]] = tensor.expand_shape %[[G]] {{.*}} output_shape [16, 2, 64]
// CHECK: linalg.generic {indexing_maps = [#[[PACK]], {{.*}} ins(%[[W]] :
// CHECK-LABEL: @global_weight
// CHECK: %[[C:.*]] = linalg.generic {{.*}}compilation_info
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<4x2x64xf32>) outs({{.*}} : tensor<2x64x4xf32>)
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[T]] {{\[\[}}0, 1], [2]]
// CHECK: util.return %[[R]] : tensor<128x4xf32>
#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
util.global private @w = dense<2.0> : tensor<16x128xf32>
util.func public @global_weight(%x: tensor<4x16xf32>) -> tensor<128x4xf32> {
  %w = util.global.load immutable @w : tensor<16x128xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x128xf32>) -> tensor<4x128xf32>
  %c = linalg.matmul ins(%x, %w : tensor<4x16xf32>, tensor<16x128xf32>) outs(%f : tensor<4x128xf32>) -> tensor<4x128xf32>
  %et = tensor.empty() : tensor<128x4xf32>
  %t = linalg.generic {indexing_maps = [#mn, #nm], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<4x128xf32>) outs(%et : tensor<128x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.tanh %i : f32
    linalg.yield %s : f32
  } -> tensor<128x4xf32>
  util.return %t : tensor<128x4xf32>
}

// -----

// A parameter of the program is packed when it is loaded, as a constant is.
// CHECK: %[[G:.*]] = flow.tensor.constant #flow.parameter.named<"model"::"w"> : tensor<16x64xf32>
// CHECK: %[[W:.*]] = tensor.expand_shape %[[G]] {{.*}} output_shape [16, 2, 32]
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[W]] :
// CHECK: util.global.store %[[T]], @packed_weight
// CHECK-LABEL: @parameter
// CHECK-NOT: flow.tensor.constant
// CHECK: %[[P:.*]] = util.global.load immutable @packed_weight
// CHECK: linalg.generic {{.*}} ins(%arg0, %[[P]] : {{.*}}compilation_info
func.func @parameter(%x: tensor<8x16xf32>) -> tensor<8x64xf32> {
  %w = flow.tensor.constant #flow.parameter.named<"model"::"w"> : tensor<16x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x64xf32>) -> tensor<8x64xf32>
  %c = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%f : tensor<8x64xf32>) -> tensor<8x64xf32>
  return %c : tensor<8x64xf32>
}

// -----

// The user of the matmul reads it through two maps: it is unchanged and reads the collapsed result.
// CHECK-LABEL: @symmetric
// CHECK: %[[C:.*]] = linalg.generic {{.*}}compilation_info
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[C]]
// CHECK: linalg.generic {{.*}} ins(%[[R]], %[[R]] : tensor<32x32xf32>, tensor<32x32xf32>)
#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
func.func @symmetric(%x: tensor<32x16xf32>) -> tensor<32x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x32xf32>) -> tensor<32x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<32x16xf32>, tensor<16x32xf32>) outs(%f : tensor<32x32xf32>) -> tensor<32x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #nm, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %c : tensor<32x32xf32>, tensor<32x32xf32>) outs(%e : tensor<32x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<32x32xf32>
  return %y : tensor<32x32xf32>
}

// -----

// The user of the matmul accumulates into its own init.
// CHECK-LABEL: @accumulating_user
// CHECK: %[[R:.*]] = tensor.collapse_shape
// CHECK: linalg.generic {{.*}} ins(%[[R]] : tensor<32x32xf32>) outs(%arg1 : tensor<32x32xf32>)
#mn = affine_map<(m, n) -> (m, n)>
func.func @accumulating_user(%x: tensor<32x16xf32>, %into: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x32xf32>) -> tensor<32x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<32x16xf32>, tensor<16x32xf32>) outs(%f : tensor<32x32xf32>) -> tensor<32x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<32x32xf32>) outs(%into : tensor<32x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<32x32xf32>
  return %y : tensor<32x32xf32>
}

// -----

// Two weights, two globals.
// CHECK: util.global private @packed_weight : tensor<1x16x32xf32>
// CHECK: util.global private @[[SECOND:packed_weight_.*]] : tensor<1x32x32xf32>
// CHECK-LABEL: @two_layers
// CHECK-DAG: util.global.load immutable @packed_weight :
// CHECK-DAG: util.global.load immutable @[[SECOND]] :
func.func @two_layers(%x: tensor<24x16xf32>) -> tensor<24x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %v = arith.constant dense<2.0> : tensor<32x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x32xf32>) -> tensor<24x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<24x16xf32>, tensor<16x32xf32>) outs(%f : tensor<24x32xf32>) -> tensor<24x32xf32>
  %d = linalg.matmul ins(%c, %v : tensor<24x32xf32>, tensor<32x32xf32>) outs(%f : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %d : tensor<24x32xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_weight_is_an_argument
// CHECK-NOT: compilation_info
func.func @no_rewrite_weight_is_an_argument(%x: tensor<24x16xf32>, %w: tensor<16x32xf32>) -> tensor<24x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x32xf32>) -> tensor<24x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<24x16xf32>, tensor<16x32xf32>) outs(%f : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %c : tensor<24x32xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_thirteen_rows
// CHECK-NOT: compilation_info
// WHY: "reason": "shape_mismatch",
// WHY-NEXT: "detail": "no register tile of cpu:x86-64-v4 divides 13x32"
func.func @no_rewrite_thirteen_rows(%x: tensor<13x16xf32>) -> tensor<13x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<13x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<13x32xf32>) -> tensor<13x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<13x16xf32>, tensor<16x32xf32>) outs(%f : tensor<13x32xf32>) -> tensor<13x32xf32>
  return %c : tensor<13x32xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_dynamic_rows
// CHECK-NOT: compilation_info
// WHY: "reason": "dynamic_shape"
func.func @no_rewrite_dynamic_rows(%x: tensor<?x16xf32>, %m: index) -> tensor<?x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%m) : tensor<?x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<?x16xf32>, tensor<16x32xf32>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %c : tensor<?x32xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_half_precision
// CHECK-NOT: compilation_info
// WHY: "reason": "element_type"
// WHY-NEXT: "detail": "f16 and f32"
func.func @no_rewrite_half_precision(%x: tensor<24x16xf16>) -> tensor<24x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x32xf32>) -> tensor<24x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<24x16xf16>, tensor<16x32xf16>) outs(%f : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %c : tensor<24x32xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_bf16
// CHECK-NOT: compilation_info
// WHY: "reason": "element_type"
// WHY-NEXT: "detail": "bf16 and f32"
func.func @no_rewrite_bf16(%x: tensor<24x16xbf16>) -> tensor<24x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xbf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x32xf32>) -> tensor<24x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<24x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %c : tensor<24x32xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_accumulator_is_an_argument
// CHECK-NOT: compilation_info
// WHY: "reason": "constant_unverified"
func.func @no_rewrite_accumulator_is_an_argument(%x: tensor<24x16xf32>, %into: tensor<24x32xf32>) -> tensor<24x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %c = linalg.matmul ins(%x, %w : tensor<24x16xf32>, tensor<16x32xf32>) outs(%into : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %c : tensor<24x32xf32>
}

// -----

// The left operand is read by columns.
// CHECK-LABEL: @no_rewrite_left_operand_transposed
// CHECK-NOT: compilation_info
// WHY: "reason": "indexing_map"
#km = affine_map<(m, n, k) -> (k, m)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn_ = affine_map<(m, n, k) -> (m, n)>
func.func @no_rewrite_left_operand_transposed(%x: tensor<16x24xf32>) -> tensor<24x32xf32> {
  %w = arith.constant dense<2.0> : tensor<16x32xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<24x32xf32>) -> tensor<24x32xf32>
  %c = linalg.matmul indexing_maps = [#km, #kn, #mn_] ins(%x, %w : tensor<16x24xf32>, tensor<16x32xf32>) outs(%f : tensor<24x32xf32>) -> tensor<24x32xf32>
  return %c : tensor<24x32xf32>
}
