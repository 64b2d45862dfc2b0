// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=pooling_fusion,pool_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=pooling_fusion,pool_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=pooling_fusion,pool_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// The kernel reads the image before padding; 21 channels are two vectors of eight and a masked one.
// CHECK: vector.create_mask {{.*}} : vector<8xi1>
// CHECK: arith.maximumf {{.*}} : vector<8xf32>
// CHECK-LABEL: @padding_and_maximum
// CHECK-SAME: %[[X:.*]]: tensor<2x9x21xf32>
// CHECK-NOT: tensor.pad
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@pooling_{{.*}}(%[[X]])
// CHECK: return %[[Y]]
#x = affine_map<(b, h, c, i) -> (b, h * 2 + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @padding_and_maximum(%x: tensor<2x9x21xf32>) -> tensor<2x5x21xf32> {
  %edge = arith.constant 0xFF800000 : f32
  %start = arith.constant 0xFF800000 : f32
  %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %edge : f32
  } : tensor<2x9x21xf32> to tensor<2x11x21xf32>
  %k = tensor.empty() : tensor<3xf32>
  %e = tensor.empty() : tensor<2x5x21xf32>
  %f = linalg.fill ins(%start : f32) outs(%e : tensor<2x5x21xf32>) -> tensor<2x5x21xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %k : tensor<2x11x21xf32>, tensor<3xf32>) outs(%f : tensor<2x5x21xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.maximumf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x5x21xf32>
  return %c : tensor<2x5x21xf32>
}

// -----

// WHY-LABEL: @no_kernel_channels_first
// WHY: pool_vector_kernel
// WHY-NEXT: the kernel cannot compute an image whose channels are not its last dimension
// CHECK-LABEL: @no_kernel_channels_first
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, c, i) -> (b, c, h * 2 + i)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, c, h)>
func.func @no_kernel_channels_first(%x: tensor<2x21x9xf32>) -> tensor<2x21x4xf32> {
  %edge = arith.constant 0xFF800000 : f32
  %start = arith.constant 0xFF800000 : f32
  %g = flow.dispatch.region -> (tensor<2x21x4xf32>) {
  %k = tensor.empty() : tensor<3xf32>
  %e = tensor.empty() : tensor<2x21x4xf32>
  %f = linalg.fill ins(%start : f32) outs(%e : tensor<2x21x4xf32>) -> tensor<2x21x4xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %k : tensor<2x21x9xf32>, tensor<3xf32>) outs(%f : tensor<2x21x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.maximumf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x21x4xf32>
  flow.return %c : tensor<2x21x4xf32>
  }
  return %g : tensor<2x21x4xf32>
}

// -----

// The largest of 16 bits are found in f32.
// CHECK-LABEL: @pooling_of_f16
// CHECK-NOT: flow.dispatch.region
// CHECK: flow.dispatch @
#x = affine_map<(b, h, c, i) -> (b, h * 2 + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @pooling_of_f16(%x: tensor<2x9x16xf16>) -> tensor<2x4x16xf16> {
  %edge = arith.constant 0xFC00 : f16
  %start = arith.constant 0xFC00 : f16
  %g = flow.dispatch.region -> (tensor<2x4x16xf16>) {
  %k = tensor.empty() : tensor<3xf16>
  %e = tensor.empty() : tensor<2x4x16xf16>
  %f = linalg.fill ins(%start : f16) outs(%e : tensor<2x4x16xf16>) -> tensor<2x4x16xf16>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %k : tensor<2x9x16xf16>, tensor<3xf16>) outs(%f : tensor<2x4x16xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %t = arith.maximumf %o, %a : f16
    linalg.yield %t : f16
  } -> tensor<2x4x16xf16>
  flow.return %c : tensor<2x4x16xf16>
  }
  return %g : tensor<2x4x16xf16>
}

// -----

// WHY-LABEL: @no_kernel_padding_of_other_numbers
// WHY: pool_vector_kernel
// WHY-NEXT: a padding that is not the first value of the accumulators
// CHECK-LABEL: @no_kernel_padding_of_other_numbers
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, c, i) -> (b, h * 2 + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @no_kernel_padding_of_other_numbers(%x: tensor<2x9x16xf32>) -> tensor<2x5x16xf32> {
  %edge = arith.constant 2.0 : f32
  %start = arith.constant 0xFF800000 : f32
  %g = flow.dispatch.region -> (tensor<2x5x16xf32>) {
  %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %edge : f32
  } : tensor<2x9x16xf32> to tensor<2x11x16xf32>
  %k = tensor.empty() : tensor<3xf32>
  %e = tensor.empty() : tensor<2x5x16xf32>
  %f = linalg.fill ins(%start : f32) outs(%e : tensor<2x5x16xf32>) -> tensor<2x5x16xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %k : tensor<2x11x16xf32>, tensor<3xf32>) outs(%f : tensor<2x5x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.maximumf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x5x16xf32>
  flow.return %c : tensor<2x5x16xf32>
  }
  return %g : tensor<2x5x16xf32>
}
