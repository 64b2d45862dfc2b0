// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=scatter_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=scatter_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-pass=scatter_vector_kernel --pipeline=scatter_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=scatter_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

#mn = affine_map<(m, n) -> (m, n)>
#k = affine_map<(k) -> (k)>
#one = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#index = {indexing_maps = [#k, #k], iterator_types = ["parallel"]}

// The absolute values are stored; then each window in bounds is added to its row, as two vectors and
// five elements.
// CHECK: math.absf
// CHECK: scf.for
// CHECK: arith.addi {{.*}} : vector<1xi64>
// CHECK: %[[I:.*]] = arith.index_cast
// CHECK: %[[IN:.*]] = arith.cmpi ult, %[[I]]
// CHECK: scf.if %[[IN]]
// CHECK: scf.for
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: scf.for
// CHECK: arith.addf {{.*}} : vector<1xf32>
// CHECK-LABEL: @sums
// CHECK-SAME: %[[U:.*]]: tensor<30x21xf32>, %[[I:.*]]: tensor<30xi64>, %[[X:.*]]: tensor<40x21xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@scatter_{{.*}}(%[[X]], %[[I]], %[[U]])
// CHECK: return %[[Y]]
func.func @sums(%u: tensor<30x21xf32>, %i: tensor<30xi64>, %x: tensor<40x21xf32>) -> tensor<40x21xf32> {
  %five = arith.constant 5 : i64
  %e = tensor.empty() : tensor<40x21xf32>
  %n = tensor.empty() : tensor<30xi64>
  %j = linalg.generic #index ins(%i : tensor<30xi64>) outs(%n : tensor<30xi64>) {
  ^bb0(%a: i64, %o: i64):
    %s = arith.addi %a, %five : i64
    linalg.yield %s : i64
  } -> tensor<30xi64>
  %d = linalg.generic #one ins(%x : tensor<40x21xf32>) outs(%e : tensor<40x21xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.absf %a : f32
    linalg.yield %s : f32
  } -> tensor<40x21xf32>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %j : tensor<30x21xf32>, tensor<30xi64>) outs(%d : tensor<40x21xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %b, %a : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<40x21xf32>
  return %y : tensor<40x21xf32>
}

// -----

// Updates replace elements, which are not read: a coordinate is inserted into a tensor of two.
// CHECK-LABEL: @pairs
// CHECK-SAME: %[[U:.*]]: tensor<9xf16>, %[[I:.*]]: tensor<9xi32>, %[[J:.*]]: tensor<9xi32>, %[[X:.*]]: tensor<4x7xf16>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@scatter_{{.*}}(%[[X]], %[[I]], %[[J]], %[[U]])
func.func @pairs(%u: tensor<9xf16>, %i: tensor<9xi32>, %j: tensor<9xi32>, %x: tensor<4x7xf16>) -> tensor<4x7xf16> {
  %e = tensor.empty() : tensor<9x2xi32>
  %a = tensor.insert_slice %i into %e[0, 0] [9, 1] [1, 1] : tensor<9xi32> into tensor<9x2xi32>
  %b = tensor.insert_slice %j into %a[0, 1] [9, 1] [1, 1] : tensor<9xi32> into tensor<9x2xi32>
  %y = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true) ins(%u, %b : tensor<9xf16>, tensor<9x2xi32>) outs(%x : tensor<4x7xf16>) {
  ^bb0(%p: f16, %q: f16):
    iree_linalg_ext.yield %p : f16
  } -> tensor<4x7xf16>
  return %y : tensor<4x7xf16>
}

// -----

// WHY-LABEL: @no_kernel_dynamic
// WHY: scatter_vector_kernel:
// WHY-NEXT: the kernel's sizes are static
// CHECK-LABEL: @no_kernel_dynamic
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_dynamic(%u: tensor<?x21xf32>, %i: tensor<?xi64>, %x: tensor<40x21xf32>) -> tensor<40x21xf32> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<?x21xf32>, tensor<?xi64>) outs(%x : tensor<40x21xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %b, %a : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<40x21xf32>
  return %y : tensor<40x21xf32>
}

// -----

// WHY-LABEL: @no_kernel_booleans
// WHY: scatter_vector_kernel:
// WHY-NEXT: i1
// CHECK-LABEL: @no_kernel_booleans
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_booleans(%u: tensor<30x21xi1>, %i: tensor<30xi64>, %x: tensor<40x21xi1>) -> tensor<40x21xi1> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<30x21xi1>, tensor<30xi64>) outs(%x : tensor<40x21xi1>) {
  ^bb0(%a: i1, %b: i1):
    %s = arith.ori %b, %a : i1
    iree_linalg_ext.yield %s : i1
  } -> tensor<40x21xi1>
  return %y : tensor<40x21xi1>
}

// -----

// WHY-LABEL: @no_kernel_few
// WHY: scatter_vector_kernel:
// WHY-NEXT: few updates of a tensor, which IREE does in place
// CHECK-LABEL: @no_kernel_few
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_few(%u: tensor<3x21xf32>, %i: tensor<3xi64>, %a: tensor<40x9xf32>, %b: tensor<9x21xf32>) -> tensor<40x21xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x21xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40x21xf32>) -> tensor<40x21xf32>
  %x = linalg.matmul ins(%a, %b : tensor<40x9xf32>, tensor<9x21xf32>) outs(%f : tensor<40x21xf32>) -> tensor<40x21xf32>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins(%u, %i : tensor<3x21xf32>, tensor<3xi64>) outs(%x : tensor<40x21xf32>) {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %q, %p : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<40x21xf32>
  return %y : tensor<40x21xf32>
}
