// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_80 --enable-feature=kernels --pipeline=matmul_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_80 --enable-feature=kernels --pipeline=matmul_triton_kernel --disable-pass=matmul_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_80 --disable-feature=kernels --pipeline=matmul_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=FEATURE

// The right operand is transposed in memory; the bias is added to the accumulators in registers.
// FEATURE: matmul_triton_kernel
// FEATURE: needs --enable-feature=kernels
// CHECK-LABEL: @matmul_and_bias
// CHECK-SAME: %[[A:.*]]: tensor<200x96xf16>, %[[B:.*]]: tensor<72x96xf16>, %[[C:.*]]: tensor<72xf32>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "matmul_kernel"(%[[A]], %[[B]], %[[C]]) : (tensor<200x96xf16>, tensor<72x96xf16>, tensor<72xf32>) -> tensor<200x72xf16>
// CHECK: %[[N:.*]] = arith.constant 12 : index
// CHECK: hal.return %[[N]]
// CHECK: util.return %[[Y]]
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
util.func public @matmul_and_bias(%a: tensor<200x96xf16>, %b: tensor<72x96xf16>, %bias: tensor<72xf32>) -> tensor<200x72xf16> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<200x72xf16>) {
    %sums = tensor.empty() : tensor<200x72xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<200x72xf32>) -> tensor<200x72xf32>
    %total = linalg.matmul indexing_maps = [#a, #b, #c] ins(%a, %b : tensor<200x96xf16>, tensor<72x96xf16>) outs(%start : tensor<200x72xf32>) -> tensor<200x72xf32>
    %empty = tensor.empty() : tensor<200x72xf16>
    %out = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%total, %bias : tensor<200x72xf32>, tensor<72xf32>) outs(%empty : tensor<200x72xf16>) {
    ^bb0(%in: f32, %c: f32, %o: f16):
      %sum = arith.addf %in, %c : f32
      %narrow = arith.truncf %sum : f32 to f16
      linalg.yield %narrow : f16
    } -> tensor<200x72xf16>
    flow.return %out : tensor<200x72xf16>
  }
  util.return %y : tensor<200x72xf16>
}

// -----

// CHECK-LABEL: @matmul_and_bias_bf16
// CHECK-SAME: %[[A:.*]]: tensor<200x96xbf16>, %[[B:.*]]: tensor<72x96xbf16>, %[[C:.*]]: tensor<72xf32>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "matmul_kernel"(%[[A]], %[[B]], %[[C]]) : (tensor<200x96xbf16>, tensor<72x96xbf16>, tensor<72xf32>) -> tensor<200x72xbf16>
// CHECK: %[[N:.*]] = arith.constant 12 : index
// CHECK: hal.return %[[N]]
// CHECK: util.return %[[Y]]
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#column = affine_map<(m, n) -> (n)>
util.func public @matmul_and_bias_bf16(%a: tensor<200x96xbf16>, %b: tensor<72x96xbf16>, %bias: tensor<72xf32>) -> tensor<200x72xbf16> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<200x72xbf16>) {
    %sums = tensor.empty() : tensor<200x72xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<200x72xf32>) -> tensor<200x72xf32>
    %total = linalg.matmul indexing_maps = [#a, #b, #c] ins(%a, %b : tensor<200x96xbf16>, tensor<72x96xbf16>) outs(%start : tensor<200x72xf32>) -> tensor<200x72xf32>
    %empty = tensor.empty() : tensor<200x72xbf16>
    %out = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%total, %bias : tensor<200x72xf32>, tensor<72xf32>) outs(%empty : tensor<200x72xbf16>) {
    ^bb0(%in: f32, %c: f32, %o: bf16):
      %sum = arith.addf %in, %c : f32
      %narrow = arith.truncf %sum : f32 to bf16
      linalg.yield %narrow : bf16
    } -> tensor<200x72xbf16>
    flow.return %out : tensor<200x72xbf16>
  }
  util.return %y : tensor<200x72xbf16>
}

// -----

