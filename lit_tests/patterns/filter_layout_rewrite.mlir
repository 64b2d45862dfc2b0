// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=filter_layout_rewrite | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=DEFAULT %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=filter_layout_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --enable-pass=filter_layout_rewrite --pipeline=filter_layout_rewrite | FileCheck %s --check-prefix=OFF
// DEFAULT: filter_layout_rewrite
// OFF-NOT: util.global.load

// PyTorch's order has the filter taps innermost; K becomes contiguous.
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 * 2 + d4, d2 * 2 + d5, d6)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6)>
// CHECK: util.global private @filter : tensor<32x3x2x16xf16>
// CHECK: %[[K:.*]] = arith.constant dense<2.000000e+00> : tensor<32x16x3x2xf16>
// CHECK: %[[T:.*]] = linalg.generic {indexing_maps = [#[[READ]], {{.*}} ins(%[[K]] : {{.*}} outs({{.*}} : tensor<32x3x2x16xf16>)
// CHECK: ^bb0(%[[A:.*]]: f16, %{{.*}}: f16):
// CHECK-NEXT: linalg.yield %[[A]]
// CHECK: util.global.store %[[T]], @filter
// CHECK-LABEL: @taps_innermost
// CHECK-SAME: %[[X:.*]]: tensor<2x13x12x16xf16>, %[[S:.*]]: tensor<2x6x6x32xf32>
// CHECK: %[[Z:.*]] = linalg.fill {{.*}} outs(%[[S]] :
// CHECK: %[[P:.*]] = util.global.load immutable @filter
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[FILTER]], {{.*}} ins(%[[X]], %[[P]] : {{.*}} outs(%[[Z]] :
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: return %[[Y]]
#x = affine_map<(b, h, w, f, i, j, c) -> (b, h * 2 + i, w * 2 + j, c)>
#w = affine_map<(b, h, w, f, i, j, c) -> (f, c, i, j)>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
func.func @taps_innermost(%x: tensor<2x13x12x16xf16>, %s: tensor<2x6x6x32xf32>) -> tensor<2x6x6x32xf32> {
  %w = arith.constant dense<2.0> : tensor<32x16x3x2xf16>
  %zero = arith.constant 0.0 : f32
  %o = linalg.fill ins(%zero : f32) outs(%s : tensor<2x6x6x32xf32>) -> tensor<2x6x6x32xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<2x13x12x16xf16>, tensor<32x16x3x2xf16>) outs(%o : tensor<2x6x6x32xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u : f32
  } -> tensor<2x6x6x32xf32>
  return %y : tensor<2x6x6x32xf32>
}

// -----

// With few channels the output channels become contiguous. The filter is a parameter.
// CHECK: #[[READ:.*]] = affine_map<(d0, d1, d2, d3) -> (d3, d0, d1, d2)>
// CHECK: util.global private @filter : tensor<3x3x3x8xbf16>
// CHECK: %[[K:.*]] = flow.tensor.constant {{.*}} : tensor<8x3x3x3xbf16>
// CHECK: linalg.generic {indexing_maps = [#[[READ]], {{.*}} ins(%[[K]] :
// CHECK-LABEL: @few_channels_of_a_parameter
// CHECK: %[[P:.*]] = util.global.load immutable @filter
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[P]] :
#x = affine_map<(b, h, w, f, i, j, c) -> (b, h + i, w + j, c)>
#w = affine_map<(b, h, w, f, i, j, c) -> (f, i, j, c)>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
util.func public @few_channels_of_a_parameter(%x: tensor<?x9x8x3xbf16>, %s: tensor<?x7x6x8xf32>) -> tensor<?x7x6x8xf32> {
  %w = flow.tensor.constant #flow.parameter.named<"weights"::"0"> : tensor<8x3x3x3xbf16>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x9x8x3xbf16>
  %e = tensor.empty(%n) : tensor<?x7x6x8xf32>
  %o = linalg.fill ins(%zero : f32) outs(%e : tensor<?x7x6x8xf32>) -> tensor<?x7x6x8xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %w : tensor<?x9x8x3xbf16>, tensor<8x3x3x3xbf16>) outs(%o : tensor<?x7x6x8xf32>) {
  ^bb0(%i: bf16, %j: bf16, %t: f32):
    %p = arith.extf %i : bf16 to f32
    %q = arith.extf %j : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u : f32
  } -> tensor<?x7x6x8xf32>
  util.return %y : tensor<?x7x6x8xf32>
}

