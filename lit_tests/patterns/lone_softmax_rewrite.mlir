// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=lone_softmax_rewrite | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=lone_softmax_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=lone_softmax_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --enable-feature=kernels --pipeline=lone_softmax_rewrite | FileCheck %s --check-prefix=OFF

// OFF-LABEL: @rows
// OFF: linalg.softmax
// CHECK-LABEL: @rows
// CHECK-SAME: %[[X:.*]]: tensor<?x300xf32>
// CHECK: %[[M:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[X]] :
// CHECK: arith.maximumf
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[M]] :
// CHECK: math.exp
// CHECK: %[[S:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[P]] :
// CHECK: arith.addf
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[S]] :
// CHECK: arith.divf
// CHECK: return %[[Y]]
func.func @rows(%x: tensor<?x300xf32>) -> tensor<?x300xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x300xf32>
  %e = tensor.empty(%n) : tensor<?x300xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<?x300xf32>) outs(%e : tensor<?x300xf32>) -> tensor<?x300xf32>
  return %y : tensor<?x300xf32>
}

// -----

// The exponentials are f32, and so is their sum.
// CHECK-LABEL: @channels_f16
// CHECK: linalg.generic {{.*}}["parallel", "reduction", "parallel"]
// CHECK: arith.extf
// CHECK: linalg.generic {{.*}}["parallel", "reduction", "parallel"]{{.*}}tensor<5x7x9xf32>
// CHECK: arith.truncf
func.func @channels_f16(%x: tensor<5x7x9xf16>) -> tensor<5x7x9xf16> {
  %e = tensor.empty() : tensor<5x7x9xf16>
  %y = linalg.softmax dimension(1) ins(%x : tensor<5x7x9xf16>) outs(%e : tensor<5x7x9xf16>) -> tensor<5x7x9xf16>
  return %y : tensor<5x7x9xf16>
}

// -----

// WHY: function @no_rewrite_dynamic_row
// WHY: only the first dimension may be dynamic
// CHECK-LABEL: @no_rewrite_dynamic_row
// CHECK: linalg.softmax
func.func @no_rewrite_dynamic_row(%x: tensor<8x?xf32>) -> tensor<8x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<8x?xf32>
  %e = tensor.empty(%n) : tensor<8x?xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<8x?xf32>) outs(%e : tensor<8x?xf32>) -> tensor<8x?xf32>
  return %y : tensor<8x?xf32>
}

// -----

// WHY: function @no_rewrite_f64
// WHY: element_type (1)
// CHECK-LABEL: @no_rewrite_f64
// CHECK: linalg.softmax
func.func @no_rewrite_f64(%x: tensor<8x9xf64>) -> tensor<8x9xf64> {
  %e = tensor.empty() : tensor<8x9xf64>
  %y = linalg.softmax dimension(1) ins(%x : tensor<8x9xf64>) outs(%e : tensor<8x9xf64>) -> tensor<8x9xf64>
  return %y : tensor<8x9xf64>
}
