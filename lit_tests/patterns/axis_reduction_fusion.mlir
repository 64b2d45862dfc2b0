// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=axis_reduction_fusion,row_triton_kernel | FileCheck %s --check-prefix=KERNEL %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=axis_reduction_fusion | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=axis_reduction_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=axis_reduction_fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan --enable-feature=kernels --pipeline=axis_reduction_fusion | FileCheck %s --check-prefix=OFF
// OFF-NOT: mlirfuse.pass = "axis_reduction_fusion"

// The producer, the sum over channels, the number by row, and the op over all that reads it.
// WHY: function @norm_over_channels
// WHY-NEXT: groups (1)
// WHY-NEXT: axis_reduction_fusion match 0: 4 ops
// KERNEL-LABEL: @norm_over_channels
// KERNEL: hal.dispatch.extern "row_kernel"
// CHECK-LABEL: @norm_over_channels
// CHECK-SAME: %[[X:.*]]: tensor<8x256x64xf32>
// CHECK: %[[Y:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "axis_reduction_fusion"
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[Q]] :
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[R]] :
// CHECK: flow.return %[[N]]
// CHECK: return %[[Y]]
#all = affine_map<(n, c, s) -> (n, c, s)>
#kept = affine_map<(n, c, s) -> (n, s)>
#id = affine_map<(n, s) -> (n, s)>
func.func @norm_over_channels(%x: tensor<8x256x64xf32>) -> tensor<8x256x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x256x64xf32>
  %q = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<8x256x64xf32>) outs(%e : tensor<8x256x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.mulf %i, %i : f32
    linalg.yield %r : f32
  } -> tensor<8x256x64xf32>
  %f = tensor.empty() : tensor<8x64xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%f : tensor<8x64xf32>) -> tensor<8x64xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["parallel", "reduction", "parallel"]} ins(%q : tensor<8x256x64xf32>) outs(%fill : tensor<8x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<8x64xf32>
  %rs = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<8x64xf32>) outs(%f : tensor<8x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.rsqrt %i : f32
    linalg.yield %r : f32
  } -> tensor<8x64xf32>
  %y = linalg.generic {indexing_maps = [#all, #kept, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %rs : tensor<8x256x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x256x64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.mulf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<8x256x64xf32>
  return %y : tensor<8x256x64xf32>
}

// -----

// Two reductions of one tensor are one group; the transposed copy of a result stays outside.
// KERNEL-LABEL: @siblings
// KERNEL: hal.dispatch.extern "row_kernel"
// CHECK-LABEL: @siblings
// CHECK-SAME: %[[X:.*]]: tensor<512x30x40xi32>
// CHECK: %[[G:.*]]:2 = flow.dispatch.region {{.*}}mlirfuse.pass = "axis_reduction_fusion"
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: flow.return %[[A]], %[[B]]
// CHECK: linalg.generic {{.*}} ins(%[[G]]#0 :
#all = affine_map<(a, b, c) -> (a, b, c)>
#kept = affine_map<(a, b, c) -> (b, c)>
#id = affine_map<(b, c) -> (b, c)>
#swapped = affine_map<(b, c) -> (c, b)>
func.func @siblings(%x: tensor<512x30x40xi32>) -> (tensor<40x30xi32>, tensor<30x40xi32>) {
  %zero = arith.constant 0 : i32
  %low = arith.constant -2147483648 : i32
  %e = tensor.empty() : tensor<30x40xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<30x40xi32>) -> tensor<30x40xi32>
  %g = linalg.fill ins(%low : i32) outs(%e : tensor<30x40xi32>) -> tensor<30x40xi32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel", "parallel"]} ins(%x : tensor<512x30x40xi32>) outs(%f : tensor<30x40xi32>) {
  ^bb0(%i: i32, %o: i32):
    %r = arith.addi %i, %o : i32
    linalg.yield %r : i32
  } -> tensor<30x40xi32>
  %m = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel", "parallel"]} ins(%x : tensor<512x30x40xi32>) outs(%g : tensor<30x40xi32>) {
  ^bb0(%i: i32, %o: i32):
    %r = arith.maxsi %i, %o : i32
    linalg.yield %r : i32
  } -> tensor<30x40xi32>
  %h = tensor.empty() : tensor<40x30xi32>
  %t = linalg.generic {indexing_maps = [#id, #swapped], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<30x40xi32>) outs(%h : tensor<40x30xi32>) {
  ^bb0(%i: i32, %o: i32):
    linalg.yield %i : i32
  } -> tensor<40x30xi32>
  return %t, %m : tensor<40x30xi32>, tensor<30x40xi32>
}

// -----