// -----

// The constant of a 1x1 convolution still has its dimensions of taps.
// CHECK: util.global private @filter : tensor<24x16xf16>
// CHECK: %[[K:.*]] = arith.constant dense<2.000000e+00> : tensor<1x1x16x24xf16>
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[K]] {{.*}} into tensor<16x24xf16>
// CHECK: linalg.generic {{.*}} ins(%[[C]] :
// CHECK-LABEL: @pixels_alone
// CHECK: %[[P:.*]] = util.global.load immutable @filter
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[P]] :
#x = affine_map<(b, h, w, f, c) -> (b, h, w, c)>
#w = affine_map<(b, h, w, f, c) -> (c, f)>
#y = affine_map<(b, h, w, f, c) -> (b, h, w, f)>
func.func @pixels_alone(%x: tensor<2x6x5x16xf16>) -> tensor<2x6x5x24xf32> {
  %k = arith.constant dense<2.0> : tensor<1x1x16x24xf16>
  %w = tensor.collapse_shape %k [[0, 1, 2], [3]] : tensor<1x1x16x24xf16> into tensor<16x24xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x5x24xf32>
  %o = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x5x24xf32>) -> tensor<2x6x5x24xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x6x5x16xf16>, tensor<16x24xf16>) outs(%o : tensor<2x6x5x24xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u : f32
  } -> tensor<2x6x5x24xf32>
  return %y : tensor<2x6x5x24xf32>
}

// -----

