// RUN: %mlirfuse-opt %s --split-input-file --pipeline=elementwise_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=elementwise_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=elementwise_fusion --single-op-groups | FileCheck %s --check-prefix=SINGLE

// A tree with a broadcast; the first value is read elsewhere and becomes a result.
// CHECK-LABEL: @tree_with_broadcast_and_second_result
// CHECK-SAME: %[[X:.*]]: tensor<8x16xf32>, %[[Y:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<16xf32>
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[Y]]
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[B]]
// CHECK: flow.return %[[P]], %[[Q]]
// CHECK: return %[[R]]#1, %[[R]]#0
#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
func.func @tree_with_broadcast_and_second_result(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>, %b: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %e = tensor.empty() : tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<8x16xf32>, tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %q = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<8x16xf32>, tensor<16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %q, %p : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// The user of the first value is before the group's last op and its operand is defined even
// later: producers move up, the region is placed before the user.
// CHECK-LABEL: @user_before_the_last_op
// CHECK: %[[L:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<16xf16>)
// CHECK: %[[R:.*]]:2 = flow.dispatch.region
// CHECK: %[[P:.*]] = linalg.generic
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[L]]
// CHECK: flow.return %[[P]], %[[Q]]
// CHECK: tensor.extract_slice %[[R]]#0
#mn = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
#i = affine_map<(i) -> (i)>
func.func @user_before_the_last_op(%x: tensor<8x16xf16>, %b: tensor<16xf16>) -> (tensor<8x16xf16>, tensor<1x16xf16>) {
  %e = tensor.empty() : tensor<8x16xf16>
  %el = tensor.empty() : tensor<16xf16>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = math.absf %i : f16
    linalg.yield %s : f16
  } -> tensor<8x16xf16>
  %slice = tensor.extract_slice %p[0, 0] [1, 16] [1, 1] : tensor<8x16xf16> to tensor<1x16xf16>
  %l = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%b : tensor<16xf16>) outs(%el : tensor<16xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = linalg.index 0 : index
    linalg.yield %i : f16
  } -> tensor<16xf16>
  %q = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %l : tensor<8x16xf16>, tensor<16xf16>) outs(%e : tensor<8x16xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %s = arith.addf %i, %j : f16
    linalg.yield %s : f16
  } -> tensor<8x16xf16>
  return %q, %slice : tensor<8x16xf16>, tensor<1x16xf16>
}

// -----

// Integers, a dynamic leading dimension.
// CHECK-LABEL: @integers_dynamic
// CHECK-SAME: %[[X:.*]]: tensor<?x16xi32>, %[[M:.*]]: index
// CHECK: flow.dispatch.region -> (tensor<?x16xi32>{%[[M]]})
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK: linalg.generic {{.*}} ins(%[[P]]
#mn = affine_map<(m, n) -> (m, n)>
func.func @integers_dynamic(%x: tensor<?x16xi32>, %m: index) -> tensor<?x16xi32> {
  %e = tensor.empty(%m) : tensor<?x16xi32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x16xi32>) outs(%e : tensor<?x16xi32>) {
  ^bb0(%i: i32, %o: i32):
    %s = arith.muli %i, %i : i32
    linalg.yield %s : i32
  } -> tensor<?x16xi32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x16xi32>) outs(%e : tensor<?x16xi32>) {
  ^bb0(%i: i32, %o: i32):
    %s = arith.addi %i, %i : i32
    linalg.yield %s : i32
  } -> tensor<?x16xi32>
  return %q : tensor<?x16xi32>
}

// -----

// One op: IREE dispatches it alone anyway.
// CHECK-LABEL: @no_fusion_single_op
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// SINGLE-LABEL: @no_fusion_single_op
// SINGLE: flow.dispatch.region
// WHY-DAG: the group would hold one op
#mn = affine_map<(m, n) -> (m, n)>
func.func @no_fusion_single_op(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %p : tensor<8x16xf32>
}

// -----

// The whole chain is a matmul's epilogue, also after its first op: IREE fuses it there.
// CHECK-LABEL: @no_fusion_epilogue_of_a_matmul
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the op is next to a contraction
#mn = affine_map<(m, n) -> (m, n)>
func.func @no_fusion_epilogue_of_a_matmul(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>, %u: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %u : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %r = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%q, %u : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}

