// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_80 --enable-feature=kernels --pipeline=conv_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_80 --enable-feature=kernels --pipeline=conv_triton_kernel --disable-pass=conv_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_80 --disable-feature=kernels --pipeline=conv_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=FEATURE

// The kernel reads the image before padding, and adds the bias to the accumulators in registers.
// FEATURE: conv_triton_kernel
// FEATURE: needs --enable-feature=kernels
// CHECK-LABEL: @padding_and_bias
// CHECK-SAME: %[[X:.*]]: tensor<2x12x10x16xf16>, %[[W:.*]]: tensor<3x3x16x24xf16>, %[[B:.*]]: tensor<24xf32>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "conv_kernel"(%[[X]], %[[W]], %[[B]]) : (tensor<2x12x10x16xf16>, tensor<3x3x16x24xf16>, tensor<24xf32>) -> tensor<2x12x10x24xf16>
// CHECK: %[[N:.*]] = arith.constant 4 : index
// CHECK: hal.return %[[N]]
// CHECK: util.return %[[Y]]
#x = affine_map<(b, h, w, f, i, j, c) -> (b, h + i, w + j, c)>
#w = affine_map<(b, h, w, f, i, j, c) -> (i, j, c, f)>
#y = affine_map<(b, h, w, f, i, j, c) -> (b, h, w, f)>
#id = affine_map<(b, h, w, f) -> (b, h, w, f)>
#f = affine_map<(b, h, w, f) -> (f)>
util.func public @padding_and_bias(%x: tensor<2x12x10x16xf16>, %w: tensor<3x3x16x24xf16>, %bias: tensor<24xf32>) -> tensor<2x12x10x24xf16> {
  %zero = arith.constant 0.0 : f32
  %edge = arith.constant 0.0 : f16
  %y = flow.dispatch.region -> (tensor<2x12x10x24xf16>) {
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %edge : f16
    } : tensor<2x12x10x16xf16> to tensor<2x14x12x16xf16>
    %sums = tensor.empty() : tensor<2x12x10x24xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<2x12x10x24xf32>) -> tensor<2x12x10x24xf32>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%p, %w : tensor<2x14x12x16xf16>, tensor<3x3x16x24xf16>) outs(%start : tensor<2x12x10x24xf32>) {
    ^bb0(%i: f16, %j: f16, %o: f32):
      %a = arith.extf %i : f16 to f32
      %b = arith.extf %j : f16 to f32
      %m = arith.mulf %a, %b : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x12x10x24xf32>
    %empty = tensor.empty() : tensor<2x12x10x24xf16>
    %out = linalg.generic {indexing_maps = [#id, #f, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c, %bias : tensor<2x12x10x24xf32>, tensor<24xf32>) outs(%empty : tensor<2x12x10x24xf16>) {
    ^bb0(%i: f32, %j: f32, %o: f16):
      %sum = arith.addf %i, %j : f32
      %narrow = arith.truncf %sum : f32 to f16
      linalg.yield %narrow : f16
    } -> tensor<2x12x10x24xf16>
    flow.return %out : tensor<2x12x10x24xf16>
  }
  util.return %y : tensor<2x12x10x24xf16>
}

// -----

// A 1x1 convolution with channels first, its filter the first operand.
// CHECK-LABEL: @window_of_one_bf16
// CHECK-SAME: %[[W:.*]]: tensor<24x16xbf16>, %[[X:.*]]: tensor<2x16x12x10xbf16>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "conv_kernel"(%[[X]], %[[W]]) : (tensor<2x16x12x10xbf16>, tensor<24x16xbf16>) -> tensor<2x24x12x10xf32>
// CHECK: util.return %[[Y]]
#w = affine_map<(b, f, h, w, c) -> (f, c)>
#x = affine_map<(b, f, h, w, c) -> (b, c, h, w)>
#y = affine_map<(b, f, h, w, c) -> (b, f, h, w)>
util.func public @window_of_one_bf16(%w: tensor<24x16xbf16>, %x: tensor<2x16x12x10xbf16>) -> tensor<2x24x12x10xf32> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<2x24x12x10xf32>) {
    %sums = tensor.empty() : tensor<2x24x12x10xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<2x24x12x10xf32>) -> tensor<2x24x12x10xf32>
    %c = linalg.generic {indexing_maps = [#w, #x, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%w, %x : tensor<24x16xbf16>, tensor<2x16x12x10xbf16>) outs(%start : tensor<2x24x12x10xf32>) {
    ^bb0(%i: bf16, %j: bf16, %o: f32):
      %a = arith.extf %i : bf16 to f32
      %b = arith.extf %j : bf16 to f32
      %m = arith.mulf %a, %b : f32
      %t = arith.addf %o, %m : f32
      linalg.yield %t : f32
    } -> tensor<2x24x12x10xf32>
    flow.return %c : tensor<2x24x12x10xf32>
  }
  util.return %y : tensor<2x24x12x10xf32>
}

