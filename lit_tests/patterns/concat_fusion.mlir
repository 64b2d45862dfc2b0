// RUN: %mlirfuse-opt %s --split-input-file --pipeline=concat_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=concat_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#mn = affine_map<(m, n) -> (m, n)>

// As it arrives from PyTorch: torch.cat((torch.tanh(x), y * 2), 1)
//   mlirfuse-compile model:main --pipeline=none --dump-ir-dir=ir
// CHECK-LABEL: @torch
// CHECK: %[[M:.*]] = flow.tensor.empty : tensor<8x48xf32>
// CHECK: %[[A:.*]] = flow.dispatch.region -> (tensor<8x48xf32>)
// CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK: %[[I:.*]] = tensor.insert_slice %[[X]] into %[[M]][0, 0] [8, 32] [1, 1]
// CHECK: flow.return %[[I]]
// CHECK: %[[B:.*]] = flow.dispatch.region -> (tensor<8x48xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%arg1 :
// CHECK: %[[J:.*]] = tensor.insert_slice %[[Y]] into %[[A]][0, 32] [8, 16] [1, 1]
// CHECK: flow.return %[[J]]
// CHECK: return %[[B]]
func.func @torch(%x: tensor<8x32xf32>, %y: tensor<8x16xf32>) -> tensor<8x48xf32> {
  %two = arith.constant 2.0 : f32
  %ex = tensor.empty() : tensor<8x32xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%ex : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %ey = tensor.empty() : tensor<8x16xf32>
  %b = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<8x16xf32>) outs(%ey : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.mulf %i, %two : f32
    linalg.yield %r : f32
  } -> tensor<8x16xf32>
  %e = tensor.empty() : tensor<8x48xf32>
  %c = tensor.insert_slice %a into %e[0, 0] [8, 32] [1, 1] : tensor<8x32xf32> into tensor<8x48xf32>
  %d = tensor.insert_slice %b into %c[0, 32] [8, 16] [1, 1] : tensor<8x16xf32> into tensor<8x48xf32>
  return %d : tensor<8x48xf32>
}

// -----

// A group with its mark, dynamic rows, and an operand that is an argument: that one is copied as before.
// CHECK-LABEL: @group_and_argument
// CHECK: %[[M:.*]] = flow.tensor.empty : tensor<?x12xf16>{%[[N:.*]]}
// CHECK: %[[A:.*]] = flow.dispatch.region -> (tensor<?x12xf16>{%[[N]]}) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "softmax_fusion"}
// CHECK: %[[I:.*]] = tensor.insert_slice %{{.*}} into %[[M]][0, 0] [%[[N]], 8] [1, 1]
// CHECK: flow.return %[[I]]
// CHECK: %[[C:.*]] = tensor.insert_slice %arg1 into %[[A]][0, 8]
// CHECK: return %[[C]]
func.func @group_and_argument(%x: tensor<?x8xf16>, %y: tensor<?x4xf16>, %n: index) -> tensor<?x12xf16> {
  %a = flow.dispatch.region -> (tensor<?x8xf16>{%n}) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "softmax_fusion"} {
    %e = tensor.empty(%n) : tensor<?x8xf16>
    %s = linalg.softmax dimension(1) ins(%x : tensor<?x8xf16>) outs(%e : tensor<?x8xf16>) -> tensor<?x8xf16>
    flow.return %s : tensor<?x8xf16>
  }
  %e = tensor.empty(%n) : tensor<?x12xf16>
  %c = tensor.insert_slice %a into %e[0, 0] [%n, 8] [1, 1] : tensor<?x8xf16> into tensor<?x12xf16>
  %d = tensor.insert_slice %y into %c[0, 8] [%n, 4] [1, 1] : tensor<?x4xf16> into tensor<?x12xf16>
  return %d : tensor<?x12xf16>
}

// -----

#n = affine_map<(n) -> (n)>

