// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=operand_order_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=rocm:gfx942 --pipeline=operand_order_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=DEFAULT

// A 1x1 convolution with channels first: the image is the first operand, its pixels are M.
// DEFAULT: operand_order_rewrite
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2, d3)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @filter_after_image
// CHECK-SAME: %[[X:.*]]: tensor<?x32x7x5xf16>, %[[W:.*]]: tensor<48x32xf16>, %[[S:.*]]: tensor<?x48x7x5xf32>
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[FILTER]], #[[IMAGE]], #[[OUT]]], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%[[W]], %[[X]] : tensor<48x32xf16>, tensor<?x32x7x5xf16>) outs(%[[S]] : tensor<?x48x7x5xf32>)
// CHECK: ^bb0(%[[A:.*]]: f16, %[[B:.*]]: f16, %[[O:.*]]: f32):
// CHECK: %[[P:.*]] = arith.extf %[[B]] : f16 to f32
// CHECK: %[[Q:.*]] = arith.extf %[[A]] : f16 to f32
// CHECK: %[[M:.*]] = arith.mulf %[[P]], %[[Q]] : f32
// CHECK: arith.addf %[[O]], %[[M]] : f32
// CHECK: return %[[Y]]
// OFF-LABEL: @filter_after_image
// OFF-SAME: %[[X:.*]]: tensor<?x32x7x5xf16>, %[[W:.*]]: tensor<48x32xf16>
// OFF: linalg.generic {{.*}} ins(%[[X]], %[[W]] :
#image = affine_map<(b, f, h, w, c) -> (b, c, h, w)>
#filter = affine_map<(b, f, h, w, c) -> (f, c)>
#out = affine_map<(b, f, h, w, c) -> (b, f, h, w)>
func.func @filter_after_image(%x: tensor<?x32x7x5xf16>, %w: tensor<48x32xf16>, %s: tensor<?x48x7x5xf32>) -> tensor<?x48x7x5xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x32x7x5xf16>, tensor<48x32xf16>) outs(%s : tensor<?x48x7x5xf32>) {
  ^bb0(%i: f16, %j: f16, %o: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<?x48x7x5xf32>
  return %y : tensor<?x48x7x5xf32>
}

// -----

// The order of the loops counts, whatever the order of the result's dimensions.
// CHECK-LABEL: @columns_first_bf16
// CHECK-SAME: %[[X:.*]]: tensor<64x32xbf16>, %[[W:.*]]: tensor<48x32xbf16>
// CHECK: linalg.generic {{.*}} ins(%[[W]], %[[X]] :
#a = affine_map<(n, m, k) -> (m, k)>
#b = affine_map<(n, m, k) -> (n, k)>
#c = affine_map<(n, m, k) -> (m, n)>
func.func @columns_first_bf16(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %s: tensor<64x48xbf16>) -> tensor<64x48xbf16> {
  %y = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<64x32xbf16>, tensor<48x32xbf16>) outs(%s : tensor<64x48xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %m = arith.mulf %i, %j : bf16
    %t = arith.addf %o, %m : bf16
    linalg.yield %t : bf16
  } -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}

// -----

// CHECK-LABEL: @no_rewrite_rows_first
// CHECK-SAME: %[[X:.*]]: tensor<64x32xf16>, %[[W:.*]]: tensor<48x32xf16>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[W]] :
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (n, m)>
func.func @no_rewrite_rows_first(%x: tensor<64x32xf16>, %w: tensor<48x32xf16>, %s: tensor<48x64xf16>) -> tensor<48x64xf16> {
  %y = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<64x32xf16>, tensor<48x32xf16>) outs(%s : tensor<48x64xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %m = arith.mulf %i, %j : f16
    %t = arith.addf %o, %m : f16
    linalg.yield %t : f16
  } -> tensor<48x64xf16>
  return %y : tensor<48x64xf16>
}

// -----

