// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --pipeline=dequant_fusion --target=cuda:sm_90 --enable-feature=kernels | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --pipeline=dequant_fusion --target=cuda:sm_90 --enable-feature=kernels --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=dequant_fusion --target=cuda:sm_90 --disable-feature=kernels | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=dequant_fusion --target=cuda:sm_80 --enable-feature=kernels | FileCheck %s --check-prefix=OFF
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --pipeline=dequant_fusion,dequant_matmul_fusion,contraction_fusion --target=cuda:sm_90 --enable-feature=kernels | FileCheck %s --check-prefix=BOTH %}
// OFF-NOT: flow.dispatch.region

#w = affine_map<(n, g, s) -> (n, g, s)>
#b = affine_map<(n, g, s) -> (n, g)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: @group_scales
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "dequant_fusion"
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%arg1, %arg2 : tensor<512x16x32xi4>, tensor<512x16xf16>)
// CHECK: flow.return %[[D]] : tensor<512x16x32xf16>
// CHECK: %[[K:.*]] = tensor.collapse_shape %[[R]]
// CHECK: linalg.matmul {{.*}}ins(%arg0, %[[K]] :
// BOTH-LABEL: @group_scales
// BOTH: flow.dispatch.region {{.*}}mlirfuse.pass = "dequant_fusion"
// BOTH: %[[K:.*]] = tensor.collapse_shape
// BOTH: flow.dispatch.region {{.*}}mlirfuse.pass = "contraction_fusion"
// BOTH: linalg.matmul {{.*}}ins(%arg0, %[[K]] :
func.func @group_scales(%x: tensor<256x512xf16>, %w: tensor<512x16x32xi4>, %s: tensor<512x16xf16>) -> tensor<256x512xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x16x32xf16>
  %d = linalg.generic {indexing_maps = [#w, #b, #w], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %s : tensor<512x16x32xi4>, tensor<512x16xf16>) outs(%e : tensor<512x16x32xf16>) {
  ^bb0(%in: i4, %in_0: f16, %out: f16):
    %f = arith.sitofp %in : i4 to f16
    %r = arith.mulf %f, %in_0 : f16
    linalg.yield %r : f16
  } -> tensor<512x16x32xf16>
  %k = tensor.collapse_shape %d [[0], [1, 2]] : tensor<512x16x32xf16> into tensor<512x512xf16>
  %e1 = tensor.empty() : tensor<256x512xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e1 : tensor<256x512xf32>) -> tensor<256x512xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %k : tensor<256x512xf16>, tensor<512x512xf16>) outs(%z : tensor<256x512xf32>) -> tensor<256x512xf32>
  return %c : tensor<256x512xf32>
}

// -----

#n = affine_map<(n, k) -> (n, k)>
#b = affine_map<(n, k) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// An op each for the conversion and the scale: both are in the group.
// CHECK-LABEL: @two_ops_of_i8
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "dequant_fusion"
// CHECK: %[[F:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<512x512xi8>)
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[F]], %arg2 :
// CHECK: flow.return %[[D]] : tensor<512x512xf16>
// CHECK: linalg.matmul {{.*}}ins(%arg0, %[[R]] :
// BOTH-LABEL: @two_ops_of_i8
// BOTH: mlirfuse.pass = "dequant_fusion"
// BOTH: mlirfuse.pass = "contraction_fusion"
func.func @two_ops_of_i8(%x: tensor<512x512xf16>, %w: tensor<512x512xi8>, %s: tensor<512xf16>) -> tensor<512x512xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf16>
  %f = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<512x512xi8>) outs(%e : tensor<512x512xf16>) {
  ^bb0(%in: i8, %out: f16):
    %r = arith.sitofp %in : i8 to f16
    linalg.yield %r : f16
  } -> tensor<512x512xf16>
  %d = linalg.generic {indexing_maps = [#n, #b, #n], iterator_types = ["parallel", "parallel"]} ins(%f, %s : tensor<512x512xf16>, tensor<512xf16>) outs(%e : tensor<512x512xf16>) {
  ^bb0(%in: f16, %in_0: f16, %out: f16):
    %r = arith.mulf %in, %in_0 : f16
    linalg.yield %r : f16
  } -> tensor<512x512xf16>
  %e1 = tensor.empty() : tensor<512x512xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e1 : tensor<512x512xf32>) -> tensor<512x512xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %d : tensor<512x512xf16>, tensor<512x512xf16>) outs(%z : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %c : tensor<512x512xf32>
}

// -----

#n = affine_map<(n, k) -> (n, k)>
#b = affine_map<(n, k) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// In-loop dequantization in the matmul.
// CHECK-LABEL: @no_fusion_few_rows
// CHECK-NOT: flow.dispatch.region
// WHY: M is 511, a group of its own pays from 512 on
// BOTH-LABEL: @no_fusion_few_rows
// BOTH-NOT: "dequant_fusion"
// BOTH: mlirfuse.pass = "dequant_matmul_fusion"
func.func @no_fusion_few_rows(%x: tensor<511x512xf16>, %w: tensor<512x512xi8>, %s: tensor<512xf16>) -> tensor<511x512xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf16>
  %d = linalg.generic {indexing_maps = [#n, #b, #n], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<512x512xi8>, tensor<512xf16>) outs(%e : tensor<512x512xf16>) {
  ^bb0(%in: i8, %in_0: f16, %out: f16):
    %f = arith.sitofp %in : i8 to f16
    %r = arith.mulf %f, %in_0 : f16
    linalg.yield %r : f16
  } -> tensor<512x512xf16>
  %e1 = tensor.empty() : tensor<511x512xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e1 : tensor<511x512xf32>) -> tensor<511x512xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %d : tensor<511x512xf16>, tensor<512x512xf16>) outs(%z : tensor<511x512xf32>) -> tensor<511x512xf32>
  return %c : tensor<511x512xf32>
}

