// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=long_concat_rewrite | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=long_concat_rewrite,concat_triton_kernel | FileCheck %s --check-prefix=KERNEL %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=long_concat_rewrite --disable-pass=long_concat_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=long_concat_rewrite --disable-feature=kernels | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=long_concat_rewrite | FileCheck %s --check-prefix=OFF
// OFF-NOT: tensor.insert_slice {{.*}}tensor<3x9xf32> into

// A kernel has 15 operands and a result: 17 columns are nine and eight.
// CHECK-LABEL: @stacked
// CHECK-SAME: (%[[A:[a-z0-9]+]]: tensor<3xf32>, {{.*}}, %[[C:[a-z0-9]+]]: tensor<3xf32>, %[[D:[a-z0-9]+]]: tensor<3xf32>)
// CHECK: %[[WHOLE:.*]] = tensor.empty() : tensor<3x17xf32>
// CHECK: %[[NONE:.*]] = tensor.empty() : tensor<3x9xf32>
// CHECK: tensor.insert_slice %[[A]] into %[[NONE]][0, 0] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x9xf32>
// CHECK: %[[NINE:.*]] = tensor.insert_slice %{{.*}}[0, 8] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x9xf32>
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[NINE]] into %[[WHOLE]][0, 0] [3, 9] [1, 1]
// CHECK: tensor.insert_slice %{{.*}}[0, 0] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x8xf32>
// CHECK: tensor.insert_slice %[[C]] into %{{.*}}[0, 6] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x8xf32>
// CHECK: %[[EIGHT:.*]] = tensor.insert_slice %[[D]] into %{{.*}}[0, 7] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x8xf32>
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[EIGHT]] into %[[FIRST]][0, 9] [3, 8] [1, 1]
// CHECK: util.return %[[ALL]]
// KERNEL-LABEL: @stacked
// KERNEL-COUNT-3: hal.dispatch.extern "concat_kernel"
// KERNEL-NOT: tensor.insert_slice
util.func public @stacked(%a0: tensor<3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>, %a3: tensor<3xf32>, %a4: tensor<3xf32>, %a5: tensor<3xf32>, %a6: tensor<3xf32>, %a7: tensor<3xf32>, %a8: tensor<3xf32>, %a9: tensor<3xf32>, %a10: tensor<3xf32>, %a11: tensor<3xf32>, %a12: tensor<3xf32>, %a13: tensor<3xf32>, %a14: tensor<3xf32>, %a15: tensor<3xf32>, %a16: tensor<3xf32>) -> tensor<3x17xf32> {
  %e = tensor.empty() : tensor<3x17xf32>
  %i0 = tensor.insert_slice %a0 into %e[0, 0] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i1 = tensor.insert_slice %a1 into %i0[0, 1] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i2 = tensor.insert_slice %a2 into %i1[0, 2] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i3 = tensor.insert_slice %a3 into %i2[0, 3] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i4 = tensor.insert_slice %a4 into %i3[0, 4] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i5 = tensor.insert_slice %a5 into %i4[0, 5] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i6 = tensor.insert_slice %a6 into %i5[0, 6] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i7 = tensor.insert_slice %a7 into %i6[0, 7] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i8 = tensor.insert_slice %a8 into %i7[0, 8] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i9 = tensor.insert_slice %a9 into %i8[0, 9] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i10 = tensor.insert_slice %a10 into %i9[0, 10] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i11 = tensor.insert_slice %a11 into %i10[0, 11] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i12 = tensor.insert_slice %a12 into %i11[0, 12] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i13 = tensor.insert_slice %a13 into %i12[0, 13] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i14 = tensor.insert_slice %a14 into %i13[0, 14] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i15 = tensor.insert_slice %a15 into %i14[0, 15] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  %i16 = tensor.insert_slice %a16 into %i15[0, 16] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x17xf32>
  util.return %i16 : tensor<3x17xf32>
}

// -----

