// RUN: %mlirfuse-opt %s --split-input-file --pipeline=group_norm_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=group_norm_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#bchw = affine_map<(b, c, h, w) -> (b, c, h, w)>
#channel = affine_map<(b, c, h, w) -> (c)>
#group = affine_map<(m, a, b) -> (m, a)>
#mab = affine_map<(m, a, b) -> (m, a, b)>
#mn = affine_map<(m, n) -> (m, n)>
#sum_mab_group = {indexing_maps = [#mab, #group], iterator_types = ["parallel", "parallel", "reduction"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_mab_group = {indexing_maps = [#mab, #group, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_mab = {indexing_maps = [#mab, #mab], iterator_types = ["parallel", "parallel", "parallel"]}
#map_bchw_channel = {indexing_maps = [#bchw, #channel, #bchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}

// From: torch.nn.functional.group_norm(x, 4, gamma, beta), by mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu
// CHECK-LABEL: @pytorch_group_norm
// CHECK-SAME: %[[A0:.*]]: tensor<2x8x2x3xf32>, %[[A1:.*]]: tensor<8xf32>, %[[A2:.*]]: tensor<8xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} into tensor<2x48xf32>
// CHECK: %[[V1:.*]] = tensor.expand_shape %[[V0]] {{.*}} into tensor<2x4x12xf32>
// CHECK: %[[V2:.*]] = tensor.expand_shape %[[V1]] {{.*}} into tensor<2x4x2x6xf32>
// CHECK: %[[V3:.*]] = tensor.expand_shape %[[A1]] {{.*}} into tensor<4x2xf32>
// CHECK: %[[V4:.*]] = tensor.expand_shape %[[A2]] {{.*}} into tensor<4x2xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x2x6xf32>) {{.*}}"group_norm_fusion"
// CHECK: %[[V5:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V2]] :
// CHECK: %[[V6:.*]] = linalg.generic {{.*}} ins(%[[V5]] :
// CHECK: %[[V7:.*]] = linalg.generic {{.*}} ins(%[[V2]], %[[V6]] :
// CHECK: %[[V8:.*]] = linalg.generic {{.*}} ins(%[[V7]] :
// CHECK: %[[V9:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V8]] :
// CHECK: %[[V10:.*]] = linalg.generic {{.*}} ins(%[[V9]] :
// CHECK: %[[V11:.*]] = linalg.generic {{.*}} ins(%[[V10]] :
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[V11]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[V7]], %[[V12]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[V13]], %[[V3]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V14]], %[[V4]] :
// CHECK: flow.return %[[V15]] :
// CHECK: %[[V16:.*]] = tensor.collapse_shape %[[R]] {{.*}} into tensor<2x8x6xf32>
// CHECK: %[[V17:.*]] = tensor.expand_shape %[[V16]] {{.*}} into tensor<2x8x2x3xf32>
// CHECK: return %[[V17]] :
func.func @pytorch_group_norm(%x: tensor<2x8x2x3xf32>, %gamma: tensor<8xf32>, %beta: tensor<8xf32>) -> tensor<2x8x2x3xf32> {
  %c12 = arith.constant 12.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %zero = arith.constant 0.0 : f32
  %0 = tensor.collapse_shape %x [[0], [1, 2, 3]] : tensor<2x8x2x3xf32> into tensor<2x48xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [2, 4, 12] : tensor<2x48xf32> into tensor<2x4x12xf32>
  %e = tensor.empty() : tensor<2x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = linalg.generic #sum_mab_group ins(%1 : tensor<2x4x12xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %3 = linalg.generic #map_mn ins(%2 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c12 : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %e1 = tensor.empty() : tensor<2x4x12xf32>
  %4 = linalg.generic #map_mab_group ins(%1, %3 : tensor<2x4x12xf32>, tensor<2x4xf32>) outs(%e1 : tensor<2x4x12xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x12xf32>
  %5 = linalg.generic #map_mab ins(%4 : tensor<2x4x12xf32>) outs(%e1 : tensor<2x4x12xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<2x4x12xf32>
  %6 = linalg.generic #sum_mab_group ins(%5 : tensor<2x4x12xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %7 = linalg.generic #map_mn ins(%6 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c12 : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %8 = linalg.generic #map_mn ins(%7 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %9 = linalg.generic #map_mn ins(%8 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %10 = linalg.generic #map_mab_group ins(%4, %9 : tensor<2x4x12xf32>, tensor<2x4xf32>) outs(%e1 : tensor<2x4x12xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x12xf32>
  %11 = tensor.collapse_shape %10 [[0], [1, 2]] : tensor<2x4x12xf32> into tensor<2x48xf32>
  %12 = tensor.expand_shape %11 [[0], [1, 2, 3]] output_shape [2, 8, 2, 3] : tensor<2x48xf32> into tensor<2x8x2x3xf32>
  %e2 = tensor.empty() : tensor<2x8x2x3xf32>
  %13 = linalg.generic #map_bchw_channel ins(%12, %gamma : tensor<2x8x2x3xf32>, tensor<8xf32>) outs(%e2 : tensor<2x8x2x3xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x8x2x3xf32>
  %14 = linalg.generic #map_bchw_channel ins(%13, %beta : tensor<2x8x2x3xf32>, tensor<8xf32>) outs(%e2 : tensor<2x8x2x3xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x8x2x3xf32>
  return %14 : tensor<2x8x2x3xf32>
}

