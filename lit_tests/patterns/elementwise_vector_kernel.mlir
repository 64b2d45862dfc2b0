// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=elementwise_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=elementwise_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-pass=elementwise_vector_kernel --pipeline=elementwise_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --pipeline=elementwise_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=elementwise_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// A sine of vectors, which is expanded behind the passes.
// CHECK: %[[V:.*]] = vector.load {{.*}} vector<8xf32>
// CHECK: %[[S:.*]] = math.sin %[[V]] : vector<8xf32>
// CHECK: vector.store %[[S]]
// CHECK-LABEL: @sine
// CHECK-SAME: %[[X:.*]]: tensor<6x16xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@elementwise_{{.*}}(%[[X]])
// CHECK: return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
func.func @sine(%x: tensor<6x16xf32>) -> tensor<6x16xf32> {
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf32>) outs(%e : tensor<6x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.sin %a : f32
    linalg.yield %s : f32
  } -> tensor<6x16xf32>
  return %f : tensor<6x16xf32>
}

// -----

// A group with a cosine of f16.
// CHECK: %[[C:.*]] = math.cos {{.*}} : vector<8xf16>
// CHECK: arith.mulf %[[C]], %[[C]]
// CHECK-LABEL: @group
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@elementwise_
#id = affine_map<(r, c) -> (r, c)>
func.func @group(%x: tensor<6x16xf16>) -> tensor<6x16xf16> {
  %y = flow.dispatch.region -> (tensor<6x16xf16>) {
    %e = tensor.empty() : tensor<6x16xf16>
    %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf16>) outs(%e : tensor<6x16xf16>) {
    ^bb0(%a: f16, %o: f16):
      %s = math.cos %a : f16
      linalg.yield %s : f16
    } -> tensor<6x16xf16>
    %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<6x16xf16>) outs(%e : tensor<6x16xf16>) {
    ^bb0(%a: f16, %o: f16):
      %s = arith.mulf %a, %a : f16
      linalg.yield %s : f16
    } -> tensor<6x16xf16>
    flow.return %s : tensor<6x16xf16>
  }
  return %y : tensor<6x16xf16>
}

// -----

// WHY-LABEL: @no_kernel_exponential
// WHY: elementwise_vector_kernel:
// WHY-NEXT: 1536 operations and 768 bytes are less than a workgroup
// IREE vectorizes as little work well.
// CHECK-LABEL: @no_kernel_exponential
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_exponential(%x: tensor<6x16xf32>) -> tensor<6x16xf32> {
  %e = tensor.empty() : tensor<6x16xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x16xf32>) outs(%e : tensor<6x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<6x16xf32>
  return %f : tensor<6x16xf32>
}

// -----

// WHY-LABEL: @no_kernel_few_elements
// WHY: elementwise_vector_kernel:
// WHY-NEXT: fewer than 8 contiguous elements
// CHECK-LABEL: @no_kernel_few_elements
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_few_elements(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<2x3xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.sin %a : f32
    linalg.yield %s : f32
  } -> tensor<2x3xf32>
  return %f : tensor<2x3xf32>
}

// -----

// The epilogue of a contraction in no group is IREE's.
// CHECK-LABEL: @no_kernel_epilogue
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_epilogue(%x: tensor<6x8xf32>, %w: tensor<8x16xf32>) -> tensor<6x16xf32> {
  %e = tensor.empty() : tensor<6x16xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<6x16xf32>) -> tensor<6x16xf32>
  %m = linalg.matmul ins(%x, %w : tensor<6x8xf32>, tensor<8x16xf32>) outs(%i : tensor<6x16xf32>) -> tensor<6x16xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<6x16xf32>) outs(%e : tensor<6x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.sin %a : f32
    linalg.yield %s : f32
  } -> tensor<6x16xf32>
  return %f : tensor<6x16xf32>
}

// -----

// A group with the work of a workgroup; some vectors are computed in turns.
// CHECK: math.exp {{.*}} vector<8xf32>
// CHECK-NEXT: math.exp {{.*}} vector<8xf32>
// CHECK-LABEL: @exponential
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@elementwise_
#id = affine_map<(r, c) -> (r, c)>
func.func @exponential(%x: tensor<300x128xf32>) -> tensor<300x128xf32> {
  %y = flow.dispatch.region -> (tensor<300x128xf32>) {
    %e = tensor.empty() : tensor<300x128xf32>
    %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<300x128xf32>) outs(%e : tensor<300x128xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.exp %a : f32
      linalg.yield %s : f32
    } -> tensor<300x128xf32>
    flow.return %f : tensor<300x128xf32>
  }
  return %y : tensor<300x128xf32>
}

