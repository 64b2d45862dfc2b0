// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:znver4 --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel | FileCheck %s --check-prefix=VNNI
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:neoverse-v1 --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=ARM
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:sapphirerapids --pipeline=matmul_elem_relu_fusion,matmul_vector_kernel | FileCheck %s --check-prefix=AMX
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

// The contraction alone; its second operand is transposed on the stack, in f32.
// CHECK-LABEL: @computed_and_transposed
// CHECK-SAME: %[[A:.*]]: tensor<32x64xf16>, %[[B:.*]]: tensor<24x32xf16>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[A]], %[[B]])
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

// Rows of f16 are widened by vectors into a buffer, whose elements are broadcast.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: %[[BUFFER:.*]] = memref.alloca() {{.*}} : memref<{{.*}}xf32>
// CHECK: %[[ROW:.*]] = vector.maskedload {{.*}} : memref<320xf16>
// CHECK: %[[WIDE:.*]] = arith.extf %[[ROW]] : vector<8xf16> to vector<8xf32>
// CHECK: vector.store %[[WIDE]], %[[BUFFER]]
// CHECK: memref.load %[[BUFFER]]
// CHECK-LABEL: @widened_rows
func.func @widened_rows(%a: tensor<8x40xf16>) -> tensor<8x24xf32> {
  %b = arith.constant dense<2.0> : tensor<40x24xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x24xf32>) -> tensor<8x24xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x40xf16>, tensor<40x24xf16>) outs(%f : tensor<8x24xf32>) -> tensor<8x24xf32>
  return %c : tensor<8x24xf32>
}

// -----

// Few rows are not: the buffer is written for each tile of columns.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK-NOT: memref.alloca
// CHECK-LABEL: @few_rows_of_f16
func.func @few_rows_of_f16(%a: tensor<2x40xf16>) -> tensor<2x24xf32> {
  %b = arith.constant dense<2.0> : tensor<40x24xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x24xf32>) -> tensor<2x24xf32>
  %c = linalg.matmul ins(%a, %b : tensor<2x40xf16>, tensor<40x24xf16>) outs(%f : tensor<2x24xf32>) -> tensor<2x24xf32>
  return %c : tensor<2x24xf32>
}

// -----

// Channels that are contiguous in a computed filter are transposed on the stack: squares of 8x8, and
// a masked one at the end of K. Rows beyond the last column are those of the last one.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK-DAG: %[[PANEL:.*]] = memref.alloca() {{.*}} : memref<528xf32>
// CHECK-DAG: %[[LAST:.*]] = arith.constant 28 : index
// CHECK: arith.minui %{{.*}}, %[[LAST]]
// CHECK: vector.load {{.*}} : memref<957xf32>, vector<8xf32>
// CHECK: vector.shuffle
// CHECK: vector.store {{.*}}, %[[PANEL]]
// CHECK: vector.maskedload {{.*}} : memref<957xf32>
// CHECK: vector.load %[[PANEL]]
// CHECK: vector.fma
// CHECK-LABEL: @transposed_on_the_stack
// CHECK-SAME: %[[A:.*]]: tensor<9x33xf32>, %[[B:.*]]: tensor<29x33xf32>
// CHECK-NEXT: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[A]], %[[B]])
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @transposed_on_the_stack(%a: tensor<9x33xf32>, %b: tensor<29x33xf32>) -> tensor<9x29xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9x29xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<9x29xf32>) -> tensor<9x29xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<9x33xf32>, tensor<29x33xf32>) outs(%f : tensor<9x29xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<9x29xf32>
  return %c : tensor<9x29xf32>
}

// -----

