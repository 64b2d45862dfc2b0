// RUN: %mlirfuse-opt %s --split-input-file --pipeline=reduction_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=reduction_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=reduction_fusion --target=vulkan:ampere | FileCheck %s --check-prefix=VULKAN
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=reduction_fusion --target=vulkan:ampere --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHYVULKAN

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#nm = affine_map<(m, n) -> (n, m)>
#i = affine_map<(i) -> (i)>

// exp, row sum and quotient; the exponentials are read by both.
// CHECK-LABEL: @normalize_rows
// CHECK-SAME: %[[X:.*]]: tensor<8x16xf32>
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK: %[[E:.*]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[E]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[E]], %[[S]]
// CHECK: flow.return %[[Y]]
// CHECK: return %[[G]]
func.func @normalize_rows(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %x1 = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = math.exp %i0 : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%x1 : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x1, %r : tensor<8x16xf32>, tensor<8xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %s = arith.divf %i0, %i1 : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#nm = affine_map<(m, n) -> (n, m)>
#i = affine_map<(i) -> (i)>

// Two reductions over the same rows, dynamic number of rows; both are read elsewhere.
// CHECK-LABEL: @two_reductions_dynamic_f16
// CHECK-SAME: %[[X:.*]]: tensor<?x16xf16>, %[[M:.*]]: index
// CHECK: %[[G:.*]]:2 = flow.dispatch.region -> (tensor<?xf16>{%[[M]]}, tensor<?xf16>{%[[M]]})
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[A]]
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[D]]
// CHECK: flow.return %[[A]], %[[B]]
func.func @two_reductions_dynamic_f16(%x: tensor<?x16xf16>, %m: index) -> (tensor<?xf16>, tensor<?xf16>) {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty(%m) : tensor<?x16xf16>
  %er = tensor.empty(%m) : tensor<?xf16>
  %f = linalg.fill ins(%zero : f16) outs(%er : tensor<?xf16>) -> tensor<?xf16>
  %a = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x16xf16>) outs(%f : tensor<?xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = arith.addf %i, %o : f16
    linalg.yield %s : f16
  } -> tensor<?xf16>
  %d = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %a : tensor<?x16xf16>, tensor<?xf16>) outs(%e : tensor<?x16xf16>) {
  ^bb0(%i0: f16, %i1: f16, %o: f16):
    %s = arith.subf %i0, %i1 : f16
    linalg.yield %s : f16
  } -> tensor<?x16xf16>
  %b = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<?x16xf16>) outs(%f : tensor<?xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = arith.addf %i, %o : f16
    linalg.yield %s : f16
  } -> tensor<?xf16>
  return %a, %b : tensor<?xf16>, tensor<?xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#nm = affine_map<(m, n) -> (n, m)>
#i = affine_map<(i) -> (i)>

// Integers: only the reduction and its producer.
// CHECK-LABEL: @sum_of_squares_i32
// CHECK: flow.dispatch.region
// CHECK: %[[P:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[P]]
func.func @sum_of_squares_i32(%x: tensor<8x16xi32>) -> tensor<8xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<8x16xi32>
  %er = tensor.empty() : tensor<8xi32>
  %f = linalg.fill ins(%zero : i32) outs(%er : tensor<8xi32>) -> tensor<8xi32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xi32>) outs(%e : tensor<8x16xi32>) {
  ^bb0(%i0: i32, %o: i32):
    %s = arith.muli %i0, %i0 : i32
    linalg.yield %s : i32
  } -> tensor<8x16xi32>
  %r = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<8x16xi32>) outs(%f : tensor<8xi32>) {
  ^bb0(%i: i32, %o: i32):
    %s = arith.addi %i, %o : i32
    linalg.yield %s : i32
  } -> tensor<8xi32>
  return %r : tensor<8xi32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#nm = affine_map<(m, n) -> (n, m)>
#i = affine_map<(i) -> (i)>

// Sums over rows and over columns have no loop nest in common.
// CHECK-LABEL: @no_fusion_rows_and_columns
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: a reduction is not over the trailing loops
func.func @no_fusion_rows_and_columns(%x: tensor<8x16xf32>) -> tensor<16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %ec = tensor.empty() : tensor<16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%ec : tensor<16xf32>) -> tensor<16xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = math.absf %i0 : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#mn, #n], iterator_types = ["reduction", "parallel"]} ins(%p : tensor<8x16xf32>) outs(%f : tensor<16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#nm = affine_map<(m, n) -> (n, m)>
#i = affine_map<(i) -> (i)>

// Rows of unknown length.
// CHECK-LABEL: @no_fusion_dynamic_rows
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the reduced dimension is dynamic
func.func @no_fusion_dynamic_rows(%x: tensor<8x?xf32>, %n: index) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<8x?xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x?xf32>) outs(%e : tensor<8x?xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %s = math.absf %i0 : f32
    linalg.yield %s : f32
  } -> tensor<8x?xf32>
  %r = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<8x?xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#nm = affine_map<(m, n) -> (n, m)>
#i = affine_map<(i) -> (i)>

