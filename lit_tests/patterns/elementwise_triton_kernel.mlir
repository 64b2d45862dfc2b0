// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=elementwise_fusion,elementwise_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=elementwise_fusion,elementwise_triton_kernel --disable-pass=elementwise_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=elementwise_fusion,elementwise_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=FEATURE
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=elementwise_fusion,elementwise_triton_kernel | FileCheck %s --check-prefix=OFF
// OFF-NOT: hal.dispatch.extern

// IREE's code took 216 us for such a region where a kernel takes 130.
// FEATURE: elementwise_triton_kernel
// FEATURE: needs --enable-feature=kernels
// CHECK-LABEL: @bias_erf
// CHECK-SAME: %[[X:.*]]: tensor<16384x4096xf16>, %[[B:.*]]: tensor<4096xf16>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "elementwise_kernel"(%[[X]], %[[B]]) : (tensor<16384x4096xf16>, tensor<4096xf16>) -> tensor<16384x4096xf16>
// CHECK: %[[N:.*]] = arith.constant 65536 : index
// CHECK: hal.return %[[N]]
// CHECK: workgroup_size = [64 : index, 1 : index, 1 : index]
// CHECK: util.return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
#last = affine_map<(r, c) -> (c)>
util.func public @bias_erf(%x: tensor<16384x4096xf16>, %b: tensor<4096xf16>) -> tensor<16384x4096xf16> {
  %e = tensor.empty() : tensor<16384x4096xf16>
  %t = linalg.generic {indexing_maps = [#id, #last, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<16384x4096xf16>, tensor<4096xf16>) outs(%e : tensor<16384x4096xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.addf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<16384x4096xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<16384x4096xf16>) outs(%e : tensor<16384x4096xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.erf %i : f16
    linalg.yield %r : f16
  } -> tensor<16384x4096xf16>
  util.return %y : tensor<16384x4096xf16>
}

// -----

// The number of rows is the kernel's last argument.
// CHECK-LABEL: @dynamic_rows_bf16
// CHECK-SAME: %[[X:.*]]: tensor<?x4096xbf16>
// CHECK: %[[D:.*]] = tensor.dim %[[X]]
// CHECK: %[[I:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK: hal.dispatch.extern "elementwise_kernel"[%{{.*}}](%[[X]], %{{.*}}, %[[I]])
// CHECK: ceildivui
#id = affine_map<(r, c) -> (r, c)>
#last = affine_map<(r, c) -> (c)>
util.func public @dynamic_rows_bf16(%x: tensor<?x4096xbf16>, %b: tensor<4096xbf16>) -> tensor<?x4096xbf16> {
  %zero = arith.constant 0 : index
  %d = tensor.dim %x, %zero : tensor<?x4096xbf16>
  %e = tensor.empty(%d) : tensor<?x4096xbf16>
  %t = linalg.generic {indexing_maps = [#id, #last, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<?x4096xbf16>, tensor<4096xbf16>) outs(%e : tensor<?x4096xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %r = arith.addf %i, %j : bf16
    linalg.yield %r : bf16
  } -> tensor<?x4096xbf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<?x4096xbf16>) outs(%e : tensor<?x4096xbf16>) {
  ^bb0(%i: bf16, %o: bf16):
    %r = math.erf %i : bf16
    linalg.yield %r : bf16
  } -> tensor<?x4096xbf16>
  util.return %y : tensor<?x4096xbf16>
}

// -----

// CHECK-LABEL: @erf_f32
// CHECK-SAME: %[[X:.*]]: tensor<8192x4096xf32>
// CHECK: hal.dispatch.extern "elementwise_kernel"(%[[X]]) : (tensor<8192x4096xf32>) -> tensor<8192x4096xf32>
#id = affine_map<(r, c) -> (r, c)>
util.func public @erf_f32(%x: tensor<8192x4096xf32>) -> tensor<8192x4096xf32> {
  %e = tensor.empty() : tensor<8192x4096xf32>
  %y = flow.dispatch.region -> (tensor<8192x4096xf32>) {
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8192x4096xf32>) outs(%e : tensor<8192x4096xf32>) {
    ^bb0(%i: f32, %o: f32):
      %r = math.erf %i : f32
      linalg.yield %r : f32
    } -> tensor<8192x4096xf32>
    flow.return %t : tensor<8192x4096xf32>
  }
  util.return %y : tensor<8192x4096xf32>
}