// A panel holds 256 channels of two vectors: for many rows a longer filter is packed.
// CHECK-LABEL: @packed_for_many_rows
// CHECK-SAME: %[[A:.*]]: tensor<32x257xf32>, %[[B:.*]]: tensor<16x257xf32>
// CHECK: %[[P:.*]] = tensor.collapse_shape {{.*}} into tensor<4112xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[A]], %[[P]])
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @packed_for_many_rows(%a: tensor<32x257xf32>, %b: tensor<16x257xf32>) -> tensor<32x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x16xf32>) -> tensor<32x16xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<32x257xf32>, tensor<16x257xf32>) outs(%f : tensor<32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<32x16xf32>
  return %c : tensor<32x16xf32>
}

// -----

// With few rows IREE's own code for whole vectors is faster, in a group too.
// WHY-LABEL: @no_kernel_few_rows
// WHY: matmul_vector_kernel
// WHY-NEXT: IREE has code for a transposed filter of few rows and whole vectors
// CHECK-LABEL: @no_kernel_few_rows
// CHECK-NOT: flow.dispatch @
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @no_kernel_few_rows(%a: tensor<7x32xf32>, %b: tensor<24x32xf32>, %s: tensor<7x24xf32>) -> tensor<7x24xf32> {
  %y = flow.dispatch.region -> (tensor<7x24xf32>) {
    %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<7x32xf32>, tensor<24x32xf32>) outs(%s : tensor<7x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<7x24xf32>
    flow.return %c : tensor<7x24xf32>
  }
  return %y : tensor<7x24xf32>
}

// -----

// Partial sums of blocks of K would be in the result's memory, which has f16.
// WHY-LABEL: @no_kernel_long_to_f16
// WHY: matmul_vector_kernel
// WHY-NEXT: {{.*}}a long filter that is transposed, before another result than sums
// CHECK-LABEL: @no_kernel_long_to_f16
// CHECK-NOT: flow.dispatch @
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @no_kernel_long_to_f16(%a: tensor<9x257xf32>, %b: tensor<24x257xf32>, %s: tensor<9x24xf32>) -> tensor<9x24xf16> {
  %y = flow.dispatch.region -> (tensor<9x24xf16>) {
    %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<9x257xf32>, tensor<24x257xf32>) outs(%s : tensor<9x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<9x24xf32>
    %e = tensor.empty() : tensor<9x24xf16>
    %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<9x24xf32>) outs(%e : tensor<9x24xf16>) {
    ^bb0(%i: f32, %o: f16):
      %t = arith.truncf %i : f32 to f16
      linalg.yield %t : f16
    } -> tensor<9x24xf16>
    flow.return %d : tensor<9x24xf16>
  }
  return %y : tensor<9x24xf16>
}

// -----

// One row, too: as many exchanges as elements to multiply are less than IREE's loads of them.
// CHECK-LABEL: @one_row
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_
#a = affine_map<(g, n, k) -> (g, k)>
#b = affine_map<(g, n, k) -> (g, n, k)>
#c = affine_map<(g, n, k) -> (g, n)>
func.func @one_row(%a: tensor<5x33xf32>, %b: tensor<5x29x33xf32>, %s: tensor<5x29xf32>) -> tensor<5x29xf32> {
  %y = flow.dispatch.region -> (tensor<5x29xf32>) {
    %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<5x33xf32>, tensor<5x29x33xf32>) outs(%s : tensor<5x29xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<5x29xf32>
    flow.return %c : tensor<5x29xf32>
  }
  return %y : tensor<5x29xf32>
}

// -----

