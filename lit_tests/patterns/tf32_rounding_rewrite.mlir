// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --float32-conv-precision=high --pipeline=tf32_rounding_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=tf32_rounding_rewrite | FileCheck %s --check-prefix=OFF

// The copy of an image in front of its padding is rounded, unless it is infinite or NaN.
// CHECK-LABEL: @copied_image
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<512x16x8x8xf32>)
// CHECK: ^bb0(%[[I:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[B:.*]] = arith.bitcast %[[I]] : f32 to i32
// CHECK: %[[A:.*]] = arith.addi %[[B]], %{{.*}} : i32
// CHECK: %[[N:.*]] = arith.andi %[[A]], %{{.*}} : i32
// CHECK: %[[P:.*]] = arith.andi %[[B]], %{{.*}} : i32
// CHECK: %[[F:.*]] = arith.cmpi ne, %[[P]], %{{.*}} : i32
// CHECK: %[[S:.*]] = arith.select %[[F]], %[[N]], %[[B]] : i32
// CHECK: %[[R:.*]] = arith.bitcast %[[S]] : i32 to f32
// CHECK: linalg.yield %[[R]]
// CHECK: tensor.pad %[[T]]
// OFF-LABEL: @copied_image
// OFF-NOT: arith.bitcast
#image = affine_map<(n, h, w, f, c, i, j) -> (n, h + i, w + j, c)>
#filter = affine_map<(n, h, w, f, c, i, j) -> (f, i, j, c)>
#out = affine_map<(n, h, w, f, c, i, j) -> (n, h, w, f)>
#id = affine_map<(n, h, w, c) -> (n, h, w, c)>
#read = affine_map<(n, h, w, c) -> (n, c, h, w)>
func.func @copied_image(%x: tensor<512x16x8x8xf32>, %w: tensor<32x3x3x16xf32>) -> tensor<512x8x8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<512x8x8x16xf32>
  %t = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<512x16x8x8xf32>) outs(%et : tensor<512x8x8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<512x8x8x16xf32>
  %p = tensor.pad %t low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<512x8x8x16xf32> to tensor<512x10x10x16xf32>
  %e = tensor.empty() : tensor<512x8x8x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<512x8x8x32xf32>) -> tensor<512x8x8x32xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<512x10x10x16xf32>, tensor<32x3x3x16xf32>) outs(%z : tensor<512x8x8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<512x8x8x32xf32>
  return %y : tensor<512x8x8x32xf32>
}

// -----

// Another op reads the activation, too, which is not rounded for it.
// CHECK-LABEL: @no_rewrite
// CHECK-NOT: arith.bitcast
// OFF-LABEL: @no_rewrite
#image = affine_map<(n, h, w, f, c, i, j) -> (n, h + i, w + j, c)>
#filter = affine_map<(n, h, w, f, c, i, j) -> (f, i, j, c)>
#out = affine_map<(n, h, w, f, c, i, j) -> (n, h, w, f)>
#id = affine_map<(n, h, w, c) -> (n, h, w, c)>
func.func @no_rewrite(%x: tensor<512x10x10x16xf32>, %w: tensor<32x3x3x16xf32>) -> (tensor<512x8x8x32xf32>, tensor<512x10x10x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<512x10x10x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<512x10x10x16xf32>) outs(%et : tensor<512x10x10x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = math.absf %i : f32
    linalg.yield %n : f32
  } -> tensor<512x10x10x16xf32>
  %e = tensor.empty() : tensor<512x8x8x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<512x8x8x32xf32>) -> tensor<512x8x8x32xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%t, %w : tensor<512x10x10x16xf32>, tensor<32x3x3x16xf32>) outs(%z : tensor<512x8x8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<512x8x8x32xf32>
  return %y, %t : tensor<512x8x8x32xf32>, tensor<512x10x10x16xf32>
}

// -----

// A small convolution is computed in f32, as cuDNN does.
// CHECK-LABEL: @no_rewrite_of_few_operations
// CHECK-NOT: arith.bitcast
// OFF-LABEL: @no_rewrite_of_few_operations
#image = affine_map<(n, h, w, f, c, i, j) -> (n, h + i, w + j, c)>
#filter = affine_map<(n, h, w, f, c, i, j) -> (f, i, j, c)>
#out = affine_map<(n, h, w, f, c, i, j) -> (n, h, w, f)>
#id = affine_map<(n, h, w, c) -> (n, h, w, c)>
#read = affine_map<(n, h, w, c) -> (n, c, h, w)>
func.func @no_rewrite_of_few_operations(%x: tensor<2x16x8x8xf32>, %w: tensor<32x3x3x16xf32>) -> tensor<2x8x8x32xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<2x8x8x16xf32>
  %t = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x16x8x8xf32>) outs(%et : tensor<2x8x8x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x8x8x16xf32>
  %p = tensor.pad %t low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<2x8x8x16xf32> to tensor<2x10x10x16xf32>
  %e = tensor.empty() : tensor<2x8x8x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8x32xf32>) -> tensor<2x8x8x32xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<2x10x10x16xf32>, tensor<32x3x3x16xf32>) outs(%z : tensor<2x8x8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8x32xf32>
  return %y : tensor<2x8x8x32xf32>
}
