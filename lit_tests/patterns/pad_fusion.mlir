// RUN: %mlirfuse-opt %s --split-input-file --pipeline=pad_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=pad_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#mn = affine_map<(m, n) -> (m, n)>

// PyTorch: F.pad(torch.tanh(x), (1, 2)) * 1; the producer of the value is no group yet.
// CHECK-LABEL: @elementwise
// CHECK: %[[Z:.*]] = arith.constant 0.000000e+00
// CHECK: %[[W:.*]] = flow.tensor.splat %[[Z]] : tensor<8x35xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<8x35xf32>)
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%arg0 :
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[A]] :
// CHECK: %[[I:.*]] = tensor.insert_slice %[[B]] into %[[W]][0, 1] [8, 32] [1, 1]
// CHECK: flow.return %[[I]]
// CHECK: return %[[R]]
func.func @elementwise(%x: tensor<8x32xf32>) -> tensor<8x35xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %b = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.absf %i : f32
    linalg.yield %r : f32
  } -> tensor<8x32xf32>
  %p = tensor.pad %b low[0, 1] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<8x32xf32> to tensor<8x35xf32>
  return %p : tensor<8x35xf32>
}

// -----

// A group of another pass, as it stands before a second convolution; it keeps its mark.
// CHECK-LABEL: @group
// CHECK: %[[W:.*]] = flow.tensor.splat %{{.*}} : tensor<?x10xf16>{%[[N:.*]]}
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<?x10xf16>{%[[N]]}) attributes {mlirfuse.match = 3 : i64, mlirfuse.pass = "softmax_fusion"}
// CHECK: %[[S:.*]] = linalg.softmax
// CHECK: %[[I:.*]] = tensor.insert_slice %[[S]] into %[[W]][0, 1] [%[[N]], 8] [1, 1]
// CHECK: flow.return %[[I]]
func.func @group(%x: tensor<?x8xf16>, %n: index) -> tensor<?x10xf16> {
  %zero = arith.constant 0.0 : f16
  %y = flow.dispatch.region -> (tensor<?x8xf16>{%n}) attributes {mlirfuse.match = 3 : i64, mlirfuse.pass = "softmax_fusion"} {
    %e = tensor.empty(%n) : tensor<?x8xf16>
    %s = linalg.softmax dimension(1) ins(%x : tensor<?x8xf16>) outs(%e : tensor<?x8xf16>) -> tensor<?x8xf16>
    flow.return %s : tensor<?x8xf16>
  }
  %p = tensor.pad %y low[0, 1] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f16
  } : tensor<?x8xf16> to tensor<?x10xf16>
  return %p : tensor<?x10xf16>
}

// -----

// ONNX: Pad of an argument; there is nothing to fuse with.
// CHECK-LABEL: @no_fusion_argument
// CHECK: tensor.pad
func.func @no_fusion_argument(%x: tensor<8x32xbf16>) -> tensor<8x35xbf16> {
  %zero = arith.constant 0.0 : bf16
  %p = tensor.pad %x low[0, 1] high[0, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : bf16
  } : tensor<8x32xbf16> to tensor<8x35xbf16>
  return %p : tensor<8x35xbf16>
}

// -----

#m = affine_map<(m) -> (m)>

// JAX: jnp.pad of a value that is returned too.
// CHECK-LABEL: @no_fusion_read_elsewhere
// CHECK: tensor.pad
// WHY: extra_users (1)
// WHY: the inserted value has other users
func.func @no_fusion_read_elsewhere(%x: tensor<8xf32>) -> (tensor<10xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %p = tensor.pad %a low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<8xf32> to tensor<10xf32>
  return %p, %a : tensor<10xf32>, tensor<8xf32>
}

// -----

#m = affine_map<(m) -> (m)>

// CHECK-LABEL: @no_fusion_value_depends_on_the_index
// CHECK: tensor.pad
// WHY: structure (1)
// WHY: the padding's value depends on the index
func.func @no_fusion_value_depends_on_the_index(%x: tensor<8xi32>) -> tensor<10xi32> {
  %e = tensor.empty() : tensor<8xi32>
  %a = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<8xi32>) outs(%e : tensor<8xi32>) {
  ^bb0(%i: i32, %o: i32):
    %r = arith.addi %i, %i : i32
    linalg.yield %r : i32
  } -> tensor<8xi32>
  %p = tensor.pad %a low[1] high[1] {
  ^bb0(%i: index):
    %v = arith.index_cast %i : index to i32
    tensor.yield %v : i32
  } : tensor<8xi32> to tensor<10xi32>
  return %p : tensor<10xi32>
}

// -----

#m = affine_map<(m) -> (m)>

// CHECK-LABEL: @no_fusion_dynamic_amount
// CHECK: tensor.pad
// WHY: dynamic_shape (1)
// WHY: the amount of padding is dynamic or negative
func.func @no_fusion_dynamic_amount(%x: tensor<8xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %a = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %p = tensor.pad %a low[1] high[%n] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<8xf32> to tensor<?xf32>
  return %p : tensor<?xf32>
}

// -----

#m = affine_map<(m) -> (m)>

// CHECK-LABEL: @no_fusion_dynamic_dimension
// CHECK: tensor.pad
// WHY: dynamic_shape (1)
// WHY: a dynamic dimension is padded
func.func @no_fusion_dynamic_dimension(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %a = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.tanh %i : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %p = tensor.pad %a low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<?xf32> to tensor<?xf32>
  return %p : tensor<?xf32>
}