// Pairs of bf16 are words of the squares, and stay pairs in the panel. So few rows are not packed for
// tile registers either.
// VNNI-LABEL: hal.executable.source private @vector_kernel_
// VNNI: %[[PANEL:.*]] = memref.alloca() {{.*}} : memref<{{.*}}xbf16>
// VNNI: %[[PAIRS:.*]] = vector.bitcast {{.*}} : vector<32xbf16> to vector<16xi32>
// VNNI: vector.shuffle {{.*}} : vector<16xi32>, vector<16xi32>
// VNNI: vector.store {{.*}}, %[[PANEL]]
// VNNI: vector.load %[[PANEL]]
// VNNI: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// VNNI-LABEL: @pairs_transposed
// VNNI: flow.dispatch @vector_kernel_{{.*}}(%arg0, %arg1)
// AMX-LABEL: @pairs_transposed
// AMX: flow.dispatch @vector_kernel_{{.*}}(%arg0, %arg1)
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @pairs_transposed(%a: tensor<20x65xbf16>, %b: tensor<29x65xbf16>) -> tensor<20x29xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x29xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<20x29xf32>) -> tensor<20x29xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<20x65xbf16>, tensor<29x65xbf16>) outs(%f : tensor<20x29xf32>) {
  ^bb0(%i: bf16, %j: bf16, %o: f32):
    %p = arith.extf %i : bf16 to f32
    %q = arith.extf %j : bf16 to f32
    %m = arith.mulf %p, %q : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<20x29xf32>
  return %c : tensor<20x29xf32>
}

// -----

// f16 times f32: each operand is widened as it is read.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: arith.extf {{.*}} : vector<8xf16> to vector<8xf32>
// CHECK: vector.fma
// CHECK-LABEL: @mixed_types
// CHECK: flow.dispatch @vector_kernel_{{.*}} : (tensor<5x33xf16>, tensor<33x29xf32>) -> tensor<5x29xf32>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @mixed_types(%a: tensor<5x33xf16>, %b: tensor<33x29xf32>, %s: tensor<5x29xf32>) -> tensor<5x29xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x29xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x29xf32>) -> tensor<5x29xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<5x33xf16>, tensor<33x29xf32>) outs(%f : tensor<5x29xf32>) {
  ^bb0(%i: f16, %j: f32, %o: f32):
    %p = arith.extf %i : f16 to f32
    %m = arith.mulf %p, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<5x29xf32>
  return %c : tensor<5x29xf32>
}

// -----

// Contiguous columns are read in place, whatever the number of rows.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: vector.maskedload
// CHECK-LABEL: @read_in_place
// CHECK-SAME: %[[A:.*]]: tensor<3x32xf32>, %[[B:.*]]: tensor<32x23xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[A]], %[[B]])
func.func @read_in_place(%a: tensor<3x32xf32>, %b: tensor<32x23xf32>) -> tensor<3x23xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x23xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x23xf32>) -> tensor<3x23xf32>
  %c = linalg.matmul ins(%a, %b : tensor<3x32xf32>, tensor<32x23xf32>) outs(%f : tensor<3x23xf32>) -> tensor<3x23xf32>
  return %c : tensor<3x23xf32>
}

// -----

// Rows of 4096 bytes share the sets of a cache: they are packed for many rows.
// CHECK-LABEL: @packed_in_each_call
// CHECK-SAME: %[[A:.*]]: tensor<32x600xf32>, %[[B:.*]]: tensor<600x1024xf32>
// CHECK: %[[P:.*]] = tensor.collapse_shape {{.*}} into tensor<619200xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[A]], %[[P]])
func.func @packed_in_each_call(%a: tensor<32x600xf32>, %b: tensor<600x1024xf32>) -> tensor<32x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x1024xf32>) -> tensor<32x1024xf32>
  %c = linalg.matmul ins(%a, %b : tensor<32x600xf32>, tensor<600x1024xf32>) outs(%f : tensor<32x1024xf32>) -> tensor<32x1024xf32>
  return %c : tensor<32x1024xf32>
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

// Batches are groups of channels: the grid has a workgroup for each of them.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: arith.divui
// CHECK-LABEL: @in_a_batch
// CHECK-SAME: %[[X:.*]]: tensor<2x64x16xf32>, %[[W:.*]]: tensor<2x16x24xf32>, %[[S:.*]]: tensor<2x64x24xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%[[X]], %[[W]], %[[S]])
#x = affine_map<(b, m, n, k) -> (b, m, k)>
#w = affine_map<(b, m, n, k) -> (b, k, n)>
#y = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @in_a_batch(%x: tensor<2x64x16xf32>, %w: tensor<2x16x24xf32>, %s: tensor<2x64x24xf32>) -> tensor<2x64x24xf32> {
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