// -----

// WHY-LABEL: @no_kernel_f64
// WHY: conv_triton_kernel
// WHY-NEXT: a convolution of f64 to f64
// CHECK-LABEL: @no_kernel_f64
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
util.func public @no_kernel_f64(%x: tensor<2x12x10x16xf64>, %w: tensor<3x16x24xf64>, %s: tensor<2x10x10x24xf64>) -> tensor<2x10x10x24xf64> {
  %y = flow.dispatch.region -> (tensor<2x10x10x24xf64>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x10x16xf64>, tensor<3x16x24xf64>) outs(%s : tensor<2x10x10x24xf64>) {
    ^bb0(%i: f64, %j: f64, %o: f64):
      %m = arith.mulf %i, %j : f64
      %t = arith.addf %o, %m : f64
      linalg.yield %t : f64
    } -> tensor<2x10x10x24xf64>
    flow.return %c : tensor<2x10x10x24xf64>
  }
  util.return %y : tensor<2x10x10x24xf64>
}

// -----

// WHY-LABEL: @no_kernel_filter_of_each_position
// WHY: conv_triton_kernel
// WHY-NEXT: the kernel cannot compute a filter of each output position
// CHECK-LABEL: @no_kernel_filter_of_each_position
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, w, c, i) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, c, i) -> (i, h, c)>
#y = affine_map<(b, h, w, c, i) -> (b, h, w, c)>
util.func public @no_kernel_filter_of_each_position(%x: tensor<2x12x10x16xf16>, %w: tensor<3x10x16xf16>, %s: tensor<2x10x10x16xf16>) -> tensor<2x10x10x16xf16> {
  %y = flow.dispatch.region -> (tensor<2x10x10x16xf16>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x12x10x16xf16>, tensor<3x10x16xf16>) outs(%s : tensor<2x10x10x16xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x10x16xf16>
    flow.return %c : tensor<2x10x10x16xf16>
  }
  util.return %y : tensor<2x10x10x16xf16>
}

// -----

// CHECK-LABEL: @depthwise
// CHECK: hal.dispatch.extern "conv_kernel"(%arg0, %arg1, %arg2)
#x = affine_map<(b, h, w, c, i) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, c, i) -> (i, c)>
#y = affine_map<(b, h, w, c, i) -> (b, h, w, c)>
util.func public @depthwise(%x: tensor<2x12x10x16xf16>, %w: tensor<3x16xf16>, %s: tensor<2x10x10x16xf16>) -> tensor<2x10x10x16xf16> {
  %y = flow.dispatch.region -> (tensor<2x10x10x16xf16>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<2x12x10x16xf16>, tensor<3x16xf16>) outs(%s : tensor<2x10x10x16xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x10x16xf16>
    flow.return %c : tensor<2x10x10x16xf16>
  }
  util.return %y : tensor<2x10x10x16xf16>
}

// -----

// WHY-LABEL: @no_kernel_padding_of_ones
// WHY: conv_triton_kernel
// WHY-NEXT: a padding that is not of zeros, and static
// CHECK-LABEL: @no_kernel_padding_of_ones
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
util.func public @no_kernel_padding_of_ones(%x: tensor<2x12x10x16xf16>, %w: tensor<3x16x24xf16>, %s: tensor<2x12x10x24xf16>) -> tensor<2x12x10x24xf16> {
  %edge = arith.constant 1.0 : f16
  %y = flow.dispatch.region -> (tensor<2x12x10x24xf16>) {
    %p = tensor.pad %x low[0, 1, 0, 0] high[0, 1, 0, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %edge : f16
    } : tensor<2x12x10x16xf16> to tensor<2x14x10x16xf16>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x14x10x16xf16>, tensor<3x16x24xf16>) outs(%s : tensor<2x12x10x24xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x12x10x24xf16>
    flow.return %c : tensor<2x12x10x24xf16>
  }
  util.return %y : tensor<2x12x10x24xf16>
}

// -----

