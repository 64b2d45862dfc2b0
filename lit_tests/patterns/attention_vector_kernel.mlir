// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=attention_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=attention_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=attention_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:sapphirerapids --pipeline=attention_vector_kernel | FileCheck %s --check-prefix=TILES
// OFF-NOT: hal.executable.source

// 17 queries are two vectors of eight and a vector with one query; the mask compares indices.
// CHECK: vector.constant_mask [1] : vector<8xi1>
// CHECK: vector.shuffle {{.*}} [0, 8, 2, 10, 4, 12, 6, 14] : vector<8xf32>, vector<8xf32>
// CHECK: arith.cmpi sge, {{.*}} : vector<8xindex>
// CHECK: vector.shuffle {{.*}} : vector<8xf32>, vector<8xf32>
// CHECK-LABEL: @causal
// CHECK-SAME: %[[Q:.*]]: tensor<2x17x24xf32>, %[[K:.*]]: tensor<2x40x24xf32>, %[[V:.*]]: tensor<2x40x16xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@attention_{{.*}}(%[[Q]], %[[K]], %[[V]])
// CHECK: return %[[Y]]
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, k) -> ()>
#m = affine_map<(b, m, n, d, k) -> (m, k)>
#o = affine_map<(b, m, n, d, k) -> (b, m, n)>
#i = affine_map<(m, k) -> (m, k)>
func.func @causal(%q: tensor<2x17x24xf32>, %k: tensor<2x40x24xf32>, %v: tensor<2x40x16xf32>) -> tensor<2x17x16xf32> {
  %scale = arith.constant 0.25 : f32
  %r = flow.dispatch.region -> (tensor<2x17x16xf32>) {
    %e = tensor.empty() : tensor<17x40xi1>
    %mask = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<17x40xi1>) {
    ^bb0(%unused: i1):
      %row = linalg.index 0 : index
      %key = linalg.index 1 : index
      %kept = arith.cmpi sge, %row, %key : index
      linalg.yield %kept : i1
    } -> tensor<17x40xi1>
    %init = tensor.empty() : tensor<2x17x16xf32>
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x17x24xf32>, tensor<2x40x24xf32>, tensor<2x40x16xf32>, f32, tensor<17x40xi1>) outs(%init : tensor<2x17x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<2x17x16xf32>
    flow.return %a : tensor<2x17x16xf32>
  }
  return %r : tensor<2x17x16xf32>
}

// -----

// A mask in memory whose keys are its last dimension is transposed by squares; a boolean is a byte.
// CHECK-NOT: vector.gather
// CHECK: vector.load {{.*}} : memref<680xi8>, vector<8xi8>
// CHECK: arith.extui {{.*}} : vector<8xi1> to vector<8xi32>
// CHECK: vector.shuffle {{.*}} : vector<8xi32>, vector<8xi32>
// CHECK: arith.trunci {{.*}} : vector<8xi32> to vector<8xi1>
// CHECK-LABEL: @mask_in_memory
// CHECK: flow.dispatch @vector_kernel_
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, k) -> ()>
#m = affine_map<(b, m, n, d, k) -> (m, k)>
#o = affine_map<(b, m, n, d, k) -> (b, m, n)>
func.func @mask_in_memory(%q: tensor<2x17x24xf32>, %k: tensor<2x40x24xf32>, %v: tensor<2x40x16xf32>, %mask: tensor<17x40xi1>) -> tensor<2x17x16xf32> {
  %scale = arith.constant 0.25 : f32
  %r = flow.dispatch.region -> (tensor<2x17x16xf32>) {
    %init = tensor.empty() : tensor<2x17x16xf32>
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m, #o]> ins(%q, %k, %v, %scale, %mask : tensor<2x17x24xf32>, tensor<2x40x24xf32>, tensor<2x40x16xf32>, f32, tensor<17x40xi1>) outs(%init : tensor<2x17x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<2x17x16xf32>
    flow.return %a : tensor<2x17x16xf32>
  }
  return %r : tensor<2x17x16xf32>
}

// -----

// Keys of 40 elements are tiles of 32 and of 8, the last 2 of 50 keys tiles of two rows; where tile
// registers are refused, vectors multiply.
// TILES-LABEL: func.func @attention_
// TILES: arith.constant dense<[1, 0, {{.*}} 16, 16, 16, 16, 16, 16, 16, 4, 0, {{.*}}]> : vector<64xi8>
// TILES: %[[REST:.*]] = arith.constant dense<[1, 0, {{.*}} 2, 2, 2, 2, 2, 16, 2, 4, 0, {{.*}}]> : vector<64xi8>
// TILES: %[[ALLOWED:.*]] = arith.cmpi eq, {{.*}} : i64
// TILES: scf.if %[[ALLOWED]]
// TILES: vector.store %[[REST]]
// TILES: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// TILES: } else {
// TILES-NOT: tdpbf16ps
// TILES: vector.fma
// TILES-LABEL: @bf16
// TILES: flow.dispatch @vector_kernel_
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, k) -> ()>
#o = affine_map<(b, m, n, d, k) -> (b, m, n)>
func.func @bf16(%q: tensor<2x33x40xbf16>, %k: tensor<2x50x40xbf16>, %v: tensor<2x50x24xbf16>) -> tensor<2x33x24xbf16> {
  %scale = arith.constant 0.25 : bf16
  %r = flow.dispatch.region -> (tensor<2x33x24xbf16>) {
    %init = tensor.empty() : tensor<2x33x24xbf16>
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x33x40xbf16>, tensor<2x50x40xbf16>, tensor<2x50x24xbf16>, bf16) outs(%init : tensor<2x33x24xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<2x33x24xbf16>
    flow.return %a : tensor<2x33x24xbf16>
  }
  return %r : tensor<2x33x24xbf16>
}