// -----

#n = affine_map<(n, k) -> (n, k)>
#b = affine_map<(n, k) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: @no_fusion_any_number_of_rows
// CHECK-NOT: flow.dispatch.region
// WHY: M is dynamic
func.func @no_fusion_any_number_of_rows(%x: tensor<?x512xf16>, %w: tensor<512x512xi4>, %s: tensor<512xf16>, %z: tensor<?x512xf32>) -> tensor<?x512xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf16>
  %d = linalg.generic {indexing_maps = [#n, #b, #n], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<512x512xi4>, tensor<512xf16>) outs(%e : tensor<512x512xf16>) {
  ^bb0(%in: i4, %in_0: f16, %out: f16):
    %f = arith.sitofp %in : i4 to f16
    %r = arith.mulf %f, %in_0 : f16
    linalg.yield %r : f16
  } -> tensor<512x512xf16>
  %f = linalg.fill ins(%cst : f32) outs(%z : tensor<?x512xf32>) -> tensor<?x512xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %d : tensor<?x512xf16>, tensor<512x512xf16>) outs(%f : tensor<?x512xf32>) -> tensor<?x512xf32>
  return %c : tensor<?x512xf32>
}

// -----

#n = affine_map<(n, k) -> (n, k)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// Nothing narrow is read: a bias of each element.
// CHECK-LABEL: @no_fusion_weight_of_f16
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_weight_of_f16(%x: tensor<512x512xf16>, %w: tensor<512x512xf16>) -> tensor<512x512xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf16>
  %d = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<512x512xf16>) outs(%e : tensor<512x512xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = arith.addf %in, %in : f16
    linalg.yield %r : f16
  } -> tensor<512x512xf16>
  %e1 = tensor.empty() : tensor<512x512xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e1 : tensor<512x512xf32>) -> tensor<512x512xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %d : tensor<512x512xf16>, tensor<512x512xf16>) outs(%z : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %c : tensor<512x512xf32>
}

// -----

#n = affine_map<(n, k) -> (n, k)>
#b = affine_map<(n, k) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// However small the weight is.
// CHECK-LABEL: @small_weight
// CHECK: flow.dispatch.region
func.func @small_weight(%x: tensor<512x64xf16>, %w: tensor<16x64xi8>, %s: tensor<16xf16>) -> tensor<512x16xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x64xf16>
  %d = linalg.generic {indexing_maps = [#n, #b, #n], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<16x64xi8>, tensor<16xf16>) outs(%e : tensor<16x64xf16>) {
  ^bb0(%in: i8, %in_0: f16, %out: f16):
    %f = arith.sitofp %in : i8 to f16
    %r = arith.mulf %f, %in_0 : f16
    linalg.yield %r : f16
  } -> tensor<16x64xf16>
  %e1 = tensor.empty() : tensor<512x16xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e1 : tensor<512x16xf32>) -> tensor<512x16xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %d : tensor<512x64xf16>, tensor<16x64xf16>) outs(%z : tensor<512x16xf32>) -> tensor<512x16xf32>
  return %c : tensor<512x16xf32>
}

// -----

#n = affine_map<(n, k) -> (n, k)>
#b = affine_map<(n, k) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// A result of the function is written out anyway.
// CHECK-LABEL: @no_fusion_read_elsewhere
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_read_elsewhere(%x: tensor<512x512xf16>, %w: tensor<512x512xi8>, %s: tensor<512xf16>) -> (tensor<512x512xf32>, tensor<512x512xf16>) {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf16>
  %d = linalg.generic {indexing_maps = [#n, #b, #n], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<512x512xi8>, tensor<512xf16>) outs(%e : tensor<512x512xf16>) {
  ^bb0(%in: i8, %in_0: f16, %out: f16):
    %f = arith.sitofp %in : i8 to f16
    %r = arith.mulf %f, %in_0 : f16
    linalg.yield %r : f16
  } -> tensor<512x512xf16>
  %e1 = tensor.empty() : tensor<512x512xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e1 : tensor<512x512xf32>) -> tensor<512x512xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %d : tensor<512x512xf16>, tensor<512x512xf16>) outs(%z : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %c, %d : tensor<512x512xf32>, tensor<512x512xf16>
}

// -----

#n = affine_map<(n, k) -> (n, k)>
#b = affine_map<(n, k) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// A matmul of f32 has a kernel too.
// CHECK-LABEL: @matmul_f32
// CHECK: flow.dispatch.region
// CHECK: arith.sitofp
// CHECK: linalg.matmul
func.func @matmul_f32(%x: tensor<512x512xf32>, %w: tensor<512x512xi8>, %s: tensor<512xf32>) -> tensor<512x512xf32> {
  %cst = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf32>
  %d = linalg.generic {indexing_maps = [#n, #b, #n], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<512x512xi8>, tensor<512xf32>) outs(%e : tensor<512x512xf32>) {
  ^bb0(%in: i8, %in_0: f32, %out: f32):
    %f = arith.sitofp %in : i8 to f32
    %r = arith.mulf %f, %in_0 : f32
    linalg.yield %r : f32
  } -> tensor<512x512xf32>
  %z = linalg.fill ins(%cst : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
  %c = linalg.matmul indexing_maps = [#x, #wt, #y] ins(%x, %d : tensor<512x512xf32>, tensor<512x512xf32>) outs(%z : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %c : tensor<512x512xf32>
}
