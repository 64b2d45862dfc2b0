// Rotations of heads that a transpose has moved out of a projection: they read the heads in place.
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rope_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rope_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#own = affine_map<(h, s, k, d) -> (h, s, k, d)>
#hsd = affine_map<(h, s, d) -> (h, s, d)>
#shd = affine_map<(h, s, d) -> (s, h, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// transformers' Llama: the heads are moved, then rotated. The transpose becomes a map.
// CHECK: #[[MOVED:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d2, d3)>
// CHECK-LABEL: @torch_llama
// CHECK-SAME: %[[X:.*]]: tensor<32x4x16xf32>
// CHECK-NOT: linalg.generic
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<32x4x2x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x32x2x8xf32>)
// CHECK: %[[S:.*]] = linalg.generic
// CHECK: %[[H:.*]] = linalg.index 0
// CHECK: %[[P:.*]] = linalg.index 1
// CHECK: %[[D:.*]] = linalg.index 3
// CHECK: tensor.extract %[[E]][%[[P]], %[[H]], %{{.*}}, %[[D]]]
// CHECK: %[[A:.*]] = linalg.generic {indexing_maps = [#[[MOVED]],{{.*}} ins(%[[E]],
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[S]],
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] :
// CHECK: flow.return %[[Y]]
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0], [1], [2, 3]]
// CHECK: return %[[M]]
func.func @torch_llama(%x: tensor<32x4x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> tensor<4x32x16xf32> {
  %c1 = arith.constant 1 : index
  %e3 = tensor.empty() : tensor<4x32x16xf32>
  %e = tensor.empty() : tensor<4x32x2x8xf32>
  %t = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<32x4x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x32x16xf32>
  %a = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %w = tensor.expand_shape %t [[0], [1], [2, 3]] output_shape [4, 32, 2, 8] : tensor<4x32x16xf32> into tensor<4x32x2x8xf32>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %w[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %b = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %y = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  return %y : tensor<4x32x16xf32>
}

// -----

#own = affine_map<(h, s, k, d) -> (h, s, k, d)>
#hsd = affine_map<(h, s, d) -> (h, s, d)>
#shd = affine_map<(h, s, d) -> (s, h, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// The transposed heads are a result too: the transpose is kept.
// CHECK-LABEL: @no_fusion_heads_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// WHY-LABEL: @no_fusion_heads_read_elsewhere
// WHY: extra_users
// WHY: an intermediate value of the rotation has other users
func.func @no_fusion_heads_read_elsewhere(%x: tensor<32x4x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> (tensor<4x32x16xf32>, tensor<4x32x16xf32>) {
  %c1 = arith.constant 1 : index
  %e3 = tensor.empty() : tensor<4x32x16xf32>
  %e = tensor.empty() : tensor<4x32x2x8xf32>
  %t = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<32x4x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x32x16xf32>
  %a = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %w = tensor.expand_shape %t [[0], [1], [2, 3]] output_shape [4, 32, 2, 8] : tensor<4x32x16xf32> into tensor<4x32x2x8xf32>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %w[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %b = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %y = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  return %y, %t : tensor<4x32x16xf32>, tensor<4x32x16xf32>
}

// -----

#own = affine_map<(h, s, k, d) -> (h, s, k, d)>
#hsd = affine_map<(h, s, d) -> (h, s, d)>
#shd = affine_map<(h, s, d) -> (s, h, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// One of the products is a result too.
// CHECK-LABEL: @no_fusion_rotation_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// WHY-LABEL: @no_fusion_rotation_read_elsewhere
// WHY: extra_users
// WHY: an intermediate value of the rotation has other users
func.func @no_fusion_rotation_read_elsewhere(%x: tensor<32x4x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> (tensor<4x32x16xf32>, tensor<4x32x16xf32>) {
  %c1 = arith.constant 1 : index
  %e3 = tensor.empty() : tensor<4x32x16xf32>
  %e = tensor.empty() : tensor<4x32x2x8xf32>
  %t = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<32x4x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x32x16xf32>
  %a = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %w = tensor.expand_shape %t [[0], [1], [2, 3]] output_shape [4, 32, 2, 8] : tensor<4x32x16xf32> into tensor<4x32x2x8xf32>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %w[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %b = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %y = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  return %y, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>
}

// -----

#own = affine_map<(h, s, k, d) -> (h, s, k, d)>
#hsd = affine_map<(h, s, d) -> (h, s, d)>
#shd = affine_map<(h, s, d) -> (s, h, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// CHECK-LABEL: @dynamic_positions_f16
// CHECK: %[[E:.*]] = tensor.expand_shape %arg0 {{.*}} into tensor<?x4x2x8xf16>
// CHECK: %[[R:.*]] = flow.dispatch.region{{.*}} -> (tensor<4x?x2x8xf16>
// CHECK: tensor.extract %[[E]]
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]]
// CHECK: return %[[M]]
func.func @dynamic_positions_f16(%x: tensor<?x4x16xf16>, %cos: tensor<?x16xf16>, %sin: tensor<?x16xf16>) -> tensor<4x?x16xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x4x16xf16>
  %e3 = tensor.empty(%n) : tensor<4x?x16xf16>
  %e = tensor.empty(%n) : tensor<4x?x2x8xf16>
  %t = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<?x4x16xf16>) outs(%e3 : tensor<4x?x16xf16>) {
  ^bb0(%i: f16, %o: f16):
    linalg.yield %i : f16
  } -> tensor<4x?x16xf16>
  %a = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t, %cos : tensor<4x?x16xf16>, tensor<?x16xf16>) outs(%e3 : tensor<4x?x16xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<4x?x16xf16>
  %w = tensor.expand_shape %t [[0], [1], [2, 3]] output_shape [4, %n, 2, 8] : tensor<4x?x16xf16> into tensor<4x?x2x8xf16>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x?x2x8xf16>) {
  ^bb0(%o: f16):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %w[%i, %j, %other, %l] : tensor<4x?x2x8xf16>
    %m = arith.negf %v : f16
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f16
    linalg.yield %s : f16
  } -> tensor<4x?x2x8xf16>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x?x2x8xf16> into tensor<4x?x16xf16>
  %b = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x?x16xf16>, tensor<?x16xf16>) outs(%e3 : tensor<4x?x16xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<4x?x16xf16>
  %y = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x?x16xf16>, tensor<4x?x16xf16>) outs(%e3 : tensor<4x?x16xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.addf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<4x?x16xf16>
  return %y : tensor<4x?x16xf16>
}
