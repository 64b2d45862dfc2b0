// RUN: %mlirfuse-opt %s --split-input-file --pipeline=constant_insertion_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=constant_insertion_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=constant_insertion_rewrite --disable-pass=constant_insertion_rewrite | FileCheck %s --check-prefix=OFF
// OFF-NOT: tensor.extract_slice

// A class token in front of patches.
// CHECK-LABEL: @token
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>, %[[P:.*]]: tensor<4x4xf32>)
// CHECK: %[[C:.*]] = util.global.load immutable @constant
// CHECK: %[[E:.*]] = tensor.empty() : tensor<2x4x4xf32>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[C]][0, 0, 0] [2, 1, 4] [1, 1, 1]
// CHECK: %[[I:.*]] = tensor.insert_slice %[[S]] into %[[E]][0, 0, 0] [2, 1, 4] [1, 1, 1]
// CHECK: %[[R:.*]] = tensor.insert_slice %[[X]] into %[[I]][0, 1, 0] [2, 3, 4] [1, 1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[R]], %[[P]]
util.global private @constant : tensor<2x4x4xf32>
util.func public @token(%x: tensor<2x3x4xf32>, %p: tensor<4x4xf32>) -> tensor<2x4x4xf32> {
  %c = util.global.load immutable @constant : tensor<2x4x4xf32>
  %i = tensor.insert_slice %x into %c[0, 1, 0] [2, 3, 4] [1, 1, 1] : tensor<2x3x4xf32> into tensor<2x4x4xf32>
  %e = tensor.empty() : tensor<2x4x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%i, %p : tensor<2x4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<2x4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x4x4xf32>
  util.return %y : tensor<2x4x4xf32>
}

// -----

// Two parts of the constant are left, between and behind the insertions.
// CHECK-LABEL: @between
// CHECK: %[[E:.*]] = tensor.empty() : tensor<4x9xf16>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[C:.*]][0, 2] [4, 1] [1, 1]
// CHECK: %[[I:.*]] = tensor.insert_slice %[[S]] into %[[E]][0, 2] [4, 1] [1, 1]
// CHECK: %[[T:.*]] = tensor.extract_slice %[[C]][0, 6] [4, 3] [1, 1]
// CHECK: %[[J:.*]] = tensor.insert_slice %[[T]] into %[[I]][0, 6] [4, 3] [1, 1]
// CHECK: %[[K:.*]] = tensor.insert_slice %{{.*}} into %[[J]][0, 3] [4, 3] [1, 1]
// CHECK: %[[L:.*]] = tensor.insert_slice %{{.*}} into %[[K]][0, 0] [4, 2] [1, 1]
// CHECK: util.return %[[L]]
util.global private @row : tensor<4x9xf16>
util.func public @between(%x: tensor<4x3xf16>, %y: tensor<4x2xf16>) -> tensor<4x9xf16> {
  %c = util.global.load immutable @row : tensor<4x9xf16>
  %i = tensor.insert_slice %x into %c[0, 3] [4, 3] [1, 1] : tensor<4x3xf16> into tensor<4x9xf16>
  %j = tensor.insert_slice %y into %i[0, 0] [4, 2] [1, 1] : tensor<4x2xf16> into tensor<4x9xf16>
  util.return %j : tensor<4x9xf16>
}

// -----

// A part with a rank of its own, over all that the constant has.
// CHECK-LABEL: @whole
// CHECK-NOT: tensor.extract_slice
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[1, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<2x4xf32>
util.global private @two : tensor<2x4xf32>
util.func public @whole(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<2x4xf32> {
  %c = util.global.load immutable @two : tensor<2x4xf32>
  %i = tensor.insert_slice %x into %c[0, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<2x4xf32>
  %j = tensor.insert_slice %y into %i[1, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<2x4xf32>
  util.return %j : tensor<2x4xf32>
}

// -----

// Padding with one number, a part along two axes, an argument, every second row, and a tensor with
// another user are left.
// CHECK-LABEL: @left
// CHECK-NOT: tensor.extract_slice
// CHECK: util.return
util.global private @ones : tensor<4x4xf32>
util.func public @left(%x: tensor<2x4xf32>, %z: tensor<2x2xf32>, %m: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %c = arith.constant dense<1.0> : tensor<4x4xf32>
  %a = tensor.insert_slice %x into %c[1, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<4x4xf32>
  %d = util.global.load immutable @ones : tensor<4x4xf32>
  %b = tensor.insert_slice %z into %d[1, 0] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x4xf32>
  %e = tensor.insert_slice %x into %m[1, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<4x4xf32>
  %f = tensor.insert_slice %x into %d[0, 0] [2, 4] [2, 1] : tensor<2x4xf32> into tensor<4x4xf32>
  %g = tensor.insert_slice %z into %f[0, 0] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x4xf32>
  util.return %a, %b, %e, %f, %g, %d : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
