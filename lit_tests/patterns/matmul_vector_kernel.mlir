// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// A group of another pass: the constant operand is packed by tiles of channels, padded with zeros.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: vector.fma {{.*}} : vector<8xf32>
// CHECK: arith.maximumf {{.*}} : vector<8xf32>
// CHECK: util.global private @packed_filter : tensor<1160xf32>
// CHECK-LABEL: @constant_and_relu
// CHECK: %[[W:.*]] = util.global.load immutable @packed_filter
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%arg0, %[[W]]) {{.*}}: (tensor<61x29xf32>, tensor<1160xf32>) -> tensor<61x40xf32>
// CHECK: return %[[Y]]
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @constant_and_relu(%a: tensor<61x29xf32>) -> tensor<61x40xf32> {
  %b = arith.constant dense<2.0> : tensor<29x40xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<61x40xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<61x40xf32>) -> tensor<61x40xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<61x29xf32>, tensor<29x40xf32>) outs(%f : tensor<61x40xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<61x40xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<61x40xf32>) outs(%e : tensor<61x40xf32>) {
  ^bb0(%i: f32, %o: f32):
    %t = arith.maximumf %i, %zero : f32
    linalg.yield %t : f32
  } -> tensor<61x40xf32>
  return %y : tensor<61x40xf32>
}

// -----

// The contraction alone; its second operand is packed in each call, for 64 rows.
// CHECK-LABEL: @computed_and_transposed
// CHECK-SAME: %[[A:.*]]: tensor<32x64xf16>, %[[B:.*]]: tensor<24x32xf16>
// CHECK: %[[P:.*]] = tensor.collapse_shape {{.*}} into tensor<768xf16>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[A]], %[[P]])
#a = affine_map<(m, n, k) -> (k, m)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @computed_and_transposed(%a: tensor<32x64xf16>, %b: tensor<24x32xf16>) -> tensor<64x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x24xf32>) -> tensor<64x24xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<32x64xf16>, tensor<24x32xf16>) outs(%f : tensor<64x24xf32>) {
  ^bb0(%i: f16, %j: f16, %o: f32):
    %p = arith.extf %i : f16 to f32
    %q = arith.extf %j : f16 to f32
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<64x24xf32>
  return %c : tensor<64x24xf32>
}

// -----

// A slice with strides is read in place.
// CHECK-LABEL: @slice_with_strides
// CHECK-SAME: %[[X:.*]]: tensor<127x16xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[X]], %{{.*}}) {{.*}}: (tensor<127x16xf32>, tensor<384xf32>) -> tensor<64x24xf32>
func.func @slice_with_strides(%x: tensor<127x16xf32>) -> tensor<64x24xf32> {
  %w = arith.constant dense<2.0> : tensor<16x24xf32>
  %zero = arith.constant 0.0 : f32
  %a = tensor.extract_slice %x[0, 0] [64, 16] [2, 1] : tensor<127x16xf32> to tensor<64x16xf32>
  %y = flow.dispatch.region -> (tensor<64x24xf32>) {
    %e = tensor.empty() : tensor<64x24xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x24xf32>) -> tensor<64x24xf32>
    %c = linalg.matmul ins(%a, %w : tensor<64x16xf32>, tensor<16x24xf32>) outs(%f : tensor<64x24xf32>) -> tensor<64x24xf32>
    flow.return %c : tensor<64x24xf32>
  }
  return %y : tensor<64x24xf32>
}

// -----

// For fewer rows packing takes too large a part of the time.
// CHECK-LABEL: @no_kernel_few_rows
// CHECK-NOT: flow.dispatch @
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @no_kernel_few_rows(%a: tensor<31x32xf32>, %b: tensor<32x24xf32>) -> tensor<31x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<31x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<31x24xf32>) -> tensor<31x24xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<31x32xf32>, tensor<32x24xf32>) outs(%f : tensor<31x24xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<31x24xf32>
  return %c : tensor<31x24xf32>
}

// -----

// The start would be read element by element.
// CHECK-LABEL: @no_kernel_transposed_start
// CHECK-NOT: flow.dispatch @
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (n, m)>
#id = affine_map<(m, n) -> (m, n)>
func.func @no_kernel_transposed_start(%a: tensor<64x32xf32>, %b: tensor<32x24xf32>, %s: tensor<24x64xf32>) -> tensor<24x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x64xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<64x32xf32>, tensor<32x24xf32>) outs(%s : tensor<24x64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<24x64xf32>
  return %c : tensor<24x64xf32>
}

// -----

// CHECK-LABEL: @no_kernel_empty
// CHECK-NOT: flow.dispatch @
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @no_kernel_empty(%a: tensor<64x0xf32>, %b: tensor<0x24xf32>) -> tensor<64x24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x24xf32>) -> tensor<64x24xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<64x0xf32>, tensor<0x24xf32>) outs(%f : tensor<64x24xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<64x24xf32>
  return %c : tensor<64x24xf32>
}

// -----

// WHY-LABEL: @no_kernel_in_a_batch
// WHY: matmul_vector_kernel
// WHY-NEXT: the kernel cannot compute a batch of contractions
// CHECK-LABEL: @no_kernel_in_a_batch
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, m, n, k) -> (b, m, k)>
#w = affine_map<(b, m, n, k) -> (b, k, n)>
#y = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @no_kernel_in_a_batch(%x: tensor<2x64x16xf32>, %w: tensor<2x16x24xf32>, %s: tensor<2x64x24xf32>) -> tensor<2x64x24xf32> {
  %y = flow.dispatch.region -> (tensor<2x64x24xf32>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x64x16xf32>, tensor<2x16x24xf32>) outs(%s : tensor<2x64x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x64x24xf32>
    flow.return %c : tensor<2x64x24xf32>
  }
  return %y : tensor<2x64x24xf32>
}