// CHECK-LABEL: @no_rewrite_f32
// CHECK-SAME: %[[X:.*]]: tensor<64x32xf32>, %[[W:.*]]: tensor<48x32xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[W]] :
#a = affine_map<(n, m, k) -> (m, k)>
#b = affine_map<(n, m, k) -> (n, k)>
#c = affine_map<(n, m, k) -> (m, n)>
func.func @no_rewrite_f32(%x: tensor<64x32xf32>, %w: tensor<48x32xf32>, %s: tensor<64x48xf32>) -> tensor<64x48xf32> {
  %y = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<64x32xf32>, tensor<48x32xf32>) outs(%s : tensor<64x48xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<64x48xf32>
  return %y : tensor<64x48xf32>
}

// -----

// A matrix times a vector has no columns.
// CHECK-LABEL: @no_rewrite_vector
// CHECK-SAME: %[[X:.*]]: tensor<64x32xf16>, %[[W:.*]]: tensor<32xf16>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[W]] :
#a = affine_map<(m, k) -> (m, k)>
#b = affine_map<(m, k) -> (k)>
#c = affine_map<(m, k) -> (m)>
func.func @no_rewrite_vector(%x: tensor<64x32xf16>, %w: tensor<32xf16>, %s: tensor<64xf16>) -> tensor<64xf16> {
  %y = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "reduction"]} ins(%x, %w : tensor<64x32xf16>, tensor<32xf16>) outs(%s : tensor<64xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %m = arith.mulf %i, %j : f16
    %t = arith.addf %o, %m : f16
    linalg.yield %t : f16
  } -> tensor<64xf16>
  return %y : tensor<64xf16>
}

// -----

// Stride 2: IREE would slice the image before the contraction.
// CHECK-LABEL: @stride_two
// CHECK-SAME: %[[X:.*]]: tensor<?x32x13x9xf16>, %[[W:.*]]: tensor<48x32xf16>
// CHECK: %[[T:.*]] = tensor.extract_slice %[[X]][0, 0, 0, 0] [%{{.*}}, 32, 7, 5] [1, 1, 2, 2] : tensor<?x32x13x9xf16> to tensor<?x32x7x5xf16>
// CHECK: linalg.generic {{.*}} ins(%[[W]], %[[T]] : tensor<48x32xf16>, tensor<?x32x7x5xf16>)
// OFF-LABEL: @stride_two
// OFF-NOT: tensor.extract_slice
#image = affine_map<(b, f, h, w, c) -> (b, c, h * 2, w * 2)>
#filter = affine_map<(b, f, h, w, c) -> (f, c)>
#out = affine_map<(b, f, h, w, c) -> (b, f, h, w)>
func.func @stride_two(%x: tensor<?x32x13x9xf16>, %w: tensor<48x32xf16>, %s: tensor<?x48x7x5xf32>) -> tensor<?x48x7x5xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x32x13x9xf16>, tensor<48x32xf16>) outs(%s : tensor<?x48x7x5xf32>) {
  ^bb0(%i: f16, %j: f16, %o: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<?x48x7x5xf32>
  return %y : tensor<?x48x7x5xf32>
}

// -----

// A filter of three taps is no contraction: IREE orders its operands itself.
// CHECK-LABEL: @no_rewrite_of_several_taps
// CHECK-SAME: %[[X:.*]]: tensor<2x32x9x5xbf16>, %[[W:.*]]: tensor<48x32x3xbf16>
// CHECK-NOT: tensor.extract_slice
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[W]] :
#image = affine_map<(b, f, h, w, c, i) -> (b, c, h + i, w)>
#filter = affine_map<(b, f, h, w, c, i) -> (f, c, i)>
#out = affine_map<(b, f, h, w, c, i) -> (b, f, h, w)>
func.func @no_rewrite_of_several_taps(%x: tensor<2x32x9x5xbf16>, %w: tensor<48x32x3xbf16>, %s: tensor<2x48x7x5xf32>) -> tensor<2x48x7x5xf32> {
  %y = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x32x9x5xbf16>, tensor<48x32x3xbf16>) outs(%s : tensor<2x48x7x5xf32>) {
  ^bb0(%i: bf16, %j: bf16, %o: f32):
    %p = arith.extf %i : bf16 to f32
    %q = arith.extf %j : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<2x48x7x5xf32>
  return %y : tensor<2x48x7x5xf32>
}
