// Rotations of queries and keys that one projection computes: they rotate as one.
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rope_fusion | FileCheck %s

#own = affine_map<(h, s, k, d) -> (h, s, k, d)>
#hsd = affine_map<(h, s, d) -> (h, s, d)>
#shd = affine_map<(h, s, d) -> (s, h, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// Queries and keys are neighbouring slices of one projection: one rotation of all of them.
// CHECK-LABEL: @queries_and_keys
// CHECK-SAME: %[[X:.*]]: tensor<32x8x16xf32>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<32x8x2x8xf32>
// CHECK: %[[C:.*]] = tensor.extract_slice %[[E]][0, 0, 0, 0] [32, 6, 2, 8]
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<6x32x2x8xf32>)
// CHECK: tensor.extract %[[C]]
// CHECK: %[[Q:.*]] = tensor.extract_slice %[[R]][0, 0, 0, 0] [4, 32, 2, 8]
// CHECK: %[[K:.*]] = tensor.extract_slice %[[R]][4, 0, 0, 0] [2, 32, 2, 8]
// CHECK: %[[QH:.*]] = tensor.collapse_shape %[[Q]] {{\[}}[0], [1], [2, 3]]
// CHECK: %[[KH:.*]] = tensor.collapse_shape %[[K]] {{\[}}[0], [1], [2, 3]]
// CHECK-NOT: flow.dispatch.region
// CHECK: return %[[QH]], %[[KH]]
func.func @queries_and_keys(%x: tensor<32x8x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> (tensor<4x32x16xf32>, tensor<2x32x16xf32>) {
  %c1 = arith.constant 1 : index
  %hq = tensor.extract_slice %x[0, 0, 0] [32, 4, 16] [1, 1, 1] : tensor<32x8x16xf32> to tensor<32x4x16xf32>
  %hk = tensor.extract_slice %x[0, 4, 0] [32, 2, 16] [1, 1, 1] : tensor<32x8x16xf32> to tensor<32x2x16xf32>
  %qe3 = tensor.empty() : tensor<4x32x16xf32>
  %qe = tensor.empty() : tensor<4x32x2x8xf32>
  %qt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hq : tensor<32x4x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x32x16xf32>
  %qa = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qt, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %qw = tensor.expand_shape %qt [[0], [1], [2, 3]] output_shape [4, 32, 2, 8] : tensor<4x32x16xf32> into tensor<4x32x2x8xf32>
  %qr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%qe : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %qw[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %qz = tensor.collapse_shape %qr [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %qb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qz, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %qy = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qa, %qb : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %ke3 = tensor.empty() : tensor<2x32x16xf32>
  %ke = tensor.empty() : tensor<2x32x2x8xf32>
  %kt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hk : tensor<32x2x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x32x16xf32>
  %ka = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kt, %cos : tensor<2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  %kw = tensor.expand_shape %kt [[0], [1], [2, 3]] output_shape [2, 32, 2, 8] : tensor<2x32x16xf32> into tensor<2x32x2x8xf32>
  %kr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%ke : tensor<2x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %kw[%i, %j, %other, %l] : tensor<2x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<2x32x2x8xf32>
  %kz = tensor.collapse_shape %kr [[0], [1], [2, 3]] : tensor<2x32x2x8xf32> into tensor<2x32x16xf32>
  %kb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kz, %sin : tensor<2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  %ky = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ka, %kb : tensor<2x32x16xf32>, tensor<2x32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  return %qy, %ky : tensor<4x32x16xf32>, tensor<2x32x16xf32>
}

// -----

#own = affine_map<(h, s, k, d) -> (h, s, k, d)>
#hsd = affine_map<(h, s, d) -> (h, s, d)>
#shd = affine_map<(h, s, d) -> (s, h, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// The keys do not start where the queries end: each slice is rotated by itself, read in place.
// CHECK-LABEL: @keys_after_a_gap
// CHECK-SAME: %[[X:.*]]: tensor<32x8x16xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 0, 0] [32, 4, 2, 8]
// CHECK: %[[Q:.*]] = flow.dispatch.region -> (tensor<4x32x2x8xf32>)
// CHECK: %[[K:.*]] = flow.dispatch.region -> (tensor<2x32x2x8xf32>)
func.func @keys_after_a_gap(%x: tensor<32x8x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> (tensor<4x32x16xf32>, tensor<2x32x16xf32>) {
  %c1 = arith.constant 1 : index
  %hq = tensor.extract_slice %x[0, 0, 0] [32, 4, 16] [1, 1, 1] : tensor<32x8x16xf32> to tensor<32x4x16xf32>
  %hk = tensor.extract_slice %x[0, 6, 0] [32, 2, 16] [1, 1, 1] : tensor<32x8x16xf32> to tensor<32x2x16xf32>
  %qe3 = tensor.empty() : tensor<4x32x16xf32>
  %qe = tensor.empty() : tensor<4x32x2x8xf32>
  %qt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hq : tensor<32x4x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x32x16xf32>
  %qa = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qt, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %qw = tensor.expand_shape %qt [[0], [1], [2, 3]] output_shape [4, 32, 2, 8] : tensor<4x32x16xf32> into tensor<4x32x2x8xf32>
  %qr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%qe : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %qw[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %qz = tensor.collapse_shape %qr [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %qb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qz, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %qy = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qa, %qb : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %ke3 = tensor.empty() : tensor<2x32x16xf32>
  %ke = tensor.empty() : tensor<2x32x2x8xf32>
  %kt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hk : tensor<32x2x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x32x16xf32>
  %ka = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kt, %cos : tensor<2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  %kw = tensor.expand_shape %kt [[0], [1], [2, 3]] output_shape [2, 32, 2, 8] : tensor<2x32x16xf32> into tensor<2x32x2x8xf32>
  %kr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%ke : tensor<2x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %kw[%i, %j, %other, %l] : tensor<2x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<2x32x2x8xf32>
  %kz = tensor.collapse_shape %kr [[0], [1], [2, 3]] : tensor<2x32x2x8xf32> into tensor<2x32x16xf32>
  %kb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kz, %sin : tensor<2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  %ky = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ka, %kb : tensor<2x32x16xf32>, tensor<2x32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  return %qy, %ky : tensor<4x32x16xf32>, tensor<2x32x16xf32>
}

// -----

#own = affine_map<(h, s, k, d) -> (h, s, k, d)>
#hsd = affine_map<(h, s, d) -> (h, s, d)>
#shd = affine_map<(h, s, d) -> (s, h, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// The keys are rotated by other angles.
// CHECK-LABEL: @keys_turn_differently
// CHECK: flow.dispatch.region -> (tensor<4x32x2x8xf32>)
// CHECK: flow.dispatch.region -> (tensor<2x32x2x8xf32>)
func.func @keys_turn_differently(%x: tensor<32x8x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>, %turn: tensor<32x16xf32>) -> (tensor<4x32x16xf32>, tensor<2x32x16xf32>) {
  %c1 = arith.constant 1 : index
  %hq = tensor.extract_slice %x[0, 0, 0] [32, 4, 16] [1, 1, 1] : tensor<32x8x16xf32> to tensor<32x4x16xf32>
  %hk = tensor.extract_slice %x[0, 4, 0] [32, 2, 16] [1, 1, 1] : tensor<32x8x16xf32> to tensor<32x2x16xf32>
  %qe3 = tensor.empty() : tensor<4x32x16xf32>
  %qe = tensor.empty() : tensor<4x32x2x8xf32>
  %qt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hq : tensor<32x4x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x32x16xf32>
  %qa = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qt, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %qw = tensor.expand_shape %qt [[0], [1], [2, 3]] output_shape [4, 32, 2, 8] : tensor<4x32x16xf32> into tensor<4x32x2x8xf32>
  %qr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%qe : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %qw[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %qz = tensor.collapse_shape %qr [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %qb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qz, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %qy = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qa, %qb : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%qe3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %ke3 = tensor.empty() : tensor<2x32x16xf32>
  %ke = tensor.empty() : tensor<2x32x2x8xf32>
  %kt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hk : tensor<32x2x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x32x16xf32>
  %ka = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kt, %turn : tensor<2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  %kw = tensor.expand_shape %kt [[0], [1], [2, 3]] output_shape [2, 32, 2, 8] : tensor<2x32x16xf32> into tensor<2x32x2x8xf32>
  %kr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%ke : tensor<2x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %kw[%i, %j, %other, %l] : tensor<2x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<2x32x2x8xf32>
  %kz = tensor.collapse_shape %kr [[0], [1], [2, 3]] : tensor<2x32x2x8xf32> into tensor<2x32x16xf32>
  %kb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%kz, %sin : tensor<2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  %ky = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ka, %kb : tensor<2x32x16xf32>, tensor<2x32x16xf32>) outs(%ke3 : tensor<2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x32x16xf32>
  return %qy, %ky : tensor<4x32x16xf32>, tensor<2x32x16xf32>
}

// -----

#own = affine_map<(n, h, s, k, d) -> (n, h, s, k, d)>
#hsd = affine_map<(n, h, s, d) -> (n, h, s, d)>
#shd = affine_map<(n, h, s, d) -> (n, s, h, d)>
#sd = affine_map<(n, h, s, d) -> (s, d)>

// The heads are not the first dimension: their slices would not be contiguous.
// CHECK-LABEL: @queries_and_keys_of_a_batch
// CHECK: flow.dispatch.region -> (tensor<2x4x32x2x8xf32>)
// CHECK: flow.dispatch.region -> (tensor<2x2x32x2x8xf32>)
func.func @queries_and_keys_of_a_batch(%x: tensor<2x32x8x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> (tensor<2x4x32x16xf32>, tensor<2x2x32x16xf32>) {
  %c1 = arith.constant 1 : index
  %hq = tensor.extract_slice %x[0, 0, 0, 0] [2, 32, 4, 16] [1, 1, 1, 1] : tensor<2x32x8x16xf32> to tensor<2x32x4x16xf32>
  %hk = tensor.extract_slice %x[0, 0, 4, 0] [2, 32, 2, 16] [1, 1, 1, 1] : tensor<2x32x8x16xf32> to tensor<2x32x2x16xf32>
  %qe3 = tensor.empty() : tensor<2x4x32x16xf32>
  %qe = tensor.empty() : tensor<2x4x32x2x8xf32>
  %qt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%hq : tensor<2x32x4x16xf32>) outs(%qe3 : tensor<2x4x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x4x32x16xf32>
  %qa = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%qt, %cos : tensor<2x4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<2x4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x4x32x16xf32>
  %qw = tensor.expand_shape %qt [[0], [1], [2], [3, 4]] output_shape [2, 4, 32, 2, 8] : tensor<2x4x32x16xf32> into tensor<2x4x32x2x8xf32>
  %qr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%qe : tensor<2x4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %k = linalg.index 3 : index
    %l = linalg.index 4 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %qw[%n, %i, %j, %other, %l] : tensor<2x4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<2x4x32x2x8xf32>
  %qz = tensor.collapse_shape %qr [[0], [1], [2], [3, 4]] : tensor<2x4x32x2x8xf32> into tensor<2x4x32x16xf32>
  %qb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%qz, %sin : tensor<2x4x32x16xf32>, tensor<32x16xf32>) outs(%qe3 : tensor<2x4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x4x32x16xf32>
  %qy = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%qa, %qb : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32>) outs(%qe3 : tensor<2x4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x4x32x16xf32>
  %ke3 = tensor.empty() : tensor<2x2x32x16xf32>
  %ke = tensor.empty() : tensor<2x2x32x2x8xf32>
  %kt = linalg.generic {indexing_maps = [#shd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%hk : tensor<2x32x2x16xf32>) outs(%ke3 : tensor<2x2x32x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x2x32x16xf32>
  %ka = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%kt, %cos : tensor<2x2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x2x32x16xf32>
  %kw = tensor.expand_shape %kt [[0], [1], [2], [3, 4]] output_shape [2, 2, 32, 2, 8] : tensor<2x2x32x16xf32> into tensor<2x2x32x2x8xf32>
  %kr = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%ke : tensor<2x2x32x2x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %k = linalg.index 3 : index
    %l = linalg.index 4 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %kw[%n, %i, %j, %other, %l] : tensor<2x2x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<2x2x32x2x8xf32>
  %kz = tensor.collapse_shape %kr [[0], [1], [2], [3, 4]] : tensor<2x2x32x2x8xf32> into tensor<2x2x32x16xf32>
  %kb = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%kz, %sin : tensor<2x2x32x16xf32>, tensor<32x16xf32>) outs(%ke3 : tensor<2x2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x2x32x16xf32>
  %ky = linalg.generic {indexing_maps = [#hsd, #hsd, #hsd], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%ka, %kb : tensor<2x2x32x16xf32>, tensor<2x2x32x16xf32>) outs(%ke3 : tensor<2x2x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<2x2x32x16xf32>
  return %qy, %ky : tensor<2x4x32x16xf32>, tensor<2x2x32x16xf32>
}