// -----

// A transposed read is no loop of the same order, and a broadcast value that others read too would
// be written by a group of another shape.
// CHECK-LABEL: @no_fusion_transposed_read
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
func.func @no_fusion_transposed_read(%x: tensor<8x16xf32>, %y: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %et = tensor.empty() : tensor<16x8xf32>
  %q = linalg.generic {indexing_maps = [#nm, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %y : tensor<8x16xf32>, tensor<16x8xf32>) outs(%et : tensor<16x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  return %q : tensor<16x8xf32>
}

// -----

// A chain whose result a transpose alone reads: IREE fuses the three, and a group would write it.
// CHECK-LABEL: @no_fusion_before_a_transpose
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: reads the result transposed, and IREE fuses all ops with it
#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
func.func @no_fusion_before_a_transpose(%x: tensor<8x16xf32>) -> tensor<16x8xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.sqrt %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %et = tensor.empty() : tensor<16x8xf32>
  %t = linalg.generic {indexing_maps = [#nm, #mn], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<8x16xf32>) outs(%et : tensor<16x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<16x8xf32>
  return %t : tensor<16x8xf32>
}

// -----

// The chain has another user, so that its result is in memory anyway.
// CHECK-LABEL: @chain_read_in_order_and_transposed
// CHECK: flow.dispatch.region
// CHECK: return
#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
func.func @chain_read_in_order_and_transposed(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16x8xf32>) {
  %e = tensor.empty() : tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.sqrt %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %et = tensor.empty() : tensor<16x8xf32>
  %t = linalg.generic {indexing_maps = [#nm, #mn], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<8x16xf32>) outs(%et : tensor<16x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<16x8xf32>
  return %q, %t : tensor<8x16xf32>, tensor<16x8xf32>
}

// -----

// CHECK-LABEL: @no_fusion_broadcast_value_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#i = affine_map<(i) -> (i)>
func.func @no_fusion_broadcast_value_read_elsewhere(%x: tensor<8x16xf32>, %y: tensor<8xf32>) -> (tensor<8x16xf32>, tensor<8xf32>) {
  %er = tensor.empty() : tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%er : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %e = tensor.empty() : tensor<8x16xf32>
  %q = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %p : tensor<8x16xf32>, tensor<8xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %q, %p : tensor<8x16xf32>, tensor<8xf32>
}

// -----

// %p feeds a reduction that feeds %q: a group of both would be its own operand's producer.
// CHECK-LABEL: @no_fusion_across_a_reduction
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
func.func @no_fusion_across_a_reduction(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %q = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %r : tensor<8x16xf32>, tensor<8xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.divf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %q : tensor<8x16xf32>
}

// -----

// Two ends that share a value which the group computes.
// CHECK-LABEL: @two_ends
// CHECK: %[[G:.*]]:2 = flow.dispatch.region
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[T]]
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[T]]
// CHECK: flow.return %[[Y]], %[[Z]]
#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
func.func @two_ends(%x: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %e = tensor.empty() : tensor<16x8xf32>
  %t = linalg.generic {indexing_maps = [#nm, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = math.exp %i0 : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%t, %b : tensor<16x8xf32>, tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %s = arith.addf %i0, %i1 : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  %z = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = math.tanh %i0 : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  return %y, %z : tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

// Two ends that share a transpose, which each takes for itself: nothing connects them.
// CHECK-LABEL: @no_fusion_ends_apart
// CHECK-NOT: flow.return %{{.*}}, %
// CHECK: return
// WHY: share nothing but moved data
#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
func.func @no_fusion_ends_apart(%x: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %e = tensor.empty() : tensor<16x8xf32>
  %t = linalg.generic {indexing_maps = [#nm, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%i0: f32, %o: f32):
    linalg.yield %i0 : f32
  } -> tensor<16x8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%t, %b : tensor<16x8xf32>, tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %s = arith.addf %i0, %i1 : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  %z = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = math.tanh %i0 : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  return %y, %z : tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

// A row that is read elsewhere too: moved data is no result, and its copy does not read the ids that
// the group computes and nothing looks at.
// CHECK-LABEL: @moved_with_unread_ids
// CHECK-SAME: %[[X:[^:]*]]: tensor<16xf32>
// CHECK: %[[G:.*]] = flow.dispatch.region -> (tensor<8x16xf32>)
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<16xf32>)
// CHECK: return %[[G]], %[[COPY]]
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>
#i = affine_map<(i) -> (i)>
func.func @moved_with_unread_ids(%x: tensor<16xf32>, %ids: tensor<8xi32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %e = tensor.empty() : tensor<8x16xf32>
  %ei = tensor.empty() : tensor<8xi32>
  %j = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%ids : tensor<8xi32>) outs(%ei : tensor<8xi32>) {
  ^bb0(%i0: i32, %o: i32):
    %s = arith.addi %i0, %i0 : i32
    linalg.yield %s : i32
  } -> tensor<8xi32>
  %r = linalg.generic {indexing_maps = [#n, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %j : tensor<16xf32>, tensor<8xi32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i0: f32, %i1: i32, %o: f32):
    linalg.yield %i0 : f32
  } -> tensor<8x16xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = math.tanh %i0 : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %y, %r : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// An end that widens, last of all.
// CHECK-LABEL: @wider_result_is_last
// CHECK: flow.return %{{.*}}, %
#mn = affine_map<(m, n) -> (m, n)>
func.func @wider_result_is_last(%x: tensor<8x16xf16>, %y: tensor<8x16xf16>) -> (tensor<8x16xf32>, tensor<8x16xf16>) {
  %e = tensor.empty() : tensor<8x16xf16>
  %e32 = tensor.empty() : tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %s = math.exp %i0 : f16
    linalg.yield %s : f16
  } -> tensor<8x16xf16>
  %a = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %s = arith.mulf %i0, %i1 : f16
    linalg.yield %s : f16
  } -> tensor<8x16xf16>
  %b = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x16xf16>) outs(%e32 : tensor<8x16xf32>) {
  ^bb0(%i0: f16, %o: f32):
    %s = arith.extf %i0 : f16 to f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %b, %a : tensor<8x16xf32>, tensor<8x16xf16>
}

// -----

// The same before another end: IREE tiles the dispatch by that one, and cannot write the first.
// CHECK-LABEL: @no_fusion_wider_result_before_another
// CHECK-NOT: flow.return %{{.*}}, %
// CHECK: return
// WHY: ends the group in wider elements, before another op
#mn = affine_map<(m, n) -> (m, n)>
func.func @no_fusion_wider_result_before_another(%x: tensor<8x16xf16>, %y: tensor<8x16xf16>) -> (tensor<8x16xf32>, tensor<8x16xf16>) {
  %e = tensor.empty() : tensor<8x16xf16>
  %e32 = tensor.empty() : tensor<8x16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) {
  ^bb0(%i0: f16, %o: f16):
    %s = math.exp %i0 : f16
    linalg.yield %s : f16
  } -> tensor<8x16xf16>
  %b = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<8x16xf16>) outs(%e32 : tensor<8x16xf32>) {
  ^bb0(%i0: f16, %o: f32):
    %s = arith.extf %i0 : f16 to f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %y : tensor<8x16xf16>, tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %s = arith.mulf %i0, %i1 : f16
    linalg.yield %s : f16
  } -> tensor<8x16xf16>
  return %b, %a : tensor<8x16xf32>, tensor<8x16xf16>
}

// -----

// A reduction that no group took: IREE fuses its producers and its users with it.
// CHECK-LABEL: @no_fusion_next_to_a_reduction
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-LABEL: @no_fusion_next_to_a_reduction
// WHY: left_to_producer
// WHY: a reduction next to it is in no group
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#i = affine_map<(i) -> (i)>
func.func @no_fusion_next_to_a_reduction(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xf32>
  %er = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<64xf32>) -> tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.absf %i : f32
    linalg.yield %r : f32
  } -> tensor<64x32xf32>
  %b = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.sqrt %i : f32
    linalg.yield %r : f32
  } -> tensor<64x32xf32>
  %s = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%b : tensor<64x32xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%s : tensor<64xf32>) outs(%er : tensor<64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.rsqrt %i : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %p = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %t : tensor<64x32xf32>, tensor<64xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<64x32xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<64x32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.negf %i : f32
    linalg.yield %r : f32
  } -> tensor<64x32xf32>
  return %q : tensor<64x32xf32>
}