// -----

#bchw = affine_map<(b, c, h, w) -> (b, c, h, w)>
#bg_5 = affine_map<(b, h, w, g, c) -> (b, g)>
#bh_5 = affine_map<(b, h, w, g, c) -> (b, h)>
#bhwgc = affine_map<(b, h, w, g, c) -> (b, h, w, g, c)>
#bwghc_of_bhwgc = affine_map<(b, h, w, g, c) -> (b, w, g, h, c)>
#mn = affine_map<(m, n) -> (m, n)>
#w_4 = affine_map<(b, c, h, w) -> (w)>
#sum_bwghc_of_bhwgc_bh_5 = {indexing_maps = [#bwghc_of_bhwgc, #bh_5], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_bg_5 = {indexing_maps = [#bg_5, #bhwgc], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
#map_bhwgc_bhwgc = {indexing_maps = [#bhwgc, #bhwgc, #bhwgc], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
#map_bhwgc = {indexing_maps = [#bhwgc, #bhwgc], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
#map_w_4 = {indexing_maps = [#w_4, #bchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
#map_bchw_bchw = {indexing_maps = [#bchw, #bchw, #bchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}

// From: a group norm over x.reshape(n, h, w, groups, c // groups) in jnp, imported the same way.
// CHECK-LABEL: @jax_channels_last
// CHECK-SAME: %[[A0:.*]]: tensor<2x2x3x8xf32>, %[[A1:.*]]: tensor<8xf32>
// CHECK: %[[V0:.*]] = tensor.expand_shape %[[A0]] {{.*}} into tensor<2x2x3x4x2xf32>
// CHECK: tensor.collapse_shape %[[V0]] {{.*}} into tensor<2x6x4x2xf32>
// CHECK: %[[V2:.*]] = tensor.expand_shape %[[A1]] {{.*}} into tensor<4x2xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x6x4x2xf32>) {{.*}}"group_norm_fusion"
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[V14]] :
// CHECK: flow.return %[[V15]] :
// CHECK: %[[V16:.*]] = tensor.collapse_shape %[[R]] {{.*}} into tensor<2x6x8xf32>
// CHECK: %[[V17:.*]] = tensor.expand_shape %[[V16]] {{.*}} into tensor<2x2x3x8xf32>
// CHECK: return %[[V17]] :
func.func @jax_channels_last(%x: tensor<2x2x3x8xf32>, %gamma: tensor<8xf32>) -> tensor<2x2x3x8xf32> {
  %zero = arith.constant 0.0 : f32
  %c12 = arith.constant 12.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %0 = tensor.expand_shape %x [[0], [1], [2], [3, 4]] output_shape [2, 2, 3, 4, 2] : tensor<2x2x3x8xf32> into tensor<2x2x3x4x2xf32>
  %e = tensor.empty() : tensor<2x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = linalg.generic #sum_bwghc_of_bhwgc_bh_5 ins(%0 : tensor<2x2x3x4x2xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %2 = linalg.generic #map_mn ins(%1 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c12 : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %e1 = tensor.empty() : tensor<2x2x3x4x2xf32>
  %3 = linalg.generic #map_bg_5 ins(%2 : tensor<2x4xf32>) outs(%e1 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x2x3x4x2xf32>
  %4 = linalg.generic #map_bhwgc_bhwgc ins(%0, %3 : tensor<2x2x3x4x2xf32>, tensor<2x2x3x4x2xf32>) outs(%e1 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x2x3x4x2xf32>
  %5 = linalg.generic #map_bhwgc ins(%4 : tensor<2x2x3x4x2xf32>) outs(%e1 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<2x2x3x4x2xf32>
  %6 = linalg.generic #sum_bwghc_of_bhwgc_bh_5 ins(%5 : tensor<2x2x3x4x2xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %7 = linalg.generic #map_mn ins(%6 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c12 : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %8 = linalg.generic #map_mn ins(%7 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %9 = linalg.generic #map_mn ins(%8 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %10 = linalg.generic #map_bg_5 ins(%9 : tensor<2x4xf32>) outs(%e1 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x2x3x4x2xf32>
  %11 = linalg.generic #map_bhwgc_bhwgc ins(%4, %10 : tensor<2x2x3x4x2xf32>, tensor<2x2x3x4x2xf32>) outs(%e1 : tensor<2x2x3x4x2xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x2x3x4x2xf32>
  %12 = tensor.collapse_shape %11 [[0], [1], [2], [3, 4]] : tensor<2x2x3x4x2xf32> into tensor<2x2x3x8xf32>
  %e2 = tensor.empty() : tensor<2x2x3x8xf32>
  %13 = linalg.generic #map_w_4 ins(%gamma : tensor<8xf32>) outs(%e2 : tensor<2x2x3x8xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x2x3x8xf32>
  %14 = linalg.generic #map_bchw_bchw ins(%12, %13 : tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>) outs(%e2 : tensor<2x2x3x8xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x2x3x8xf32>
  return %14 : tensor<2x2x3x8xf32>
}

