// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=gather_reshape_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=gather_reshape_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=gather_reshape_rewrite | FileCheck %s --check-prefix=OFF

// CHECK-LABEL: @computed_indices
// CHECK-SAME: %[[X:.*]]: tensor<2x3x63xf32>, %[[P:.*]]: tensor<2x4x5xf32>
// CHECK: %[[I:.*]] = linalg.generic {{.*}} ins(%[[P]] :
// CHECK-NOT: tensor.collapse_shape
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[I]] : tensor<2x4x5xi64>) outs({{.*}} : tensor<2x3x4x5xf32>)
// CHECK: tensor.extract %[[X]]
// CHECK-NOT: tensor.expand_shape
// CHECK: return %[[G]]
// OFF-LABEL: @computed_indices
// OFF: %[[C:.*]] = tensor.collapse_shape
// OFF: %[[G:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// OFF: tensor.expand_shape %[[G]]
#p = affine_map<(n, h, w) -> (n, h, w)>
#i = affine_map<(n, c, p) -> (n, p)>
#g = affine_map<(n, c, p) -> (n, c, p)>
func.func @computed_indices(%x: tensor<2x3x63xf32>, %p: tensor<2x4x5xf32>) -> tensor<2x3x4x5xf32> {
  %e = tensor.empty() : tensor<2x4x5xi64>
  %f = tensor.empty() : tensor<2x3x20xf32>
  %i = linalg.generic {indexing_maps = [#p, #p], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<2x4x5xf32>) outs(%e : tensor<2x4x5xi64>) {
  ^bb0(%a: f32, %o: i64):
    %y = arith.fptosi %a : f32 to i64
    linalg.yield %y : i64
  } -> tensor<2x4x5xi64>
  %c = tensor.collapse_shape %i [[0], [1, 2]] : tensor<2x4x5xi64> into tensor<2x20xi64>
  %g = linalg.generic {indexing_maps = [#i, #g], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x20xi64>) outs(%f : tensor<2x3x20xf32>) {
  ^bb0(%a: i64, %o: f32):
    %n = linalg.index 0 : index
    %d = linalg.index 1 : index
    %q = arith.index_cast %a : i64 to index
    %y = tensor.extract %x[%n, %d, %q] : tensor<2x3x63xf32>
    linalg.yield %y : f32
  } -> tensor<2x3x20xf32>
  %r = tensor.expand_shape %g [[0], [1], [2, 3]] output_shape [2, 3, 4, 5] : tensor<2x3x20xf32> into tensor<2x3x4x5xf32>
  return %r : tensor<2x3x4x5xf32>
}

// -----

// Two gathers read one collapse.
// CHECK-LABEL: @shared_indices
// CHECK: %[[I:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<4x5xi64>)
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[I]] : tensor<4x5xi64>) outs({{.*}} : tensor<4x5xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[I]] : tensor<4x5xi64>) outs({{.*}} : tensor<4x5xf32>)
// CHECK: return %[[A]], %[[B]]
#two = affine_map<(h, w) -> (h, w)>
#one = affine_map<(p) -> (p)>
func.func @shared_indices(%x: tensor<63xf32>, %z: tensor<63xf32>, %p: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %e = tensor.empty() : tensor<4x5xi64>
  %f = tensor.empty() : tensor<20xf32>
  %i = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4x5xf32>) outs(%e : tensor<4x5xi64>) {
  ^bb0(%a: f32, %o: i64):
    %y = arith.fptosi %a : f32 to i64
    linalg.yield %y : i64
  } -> tensor<4x5xi64>
  %c = tensor.collapse_shape %i [[0, 1]] : tensor<4x5xi64> into tensor<20xi64>
  %g = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%c : tensor<20xi64>) outs(%f : tensor<20xf32>) {
  ^bb0(%a: i64, %o: f32):
    %q = arith.index_cast %a : i64 to index
    %y = tensor.extract %x[%q] : tensor<63xf32>
    linalg.yield %y : f32
  } -> tensor<20xf32>
  %k = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%c : tensor<20xi64>) outs(%f : tensor<20xf32>) {
  ^bb0(%a: i64, %o: f32):
    %q = arith.index_cast %a : i64 to index
    %y = tensor.extract %z[%q] : tensor<63xf32>
    linalg.yield %y : f32
  } -> tensor<20xf32>
  %r = tensor.expand_shape %g [[0, 1]] output_shape [4, 5] : tensor<20xf32> into tensor<4x5xf32>
  %s = tensor.expand_shape %k [[0, 1]] output_shape [4, 5] : tensor<20xf32> into tensor<4x5xf32>
  return %r, %s : tensor<4x5xf32>, tensor<4x5xf32>
}

// -----

// The indices are in memory: their collapse costs nothing.
// CHECK-LABEL: @no_rewrite_indices_in_memory
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: tensor.expand_shape %[[G]]
#one = affine_map<(p) -> (p)>
func.func @no_rewrite_indices_in_memory(%x: tensor<63xf32>, %i: tensor<4x5xi64>) -> tensor<4x5xf32> {
  %f = tensor.empty() : tensor<20xf32>
  %c = tensor.collapse_shape %i [[0, 1]] : tensor<4x5xi64> into tensor<20xi64>
  %g = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%c : tensor<20xi64>) outs(%f : tensor<20xf32>) {
  ^bb0(%a: i64, %o: f32):
    %q = arith.index_cast %a : i64 to index
    %y = tensor.extract %x[%q] : tensor<63xf32>
    linalg.yield %y : f32
  } -> tensor<20xf32>
  %r = tensor.expand_shape %g [[0, 1]] output_shape [4, 5] : tensor<20xf32> into tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// -----

// Another op reads the gather before it is expanded.
// CHECK-LABEL: @no_rewrite_gather_has_two_users
// CHECK: %[[C:.*]] = tensor.collapse_shape
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[C]] :
// CHECK: %[[R:.*]] = tensor.expand_shape %[[G]]
// CHECK: return %[[R]], %[[G]]
#two = affine_map<(h, w) -> (h, w)>
#one = affine_map<(p) -> (p)>
func.func @no_rewrite_gather_has_two_users(%x: tensor<63xf32>, %p: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<20xf32>) {
  %e = tensor.empty() : tensor<4x5xi64>
  %f = tensor.empty() : tensor<20xf32>
  %i = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4x5xf32>) outs(%e : tensor<4x5xi64>) {
  ^bb0(%a: f32, %o: i64):
    %y = arith.fptosi %a : f32 to i64
    linalg.yield %y : i64
  } -> tensor<4x5xi64>
  %c = tensor.collapse_shape %i [[0, 1]] : tensor<4x5xi64> into tensor<20xi64>
  %g = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%c : tensor<20xi64>) outs(%f : tensor<20xf32>) {
  ^bb0(%a: i64, %o: f32):
    %q = arith.index_cast %a : i64 to index
    %y = tensor.extract %x[%q] : tensor<63xf32>
    linalg.yield %y : f32
  } -> tensor<20xf32>
  %r = tensor.expand_shape %g [[0, 1]] output_shape [4, 5] : tensor<20xf32> into tensor<4x5xf32>
  return %r, %g : tensor<4x5xf32>, tensor<20xf32>
}
