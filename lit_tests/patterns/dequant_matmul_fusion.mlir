// RUN: %mlirfuse-opt %s --split-input-file --pipeline=dequant_matmul_fusion --target=cuda | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=dequant_matmul_fusion --target=cuda --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=dequant_matmul_fusion --target=cpu | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=dequant_matmul_fusion --target=vulkan --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=VULKAN
// OFF-NOT: flow.dispatch.region

#m = affine_map<(g, s, n) -> (g, s, n)>
#b = affine_map<(g, s, n) -> (g, n)>
#mn = affine_map<(m, n) -> (m, n)>

// JAX, imported: x @ (w.astype(float16) * s[:, None, :]).reshape(64, 32) of
// w: int8[4, 16, 32], s: float16[4, 32]; iree-compile --compile-to=global-optimization.
// CHECK-LABEL: @jax_groups_of_rows
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{\[\[}}0], [1, 2]] output_shape [8, 4, 16]
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "dequant_matmul_fusion"
// CHECK: %[[F:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<4x16x32xi8>)
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%arg2 :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[F]], %[[S]] :
// CHECK: %[[C:.*]] = linalg.generic {{.*}}"parallel", "parallel", "reduction", "reduction"]} ins(%[[X]], %[[D]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[Y]] : tensor<8x32xf16>
// CHECK: return %[[R]]
// VULKAN: target_unsupported
func.func @jax_groups_of_rows(%x: tensor<8x64xf16>, %w: tensor<4x16x32xi8>, %s: tensor<4x32xf16>) -> tensor<8x32xf16> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x16x32xf16>
  %f = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<4x16x32xi8>) outs(%e : tensor<4x16x32xf16>) {
  ^bb0(%in: i8, %out: f16):
    %r = arith.sitofp %in : i8 to f16
    linalg.yield %r : f16
  } -> tensor<4x16x32xf16>
  %t = linalg.generic {indexing_maps = [#b, #m], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<4x32xf16>) outs(%e : tensor<4x16x32xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<4x16x32xf16>
  %d = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel", "parallel", "parallel"]} ins(%f, %t : tensor<4x16x32xf16>, tensor<4x16x32xf16>) outs(%e : tensor<4x16x32xf16>) {
  ^bb0(%in: f16, %in_0: f16, %out: f16):
    %r = arith.mulf %in, %in_0 : f16
    linalg.yield %r : f16
  } -> tensor<4x16x32xf16>
  %k = tensor.collapse_shape %d [[0, 1], [2]] : tensor<4x16x32xf16> into tensor<64x32xf16>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %k : tensor<8x64xf16>, tensor<64x32xf16>) outs(%z : tensor<8x32xf32>) -> tensor<8x32xf32>
  %e2 = tensor.empty() : tensor<8x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e2 : tensor<8x32xf16>) {
  ^bb0(%in: f32, %out: f16):
    %r = arith.truncf %in : f32 to f16
    linalg.yield %r : f16
  } -> tensor<8x32xf16>
  return %y : tensor<8x32xf16>
}

// -----

