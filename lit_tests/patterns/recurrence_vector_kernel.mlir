// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=recurrence_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=recurrence_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=recurrence_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// OFF-NOT: hal.executable.source

// Eight workgroups have a row of the states each, twice in memory: two halves of 64 columns.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK: hal.return %[[EIGHT]]
// CHECK: scf.for
// CHECK: arith.remui
// CHECK: vector.fma {{.*}} : vector<8xf32>
// CHECK: math.tanh {{.*}} : vector<8xf32>
// CHECK-LABEL: @rnn
// CHECK-SAME: %[[X:.*]]: tensor<32x8x64xf32>, %[[W:.*]]: tensor<64x64xf32>, %[[H:.*]]: tensor<8x64xf32>
// CHECK: %[[P:.*]] = tensor.collapse_shape {{.*}} into tensor<4096xf32>
// CHECK: %[[Y:.*]]:3 = flow.dispatch @vector_kernel_{{.*}}::@recurrence_{{.*}} -> (tensor<32x8x64xf32>, tensor<8x64xf32>, tensor<1024xf32>)
// CHECK: util.return %[[Y]]#0, %[[Y]]#1
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @rnn(%x: tensor<32x8x64xf32>, %w: tensor<64x64xf32>, %h0: tensor<8x64xf32>) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %a0 = tensor.empty() : tensor<8x64xf32>
  %ys = tensor.empty() : tensor<32x8x64xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<32x8x64xf32> to tensor<8x64xf32>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x64xf32>, tensor<64x64xf32>) outs(%z : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s1 = arith.addf %o, %m : f32
      linalg.yield %s1 : f32
    } -> tensor<8x64xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s1 = arith.addf %a, %b : f32
      %u = math.tanh %s1 : f32
      linalg.yield %u : f32
    } -> tensor<8x64xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<8x64xf32> into tensor<32x8x64xf32>
    scf.yield %i, %t : tensor<32x8x64xf32>, tensor<8x64xf32>
  }
  util.return %r#0, %r#1 : tensor<32x8x64xf32>, tensor<8x64xf32>
}

// -----

// Eight workgroups share the weights of two rows: each claims its part of the columns of an
// iteration, and waits for the others' behind it.
// CHECK-LABEL: hal.executable.source private @vector_kernel_
// CHECK: %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK: hal.return %[[EIGHT]]
// CHECK: memref.atomic_rmw assign {{.*}}, %[[FLAGS:.*]][{{.*}} : (i32, memref<128xi32>)
// CHECK: scf.for
// CHECK: scf.while
// CHECK: memref.atomic_rmw maxs {{.*}}, %[[FLAGS]][
// CHECK: vector.fma {{.*}} : vector<8xf32>
// CHECK: memref.atomic_rmw assign {{.*}}, %[[FLAGS]][
// CHECK-LABEL: @two_wide_rows
// CHECK: %[[ZEROS:.*]] = flow.tensor.splat {{.*}} : tensor<128xi32>
// CHECK: flow.dispatch @vector_kernel_{{.*}}::@recurrence_{{.*}}%[[ZEROS]]) {{.*}} -> (tensor<32x2x512xf32>, tensor<2x512xf32>, tensor<2048xf32>, %[[ZEROS]])
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @two_wide_rows(%x: tensor<32x2x512xf32>, %w: tensor<512x512xf32>, %h0: tensor<2x512xf32>) -> (tensor<32x2x512xf32>, tensor<2x512xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x512xf32>
  %a0 = tensor.empty() : tensor<2x512xf32>
  %ys = tensor.empty() : tensor<32x2x512xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x2x512xf32>, tensor<2x512xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 2, 512] [1, 1, 1] : tensor<32x2x512xf32> to tensor<2x512xf32>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<2x512xf32>) -> tensor<2x512xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<2x512xf32>, tensor<512x512xf32>) outs(%z : tensor<2x512xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s1 = arith.addf %o, %m : f32
      linalg.yield %s1 : f32
    } -> tensor<2x512xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<2x512xf32>, tensor<2x512xf32>) outs(%e : tensor<2x512xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s1 = arith.addf %a, %b : f32
      %u = math.tanh %s1 : f32
      linalg.yield %u : f32
    } -> tensor<2x512xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 2, 512] [1, 1, 1] : tensor<2x512xf32> into tensor<32x2x512xf32>
    scf.yield %i, %t : tensor<32x2x512xf32>, tensor<2x512xf32>
  }
  util.return %r#0, %r#1 : tensor<32x2x512xf32>, tensor<2x512xf32>
}

