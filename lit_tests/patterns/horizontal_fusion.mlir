// RUN: %mlirfuse-opt %s --pipeline=horizontal_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --pipeline=horizontal_fusion --horizontal=off | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --pipeline=horizontal_fusion --explain 2>&1 | FileCheck %s --check-prefix=WHY

// OFF-NOT: flow.dispatch.region

#id = affine_map<(d0, d1) -> (d0, d1)>
#t = affine_map<(d0, d1) -> (d1, d0)>
#col = affine_map<(d0, d1) -> (d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Two users of one tensor; the shared tensor is one operand.
// CHECK-LABEL: func.func @share(
// CHECK-SAME: %[[X:.+]]: tensor<64x128xf32>, %[[Y:.+]]: tensor<128xf32>)
// CHECK: %[[R:.+]]:2 = flow.dispatch.region
// CHECK: %[[M:.+]]:2 = linalg.generic
// CHECK-SAME: ins(%[[X]], %[[Y]] : tensor<64x128xf32>, tensor<128xf32>)
// CHECK-DAG: %[[E:.+]] = math.exp
// CHECK-DAG: %[[A:.+]] = arith.addf
// CHECK: linalg.yield %[[E]], %[[A]]
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @share(%x: tensor<64x128xf32>, %y: tensor<128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>) {
  %e = tensor.empty() : tensor<64x128xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x128xf32>) outs(%e : tensor<64x128xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<64x128xf32>
  %a = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<64x128xf32>, tensor<128xf32>) outs(%e : tensor<64x128xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<64x128xf32>
  return %a, %b : tensor<64x128xf32>, tensor<64x128xf32>
}

// Two reductions of the same rows keep their own starts.
// CHECK-LABEL: func.func @rows
// CHECK: flow.dispatch.region
// CHECK: %[[I0:.+]] = linalg.fill ins(%cst :
// CHECK: %[[I1:.+]] = linalg.fill ins(%cst_0 :
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK-SAME: outs(%[[I0]], %[[I1]] : tensor<64xf16>, tensor<64xf32>)
func.func @rows(%x: tensor<64x128xf16>) -> (tensor<64xf16>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<64xf16>
  %f = tensor.empty() : tensor<64xf32>
  %z = arith.constant 0.0 : f16
  %m = arith.constant 0xFF800000 : f32
  %i0 = linalg.fill ins(%z: f16) outs(%e: tensor<64xf16>) -> tensor<64xf16>
  %i1 = linalg.fill ins(%m: f32) outs(%f: tensor<64xf32>) -> tensor<64xf32>
  %v = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x: tensor<64x128xf16>) outs(%i0: tensor<64xf16>) {
  ^bb0(%a: f16, %o: f16):
    %s = arith.addf %a, %o : f16
    linalg.yield %s : f16
  } -> tensor<64xf16>
  %w = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x: tensor<64x128xf16>) outs(%i1: tensor<64xf32>) {
  ^bb0(%a: f16, %o: f32):
    %b = arith.extf %a : f16 to f32
    %s = arith.maximumf %b, %o : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %v, %w : tensor<64xf16>, tensor<64xf32>
}

// Nothing in common, and each takes longer to launch than to compute. Integers.
// CHECK-LABEL: func.func @small
// CHECK: flow.dispatch.region -> (tensor<4x8xi32>, tensor<4x8xi64>)
func.func @small(%x: tensor<4x8xi32>, %y: tensor<4x8xi64>) -> (tensor<4x8xi32>, tensor<4x8xi64>) {
  %e = tensor.empty() : tensor<4x8xi32>
  %f = tensor.empty() : tensor<4x8xi64>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xi32>) outs(%e : tensor<4x8xi32>) {
  ^bb0(%p: i32, %o: i32):
    %r = arith.addi %p, %p : i32
    linalg.yield %r : i32
  } -> tensor<4x8xi32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x8xi64>) outs(%f : tensor<4x8xi64>) {
  ^bb0(%p: i64, %o: i64):
    %r = arith.muli %p, %p : i64
    linalg.yield %r : i64
  } -> tensor<4x8xi64>
  return %a, %b : tensor<4x8xi32>, tensor<4x8xi64>
}