// -----

// Vectors along the last dimension of the result read a transposed operand as a tile of registers.
// CHECK-COUNT-8: vector.load {{.*}} vector<8xf32>
// CHECK: vector.shuffle {{.*}} [0, 2, 4, 6, 8, 10, 12, 14]
// CHECK-LABEL: @transposed
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@elementwise_
#id = affine_map<(r, c) -> (r, c)>
#other = affine_map<(r, c) -> (c, r)>
func.func @transposed(%x: tensor<128x300xf32>) -> tensor<300x128xf32> {
  %e = tensor.empty() : tensor<300x128xf32>
  %f = linalg.generic {indexing_maps = [#other, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<128x300xf32>) outs(%e : tensor<300x128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<300x128xf32>
  return %f : tensor<300x128xf32>
}

// -----

// The two elements of a row have one scale, which each lane gathers.
// CHECK: arith.divui {{.*}} vector<8xi32>
// CHECK: vector.gather
// CHECK-LABEL: @pairs
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@elementwise_
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @pairs(%x: tensor<30000x2xf32>, %s: tensor<30000xf32>) -> tensor<30000x2xf32> {
  %e = tensor.empty() : tensor<30000x2xf32>
  %f = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<30000x2xf32>, tensor<30000xf32>) outs(%e : tensor<30000x2xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = math.exp %a : f32
    %q = arith.mulf %p, %b : f32
    linalg.yield %q : f32
  } -> tensor<30000x2xf32>
  return %f : tensor<30000x2xf32>
}

// -----

// A sum of two costs less than a gather.
// CHECK-LABEL: @no_kernel_gather
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @no_kernel_gather(%x: tensor<300000x4xf32>, %s: tensor<300000xf32>) -> tensor<300000x4xf32> {
  %e = tensor.empty() : tensor<300000x4xf32>
  %f = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<300000x4xf32>, tensor<300000xf32>) outs(%e : tensor<300000x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %q = arith.addf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<300000x4xf32>
  return %f : tensor<300000x4xf32>
}

// -----

// IREE fuses it with its user.
// CHECK-LABEL: @no_kernel_neighbor
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_neighbor(%x: tensor<300x128xf32>) -> tensor<300x128xf32> {
  %e = tensor.empty() : tensor<300x128xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<300x128xf32>) outs(%e : tensor<300x128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<300x128xf32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%f : tensor<300x128xf32>) outs(%e : tensor<300x128xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.log %a : f32
    linalg.yield %s : f32
  } -> tensor<300x128xf32>
  return %g : tensor<300x128xf32>
}

// -----

// Widened elements are computed where they are read.
// CHECK-LABEL: @no_kernel_widened
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_widened(%x: tensor<3000x128xf16>) -> tensor<3000x128xf32> {
  %e = tensor.empty() : tensor<3000x128xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3000x128xf16>) outs(%e : tensor<3000x128xf32>) {
  ^bb0(%a: f16, %o: f32):
    %s = arith.extf %a : f16 to f32
    linalg.yield %s : f32
  } -> tensor<3000x128xf32>
  return %f : tensor<3000x128xf32>
}

// -----

// WHY-LABEL: @no_kernel_in_a_larger_tensor
// WHY: elementwise_vector_kernel:
// WHY-NEXT: it is written into a larger tensor
// CHECK-LABEL: @no_kernel_in_a_larger_tensor
// CHECK-NOT: flow.dispatch @
#id = affine_map<(r, c) -> (r, c)>
func.func @no_kernel_in_a_larger_tensor(%x: tensor<300x128xf32>, %t: tensor<400x128xf32>) -> tensor<400x128xf32> {
  %y = flow.dispatch.region -> (tensor<300x128xf32>) {
    %e = tensor.empty() : tensor<300x128xf32>
    %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<300x128xf32>) outs(%e : tensor<300x128xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = math.exp %a : f32
      linalg.yield %s : f32
    } -> tensor<300x128xf32>
    flow.return %f : tensor<300x128xf32>
  }
  %z = tensor.insert_slice %y into %t[0, 0] [300, 128] [1, 1] : tensor<300x128xf32> into tensor<400x128xf32>
  return %z : tensor<400x128xf32>
}
