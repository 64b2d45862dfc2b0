// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=conv_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=conv_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=conv_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// The kernel reads the image before padding; the filter is packed by tiles of three vectors of eight.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: func.func @convolution_{{.*}}#translation
// CHECK: memref<1200xf32>
// CHECK: vector.fma {{.*}} : vector<8xf32>
// CHECK-LABEL: @padding_and_bias
// CHECK-SAME: %[[X:.*]]: tensor<2x12x10x5xf32>, %[[W:.*]]: tensor<3x3x5x24xf32>, %[[B:.*]]: tensor<24xf32>
// CHECK: %[[P:.*]] = tensor.collapse_shape {{.*}} into tensor<1080xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @vector_kernel_{{.*}}::@convolution_{{.*}}(%[[X]], %[[P]], %[[B]]) {{.*}}: (tensor<2x12x10x5xf32>, tensor<1080xf32>, tensor<24xf32>) -> tensor<2x12x10x24xf32>
// CHECK: return %[[Y]]
#x = affine_map<(b, h, w, f, i, j, c) -> (b, h + i, w + j, c)>
#w = affine_map<(b, h, w, f, i, j, c) -> (i, j, c, f)>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
#id = affine_map<(b, h, w, f) -> (b, h, w, f)>
#f = affine_map<(b, h, w, f) -> (f)>
func.func @padding_and_bias(%x: tensor<2x12x10x5xf32>, %w: tensor<3x3x5x24xf32>, %bias: tensor<24xf32>) -> tensor<2x12x10x24xf32> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<2x12x10x24xf32>) {
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32
    } : tensor<2x12x10x5xf32> to tensor<2x14x12x5xf32>
    %e = tensor.empty() : tensor<2x12x10x24xf32>
    %start = linalg.fill ins(%zero : f32) outs(%e : tensor<2x12x10x24xf32>) -> tensor<2x12x10x24xf32>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<2x14x12x5xf32>, tensor<3x3x5x24xf32>) outs(%start : tensor<2x12x10x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x12x10x24xf32>
    %out = linalg.generic {indexing_maps = [#id, #f, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c, %bias : tensor<2x12x10x24xf32>, tensor<24xf32>) outs(%e : tensor<2x12x10x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %sum = arith.addf %i, %j : f32
      linalg.yield %sum : f32
    } -> tensor<2x12x10x24xf32>
    flow.return %out : tensor<2x12x10x24xf32>
  }
  return %y : tensor<2x12x10x24xf32>
}

// -----

// The last vector of channels is masked, and a constant filter is packed when the program is loaded.
// CHECK: vector.create_mask {{.*}} : vector<8xi1>
// CHECK: vector.maskedstore
// CHECK: util.global private @packed_filter : tensor<63xbf16>
// CHECK-LABEL: @depthwise_bf16
// CHECK: %[[W:.*]] = util.global.load immutable @packed_filter
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@depthwise_convolution_{{.*}}(%arg0, %[[W]])
#x = affine_map<(b, h, c, i) -> (b, h * 2 + i, c)>
#w = affine_map<(b, h, c, i) -> (i, c)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
func.func @depthwise_bf16(%x: tensor<2x13x21xbf16>) -> tensor<2x6x21xf32> {
  %w = arith.constant dense<2.0> : tensor<3x21xbf16>
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<2x6x21xf32>) {
    %e = tensor.empty() : tensor<2x6x21xf32>
    %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x21xf32>) -> tensor<2x6x21xf32>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x13x21xbf16>, tensor<3x21xbf16>) outs(%s : tensor<2x6x21xf32>) {
    ^bb0(%i: bf16, %j: bf16, %o: f32):
      %a = arith.extf %i : bf16 to f32
      %b = arith.extf %j : bf16 to f32
      %m = arith.mulf %a, %b : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x6x21xf32>
    flow.return %c : tensor<2x6x21xf32>
  }
  return %y : tensor<2x6x21xf32>
}