// The same input through two maps is two operands.
// CHECK-LABEL: func.func @two_maps(
// CHECK-SAME: %[[X:.+]]: tensor<32x32xbf16>)
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[X]] :
func.func @two_maps(%x: tensor<32x32xbf16>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %e = tensor.empty() : tensor<32x32xbf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x32xbf16>) outs(%e : tensor<32x32xbf16>) {
  ^bb0(%p: bf16, %o: bf16):
    %r = arith.negf %p : bf16
    linalg.yield %r : bf16
  } -> tensor<32x32xbf16>
  %b = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x32xbf16>) outs(%e : tensor<32x32xbf16>) {
  ^bb0(%p: bf16, %o: bf16):
    %r = math.absf %p : bf16
    linalg.yield %r : bf16
  } -> tensor<32x32xbf16>
  return %a, %b : tensor<32x32xbf16>, tensor<32x32xbf16>
}

// Refused: other loops.
// CHECK-LABEL: func.func @no_fusion_other_loops
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_other_loops(%x: tensor<32x32xf32>, %y: tensor<16x32xf32>) -> (tensor<32x32xf32>, tensor<16x32xf32>) {
  %e = tensor.empty() : tensor<32x32xf32>
  %f = tensor.empty() : tensor<16x32xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<32x32xf32>) outs(%e : tensor<32x32xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<32x32xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<16x32xf32>) outs(%f : tensor<16x32xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.absf %p : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %a, %b : tensor<32x32xf32>, tensor<16x32xf32>
}

// Refused: one reads the other, here through a reshape.
// CHECK-LABEL: func.func @no_fusion_dependent
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dependent(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %e = tensor.empty() : tensor<8x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %b = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %a : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  return %a, %b : tensor<8x8xf32>, tensor<8x8xf32>
}

// Refused: IREE takes the slices after them into their dispatches.
// WHY: not_profitable
// WHY: IREE fuses the siblings with their neighbors
// CHECK-LABEL: func.func @no_fusion_neighbours
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_neighbours(%x: tensor<8x8xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %e = tensor.empty() : tensor<8x8xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.absf %p : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  %c = tensor.extract_slice %a[0, 0] [8, 4] [1, 1] : tensor<8x8xf32> to tensor<8x4xf32>
  %d = tensor.extract_slice %b[0, 4] [8, 4] [1, 1] : tensor<8x8xf32> to tensor<8x4xf32>
  return %c, %d : tensor<8x4xf32>, tensor<8x4xf32>
}

// Refused: the number of rows is known at run time only.
// CHECK-LABEL: func.func @no_fusion_dynamic_rows
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_dynamic_rows(%x: tensor<?x128xf32>, %n: index) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
  %e = tensor.empty(%n) : tensor<?x128xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x128xf32>) outs(%e : tensor<?x128xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<?x128xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x128xf32>) outs(%e : tensor<?x128xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = math.absf %p : f32
    linalg.yield %r : f32
  } -> tensor<?x128xf32>
  return %a, %b : tensor<?x128xf32>, tensor<?x128xf32>
}

// -----

// The operands are constants: both are computed when the program is loaded.
// CHECK-LABEL: func.func @no_fusion_of_constants
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_of_constants() -> (tensor<4xf32>, tensor<4xf32>) {
  %a = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf16>
  %b = arith.constant dense<[5.0, 6.0, 7.0, 8.0]> : tensor<4xf16>
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf16>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f16, %out: f32):
    %w = arith.extf %in : f16 to f32
    linalg.yield %w : f32
  } -> tensor<4xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]} ins(%b : tensor<4xf16>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f16, %out: f32):
    %w = arith.extf %in : f16 to f32
    linalg.yield %w : f32
  } -> tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}