// -----

// Pairs of 11 elements have one left: vectors multiply.
// TILES-NOT: tdpbf16ps
// TILES-LABEL: @bf16_of_odd_heads
// TILES: flow.dispatch @vector_kernel_
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, k) -> ()>
#o = affine_map<(b, m, n, d, k) -> (b, m, n)>
func.func @bf16_of_odd_heads(%q: tensor<2x33x11xbf16>, %k: tensor<2x50x11xbf16>, %v: tensor<2x50x24xbf16>) -> tensor<2x33x24xbf16> {
  %scale = arith.constant 0.25 : bf16
  %r = flow.dispatch.region -> (tensor<2x33x24xbf16>) {
    %init = tensor.empty() : tensor<2x33x24xbf16>
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x33x11xbf16>, tensor<2x50x11xbf16>, tensor<2x50x24xbf16>, bf16) outs(%init : tensor<2x33x24xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<2x33x24xbf16>
    flow.return %a : tensor<2x33x24xbf16>
  }
  return %r : tensor<2x33x24xbf16>
}

// -----

// Few queries: keys are the lanes of vectors.
// CHECK-LABEL: @few_queries
// CHECK-SAME: %[[Q:.*]]: tensor<2x3x24xf32>, %[[K:.*]]: tensor<2x40x24xf32>, %[[V:.*]]: tensor<2x40x16xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@attention_{{.*}}(%[[Q]], %[[K]], %[[V]])
// CHECK-NEXT: return %[[Y]]
// OFF-LABEL: @few_queries
// OFF-NOT: flow.dispatch @
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, k) -> ()>
#o = affine_map<(b, m, n, d, k) -> (b, m, n)>
func.func @few_queries(%q: tensor<2x3x24xf32>, %k: tensor<2x40x24xf32>, %v: tensor<2x40x16xf32>) -> tensor<2x3x16xf32> {
  %scale = arith.constant 0.25 : f32
  %r = flow.dispatch.region -> (tensor<2x3x16xf32>) {
    %init = tensor.empty() : tensor<2x3x16xf32>
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x3x24xf32>, tensor<2x40x24xf32>, tensor<2x40x16xf32>, f32) outs(%init : tensor<2x3x16xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<2x3x16xf32>
    flow.return %a : tensor<2x3x16xf32>
  }
  return %r : tensor<2x3x16xf32>
}

// -----

// One query of one head: the keys are divided among workgroups, and a second kernel merges the parts.
// CHECK-LABEL: @split_keys
// CHECK-SAME: %[[Q:.*]]: tensor<1x64xbf16>, %[[K:.*]]: tensor<4096x64xbf16>, %[[V:.*]]: tensor<4096x64xbf16>
// CHECK: %[[P:.*]]:3 = flow.dispatch @vector_kernel_{{.*}}::@attention_{{.*}}(%[[Q]], %[[K]], %[[V]])
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@attention_merge_{{.*}}(%[[P]]#0, %[[P]]#1, %[[P]]#2)
// CHECK-NEXT: return %[[Y]]
// OFF-LABEL: @split_keys
// OFF-NOT: flow.dispatch @
#q = affine_map<(m, n, d, k) -> (m, d)>
#k = affine_map<(m, n, d, k) -> (k, d)>
#v = affine_map<(m, n, d, k) -> (k, n)>
#s = affine_map<(m, n, d, k) -> ()>
#o = affine_map<(m, n, d, k) -> (m, n)>
func.func @split_keys(%q: tensor<1x64xbf16>, %k: tensor<4096x64xbf16>, %v: tensor<4096x64xbf16>) -> tensor<1x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %r = flow.dispatch.region -> (tensor<1x64xbf16>) {
    %init = tensor.empty() : tensor<1x64xbf16>
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<1x64xbf16>, tensor<4096x64xbf16>, tensor<4096x64xbf16>, f32) outs(%init : tensor<1x64xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<1x64xbf16>
    flow.return %a : tensor<1x64xbf16>
  }
  return %r : tensor<1x64xbf16>
}

// -----

// WHY-LABEL: @no_kernel_values_last
// WHY: attention_vector_kernel
// WHY-NEXT: the kernel cannot compute a result whose last dimension is not the values'
// CHECK-LABEL: @no_kernel_values_last
// CHECK-NOT: flow.dispatch @
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#s = affine_map<(b, m, n, d, k) -> ()>
#o = affine_map<(b, m, n, d, k) -> (b, n, m)>
func.func @no_kernel_values_last(%q: tensor<2x17x24xf32>, %k: tensor<2x40x24xf32>, %v: tensor<2x40x16xf32>) -> tensor<2x16x17xf32> {
  %scale = arith.constant 0.25 : f32
  %r = flow.dispatch.region -> (tensor<2x16x17xf32>) {
    %init = tensor.empty() : tensor<2x16x17xf32>
    %a = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<2x17x24xf32>, tensor<2x40x24xf32>, tensor<2x40x16xf32>, f32) outs(%init : tensor<2x16x17xf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<2x16x17xf32>
    flow.return %a : tensor<2x16x17xf32>
  }
  return %r : tensor<2x16x17xf32>
}