// -----

#instance = affine_map<(b, c, h, w) -> (b, c)>
#bchw = affine_map<(b, c, h, w) -> (b, c, h, w)>
#channel = affine_map<(b, c, h, w) -> (c)>
#mn = affine_map<(m, n) -> (m, n)>
#sum_bchw_instance = {indexing_maps = [#bchw, #instance], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
#map_mn = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map_instance = {indexing_maps = [#instance, #bchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
#map_bchw_bchw = {indexing_maps = [#bchw, #bchw, #bchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
#map_bchw = {indexing_maps = [#bchw, #bchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
#map_channel = {indexing_maps = [#channel, #bchw], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}

// From: ONNX InstanceNormalization, imported the same way.
// CHECK-LABEL: @onnx_instance_norm
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x2x3xf32>, %[[A1:.*]]: tensor<4xf32>, %[[A2:.*]]: tensor<4xf32>
// CHECK: tensor.collapse_shape %[[A0]] {{.*}} into tensor<2x4x6xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x4x6xf32>) {{.*}}"group_norm_fusion"
// CHECK: %[[V12:.*]] = linalg.generic {{.*}} ins(%[[A1]] :
// CHECK: %[[V13:.*]] = linalg.generic {{.*}} ins(%[[A2]] :
// CHECK: %[[V14:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[V12]] :
// CHECK: %[[V15:.*]] = linalg.generic {{.*}} ins(%[[V14]], %[[V13]] :
// CHECK: flow.return %[[V15]] :
// CHECK: %[[V16:.*]] = tensor.expand_shape %[[R]] {{.*}} into tensor<2x4x2x3xf32>
// CHECK: return %[[V16]] :
func.func @onnx_instance_norm(%x: tensor<2x4x2x3xf32>, %gamma: tensor<4xf32>, %beta: tensor<4xf32>) -> tensor<2x4x2x3xf32> {
  %eps = arith.constant 1.0e-5 : f32
  %c6 = arith.constant 6.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = linalg.generic #sum_bchw_instance ins(%x : tensor<2x4x2x3xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %1 = linalg.generic #map_mn ins(%0 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c6 : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %e1 = tensor.empty() : tensor<2x4x2x3xf32>
  %2 = linalg.generic #map_instance ins(%1 : tensor<2x4xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x2x3xf32>
  %3 = linalg.generic #map_bchw_bchw ins(%x, %2 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.subf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x2x3xf32>
  %4 = linalg.generic #map_bchw ins(%3 : tensor<2x4x2x3xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.mulf %i, %i : f32  linalg.yield %v : f32 } -> tensor<2x4x2x3xf32>
  %5 = linalg.generic #sum_bchw_instance ins(%4 : tensor<2x4x2x3xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %o : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %6 = linalg.generic #map_mn ins(%5 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %c6 : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %7 = linalg.generic #map_mn ins(%6 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %i, %eps : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %8 = linalg.generic #map_mn ins(%7 : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = math.rsqrt %i : f32  linalg.yield %v : f32 } -> tensor<2x4xf32>
  %9 = linalg.generic #map_instance ins(%8 : tensor<2x4xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x2x3xf32>
  %10 = linalg.generic #map_bchw_bchw ins(%3, %9 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x2x3xf32>
  %11 = linalg.generic #map_channel ins(%gamma : tensor<4xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x2x3xf32>
  %12 = linalg.generic #map_channel ins(%beta : tensor<4xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i: f32, %o: f32): linalg.yield %i : f32 } -> tensor<2x4x2x3xf32>
  %13 = linalg.generic #map_bchw_bchw ins(%10, %11 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.mulf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x2x3xf32>
  %14 = linalg.generic #map_bchw_bchw ins(%13, %12 : tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) outs(%e1 : tensor<2x4x2x3xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32): %v = arith.addf %i0, %i1 : f32  linalg.yield %v : f32 } -> tensor<2x4x2x3xf32>
  return %14 : tensor<2x4x2x3xf32>
}

