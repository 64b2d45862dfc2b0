// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=pooling_fusion,pool_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=pooling_fusion,pool_triton_kernel | FileCheck %s --check-prefix=OFF
// OFF-NOT: hal.dispatch.extern

// The kernel reads the image before padding.
// CHECK-LABEL: @padding_and_maximum
// CHECK-SAME: %[[X:.*]]: tensor<2x8x8x16xf16>
// CHECK-NOT: tensor.pad
// CHECK: %[[Y:.*]] = hal.dispatch.extern "pool_kernel"(%[[X]])
// CHECK: return %[[Y]]
#x = affine_map<(b, h, w, c, i, j) -> (b, h * 2 + i, w * 2 + j, c)>
#k = affine_map<(b, h, w, c, i, j) -> (i, j)>
#y = affine_map<(b, h, w, c, i, j) -> (b, h, w, c)>
func.func @padding_and_maximum(%x: tensor<2x8x8x16xf16>) -> tensor<2x4x4x16xf16> {
  %low = arith.constant 0xFC00 : f16
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %low : f16
  } : tensor<2x8x8x16xf16> to tensor<2x10x10x16xf16>
  %k = tensor.empty() : tensor<3x3xf16>
  %e = tensor.empty() : tensor<2x4x4x16xf16>
  %f = linalg.fill ins(%low : f16) outs(%e : tensor<2x4x4x16xf16>) -> tensor<2x4x4x16xf16>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %k : tensor<2x10x10x16xf16>, tensor<3x3xf16>) outs(%f : tensor<2x4x4x16xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %t = arith.maximumf %o, %a : f16
    linalg.yield %t : f16
  } -> tensor<2x4x4x16xf16>
  return %c : tensor<2x4x4x16xf16>
}

// -----

// The init of the pooling is a tensor: IREE keeps the group.
// CHECK-LABEL: @no_kernel_for_a_start_from_memory
// CHECK: flow.dispatch.region
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, c, i) -> (b, h + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @no_kernel_for_a_start_from_memory(%x: tensor<2x8x16xf32>, %s: tensor<2x6x16xf32>) -> tensor<2x6x16xf32> {
  %y = flow.dispatch.region -> (tensor<2x6x16xf32>) {
    %k = tensor.empty() : tensor<3xf32>
    %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %k : tensor<2x8x16xf32>, tensor<3xf32>) outs(%s : tensor<2x6x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %t = arith.maximumf %o, %a : f32
      linalg.yield %t : f32
    } -> tensor<2x6x16xf32>
    flow.return %c : tensor<2x6x16xf32>
  }
  return %y : tensor<2x6x16xf32>
}