// CHECK-LABEL: @matmul_of_f32
// CHECK-SAME: %[[A:.*]]: tensor<64x64xf32>, %[[B:.*]]: tensor<64x64xf32>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "matmul_kernel"(%[[A]], %[[B]]) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// CHECK: util.return %[[Y]]
util.func public @matmul_of_f32(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<64x64xf32>) {
    %sums = tensor.empty() : tensor<64x64xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<64x64xf32>) -> tensor<64x64xf32>
    %total = linalg.matmul ins(%a, %b : tensor<64x64xf32>, tensor<64x64xf32>) outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
    flow.return %total : tensor<64x64xf32>
  }
  util.return %y : tensor<64x64xf32>
}

// -----

// WHY-LABEL: @no_kernel_i16
// WHY: matmul_triton_kernel
// WHY-NEXT: a matmul of i16 to i32
// CHECK-LABEL: @no_kernel_i16
// CHECK-NOT: hal.dispatch.extern
util.func public @no_kernel_i16(%a: tensor<64x64xi16>, %b: tensor<64x64xi16>) -> tensor<64x64xi32> {
  %zero = arith.constant 0 : i32
  %y = flow.dispatch.region -> (tensor<64x64xi32>) {
    %sums = tensor.empty() : tensor<64x64xi32>
    %start = linalg.fill ins(%zero : i32) outs(%sums : tensor<64x64xi32>) -> tensor<64x64xi32>
    %total = linalg.matmul ins(%a, %b : tensor<64x64xi16>, tensor<64x64xi16>) outs(%start : tensor<64x64xi32>) -> tensor<64x64xi32>
    flow.return %total : tensor<64x64xi32>
  }
  util.return %y : tensor<64x64xi32>
}

// -----

// The init is one.
// WHY-LABEL: @no_kernel_init_not_zero
// WHY: matmul_triton_kernel
// WHY-NEXT: the init of the contraction is not zero
// CHECK-LABEL: @no_kernel_init_not_zero
// CHECK-NOT: hal.dispatch.extern
util.func public @no_kernel_init_not_zero(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>) -> tensor<64x64xf32> {
  %one = arith.constant 1.0 : f32
  %y = flow.dispatch.region -> (tensor<64x64xf32>) {
    %sums = tensor.empty() : tensor<64x64xf32>
    %start = linalg.fill ins(%one : f32) outs(%sums : tensor<64x64xf32>) -> tensor<64x64xf32>
    %total = linalg.matmul ins(%a, %b : tensor<64x64xf16>, tensor<64x64xf16>) outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
    flow.return %total : tensor<64x64xf32>
  }
  util.return %y : tensor<64x64xf32>
}

// -----

// WHY-LABEL: @no_kernel_dynamic_k
// WHY: matmul_triton_kernel
// WHY-NEXT: only M may be dynamic in a matmul
// CHECK-LABEL: @no_kernel_dynamic_k
// CHECK-NOT: hal.dispatch.extern
util.func public @no_kernel_dynamic_k(%a: tensor<64x?xf16>, %b: tensor<?x64xf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<64x64xf32>) {
    %sums = tensor.empty() : tensor<64x64xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<64x64xf32>) -> tensor<64x64xf32>
    %total = linalg.matmul ins(%a, %b : tensor<64x?xf16>, tensor<?x64xf16>) outs(%start : tensor<64x64xf32>) -> tensor<64x64xf32>
    flow.return %total : tensor<64x64xf32>
  }
  util.return %y : tensor<64x64xf32>
}

// -----

// The numbers are without sign; the kernel would take them with one.
// WHY-LABEL: @no_kernel_unsigned
// WHY: matmul_triton_kernel
// WHY-NEXT: a matmul of unsigned integers
// CHECK-LABEL: @no_kernel_unsigned
// CHECK-NOT: hal.dispatch.extern
util.func public @no_kernel_unsigned(%a: tensor<64x64xi8>, %b: tensor<64x64xi8>) -> tensor<64x64xi32> {
  %zero = arith.constant 0 : i32
  %y = flow.dispatch.region -> (tensor<64x64xi32>) {
    %sums = tensor.empty() : tensor<64x64xi32>
    %start = linalg.fill ins(%zero : i32) outs(%sums : tensor<64x64xi32>) -> tensor<64x64xi32>
    %total = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%a, %b : tensor<64x64xi8>, tensor<64x64xi8>) outs(%start : tensor<64x64xi32>) -> tensor<64x64xi32>
    flow.return %total : tensor<64x64xi32>
  }
  util.return %y : tensor<64x64xi32>
}

// -----

