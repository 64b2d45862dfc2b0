// RUN: %mlirfuse-opt %s --split-input-file --pipeline=epilogue_transpose_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=epilogue_transpose_rewrite --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#t = affine_map<(b, h, s, d) -> (b, s, h, d)>
#i = affine_map<(b, h, s, d) -> (b, h, s, d)>
#v = affine_map<(b, h, s, d) -> (h, d)>

// CHECK-DAG: #[[WHOLE:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[BIAS:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @heads
// CHECK: %[[E:.*]] = tensor.expand_shape
// CHECK: %[[H:.*]] = linalg.generic {indexing_maps = [#[[WHOLE]], #[[BIAS]], #[[WHOLE]]]{{.*}} ins(%[[E]], %{{.*}} : tensor<2x5x3x4xf32>, tensor<3x4xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[READ]], #[[WHOLE]]]{{.*}} ins(%[[H]] : tensor<2x5x3x4xf32>) outs(%{{.*}} : tensor<2x3x5x4xf32>)
// CHECK: linalg.batch_matmul
func.func @heads(%x: tensor<10x8xf32>, %w: tensor<8x12xf32>, %bias: tensor<3x4xf32>, %k: tensor<6x4x7xf32>) -> tensor<6x5x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<10x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c = linalg.matmul ins(%x, %w : tensor<10x8xf32>, tensor<8x12xf32>) outs(%z : tensor<10x12xf32>) -> tensor<10x12xf32>
  %c1 = tensor.expand_shape %c [[0, 1], [2, 3]] output_shape [2, 5, 3, 4] : tensor<10x12xf32> into tensor<2x5x3x4xf32>
  %e2 = tensor.empty() : tensor<2x3x5x4xf32>
  %y = linalg.generic {indexing_maps = [#t, #v, #i], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c1, %bias : tensor<2x5x3x4xf32>, tensor<3x4xf32>) outs(%e2 : tensor<2x3x5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<2x3x5x4xf32>
  %q = tensor.collapse_shape %y [[0, 1], [2], [3]] : tensor<2x3x5x4xf32> into tensor<6x5x4xf32>
  %e3 = tensor.empty() : tensor<6x5x7xf32>
  %z3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<6x5x7xf32>) -> tensor<6x5x7xf32>
  %r = linalg.batch_matmul ins(%q, %k : tensor<6x5x4xf32>, tensor<6x4x7xf32>) outs(%z3 : tensor<6x5x7xf32>) -> tensor<6x5x7xf32>
  return %r : tensor<6x5x7xf32>
}

// -----

#t = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i, j)>

// A return needs the order; so does an operand that is read in another one.
// CHECK-LABEL: @no_rewrite
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
// WHY: function @no_rewrite
// WHY: indexing_map (1)
// WHY: the operands are read in several orders
func.func @no_rewrite(%x: tensor<5x8xf32>, %w: tensor<8x4xf32>, %u: tensor<4x5xf32>, %v: tensor<5x3xf32>) -> (tensor<4x5xf32>, tensor<4x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<5x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<5x4xf32>) -> tensor<5x4xf32>
  %c = linalg.matmul ins(%x, %w : tensor<5x8xf32>, tensor<8x4xf32>) outs(%z : tensor<5x4xf32>) -> tensor<5x4xf32>
  %e2 = tensor.empty() : tensor<4x5xf32>
  %y = linalg.generic {indexing_maps = [#t, #i], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<5x4xf32>) outs(%e2 : tensor<4x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<4x5xf32>
  %s = linalg.generic {indexing_maps = [#t, #i, #i], iterator_types = ["parallel", "parallel"]} ins(%c, %u : tensor<5x4xf32>, tensor<4x5xf32>) outs(%e2 : tensor<4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<4x5xf32>
  %e3 = tensor.empty() : tensor<4x3xf32>
  %z3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<4x3xf32>) -> tensor<4x3xf32>
  %r = linalg.matmul ins(%s, %v : tensor<4x5xf32>, tensor<5x3xf32>) outs(%z3 : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y, %r : tensor<4x5xf32>, tensor<4x3xf32>
}
