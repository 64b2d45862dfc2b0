// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=movement_fusion | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=movement_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=movement_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=movement_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: mlirfuse.pass = "movement_fusion"

// WHY: function @concatenation
// WHY: movement_fusion match 0: 4 ops
// CHECK-LABEL: @concatenation
// CHECK-SAME: %[[X:.*]]: tensor<8x3xf16>, %[[Z:.*]]: tensor<8x5xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "movement_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[I:.*]] = tensor.insert_slice %[[A]] into
// CHECK: %[[C:.*]] = tensor.insert_slice %[[Z]] into %[[I]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[S]]
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @concatenation(%x: tensor<8x3xf16>, %z: tensor<8x5xf16>) -> tensor<8x8xf16> {
  %e = tensor.empty() : tensor<8x3xf16>
  %f = tensor.empty() : tensor<8x8xf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x3xf16>) outs(%e : tensor<8x3xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.sin %i : f16
    linalg.yield %r : f16
  } -> tensor<8x3xf16>
  %i = tensor.insert_slice %a into %f[0, 0] [8, 3] [1, 1] : tensor<8x3xf16> into tensor<8x8xf16>
  %c = tensor.insert_slice %z into %i[0, 3] [8, 5] [1, 1] : tensor<8x5xf16> into tensor<8x8xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x8xf16>) outs(%f : tensor<8x8xf16>) {
  ^bb0(%j: f16, %o: f16):
    %r = math.absf %j : f16
    linalg.yield %r : f16
  } -> tensor<8x8xf16>
  return %y : tensor<8x8xf16>
}

// -----

// CHECK-LABEL: @padding
// CHECK: flow.dispatch.region
// CHECK: tensor.pad
func.func @padding(%x: tensor<8x3xf16>) -> tensor<10x4xf16> {
  %zero = arith.constant 0.0 : f16
  %y = tensor.pad %x low[1, 0] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f16
  } : tensor<8x3xf16> to tensor<10x4xf16>
  return %y : tensor<10x4xf16>
}

// -----

// CHECK-LABEL: @every_second_column
// CHECK: flow.dispatch.region
// CHECK: tensor.extract_slice
func.func @every_second_column(%x: tensor<8x6xf16>) -> tensor<8x3xf16> {
  %y = tensor.extract_slice %x[0, 0] [8, 3] [1, 2] : tensor<8x6xf16> to tensor<8x3xf16>
  return %y : tensor<8x3xf16>
}

// -----

// IREE copies a range of a buffer without a dispatch.
// CHECK-LABEL: @no_fusion_rows
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_rows(%x: tensor<8x6xf16>) -> tensor<3x6xf16> {
  %y = tensor.extract_slice %x[2, 0] [3, 6] [1, 1] : tensor<8x6xf16> to tensor<3x6xf16>
  return %y : tensor<3x6xf16>
}

// -----

// CHECK-LABEL: @no_fusion_update
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_update(%x: tensor<8x6xf16>, %z: tensor<8x2xf16>) -> tensor<8x6xf16> {
  %y = tensor.insert_slice %z into %x[0, 1] [8, 2] [1, 1] : tensor<8x2xf16> into tensor<8x6xf16>
  return %y : tensor<8x6xf16>
}

// -----

// WHY-LABEL: function @no_fusion_computed_part
// WHY: the groups that compute most of it write in place
// CHECK-LABEL: @no_fusion_computed_part
// CHECK: flow.dispatch.region
// CHECK-NOT: movement_fusion
#id = affine_map<(r, c) -> (r, c)>
func.func @no_fusion_computed_part(%x: tensor<8x5xf16>, %w: tensor<8x6xf16>) -> tensor<8x8xf16> {
  %e = tensor.empty() : tensor<8x5xf16>
  %z = tensor.extract_slice %w[0, 0] [8, 3] [1, 2] : tensor<8x6xf16> to tensor<8x3xf16>
  %f = tensor.empty() : tensor<8x8xf16>
  %a = flow.dispatch.region -> (tensor<8x5xf16>) {
    %s = linalg.softmax dimension(1) ins(%x : tensor<8x5xf16>) outs(%e : tensor<8x5xf16>) -> tensor<8x5xf16>
    flow.return %s : tensor<8x5xf16>
  }
  %i = tensor.insert_slice %a into %f[0, 0] [8, 5] [1, 1] : tensor<8x5xf16> into tensor<8x8xf16>
  %y = tensor.insert_slice %z into %i[0, 5] [8, 3] [1, 1] : tensor<8x3xf16> into tensor<8x8xf16>
  return %y : tensor<8x8xf16>
}

// -----

// The sine is computed where the gather reads it: of half the elements.
// WHY-LABEL: function @gather_of_computed
// WHY: movement_fusion match 0: 2 ops
// CHECK-LABEL: @gather_of_computed
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x40xf16>
// CHECK: %[[Y:.*]] = flow.dispatch.region
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: math.sin
// CHECK: tensor.extract %[[S]]
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @gather_of_computed(%x: tensor<64x40xf16>, %i: tensor<32x40xi64>) -> tensor<32x40xf16> {
  %e = tensor.empty() : tensor<64x40xf16>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x40xf16>) outs(%e : tensor<64x40xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = math.sin %a : f16
    linalg.yield %r : f16
  } -> tensor<64x40xf16>
  %f = tensor.empty() : tensor<32x40xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<32x40xi64>) outs(%f : tensor<32x40xf16>) {
  ^bb0(%a: i64, %o: f16):
    %row = arith.index_cast %a : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %s[%row, %column] : tensor<64x40xf16>
    linalg.yield %v : f16
  } -> tensor<32x40xf16>
  return %y : tensor<32x40xf16>
}

