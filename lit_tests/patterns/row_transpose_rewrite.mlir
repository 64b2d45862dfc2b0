// RUN: %mlirfuse-opt %s --split-input-file --pipeline=row_transpose_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=row_transpose_rewrite --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#s = affine_map<(i, j, k) -> (j, i, k)>
#i = affine_map<(i, j, k) -> (i, j, k)>
#e = affine_map<(i, j, p, d) -> (i, j, p, d)>
#b = affine_map<(i, j, p, d) -> (p, d)>
#t = affine_map<(p, i, j, d) -> (i, j, p, d)>

// Two transposes become one.
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d1, d0, d3)>
// CHECK-LABEL: @projection
// CHECK-SAME: %[[X:.*]]: tensor<2x5x8xf32>
// CHECK: %[[A:.*]] = tensor.collapse_shape %[[X]] {{\[\[0, 1\], \[2\]\]}}
// CHECK: %[[C:.*]] = linalg.matmul ins(%[[A]],
// CHECK: %[[E:.*]] = tensor.expand_shape %[[C]] {{.*}} output_shape [2, 5, 3, 4]
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[E]], %{{.*}} : tensor<2x5x3x4xf32>, tensor<3x4xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[READ]], #{{.*}}]{{.*}} ins(%[[H]] : tensor<2x5x3x4xf32>) outs(%{{.*}} : tensor<3x5x2x4xf32>)
func.func @projection(%x: tensor<2x5x8xf32>, %w: tensor<8x12xf32>, %bias: tensor<3x4xf32>) -> tensor<3x5x2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<5x2x8xf32>
  %x1 = linalg.generic {indexing_maps = [#s, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x5x8xf32>) outs(%e0 : tensor<5x2x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<5x2x8xf32>
  %x2 = tensor.collapse_shape %x1 [[0, 1], [2]] : tensor<5x2x8xf32> into tensor<10x8xf32>
  %e1 = tensor.empty() : tensor<10x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c = linalg.matmul ins(%x2, %w : tensor<10x8xf32>, tensor<8x12xf32>) outs(%z : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c1 = tensor.expand_shape %c [[0, 1], [2, 3]] output_shape [5, 2, 3, 4] : tensor<10x12xf32> into tensor<5x2x3x4xf32>
  %e2 = tensor.empty() : tensor<5x2x3x4xf32>
  %h = linalg.generic {indexing_maps = [#e, #b, #e], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c1, %bias : tensor<5x2x3x4xf32>, tensor<3x4xf32>) outs(%e2 : tensor<5x2x3x4xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %sum = arith.addf %a, %v : f32
    linalg.yield %sum : f32
  } -> tensor<5x2x3x4xf32>
  %e3 = tensor.empty() : tensor<3x5x2x4xf32>
  %y = linalg.generic {indexing_maps = [#t, #e], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%h : tensor<5x2x3x4xf32>) outs(%e3 : tensor<3x5x2x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x5x2x4xf32>
  return %y : tensor<3x5x2x4xf32>
}

// -----

#s = affine_map<(i, j, k) -> (j, i, k)>
#i = affine_map<(i, j, k) -> (i, j, k)>

// The second transpose undoes the first.
// CHECK-LABEL: @undone
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @undone(%x: tensor<2x5x8xbf16>, %w: tensor<8x12xbf16>) -> tensor<2x5x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<5x2x8xbf16>
  %x1 = linalg.generic {indexing_maps = [#s, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x5x8xbf16>) outs(%e0 : tensor<5x2x8xbf16>) {
  ^bb0(%a: bf16, %o: bf16):
    linalg.yield %a : bf16
  } -> tensor<5x2x8xbf16>
  %x2 = tensor.collapse_shape %x1 [[0, 1], [2]] : tensor<5x2x8xbf16> into tensor<10x8xbf16>
  %e1 = tensor.empty() : tensor<10x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c = linalg.matmul ins(%x2, %w : tensor<10x8xbf16>, tensor<8x12xbf16>) outs(%z : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c1 = tensor.expand_shape %c [[0, 1], [2]] output_shape [5, 2, 12] : tensor<10x12xf32> into tensor<5x2x12xf32>
  %e3 = tensor.empty() : tensor<2x5x12xf32>
  %y = linalg.generic {indexing_maps = [#s, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c1 : tensor<5x2x12xf32>) outs(%e3 : tensor<2x5x12xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x5x12xf32>
  return %y : tensor<2x5x12xf32>
}

// -----

#s = affine_map<(i, j, k) -> (j, i, k)>
#i = affine_map<(i, j, k) -> (i, j, k)>

// A tensor along the rows is read in their order.
// CHECK-LABEL: @no_rewrite_residual
// CHECK-COUNT-3: linalg.generic
// WHY: function @no_rewrite_residual
// WHY: structure (1)
// WHY: reads rows in their order
func.func @no_rewrite_residual(%x: tensor<2x5x8xf32>, %w: tensor<8x12xf32>, %r: tensor<5x2x12xf32>) -> tensor<2x5x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<5x2x8xf32>
  %x1 = linalg.generic {indexing_maps = [#s, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x5x8xf32>) outs(%e0 : tensor<5x2x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<5x2x8xf32>
  %x2 = tensor.collapse_shape %x1 [[0, 1], [2]] : tensor<5x2x8xf32> into tensor<10x8xf32>
  %e1 = tensor.empty() : tensor<10x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c = linalg.matmul ins(%x2, %w : tensor<10x8xf32>, tensor<8x12xf32>) outs(%z : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c1 = tensor.expand_shape %c [[0, 1], [2]] output_shape [5, 2, 12] : tensor<10x12xf32> into tensor<5x2x12xf32>
  %e2 = tensor.empty() : tensor<5x2x12xf32>
  %h = linalg.generic {indexing_maps = [#i, #i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c1, %r : tensor<5x2x12xf32>, tensor<5x2x12xf32>) outs(%e2 : tensor<5x2x12xf32>) {
  ^bb0(%a: f32, %v: f32, %o: f32):
    %sum = arith.addf %a, %v : f32
    linalg.yield %sum : f32
  } -> tensor<5x2x12xf32>
  %e3 = tensor.empty() : tensor<2x5x12xf32>
  %y = linalg.generic {indexing_maps = [#s, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%h : tensor<5x2x12xf32>) outs(%e3 : tensor<2x5x12xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x5x12xf32>
  return %y : tensor<2x5x12xf32>
}

// -----

#s = affine_map<(i, j, k) -> (j, i, k)>
#i = affine_map<(i, j, k) -> (i, j, k)>

// The rows are split elsewhere than they were merged, or the transpose moves contracted elements.
// CHECK-LABEL: @no_rewrite_other_split
// CHECK-COUNT-2: linalg.generic
// WHY: function @no_rewrite_other_split
// WHY: structure (1)
func.func @no_rewrite_other_split(%x: tensor<2x6x8xf32>, %w: tensor<8x12xf32>) -> tensor<4x3x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<6x2x8xf32>
  %x1 = linalg.generic {indexing_maps = [#s, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x6x8xf32>) outs(%e0 : tensor<6x2x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<6x2x8xf32>
  %x2 = tensor.collapse_shape %x1 [[0, 1], [2]] : tensor<6x2x8xf32> into tensor<12x8xf32>
  %e1 = tensor.empty() : tensor<12x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<12x12xf32>) -> tensor<12x12xf32>
  %c = linalg.matmul ins(%x2, %w : tensor<12x8xf32>, tensor<8x12xf32>) outs(%z : tensor<12x12xf32>) -> tensor<12x12xf32>
  %c1 = tensor.expand_shape %c [[0, 1], [2]] output_shape [3, 4, 12] : tensor<12x12xf32> into tensor<3x4x12xf32>
  %e3 = tensor.empty() : tensor<4x3x12xf32>
  %y = linalg.generic {indexing_maps = [#s, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c1 : tensor<3x4x12xf32>) outs(%e3 : tensor<4x3x12xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4x3x12xf32>
  return %y : tensor<4x3x12xf32>
}