// -----

#bcs = affine_map<(b, c, s) -> (b, c, s)>
#instance = affine_map<(b, c, s) -> (b, c)>
#bc = affine_map<(b, c) -> (b, c)>
#channel = affine_map<(b, c, s) -> (c)>
#sum_bcs = {indexing_maps = [#bcs, #instance], iterator_types = ["parallel", "parallel", "reduction"]}
#sum_bcs_bc = {indexing_maps = [#bcs, #instance, #instance], iterator_types = ["parallel", "parallel", "reduction"]}
#map_bcs_bc_bc_bc = {indexing_maps = [#bcs, #instance, #instance, #instance, #bcs], iterator_types = ["parallel", "parallel", "parallel"]}
#map_bc = {indexing_maps = [#bc, #bc], iterator_types = ["parallel", "parallel"]}
#map_bcs_bc_bc_c = {indexing_maps = [#bcs, #instance, #instance, #channel, #bcs], iterator_types = ["parallel", "parallel", "parallel"]}

// Adaptive instance norm: batch and channel become one dimension. The casts are fused too.
// CHECK-LABEL: @f16_scaled_by_batch_and_channel
// CHECK-SAME: %[[A0:.*]]: tensor<2x4x6xf16>, %[[A1:.*]]: tensor<2x4xf32>
// CHECK: %[[V0:.*]] = tensor.collapse_shape %[[A0]] {{.*}} into tensor<8x6xf16>
// CHECK: %[[V1:.*]] = tensor.collapse_shape %[[A1]] {{.*}} into tensor<8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<8x6xf16>) {{.*}}"group_norm_fusion"
// CHECK: %[[V2:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[V0]], %[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[V0]], %[[V2]], %[[V3]], %[[V1]] :
// CHECK: flow.return %[[V4]] :
// CHECK: %[[V5:.*]] = tensor.expand_shape %[[R]] {{.*}} into tensor<2x4x6xf16>
// CHECK: return %[[V5]] :
func.func @f16_scaled_by_batch_and_channel(%x: tensor<2x4x6xf16>, %gamma: tensor<2x4xf32>) -> tensor<2x4x6xf16> {
  %n = arith.constant 6.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = linalg.generic #sum_bcs ins(%x : tensor<2x4x6xf16>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i: f16, %o: f32):
    %w = arith.extf %i : f16 to f32
    %v = arith.addf %o, %w : f32
    linalg.yield %v : f32 } -> tensor<2x4xf32>
  %q = linalg.generic #sum_bcs_bc ins(%x, %s : tensor<2x4x6xf16>, tensor<2x4xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%i0: f16, %i1: f32, %o: f32):
    %w = arith.extf %i0 : f16 to f32
    %m = arith.divf %i1, %n : f32
    %c = arith.subf %w, %m : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<2x4xf32>
  %e1 = tensor.empty() : tensor<2x4x6xf16>
  %y = linalg.generic #map_bcs_bc_bc_bc ins(%x, %s, %q, %gamma : tensor<2x4x6xf16>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) outs(%e1 : tensor<2x4x6xf16>) {
  ^bb0(%i0: f16, %i1: f32, %i2: f32, %i3: f32, %o: f16):
    %w = arith.extf %i0 : f16 to f32
    %m = arith.divf %i1, %n : f32
    %c = arith.subf %w, %m : f32
    %u = arith.divf %i2, %n : f32
    %a = arith.addf %u, %eps : f32
    %r = math.rsqrt %a : f32
    %d = arith.mulf %c, %r : f32
    %g = arith.mulf %d, %i3 : f32
    %v = arith.truncf %g : f32 to f16
    linalg.yield %v : f16 } -> tensor<2x4x6xf16>
  return %y : tensor<2x4x6xf16>
}

