// RUN: %mlirfuse-opt %s --split-input-file --pipeline=epilogue_transpose_rewrite --target=cuda:sm_90 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=epilogue_transpose_rewrite --target=cpu | FileCheck %s --check-prefix=CPU

#t = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i, j)>
#r = affine_map<(i, j) -> (i)>

// What is computed of rows of x is scaled in their order, too; the cast follows.
// CHECK-DAG: #[[WHOLE:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[COLUMN:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @rows
// CHECK: %[[S:.+]] = math.sin
// CHECK: linalg.generic {indexing_maps = [#[[WHOLE]], #[[COLUMN]], #[[WHOLE]]]{{.*}} outs(%{{.+}} : tensor<5x8xf32>)
// CHECK: %[[C:.+]] = linalg.generic {indexing_maps = [#[[WHOLE]], #[[WHOLE]]]{{.*}} outs(%{{.+}} : tensor<5x8xf16>)
// CHECK: %[[T:.+]] = linalg.generic {{.*}} ins(%[[C]] : tensor<5x8xf16>) outs(%{{.+}} : tensor<8x5xf16>)
// CHECK: linalg.matmul ins(%[[T]]
// CPU-LABEL: func.func @rows
// CPU: outs(%{{.+}} : tensor<8x5xf32>)
func.func @rows(%x: tensor<5x8xf32>, %g: tensor<8xf32>, %v: tensor<5x3xf16>) -> tensor<8x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x8xf32>
  %s = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x8xf32>) outs(%e : tensor<5x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.sin %a : f32
    linalg.yield %p : f32
  } -> tensor<5x8xf32>
  %e1 = tensor.empty() : tensor<8x5xf32>
  %m = linalg.generic {indexing_maps = [#t, #r, #i], iterator_types = ["parallel", "parallel"]} ins(%s, %g : tensor<5x8xf32>, tensor<8xf32>) outs(%e1 : tensor<8x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8x5xf32>
  %e2 = tensor.empty() : tensor<8x5xf16>
  %h = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<8x5xf32>) outs(%e2 : tensor<8x5xf16>) {
  ^bb0(%a: f32, %o: f16):
    %p = arith.truncf %a : f32 to f16
    linalg.yield %p : f16
  } -> tensor<8x5xf16>
  %e3 = tensor.empty() : tensor<8x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e3 : tensor<8x3xf32>) -> tensor<8x3xf32>
  %r = linalg.matmul ins(%h, %v : tensor<8x5xf16>, tensor<5x3xf16>) outs(%z : tensor<8x3xf32>) -> tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}

// -----

#t = affine_map<(i, j, k) -> (i, k, j)>
#i = affine_map<(i, j, k) -> (i, j, k)>

// The transposed dimension is merged with another one in front of the matmul.
// CHECK-LABEL: func.func @no_rewrite_in_front_of_a_merge
// CHECK: outs(%{{.+}} : tensor<2x8x5xf32>)
// CHECK: tensor.collapse_shape
func.func @no_rewrite_in_front_of_a_merge(%x: tensor<2x5x8xf32>, %v: tensor<5x3xf32>) -> tensor<16x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5x8xf32>
  %s = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x5x8xf32>) outs(%e : tensor<2x5x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.sin %a : f32
    linalg.yield %p : f32
  } -> tensor<2x5x8xf32>
  %e1 = tensor.empty() : tensor<2x8x5xf32>
  %m = linalg.generic {indexing_maps = [#t, #i], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x5x8xf32>) outs(%e1 : tensor<2x8x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<2x8x5xf32>
  %c = tensor.collapse_shape %m [[0, 1], [2]] : tensor<2x8x5xf32> into tensor<16x5xf32>
  %e3 = tensor.empty() : tensor<16x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e3 : tensor<16x3xf32>) -> tensor<16x3xf32>
  %r = linalg.matmul ins(%c, %v : tensor<16x5xf32>, tensor<5x3xf32>) outs(%z : tensor<16x3xf32>) -> tensor<16x3xf32>
  return %r : tensor<16x3xf32>
}
