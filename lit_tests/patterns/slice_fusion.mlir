// RUN: %mlirfuse-opt %s --split-input-file --pipeline=slice_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=slice_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#n = affine_map<(m, n) -> (n)>
#m = affine_map<(m, n) -> (m)>
#mn = affine_map<(m, n) -> (m, n)>

// PyTorch: (abs(x * a) + b)[:, 4:12]; the bias is sliced too, and the producers of the add.
// CHECK-LABEL: @one
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[0, 4] [8, 8] [1, 1]
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %arg1 : tensor<8x8xf32>, tensor<8xf32>)
// CHECK: %[[B:.*]] = tensor.extract_slice %arg2[4] [8] [1]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[B]] : tensor<8x8xf32>, tensor<8xf32>)
// CHECK: return %[[Y]]
func.func @one(%x: tensor<8x32xf32>, %a: tensor<8xf32>, %b: tensor<32xf32>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %p = linalg.generic {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %a : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %s = math.absf %p : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%p, %b : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %k: f32, %o: f32):
    %s = arith.addf %i, %k : f32
    linalg.yield %s : f32
  } -> tensor<8x32xf32>
  %c = tensor.extract_slice %y[0, 4] [8, 8] [1, 1] : tensor<8x32xf32> to tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// A dynamic batch: the group has the dynamic size of the slice.
// CHECK-LABEL: @dynamic_bf16
// CHECK: %[[X:.*]] = tensor.extract_slice %arg0[0, 4] [%arg1, 8] [1, 1]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<?x8xbf16>)
// CHECK: return %[[Y]]
func.func @dynamic_bf16(%x: tensor<?x32xbf16>, %n: index) -> tensor<?x8xbf16> {
  %e = tensor.empty(%n) : tensor<?x32xbf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x32xbf16>) outs(%e : tensor<?x32xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    %s = math.absf %i : bf16
    linalg.yield %s : bf16
  } -> tensor<?x32xbf16>
  %c = tensor.extract_slice %y[0, 4] [%n, 8] [1, 1] : tensor<?x32xbf16> to tensor<?x8xbf16>
  return %c : tensor<?x8xbf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// JAX: jnp.split of jnp.tanh; a dynamic offset and strides of two.
// CHECK-LABEL: @two_f16
// CHECK: %[[A:.*]] = tensor.extract_slice %arg0[0, 0] [8, 16] [1, 2]
// CHECK: %[[X:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<8x16xf16>)
// CHECK: %[[B:.*]] = tensor.extract_slice %arg0[0, %arg1] [8, 16] [1, 1]
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[B]] : tensor<8x16xf16>)
// CHECK: return %[[X]], %[[Y]]
func.func @two_f16(%x: tensor<8x32xf16>, %n: index) -> (tensor<8x16xf16>, tensor<8x16xf16>) {
  %e = tensor.empty() : tensor<8x32xf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf16>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%i: f16, %o: f16):
    %p = math.tanh %i : f16
    linalg.yield %p : f16
  } -> tensor<8x32xf16>
  %c = tensor.extract_slice %y[0, 0] [8, 16] [1, 2] : tensor<8x32xf16> to tensor<8x16xf16>
  %d = tensor.extract_slice %y[0, %n] [8, 16] [1, 1] : tensor<8x32xf16> to tensor<8x16xf16>
  return %c, %d : tensor<8x16xf16>, tensor<8x16xf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// ONNX: Slice of a value that is returned whole too.
// CHECK-LABEL: @no_fusion_read_whole
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract_slice %[[Y]]
func.func @no_fusion_read_whole(%x: tensor<8x32xbf16>) -> (tensor<8x16xbf16>, tensor<8x32xbf16>) {
  %e = tensor.empty() : tensor<8x32xbf16>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xbf16>) outs(%e : tensor<8x32xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    %p = math.tanh %i : bf16
    linalg.yield %p : bf16
  } -> tensor<8x32xbf16>
  %c = tensor.extract_slice %y[0, 0] [8, 16] [1, 1] : tensor<8x32xbf16> to tensor<8x16xbf16>
  return %c, %y : tensor<8x16xbf16>, tensor<8x32xbf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_overlap
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract_slice %[[Y]]
// WHY: not_profitable (1)
// WHY: the slices overlap
func.func @no_fusion_overlap(%x: tensor<8x32xf32>) -> (tensor<8x24xf32>, tensor<8x24xf32>) {
  %e = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = math.tanh %i : f32
    linalg.yield %p : f32
  } -> tensor<8x32xf32>
  %c = tensor.extract_slice %y[0, 0] [8, 24] [1, 1] : tensor<8x32xf32> to tensor<8x24xf32>
  %d = tensor.extract_slice %y[0, 8] [8, 24] [1, 1] : tensor<8x32xf32> to tensor<8x24xf32>
  return %c, %d : tensor<8x24xf32>, tensor<8x24xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_sizes_unknown
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract_slice %[[Y]]
// WHY: dynamic_shape (1)
// WHY: several slices of unknown size
func.func @no_fusion_sizes_unknown(%x: tensor<8x32xf32>, %n: index) -> (tensor<8x?xf32>, tensor<8x8xf32>) {
  %e = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = math.tanh %i : f32
    linalg.yield %p : f32
  } -> tensor<8x32xf32>
  %c = tensor.extract_slice %y[0, 0] [8, %n] [1, 1] : tensor<8x32xf32> to tensor<8x?xf32>
  %d = tensor.extract_slice %y[0, 8] [8, 8] [1, 1] : tensor<8x32xf32> to tensor<8x8xf32>
  return %c, %d : tensor<8x?xf32>, tensor<8x8xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// The op has no loop that the slice drops.
