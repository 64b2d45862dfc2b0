// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=elementwise_reshape_rewrite | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=elementwise_reshape_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=elementwise_reshape_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=elementwise_reshape_rewrite | FileCheck %s --check-prefix=OFF

// WHY: function @repeated
// WHY: applied: elementwise_reshape_rewrite 1
// CHECK-LABEL: @repeated
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf16>, %[[Z:.*]]: tensor<8x3xf16>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]] : {{.*}} outs({{.*}} : tensor<4x2x3xf16>)
// CHECK: %[[E:.*]] = tensor.expand_shape %[[Z]] {{.*}} into tensor<4x2x3xf16>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[R]], %[[E]] :
// CHECK: arith.mulf
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[Y]]
// CHECK: return %[[C]]
// OFF-LABEL: @repeated
// OFF: %[[C:.*]] = tensor.collapse_shape
// OFF: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %
// OFF: return %[[Y]]
#read = affine_map<(d0, d1, d2) -> (d0, d2)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
func.func @repeated(%x: tensor<4x3xf16>, %z: tensor<8x3xf16>) -> tensor<8x3xf16> {
  %e = tensor.empty() : tensor<4x2x3xf16>
  %f = tensor.empty() : tensor<8x3xf16>
  %r = linalg.generic {indexing_maps = [#read, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<4x3xf16>) outs(%e : tensor<4x2x3xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<4x2x3xf16>
  %c = tensor.collapse_shape %r [[0, 1], [2]] : tensor<4x2x3xf16> into tensor<8x3xf16>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %z : tensor<8x3xf16>, tensor<8x3xf16>) outs(%f : tensor<8x3xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<8x3xf16>
  return %y : tensor<8x3xf16>
}

// -----

// Both expansions move before the two ops, whose first is read by the second.
// CHECK-LABEL: @split_and_permuted
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf16>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<4x3x2xf16>
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[E]] :
// CHECK: math.sin
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[A]] :
// CHECK: math.absf
// CHECK-NOT: tensor.expand_shape
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[B]] :
#turned = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
func.func @split_and_permuted(%x: tensor<4x6xf16>) -> tensor<4x2x3xf16> {
  %f = tensor.empty() : tensor<4x6xf16>
  %e = tensor.empty() : tensor<4x2x3xf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf16>) outs(%f : tensor<4x6xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.sin %i : f16
    linalg.yield %p : f16
  } -> tensor<4x6xf16>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x6xf16>) outs(%f : tensor<4x6xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.absf %i : f16
    linalg.yield %p : f16
  } -> tensor<4x6xf16>
  %v = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf16> into tensor<4x3x2xf16>
  %w = tensor.expand_shape %b [[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf16> into tensor<4x3x2xf16>
  %y = linalg.generic {indexing_maps = [#turned, #turned, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v, %w : tensor<4x3x2xf16>, tensor<4x3x2xf16>) outs(%e : tensor<4x2x3xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<4x2x3xf16>
  return %y : tensor<4x2x3xf16>
}

// -----

// The result is used as it is, too.
// CHECK-LABEL: @no_move_result_is_returned
// CHECK: %[[A:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<4x6xf16>)
// CHECK: tensor.expand_shape %[[A]]
#turned = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
func.func @no_move_result_is_returned(%x: tensor<4x6xf16>) -> (tensor<4x6xf16>, tensor<4x2x3xf16>) {
  %f = tensor.empty() : tensor<4x6xf16>
  %e = tensor.empty() : tensor<4x2x3xf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf16>) outs(%f : tensor<4x6xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.sin %i : f16
    linalg.yield %p : f16
  } -> tensor<4x6xf16>
  %v = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf16> into tensor<4x3x2xf16>
  %y = linalg.generic {indexing_maps = [#turned, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<4x3x2xf16>) outs(%e : tensor<4x2x3xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<4x2x3xf16>
  return %a, %y : tensor<4x6xf16>, tensor<4x2x3xf16>
}

// -----

// An index of a loop that would be split.
// WHY: function @no_move_index
// WHY: elementwise_reshape_rewrite:
// WHY-NEXT: the op's loops cannot be split
// CHECK-LABEL: @no_move_index
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: linalg.generic {{.*}} ins(%[[C]] :
#read = affine_map<(d0, d1) -> (d0)>
#two = affine_map<(d0, d1) -> (d0, d1)>
#id = affine_map<(r) -> (r)>
func.func @no_move_index(%x: tensor<4xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<4x2xf32>
  %f = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [#read, #two], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x2xf32>
  %c = tensor.collapse_shape %r [[0, 1]] : tensor<4x2xf32> into tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%c : tensor<8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = linalg.index 0 : index
    %m = arith.index_cast %n : index to i32
    %s = arith.sitofp %m : i32 to f32
    %p = arith.mulf %i, %s : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// CHECK-LABEL: @no_move_transposed_read
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: linalg.generic {{.*}} ins(%[[C]] :
#read = affine_map<(d0, d1, d2) -> (d0, d2)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
func.func @no_move_transposed_read(%x: tensor<4x3xf16>) -> tensor<3x8xf16> {
  %e = tensor.empty() : tensor<4x2x3xf16>
  %f = tensor.empty() : tensor<3x8xf16>
  %r = linalg.generic {indexing_maps = [#read, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<4x3xf16>) outs(%e : tensor<4x2x3xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<4x2x3xf16>
  %c = tensor.collapse_shape %r [[0, 1], [2]] : tensor<4x2x3xf16> into tensor<8x3xf16>
  %y = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x3xf16>) outs(%f : tensor<3x8xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.absf %i : f16
    linalg.yield %p : f16
  } -> tensor<3x8xf16>
  return %y : tensor<3x8xf16>
}

// -----

// WHY: function @no_move_contraction
// WHY: elementwise_reshape_rewrite:
// WHY-NEXT: a contraction or a window reads its result
// CHECK-LABEL: @no_move_contraction
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: linalg.matmul ins(%[[Y]], %
#read = affine_map<(d0, d1, d2) -> (d0, d2)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
func.func @no_move_contraction(%x: tensor<4x3xf32>, %w: tensor<3x5xf32>, %z: tensor<8x5xf32>) -> tensor<8x5xf32> {
  %e = tensor.empty() : tensor<4x2x3xf32>
  %f = tensor.empty() : tensor<8x3xf32>
  %r = linalg.generic {indexing_maps = [#read, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<4x3xf32>) outs(%e : tensor<4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x2x3xf32>
  %c = tensor.collapse_shape %r [[0, 1], [2]] : tensor<4x2x3xf32> into tensor<8x3xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x3xf32>) outs(%f : tensor<8x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = math.absf %i : f32
    linalg.yield %p : f32
  } -> tensor<8x3xf32>
  %m = linalg.matmul ins(%y, %w : tensor<8x3xf32>, tensor<3x5xf32>) outs(%z : tensor<8x5xf32>) -> tensor<8x5xf32>
  return %m : tensor<8x5xf32>
}

// -----

// A matmul has the op as its epilogue.
// WHY: function @no_move_epilogue
// WHY: elementwise_reshape_rewrite:
// WHY-NEXT: it is the epilogue of a contraction
// CHECK-LABEL: @no_move_epilogue
// CHECK: %[[M:.*]] = linalg.matmul
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[M]] :
// CHECK: tensor.expand_shape %[[A]]
#turned = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
func.func @no_move_epilogue(%x: tensor<4x5xf32>, %w: tensor<5x6xf32>, %z: tensor<4x6xf32>) -> tensor<4x2x3xf32> {
  %f = tensor.empty() : tensor<4x6xf32>
  %e = tensor.empty() : tensor<4x2x3xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x5xf32>, tensor<5x6xf32>) outs(%z : tensor<4x6xf32>) -> tensor<4x6xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4x6xf32>) outs(%f : tensor<4x6xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = math.absf %i : f32
    linalg.yield %p : f32
  } -> tensor<4x6xf32>
  %v = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf32> into tensor<4x3x2xf32>
  %y = linalg.generic {indexing_maps = [#turned, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<4x3x2xf32>) outs(%e : tensor<4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x2x3xf32>
  return %y : tensor<4x2x3xf32>
}

// -----

// A reduction in no group takes its producers.
// WHY: function @no_move_reduction
// WHY: elementwise_reshape_rewrite:
// WHY-NEXT: a reduction next to it
// CHECK-LABEL: @no_move_reduction
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: linalg.generic {{.*}} ins(%[[C]] :
#read = affine_map<(d0, d1, d2) -> (d0, d2)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_move_reduction(%x: tensor<4x3xf32>, %s: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<4x2x3xf32>
  %f = tensor.empty() : tensor<8x3xf32>
  %r = linalg.generic {indexing_maps = [#read, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<4x3xf32>) outs(%e : tensor<4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x2x3xf32>
  %c = tensor.collapse_shape %r [[0, 1], [2]] : tensor<4x2x3xf32> into tensor<8x3xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x3xf32>) outs(%f : tensor<8x3xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = math.absf %i : f32
    linalg.yield %p : f32
  } -> tensor<8x3xf32>
  %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<8x3xf32>) outs(%s : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.addf %i, %o : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  return %t : tensor<8xf32>
}

// -----

// CHECK-LABEL: @no_move_different_expansions
// CHECK: %[[A:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<4x6xf16>)
// CHECK: tensor.expand_shape %[[A]]
// CHECK: tensor.expand_shape %[[A]]
#left = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
func.func @no_move_different_expansions(%x: tensor<4x6xf16>) -> tensor<4x2x3xf16> {
  %f = tensor.empty() : tensor<4x6xf16>
  %e = tensor.empty() : tensor<4x2x3xf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x6xf16>) outs(%f : tensor<4x6xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.sin %i : f16
    linalg.yield %p : f16
  } -> tensor<4x6xf16>
  %v = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 3, 2] : tensor<4x6xf16> into tensor<4x3x2xf16>
  %w = tensor.expand_shape %a [[0], [1, 2]] output_shape [4, 2, 3] : tensor<4x6xf16> into tensor<4x2x3xf16>
  %y = linalg.generic {indexing_maps = [#left, #three, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v, %w : tensor<4x3x2xf16>, tensor<4x2x3xf16>) outs(%e : tensor<4x2x3xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<4x2x3xf16>
  return %y : tensor<4x2x3xf16>
}

// -----

// The last op moves; its producer, which it reads transposed, stays, and is expanded.
// CHECK-LABEL: @no_move_of_a_transposed_producer
// CHECK: %[[A:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<6x6xf16>)
// CHECK: math.sin
// CHECK: %[[W:.*]] = tensor.expand_shape %[[A]]
// CHECK: linalg.generic {{.*}} ins(%[[W]] :
// CHECK: math.absf
#left = affine_map<(d0, d1, d2) -> (d0, d2, d1)>
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
func.func @no_move_of_a_transposed_producer(%x: tensor<6x6xf16>) -> tensor<6x2x3xf16> {
  %f = tensor.empty() : tensor<6x6xf16>
  %e = tensor.empty() : tensor<6x2x3xf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x6xf16>) outs(%f : tensor<6x6xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.sin %i : f16
    linalg.yield %p : f16
  } -> tensor<6x6xf16>
  %b = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<6x6xf16>) outs(%f : tensor<6x6xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.absf %i : f16
    linalg.yield %p : f16
  } -> tensor<6x6xf16>
  %v = tensor.expand_shape %b [[0], [1, 2]] output_shape [6, 3, 2] : tensor<6x6xf16> into tensor<6x3x2xf16>
  %y = linalg.generic {indexing_maps = [#left, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<6x3x2xf16>) outs(%e : tensor<6x2x3xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<6x2x3xf16>
  return %y : tensor<6x2x3xf16>
}

// -----

// CHECK-LABEL: @stack
// CHECK: %[[I:.*]] = tensor.insert_slice
// CHECK: %[[S:.*]] = tensor.insert_slice %{{.*}} into %[[I]]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<4x3x2xf16>)
// CHECK: math.absf
// CHECK: tensor.collapse_shape %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @stack(%x: tensor<4x3xf16>, %z: tensor<4x3xf16>) -> tensor<4x6xf16> {
  %e = tensor.empty() : tensor<4x3x2xf16>
  %f = tensor.empty() : tensor<4x6xf16>
  %i = tensor.insert_slice %x into %e[0, 0, 0] [4, 3, 1] [1, 1, 1] : tensor<4x3xf16> into tensor<4x3x2xf16>
  %s = tensor.insert_slice %z into %i[0, 0, 1] [4, 3, 1] [1, 1, 1] : tensor<4x3xf16> into tensor<4x3x2xf16>
  %c = tensor.collapse_shape %s [[0], [1, 2]] : tensor<4x3x2xf16> into tensor<4x6xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<4x6xf16>) outs(%f : tensor<4x6xf16>) {
  ^bb0(%j: f16, %o: f16):
    %p = math.absf %j : f16
    linalg.yield %p : f16
  } -> tensor<4x6xf16>
  return %y : tensor<4x6xf16>
}

// -----

// A contraction computes no concatenation: it reads its operand from memory anyway.
// CHECK-LABEL: @padding_before_a_contraction
// CHECK: %[[P:.*]] = tensor.pad
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<4x2x3xf32>)
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[Y]]
// CHECK: linalg.matmul ins(%[[C]], %
#id = affine_map<(r, c) -> (r, c)>
func.func @padding_before_a_contraction(%x: tensor<4x2x2xf32>, %w: tensor<3x5xf32>, %z: tensor<8x5xf32>) -> tensor<8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<8x3xf32>
  %s = tensor.pad %x low[0, 0, 1] high[0, 0, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<4x2x2xf32> to tensor<4x2x3xf32>
  %c = tensor.collapse_shape %s [[0, 1], [2]] : tensor<4x2x3xf32> into tensor<8x3xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x3xf32>) outs(%f : tensor<8x3xf32>) {
  ^bb0(%j: f32, %o: f32):
    %p = math.absf %j : f32
    linalg.yield %p : f32
  } -> tensor<8x3xf32>
  %m = linalg.matmul ins(%y, %w : tensor<8x3xf32>, tensor<3x5xf32>) outs(%z : tensor<8x5xf32>) -> tensor<8x5xf32>
  return %m : tensor<8x5xf32>
}

// -----

// The group of the softmax writes in place: no kernel computes the concatenation.
// CHECK-LABEL: @no_move_parts_in_place
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: linalg.generic {{.*}} ins(%[[C]] :
#id = affine_map<(r, c) -> (r, c)>
func.func @no_move_parts_in_place(%x: tensor<4x6xf16>, %z: tensor<3x6xf16>) -> tensor<42xf16> {
  %e = tensor.empty() : tensor<7x6xf16>
  %g = tensor.empty() : tensor<4x6xf16>
  %f = tensor.empty() : tensor<42xf16>
  %r = flow.dispatch.region -> (tensor<4x6xf16>) {
    %t = linalg.softmax dimension(1) ins(%x : tensor<4x6xf16>) outs(%g : tensor<4x6xf16>) -> tensor<4x6xf16>
    flow.return %t : tensor<4x6xf16>
  }
  %i = tensor.insert_slice %r into %e[0, 0] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<7x6xf16>
  %s = tensor.insert_slice %z into %i[4, 0] [3, 6] [1, 1] : tensor<3x6xf16> into tensor<7x6xf16>
  %c = tensor.collapse_shape %s [[0, 1]] : tensor<7x6xf16> into tensor<42xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(r) -> (r)>, affine_map<(r) -> (r)>], iterator_types = ["parallel"]} ins(%c : tensor<42xf16>) outs(%f : tensor<42xf16>) {
  ^bb0(%j: f16, %o: f16):
    %p = math.absf %j : f16
    linalg.yield %p : f16
  } -> tensor<42xf16>
  return %y : tensor<42xf16>
}

// -----

// The other elements are in the memory of an argument.
// CHECK-LABEL: @no_move_update
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: linalg.generic {{.*}} ins(%[[C]] :
func.func @no_move_update(%x: tensor<4x6xf16>, %z: tensor<7x6xf16>) -> tensor<42xf16> {
  %f = tensor.empty() : tensor<42xf16>
  %s = tensor.insert_slice %x into %z[0, 0] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<7x6xf16>
  %c = tensor.collapse_shape %s [[0, 1]] : tensor<7x6xf16> into tensor<42xf16>
  %y = linalg.generic {indexing_maps = [affine_map<(r) -> (r)>, affine_map<(r) -> (r)>], iterator_types = ["parallel"]} ins(%c : tensor<42xf16>) outs(%f : tensor<42xf16>) {
  ^bb0(%j: f16, %o: f16):
    %p = math.absf %j : f16
    linalg.yield %p : f16
  } -> tensor<42xf16>
  return %y : tensor<42xf16>
}
