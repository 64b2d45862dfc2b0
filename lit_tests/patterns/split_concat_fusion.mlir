// RUN: %mlirfuse-opt %s --split-input-file --pipeline=split_concat_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=split_concat_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

// As it arrives from PyTorch: torch.cat(torch.split(x, 4, 0), 1)
//   mlirfuse-compile model:main --pipeline=none --dump-ir-dir=ir
// CHECK-LABEL: @torch
// CHECK: %[[E:.*]] = tensor.expand_shape %arg0 {{\[}}[0, 1], [2]] output_shape [2, 4, 32]
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[E]] : tensor<2x4x32xf32>) outs(%{{.*}} : tensor<4x2x32xf32>)
// CHECK: %[[Y:.*]] = tensor.collapse_shape %[[T]] {{\[}}[0], [1, 2]]
// CHECK: return %[[Y]] : tensor<4x64xf32>
func.func @torch(%x: tensor<8x32xf32>) -> tensor<4x64xf32> {
  %a = tensor.extract_slice %x[0, 0] [4, 32] [1, 1] : tensor<8x32xf32> to tensor<4x32xf32>
  %b = tensor.extract_slice %x[4, 0] [4, 32] [1, 1] : tensor<8x32xf32> to tensor<4x32xf32>
  %e = tensor.empty() : tensor<4x64xf32>
  %i = tensor.insert_slice %a into %e[0, 0] [4, 32] [1, 1] : tensor<4x32xf32> into tensor<4x64xf32>
  %y = tensor.insert_slice %b into %i[0, 32] [4, 32] [1, 1] : tensor<4x32xf32> into tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// JAX: jnp.concatenate(jnp.split(x, 3, 2), 0): any two axes, any element type.
// CHECK-LABEL: @three_parts_i8
// CHECK: %[[E:.*]] = tensor.expand_shape %arg0 {{\[}}[0], [1], [2, 3]] output_shape [2, 5, 3, 4]
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[E]] : tensor<2x5x3x4xi8>) outs(%{{.*}} : tensor<3x2x5x4xi8>)
// CHECK: tensor.collapse_shape %[[T]] {{\[}}[0, 1], [2], [3]]
func.func @three_parts_i8(%x: tensor<2x5x12xi8>) -> tensor<6x5x4xi8> {
  %a = tensor.extract_slice %x[0, 0, 0] [2, 5, 4] [1, 1, 1] : tensor<2x5x12xi8> to tensor<2x5x4xi8>
  %b = tensor.extract_slice %x[0, 0, 4] [2, 5, 4] [1, 1, 1] : tensor<2x5x12xi8> to tensor<2x5x4xi8>
  %c = tensor.extract_slice %x[0, 0, 8] [2, 5, 4] [1, 1, 1] : tensor<2x5x12xi8> to tensor<2x5x4xi8>
  %e = tensor.empty() : tensor<6x5x4xi8>
  %i = tensor.insert_slice %a into %e[0, 0, 0] [2, 5, 4] [1, 1, 1] : tensor<2x5x4xi8> into tensor<6x5x4xi8>
  %j = tensor.insert_slice %b into %i[2, 0, 0] [2, 5, 4] [1, 1, 1] : tensor<2x5x4xi8> into tensor<6x5x4xi8>
  %y = tensor.insert_slice %c into %j[4, 0, 0] [2, 5, 4] [1, 1, 1] : tensor<2x5x4xi8> into tensor<6x5x4xi8>
  return %y : tensor<6x5x4xi8>
}

// -----

// ONNX: Split and Concat with the slices exchanged.
// CHECK-LABEL: @no_fusion_other_order
// CHECK-NOT: tensor.expand_shape
// WHY: structure (1)
// WHY: the slices are not in order
func.func @no_fusion_other_order(%x: tensor<8x32xf16>) -> tensor<4x64xf16> {
  %a = tensor.extract_slice %x[4, 0] [4, 32] [1, 1] : tensor<8x32xf16> to tensor<4x32xf16>
  %b = tensor.extract_slice %x[0, 0] [4, 32] [1, 1] : tensor<8x32xf16> to tensor<4x32xf16>
  %e = tensor.empty() : tensor<4x64xf16>
  %i = tensor.insert_slice %a into %e[0, 0] [4, 32] [1, 1] : tensor<4x32xf16> into tensor<4x64xf16>
  %y = tensor.insert_slice %b into %i[0, 32] [4, 32] [1, 1] : tensor<4x32xf16> into tensor<4x64xf16>
  return %y : tensor<4x64xf16>
}

// -----