// CHECK-LABEL: @dimensions_dropped
// CHECK-SAME: (%[[X:.*]]: tensor<3x8x32x2xf32>, %[[B:.*]]: tensor<8x1xf32>)
// CHECK-DAG: %[[C:.*]] = tensor.extract_slice %[[X]][1, 2, 0, 1] [1, 4, 16, 1] [1, 1, 2, 1] : tensor<3x8x32x2xf32> to tensor<4x16xf32>
// CHECK-DAG: %[[D:.*]] = tensor.extract_slice %[[B]][2, 0] [4, 1] [1, 1] : tensor<8x1xf32> to tensor<4x1xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[C]], %[[D]] : tensor<4x16xf32>, tensor<4x1xf32>)
// CHECK: return %[[Y]]
func.func @dimensions_dropped(%x: tensor<3x8x32x2xf32>, %b: tensor<8x1xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<3x8x32x2xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (b, 0)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %b : tensor<3x8x32x2xf32>, tensor<8x1xf32>) outs(%e : tensor<3x8x32x2xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<3x8x32x2xf32>
  %c = tensor.extract_slice %y[1, 2, 0, 1] [1, 4, 16, 1] [1, 1, 2, 1] : tensor<3x8x32x2xf32> to tensor<4x16xf32>
  return %c : tensor<4x16xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_dimensions
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract_slice %[[Y]]
// WHY: structure (1)
// WHY: a slice has no dimension left
func.func @no_fusion_dimensions(%x: tensor<8x32xf32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = math.tanh %i : f32
    linalg.yield %p : f32
  } -> tensor<8x32xf32>
  %c = tensor.extract_slice %y[0, 3] [1, 1] [1, 1] : tensor<8x32xf32> to tensor<f32>
  return %c : tensor<f32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>

// CHECK-LABEL: @no_fusion_transposed
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract_slice %[[Y]]
// WHY: indexing_map (1)
func.func @no_fusion_transposed(%x: tensor<8x32xf32>) -> tensor<32x4xf32> {
  %e = tensor.empty() : tensor<32x8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #nm], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<32x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = math.tanh %i : f32
    linalg.yield %p : f32
  } -> tensor<32x8xf32>
  %c = tensor.extract_slice %y[0, 0] [32, 4] [1, 1] : tensor<32x8xf32> to tensor<32x4xf32>
  return %c : tensor<32x4xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_index
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract_slice %[[Y]]
// WHY: structure (1)
// WHY: linalg.generic reads elements at other indices
func.func @no_fusion_index(%x: tensor<8x32xi32>) -> tensor<8x4xi32> {
  %e = tensor.empty() : tensor<8x32xi32>
  %y = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xi32>) outs(%e : tensor<8x32xi32>) {
  ^bb0(%i: i32, %o: i32):
    %n = linalg.index 1 : index
    %k = arith.index_cast %n : index to i32
    %p = arith.addi %i, %k : i32
    linalg.yield %p : i32
  } -> tensor<8x32xi32>
  %c = tensor.extract_slice %y[0, 4] [8, 4] [1, 1] : tensor<8x32xi32> to tensor<8x4xi32>
  return %c : tensor<8x4xi32>
}

// -----

#n = affine_map<(m, n) -> (n)>
#mn = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: @no_fusion_epilogue
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract_slice %[[Y]]
// WHY: left_to_producer (1)
// WHY: linalg.generic
func.func @no_fusion_epilogue(%x: tensor<8x4xf32>, %w: tensor<4x32xf32>, %b: tensor<32xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
  %m = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x32xf32>) outs(%f : tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = linalg.generic {indexing_maps = [#mn, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%m, %b : tensor<8x32xf32>, tensor<32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<8x32xf32>
  %c = tensor.extract_slice %y[0, 4] [8, 16] [1, 1] : tensor<8x32xf32> to tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}

// -----

#abc = affine_map<(a, b, c) -> (a, b, c)>
#ac = affine_map<(a, b, c) -> (a, c)>

// Slices of a slice are those of its tensor: coordinates of a box without the sizes.
// CHECK-LABEL: @slice_of_a_slice
// CHECK-SAME: %[[X:.*]]: tensor<30x1x4xf32>, %[[Y:.*]]: tensor<30x5x2xf32>
// CHECK: %[[A:.*]] = tensor.extract_slice %[[X]][0, 0, 3] [30, 1, 1] [1, 1, 1] : tensor<30x1x4xf32> to tensor<30xf32>
// CHECK: %[[B:.*]] = tensor.extract_slice %[[Y]][0, 0, 1] [30, 5, 1] [1, 1, 1] : tensor<30x5x2xf32> to tensor<30x5xf32>
// CHECK: linalg.generic {{.*}} ins(%[[A]], %[[B]] :
func.func @slice_of_a_slice(%x: tensor<30x1x4xf32>, %y: tensor<30x5x2xf32>) -> tensor<30x5xf32> {
  %s = tensor.extract_slice %x[0, 0, 2] [30, 1, 2] [1, 1, 1] : tensor<30x1x4xf32> to tensor<30x2xf32>
  %e = tensor.empty() : tensor<30x5x2xf32>
  %m = linalg.generic {indexing_maps = [#ac, #abc, #abc], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %y : tensor<30x2xf32>, tensor<30x5x2xf32>) outs(%e : tensor<30x5x2xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.maximumf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<30x5x2xf32>
  %c = tensor.extract_slice %m[0, 0, 1] [30, 5, 1] [1, 1, 1] : tensor<30x5x2xf32> to tensor<30x5xf32>
  return %c : tensor<30x5xf32>
}