// -----

// States of f16 are rounded in each iteration.
// WHY-LABEL: @no_kernel_f16
// WHY: recurrence_vector_kernel
// WHY-NEXT: {{.*}}a loop that carries
// CHECK-LABEL: @no_kernel_f16
// CHECK-NOT: flow.dispatch
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @no_kernel_f16(%x: tensor<32x8x64xf16>, %w: tensor<64x64xf16>, %h0: tensor<8x64xf16>) -> (tensor<32x8x64xf16>, tensor<8x64xf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf16>
  %a0 = tensor.empty() : tensor<8x64xf32>
  %ys = tensor.empty() : tensor<32x8x64xf16>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x64xf16>, tensor<8x64xf16>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<32x8x64xf16> to tensor<8x64xf16>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x64xf16>, tensor<64x64xf16>) outs(%z : tensor<8x64xf32>) {
    ^bb0(%a: f16, %b: f16, %o: f32):
      %v = arith.extf %a : f16 to f32
      %u = arith.extf %b : f16 to f32
      %m = arith.mulf %v, %u : f32
      %s1 = arith.addf %o, %m : f32
      linalg.yield %s1 : f32
    } -> tensor<8x64xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x64xf16>, tensor<8x64xf32>) outs(%e : tensor<8x64xf16>) {
    ^bb0(%a: f16, %b: f32, %o: f16):
      %b1 = arith.truncf %b : f32 to f16
      %s1 = arith.addf %a, %b1 : f16
      %u = math.tanh %s1 : f16
      linalg.yield %u : f16
    } -> tensor<8x64xf16>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<8x64xf16> into tensor<32x8x64xf16>
    scf.yield %i, %t : tensor<32x8x64xf16>, tensor<8x64xf16>
  }
  util.return %r#0, %r#1 : tensor<32x8x64xf16>, tensor<8x64xf16>
}

// -----

// The accumulators start from zero.
// WHY-LABEL: @no_kernel_from_a_tensor
// WHY: recurrence_vector_kernel
// WHY-NEXT: {{.*}}a contraction that does not start from zero
// CHECK-LABEL: @no_kernel_from_a_tensor
// CHECK-NOT: flow.dispatch
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @no_kernel_from_a_tensor(%x: tensor<32x8x64xf32>, %w: tensor<64x64xf32>, %h0: tensor<8x64xf32>, %s: tensor<8x64xf32>) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %a0 = tensor.empty() : tensor<8x64xf32>
  %ys = tensor.empty() : tensor<32x8x64xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<32x8x64xf32> to tensor<8x64xf32>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x64xf32>, tensor<64x64xf32>) outs(%s : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s1 = arith.addf %o, %m : f32
      linalg.yield %s1 : f32
    } -> tensor<8x64xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s1 = arith.addf %a, %b : f32
      %u = math.tanh %s1 : f32
      linalg.yield %u : f32
    } -> tensor<8x64xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<8x64xf32> into tensor<32x8x64xf32>
    scf.yield %i, %t : tensor<32x8x64xf32>, tensor<8x64xf32>
  }
  util.return %r#0, %r#1 : tensor<32x8x64xf32>, tensor<8x64xf32>
}

// -----

// A product of states has to be complete before its contraction.
// WHY-LABEL: @no_kernel_computed_operand
// WHY: recurrence_vector_kernel
// WHY-NEXT: {{.*}}a contraction of another form than a state times weights
// CHECK-LABEL: @no_kernel_computed_operand
// CHECK-NOT: flow.dispatch
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @no_kernel_computed_operand(%x: tensor<32x8x64xf32>, %w: tensor<64x64xf32>, %h0: tensor<8x64xf32>) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %a0 = tensor.empty() : tensor<8x64xf32>
  %ys = tensor.empty() : tensor<32x8x64xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<32x8x64xf32> to tensor<8x64xf32>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %g = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %h : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      linalg.yield %m : f32
    } -> tensor<8x64xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%g, %w : tensor<8x64xf32>, tensor<64x64xf32>) outs(%z : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s1 = arith.addf %o, %m : f32
      linalg.yield %s1 : f32
    } -> tensor<8x64xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s1 = arith.addf %a, %b : f32
      %u = math.tanh %s1 : f32
      linalg.yield %u : f32
    } -> tensor<8x64xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<8x64xf32> into tensor<32x8x64xf32>
    scf.yield %i, %t : tensor<32x8x64xf32>, tensor<8x64xf32>
  }
  util.return %r#0, %r#1 : tensor<32x8x64xf32>, tensor<8x64xf32>
}