// An argument is transposed in the program, where its output channels are not innermost, and where
// it is of f32.
// CHECK: #[[READ:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1, d2)>
// CHECK-LABEL: @argument
// CHECK-SAME: %[[X:.*]]: tensor<1x4x4x16xf32>, %[[A:.*]]: tensor<8x16x3x3xf32>, %[[B:.*]]: tensor<3x3x16x8xf32>
// CHECK: %[[T:.*]] = linalg.generic {indexing_maps = [#[[READ]], {{.*}} ins(%[[A]] : {{.*}} outs({{.*}} : tensor<8x3x3x16xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[T]] :
// CHECK: %[[U:.*]] = linalg.generic {{.*}} ins(%[[B]] : {{.*}} outs({{.*}} : tensor<8x3x3x16xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[U]] :
#x = affine_map<(b, h, w, f, i, j, c) -> (b, h + i, w + j, c)>
#fcij = affine_map<(b, h, w, f, i, j, c) -> (f, c, i, j)>
#ijcf = affine_map<(b, h, w, f, i, j, c) -> (i, j, c, f)>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
func.func @argument(%x: tensor<1x4x4x16xf32>, %a: tensor<8x16x3x3xf32>, %b: tensor<3x3x16x8xf32>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x2x2x8xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
  %0 = linalg.generic {indexing_maps = [#x, #fcij, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %a : tensor<1x4x4x16xf32>, tensor<8x16x3x3xf32>) outs(%s : tensor<1x2x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %t: f32):
    %g = arith.mulf %i, %j : f32
    %u = arith.addf %t, %g : f32
    linalg.yield %u : f32
  } -> tensor<1x2x2x8xf32>
  %1 = linalg.generic {indexing_maps = [#x, #ijcf, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %b : tensor<1x4x4x16xf32>, tensor<3x3x16x8xf32>) outs(%s : tensor<1x2x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %t: f32):
    %g = arith.mulf %i, %j : f32
    %u = arith.addf %t, %g : f32
    linalg.yield %u : f32
  } -> tensor<1x2x2x8xf32>
  return %0, %1 : tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>
}

// -----

// Groups, with channels first: 17 channels are not aligned, 24 output channels are. The second filter
// has 16 channels: they become innermost.
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3, d1, d2)>
// CHECK-DAG: #[[INNER:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4, d2, d3)>
// CHECK-LABEL: @groups
// CHECK-SAME: %[[X:.*]]: tensor<1x2x17x4x4xf16>, %[[A:.*]]: tensor<2x24x17x3x3xf16>, %[[Z:.*]]: tensor<1x2x16x4x4xf16>, %[[B:.*]]: tensor<2x24x16x3x3xf16>
// CHECK: %[[T:.*]] = linalg.generic {indexing_maps = [#[[READ]], {{.*}} ins(%[[A]] : {{.*}} outs({{.*}} : tensor<2x3x3x17x24xf16>)
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[T]] :
// CHECK: %[[U:.*]] = linalg.generic {indexing_maps = [#[[INNER]], {{.*}} ins(%[[B]] : {{.*}} outs({{.*}} : tensor<2x24x3x3x16xf16>)
// CHECK: linalg.generic {{.*}} ins(%[[Z]], %[[U]] :
#gx = affine_map<(b, g, f, h, w, c, i, j) -> (b, g, c, h + i, w + j)>
#gw = affine_map<(b, g, f, h, w, c, i, j) -> (g, f, c, i, j)>
#gy = affine_map<(b, g, f, h, w, c, i, j) -> (b, g, f, h, w)>
func.func @groups(%x: tensor<1x2x17x4x4xf16>, %a: tensor<2x24x17x3x3xf16>, %z: tensor<1x2x16x4x4xf16>, %b: tensor<2x24x16x3x3xf16>) -> (tensor<1x2x24x2x2xf32>, tensor<1x2x24x2x2xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x2x24x2x2xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x2x24x2x2xf32>) -> tensor<1x2x24x2x2xf32>
  %0 = linalg.generic {indexing_maps = [#gx, #gw, #gy], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %a : tensor<1x2x17x4x4xf16>, tensor<2x24x17x3x3xf16>) outs(%s : tensor<1x2x24x2x2xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u : f32
  } -> tensor<1x2x24x2x2xf32>
  %1 = linalg.generic {indexing_maps = [#gx, #gw, #gy], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%z, %b : tensor<1x2x16x4x4xf16>, tensor<2x24x16x3x3xf16>) outs(%s : tensor<1x2x24x2x2xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u : f32
  } -> tensor<1x2x24x2x2xf32>
  return %0, %1 : tensor<1x2x24x2x2xf32>, tensor<1x2x24x2x2xf32>
}

// -----

// Groups of few channels have a kernel that reads one element for all positions.
// CHECK-LABEL: @no_rewrite_of_small_groups
// CHECK-SAME: %[[X:.*]]: tensor<1x2x5x4x4xf16>, %[[A:.*]]: tensor<2x5x5x3x3xf16>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[A]] :
#sx = affine_map<(b, g, f, h, w, c, i, j) -> (b, g, c, h + i, w + j)>
#sw = affine_map<(b, g, f, h, w, c, i, j) -> (g, f, c, i, j)>
#sy = affine_map<(b, g, f, h, w, c, i, j) -> (b, g, f, h, w)>
func.func @no_rewrite_of_small_groups(%x: tensor<1x2x5x4x4xf16>, %a: tensor<2x5x5x3x3xf16>) -> tensor<1x2x5x2x2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x2x5x2x2xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x2x5x2x2xf32>) -> tensor<1x2x5x2x2xf32>
  %0 = linalg.generic {indexing_maps = [#sx, #sw, #sy], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %a : tensor<1x2x5x4x4xf16>, tensor<2x5x5x3x3xf16>) outs(%s : tensor<1x2x5x2x2xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u : f32
  } -> tensor<1x2x5x2x2xf32>
  return %0 : tensor<1x2x5x2x2xf32>
}

// -----