// WHY: function @no_kernel_subtracts
// WHY: structure (1)
// WHY: the kernel cannot compute the reduction of linalg.generic
// CHECK-LABEL: @no_kernel_subtracts
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(a, b) -> (a, b)>
#kept = affine_map<(a, b) -> (b)>
func.func @no_kernel_subtracts(%x: tensor<512x30xf32>) -> tensor<30xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<30xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<30xf32>) -> tensor<30xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<512x30xf32>) outs(%f : tensor<30xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.subf %o, %i : f32
    linalg.yield %r : f32
  } -> tensor<30xf32>
  return %s : tensor<30xf32>
}

// -----

// WHY: function @no_kernel_init_is_an_argument
// WHY: the kernel cannot compute the init of linalg.generic
// CHECK-LABEL: @no_kernel_init_is_an_argument
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(a, b) -> (a, b)>
#kept = affine_map<(a, b) -> (b)>
func.func @no_kernel_init_is_an_argument(%x: tensor<512x30xf32>, %f: tensor<30xf32>) -> tensor<30xf32> {
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<512x30xf32>) outs(%f : tensor<30xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %o, %i : f32
    linalg.yield %r : f32
  } -> tensor<30xf32>
  return %s : tensor<30xf32>
}

// -----

// WHY: function @no_kernel_reduced_size_is_dynamic
// WHY: dynamic_shape (1)
// WHY: only the first dimensions of the rows may be dynamic
// CHECK-LABEL: @no_kernel_reduced_size_is_dynamic
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(a, b) -> (a, b)>
#kept = affine_map<(a, b) -> (b)>
func.func @no_kernel_reduced_size_is_dynamic(%x: tensor<?x30xf32>) -> tensor<30xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<30xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<30xf32>) -> tensor<30xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<?x30xf32>) outs(%f : tensor<30xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %o, %i : f32
    linalg.yield %r : f32
  } -> tensor<30xf32>
  return %s : tensor<30xf32>
}

// -----

// The matmul writes the negation, with its epilogue; the group has the maximum alone.
// CHECK-LABEL: @epilogue_stays_with_the_matmul
// CHECK: linalg.matmul
// CHECK: %[[N:.*]] = linalg.generic
// CHECK: flow.dispatch.region {{.*}}mlirfuse.pass = "axis_reduction_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[N]] :
#all = affine_map<(a, b) -> (a, b)>
#kept = affine_map<(a, b) -> (b)>
func.func @epilogue_stays_with_the_matmul(%x: tensor<512x64xf32>, %w: tensor<64x30xf32>) -> tensor<30xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<512x30xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<512x30xf32>) -> tensor<512x30xf32>
  %p = linalg.matmul ins(%x, %w : tensor<512x64xf32>, tensor<64x30xf32>) outs(%f : tensor<512x30xf32>) -> tensor<512x30xf32>
  %n = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<512x30xf32>) outs(%e : tensor<512x30xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.negf %i : f32
    linalg.yield %r : f32
  } -> tensor<512x30xf32>
  %g = tensor.empty() : tensor<30xf32>
  %h = linalg.fill ins(%low : f32) outs(%g : tensor<30xf32>) -> tensor<30xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel"]} ins(%n : tensor<512x30xf32>) outs(%h : tensor<30xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.maximumf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<30xf32>
  return %s : tensor<30xf32>
}

// -----

// The matmul writes f16; the reduction widens it.
// CHECK-LABEL: @widened_by_the_reduction
// CHECK: %[[P:.*]] = linalg.matmul {{.*}} -> tensor<512x30xf16>
// CHECK: flow.dispatch.region {{.*}}mlirfuse.pass = "axis_reduction_fusion"
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[P]] :
// CHECK: arith.extf
// CHECK: linalg.generic {{.*}} ins(%[[W]] :
#all = affine_map<(a, b) -> (a, b)>
#kept = affine_map<(a, b) -> (b)>
func.func @widened_by_the_reduction(%x: tensor<512x64xf16>, %w: tensor<64x30xf16>) -> tensor<30xf32> {
  %zero = arith.constant 0.0 : f16
  %start = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x30xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<512x30xf16>) -> tensor<512x30xf16>
  %p = linalg.matmul ins(%x, %w : tensor<512x64xf16>, tensor<64x30xf16>) outs(%f : tensor<512x30xf16>) -> tensor<512x30xf16>
  %d = tensor.empty() : tensor<512x30xf32>
  %n = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<512x30xf16>) outs(%d : tensor<512x30xf32>) {
  ^bb0(%i: f16, %o: f32):
    %r = arith.extf %i : f16 to f32
    linalg.yield %r : f32
  } -> tensor<512x30xf32>
  %g = tensor.empty() : tensor<30xf32>
  %h = linalg.fill ins(%start : f32) outs(%g : tensor<30xf32>) -> tensor<30xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel"]} ins(%n : tensor<512x30xf32>) outs(%h : tensor<30xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<30xf32>
  return %s : tensor<30xf32>
}