// Two slices of three.
// CHECK-LABEL: @no_fusion_part_left_out
// CHECK-NOT: tensor.expand_shape
// WHY: structure (1)
// WHY: the slices are not all of one tensor along one axis
func.func @no_fusion_part_left_out(%x: tensor<12x32xf32>) -> tensor<4x64xf32> {
  %a = tensor.extract_slice %x[0, 0] [4, 32] [1, 1] : tensor<12x32xf32> to tensor<4x32xf32>
  %b = tensor.extract_slice %x[4, 0] [4, 32] [1, 1] : tensor<12x32xf32> to tensor<4x32xf32>
  %e = tensor.empty() : tensor<4x64xf32>
  %i = tensor.insert_slice %a into %e[0, 0] [4, 32] [1, 1] : tensor<4x32xf32> into tensor<4x64xf32>
  %y = tensor.insert_slice %b into %i[0, 32] [4, 32] [1, 1] : tensor<4x32xf32> into tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// CHECK-LABEL: @no_fusion_unequal_parts
// CHECK-NOT: tensor.expand_shape
// WHY: shape_mismatch (1)
// WHY: the slices have different shapes
func.func @no_fusion_unequal_parts(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = tensor.extract_slice %x[0, 0] [4, 3] [1, 1] : tensor<4x8xf32> to tensor<4x3xf32>
  %b = tensor.extract_slice %x[0, 3] [4, 5] [1, 1] : tensor<4x8xf32> to tensor<4x5xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %i = tensor.insert_slice %a into %e[0, 5] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<4x8xf32>
  %y = tensor.insert_slice %b into %i[0, 0] [4, 5] [1, 1] : tensor<4x5xf32> into tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: @no_fusion_slices_that_drop_a_dimension
// CHECK-NOT: tensor.expand_shape
// WHY: shape_mismatch (1)
// WHY: the slices have different shapes
func.func @no_fusion_slices_that_drop_a_dimension(%x: tensor<2x4x3xf32>) -> tensor<4x6xf32> {
  %a = tensor.extract_slice %x[0, 0, 0] [1, 4, 3] [1, 1, 1] : tensor<2x4x3xf32> to tensor<4x3xf32>
  %b = tensor.extract_slice %x[1, 0, 0] [1, 4, 3] [1, 1, 1] : tensor<2x4x3xf32> to tensor<4x3xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %i = tensor.insert_slice %a into %e[0, 0] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<4x6xf32>
  %y = tensor.insert_slice %b into %i[0, 3] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: @no_fusion_dynamic
// CHECK-NOT: tensor.expand_shape
// WHY: dynamic_shape (1)
// WHY: a slice's offset or size is not static
func.func @no_fusion_dynamic(%x: tensor<?x32xf32>, %n: index) -> tensor<?x64xf32> {
  %a = tensor.extract_slice %x[0, 0] [%n, 32] [1, 1] : tensor<?x32xf32> to tensor<?x32xf32>
  %b = tensor.extract_slice %x[%n, 0] [%n, 32] [1, 1] : tensor<?x32xf32> to tensor<?x32xf32>
  %e = tensor.empty(%n) : tensor<?x64xf32>
  %i = tensor.insert_slice %a into %e[0, 0] [%n, 32] [1, 1] : tensor<?x32xf32> into tensor<?x64xf32>
  %y = tensor.insert_slice %b into %i[0, 32] [%n, 32] [1, 1] : tensor<?x32xf32> into tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// The first slice is of another tensor.
// CHECK-LABEL: @no_fusion_two_tensors
// CHECK-NOT: tensor.expand_shape
func.func @no_fusion_two_tensors(%x: tensor<8x32xf32>, %z: tensor<8x32xf32>) -> tensor<4x64xf32> {
  %a = tensor.extract_slice %z[0, 0] [4, 32] [1, 1] : tensor<8x32xf32> to tensor<4x32xf32>
  %b = tensor.extract_slice %x[4, 0] [4, 32] [1, 1] : tensor<8x32xf32> to tensor<4x32xf32>
  %e = tensor.empty() : tensor<4x64xf32>
  %i = tensor.insert_slice %a into %e[0, 0] [4, 32] [1, 1] : tensor<4x32xf32> into tensor<4x64xf32>
  %y = tensor.insert_slice %b into %i[0, 32] [4, 32] [1, 1] : tensor<4x32xf32> into tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

// The slices are written with stride 2.
// CHECK-LABEL: @no_fusion_strides
// CHECK-NOT: tensor.expand_shape
// WHY: structure (1)
// WHY: a slice is written with non-unit strides
func.func @no_fusion_strides(%x: tensor<4x1xf32>) -> tensor<2x2xf32> {
  %a = tensor.extract_slice %x[0, 0] [2, 1] [1, 1] : tensor<4x1xf32> to tensor<2x1xf32>
  %b = tensor.extract_slice %x[2, 0] [2, 1] [1, 1] : tensor<4x1xf32> to tensor<2x1xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %i = tensor.insert_slice %a into %e[0, 0] [2, 1] [1, 2] : tensor<2x1xf32> into tensor<2x2xf32>
  %y = tensor.insert_slice %b into %i[0, 1] [2, 1] [1, 2] : tensor<2x1xf32> into tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
