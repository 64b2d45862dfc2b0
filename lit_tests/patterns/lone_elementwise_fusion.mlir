// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=lone_elementwise_fusion | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=lone_elementwise_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=lone_elementwise_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=lone_elementwise_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: mlirfuse.pass = "lone_elementwise_fusion"

// It is a group like any other: marked, and listed by --explain.
// WHY: function @sum
// WHY-NEXT: groups (1)
// WHY-NEXT: lone_elementwise_fusion match 0: 1 op
// CHECK-LABEL: @sum
// CHECK-SAME: %[[X:.*]]: tensor<16384x4096xf16>, %[[Z:.*]]: tensor<16384x4096xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "lone_elementwise_fusion"
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[Z]] :
// CHECK: flow.return %[[S]]
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @sum(%x: tensor<16384x4096xf16>, %z: tensor<16384x4096xf16>) -> tensor<16384x4096xf16> {
  %e = tensor.empty() : tensor<16384x4096xf16>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %z : tensor<16384x4096xf16>, tensor<16384x4096xf16>) outs(%e : tensor<16384x4096xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.addf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<16384x4096xf16>
  return %y : tensor<16384x4096xf16>
}

// -----

// A copy with heads before tokens, of a group's result.
// CHECK-LABEL: @heads_bf16
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[G]] :
// CHECK: flow.return %[[S]]
// CHECK: return %[[Y]]
#id = affine_map<(b, h, s, d) -> (b, h, s, d)>
#from = affine_map<(b, h, s, d) -> (b, s, h, d)>
func.func @heads_bf16(%x: tensor<8x2048x32x128xbf16>) -> tensor<8x32x2048x128xbf16> {
  %f = tensor.empty() : tensor<8x2048x32x128xbf16>
  %g = flow.dispatch.region -> (tensor<8x2048x32x128xbf16>) {
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<8x2048x32x128xbf16>) outs(%f : tensor<8x2048x32x128xbf16>) {
    ^bb0(%i: bf16, %o: bf16):
      %r = math.absf %i : bf16
      linalg.yield %r : bf16
    } -> tensor<8x2048x32x128xbf16>
    flow.return %t : tensor<8x2048x32x128xbf16>
  }
  %e = tensor.empty() : tensor<8x32x2048x128xbf16>
  %y = linalg.generic {indexing_maps = [#from, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%g : tensor<8x2048x32x128xbf16>) outs(%e : tensor<8x32x2048x128xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    linalg.yield %i : bf16
  } -> tensor<8x32x2048x128xbf16>
  return %y : tensor<8x32x2048x128xbf16>
}

// -----

// CHECK-LABEL: @read_by_a_group_f32
// CHECK-SAME: %[[X:.*]]: tensor<8192x4096xf32>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: flow.return %[[S]]
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK: ins(%[[Y]] :
// CHECK: return %[[G]]
#id = affine_map<(r, c) -> (r, c)>
func.func @read_by_a_group_f32(%x: tensor<8192x4096xf32>) -> tensor<8192x4096xf32> {
  %e = tensor.empty() : tensor<8192x4096xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8192x4096xf32>) outs(%e : tensor<8192x4096xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.absf %i : f32
    linalg.yield %r : f32
  } -> tensor<8192x4096xf32>
  %g = flow.dispatch.region -> (tensor<8192x4096xf32>) {
    %s = linalg.softmax dimension(1) ins(%y : tensor<8192x4096xf32>) outs(%e : tensor<8192x4096xf32>) -> tensor<8192x4096xf32>
    flow.return %s : tensor<8192x4096xf32>
  }
  return %g : tensor<8192x4096xf32>
}

// -----

// IREE makes one dispatch of both.
// WHY-LABEL: @no_fusion_sum_of_rows
// WHY: lone_elementwise_fusion
// WHY: IREE fuses it with a contraction or a reduction in no group
// CHECK-LABEL: @no_fusion_sum_of_rows
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_fusion_sum_of_rows(%x: tensor<16384x4096xf16>, %s: tensor<16384xf16>) -> tensor<16384xf16> {
  %e = tensor.empty() : tensor<16384x4096xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16384x4096xf16>) outs(%e : tensor<16384x4096xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.absf %i : f16
    linalg.yield %r : f16
  } -> tensor<16384x4096xf16>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<16384x4096xf16>) outs(%s : tensor<16384xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = arith.addf %i, %o : f16
    linalg.yield %r : f16
  } -> tensor<16384xf16>
  return %t : tensor<16384xf16>
}

// -----