// Mean and deviation become further results.
// CHECK-LABEL: @bf16_dynamic_batch
// CHECK-SAME: %[[A0:.*]]: tensor<?x4x6xbf16>, %[[A1:.*]]: tensor<4xf32>
// CHECK: %[[R:.*]]:3 = flow.dispatch.region -> ({{.*}}) {{.*}}"group_norm_fusion"
// CHECK: %[[V0:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A0]] :
// CHECK: %[[V1:.*]] = linalg.generic {{.*}} ins(%[[V0]] :
// CHECK: %[[V2:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[A0]], %[[V1]] :
// CHECK: %[[V3:.*]] = linalg.generic {{.*}} ins(%[[V2]] :
// CHECK: %[[V4:.*]] = linalg.generic {{.*}} ins(%[[A0]], %[[V1]], %[[V3]], %[[A1]] :
// CHECK: flow.return %[[V1]], %[[V3]], %[[V4]] :
// CHECK: return %[[R]]#2, %[[R]]#0, %[[R]]#1 :
func.func @bf16_dynamic_batch(%x: tensor<?x4x6xbf16>, %gamma: tensor<4xf32>) -> (tensor<?x4x6xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %c0 = arith.constant 0 : index
  %size_b = tensor.dim %x, %c0 : tensor<?x4x6xbf16>
  %n = arith.constant 6.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty(%size_b) : tensor<?x4xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %s = linalg.generic #sum_bcs ins(%x : tensor<?x4x6xbf16>) outs(%z : tensor<?x4xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %w = arith.extf %i : bf16 to f32
    %v = arith.addf %o, %w : f32
    linalg.yield %v : f32 } -> tensor<?x4xf32>
  %mean = linalg.generic #map_bc ins(%s : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.divf %i, %n : f32  linalg.yield %v : f32 } -> tensor<?x4xf32>
  %q = linalg.generic #sum_bcs_bc ins(%x, %mean : tensor<?x4x6xbf16>, tensor<?x4xf32>) outs(%z : tensor<?x4xf32>) {
  ^bb0(%i0: bf16, %i1: f32, %o: f32):
    %w = arith.extf %i0 : bf16 to f32
    %c = arith.subf %w, %i1 : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<?x4xf32>
  %rstd = linalg.generic #map_bc ins(%q : tensor<?x4xf32>) outs(%e : tensor<?x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %m = arith.divf %i, %n : f32
    %a = arith.addf %m, %eps : f32
    %v = math.rsqrt %a : f32
    linalg.yield %v : f32 } -> tensor<?x4xf32>
  %e1 = tensor.empty(%size_b) : tensor<?x4x6xbf16>
  %y = linalg.generic #map_bcs_bc_bc_c ins(%x, %mean, %rstd, %gamma : tensor<?x4x6xbf16>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<4xf32>) outs(%e1 : tensor<?x4x6xbf16>) {
  ^bb0(%i0: bf16, %i1: f32, %i2: f32, %i3: f32, %o: bf16):
    %w = arith.extf %i0 : bf16 to f32
    %c = arith.subf %w, %i1 : f32
    %d = arith.mulf %c, %i2 : f32
    %g = arith.mulf %d, %i3 : f32
    %v = arith.truncf %g : f32 to bf16
    linalg.yield %v : bf16 } -> tensor<?x4x6xbf16>
  return %y, %mean, %rstd : tensor<?x4x6xbf16>, tensor<?x4xf32>, tensor<?x4xf32>
}

