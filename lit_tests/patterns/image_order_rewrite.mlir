// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=image_order_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=image_order_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=image_order_rewrite | FileCheck %s --check-prefix=CPU

// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 + d4, d2 + d5, d3)>
// CHECK-LABEL: @channels_last_padded
// CHECK-SAME: %[[X:.*]]: tensor<2x8x8x16xf32>, %[[W:.*]]: tensor<16x3x3xf32>
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 0, 1, 0] high[0, 2, 1, 0]
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], {{.*}} ins(%[[P]], %[[W]] :
// OFF-LABEL: @channels_last_padded
// A depthwise convolution with channels first is moved to channels last before, on a CPU.
// CPU-LABEL: @channels_last_padded
// CPU: tensor.pad {{.*}} low[0, 0, 0, 1] high[0, 0, 2, 1]
// OFF: tensor.pad {{.*}} low[0, 0, 0, 1] high[0, 0, 2, 1]
#image = affine_map<(n, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, h, w, c, i, j) -> (c, i, j)>
#out = affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#read = affine_map<(n, c, h, w) -> (n, h, w, c)>
func.func @channels_last_padded(%x: tensor<2x8x8x16xf32>, %w: tensor<16x3x3xf32>) -> tensor<2x8x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<2x8x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
  %et = tensor.empty() : tensor<2x16x8x8xf32>
  %t = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x8x8x16xf32>) outs(%et : tensor<2x16x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x16x8x8xf32>
  %p = tensor.pad %t low[0, 0, 0, 1] high[0, 0, 2, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<2x16x8x8xf32> to tensor<2x16x10x10xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x16x10x10xf32>, tensor<16x3x3xf32>) outs(%z : tensor<2x8x8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8x16xf32>
  return %y : tensor<2x8x8x16xf32>
}

// -----

// CHECK-LABEL: @channels_last
// CHECK-SAME: %[[X:.*]]: tensor<2x10x10x16xf32>, %[[W:.*]]: tensor<16x3x3xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[W]] :
#image = affine_map<(n, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, h, w, c, i, j) -> (c, i, j)>
#out = affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#read = affine_map<(n, c, h, w) -> (n, h, w, c)>
func.func @channels_last(%x: tensor<2x10x10x16xf32>, %w: tensor<16x3x3xf32>) -> tensor<2x8x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<2x8x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
  %ep = tensor.empty() : tensor<2x16x10x10xf32>
  %p = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x10x10x16xf32>) outs(%ep : tensor<2x16x10x10xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x16x10x10xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x16x10x10xf32>, tensor<16x3x3xf32>) outs(%z : tensor<2x8x8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8x16xf32>
  return %y : tensor<2x8x8x16xf32>
}

// -----

// Its rows are last: loads of channels would not be adjacent.
// CHECK-LABEL: @no_rewrite_rows_last
// CHECK: %[[T:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<2x16x10x10xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[T]], %
#image = affine_map<(n, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, h, w, c, i, j) -> (c, i, j)>
#out = affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#read = affine_map<(n, c, h, w) -> (n, c, w, h)>
func.func @no_rewrite_rows_last(%x: tensor<2x16x10x10xf32>, %w: tensor<16x3x3xf32>) -> tensor<2x8x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<2x8x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
  %ep = tensor.empty() : tensor<2x16x10x10xf32>
  %p = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x16x10x10xf32>) outs(%ep : tensor<2x16x10x10xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x16x10x10xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x16x10x10xf32>, tensor<16x3x3xf32>) outs(%z : tensor<2x8x8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8x16xf32>
  return %y : tensor<2x8x8x16xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_computed
// CHECK: math.absf
// CHECK: %[[P:.*]] = tensor.pad
// CHECK: linalg.generic {{.*}} ins(%[[P]], %
#image = affine_map<(n, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, h, w, c, i, j) -> (c, i, j)>
#out = affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#read = affine_map<(n, c, h, w) -> (n, h, w, c)>
func.func @no_rewrite_computed(%x: tensor<2x8x8x16xf32>, %w: tensor<16x3x3xf32>) -> tensor<2x8x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<2x8x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
  %et = tensor.empty() : tensor<2x16x8x8xf32>
  %t = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x8x8x16xf32>) outs(%et : tensor<2x16x8x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.absf %i : f32
    linalg.yield %r : f32
  } -> tensor<2x16x8x8xf32>
  %p = tensor.pad %t low[0, 0, 0, 1] high[0, 0, 2, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<2x16x8x8xf32> to tensor<2x16x10x10xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x16x10x10xf32>, tensor<16x3x3xf32>) outs(%z : tensor<2x8x8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8x16xf32>
  return %y : tensor<2x8x8x16xf32>
}

// -----