// Two slices of a weight's columns, each with CTAs of its own: the grid's third axis.
// CHECK-LABEL: @slices
// CHECK: %[[Y:.*]]:2 = hal.dispatch.extern "matmul_kernel"(%{{.*}}, %{{.*}}) : (tensor<64x64xf16>, tensor<64x128xf16>) -> (tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK: %[[PARTS:.*]] = arith.constant 2 : index
// CHECK: hal.return %{{.*}}, %{{.*}}, %[[PARTS]]
// CHECK: util.return %[[Y]]#0, %[[Y]]#1
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
util.func public @slices(%a: tensor<64x64xf16>, %w: tensor<64x128xf16>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %y:2 = flow.dispatch.region -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %w0 = tensor.extract_slice %w[0, 0] [64, 64] [1, 1] : tensor<64x128xf16> to tensor<64x64xf16>
    %w1 = tensor.extract_slice %w[0, 64] [64, 64] [1, 1] : tensor<64x128xf16> to tensor<64x64xf16>
    %sums = tensor.empty() : tensor<64x64xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<64x64xf32>) -> tensor<64x64xf32>
    %total:2 = linalg.generic {indexing_maps = [#a, #b, #b, #c, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w0, %w1 : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf16>) outs(%start, %start : tensor<64x64xf32>, tensor<64x64xf32>) {
    ^bb0(%l: f16, %r0: f16, %r1: f16, %o0: f32, %o1: f32):
      %x = arith.extf %l : f16 to f32
      %x0 = arith.extf %r0 : f16 to f32
      %x1 = arith.extf %r1 : f16 to f32
      %p0 = arith.mulf %x, %x0 : f32
      %p1 = arith.mulf %x, %x1 : f32
      %s0 = arith.addf %o0, %p0 : f32
      %s1 = arith.addf %o1, %p1 : f32
      linalg.yield %s0, %s1 : f32, f32
    } -> (tensor<64x64xf32>, tensor<64x64xf32>)
    flow.return %total#0, %total#1 : tensor<64x64xf32>, tensor<64x64xf32>
  }
  util.return %y#0, %y#1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Weights of i4, two to a byte, with a group_size of 32.
// CHECK-LABEL: @weights_of_i4
// CHECK-SAME: %[[X:.*]]: tensor<64x4x32xf16>, %[[W:.*]]: tensor<64x4x32xi4>, %[[S:.*]]: tensor<64x4xf16>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "matmul_kernel"(%[[X]], %[[W]], %[[S]])
// CHECK: util.return %[[Y]]
#x = affine_map<(m, n, g, s) -> (m, g, s)>
#w = affine_map<(m, n, g, s) -> (n, g, s)>
#y = affine_map<(m, n, g, s) -> (m, n)>
#ngs = affine_map<(n, g, s) -> (n, g, s)>
#ng = affine_map<(n, g, s) -> (n, g)>
util.func public @weights_of_i4(%x: tensor<64x4x32xf16>, %w: tensor<64x4x32xi4>, %s: tensor<64x4xf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<64x64xf32>) {
    %e = tensor.empty() : tensor<64x4x32xf16>
    %d = linalg.generic {indexing_maps = [#ngs, #ng, #ngs], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %s : tensor<64x4x32xi4>, tensor<64x4xf16>) outs(%e : tensor<64x4x32xf16>) {
    ^bb0(%i: i4, %j: f16, %o: f16):
      %f = arith.sitofp %i : i4 to f16
      %r = arith.mulf %f, %j : f16
      linalg.yield %r : f16
    } -> tensor<64x4x32xf16>
    %a = tensor.empty() : tensor<64x64xf32>
    %b = linalg.fill ins(%zero : f32) outs(%a : tensor<64x64xf32>) -> tensor<64x64xf32>
    %t = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %d : tensor<64x4x32xf16>, tensor<64x4x32xf16>) outs(%b : tensor<64x64xf32>) {
    ^bb0(%i: f16, %j: f16, %o: f32):
      %p = arith.extf %i : f16 to f32
      %q = arith.extf %j : f16 to f32
      %m = arith.mulf %p, %q : f32
      %r = arith.addf %o, %m : f32
      linalg.yield %r : f32
    } -> tensor<64x64xf32>
    flow.return %t : tensor<64x64xf32>
  }
  util.return %y : tensor<64x64xf32>
}
