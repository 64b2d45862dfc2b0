// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=concat_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=concat_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=concat_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=concat_vector_kernel | FileCheck %s --check-prefix=OFF
// OFF-NOT: flow.dispatch

// A KV cache and one key, which has no third dimension.
// CHECK-LABEL: @cache
// CHECK-SAME: %[[A:.*]]: tensor<2x2x63x8xf16>, %[[B:.*]]: tensor<2x2x8xf16>
// CHECK: %[[C:.*]] = flow.dispatch @vector_kernel_{{.*}}::@concatenation_{{.*}}(%[[A]], %[[B]]) {{.*}} : (tensor<2x2x63x8xf16>, tensor<2x2x8xf16>) -> tensor<2x2x64x8xf16>
// CHECK: util.return %[[C]]
util.func public @cache(%a: tensor<2x2x63x8xf16>, %b: tensor<2x2x8xf16>) -> tensor<2x2x64x8xf16> {
  %empty = tensor.empty() : tensor<2x2x64x8xf16>
  %first = tensor.insert_slice %a into %empty[0, 0, 0, 0] [2, 2, 63, 8] [1, 1, 1, 1] : tensor<2x2x63x8xf16> into tensor<2x2x64x8xf16>
  %both = tensor.insert_slice %b into %first[0, 0, 63, 0] [2, 2, 1, 8] [1, 1, 1, 1] : tensor<2x2x8xf16> into tensor<2x2x64x8xf16>
  util.return %both : tensor<2x2x64x8xf16>
}

// -----

// Written from the end: the kernel's operands are in the order of their offsets.
// CHECK-LABEL: @backwards
// CHECK-SAME: %[[A:.*]]: tensor<5x3xf32>, %[[B:.*]]: tensor<5x4xf32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@concatenation_{{.*}}(%[[B]], %[[A]])
util.func public @backwards(%a: tensor<5x3xf32>, %b: tensor<5x4xf32>) -> tensor<5x7xf32> {
  %empty = tensor.empty() : tensor<5x7xf32>
  %first = tensor.insert_slice %a into %empty[0, 4] [5, 3] [1, 1] : tensor<5x3xf32> into tensor<5x7xf32>
  %both = tensor.insert_slice %b into %first[0, 0] [5, 4] [1, 1] : tensor<5x4xf32> into tensor<5x7xf32>
  util.return %both : tensor<5x7xf32>
}

// -----

// The largest operand is the result of an elementwise op, which writes it in place.
// CHECK-LABEL: @no_fusion_computed
// CHECK-NOT: flow.dispatch
// CHECK: util.return
#id = affine_map<(r, c) -> (r, c)>
util.func public @no_fusion_computed(%a: tensor<5x3xf32>, %x: tensor<5x4xf32>) -> tensor<5x7xf32> {
  %like = tensor.empty() : tensor<5x4xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<5x4xf32>) outs(%like : tensor<5x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %e = math.exp %in : f32
    linalg.yield %e : f32
  } -> tensor<5x4xf32>
  %empty = tensor.empty() : tensor<5x7xf32>
  %first = tensor.insert_slice %a into %empty[0, 0] [5, 3] [1, 1] : tensor<5x3xf32> into tensor<5x7xf32>
  %both = tensor.insert_slice %b into %first[0, 3] [5, 4] [1, 1] : tensor<5x4xf32> into tensor<5x7xf32>
  util.return %both : tensor<5x7xf32>
}

// -----

// A column is missing.
// WHY: concat_vector_kernel
// WHY: the parts are not adjacent along one axis
// CHECK-LABEL: @no_fusion_gap
// CHECK-NOT: flow.dispatch
// CHECK: util.return
util.func public @no_fusion_gap(%a: tensor<5x3xf32>, %b: tensor<5x3xf32>) -> tensor<5x7xf32> {
  %empty = tensor.empty() : tensor<5x7xf32>
  %first = tensor.insert_slice %a into %empty[0, 0] [5, 3] [1, 1] : tensor<5x3xf32> into tensor<5x7xf32>
  %both = tensor.insert_slice %b into %first[0, 4] [5, 3] [1, 1] : tensor<5x3xf32> into tensor<5x7xf32>
  util.return %both : tensor<5x7xf32>
}

// -----

// A slice of an argument is replaced: the argument is unchanged for other users.
// CHECK-LABEL: @no_fusion_update
// CHECK-NOT: flow.dispatch
// CHECK: util.return
util.func public @no_fusion_update(%whole: tensor<5x7xf32>, %a: tensor<5x3xf32>, %b: tensor<5x4xf32>) -> tensor<5x7xf32> {
  %first = tensor.insert_slice %a into %whole[0, 0] [5, 3] [1, 1] : tensor<5x3xf32> into tensor<5x7xf32>
  %both = tensor.insert_slice %b into %first[0, 3] [5, 4] [1, 1] : tensor<5x4xf32> into tensor<5x7xf32>
  util.return %both : tensor<5x7xf32>
}

// -----

// The insertion between is read elsewhere.
// CHECK-LABEL: @no_fusion_read_between
// CHECK-NOT: flow.dispatch
// CHECK: util.return
util.func public @no_fusion_read_between(%a: tensor<5x3xf32>, %b: tensor<5x4xf32>) -> (tensor<5x7xf32>, tensor<5x7xf32>) {
  %empty = tensor.empty() : tensor<5x7xf32>
  %first = tensor.insert_slice %a into %empty[0, 0] [5, 3] [1, 1] : tensor<5x3xf32> into tensor<5x7xf32>
  %both = tensor.insert_slice %b into %first[0, 3] [5, 4] [1, 1] : tensor<5x4xf32> into tensor<5x7xf32>
  util.return %first, %both : tensor<5x7xf32>, tensor<5x7xf32>
}