// -----

// Products of bytes: AVX2 multiplies pairs of i16; the accumulators are of i32.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: %[[X:.*]] = arith.extui {{.*}} : vector<16xi8> to vector<16xi16>
// CHECK: arith.extui {{.*}} : vector<2xi8> to vector<2xi16>
// CHECK: %[[W:.*]] = arith.extsi {{.*}} : vector<16xi8> to vector<16xi16>
// CHECK: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"({{.*}}) : (vector<16xi16>, vector<16xi16>) -> vector<8xi32>
// CHECK: arith.sitofp {{.*}} : vector<8xi32> to vector<8xf32>
// CHECK-LABEL: @bytes_with_a_scale
// CHECK: %[[P:.*]] = util.global.load immutable @packed_filter
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@matmul_{{.*}}(%arg0, %[[P]], %arg1) {{.*}} : (tensor<7x29xi8>, tensor<1200xi8>, tensor<40xf32>) -> tensor<7x40xf32>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
func.func @bytes_with_a_scale(%a: tensor<7x29xi8>, %s: tensor<40xf32>) -> tensor<7x40xf32> {
  %b = arith.constant dense<2> : tensor<29x40xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<7x40xi32>
  %g = tensor.empty() : tensor<7x40xf32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<7x40xi32>) -> tensor<7x40xi32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<7x29xi8>, tensor<29x40xi8>) outs(%f : tensor<7x40xi32>) {
  ^bb0(%i: i8, %j: i8, %o: i32):
    %p = arith.extui %i : i8 to i32
    %q = arith.extsi %j : i8 to i32
    %m = arith.muli %p, %q : i32
    %t = arith.addi %o, %m : i32
    linalg.yield %t : i32
  } -> tensor<7x40xi32>
  %y = linalg.generic {indexing_maps = [#id, #n, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %s : tensor<7x40xi32>, tensor<40xf32>) outs(%g : tensor<7x40xf32>) {
  ^bb0(%i: i32, %j: f32, %o: f32):
    %p = arith.sitofp %i : i32 to f32
    %t = arith.mulf %p, %j : f32
    linalg.yield %t : f32
  } -> tensor<7x40xf32>
  return %y : tensor<7x40xf32>
}

// -----

// Of several rows the image is widened by vectors into a buffer, whose pairs are broadcast; those
// behind the last vector are widened one by one.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: %[[BUFFER:.*]] = memref.alloca() {{.*}} : memref<{{.*}}xi32>
// CHECK: %[[ROW:.*]] = arith.extsi {{.*}} : vector<16xi8> to vector<16xi16>
// CHECK: %[[WORDS:.*]] = vector.bitcast %[[ROW]] : vector<16xi16> to vector<8xi32>
// CHECK: vector.store %[[WORDS]], %[[BUFFER]]
// CHECK: arith.extsi {{.*}} : vector<2xi8> to vector<2xi16>
// CHECK: arith.extsi {{.*}} : vector<16xi8> to vector<16xi16>
// CHECK: memref.load %[[BUFFER]]
// CHECK: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// CHECK-LABEL: @bytes_of_several_rows
func.func @bytes_of_several_rows(%a: tensor<24x35xi8>) -> tensor<24x16xi32> {
  %b = arith.constant dense<2> : tensor<35x16xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<24x16xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<24x16xi32>) -> tensor<24x16xi32>
  %c = linalg.matmul ins(%a, %b : tensor<24x35xi8>, tensor<35x16xi8>) outs(%f : tensor<24x16xi32>) -> tensor<24x16xi32>
  return %c : tensor<24x16xi32>
}

// -----