// -----

// Both halves are read from the tensor that they are slices of.
// CHECK-LABEL: @halves
// CHECK-SAME: %[[X:.*]]: tensor<8192x8192xf16>
// CHECK: hal.dispatch.extern "elementwise_kernel"(%[[X]]) : (tensor<8192x8192xf16>) -> tensor<8192x4096xf16>
#id = affine_map<(r, c) -> (r, c)>
util.func public @halves(%x: tensor<8192x8192xf16>) -> tensor<8192x4096xf16> {
  %a = tensor.extract_slice %x[0, 0] [8192, 4096] [1, 1] : tensor<8192x8192xf16> to tensor<8192x4096xf16>
  %b = tensor.extract_slice %x[0, 4096] [8192, 4096] [1, 1] : tensor<8192x8192xf16> to tensor<8192x4096xf16>
  %e = tensor.empty() : tensor<8192x4096xf16>
  %y = flow.dispatch.region -> (tensor<8192x4096xf16>) {
    %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<8192x4096xf16>, tensor<8192x4096xf16>) outs(%e : tensor<8192x4096xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %r = arith.mulf %i, %j : f16
      linalg.yield %r : f16
    } -> tensor<8192x4096xf16>
    flow.return %p : tensor<8192x4096xf16>
  }
  util.return %y : tensor<8192x4096xf16>
}

// -----

// Tiles of 64 rows by 64 columns of the result.
// CHECK-LABEL: @transposed
// CHECK-SAME: %[[X:.*]]: tensor<4096x8192xf16>
// CHECK: hal.dispatch.extern "elementwise_kernel"(%[[X]]) : (tensor<4096x8192xf16>) -> tensor<8192x4096xf16>
// CHECK: %[[N:.*]] = arith.constant 8192 : index
// CHECK: hal.return %[[N]]
// CHECK: workgroup_size = [256 : index, 1 : index, 1 : index]
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
util.func public @transposed(%x: tensor<4096x8192xf16>) -> tensor<8192x4096xf16> {
  %e = tensor.empty() : tensor<8192x4096xf16>
  %y = flow.dispatch.region -> (tensor<8192x4096xf16>) {
    %t = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4096x8192xf16>) outs(%e : tensor<8192x4096xf16>) {
    ^bb0(%i: f16, %o: f16):
      linalg.yield %i : f16
    } -> tensor<8192x4096xf16>
    flow.return %t : tensor<8192x4096xf16>
  }
  util.return %y : tensor<8192x4096xf16>
}

// -----

// IREE's code was measured to be as fast.
// WHY-LABEL: @no_kernel_two_results
// WHY: elementwise_triton_kernel
// WHY: IREE's code took 178.7 us where a kernel took 180.7
// CHECK-LABEL: @no_kernel_two_results
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(r, c) -> (r, c)>
util.func public @no_kernel_two_results(%x: tensor<16384x4096xf16>, %z: tensor<16384x4096xf16>) -> (tensor<16384x4096xf16>, tensor<16384x4096xf16>) {
  %e = tensor.empty() : tensor<16384x4096xf16>
  %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %z : tensor<16384x4096xf16>, tensor<16384x4096xf16>) outs(%e : tensor<16384x4096xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %r = arith.addf %i, %j : f16
    linalg.yield %r : f16
  } -> tensor<16384x4096xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<16384x4096xf16>) outs(%e : tensor<16384x4096xf16>) {
  ^bb0(%i: f16, %o: f16):
    %r = math.tanh %i : f16
    linalg.yield %r : f16
  } -> tensor<16384x4096xf16>
  util.return %y, %t : tensor<16384x4096xf16>, tensor<16384x4096xf16>
}

// -----

// So few elements that no measurement tells: the kernel is the rule.
// CHECK-LABEL: @small
// CHECK: hal.dispatch.extern "elementwise_kernel"
#id = affine_map<(r, c) -> (r, c)>
util.func public @small(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tensor.empty() : tensor<64x64xf32>
  %y = flow.dispatch.region -> (tensor<64x64xf32>) {
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x64xf32>) outs(%e : tensor<64x64xf32>) {
    ^bb0(%i: f32, %o: f32):
      %r = math.erf %i : f32
      linalg.yield %r : f32
    } -> tensor<64x64xf32>
    flow.return %t : tensor<64x64xf32>
  }
  util.return %y : tensor<64x64xf32>
}

// -----

