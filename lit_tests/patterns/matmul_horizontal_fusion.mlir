// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_horizontal_fusion --target=rocm --disable-feature=kernels | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_horizontal_fusion --target=rocm --disable-feature=kernels --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_horizontal_fusion --target=rocm --disable-feature=kernels --horizontal=off | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_horizontal_fusion --target=cpu | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_horizontal_fusion --target=vulkan | FileCheck %s --check-prefix=VULKAN
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_horizontal_fusion --target=cpu:x86-64-v4 --enable-pass=matmul_horizontal_fusion --disable-feature=kernels --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=PACKED
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=matmul_horizontal_fusion --target=rocm --enable-feature=kernels --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=KERNELS
// OFF-NOT: mlirfuse.pass

// CHECK-LABEL: @one_shape
// CHECK: %[[R:.*]]:3 = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_horizontal_fusion"
// CHECK: %[[C:.*]]:3 = linalg.generic {{.*}} ins(%arg0, %arg1, %arg2, %arg3 :
// CHECK: flow.return %[[C]]#0, %[[C]]#1, %[[C]]#2
// CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#2
// VULKAN-LABEL: @one_shape
// VULKAN-NOT: flow.dispatch.region
// VULKAN: return
func.func @one_shape(%x: tensor<16x16xf32>, %wq: tensor<16x32xf32>, %wk: tensor<16x32xf32>, %wv: tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x32xf32>) -> tensor<16x32xf32>
  %q = linalg.matmul ins(%x, %wq : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %k = linalg.matmul ins(%x, %wk : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  %v = linalg.matmul ins(%x, %wv : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  return %q, %k, %v : tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// Users that read the results elementwise are fused too; their results are read before the last one.
// CHECK-LABEL: @users_are_fused_f16
// CHECK: %[[R:.*]]:3 = flow.dispatch.region
// CHECK: %[[C:.*]]:2 = linalg.generic {{.*}} ins(%arg0, %arg1, %arg2 :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]]#0, %arg3 :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]]#1, %[[D]] :
// CHECK: flow.return %[[C]]#0, %[[C]]#1, %[[Y]]
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[R]]#0 :
// CHECK: return %[[T]], %[[R]]#1, %[[R]]#2
func.func @users_are_fused_f16(%x: tensor<16x16xf16>, %w0: tensor<16x32xf16>, %w1: tensor<16x32xf16>, %bias: tensor<32xf16>) -> (tensor<32x16xf16>, tensor<16x32xf16>, tensor<16x32xf16>) {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<16x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<16x32xf16>) -> tensor<16x32xf16>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf16>, tensor<16x32xf16>) outs(%f : tensor<16x32xf16>) -> tensor<16x32xf16>
  %et = tensor.empty() : tensor<32x16xf16>
  %t = linalg.generic {indexing_maps = [affine_map<(n, m) -> (m, n)>, #mn], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<16x32xf16>) outs(%et : tensor<32x16xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %r = math.absf %i0 : f16
    linalg.yield %r : f16
  } -> tensor<32x16xf16>
  %d = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%a, %bias : tensor<16x32xf16>, tensor<32xf16>) outs(%e : tensor<16x32xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.addf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<16x32xf16>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf16>, tensor<16x32xf16>) outs(%f : tensor<16x32xf16>) -> tensor<16x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%b, %d : tensor<16x32xf16>, tensor<16x32xf16>) outs(%e : tensor<16x32xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %r = arith.mulf %i0, %i1 : f16
    linalg.yield %r : f16
  } -> tensor<16x32xf16>
  return %t, %b, %y : tensor<32x16xf16>, tensor<16x32xf16>, tensor<16x32xf16>
}

// -----