// VNNI multiplies unsigned bytes of the image: signed ones are shifted, and the accumulators start
// from 128 times the sums of the filter's columns.
// VNNI-LABEL: hal.executable.source private @vector_kernel_
// VNNI: arith.subi {{.*}} : vector<16xi32>
// VNNI: arith.xori {{.*}} : vector<16xi32>
// VNNI: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"({{.*}}) : (vector<16xi32>, vector<64xi8>, vector<64xi8>) -> vector<16xi32>
// VNNI-LABEL: @signed_bytes
// VNNI-DAG: %[[P:.*]] = util.global.load immutable @packed_filter
// VNNI-DAG: %[[S:.*]] = util.global.load immutable @filter_sums
// VNNI: flow.dispatch @vector_kernel_{{.*}}(%arg0, %[[P]], %[[S]])
func.func @signed_bytes(%a: tensor<7x32xi8>) -> tensor<7x48xi32> {
  %b = arith.constant dense<2> : tensor<32x48xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<7x48xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<7x48xi32>) -> tensor<7x48xi32>
  %c = linalg.matmul ins(%a, %b : tensor<7x32xi8>, tensor<32x48xi8>) outs(%f : tensor<7x48xi32>) -> tensor<7x48xi32>
  return %c : tensor<7x48xi32>
}

// -----

// CHECK-LABEL: @no_kernel_accumulators_of_i16
// CHECK-NOT: flow.dispatch @
func.func @no_kernel_accumulators_of_i16(%a: tensor<64x32xi8>, %b: tensor<32x48xi8>, %s: tensor<64x48xi16>) -> tensor<64x48xi16> {
  %c = linalg.matmul ins(%a, %b : tensor<64x32xi8>, tensor<32x48xi8>) outs(%s : tensor<64x48xi16>) -> tensor<64x48xi16>
  return %c : tensor<64x48xi16>
}

// -----

// IREE's microkernels have `smmla`, twice as wide as `sdot`.
// CHECK-LABEL: @no_kernel_matrix_instructions
// ARM-LABEL: @no_kernel_matrix_instructions
// ARM: matmul_vector_kernel
// ARM-NEXT: IREE's microkernels have matrix instructions of i8
func.func @no_kernel_matrix_instructions(%a: tensor<40x32xi8>, %b: tensor<32x48xi8>, %s: tensor<40x48xi32>) -> tensor<40x48xi32> {
  %y = flow.dispatch.region -> (tensor<40x48xi32>) {
    %c = linalg.matmul ins(%a, %b : tensor<40x32xi8>, tensor<32x48xi8>) outs(%s : tensor<40x48xi32>) -> tensor<40x48xi32>
    flow.return %c : tensor<40x48xi32>
  }
  return %y : tensor<40x48xi32>
}

// -----

// Tile registers take whole steps of K, for which the filter has zeros behind it, and bytes of any
// signs: 40 columns in tiles of 32, K of 29 in a step of 64.
// AMX-LABEL: hal.executable.source private @vector_kernel_
// AMX: %[[ERROR:.*]] = llvm.inline_asm has_side_effects "syscall"
// AMX: %[[ALLOWED:.*]] = arith.cmpi eq, %[[ERROR]]
// AMX: scf.if %[[ALLOWED]] {
// AMX: llvm.call_intrinsic "llvm.x86.ldtilecfg"
// AMX: llvm.call_intrinsic "llvm.x86.tdpbusd"
// AMX: llvm.call_intrinsic "llvm.x86.tilerelease"
// AMX-LABEL: @tiles_of_bytes
// AMX: %[[P:.*]] = util.global.load immutable @packed_filter
// AMX: flow.dispatch @vector_kernel_{{.*}}(%arg0, %[[P]]) {{.*}} : (tensor<17x29xi8>, tensor<4096xi8>) -> tensor<17x40xi32>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @tiles_of_bytes(%a: tensor<17x29xi8>) -> tensor<17x40xi32> {
  %b = arith.constant dense<2> : tensor<29x40xi8>
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<17x40xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<17x40xi32>) -> tensor<17x40xi32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<17x29xi8>, tensor<29x40xi8>) outs(%f : tensor<17x40xi32>) {
  ^bb0(%i: i8, %j: i8, %o: i32):
    %p = arith.extui %i : i8 to i32
    %q = arith.extsi %j : i8 to i32
    %m = arith.muli %p, %q : i32
    %t = arith.addi %o, %m : i32
    linalg.yield %t : i32
  } -> tensor<17x40xi32>
  return %c : tensor<17x40xi32>
}