// -----

// Half of the columns are for others.
// WHY-LABEL: @no_kernel_unused_columns
// WHY: recurrence_vector_kernel
// WHY-NEXT: {{.*}}columns of a contraction that are not used
// CHECK-LABEL: @no_kernel_unused_columns
// CHECK-NOT: flow.dispatch
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @no_kernel_unused_columns(%x: tensor<32x8x64xf32>, %w: tensor<128x64xf32>, %h0: tensor<8x64xf32>) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %a0 = tensor.empty() : tensor<8x128xf32>
  %ys = tensor.empty() : tensor<32x8x64xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<32x8x64xf32> to tensor<8x64xf32>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<8x128xf32>) -> tensor<8x128xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x64xf32>, tensor<128x64xf32>) outs(%z : tensor<8x128xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s1 = arith.addf %o, %m : f32
      linalg.yield %s1 : f32
    } -> tensor<8x128xf32>
    %q = tensor.extract_slice %p[0, 0] [8, 64] [1, 1] : tensor<8x128xf32> to tensor<8x64xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %q : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s1 = arith.addf %a, %b : f32
      %u = math.tanh %s1 : f32
      linalg.yield %u : f32
    } -> tensor<8x64xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<8x64xf32> into tensor<32x8x64xf32>
    scf.yield %i, %t : tensor<32x8x64xf32>, tensor<8x64xf32>
  }
  util.return %r#0, %r#1 : tensor<32x8x64xf32>, tensor<8x64xf32>
}

// -----

// Each element reads that of another row.
// WHY-LABEL: @no_kernel_transposed_state
// WHY: recurrence_vector_kernel
// WHY-NEXT: {{.*}}a state at another place than the result
// CHECK-LABEL: @no_kernel_transposed_state
// CHECK-NOT: flow.dispatch
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
#swap = affine_map<(b, n) -> (n, b)>
util.func public @no_kernel_transposed_state(%x: tensor<32x8x8xf32>, %w: tensor<8x8xf32>, %h0: tensor<8x8xf32>) -> (tensor<32x8x8xf32>, tensor<8x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %a0 = tensor.empty() : tensor<8x8xf32>
  %ys = tensor.empty() : tensor<32x8x8xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x8xf32>, tensor<8x8xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 8] [1, 1, 1] : tensor<32x8x8xf32> to tensor<8x8xf32>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<8x8xf32>) -> tensor<8x8xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%z : tensor<8x8xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s1 = arith.addf %o, %m : f32
      linalg.yield %s1 : f32
    } -> tensor<8x8xf32>
    %t = linalg.generic {indexing_maps = [#swap, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %p : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s1 = arith.addf %a, %b : f32
      %u = math.tanh %s1 : f32
      linalg.yield %u : f32
    } -> tensor<8x8xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 8] [1, 1, 1] : tensor<8x8xf32> into tensor<32x8x8xf32>
    scf.yield %i, %t : tensor<32x8x8xf32>, tensor<8x8xf32>
  }
  util.return %r#0, %r#1 : tensor<32x8x8xf32>, tensor<8x8xf32>
}

// -----

// Nothing is contracted.
// WHY-LABEL: @no_kernel_without_contraction
// WHY: recurrence_vector_kernel
// WHY-NEXT: {{.*}}a loop without contractions
// CHECK-LABEL: @no_kernel_without_contraction
// CHECK-NOT: flow.dispatch
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @no_kernel_without_contraction(%x: tensor<32x8x64xf32>, %w: tensor<64x64xf32>, %h0: tensor<8x64xf32>) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %a0 = tensor.empty() : tensor<8x64xf32>
  %ys = tensor.empty() : tensor<32x8x64xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x64xf32>, tensor<8x64xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<32x8x64xf32> to tensor<8x64xf32>
    %z = linalg.fill ins(%zero : f32) outs(%a0 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %h : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s1 = arith.addf %a, %b : f32
      %u = math.tanh %s1 : f32
      linalg.yield %u : f32
    } -> tensor<8x64xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<8x64xf32> into tensor<32x8x64xf32>
    scf.yield %i, %t : tensor<32x8x64xf32>, tensor<8x64xf32>
  }
  util.return %r#0, %r#1 : tensor<32x8x64xf32>, tensor<8x64xf32>
}