// Written from the end: the parts are taken in the order of their offsets.
// CHECK-LABEL: @backwards
// CHECK-SAME: (%[[A:[a-z0-9]+]]: tensor<3xf32>, %[[B:[a-z0-9]+]]: tensor<3xf32>,
// CHECK: tensor.insert_slice %[[A]] into %{{.*}}[0, 0] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x8xf32>
// CHECK: tensor.insert_slice %[[B]] into %{{.*}}[0, 1] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x8xf32>
util.func public @backwards(%a0: tensor<3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>, %a3: tensor<3xf32>, %a4: tensor<3xf32>, %a5: tensor<3xf32>, %a6: tensor<3xf32>, %a7: tensor<3xf32>, %a8: tensor<3xf32>, %a9: tensor<3xf32>, %a10: tensor<3xf32>, %a11: tensor<3xf32>, %a12: tensor<3xf32>, %a13: tensor<3xf32>, %a14: tensor<3xf32>, %a15: tensor<3xf32>) -> tensor<3x16xf32> {
  %e = tensor.empty() : tensor<3x16xf32>
  %i15 = tensor.insert_slice %a15 into %e[0, 15] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i14 = tensor.insert_slice %a14 into %i15[0, 14] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i13 = tensor.insert_slice %a13 into %i14[0, 13] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i12 = tensor.insert_slice %a12 into %i13[0, 12] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i11 = tensor.insert_slice %a11 into %i12[0, 11] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i10 = tensor.insert_slice %a10 into %i11[0, 10] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i9 = tensor.insert_slice %a9 into %i10[0, 9] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i8 = tensor.insert_slice %a8 into %i9[0, 8] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i7 = tensor.insert_slice %a7 into %i8[0, 7] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i6 = tensor.insert_slice %a6 into %i7[0, 6] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i5 = tensor.insert_slice %a5 into %i6[0, 5] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i4 = tensor.insert_slice %a4 into %i5[0, 4] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i3 = tensor.insert_slice %a3 into %i4[0, 3] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i2 = tensor.insert_slice %a2 into %i3[0, 2] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i1 = tensor.insert_slice %a1 into %i2[0, 1] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  %i0 = tensor.insert_slice %a0 into %i1[0, 0] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x16xf32>
  util.return %i0 : tensor<3x16xf32>
}

// -----

// One kernel takes these.
// CHECK-LABEL: @no_fusion_fifteen
// CHECK-COUNT-15: tensor.insert_slice {{.*}} into tensor<3x15xf32>
// CHECK-NOT: tensor.insert_slice
util.func public @no_fusion_fifteen(%a0: tensor<3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>, %a3: tensor<3xf32>, %a4: tensor<3xf32>, %a5: tensor<3xf32>, %a6: tensor<3xf32>, %a7: tensor<3xf32>, %a8: tensor<3xf32>, %a9: tensor<3xf32>, %a10: tensor<3xf32>, %a11: tensor<3xf32>, %a12: tensor<3xf32>, %a13: tensor<3xf32>, %a14: tensor<3xf32>) -> tensor<3x15xf32> {
  %e = tensor.empty() : tensor<3x15xf32>
  %i0 = tensor.insert_slice %a0 into %e[0, 0] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i1 = tensor.insert_slice %a1 into %i0[0, 1] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i2 = tensor.insert_slice %a2 into %i1[0, 2] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i3 = tensor.insert_slice %a3 into %i2[0, 3] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i4 = tensor.insert_slice %a4 into %i3[0, 4] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i5 = tensor.insert_slice %a5 into %i4[0, 5] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i6 = tensor.insert_slice %a6 into %i5[0, 6] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i7 = tensor.insert_slice %a7 into %i6[0, 7] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i8 = tensor.insert_slice %a8 into %i7[0, 8] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i9 = tensor.insert_slice %a9 into %i8[0, 9] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i10 = tensor.insert_slice %a10 into %i9[0, 10] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i11 = tensor.insert_slice %a11 into %i10[0, 11] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i12 = tensor.insert_slice %a12 into %i11[0, 12] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i13 = tensor.insert_slice %a13 into %i12[0, 13] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  %i14 = tensor.insert_slice %a14 into %i13[0, 14] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x15xf32>
  util.return %i14 : tensor<3x15xf32>
}