// WHY-LABEL: @no_kernel_dynamic_width
// WHY: conv_triton_kernel
// WHY-NEXT: only the number of images may be dynamic
// CHECK-LABEL: @no_kernel_dynamic_width
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
util.func public @no_kernel_dynamic_width(%x: tensor<2x12x?x16xf16>, %w: tensor<3x16x24xf16>, %s: tensor<2x10x?x24xf16>, %n: index) -> tensor<2x10x?x24xf16> {
  %y = flow.dispatch.region -> (tensor<2x10x?x24xf16>{%n}) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x?x16xf16>, tensor<3x16x24xf16>) outs(%s : tensor<2x10x?x24xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x?x24xf16>
    flow.return %c : tensor<2x10x?x24xf16>
  }
  util.return %y : tensor<2x10x?x24xf16>
}

// -----

// The producer of the image would be computed again for every filter tap.
// WHY-LABEL: @no_kernel_computed_image
// WHY: conv_triton_kernel
// WHY-NEXT: an image or filter that the group computes
// CHECK-LABEL: @no_kernel_computed_image
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
#id = affine_map<(b, h, w, c) -> (b, h, w, c)>
util.func public @no_kernel_computed_image(%x: tensor<2x12x10x16xf16>, %w: tensor<3x16x24xf16>, %s: tensor<2x10x10x24xf16>) -> tensor<2x10x10x24xf16> {
  %y = flow.dispatch.region -> (tensor<2x10x10x24xf16>) {
    %e = tensor.empty() : tensor<2x12x10x16xf16>
    %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x12x10x16xf16>) outs(%e : tensor<2x12x10x16xf16>) {
    ^bb0(%i: f16, %o: f16):
      %t = arith.negf %i : f16
      linalg.yield %t : f16
    } -> tensor<2x12x10x16xf16>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%n, %w : tensor<2x12x10x16xf16>, tensor<3x16x24xf16>) outs(%s : tensor<2x10x10x24xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x10x24xf16>
    flow.return %c : tensor<2x10x10x24xf16>
  }
  util.return %y : tensor<2x10x10x24xf16>
}

// -----

// WHY-LABEL: @no_kernel_padded_channels
// WHY: conv_triton_kernel
// WHY-NEXT: a padding of channels or of a dynamic dimension
// CHECK-LABEL: @no_kernel_padded_channels
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
util.func public @no_kernel_padded_channels(%x: tensor<2x12x10x14xf16>, %w: tensor<3x16x24xf16>, %s: tensor<2x10x10x24xf16>) -> tensor<2x10x10x24xf16> {
  %edge = arith.constant 0.0 : f16
  %y = flow.dispatch.region -> (tensor<2x10x10x24xf16>) {
    %p = tensor.pad %x low[0, 0, 0, 1] high[0, 0, 0, 1] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %edge : f16
    } : tensor<2x12x10x14xf16> to tensor<2x12x10x16xf16>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : tensor<2x12x10x16xf16>, tensor<3x16x24xf16>) outs(%s : tensor<2x10x10x24xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x10x24xf16>
    flow.return %c : tensor<2x10x10x24xf16>
  }
  util.return %y : tensor<2x10x10x24xf16>
}

// -----

// WHY-LABEL: @no_kernel_two_convolutions
// WHY: conv_triton_kernel
// WHY-NEXT: 2 convolutions in one kernel
// CHECK-LABEL: @no_kernel_two_convolutions
// CHECK-NOT: hal.dispatch.extern
#x = affine_map<(b, h, w, f, i, c) -> (b, h + i, w, c)>
#w = affine_map<(b, h, w, f, i, c) -> (i, c, f)>
#y = affine_map<(b, h, w, f, i, c) -> (b, h, w, f)>
util.func public @no_kernel_two_convolutions(%x: tensor<2x12x10x16xf16>, %w: tensor<3x16x24xf16>, %s: tensor<2x10x10x24xf16>) -> tensor<2x10x10x24xf16> {
  %y = flow.dispatch.region -> (tensor<2x10x10x24xf16>) {
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x10x16xf16>, tensor<3x16x24xf16>) outs(%s : tensor<2x10x10x24xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x10x24xf16>
    %d = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x12x10x16xf16>, tensor<3x16x24xf16>) outs(%c : tensor<2x10x10x24xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %m = arith.mulf %i, %j : f16
      %t = arith.addf %o, %m : f16
      linalg.yield %t : f16
    } -> tensor<2x10x10x24xf16>
    flow.return %d : tensor<2x10x10x24xf16>
  }
  util.return %y : tensor<2x10x10x24xf16>
}