// The row sum's transposed user has another loop order; nothing else is left to fuse.
// CHECK-LABEL: @no_fusion_lone_reduction
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the group would hold one op
func.func @no_fusion_lone_reduction(%x: tensor<8x16xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#nm = affine_map<(m, n) -> (n, m)>
#i = affine_map<(i) -> (i)>

// A contraction is a reduction with two inputs: not a row reduction.
// CHECK-LABEL: @no_fusion_matvec
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_fusion_matvec(%x: tensor<8x16xf32>, %v: tensor<16xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#mn, #n, #m], iterator_types = ["parallel", "reduction"]} ins(%x, %v : tensor<8x16xf32>, tensor<16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%r : tensor<8xf32>) outs(%er : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>

// The group would end in the row sums and cannot write the squares, which are read elsewhere.
// CHECK-LABEL: @wide_value_read_elsewhere_stays_outside
// CHECK: %[[Q:.*]] = linalg.generic
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[Q]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[A]]
// CHECK: flow.return %[[S]]
// CHECK: return %[[G]], %[[Q]]
func.func @wide_value_read_elsewhere_stays_outside(%x: tensor<8x16xf32>) -> (tensor<8xf32>, tensor<8x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %q = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.mulf %i, %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %r = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %r, %q : tensor<8xf32>, tensor<8x16xf32>
}

// -----

// The sums of rows are a result, too. SPIR-V's code generation cannot write them where a subgroup
// of 32 divides the rows and not their length.
// CHECK-LABEL: @sums_are_a_result
// CHECK: flow.dispatch.region -> (tensor<64xf32>, tensor<64x48xf32>)
// VULKAN-LABEL: @sums_are_a_result
// VULKAN-NOT: flow.dispatch.region
// VULKAN: return
// WHYVULKAN: a sum over rows of 48 elements next to another result, 32 lanes
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
func.func @sums_are_a_result(%x: tensor<64x48xf32>) -> (tensor<64x48xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x48xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %a = arith.addf %i0, %o : f32
    linalg.yield %a : f32
  } -> tensor<64xf32>
  %e = tensor.empty() : tensor<64x48xf32>
  %y = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x48xf32>, tensor<64xf32>) outs(%e : tensor<64x48xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %a = arith.subf %i0, %i1 : f32
    linalg.yield %a : f32
  } -> tensor<64x48xf32>
  return %y, %s : tensor<64x48xf32>, tensor<64xf32>
}

// -----

// VULKAN-LABEL: @sums_of_even_rows
// VULKAN: flow.dispatch.region -> (tensor<64xf32>, tensor<64x64xf32>)
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
func.func @sums_of_even_rows(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %a = arith.addf %i0, %o : f32
    linalg.yield %a : f32
  } -> tensor<64xf32>
  %e = tensor.empty() : tensor<64x64xf32>
  %y = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x64xf32>, tensor<64xf32>) outs(%e : tensor<64x64xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %a = arith.subf %i0, %i1 : f32
    linalg.yield %a : f32
  } -> tensor<64x64xf32>
  return %y, %s : tensor<64x64xf32>, tensor<64xf32>
}

// -----

// VULKAN-LABEL: @sums_of_odd_number
// VULKAN: flow.dispatch.region -> (tensor<40xf32>, tensor<40x48xf32>)
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
func.func @sums_of_odd_number(%x: tensor<40x48xf32>) -> (tensor<40x48xf32>, tensor<40xf32>) {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<40xf32>) -> tensor<40xf32>
  %s = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<40x48xf32>) outs(%f : tensor<40xf32>) {
  ^bb0(%i0: f32, %o: f32):
    %a = arith.addf %i0, %o : f32
    linalg.yield %a : f32
  } -> tensor<40xf32>
  %e = tensor.empty() : tensor<40x48xf32>
  %y = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<40x48xf32>, tensor<40xf32>) outs(%e : tensor<40x48xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %a = arith.subf %i0, %i1 : f32
    linalg.yield %a : f32
  } -> tensor<40x48xf32>
  return %y, %s : tensor<40x48xf32>, tensor<40xf32>
}

// -----

// The larger and the smaller one by two keys: IREE would keep their second accumulators, which start
// from the same value, in one place.
// CHECK-LABEL: @no_fusion_selections_share_a_start
// CHECK: %[[A:.*]]:2 = linalg.generic {{.*}}"reduction"]}
// CHECK: flow.dispatch.region
// CHECK: %[[B:.*]]:2 = linalg.generic {{.*}}"reduction"]}
// CHECK: linalg.generic {{.*}} ins(%[[B]]#0, %[[A]]#0
// CHECK: flow.return
// WHY-DAG: two reductions by selection start from the same value
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#r = affine_map<(m) -> (m)>
func.func @no_fusion_selections_share_a_start(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %high = arith.constant 0x7F800000 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %l = linalg.fill ins(%low : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %h = linalg.fill ins(%high : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %a:2 = linalg.generic {indexing_maps = [#mn, #mn, #m, #m], iterator_types = ["parallel", "reduction"]} ins(%x, %y : tensor<8x16xf32>, tensor<8x16xf32>) outs(%l, %f : tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32, %p: f32):
    %c = arith.cmpf ogt, %o, %i : f32
    %s = arith.select %c, %o, %i : f32
    %t = arith.select %c, %p, %j : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>)
  %b:2 = linalg.generic {indexing_maps = [#mn, #mn, #m, #m], iterator_types = ["parallel", "reduction"]} ins(%x, %y : tensor<8x16xf32>, tensor<8x16xf32>) outs(%h, %f : tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32, %p: f32):
    %c = arith.cmpf olt, %o, %i : f32
    %s = arith.select %c, %o, %i : f32
    %t = arith.select %c, %p, %j : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>)
  %d = linalg.generic {indexing_maps = [#r, #r, #r], iterator_types = ["parallel"]} ins(%a#0, %b#0 : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.subf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %d, %a#1, %b#1 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