// WHY-LABEL: @no_kernel_sincos
// WHY: elementwise_triton_kernel
// WHY: the kernel cannot compute math.sincos
// CHECK-LABEL: @no_kernel_sincos
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(r, c) -> (r, c)>
util.func public @no_kernel_sincos(%x: tensor<16384x4096xf16>) -> tensor<16384x4096xf16> {
  %e = tensor.empty() : tensor<16384x4096xf16>
  %y = flow.dispatch.region -> (tensor<16384x4096xf16>) {
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16384x4096xf16>) outs(%e : tensor<16384x4096xf16>) {
    ^bb0(%i: f16, %o: f16):
      %r, %q = math.sincos %i : f16
      linalg.yield %r : f16
    } -> tensor<16384x4096xf16>
    flow.return %t : tensor<16384x4096xf16>
  }
  util.return %y : tensor<16384x4096xf16>
}

// -----

// One op reads along one axis the values that the other writes along another: they are computed in
// both places.
// CHECK-LABEL: @turned_inside
// CHECK: hal.dispatch.extern "elementwise_kernel"
#id = affine_map<(r, c) -> (r, c)>
#turned = affine_map<(r, c) -> (c, r)>
util.func public @turned_inside(%x: tensor<8192x8192xf16>) -> tensor<8192x8192xf16> {
  %e = tensor.empty() : tensor<8192x8192xf16>
  %y = flow.dispatch.region -> (tensor<8192x8192xf16>) {
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8192x8192xf16>) outs(%e : tensor<8192x8192xf16>) {
    ^bb0(%i: f16, %o: f16):
      %r = math.tanh %i : f16
      linalg.yield %r : f16
    } -> tensor<8192x8192xf16>
    %s = linalg.generic {indexing_maps = [#id, #turned, #id], iterator_types = ["parallel", "parallel"]} ins(%t, %t : tensor<8192x8192xf16>, tensor<8192x8192xf16>) outs(%e : tensor<8192x8192xf16>) {
    ^bb0(%i: f16, %j: f16, %o: f16):
      %r = arith.addf %i, %j : f16
      linalg.yield %r : f16
    } -> tensor<8192x8192xf16>
    flow.return %s : tensor<8192x8192xf16>
  }
  util.return %y : tensor<8192x8192xf16>
}

// -----

// A region that reduces is none of this pass.
// CHECK-LABEL: @no_kernel_sum
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
util.func public @no_kernel_sum(%x: tensor<16384x4096xf16>, %e: tensor<16384xf16>) -> tensor<16384xf16> {
  %y = flow.dispatch.region -> (tensor<16384xf16>) {
    %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<16384x4096xf16>) outs(%e : tensor<16384xf16>) {
    ^bb0(%i: f16, %o: f16):
      %r = arith.addf %i, %o : f16
      linalg.yield %r : f16
    } -> tensor<16384xf16>
    flow.return %t : tensor<16384xf16>
  }
  util.return %y : tensor<16384xf16>
}

// -----

// One size in each call, but nothing says so.
// WHY-LABEL: @no_kernel_results_of_two_sizes
// WHY: dynamic_shape
// WHY: the results have more than one dynamic size
// CHECK-LABEL: @no_kernel_results_of_two_sizes
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(r, c) -> (r, c)>
util.func public @no_kernel_results_of_two_sizes(%x: tensor<?x4096xf16>, %y: tensor<?x4096xf16>, %m: index, %n: index) -> (tensor<?x4096xf16>, tensor<?x4096xf16>) {
  %r:2 = flow.dispatch.region -> (tensor<?x4096xf16>{%m}, tensor<?x4096xf16>{%n}) {
    %e = tensor.empty(%m) : tensor<?x4096xf16>
    %o:2 = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<?x4096xf16>, tensor<?x4096xf16>) outs(%e, %e : tensor<?x4096xf16>, tensor<?x4096xf16>) {
    ^bb0(%i: f16, %j: f16, %p: f16, %q: f16):
      %s = arith.addf %i, %j : f16
      %t = math.tanh %s : f16
      linalg.yield %s, %t : f16, f16
    } -> (tensor<?x4096xf16>, tensor<?x4096xf16>)
    flow.return %o#0, %o#1 : tensor<?x4096xf16>, tensor<?x4096xf16>
  }
  util.return %r#0, %r#1 : tensor<?x4096xf16>, tensor<?x4096xf16>
}
