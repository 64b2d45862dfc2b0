// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=recurrence_triton_kernel,recurrence_order_rewrite | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=recurrence_triton_kernel,recurrence_order_rewrite --disable-pass=recurrence_order_rewrite | FileCheck %s --check-prefix=OFF %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=recurrence_order_rewrite --disable-feature=kernels | FileCheck %s --check-prefix=NONE
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=recurrence_order_rewrite | FileCheck %s --check-prefix=NONE
// NONE-NOT: hal.dispatch.extern

// The second recurrence moves next to the first one, with the op that computes its input.
// CHECK-LABEL: @independent
// CHECK: math.absf
// CHECK: hal.dispatch.extern "recurrence_kernel"
// CHECK-NOT: linalg
// CHECK: hal.dispatch.extern "recurrence_kernel"
// OFF-LABEL: @independent
// OFF: hal.dispatch.extern "recurrence_kernel"
// OFF: math.absf
// OFF: hal.dispatch.extern "recurrence_kernel"
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
#all = affine_map<(s, b, n) -> (s, b, n)>
util.func public @independent(%x: tensor<32x8x32xf32>, %w: tensor<32x32xf32>, %h0: tensor<8x32xf32>) -> (tensor<32x8x32xf32>, tensor<32x8x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %ys = tensor.empty() : tensor<32x8x32xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x32xf32>, tensor<8x32xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<32x8x32xf32> to tensor<8x32xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x32xf32>, tensor<32x32xf32>) outs(%z : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x32xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %u = math.tanh %s : f32
      linalg.yield %u : f32
    } -> tensor<8x32xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<8x32xf32> into tensor<32x8x32xf32>
    scf.yield %i, %t : tensor<32x8x32xf32>, tensor<8x32xf32>
  }
  %abs = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<32x8x32xf32>) outs(%ys : tensor<32x8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.absf %a : f32
    linalg.yield %s : f32
  } -> tensor<32x8x32xf32>
  %q:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x32xf32>, tensor<8x32xf32>) {
    %given = tensor.extract_slice %abs[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<32x8x32xf32> to tensor<8x32xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x32xf32>, tensor<32x32xf32>) outs(%z : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x32xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %u = math.tanh %s : f32
      linalg.yield %u : f32
    } -> tensor<8x32xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<8x32xf32> into tensor<32x8x32xf32>
    scf.yield %i, %t : tensor<32x8x32xf32>, tensor<8x32xf32>
  }
  util.return %r#0, %q#0 : tensor<32x8x32xf32>, tensor<32x8x32xf32>
}

// -----

// The second recurrence reads the first one, as the second layer of a network.
// CHECK-LABEL: @dependent
// CHECK: hal.dispatch.extern "recurrence_kernel"
// CHECK: math.absf
// CHECK: hal.dispatch.extern "recurrence_kernel"
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
#all = affine_map<(s, b, n) -> (s, b, n)>
util.func public @dependent(%x: tensor<32x8x32xf32>, %w: tensor<32x32xf32>, %h0: tensor<8x32xf32>) -> (tensor<32x8x32xf32>, tensor<32x8x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x32xf32>
  %ys = tensor.empty() : tensor<32x8x32xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x32xf32>, tensor<8x32xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<32x8x32xf32> to tensor<8x32xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x32xf32>, tensor<32x32xf32>) outs(%z : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x32xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %u = math.tanh %s : f32
      linalg.yield %u : f32
    } -> tensor<8x32xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<8x32xf32> into tensor<32x8x32xf32>
    scf.yield %i, %t : tensor<32x8x32xf32>, tensor<8x32xf32>
  }
  %abs = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r#0 : tensor<32x8x32xf32>) outs(%ys : tensor<32x8x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.absf %a : f32
    linalg.yield %s : f32
  } -> tensor<32x8x32xf32>
  %q:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x32xf32>, tensor<8x32xf32>) {
    %given = tensor.extract_slice %abs[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<32x8x32xf32> to tensor<8x32xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x32xf32>) -> tensor<8x32xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x32xf32>, tensor<32x32xf32>) outs(%z : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x32xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x32xf32>, tensor<8x32xf32>) outs(%e : tensor<8x32xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %u = math.tanh %s : f32
      linalg.yield %u : f32
    } -> tensor<8x32xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 32] [1, 1, 1] : tensor<8x32xf32> into tensor<32x8x32xf32>
    scf.yield %i, %t : tensor<32x8x32xf32>, tensor<8x32xf32>
  }
  util.return %r#0, %q#0 : tensor<32x8x32xf32>, tensor<32x8x32xf32>
}

// -----

// CTAs that wait for each other fill the device alone.
// CHECK-LABEL: @waiting
// CHECK: hal.dispatch.extern "recurrence_kernel"
// CHECK: math.absf
// CHECK: hal.dispatch.extern "recurrence_kernel"
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
#all = affine_map<(s, b, n) -> (s, b, n)>
util.func public @waiting(%x: tensor<32x8x320xf32>, %w: tensor<320x320xf32>, %h0: tensor<8x320xf32>) -> (tensor<32x8x320xf32>, tensor<32x8x320xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x320xf32>
  %ys = tensor.empty() : tensor<32x8x320xf32>
  %r:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x320xf32>, tensor<8x320xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 320] [1, 1, 1] : tensor<32x8x320xf32> to tensor<8x320xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x320xf32>) -> tensor<8x320xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x320xf32>, tensor<320x320xf32>) outs(%z : tensor<8x320xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x320xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x320xf32>, tensor<8x320xf32>) outs(%e : tensor<8x320xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %u = math.tanh %s : f32
      linalg.yield %u : f32
    } -> tensor<8x320xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 320] [1, 1, 1] : tensor<8x320xf32> into tensor<32x8x320xf32>
    scf.yield %i, %t : tensor<32x8x320xf32>, tensor<8x320xf32>
  }
  %abs = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<32x8x320xf32>) outs(%ys : tensor<32x8x320xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.absf %a : f32
    linalg.yield %s : f32
  } -> tensor<32x8x320xf32>
  %q:2 = scf.for %n = %c0 to %c32 step %c1 iter_args(%y = %ys, %h = %h0) -> (tensor<32x8x320xf32>, tensor<8x320xf32>) {
    %given = tensor.extract_slice %abs[%n, 0, 0] [1, 8, 320] [1, 1, 1] : tensor<32x8x320xf32> to tensor<8x320xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x320xf32>) -> tensor<8x320xf32>
    %p = linalg.generic {indexing_maps = [#row, #weight, #sum], iterator_types = ["parallel", "parallel", "reduction"]} ins(%h, %w : tensor<8x320xf32>, tensor<320x320xf32>) outs(%z : tensor<8x320xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x320xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %p : tensor<8x320xf32>, tensor<8x320xf32>) outs(%e : tensor<8x320xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %u = math.tanh %s : f32
      linalg.yield %u : f32
    } -> tensor<8x320xf32>
    %i = tensor.insert_slice %t into %y[%n, 0, 0] [1, 8, 320] [1, 1, 1] : tensor<8x320xf32> into tensor<32x8x320xf32>
    scf.yield %i, %t : tensor<32x8x320xf32>, tensor<8x320xf32>
  }
  util.return %r#0, %q#0 : tensor<32x8x320xf32>, tensor<32x8x320xf32>
}