// Of few channels of an image with channels first a block of K spans the taps, as the rows of the
// filter do. The last two are as they should be, of many channels and of few.
// CHECK-LABEL: @no_rewrite
// CHECK-SAME: %[[X:.*]]: tensor<1x4x4x16xf16>, %[[Y:.*]]: tensor<1x4x4x4xf16>, %[[Z:.*]]: tensor<1x4x4x4xf16>, %[[A:.*]]: tensor<8x3x3x16xf16>
// CHECK-DAG: %[[W:.*]] = arith.constant dense<2.000000e+00> : tensor<8x4x3x3xf16>
// CHECK-DAG: %[[M:.*]] = arith.constant dense<3.000000e+00> : tensor<8x3x3x16xf16>
// CHECK-DAG: %[[F:.*]] = arith.constant dense<4.000000e+00> : tensor<3x3x4x8xf16>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[A]] :
// CHECK: linalg.generic {{.*}} ins(%[[Y]], %[[W]] :
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[M]] :
// CHECK: linalg.generic {{.*}} ins(%[[Z]], %[[F]] :
#last = affine_map<(b, h, w, f, i, j, c) -> (b, h + i, w + j, c)>
#first = affine_map<(b, h, w, f, i, j, c) -> (b, c, h + i, w + j)>
#fcij = affine_map<(b, h, w, f, i, j, c) -> (f, c, i, j)>
#fijc = affine_map<(b, h, w, f, i, j, c) -> (f, i, j, c)>
#ijcf = affine_map<(b, h, w, f, i, j, c) -> (i, j, c, f)>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
func.func @no_rewrite(%x: tensor<1x4x4x16xf16>, %y: tensor<1x4x4x4xf16>, %z: tensor<1x4x4x4xf16>, %a: tensor<8x3x3x16xf16>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>) {
  %w = arith.constant dense<2.0> : tensor<8x4x3x3xf16>
  %m = arith.constant dense<3.0> : tensor<8x3x3x16xf16>
  %f = arith.constant dense<4.0> : tensor<3x3x4x8xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x2x2x8xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
  %0 = linalg.generic {indexing_maps = [#last, #fijc, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %a : tensor<1x4x4x16xf16>, tensor<8x3x3x16xf16>) outs(%s : tensor<1x2x2x8xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %g = arith.mulf %p, %q : f32
    %u = arith.addf %t, %g : f32
    linalg.yield %u : f32
  } -> tensor<1x2x2x8xf32>
  %1 = linalg.generic {indexing_maps = [#first, #fcij, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%y, %w : tensor<1x4x4x4xf16>, tensor<8x4x3x3xf16>) outs(%s : tensor<1x2x2x8xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %g = arith.mulf %p, %q : f32
    %u = arith.addf %t, %g : f32
    linalg.yield %u : f32
  } -> tensor<1x2x2x8xf32>
  %2 = linalg.generic {indexing_maps = [#last, #fijc, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%x, %m : tensor<1x4x4x16xf16>, tensor<8x3x3x16xf16>) outs(%s : tensor<1x2x2x8xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %g = arith.mulf %p, %q : f32
    %u = arith.addf %t, %g : f32
    linalg.yield %u : f32
  } -> tensor<1x2x2x8xf32>
  %3 = linalg.generic {indexing_maps = [#last, #ijcf, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%z, %f : tensor<1x4x4x4xf16>, tensor<3x3x4x8xf16>) outs(%s : tensor<1x2x2x8xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %g = arith.mulf %p, %q : f32
    %u = arith.addf %t, %g : f32
    linalg.yield %u : f32
  } -> tensor<1x2x2x8xf32>
  return %0, %1, %2, %3 : tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>
}

// -----

// Of many channels a block of K is channels of one tap, whatever the order of the image.
// CHECK-DAG: #[[TAPS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6)>
// CHECK-LABEL: @channels_first
// CHECK-SAME: %[[Y:.*]]: tensor<1x16x4x4xf16>, %[[W:.*]]: tensor<8x16x3x3xf16>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[W]] : {{.*}} outs(%{{.*}} : tensor<8x3x3x16xf16>)
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[TAPS]], {{.*}} ins(%[[Y]], %[[T]] :
#first = affine_map<(b, h, w, f, i, j, c) -> (b, c, h + i, w + j)>
#fcij = affine_map<(b, h, w, f, i, j, c) -> (f, c, i, j)>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
func.func @channels_first(%y: tensor<1x16x4x4xf16>, %w: tensor<8x16x3x3xf16>) -> tensor<1x2x2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x2x2x8xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
  %0 = linalg.generic {indexing_maps = [#first, #fcij, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%y, %w : tensor<1x16x4x4xf16>, tensor<8x16x3x3xf16>) outs(%s : tensor<1x2x2x8xf32>) {
  ^bb0(%i: f16, %j: f16, %t: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %g = arith.mulf %p, %q : f32
    %u = arith.addf %t, %g : f32
    linalg.yield %u : f32
  } -> tensor<1x2x2x8xf32>
  return %0 : tensor<1x2x2x8xf32>
}