// JAX: jax.lax.dynamic_update_slice of a cache; the slice's type has no dimension for the row.
// CHECK-LABEL: @cache_bf16
// CHECK: %[[A:.*]] = flow.dispatch.region -> (tensor<8x32xbf16>)
// CHECK: %[[I:.*]] = tensor.insert_slice %{{.*}} into %arg1[%arg2, 0] [1, 32] [1, 1] : tensor<32xbf16> into tensor<8x32xbf16>
// CHECK: flow.return %[[I]]
// CHECK: return %[[A]]
func.func @cache_bf16(%x: tensor<32xbf16>, %cache: tensor<8x32xbf16>, %row: index) -> tensor<8x32xbf16> {
  %e = tensor.empty() : tensor<32xbf16>
  %a = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<32xbf16>) outs(%e : tensor<32xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    %r = math.tanh %i : bf16
    linalg.yield %r : bf16
  } -> tensor<32xbf16>
  %c = tensor.insert_slice %a into %cache[%row, 0] [1, 32] [1, 1] : tensor<32xbf16> into tensor<8x32xbf16>
  return %c : tensor<8x32xbf16>
}

// -----

#n = affine_map<(n) -> (n)>

// CHECK-LABEL: @no_fusion_strides
// CHECK-NOT: flow.dispatch.region
// WHY: structure (1)
// WHY: the part is written with non-unit strides
func.func @no_fusion_strides(%x: tensor<4xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %c = tensor.insert_slice %a into %w[0] [4] [2] : tensor<4xf32> into tensor<8xf32>
  return %c : tensor<8xf32>
}

// -----

#n = affine_map<(n) -> (n)>

// ONNX: Concat of a value twice.
// CHECK-LABEL: @no_fusion_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// WHY: extra_users (2)
// WHY: the inserted value has other users
func.func @no_fusion_read_elsewhere(%x: tensor<4xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %e8 = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %c = tensor.insert_slice %a into %e8[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %d = tensor.insert_slice %a into %c[4] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %d : tensor<8xf32>
}

// -----

#n = affine_map<(n) -> (n)>

// CHECK-LABEL: @no_fusion_two_results
// CHECK: flow.dispatch.region -> (tensor<4xf32>, tensor<4xf32>)
// WHY: extra_users (1)
// WHY: the region that computes the inserted value has other results
func.func @no_fusion_two_results(%x: tensor<4xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %a:2 = flow.dispatch.region -> (tensor<4xf32>, tensor<4xf32>) {
    %e = tensor.empty() : tensor<4xf32>
    %s = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %r = math.tanh %i : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    flow.return %s, %s : tensor<4xf32>, tensor<4xf32>
  }
  %c = tensor.insert_slice %a#0 into %w[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %c, %a#1 : tensor<8xf32>, tensor<4xf32>
}

// -----

#n = affine_map<(n) -> (n)>
#x = affine_map<(n, k) -> (k)>
#w = affine_map<(n, k) -> (k, n)>
#y = affine_map<(n, k) -> (n)>

// The op is the epilogue of a contraction in no group: IREE fuses them.
// CHECK-LABEL: @no_fusion_epilogue
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_epilogue(%x: tensor<4xf32>, %w: tensor<4x4xf32>, %all: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %m = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<4xf32>, tensor<4x4xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %a = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%m : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %c = tensor.insert_slice %a into %all[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  return %c : tensor<8xf32>
}

// -----

#n = affine_map<(n) -> (n)>

// A concatenation in a concatenation: the outer one copies the inner one, which two groups write.
// CHECK-LABEL: @no_fusion_of_nested
// CHECK-COUNT-2: flow.dispatch.region
// CHECK: flow.return %{{.*}} : tensor<8xf32>
// CHECK-NOT: flow.return
// CHECK: tensor.insert_slice {{.*}} into %{{.*}}[2] [8] [1] : tensor<8xf32> into tensor<10xf32>
func.func @no_fusion_of_nested(%x: tensor<4xf32>, %all: tensor<10xf32>) -> tensor<10xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %inner = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %b = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.exp %i : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %c = tensor.insert_slice %a into %inner[0] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %d = tensor.insert_slice %b into %c[4] [4] [1] : tensor<4xf32> into tensor<8xf32>
  %y = tensor.insert_slice %d into %all[2] [8] [1] : tensor<8xf32> into tensor<10xf32>
  return %y : tensor<10xf32>
}