// -----

// An epilogue behind a collapse whose ops read each other more than once.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: math.exp {{.*}} : vector<8xf32>
// CHECK-LABEL: @collapse_and_silu
// CHECK: %[[C:.*]] = flow.dispatch @vector_kernel_{{.*}} -> tensor<40x2x8xf32>
// CHECK: %[[Y:.*]] = tensor.collapse_shape %[[C]]
// CHECK-NEXT: return %[[Y]]
#a = affine_map<(m, g, n, k) -> (m, g, k)>
#b = affine_map<(m, g, n, k) -> (g, k, n)>
#c = affine_map<(m, g, n, k) -> (m, g, n)>
#id = affine_map<(m, n) -> (m, n)>
func.func @collapse_and_silu(%a: tensor<40x2x5xf32>, %b: tensor<2x5x8xf32>) -> tensor<40x16xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<40x2x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<40x2x8xf32>) -> tensor<40x2x8xf32>
  %c = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : tensor<40x2x5xf32>, tensor<2x5x8xf32>) outs(%f : tensor<40x2x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  } -> tensor<40x2x8xf32>
  %s = tensor.collapse_shape %c [[0], [1, 2]] : tensor<40x2x8xf32> into tensor<40x16xf32>
  %ey = tensor.empty() : tensor<40x16xf32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<40x16xf32>) outs(%ey : tensor<40x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %n = arith.negf %i : f32
    %x = math.exp %n : f32
    %d = arith.addf %x, %one : f32
    %q = arith.divf %one, %d : f32
    linalg.yield %q : f32
  } -> tensor<40x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %g : tensor<40x16xf32>, tensor<40x16xf32>) outs(%ey : tensor<40x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %q = arith.mulf %i, %j : f32
    linalg.yield %q : f32
  } -> tensor<40x16xf32>
  return %y : tensor<40x16xf32>
}

// -----

// The kernel cannot read f8: the matmul is a kernel without its epilogue.
// CHECK-LABEL: @unsupported_epilogue
// CHECK: %[[M:.*]] = flow.dispatch @vector_kernel_{{.*}}::@matmul_
// CHECK: linalg.generic {{.*}} ins(%[[M]], %{{.*}} : tensor<32x48xf32>, tensor<32x48xf8E4M3FN>)
#id = affine_map<(r, c) -> (r, c)>
func.func @unsupported_epilogue(%x: tensor<32x64xf32>, %w: tensor<64x48xf32>, %s: tensor<32x48xf8E4M3FN>) -> tensor<32x48xf32> {
  %e = tensor.empty() : tensor<32x48xf32>
  %zero = arith.constant 0.0 : f32
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<32x48xf32>) -> tensor<32x48xf32>
  %m = linalg.matmul ins(%x, %w : tensor<32x64xf32>, tensor<64x48xf32>) outs(%i : tensor<32x48xf32>) -> tensor<32x48xf32>
  %f = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%m, %s : tensor<32x48xf32>, tensor<32x48xf8E4M3FN>) outs(%e : tensor<32x48xf32>) {
  ^bb0(%a: f32, %b: f8E4M3FN, %o: f32):
    %c = arith.extf %b : f8E4M3FN to f32
    %y = arith.addf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<32x48xf32>
  return %f : tensor<32x48xf32>
}