// -----

// WHY-LABEL: @no_kernel_f64
// WHY: conv_vector_kernel
// WHY-NEXT: a convolution of f64 to f64
// CHECK-LABEL: @no_kernel_f64
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, f, i, c) -> (b, h + i, c)>
#w = affine_map<(b, h, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, f, i, c) -> (b, h, f)>
func.func @no_kernel_f64(%x: tensor<2x12x16xf64>, %w: tensor<3x16x24xf64>, %s: tensor<2x10x24xf64>) -> tensor<2x10x24xf64> {
  %y = flow.dispatch.region -> (tensor<2x10x24xf64>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x16xf64>, tensor<3x16x24xf64>) outs(%s : tensor<2x10x24xf64>) {
    ^bb0(%i: f64, %j: f64, %o: f64):
      %m = arith.mulf %i, %j : f64
      %t = arith.addf %o, %m : f64
      linalg.yield %t : f64
    } -> tensor<2x10x24xf64>
    flow.return %c : tensor<2x10x24xf64>
  }
  return %y : tensor<2x10x24xf64>
}

// -----

// WHY-LABEL: @no_kernel_f16_accumulators
// WHY: conv_vector_kernel
// WHY-NEXT: the kernel cannot compute accumulators of f16
// CHECK-LABEL: @no_kernel_f16_accumulators
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, f, i, c) -> (b, h + i, c)>
#w = affine_map<(b, h, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, f, i, c) -> (b, h, f)>
func.func @no_kernel_f16_accumulators(%x: tensor<2x12x16xf16>, %w: tensor<3x16x24xf16>, %s: tensor<2x10x24xf16>) -> tensor<2x10x24xf16> {
  %y = flow.dispatch.region -> (tensor<2x10x24xf16>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x16xf16>, tensor<3x16x24xf16>) outs(%s : tensor<2x10x24xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x24xf16>
    flow.return %c : tensor<2x10x24xf16>
  }
  return %y : tensor<2x10x24xf16>
}

// -----

// WHY-LABEL: @no_kernel_dynamic_images
// WHY: conv_vector_kernel
// WHY-NEXT: the number of images is dynamic
// CHECK-LABEL: @no_kernel_dynamic_images
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, f, i, c) -> (b, h + i, c)>
#w = affine_map<(b, h, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, f, i, c) -> (b, h, f)>
func.func @no_kernel_dynamic_images(%x: tensor<?x12x16xf32>, %w: tensor<3x16x24xf32>, %s: tensor<?x10x24xf32>, %n: index) -> tensor<?x10x24xf32> {
  %y = flow.dispatch.region -> (tensor<?x10x24xf32>{%n}) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<?x12x16xf32>, tensor<3x16x24xf32>) outs(%s : tensor<?x10x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<?x10x24xf32>
    flow.return %c : tensor<?x10x24xf32>
  }
  return %y : tensor<?x10x24xf32>
}

// -----

// WHY-LABEL: @no_kernel_empty
// WHY: conv_vector_kernel
// WHY-NEXT: the kernel cannot compute an empty tensor
// CHECK-LABEL: @no_kernel_empty
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, f, i, c) -> (b, h + i, c)>
#w = affine_map<(b, h, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, f, i, c) -> (b, h, f)>
func.func @no_kernel_empty(%x: tensor<2x12x0xf32>, %w: tensor<3x0x24xf32>, %s: tensor<2x10x24xf32>) -> tensor<2x10x24xf32> {
  %y = flow.dispatch.region -> (tensor<2x10x24xf32>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x0xf32>, tensor<3x0x24xf32>) outs(%s : tensor<2x10x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x10x24xf32>
    flow.return %c : tensor<2x10x24xf32>
  }
  return %y : tensor<2x10x24xf32>
}

// -----

