// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=scatter_widening_rewrite,scatter_fusion,scatter_triton_kernel | FileCheck %s --check-prefix=KERNEL %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=scatter_widening_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=scatter_widening_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --pipeline=scatter_widening_rewrite | FileCheck %s --check-prefix=CPU
// OFF-NOT: arith.ext

// CPU-LABEL: @sum
// CPU: arith.extf
// CPU: arith.extf
// CPU-DAG: %[[W:.+]] = iree_tensor_ext.compute_barrier.start %{{.+}} : tensor<9x8xf32>
// CPU-DAG: %[[U:.+]] = iree_tensor_ext.compute_barrier.start %{{.+}} : tensor<5x8xf32>
// CPU: iree_linalg_ext.scatter {{.*}} ins(%[[U]], %{{.+}} outs(%[[W]] :
// CPU: iree_tensor_ext.compute_barrier.start
// CPU: arith.truncf
// CPU-LABEL: @filled
// CPU: iree_linalg_ext.scatter {{.*}} outs(%{{.+}} : tensor<9x8xf32>)
// CPU-LABEL: @unsigned
// CPU-NOT: arith.ext
// CPU: return

// KERNEL-LABEL: @sum
// KERNEL-SAME: %[[U:[a-z0-9]+]]: tensor<5x8xf16>, %[[I:[a-z0-9]+]]: tensor<5xi64>
// KERNEL: %[[W:.*]] = linalg.generic
// KERNEL: hal.dispatch.extern "scatter_kernel"(%[[U]], %[[I]], %[[W]]) : {{.*}} -> %[[W]]
// CHECK-LABEL: @sum
// CHECK-SAME: %[[U:[a-z0-9]+]]: tensor<5x8xf16>, %[[I:[a-z0-9]+]]: tensor<5xi64>, %[[X:[a-z0-9]+]]: tensor<9x8xf16>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: arith.extf
// CHECK: %[[V:.*]] = linalg.generic {{.*}} ins(%[[U]] :
// CHECK: arith.extf
// CHECK: %[[Z:.*]] = iree_linalg_ext.scatter {{.*}} ins(%[[V]], %[[I]] : tensor<5x8xf32>, tensor<5xi64>) outs(%[[W]] : tensor<9x8xf32>)
// CHECK: arith.addf {{.*}} : f32
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Z]] :
// CHECK: arith.truncf
// CHECK: return %[[Y]]
func.func @sum(%u: tensor<5x8xf16>, %i: tensor<5xi64>, %x: tensor<9x8xf16>) -> tensor<9x8xf16> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<5x8xf16>, tensor<5xi64>) outs(%x : tensor<9x8xf16>) {
  ^bb0(%a: f16, %b: f16):
    %r = arith.addf %a, %b : f16
    iree_linalg_ext.yield %r : f16
  } -> tensor<9x8xf16>
  return %y : tensor<9x8xf16>
}

// -----

// CHECK-LABEL: @filled
// CHECK: %[[F:.*]] = linalg.fill {{.*}} -> tensor<9x8xf32>
// CHECK: %[[V:.*]] = linalg.generic
// CHECK: arith.mulf {{.*}} : bf16
// CHECK: arith.extf
// CHECK: iree_linalg_ext.scatter {{.*}} ins(%[[V]], {{.*}} outs(%[[F]] :
func.func @filled(%u: tensor<5x8xbf16>, %i: tensor<5xi64>) -> tensor<9x8xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<9x8xbf16>
  %x = linalg.fill ins(%zero : bf16) outs(%e : tensor<9x8xbf16>) -> tensor<9x8xbf16>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<5x8xbf16>, tensor<5xi64>) outs(%x : tensor<9x8xbf16>) {
  ^bb0(%a: bf16, %b: bf16):
    %q = arith.mulf %a, %a : bf16
    %r = arith.addf %b, %q : bf16
    iree_linalg_ext.yield %r : bf16
  } -> tensor<9x8xbf16>
  return %y : tensor<9x8xbf16>
}

// -----

// Unsigned numbers are extended with zeros.
// CHECK-LABEL: @unsigned
// CHECK: arith.extui
// CHECK: arith.extui
// CHECK: arith.maxui {{.*}} : i32
// CHECK: arith.trunci
func.func @unsigned(%u: tensor<5xi8>, %i: tensor<5xi64>, %x: tensor<9xi8>) -> tensor<9xi8> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<5xi8>, tensor<5xi64>) outs(%x : tensor<9xi8>) {
  ^bb0(%a: i8, %b: i8):
    %r = arith.maxui %a, %b : i8
    iree_linalg_ext.yield %r : i8
  } -> tensor<9xi8>
  return %y : tensor<9xi8>
}

// -----

// A body that is no combiner rounds after each update, as before.
// CHECK-LABEL: @other_body
// CHECK: iree_linalg_ext.scatter {{.*}} tensor<5xf32>
// CHECK: arith.truncf
// CHECK: arith.truncf
// CHECK: math.sqrt {{.*}} : f16
// CHECK: arith.extf
func.func @other_body(%u: tensor<5xf16>, %i: tensor<5xi64>, %x: tensor<9xf16>) -> tensor<9xf16> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<5xf16>, tensor<5xi64>) outs(%x : tensor<9xf16>) {
  ^bb0(%a: f16, %b: f16):
    %q = arith.addf %a, %b : f16
    %r = math.sqrt %q : f16
    iree_linalg_ext.yield %r : f16
  } -> tensor<9xf16>
  return %y : tensor<9xf16>
}

// -----

// CHECK-LABEL: @no_rewrite_replaced
// CHECK-NOT: arith.ext
func.func @no_rewrite_replaced(%u: tensor<5xf16>, %i: tensor<5xi64>, %x: tensor<9xf16>) -> tensor<9xf16> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<5xf16>, tensor<5xi64>) outs(%x : tensor<9xf16>) {
  ^bb0(%a: f16, %b: f16):
    iree_linalg_ext.yield %a : f16
  } -> tensor<9xf16>
  return %y : tensor<9xf16>
}

// -----

// CHECK-LABEL: @no_rewrite_unique
// CHECK-NOT: arith.ext
func.func @no_rewrite_unique(%u: tensor<5xf16>, %i: tensor<5xi64>, %x: tensor<9xf16>) -> tensor<9xf16> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%u, %i : tensor<5xf16>, tensor<5xi64>) outs(%x : tensor<9xf16>) {
  ^bb0(%a: f16, %b: f16):
    %r = arith.addf %a, %b : f16
    iree_linalg_ext.yield %r : f16
  } -> tensor<9xf16>
  return %y : tensor<9xf16>
}