// A repetition is no transpose.
// CHECK-LABEL: @no_rewrite_repeated
// CHECK: %[[P:.*]] = linalg.generic {{.*}} outs({{.*}} : tensor<2x16x10x10xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[P]], %
#image = affine_map<(n, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, h, w, c, i, j) -> (c, i, j)>
#out = affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#read = affine_map<(n, c, h, w) -> (h, w, c)>
func.func @no_rewrite_repeated(%x: tensor<10x10x16xf32>, %w: tensor<16x3x3xf32>) -> tensor<2x8x8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<2x8x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
  %ep = tensor.empty() : tensor<2x16x10x10xf32>
  %p = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<10x10x16xf32>) outs(%ep : tensor<2x16x10x10xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x16x10x10xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x16x10x10xf32>, tensor<16x3x3xf32>) outs(%z : tensor<2x8x8x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8x16xf32>
  return %y : tensor<2x8x8x16xf32>
}

// -----

// The split of the channels into groups moves, too.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d2 + d4, d0, d3)>
// CHECK-LABEL: @groups_last_padded
// CHECK-SAME: %[[X:.*]]: tensor<40x8xf32>, %[[W:.*]]: tensor<2x5x4x3xf32>
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[1, 0] high[1, 0]
// CHECK: %[[G:.*]] = tensor.expand_shape %[[P]] {{\[\[}}0], [1, 2]]
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], {{.*}} ins(%[[G]], %[[W]] :
// CPU-LABEL: @groups_last_padded
// CPU-SAME: %[[X:.*]]: tensor<40x8xf32>, %[[W:.*]]: tensor<2x5x4x3xf32>
// CPU: %[[P:.*]] = tensor.pad %[[X]] low[1, 0] high[1, 0]
// CPU: %[[G:.*]] = tensor.expand_shape %[[P]] {{\[\[}}0], [1, 2]]
// CPU: linalg.generic {{.*}} ins(%[[G]], %[[W]] :
#image = affine_map<(g, f, w, c, j) -> (g, c, w + j)>
#filter = affine_map<(g, f, w, c, j) -> (g, f, c, j)>
#out = affine_map<(g, f, w, c, j) -> (g, f, w)>
#id = affine_map<(c, w) -> (c, w)>
#read = affine_map<(c, w) -> (w, c)>
func.func @groups_last_padded(%x: tensor<40x8xf32>, %w: tensor<2x5x4x3xf32>) -> tensor<2x5x40xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<2x5x40xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x5x40xf32>) -> tensor<2x5x40xf32>
  %et = tensor.empty() : tensor<8x40xf32>
  %t = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<40x8xf32>) outs(%et : tensor<8x40xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<8x40xf32>
  %p = tensor.pad %t low[0, 1] high[0, 1] {
  ^bb0(%a: index, %b: index):
    tensor.yield %zero : f32
  } : tensor<8x40xf32> to tensor<8x42xf32>
  %s = tensor.expand_shape %p [[0, 1], [2]] output_shape [2, 4, 42] : tensor<8x42xf32> into tensor<2x4x42xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x4x42xf32>, tensor<2x5x4x3xf32>) outs(%z : tensor<2x5x40xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %q = arith.addf %o, %m : f32
    linalg.yield %q : f32
  } -> tensor<2x5x40xf32>
  return %y : tensor<2x5x40xf32>
}

// -----

// The image of a single output channel is read with channels first on a GPU, and so is its filter.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d5, d1 + d3, d2 + d4)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d3, d4)>
// CHECK-LABEL: @single_output
// CHECK-SAME: %[[X:.*]]: tensor<2x16x10x10xf32>, %[[W:.*]]: tensor<16x3x3xf32>
// CHECK: linalg.generic {indexing_maps = [#[[IMAGE]], #[[FILTER]], {{.*}} ins(%[[X]], %[[W]] :
// CPU-LABEL: @single_output
// CPU-NOT: ins(%{{.*}}, %{{.*}} : tensor<2x16x10x10xf32>
// CPU: return
#image = affine_map<(n, h, w, i, j, c) -> (n, h + i, w + j, c)>
#filter = affine_map<(n, h, w, i, j, c) -> (i, j, c)>
#out = affine_map<(n, h, w, i, j, c) -> (n, h, w)>
#id = affine_map<(n, h, w, c) -> (n, h, w, c)>
#read = affine_map<(n, h, w, c) -> (n, c, h, w)>
#taps = affine_map<(i, j, c) -> (i, j, c)>
#read_taps = affine_map<(i, j, c) -> (c, i, j)>
func.func @single_output(%x: tensor<2x16x10x10xf32>, %w: tensor<16x3x3xf32>) -> tensor<2x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<2x8x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %ep = tensor.empty() : tensor<2x10x10x16xf32>
  %p = linalg.generic {indexing_maps = [#read, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x16x10x10xf32>) outs(%ep : tensor<2x10x10x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x10x10x16xf32>
  %et = tensor.empty() : tensor<3x3x16xf32>
  %t = linalg.generic {indexing_maps = [#read_taps, #taps], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<16x3x3xf32>) outs(%et : tensor<3x3x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<3x3x16xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %t : tensor<2x10x10x16xf32>, tensor<3x3x16xf32>) outs(%z : tensor<2x8x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x8x8xf32>
  return %y : tensor<2x8x8xf32>
}
