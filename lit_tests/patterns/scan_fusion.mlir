// RUN: %mlirfuse-opt %s --split-input-file --pipeline=scan_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=scan_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=scan_fusion --target=rocm --explain -o %t 2>&1 | FileCheck %s --check-prefix=GPU

#mn = affine_map<(m, n) -> (m, n)>

// As it arrives from PyTorch: torch.cumsum(torch.sigmoid(x), 1) * y; a dynamic batch.
//   mlirfuse-compile model:main --pipeline=none --dump-ir-dir=ir
// CHECK-LABEL: @torch
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK: %[[S:.*]]:2 = iree_linalg_ext.scan {{.*}} ins(%[[A]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]]#0, %arg1 :
// CHECK: flow.return %[[Y]]
// CHECK: return %[[R]]
func.func @torch(%x: tensor<?x32xf32>, %y: tensor<?x32xf32>, %n: index) -> tensor<?x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x32xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x32xf32>) outs(%e : tensor<?x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<?x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %e1 = tensor.empty(%n) : tensor<?xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?xf32>) -> tensor<?xf32>
  %s:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%a : tensor<?x32xf32>) outs(%f, %f1 : tensor<?x32xf32>, tensor<?xf32>) {
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    iree_linalg_ext.yield %w : f32
  } -> tensor<?x32xf32>, tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s#0, %y : tensor<?x32xf32>, tensor<?x32xf32>) outs(%e : tensor<?x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<?x32xf32>
  return %r : tensor<?x32xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#c = affine_map<(m) -> ()>
#m = affine_map<(m) -> (m)>

// As it arrives from JAX: jnp.cumprod(x, 0) in integers, halved; the start is a broadcast.
// CHECK-LABEL: @jax_i32
// CHECK: flow.dispatch.region
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<i32>)
// CHECK: %[[S:.*]]:2 = iree_linalg_ext.scan dimension(0) {{.*}} outs(%{{.*}}, %[[B]] :
// CHECK: linalg.generic {{.*}} ins(%[[S]]#0 :
func.func @jax_i32(%x: tensor<8x32xi32>) -> tensor<8x32xi32> {
  %one = arith.constant dense<1> : tensor<i32>
  %two = arith.constant 2 : i32
  %e = tensor.empty() : tensor<8x32xi32>
  %e1 = tensor.empty() : tensor<32xi32>
  %b = linalg.generic {indexing_maps = [#c, #m], iterator_types = ["parallel"]} ins(%one : tensor<i32>) outs(%e1 : tensor<32xi32>) {
  ^bb0(%i: i32, %o: i32):
    linalg.yield %i : i32
  } -> tensor<32xi32>
  %s:2 = iree_linalg_ext.scan dimension(0) inclusive(true) ins(%x : tensor<8x32xi32>) outs(%e, %b : tensor<8x32xi32>, tensor<32xi32>) {
  ^bb0(%u: i32, %v: i32):
    %w = arith.muli %u, %v : i32
    iree_linalg_ext.yield %w : i32
  } -> tensor<8x32xi32>, tensor<32xi32>
  %r = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s#0 : tensor<8x32xi32>) outs(%e : tensor<8x32xi32>) {
  ^bb0(%i: i32, %o: i32):
    %r = arith.divsi %i, %two : i32
    linalg.yield %r : i32
  } -> tensor<8x32xi32>
  return %r : tensor<8x32xi32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// ONNX: CumSum with two users.
// CHECK-LABEL: @no_fusion_read_twice
// CHECK-NOT: flow.dispatch.region
// WHY: extra_users (1)
// WHY: the scan has more than one elementwise user
func.func @no_fusion_read_twice(%x: tensor<8x32xf16>) -> (tensor<8x32xf16>, tensor<8x32xf16>) {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<8x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<8x32xf16>) -> tensor<8x32xf16>
  %e1 = tensor.empty() : tensor<8xf16>
  %f1 = linalg.fill ins(%zero : f16) outs(%e1 : tensor<8xf16>) -> tensor<8xf16>
  %s:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<8x32xf16>) outs(%f, %f1 : tensor<8x32xf16>, tensor<8xf16>) {
  ^bb0(%u: f16, %v: f16):
    %w = arith.addf %u, %v : f16
    iree_linalg_ext.yield %w : f16
  } -> tensor<8x32xf16>, tensor<8xf16>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s#0 : tensor<8x32xf16>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.tanh %i : f16
    linalg.yield %r : f16
  } -> tensor<8x32xf16>
  %b = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s#0 : tensor<8x32xf16>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.absf %i : f16
    linalg.yield %r : f16
  } -> tensor<8x32xf16>
  return %a, %b : tensor<8x32xf16>, tensor<8x32xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The rows do not fit a CPU thread's stack.
// CHECK-LABEL: @no_fusion_long_rows
// CHECK-NOT: flow.dispatch.region
// WHY: stack_limit (1)
// WHY: about 131072 bytes of stack
func.func @no_fusion_long_rows(%x: tensor<8x4096xf32>, %n: index) -> tensor<8x4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x4096xf32>) -> tensor<8x4096xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %s:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<8x4096xf32>) outs(%f, %f1 : tensor<8x4096xf32>, tensor<8xf32>) {
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    iree_linalg_ext.yield %w : f32
  } -> tensor<8x4096xf32>, tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s#0 : tensor<8x4096xf32>) outs(%e : tensor<8x4096xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<8x4096xf32>
  return %a : tensor<8x4096xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// Rows of unknown length.
// CHECK-LABEL: @no_fusion_dynamic_rows
// CHECK-NOT: flow.dispatch.region
// WHY: dynamic_shape (1)
// WHY: the scanned dimension is dynamic
func.func @no_fusion_dynamic_rows(%x: tensor<8x?xf32>, %n: index) -> tensor<8x?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<8x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x?xf32>) -> tensor<8x?xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<8xf32>) -> tensor<8xf32>
  %s:2 = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<8x?xf32>) outs(%f, %f1 : tensor<8x?xf32>, tensor<8xf32>) {
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    iree_linalg_ext.yield %w : f32
  } -> tensor<8x?xf32>, tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%s#0 : tensor<8x?xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<8x?xf32>
  return %a : tensor<8x?xf32>
}

// GPU: target_unsupported (1)
// GPU: workgroup memory for unknown rows
// GPU: target_unsupported (1)
// GPU: about 131072 bytes of workgroup memory
