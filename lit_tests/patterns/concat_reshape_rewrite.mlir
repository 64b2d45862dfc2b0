// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=concat_reshape_rewrite | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=concat_reshape_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=concat_reshape_rewrite,movement_fusion | FileCheck %s --check-prefix=GROUP %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=concat_reshape_rewrite --disable-pass=concat_reshape_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=concat_reshape_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=concat_reshape_rewrite | FileCheck %s --check-prefix=OFF

// WHY: function @stack
// WHY: applied: concat_reshape_rewrite 1
// CHECK-LABEL: @stack
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf16>, %[[Z:.*]]: tensor<4x6xf16>, %[[W:.*]]: tensor<2xf16>
// CHECK: %[[E:.*]] = tensor.empty() : tensor<4x2x6xf16>
// CHECK: %[[XS:.*]] = tensor.expand_shape %[[X]] {{.*}} output_shape [4, 1, 6]
// CHECK: %[[I:.*]] = tensor.insert_slice %[[XS]] into %{{.*}}[0, 0, 0] [4, 1, 6] [1, 1, 1]
// CHECK: %[[ZS:.*]] = tensor.expand_shape %[[Z]] {{.*}} output_shape [4, 1, 6]
// CHECK: %[[C:.*]] = tensor.insert_slice %[[ZS]] into %[[I]][0, 1, 0] [4, 1, 6] [1, 1, 1]
// CHECK-NOT: tensor.expand_shape
// CHECK: linalg.generic {{.*}} ins(%[[C]], %[[W]] :
// GROUP-LABEL: @stack
// GROUP: flow.dispatch.region {{.*}}mlirfuse.pass = "movement_fusion"
// GROUP: tensor.insert_slice
// GROUP: %[[C:.*]] = tensor.insert_slice
// GROUP: linalg.generic {{.*}} ins(%[[C]], %
// OFF-LABEL: @stack
// OFF: %[[C:.*]] = tensor.insert_slice
// OFF: %[[E:.*]] = tensor.expand_shape %[[C]]
// OFF: linalg.generic {{.*}} ins(%[[E]], %
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#middle = affine_map<(d0, d1, d2) -> (d1)>
func.func @stack(%x: tensor<4x6xf16>, %z: tensor<4x6xf16>, %w: tensor<2xf16>) -> tensor<4x2x6xf16> {
  %e = tensor.empty() : tensor<4x12xf16>
  %f = tensor.empty() : tensor<4x2x6xf16>
  %i = tensor.insert_slice %x into %e[0, 0] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %c = tensor.insert_slice %z into %i[0, 6] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %s = tensor.expand_shape %c [[0], [1, 2]] output_shape [4, 2, 6] : tensor<4x12xf16> into tensor<4x2x6xf16>
  %y = linalg.generic {indexing_maps = [#three, #middle, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %w : tensor<4x2x6xf16>, tensor<2xf16>) outs(%f : tensor<4x2x6xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %p = arith.mulf %a, %b : f16
    linalg.yield %p : f16
  } -> tensor<4x2x6xf16>
  return %y : tensor<4x2x6xf16>
}

// -----

// Parts of two heads and of one, of a dimension of size one, two heads and three elements each.
// CHECK-LABEL: @heads
// CHECK: tensor.insert_slice %{{.*}}[0, 0, 0, 0] [4, 1, 2, 3] [1, 1, 1, 1]
// CHECK: tensor.insert_slice %{{.*}}[0, 0, 2, 0] [4, 1, 1, 3] [1, 1, 1, 1]
// CHECK-NOT: tensor.expand_shape %{{.*}} into tensor<4x1x3x3xf16>
#four = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#head = affine_map<(d0, d1, d2, d3) -> (d2)>
func.func @heads(%x: tensor<4x6xf16>, %z: tensor<4x3xf16>, %w: tensor<3xf16>) -> tensor<4x1x3x3xf16> {
  %f = tensor.empty() : tensor<4x1x3x3xf16>
  %c = tensor.concat dim(1) %x, %z : (tensor<4x6xf16>, tensor<4x3xf16>) -> tensor<4x9xf16>
  %s = tensor.expand_shape %c [[0], [1, 2, 3]] output_shape [4, 1, 3, 3] : tensor<4x9xf16> into tensor<4x1x3x3xf16>
  %y = linalg.generic {indexing_maps = [#four, #head, #four], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s, %w : tensor<4x1x3x3xf16>, tensor<3xf16>) outs(%f : tensor<4x1x3x3xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %p = arith.mulf %a, %b : f16
    linalg.yield %p : f16
  } -> tensor<4x1x3x3xf16>
  return %y : tensor<4x1x3x3xf16>
}

// -----

// The rows are split, which are no dimension of the concatenation; the parts lack its dimension.
// CHECK-LABEL: @rows_of_a_stack
// CHECK-SAME: %[[X:.*]]: tensor<6x5xf16>, %[[Z:.*]]: tensor<6x5xf16>
// CHECK: %[[XS:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<2x3x5xf16>
// CHECK: tensor.insert_slice %[[XS]] into %{{.*}}[0, 0, 0, 0] [2, 3, 5, 1] [1, 1, 1, 1]
// CHECK: %[[ZS:.*]] = tensor.expand_shape %[[Z]] {{.*}} into tensor<2x3x5xf16>
// CHECK: tensor.insert_slice %[[ZS]] into %{{.*}}[0, 0, 0, 1] [2, 3, 5, 1] [1, 1, 1, 1]
#four = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#row = affine_map<(d0, d1, d2, d3) -> (d0)>
func.func @rows_of_a_stack(%x: tensor<6x5xf16>, %z: tensor<6x5xf16>, %w: tensor<2xf16>) -> tensor<2x3x5x2xf16> {
  %e = tensor.empty() : tensor<6x5x2xf16>
  %f = tensor.empty() : tensor<2x3x5x2xf16>
  %i = tensor.insert_slice %x into %e[0, 0, 0] [6, 5, 1] [1, 1, 1] : tensor<6x5xf16> into tensor<6x5x2xf16>
  %c = tensor.insert_slice %z into %i[0, 0, 1] [6, 5, 1] [1, 1, 1] : tensor<6x5xf16> into tensor<6x5x2xf16>
  %s = tensor.expand_shape %c [[0, 1], [2], [3]] output_shape [2, 3, 5, 2] : tensor<6x5x2xf16> into tensor<2x3x5x2xf16>
  %y = linalg.generic {indexing_maps = [#four, #row, #four], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s, %w : tensor<2x3x5x2xf16>, tensor<2xf16>) outs(%f : tensor<2x3x5x2xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %p = arith.mulf %a, %b : f16
    linalg.yield %p : f16
  } -> tensor<2x3x5x2xf16>
  return %y : tensor<2x3x5x2xf16>
}

// -----

// WHY: function @no_split_within_a_part
// WHY: concat_reshape_rewrite:
// WHY-NEXT: a part ends within a dimension of the result
// CHECK-LABEL: @no_split_within_a_part
// CHECK: %[[C:.*]] = tensor.insert_slice
// CHECK: tensor.expand_shape %[[C]]
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#middle = affine_map<(d0, d1, d2) -> (d1)>
func.func @no_split_within_a_part(%x: tensor<4x5xf16>, %z: tensor<4x7xf16>, %w: tensor<2xf16>) -> tensor<4x2x6xf16> {
  %e = tensor.empty() : tensor<4x12xf16>
  %f = tensor.empty() : tensor<4x2x6xf16>
  %i = tensor.insert_slice %x into %e[0, 0] [4, 5] [1, 1] : tensor<4x5xf16> into tensor<4x12xf16>
  %c = tensor.insert_slice %z into %i[0, 5] [4, 7] [1, 1] : tensor<4x7xf16> into tensor<4x12xf16>
  %s = tensor.expand_shape %c [[0], [1, 2]] output_shape [4, 2, 6] : tensor<4x12xf16> into tensor<4x2x6xf16>
  %y = linalg.generic {indexing_maps = [#three, #middle, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %w : tensor<4x2x6xf16>, tensor<2xf16>) outs(%f : tensor<4x2x6xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %p = arith.mulf %a, %b : f16
    linalg.yield %p : f16
  } -> tensor<4x2x6xf16>
  return %y : tensor<4x2x6xf16>
}

// -----

// CHECK-LABEL: @no_split_other_user
// CHECK: %[[C:.*]] = tensor.insert_slice
// CHECK: tensor.expand_shape %[[C]]
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @no_split_other_user(%x: tensor<4x6xf16>, %z: tensor<4x6xf16>) -> (tensor<4x2x6xf16>, tensor<4x12xf16>) {
  %e = tensor.empty() : tensor<4x12xf16>
  %f = tensor.empty() : tensor<4x2x6xf16>
  %i = tensor.insert_slice %x into %e[0, 0] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %c = tensor.insert_slice %z into %i[0, 6] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %s = tensor.expand_shape %c [[0], [1, 2]] output_shape [4, 2, 6] : tensor<4x12xf16> into tensor<4x2x6xf16>
  %y = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<4x2x6xf16>) outs(%f : tensor<4x2x6xf16>) {
  ^bb0(%a: f16, %o: f16):
    %p = math.absf %a : f16
    linalg.yield %p : f16
  } -> tensor<4x2x6xf16>
  return %y, %c : tensor<4x2x6xf16>, tensor<4x12xf16>
}

// -----

// Nothing computes with it.
// CHECK-LABEL: @no_split_result
// CHECK: %[[C:.*]] = tensor.insert_slice
// CHECK: tensor.expand_shape %[[C]]
func.func @no_split_result(%x: tensor<4x6xf16>, %z: tensor<4x6xf16>) -> tensor<4x2x6xf16> {
  %e = tensor.empty() : tensor<4x12xf16>
  %i = tensor.insert_slice %x into %e[0, 0] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %c = tensor.insert_slice %z into %i[0, 6] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %s = tensor.expand_shape %c [[0], [1, 2]] output_shape [4, 2, 6] : tensor<4x12xf16> into tensor<4x2x6xf16>
  return %s : tensor<4x2x6xf16>
}

// -----

// WHY: function @no_split_dynamic
// WHY: concat_reshape_rewrite:
// WHY-NEXT: the kernel takes static sizes and offsets
// CHECK-LABEL: @no_split_dynamic
// CHECK: %[[C:.*]] = tensor.insert_slice
// CHECK: tensor.expand_shape %[[C]]
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @no_split_dynamic(%x: tensor<?x6xf16>, %z: tensor<?x6xf16>, %n: index) -> tensor<?x2x6xf16> {
  %e = tensor.empty(%n) : tensor<?x12xf16>
  %f = tensor.empty(%n) : tensor<?x2x6xf16>
  %i = tensor.insert_slice %x into %e[0, 0] [%n, 6] [1, 1] : tensor<?x6xf16> into tensor<?x12xf16>
  %c = tensor.insert_slice %z into %i[0, 6] [%n, 6] [1, 1] : tensor<?x6xf16> into tensor<?x12xf16>
  %s = tensor.expand_shape %c [[0], [1, 2]] output_shape [%n, 2, 6] : tensor<?x12xf16> into tensor<?x2x6xf16>
  %y = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<?x2x6xf16>) outs(%f : tensor<?x2x6xf16>) {
  ^bb0(%a: f16, %o: f16):
    %p = math.absf %a : f16
    linalg.yield %p : f16
  } -> tensor<?x2x6xf16>
  return %y : tensor<?x2x6xf16>
}

// -----

// WHY: function @no_split_parts_in_place
// WHY: concat_reshape_rewrite:
// WHY-NEXT: the groups that compute most of it write in place
// CHECK-LABEL: @no_split_parts_in_place
// CHECK: %[[C:.*]] = tensor.insert_slice
// CHECK: tensor.expand_shape %[[C]]
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @no_split_parts_in_place(%x: tensor<4x6xf16>, %z: tensor<4x3xf16>) -> tensor<4x3x3xf16> {
  %e = tensor.empty() : tensor<4x9xf16>
  %g = tensor.empty() : tensor<4x6xf16>
  %f = tensor.empty() : tensor<4x3x3xf16>
  %r = flow.dispatch.region -> (tensor<4x6xf16>) {
    %t = linalg.softmax dimension(1) ins(%x : tensor<4x6xf16>) outs(%g : tensor<4x6xf16>) -> tensor<4x6xf16>
    flow.return %t : tensor<4x6xf16>
  }
  %i = tensor.insert_slice %r into %e[0, 0] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x9xf16>
  %c = tensor.insert_slice %z into %i[0, 6] [4, 3] [1, 1] : tensor<4x3xf16> into tensor<4x9xf16>
  %s = tensor.expand_shape %c [[0], [1, 2]] output_shape [4, 3, 3] : tensor<4x9xf16> into tensor<4x3x3xf16>
  %y = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<4x3x3xf16>) outs(%f : tensor<4x3x3xf16>) {
  ^bb0(%a: f16, %o: f16):
    %p = math.absf %a : f16
    linalg.yield %p : f16
  } -> tensor<4x3x3xf16>
  return %y : tensor<4x3x3xf16>
}

// -----

// A group has the reader.
// CHECK-LABEL: @no_split_group
// CHECK: %[[C:.*]] = tensor.insert_slice
// CHECK: tensor.expand_shape %[[C]]
#three = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @no_split_group(%x: tensor<4x6xf16>, %z: tensor<4x6xf16>) -> tensor<4x2x6xf16> {
  %e = tensor.empty() : tensor<4x12xf16>
  %f = tensor.empty() : tensor<4x2x6xf16>
  %i = tensor.insert_slice %x into %e[0, 0] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %c = tensor.insert_slice %z into %i[0, 6] [4, 6] [1, 1] : tensor<4x6xf16> into tensor<4x12xf16>
  %s = tensor.expand_shape %c [[0], [1, 2]] output_shape [4, 2, 6] : tensor<4x12xf16> into tensor<4x2x6xf16>
  %r = flow.dispatch.region -> (tensor<4x2x6xf16>) {
    %y = linalg.generic {indexing_maps = [#three, #three], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<4x2x6xf16>) outs(%f : tensor<4x2x6xf16>) {
    ^bb0(%a: f16, %o: f16):
      %p = math.absf %a : f16
      linalg.yield %p : f16
    } -> tensor<4x2x6xf16>
    flow.return %y : tensor<4x2x6xf16>
  }
  return %r : tensor<4x2x6xf16>
}