// -----

// Each sine would be computed twice.
// CHECK-LABEL: @no_fusion_more_is_read
// CHECK-NOT: flow.dispatch.region
#id = affine_map<(r, c) -> (r, c)>
func.func @no_fusion_more_is_read(%x: tensor<64x40xf16>, %i: tensor<128x40xi64>) -> tensor<128x40xf16> {
  %e = tensor.empty() : tensor<64x40xf16>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x40xf16>) outs(%e : tensor<64x40xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = math.sin %a : f16
    linalg.yield %r : f16
  } -> tensor<64x40xf16>
  %f = tensor.empty() : tensor<128x40xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<128x40xi64>) outs(%f : tensor<128x40xf16>) {
  ^bb0(%a: i64, %o: f16):
    %row = arith.index_cast %a : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %s[%row, %column] : tensor<64x40xf16>
    linalg.yield %v : f16
  } -> tensor<128x40xf16>
  return %y : tensor<128x40xf16>
}

// -----

// CHECK-LABEL: @no_fusion_another_reader
// CHECK-NOT: flow.dispatch.region
#id = affine_map<(r, c) -> (r, c)>
func.func @no_fusion_another_reader(%x: tensor<64x40xf16>, %i: tensor<32x40xi64>) -> (tensor<32x40xf16>, tensor<64x40xf16>) {
  %e = tensor.empty() : tensor<64x40xf16>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x40xf16>) outs(%e : tensor<64x40xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = math.sin %a : f16
    linalg.yield %r : f16
  } -> tensor<64x40xf16>
  %f = tensor.empty() : tensor<32x40xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<32x40xi64>) outs(%f : tensor<32x40xf16>) {
  ^bb0(%a: i64, %o: f16):
    %row = arith.index_cast %a : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %s[%row, %column] : tensor<64x40xf16>
    linalg.yield %v : f16
  } -> tensor<32x40xf16>
  return %y, %s : tensor<32x40xf16>, tensor<64x40xf16>
}

// -----

// CHECK-LABEL: @permuted_read_of_a_computed_tensor
// CHECK-SAME: %[[X:.*]]: tensor<8x3xf16>
// CHECK: flow.dispatch.region {{.*}}mlirfuse.pass = "movement_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: linalg.generic {{.*}} ins(%[[A]] :
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
func.func @permuted_read_of_a_computed_tensor(%x: tensor<8x3xf16>) -> tensor<3x8xf16> {
  %e = tensor.empty() : tensor<8x3xf16>
  %f = tensor.empty() : tensor<3x8xf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x3xf16>) outs(%e : tensor<8x3xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.sin %i : f16
    linalg.yield %r : f16
  } -> tensor<8x3xf16>
  %y = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<8x3xf16>) outs(%f : tensor<3x8xf16>) {
  ^bb0(%j: f16, %o: f16):
    %r = math.absf %j : f16
    linalg.yield %r : f16
  } -> tensor<3x8xf16>
  return %y : tensor<3x8xf16>
}

// -----

// CHECK-LABEL: @no_fusion_permuted_read_of_a_result
// CHECK-NOT: flow.dispatch.region
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
func.func @no_fusion_permuted_read_of_a_result(%x: tensor<8x3xf16>) -> (tensor<8x3xf16>, tensor<3x8xf16>) {
  %e = tensor.empty() : tensor<8x3xf16>
  %f = tensor.empty() : tensor<3x8xf16>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x3xf16>) outs(%e : tensor<8x3xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.sin %i : f16
    linalg.yield %r : f16
  } -> tensor<8x3xf16>
  %y = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<8x3xf16>) outs(%f : tensor<3x8xf16>) {
  ^bb0(%j: f16, %o: f16):
    %r = math.absf %j : f16
    linalg.yield %r : f16
  } -> tensor<3x8xf16>
  return %a, %y : tensor<8x3xf16>, tensor<3x8xf16>
}

// -----

// Two ops read the concatenation, which is not written.
// CHECK-LABEL: @concatenation_of_two_users
// CHECK-SAME: %[[X:.*]]: tensor<8x3xf16>, %[[Z:.*]]: tensor<8x5xf16>
// CHECK: %[[Y:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "movement_fusion"
// CHECK: %[[I:.*]] = tensor.insert_slice %[[X]] into
// CHECK: %[[C:.*]] = tensor.insert_slice %[[Z]] into %[[I]]
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: flow.return %[[A]], %[[B]]
// CHECK: return %[[Y]]#0, %[[Y]]#1
#id = affine_map<(r, c) -> (r, c)>
func.func @concatenation_of_two_users(%x: tensor<8x3xf16>, %z: tensor<8x5xf16>) -> (tensor<8x8xf16>, tensor<8x8xf16>) {
  %f = tensor.empty() : tensor<8x8xf16>
  %i = tensor.insert_slice %x into %f[0, 0] [8, 3] [1, 1] : tensor<8x3xf16> into tensor<8x8xf16>
  %c = tensor.insert_slice %z into %i[0, 3] [8, 5] [1, 1] : tensor<8x5xf16> into tensor<8x8xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x8xf16>) outs(%f : tensor<8x8xf16>) {
  ^bb0(%j: f16, %o: f16):
    %r = math.absf %j : f16
    linalg.yield %r : f16
  } -> tensor<8x8xf16>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x8xf16>) outs(%f : tensor<8x8xf16>) {
  ^bb0(%j: f16, %o: f16):
    %r = math.exp %j : f16
    linalg.yield %r : f16
  } -> tensor<8x8xf16>
  return %y, %w : tensor<8x8xf16>, tensor<8x8xf16>
}