// -----

// Each exponential would be computed 64 times.
// WHY-LABEL: @no_fusion_exponentials_of_a_broadcast
// WHY: operations of a broadcast value again
// CHECK-LABEL: @no_fusion_exponentials_of_a_broadcast
// CHECK-NOT: flow.dispatch.region
#wide = affine_map<(a, b, c) -> (a, b, c)>
#narrow = affine_map<(a, b, c) -> (a, c)>
#flat = affine_map<(a, c) -> (a, c)>
func.func @no_fusion_exponentials_of_a_broadcast(%x: tensor<512x64xf32>) -> tensor<512x64x64xf32> {
  %e = tensor.empty() : tensor<512x64xf32>
  %w = tensor.empty() : tensor<512x64x64xf32>
  %a = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<512x64xf32>) outs(%e : tensor<512x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %v = math.exp %i : f32
    linalg.yield %v : f32
  } -> tensor<512x64xf32>
  %b = linalg.generic {indexing_maps = [#narrow, #wide], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<512x64xf32>) outs(%w : tensor<512x64x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<512x64x64xf32>
  return %b : tensor<512x64x64xf32>
}

// -----

// Each element twice, adjacent: vectors of two exponentials.
// WHY-LABEL: @no_fusion_exponentials_repeated
// WHY: operations of a broadcast value again
// CHECK-LABEL: @no_fusion_exponentials_repeated
// CHECK-NOT: flow.dispatch.region
#wide = affine_map<(a, b, c) -> (a, b, c)>
#narrow = affine_map<(a, b, c) -> (a, b)>
#flat = affine_map<(a, b) -> (a, b)>
func.func @no_fusion_exponentials_repeated(%x: tensor<8192x64xf32>) -> tensor<8192x64x2xf32> {
  %e = tensor.empty() : tensor<8192x64xf32>
  %w = tensor.empty() : tensor<8192x64x2xf32>
  %a = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8192x64xf32>) outs(%e : tensor<8192x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %u = math.exp %i : f32
    %t = math.log1p %u : f32
    %v = math.tanh %t : f32
    linalg.yield %v : f32
  } -> tensor<8192x64xf32>
  %b = linalg.generic {indexing_maps = [#narrow, #wide], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<8192x64xf32>) outs(%w : tensor<8192x64x2xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<8192x64x2xf32>
  return %b : tensor<8192x64x2xf32>
}

// -----

// The loop has one iteration: both values are the splat of 3 in its first half.
// WHY-LABEL: @no_fusion_splats_alone
// WHY: splat constants are all that it reads
// CHECK-LABEL: @no_fusion_splats_alone
// CHECK-NOT: flow.dispatch.region
#v = affine_map<(d) -> (d)>
func.func @no_fusion_splats_alone() -> (tensor<8xi32>, tensor<8xi32>) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %low = arith.constant dense<0> : tensor<8xi32>
  %high = arith.constant dense<6> : tensor<8xi32>
  %two = arith.constant 2 : i32
  %five = arith.constant 5 : i32
  %e = tensor.empty() : tensor<8xi32>
  %r:2 = scf.for %n = %c0 to %c3 step %c3 iter_args(%a = %low, %b = %high) -> (tensor<8xi32>, tensor<8xi32>) {
    %middle = linalg.generic {indexing_maps = [#v, #v, #v], iterator_types = ["parallel"]} ins(%a, %b : tensor<8xi32>, tensor<8xi32>) outs(%e : tensor<8xi32>) {
    ^bb0(%i: i32, %j: i32, %o: i32):
      %s = arith.addi %i, %j : i32
      %m = arith.divui %s, %two : i32
      linalg.yield %m : i32
    } -> tensor<8xi32>
    %place = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%middle : tensor<8xi32>) outs(%e : tensor<8xi32>) {
    ^bb0(%i: i32, %o: i32):
      %m = arith.minui %i, %five : i32
      linalg.yield %m : i32
    } -> tensor<8xi32>
    scf.yield %middle, %place : tensor<8xi32>, tensor<8xi32>
  }
  return %r#0, %r#1 : tensor<8xi32>, tensor<8xi32>
}