// The slices of a packed projection with a dynamic M; `tensor.dim` does not count as a user.
// CHECK-LABEL: @packed_parts
// CHECK-SAME: %[[X:.*]]: tensor<?x3x768xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: flow.return %[[S]]
// CHECK: tensor.dim %[[Y]]
#id = affine_map<(p, b, n) -> (p, b, n)>
#from = affine_map<(p, b, n) -> (b, p, n)>
func.func @packed_parts(%x: tensor<?x3x768xf16>, %b: index) -> (tensor<3x?x768xf16>, index) {
  %one = arith.constant 1 : index
  %e = tensor.empty(%b) : tensor<3x?x768xf16>
  %y = linalg.generic {indexing_maps = [#from, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<?x3x768xf16>) outs(%e : tensor<3x?x768xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<3x?x768xf16>
  %n = tensor.dim %y, %one : tensor<3x?x768xf16>
  return %y, %n : tensor<3x?x768xf16>, index
}

// -----

// A matmul is read through a reshape.
// WHY-LABEL: @no_fusion_after_a_matmul
// WHY: lone_elementwise_fusion
// WHY: IREE fuses it with a contraction or a reduction in no group
// CHECK-LABEL: @no_fusion_after_a_matmul
// CHECK-NOT: flow.dispatch.region
// CHECK: return
#flat = affine_map<(n) -> (n)>
func.func @no_fusion_after_a_matmul(%a: tensor<4096x64xf16>, %b: tensor<64x16384xf16>, %e: tensor<4096x16384xf16>) -> tensor<67108864xf16> {
  %c = linalg.matmul ins(%a, %b : tensor<4096x64xf16>, tensor<64x16384xf16>) outs(%e : tensor<4096x16384xf16>) -> tensor<4096x16384xf16>
  %d = tensor.collapse_shape %c [[0, 1]] : tensor<4096x16384xf16> into tensor<67108864xf16>
  %f = tensor.empty() : tensor<67108864xf16>
  %y = linalg.generic {indexing_maps = [#flat, #flat], iterator_types = ["parallel"]} ins(%d : tensor<67108864xf16>) outs(%f : tensor<67108864xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.absf %i : f16
    linalg.yield %r : f16
  } -> tensor<67108864xf16>
  return %y : tensor<67108864xf16>
}

// -----

// A copy that writes more than it reads.
// CHECK-LABEL: @broadcast
// CHECK: flow.dispatch.region
// CHECK: linalg.generic
#id = affine_map<(r, c) -> (r, c)>
#last = affine_map<(r, c) -> (c)>
func.func @broadcast(%x: tensor<4096xf16>) -> tensor<16384x4096xf16> {
  %e = tensor.empty() : tensor<16384x4096xf16>
  %y = linalg.generic {indexing_maps = [#last, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4096xf16>) outs(%e : tensor<16384x4096xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.absf %i : f16
    linalg.yield %r : f16
  } -> tensor<16384x4096xf16>
  return %y : tensor<16384x4096xf16>
}

// -----

// However small; a transposing copy that only it reads joins it.
// WHY-LABEL: function @with_a_transposed_operand
// WHY: lone_elementwise_fusion match 0: 2 ops
// CHECK-LABEL: @with_a_transposed_operand
// CHECK-SAME: %[[X:.*]]: tensor<8x64xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[T]] :
// CHECK: flow.return %[[S]]
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
func.func @with_a_transposed_operand(%x: tensor<8x64xf16>) -> tensor<64x8xf16> {
  %e = tensor.empty() : tensor<64x8xf16>
  %t = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x64xf16>) outs(%e : tensor<64x8xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<64x8xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<64x8xf16>) outs(%e : tensor<64x8xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.absf %i : f16
    linalg.yield %r : f16
  } -> tensor<64x8xf16>
  return %y : tensor<64x8xf16>
}

// -----

// The kernel of the group computes the indices of rows again.
// WHY-LABEL: function @no_fusion_indices_of_a_group
// WHY: the kernels that read it compute it from indices
// CHECK-LABEL: @no_fusion_indices_of_a_group
// CHECK: linalg.index
// CHECK: flow.dispatch.region
// CHECK-NOT: lone_elementwise_fusion
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#one = affine_map<(r) -> (r)>
func.func @no_fusion_indices_of_a_group(%x: tensor<64x8xi64>) -> tensor<64x8xi64> {
  %e = tensor.empty() : tensor<64xi64>
  %i = linalg.generic {indexing_maps = [#one], iterator_types = ["parallel"]} outs(%e : tensor<64xi64>) {
  ^bb0(%o: i64):
    %n = linalg.index 0 : index
    %r = arith.index_cast %n : index to i64
    linalg.yield %r : i64
  } -> tensor<64xi64>
  %y = flow.dispatch.region -> (tensor<64x8xi64>) {
    %f = tensor.empty() : tensor<64x8xi64>
    %s = linalg.generic {indexing_maps = [#row, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%i, %x : tensor<64xi64>, tensor<64x8xi64>) outs(%f : tensor<64x8xi64>) {
    ^bb0(%a: i64, %b: i64, %o: i64):
      %r = arith.addi %a, %b : i64
      linalg.yield %r : i64
    } -> tensor<64x8xi64>
    flow.return %s : tensor<64x8xi64>
  }
  return %y : tensor<64x8xi64>
}