#w = affine_map<(n, g, s) -> (n, g, s)>
#b = affine_map<(n, g, s) -> (n, g)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// PyTorch: F.linear(x, ((w.float() - z.float()) * s).reshape(32, 64), b), in one body.
// CHECK-LABEL: @torch_zero_point_i4_dynamic
// CHECK: %[[X:.*]] = tensor.expand_shape %arg0 {{\[\[}}0], [1, 2]] output_shape [%{{.*}}, 4, 16]
// CHECK: flow.dispatch.region -> (tensor<?x32xf32>{%{{.*}}})
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%arg1, %arg2, %arg3 : tensor<32x4x16xi4>, tensor<32x4xi4>, tensor<32x4xf32>)
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[D]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %arg4 :
// CHECK: flow.return %[[Y]]
func.func @torch_zero_point_i4_dynamic(%x: tensor<?x64xf32>, %w: tensor<32x4x16xi4>, %z: tensor<32x4xi4>, %s: tensor<32x4xf32>, %b: tensor<32xf32>) -> tensor<?x32xf32> {
  %cst = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %e = tensor.empty() : tensor<32x4x16xf32>
  %d = linalg.generic {indexing_maps = [#w, #b, #b, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %z, %s : tensor<32x4x16xi4>, tensor<32x4xi4>, tensor<32x4xf32>) outs(%e : tensor<32x4x16xf32>) {
  ^bb0(%i0: i4, %i1: i4, %i2: f32, %out: f32):
    %f = arith.sitofp %i0 : i4 to f32
    %g = arith.sitofp %i1 : i4 to f32
    %h = arith.subf %f, %g : f32
    %r = arith.mulf %h, %i2 : f32
    linalg.yield %r : f32
  } -> tensor<32x4x16xf32>
  %k = tensor.collapse_shape %d [[0], [1, 2]] : tensor<32x4x16xf32> into tensor<32x64xf32>
  %e1 = tensor.empty(%rows) : tensor<?x32xf32>
  %f = linalg.fill ins(%cst : f32) outs(%e1 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #c] ins(%x, %k : tensor<?x64xf32>, tensor<32x64xf32>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%c, %b : tensor<?x32xf32>, tensor<32xf32>) outs(%e1 : tensor<?x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %out: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

#kn = affine_map<(k, n) -> (k, n)>
#n = affine_map<(k, n) -> (n)>

// A scale per column: no groups, no reshape.
// CHECK-LABEL: @column_scale_bf16
// CHECK: flow.dispatch.region
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%arg1, %arg2 :
// CHECK: %[[C:.*]] = linalg.matmul ins(%arg0, %[[D]] :
// CHECK: flow.return %[[C]]
func.func @column_scale_bf16(%x: tensor<8x64xbf16>, %w: tensor<64x32xi8>, %s: tensor<32xbf16>) -> tensor<8x32xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xbf16>
  %d = linalg.generic {indexing_maps = [#kn, #n, #kn], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<64x32xi8>, tensor<32xbf16>) outs(%e : tensor<64x32xbf16>) {
  ^bb0(%i0: i8, %i1: bf16, %out: bf16):
    %f = arith.sitofp %i0 : i8 to bf16
    %r = arith.mulf %f, %i1 : bf16
    linalg.yield %r : bf16
  } -> tensor<64x32xbf16>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%cst : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %d : tensor<8x64xbf16>, tensor<64x32xbf16>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c : tensor<8x32xf32>
}

// -----

#kn = affine_map<(k, n) -> (k, n)>

// Not a weight with scales: two tensors of its size are multiplied.
// CHECK-LABEL: @no_fusion_scale_of_each_element
// WHY-LABEL: @no_fusion_scale_of_each_element
// WHY: a scale has as many elements as the weight
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_scale_of_each_element(%x: tensor<8x64xf32>, %w: tensor<64x32xi8>, %s: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xf32>
  %d = linalg.generic {indexing_maps = [#kn, #kn, #kn], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<64x32xi8>, tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%i0: i8, %i1: f32, %out: f32):
    %f = arith.sitofp %i0 : i8 to f32
    %r = arith.mulf %f, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<64x32xf32>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%cst : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %d : tensor<8x64xf32>, tensor<64x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c : tensor<8x32xf32>
}

// -----

#kn = affine_map<(k, n) -> (k, n)>

// CHECK-LABEL: @no_fusion_two_weights
// WHY-LABEL: @no_fusion_two_weights
// WHY: the operand is computed from two quantized tensors
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_two_weights(%x: tensor<8x64xf32>, %w: tensor<64x32xi8>, %v: tensor<64x32xi8>) -> tensor<8x32xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xf32>
  %d = linalg.generic {indexing_maps = [#kn, #kn, #kn], iterator_types = ["parallel", "parallel"]} ins(%w, %v : tensor<64x32xi8>, tensor<64x32xi8>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%i0: i8, %i1: i8, %out: f32):
    %f = arith.sitofp %i0 : i8 to f32
    %g = arith.sitofp %i1 : i8 to f32
    %r = arith.mulf %f, %g : f32
    linalg.yield %r : f32
  } -> tensor<64x32xf32>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%cst : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %d : tensor<8x64xf32>, tensor<64x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c : tensor<8x32xf32>
}

// -----

#kn = affine_map<(k, n) -> (k, n)>
#n = affine_map<(k, n) -> (n)>

// CHECK-LABEL: @no_fusion_read_elsewhere
// WHY-LABEL: @no_fusion_read_elsewhere
// WHY: the dequantized weight has other users
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_read_elsewhere(%x: tensor<8x64xf32>, %w: tensor<64x32xi8>, %s: tensor<32xf32>) -> (tensor<8x32xf32>, tensor<64x32xf32>) {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xf32>
  %d = linalg.generic {indexing_maps = [#kn, #n, #kn], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<64x32xi8>, tensor<32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%i0: i8, %i1: f32, %out: f32):
    %f = arith.sitofp %i0 : i8 to f32
    %r = arith.mulf %f, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<64x32xf32>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%cst : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %d : tensor<8x64xf32>, tensor<64x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c, %d : tensor<8x32xf32>, tensor<64x32xf32>
}

// -----

#m = affine_map<(k, g, s) -> (k, g, s)>
#b = affine_map<(k, g, s) -> (k, g)>

// The groups are of columns: the result would need a reshape.
// CHECK-LABEL: @no_fusion_groups_of_columns
// WHY-LABEL: @no_fusion_groups_of_columns
// WHY: the quantization groups are not along K
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_groups_of_columns(%x: tensor<8x64xf32>, %w: tensor<64x2x16xi8>, %s: tensor<64x2xf32>) -> tensor<8x32xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x2x16xf32>
  %d = linalg.generic {indexing_maps = [#m, #b, #m], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %s : tensor<64x2x16xi8>, tensor<64x2xf32>) outs(%e : tensor<64x2x16xf32>) {
  ^bb0(%i0: i8, %i1: f32, %out: f32):
    %f = arith.sitofp %i0 : i8 to f32
    %r = arith.mulf %f, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<64x2x16xf32>
  %k = tensor.collapse_shape %d [[0], [1, 2]] : tensor<64x2x16xf32> into tensor<64x32xf32>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%cst : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %k : tensor<8x64xf32>, tensor<64x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c : tensor<8x32xf32>
}

// -----

#m = affine_map<(g, s, n) -> (g, s, n)>
#b = affine_map<(g, s, n) -> (g, n)>

// CHECK-LABEL: @no_fusion_dynamic_groups
// WHY-LABEL: @no_fusion_dynamic_groups
// WHY: the quantization group size is dynamic
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dynamic_groups(%x: tensor<8x?xf32>, %w: tensor<4x?x32xi8>, %s: tensor<4x32xf32>, %size: index) -> tensor<8x32xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty(%size) : tensor<4x?x32xf32>
  %d = linalg.generic {indexing_maps = [#m, #b, #m], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %s : tensor<4x?x32xi8>, tensor<4x32xf32>) outs(%e : tensor<4x?x32xf32>) {
  ^bb0(%i0: i8, %i1: f32, %out: f32):
    %f = arith.sitofp %i0 : i8 to f32
    %r = arith.mulf %f, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<4x?x32xf32>
  %k = tensor.collapse_shape %d [[0, 1], [2]] : tensor<4x?x32xf32> into tensor<?x32xf32>
  %e1 = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%cst : f32) outs(%e1 : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%x, %k : tensor<8x?xf32>, tensor<?x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  return %c : tensor<8x32xf32>
}

// -----

#kn = affine_map<(k, n) -> (k, n)>

// CHECK-LABEL: @no_fusion_f64
// WHY-LABEL: @no_fusion_f64
// WHY: element_type
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_f64(%x: tensor<8x64xf64>, %w: tensor<64x32xi8>) -> tensor<8x32xf64> {
  %cst = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<64x32xf64>
  %d = linalg.generic {indexing_maps = [#kn, #kn], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<64x32xi8>) outs(%e : tensor<64x32xf64>) {
  ^bb0(%i0: i8, %out: f64):
    %r = arith.sitofp %i0 : i8 to f64
    linalg.yield %r : f64
  } -> tensor<64x32xf64>
  %e1 = tensor.empty() : tensor<8x32xf64>
  %f = linalg.fill ins(%cst : f64) outs(%e1 : tensor<8x32xf64>) -> tensor<8x32xf64>
  %c = linalg.matmul ins(%x, %d : tensor<8x64xf64>, tensor<64x32xf64>) outs(%f : tensor<8x32xf64>) -> tensor<8x32xf64>
  return %c : tensor<8x32xf64>
}