// -----

// More operands than IREE takes in a dispatch.
// WHY: 33 operands and results
// CHECK-LABEL: @no_fusion_operands
// CHECK-NOT: flow.dispatch
func.func @no_fusion_operands(%x0: tensor<4x8xf16>, %x1: tensor<4x8xf16>, %x2: tensor<4x8xf16>, %x3: tensor<4x8xf16>, %x4: tensor<4x8xf16>, %x5: tensor<4x8xf16>, %x6: tensor<4x8xf16>, %x7: tensor<4x8xf16>, %x8: tensor<4x8xf16>, %x9: tensor<4x8xf16>, %x10: tensor<4x8xf16>, %x11: tensor<4x8xf16>, %x12: tensor<4x8xf16>, %x13: tensor<4x8xf16>, %x14: tensor<4x8xf16>, %x15: tensor<4x8xf16>, %x16: tensor<4x8xf16>, %x17: tensor<4x8xf16>, %x18: tensor<4x8xf16>, %x19: tensor<4x8xf16>, %x20: tensor<4x8xf16>, %x21: tensor<4x8xf16>, %x22: tensor<4x8xf16>, %x23: tensor<4x8xf16>, %x24: tensor<4x8xf16>, %x25: tensor<4x8xf16>, %x26: tensor<4x8xf16>, %x27: tensor<4x8xf16>, %x28: tensor<4x8xf16>, %x29: tensor<4x8xf16>, %x30: tensor<4x8xf16>, %x31: tensor<4x8xf16>) -> tensor<4x256xf16> {
  %e = tensor.empty() : tensor<4x256xf16>
  %i0 = tensor.insert_slice %x0 into %e[0, 0] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i1 = tensor.insert_slice %x1 into %i0[0, 8] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i2 = tensor.insert_slice %x2 into %i1[0, 16] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i3 = tensor.insert_slice %x3 into %i2[0, 24] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i4 = tensor.insert_slice %x4 into %i3[0, 32] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i5 = tensor.insert_slice %x5 into %i4[0, 40] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i6 = tensor.insert_slice %x6 into %i5[0, 48] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i7 = tensor.insert_slice %x7 into %i6[0, 56] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i8 = tensor.insert_slice %x8 into %i7[0, 64] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i9 = tensor.insert_slice %x9 into %i8[0, 72] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i10 = tensor.insert_slice %x10 into %i9[0, 80] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i11 = tensor.insert_slice %x11 into %i10[0, 88] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i12 = tensor.insert_slice %x12 into %i11[0, 96] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i13 = tensor.insert_slice %x13 into %i12[0, 104] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i14 = tensor.insert_slice %x14 into %i13[0, 112] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i15 = tensor.insert_slice %x15 into %i14[0, 120] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i16 = tensor.insert_slice %x16 into %i15[0, 128] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i17 = tensor.insert_slice %x17 into %i16[0, 136] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i18 = tensor.insert_slice %x18 into %i17[0, 144] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i19 = tensor.insert_slice %x19 into %i18[0, 152] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i20 = tensor.insert_slice %x20 into %i19[0, 160] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i21 = tensor.insert_slice %x21 into %i20[0, 168] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i22 = tensor.insert_slice %x22 into %i21[0, 176] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i23 = tensor.insert_slice %x23 into %i22[0, 184] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i24 = tensor.insert_slice %x24 into %i23[0, 192] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i25 = tensor.insert_slice %x25 into %i24[0, 200] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i26 = tensor.insert_slice %x26 into %i25[0, 208] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i27 = tensor.insert_slice %x27 into %i26[0, 216] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i28 = tensor.insert_slice %x28 into %i27[0, 224] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i29 = tensor.insert_slice %x29 into %i28[0, 232] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i30 = tensor.insert_slice %x30 into %i29[0, 240] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  %i31 = tensor.insert_slice %x31 into %i30[0, 248] [4, 8] [1, 1] : tensor<4x8xf16> into tensor<4x256xf16>
  return %i31 : tensor<4x256xf16>
}

// -----

// Contiguous parts: IREE copies them without a kernel.
// WHY: IREE copies contiguous parts without a kernel
// CHECK-LABEL: @no_fusion_first_axis
// CHECK-NOT: flow.dispatch
// CHECK: util.return
util.func public @no_fusion_first_axis(%a: tensor<3x7xf32>, %b: tensor<2x7xf32>) -> tensor<5x7xf32> {
  %empty = tensor.empty() : tensor<5x7xf32>
  %first = tensor.insert_slice %a into %empty[0, 0] [3, 7] [1, 1] : tensor<3x7xf32> into tensor<5x7xf32>
  %both = tensor.insert_slice %b into %first[3, 0] [2, 7] [1, 1] : tensor<2x7xf32> into tensor<5x7xf32>
  util.return %both : tensor<5x7xf32>
}

// -----

// WHY: a concatenation of f8E5M2
// CHECK-LABEL: @no_fusion_f8
// CHECK-NOT: flow.dispatch
// CHECK: util.return
util.func public @no_fusion_f8(%a: tensor<5x3xf8E5M2>, %b: tensor<5x4xf8E5M2>) -> tensor<5x7xf8E5M2> {
  %empty = tensor.empty() : tensor<5x7xf8E5M2>
  %first = tensor.insert_slice %a into %empty[0, 0] [5, 3] [1, 1] : tensor<5x3xf8E5M2> into tensor<5x7xf8E5M2>
  %both = tensor.insert_slice %b into %first[0, 3] [5, 4] [1, 1] : tensor<5x4xf8E5M2> into tensor<5x7xf8E5M2>
  util.return %both : tensor<5x7xf8E5M2>
}