// CHECK-LABEL: @no_fusion_dynamic_matmuls
// WHY-LABEL: @no_fusion_dynamic_matmuls
// WHY: no matrix instructions for several contractions of ?x32x16 f32 on rocm:gfx942
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dynamic_matmuls(%x: tensor<?x16xf32>, %w0: tensor<16x32xf32>, %w1: tensor<16x32xf32>, %rows: index) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%rows) : tensor<?x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<?x16xf32>, tensor<16x32xf32>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  %b = linalg.matmul ins(%x, %w1 : tensor<?x16xf32>, tensor<16x32xf32>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %a, %b : tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

// Four of five at most: the first remains alone.
// CHECK-LABEL: @five_bf16
// CHECK: linalg.matmul ins(%arg0, %arg1 :
// CHECK: flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg2, %arg3, %arg4, %arg5 :
// CHECK: return
func.func @five_bf16(%x: tensor<16x16xbf16>, %w0: tensor<16x32xbf16>, %w1: tensor<16x32xbf16>, %w2: tensor<16x32xbf16>, %w3: tensor<16x32xbf16>, %w4: tensor<16x32xbf16>) -> (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>) {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<16x32xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %0 = linalg.matmul ins(%x, %w0 : tensor<16x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %1 = linalg.matmul ins(%x, %w1 : tensor<16x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %2 = linalg.matmul ins(%x, %w2 : tensor<16x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %3 = linalg.matmul ins(%x, %w3 : tensor<16x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %4 = linalg.matmul ins(%x, %w4 : tensor<16x16xbf16>, tensor<16x32xbf16>) outs(%f : tensor<16x32xbf16>) -> tensor<16x32xbf16>
  return %0, %1, %2, %3, %4 : tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#wt = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>

// Constant weights of 64 and 32 columns with a bias each; groups read whole heads of them.
// CHECK-LABEL: util.global private @joined_weight : tensor<96x16xf32>
// CHECK: util.initializer
// CHECK: %[[W0:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 0] [64, 16]
// CHECK: %[[W1:.*]] = tensor.insert_slice %{{.*}} into %[[W0]][64, 0] [32, 16]
// CHECK: util.global.store %[[W1]], @joined_weight
// CHECK: util.global private @joined_bias : tensor<96xf32>
// CHECK-LABEL: @merged_heads
// CHECK: %[[W:.*]] = util.global.load immutable @joined_weight
// CHECK: %[[B:.*]] = util.global.load immutable @joined_bias
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "matmul_horizontal_fusion"
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%arg0, %[[W]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[B]] :
// CHECK: flow.return %[[D]]
// CHECK: %[[E:.*]] = tensor.expand_shape %[[R]] {{\[\[}}0], [1, 2]] output_shape [16, 12, 8]
// CHECK: %[[Q:.*]] = tensor.extract_slice %[[E]][0, 0, 0] [16, 8, 8]
// CHECK: %[[K:.*]] = tensor.extract_slice %[[E]][0, 8, 0] [16, 4, 8]
// CHECK: linalg.generic {{.*}} ins(%[[Q]] :
// CHECK: linalg.generic {{.*}} ins(%[[K]] :
// VULKAN-LABEL: @merged_heads
// VULKAN: mlirfuse.pass = "matmul_horizontal_fusion"
// PACKED: with packed weights each is at the machine's peak
func.func @merged_heads(%x: tensor<16x16xf32>) -> (tensor<16x8x8xf32>, tensor<16x4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %wq = arith.constant dense<0.5> : tensor<64x16xf32>
  %bq = arith.constant dense<1.5> : tensor<64xf32>
  %wk = arith.constant dense<2.5> : tensor<32x16xf32>
  %bk = arith.constant dense<3.5> : tensor<32xf32>
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %q0 = linalg.matmul indexing_maps = [#x, #wt, #c] ins(%x, %wq : tensor<16x16xf32>, tensor<64x16xf32>) outs(%f0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %q1 = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%q0, %bq : tensor<16x64xf32>, tensor<64xf32>) outs(%e0 : tensor<16x64xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x64xf32>
  %q2 = tensor.expand_shape %q1 [[0], [1, 2]] output_shape [16, 8, 8] : tensor<16x64xf32> into tensor<16x8x8xf32>
  %qe = tensor.empty() : tensor<16x8x8xf32>
  %q = flow.dispatch.region -> (tensor<16x8x8xf32>) {
    %q3 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q2 : tensor<16x8x8xf32>) outs(%qe : tensor<16x8x8xf32>) {
    ^bb0(%i0: f32, %o: f32):
      %r = math.absf %i0 : f32
      linalg.yield %r : f32
    } -> tensor<16x8x8xf32>
    flow.return %q3 : tensor<16x8x8xf32>
  }
  %e1 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %k0 = linalg.matmul indexing_maps = [#x, #wt, #c] ins(%x, %wk : tensor<16x16xf32>, tensor<32x16xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %k1 = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%k0, %bk : tensor<16x32xf32>, tensor<32xf32>) outs(%e1 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %r = arith.addf %i0, %i1 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %k2 = tensor.expand_shape %k1 [[0], [1, 2]] output_shape [16, 4, 8] : tensor<16x32xf32> into tensor<16x4x8xf32>
  %ke = tensor.empty() : tensor<16x4x8xf32>
  %k = flow.dispatch.region -> (tensor<16x4x8xf32>) {
    %k3 = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k2 : tensor<16x4x8xf32>) outs(%ke : tensor<16x4x8xf32>) {
    ^bb0(%i0: f32, %o: f32):
      %r = math.absf %i0 : f32
      linalg.yield %r : f32
    } -> tensor<16x4x8xf32>
    flow.return %k3 : tensor<16x4x8xf32>
  }
  return %q, %k : tensor<16x8x8xf32>, tensor<16x4x8xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
// Parameters of the program are concatenated like constants: groups read the slices in place.
// CHECK-LABEL: util.global private @joined_weight : tensor<16x96xf32>
// CHECK-DAG: %[[A:.*]] = flow.tensor.constant #flow.parameter.named<"model"::"0">
// CHECK-DAG: %[[B:.*]] = flow.tensor.constant #flow.parameter.named<"model"::"1">
// CHECK: %[[W:.*]] = tensor.insert_slice %[[A]] into
// CHECK: tensor.insert_slice %[[B]] into %[[W]]
// CHECK-LABEL: @concatenated_parameters
// KERNELS-LABEL: @concatenated_parameters
// KERNELS: kernels read whole tensors: slices would be copied
// CHECK-NOT: flow.tensor.constant
// CHECK: linalg.generic {{.*}} ins(%arg0, %joined_weight :
func.func @concatenated_parameters(%x: tensor<16x16xf32>) -> (tensor<16x64xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %w0 = flow.tensor.constant #flow.parameter.named<"model"::"0"> : tensor<16x64xf32>
  %w1 = flow.tensor.constant #flow.parameter.named<"model"::"1"> : tensor<16x32xf32>
  %e0 = tensor.empty() : tensor<16x64xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f0 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %p = flow.dispatch.region -> (tensor<16x64xf32>) {
    %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<16x64xf32>) outs(%e0 : tensor<16x64xf32>) {
    ^bb0(%i: f32, %o: f32):
      %r = math.absf %i : f32
      linalg.yield %r : f32
    } -> tensor<16x64xf32>
    flow.return %s : tensor<16x64xf32>
  }
  %e1 = tensor.empty() : tensor<16x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f1 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %q = flow.dispatch.region -> (tensor<16x32xf32>) {
    %s = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%b : tensor<16x32xf32>) outs(%e1 : tensor<16x32xf32>) {
    ^bb0(%i: f32, %o: f32):
      %r = math.absf %i : f32
      linalg.yield %r : f32
    } -> tensor<16x32xf32>
    flow.return %s : tensor<16x32xf32>
  }
  return %p, %q : tensor<16x64xf32>, tensor<16x32xf32>
}

// -----

// CHECK-LABEL: @no_fusion_columns_differ
// WHY-LABEL: @no_fusion_columns_differ
// WHY: the contractions differ in N
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_columns_differ(%x: tensor<16x16xf32>, %w0: tensor<16x32xf32>, %w1: tensor<16x64xf32>) -> (tensor<16x32xf32>, tensor<16x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %e1 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %a, %b : tensor<16x32xf32>, tensor<16x64xf32>
}

// -----

// CHECK-LABEL: @no_fusion_dynamic_columns
// WHY-LABEL: @no_fusion_dynamic_columns
// WHY: N is dynamic
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dynamic_columns(%x: tensor<16x16xf32>, %w0: tensor<16x?xf32>, %w1: tensor<16x?xf32>, %n: index) -> (tensor<16x?xf32>, tensor<16x?xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<16x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x?xf32>) -> tensor<16x?xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf32>, tensor<16x?xf32>) outs(%f : tensor<16x?xf32>) -> tensor<16x?xf32>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf32>, tensor<16x?xf32>) outs(%f : tensor<16x?xf32>) -> tensor<16x?xf32>
  return %a, %b : tensor<16x?xf32>, tensor<16x?xf32>
}

// -----

// Slices would need copies: the function returns them.
// CHECK-LABEL: @no_fusion_parts_are_copied
// WHY-LABEL: @no_fusion_parts_are_copied
// WHY: slower in the model
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_parts_are_copied(%x: tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %w0 = arith.constant dense<0.5> : tensor<16x32xf32>
  %w1 = arith.constant dense<1.5> : tensor<16x64xf32>
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %e1 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %a, %b : tensor<16x32xf32>, tensor<16x64xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// A merged contraction would have no activation after a slice of its columns.
// CHECK-LABEL: @no_fusion_activation_would_be_lost
// WHY-LABEL: @no_fusion_activation_would_be_lost
// WHY: linalg.generic would lose its contraction
// CHECK-NOT: joined_weight
// CHECK: return
func.func @no_fusion_activation_would_be_lost(%x: tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %w0 = arith.constant dense<0.5> : tensor<16x32xf32>
  %w1 = arith.constant dense<1.5> : tensor<16x64xf32>
  %e0 = tensor.empty() : tensor<16x32xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %e1 = tensor.empty() : tensor<16x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f0 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<16x32xf32>) outs(%e0 : tensor<16x32xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %r = math.tanh %i0 : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf32>, tensor<16x64xf32>) outs(%f1 : tensor<16x64xf32>) -> tensor<16x64xf32>
  return %y, %b : tensor<16x32xf32>, tensor<16x64xf32>
}

// -----

// CHECK-LABEL: @no_fusion_one_reads_the_other
// WHY-LABEL: @no_fusion_one_reads_the_other
// WHY: a contraction depends on another one
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_one_reads_the_other(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %a = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x16xf32>) outs(%f : tensor<16x16xf32>) -> tensor<16x16xf32>
  %b = linalg.matmul ins(%x, %a : tensor<16x16xf32>, tensor<16x16xf32>) outs(%f : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %b : tensor<16x16xf32>
}

// -----

// CHECK-LABEL: @no_fusion_through_a_transpose
// WHY-LABEL: @no_fusion_through_a_transpose
// WHY: would_cycle
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_through_a_transpose(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x16xf32>) -> tensor<16x16xf32>
  %a = linalg.matmul ins(%x, %w : tensor<16x16xf32>, tensor<16x16xf32>) outs(%f : tensor<16x16xf32>) -> tensor<16x16xf32>
  %t = linalg.transpose ins(%a : tensor<16x16xf32>) outs(%e : tensor<16x16xf32>) permutation = [1, 0]
  %b = linalg.matmul ins(%x, %t : tensor<16x16xf32>, tensor<16x16xf32>) outs(%f : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %b : tensor<16x16xf32>
}

// -----

// CHECK-LABEL: @no_fusion_init_is_a_tensor
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_init_is_a_tensor(%x: tensor<16x16xf32>, %w0: tensor<16x32xf32>, %w1: tensor<16x32xf32>, %acc: tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<16x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x32xf32>) -> tensor<16x32xf32>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf32>, tensor<16x32xf32>) outs(%acc : tensor<16x32xf32>) -> tensor<16x32xf32>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf32>, tensor<16x32xf32>) outs(%f : tensor<16x32xf32>) -> tensor<16x32xf32>
  return %a, %b : tensor<16x32xf32>, tensor<16x32xf32>
}

// -----

// CHECK-LABEL: @no_fusion_f64
// WHY-LABEL: @no_fusion_f64
// WHY: no matrix instructions for several contractions of 16x32x16 f64 on rocm:gfx942
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_f64(%x: tensor<16x16xf64>, %w0: tensor<16x32xf64>, %w1: tensor<16x32xf64>) -> (tensor<16x32xf64>, tensor<16x32xf64>) {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<16x32xf64>
  %f = linalg.fill ins(%zero : f64) outs(%e : tensor<16x32xf64>) -> tensor<16x32xf64>
  %a = linalg.matmul ins(%x, %w0 : tensor<16x16xf64>, tensor<16x32xf64>) outs(%f : tensor<16x32xf64>) -> tensor<16x32xf64>
  %b = linalg.matmul ins(%x, %w1 : tensor<16x16xf64>, tensor<16x32xf64>) outs(%f : tensor<16x32xf64>) -> tensor<16x32xf64>
  return %a, %b : tensor<16x32xf64>, tensor<16x32xf64>
}