// CHECK-LABEL: @no_fusion_dynamic_channels
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_dynamic_channels
// WHY: dynamic_shape (
// WHY: a dimension other than the first is dynamic
func.func @no_fusion_dynamic_channels(%x: tensor<2x?x6xf32>, %gamma: tensor<?xf32>) -> tensor<2x?x6xf32> {
  %c1 = arith.constant 1 : index
  %size_c = tensor.dim %x, %c1 : tensor<2x?x6xf32>
  %n = arith.constant 6.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty(%size_c) : tensor<2x?xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x?xf32>) -> tensor<2x?xf32>
  %s = linalg.generic #sum_bcs ins(%x : tensor<2x?x6xf32>) outs(%z : tensor<2x?xf32>) {
  ^bb0(%i: f32, %o: f32): %v = arith.addf %o, %i : f32  linalg.yield %v : f32 } -> tensor<2x?xf32>
  %q = linalg.generic #sum_bcs_bc ins(%x, %s : tensor<2x?x6xf32>, tensor<2x?xf32>) outs(%z : tensor<2x?xf32>) {
  ^bb0(%i0: f32, %i1: f32, %o: f32):
    %m = arith.divf %i1, %n : f32
    %c = arith.subf %i0, %m : f32
    %p = arith.mulf %c, %c : f32
    %v = arith.addf %o, %p : f32
    linalg.yield %v : f32 } -> tensor<2x?xf32>
  %e1 = tensor.empty(%size_c) : tensor<2x?x6xf32>
  %y = linalg.generic #map_bcs_bc_bc_c ins(%x, %s, %q, %gamma : tensor<2x?x6xf32>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<?xf32>) outs(%e1 : tensor<2x?x6xf32>) {
  ^bb0(%i0: f32, %i1: f32, %i2: f32, %i3: f32, %o: f32):
    %m = arith.divf %i1, %n : f32
    %c = arith.subf %i0, %m : f32
    %u = arith.divf %i2, %n : f32
    %a = arith.addf %u, %eps : f32
    %r = math.rsqrt %a : f32
    %d = arith.mulf %c, %r : f32
    %v = arith.mulf %d, %i3 : f32
    linalg.yield %v : f32 } -> tensor<2x?x6xf32>
  return %y : tensor<2x?x6xf32>
}

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY: function @no_fusion_f64
// WHY: element_type (
// WHY: f64
func.func @no_fusion_f64(%x: tensor<2x4x6xf64>, %gamma: tensor<4xf64>) -> tensor<2x4x6xf64> {
  %n = arith.constant 6.0 : f64
  %eps = arith.constant 1.0e-5 : f64
  %e = tensor.empty() : tensor<2x4xf64>
  %zero = arith.constant 0.0 : f64
  %z = linalg.fill ins(%zero : f64) outs(%e : tensor<2x4xf64>) -> tensor<2x4xf64>
  %s = linalg.generic #sum_bcs ins(%x : tensor<2x4x6xf64>) outs(%z : tensor<2x4xf64>) {
  ^bb0(%i: f64, %o: f64): %v = arith.addf %o, %i : f64  linalg.yield %v : f64 } -> tensor<2x4xf64>
  %q = linalg.generic #sum_bcs_bc ins(%x, %s : tensor<2x4x6xf64>, tensor<2x4xf64>) outs(%z : tensor<2x4xf64>) {
  ^bb0(%i0: f64, %i1: f64, %o: f64):
    %m = arith.divf %i1, %n : f64
    %c = arith.subf %i0, %m : f64
    %p = arith.mulf %c, %c : f64
    %v = arith.addf %o, %p : f64
    linalg.yield %v : f64 } -> tensor<2x4xf64>
  %e1 = tensor.empty() : tensor<2x4x6xf64>
  %y = linalg.generic #map_bcs_bc_bc_c ins(%x, %s, %q, %gamma : tensor<2x4x6xf64>, tensor<2x4xf64>, tensor<2x4xf64>, tensor<4xf64>) outs(%e1 : tensor<2x4x6xf64>) {
  ^bb0(%i0: f64, %i1: f64, %i2: f64, %i3: f64, %o: f64):
    %m = arith.divf %i1, %n : f64
    %c = arith.subf %i0, %m : f64
    %u = arith.divf %i2, %n : f64
    %a = arith.addf %u, %eps : f64
    %r = math.rsqrt %a : f64
    %d = arith.mulf %c, %r : f64
    %v = arith.mulf %d, %i3 : f64
    linalg.yield %v : f64 } -> tensor<2x4x6xf64>
  return %y : tensor<2x4x6xf64>
}