// WHY-LABEL: @no_kernel_start_with_channels_first
// WHY: conv_vector_kernel
// WHY-NEXT: the kernel cannot compute accumulators that start from a tensor
// CHECK-LABEL: @no_kernel_start_with_channels_first
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, f, i, c) -> (b, h + i, c)>
#w = affine_map<(b, h, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, f, i, c) -> (b, f, h)>
func.func @no_kernel_start_with_channels_first(%x: tensor<2x12x16xf32>, %w: tensor<3x16x24xf32>, %s: tensor<2x24x10xf32>) -> tensor<2x24x10xf32> {
  %y = flow.dispatch.region -> (tensor<2x24x10xf32>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x16xf32>, tensor<3x16x24xf32>) outs(%s : tensor<2x24x10xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x24x10xf32>
    flow.return %c : tensor<2x24x10xf32>
  }
  return %y : tensor<2x24x10xf32>
}

// -----

// WHY-LABEL: @no_kernel_depthwise_channels_first
// WHY: conv_vector_kernel
// WHY-NEXT: the kernel cannot compute an image whose channels are not its last dimension
// CHECK-LABEL: @no_kernel_depthwise_channels_first
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, c, h, i) -> (b, c, h + i)>
#w = affine_map<(b, c, h, i) -> (i, c)>
#y = affine_map<(b, c, h, i) -> (b, c, h)>
func.func @no_kernel_depthwise_channels_first(%x: tensor<2x16x12xf32>, %w: tensor<3x16xf32>, %s: tensor<2x16x10xf32>) -> tensor<2x16x10xf32> {
  %y = flow.dispatch.region -> (tensor<2x16x10xf32>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x16x12xf32>, tensor<3x16xf32>) outs(%s : tensor<2x16x10xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x16x10xf32>
    flow.return %c : tensor<2x16x10xf32>
  }
  return %y : tensor<2x16x10xf32>
}

// -----

// WHY-LABEL: @no_kernel_many_taps
// WHY: conv_vector_kernel
// WHY-NEXT: the kernel cannot compute more than 128 taps along a row
// CHECK-LABEL: @no_kernel_many_taps
// CHECK-NOT: flow.dispatch @
#x = affine_map<(b, h, f, i, c) -> (b, h + i, c)>
#w = affine_map<(b, h, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, f, i, c) -> (b, h, f)>
func.func @no_kernel_many_taps(%x: tensor<2x146x16xf32>, %w: tensor<129x16x24xf32>, %s: tensor<2x18x24xf32>) -> tensor<2x18x24xf32> {
  %y = flow.dispatch.region -> (tensor<2x18x24xf32>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x146x16xf32>, tensor<129x16x24xf32>) outs(%s : tensor<2x18x24xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %m = arith.mulf %i, %j : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x18x24xf32>
    flow.return %c : tensor<2x18x24xf32>
  }
  return %y : tensor<2x18x24xf32>
}

// -----

// A register tile has more pixels of a row than there are groups, here two.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK: vector.shuffle
// CHECK-LABEL: @two_groups_of_channels_first
// CHECK: flow.dispatch @vector_kernel_{{.*}} -> tensor<2x8x40xf32>
func.func @two_groups_of_channels_first(%x: tensor<2x4x42xf32>, %w: tensor<2x8x4x3xf32>) -> tensor<2x8x40xf32> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<2x8x40xf32>) {
    %e = tensor.empty() : tensor<2x8x40xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x40xf32>) -> tensor<2x8x40xf32>
    %c = linalg.generic {indexing_maps = [affine_map<(g, f, x, c, i) -> (g, c, x + i)>, affine_map<(g, f, x, c, i) -> (g, f, c, i)>, affine_map<(g, f, x, c, i) -> (g, f, x)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x4x42xf32>, tensor<2x8x4x3xf32>) outs(%z : tensor<2x8x40xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
    } -> tensor<2x8x40xf32>
    flow.return %c : tensor<2x8x40xf32>
  }
  return %y : tensor<2x8x40xf32>
}
