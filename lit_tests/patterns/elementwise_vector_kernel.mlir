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

// IREE vectorizes everything else.
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
