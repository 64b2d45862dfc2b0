// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=weighted_sum_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=weighted_sum_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=weighted_sum_rewrite | FileCheck %s --check-prefix=OFF

// A convolution of 1x1 with one filter.
// CHECK-LABEL: @one_filter
// CHECK: %[[P:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]{{.*}} outs({{.*}} : tensor<2x16x30xf32>)
// CHECK-COUNT-2: arith.extf
// CHECK: arith.mulf
// CHECK-NOT: arith.addf
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]{{.*}} ins(%[[P]] :
// CHECK: arith.addf
// OFF-LABEL: @one_filter
// OFF: linalg.generic
// OFF: arith.mulf
// OFF-NEXT: arith.addf
#x = affine_map<(b, s, k) -> (b, k, s)>
#w = affine_map<(b, s, k) -> (k)>
#y = affine_map<(b, s, k) -> (b, s)>
func.func @one_filter(%x: tensor<2x16x30xf16>, %w: tensor<16xf16>) -> tensor<2x30xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x30xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x30xf32>) -> tensor<2x30xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x16x30xf16>, tensor<16xf16>) outs(%z : tensor<2x30xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %i = arith.extf %a : f16 to f32
    %j = arith.extf %b : f16 to f32
    %p = arith.mulf %i, %j : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x30xf32>
  return %y : tensor<2x30xf32>
}

// -----

// Dot products of an einsum: the batch is not merged, and a reshape of the result is none.
// CHECK-LABEL: @dot_products
// CHECK-SAME: %[[X:.*]]: tensor<2x30x16xf32>, %[[Y:.*]]: tensor<2x30x16xf32>
// CHECK-NOT: tensor.collapse_shape
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[Y]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<2x30x16xf32>) outs({{.*}} : tensor<2x30xf32>)
// CHECK: return %[[S]]
func.func @dot_products(%x: tensor<2x30x16xf32>, %y: tensor<2x30x16xf32>) -> tensor<2x30xf32> {
  %zero = arith.constant 0.0 : f32
  %cx = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x30x16xf32> into tensor<60x16xf32>
  %ex = tensor.expand_shape %cx [[0], [1, 2]] output_shape [60, 1, 16] : tensor<60x16xf32> into tensor<60x1x16xf32>
  %cy = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x30x16xf32> into tensor<60x16xf32>
  %ey = tensor.expand_shape %cy [[0], [1, 2]] output_shape [60, 16, 1] : tensor<60x16xf32> into tensor<60x16x1xf32>
  %e = tensor.empty() : tensor<60x1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<60x1x1xf32>) -> tensor<60x1x1xf32>
  %d = linalg.batch_matmul ins(%ex, %ey : tensor<60x1x16xf32>, tensor<60x16x1xf32>) outs(%z : tensor<60x1x1xf32>) -> tensor<60x1x1xf32>
  %c = tensor.collapse_shape %d [[0, 1, 2]] : tensor<60x1x1xf32> into tensor<60xf32>
  %r = tensor.expand_shape %c [[0, 1]] output_shape [2, 30] : tensor<60xf32> into tensor<2x30xf32>
  return %r : tensor<2x30xf32>
}

// -----

// The shape of the result is restored where nothing asks for another one.
// CHECK-LABEL: @unit_result
// CHECK: %[[S:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK: %[[E:.*]] = tensor.expand_shape %{{.*}} output_shape [60, 1, 1]
// CHECK: return %[[E]]
func.func @unit_result(%x: tensor<60x1x16xf32>, %y: tensor<60x16x1xf32>) -> tensor<60x1x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<60x1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<60x1x1xf32>) -> tensor<60x1x1xf32>
  %d = linalg.batch_matmul ins(%x, %y : tensor<60x1x16xf32>, tensor<60x16x1xf32>) outs(%z : tensor<60x1x1xf32>) -> tensor<60x1x1xf32>
  return %d : tensor<60x1x1xf32>
}

// -----

// A matmul has a kernel of its own.
// CHECK-LABEL: @matmul
// CHECK: linalg.matmul
func.func @matmul(%x: tensor<60x16xf32>, %y: tensor<16x4xf32>) -> tensor<60x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<60x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<60x4xf32>) -> tensor<60x4xf32>
  %d = linalg.matmul ins(%x, %y : tensor<60x16xf32>, tensor<16x4xf32>) outs(%z : tensor<60x4xf32>) -> tensor<60x4xf32>
  return %d : tensor<60x4xf32>
}

// -----

// A dynamic batch is kept, where no dimension is dropped.
// CHECK-LABEL: @dynamic_batch
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
#x = affine_map<(b, k) -> (b, k)>
#w = affine_map<(b, k) -> (k)>
#y = affine_map<(b, k) -> (b)>
func.func @dynamic_batch(%x: tensor<?x16xf32>, %w: tensor<16xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<?x16xf32>, tensor<16xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_of_dynamic_batch_and_units
// CHECK: linalg.batch_matmul
func.func @no_rewrite_of_dynamic_batch_and_units(%x: tensor<?x1x16xf32>, %y: tensor<?x16x1xf32>, %n: index) -> tensor<?x1x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x1x1xf32>) -> tensor<?x1x1xf32>
  %d = linalg.batch_matmul ins(%x, %y : tensor<?x1x16xf32>, tensor<?x16x1xf32>) outs(%z : tensor<?x1x1xf32>) -> tensor<?x1x1xf32>
  return %d : tensor<?x1x1xf32>
}

// -----

// Merged batches would be split, and the tensor that the sums start from with them.
// CHECK-LABEL: @no_rewrite_of_a_tensor_to_start_from
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<60xf64>)
// CHECK: return %[[Y]]
#a = affine_map<(b, k) -> (b, k)>
#o = affine_map<(b, k) -> (b)>
func.func @no_rewrite_of_a_tensor_to_start_from(%x: tensor<2x30x16xf64>, %y: tensor<2x30x16xf64>, %s: tensor<60xf64>) -> tensor<60xf64> {
  %cx = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x30x16xf64> into tensor<60x16xf64>
  %cy = tensor.collapse_shape %y [[0, 1], [2]] : tensor<2x30x16xf64> into tensor<60x16xf64>
  %d = linalg.generic {indexing_maps = [#a, #a, #o], iterator_types = ["parallel", "reduction"]} ins(%cx, %cy : tensor<60x16xf64>, tensor<60x16xf64>) outs(%s : tensor<60xf64>) {
  ^bb0(%i: f64, %j: f64, %o: f64):
    %p = arith.mulf %i, %j : f64
    %t = arith.addf %o, %p : f64
    linalg.yield %t : f64
  } -> tensor<60xf64>
  return %d : tensor<60xf64>
}
