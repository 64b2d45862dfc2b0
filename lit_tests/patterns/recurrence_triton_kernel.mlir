// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=recurrence_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=recurrence_triton_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=recurrence_triton_kernel | FileCheck %s --check-prefix=OFF
// OFF-NOT: hal.dispatch.extern

// An RNN: the CTAs of each row send each other words after each iteration.
// CHECK-LABEL: @rnn
// CHECK-SAME: %[[X:.*]]: tensor<32x8x320xf32>, %[[W:.*]]: tensor<320x320xf32>, %[[H:.*]]: tensor<8x320xf32>
// CHECK: %[[ZEROS:.*]] = flow.tensor.splat %{{.*}} : tensor<5120xi64>
// CHECK: hal.dispatch.extern "recurrence_kernel"({{.*}}%[[ZEROS]]) : ({{.*}}tensor<5120xi64>) -> (tensor<32x8x320xf32>, tensor<8x320xf32>, %[[ZEROS]])
#row = affine_map<(b, n, k) -> (b, k)>
#weight = affine_map<(b, n, k) -> (n, k)>
#sum = affine_map<(b, n, k) -> (b, n)>
#id = affine_map<(b, n) -> (b, n)>
util.func public @rnn(%x: tensor<32x8x320xf32>, %w: tensor<320x320xf32>, %h0: tensor<8x320xf32>) -> (tensor<32x8x320xf32>, tensor<8x320xf32>) {
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
  util.return %r#0, %r#1 : tensor<32x8x320xf32>, tensor<8x320xf32>
}

// -----

// Each element depends on itself alone: no CTA waits.
// CHECK-LABEL: @gate
// CHECK-NOT: flow.tensor.splat
// CHECK: hal.dispatch.extern "recurrence_kernel"
// CHECK-SAME: -> tensor<8x64xf32>
#id = affine_map<(b, n) -> (b, n)>
util.func public @gate(%x: tensor<32x8x64xf32>, %h0: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %e = tensor.empty() : tensor<8x64xf32>
  %r = scf.for %n = %c0 to %c32 step %c1 iter_args(%h = %h0) -> (tensor<8x64xf32>) {
    %given = tensor.extract_slice %x[%n, 0, 0] [1, 8, 64] [1, 1, 1] : tensor<32x8x64xf32> to tensor<8x64xf32>
    %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%given, %h : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %a, %m : f32
      linalg.yield %s : f32
    } -> tensor<8x64xf32>
    scf.yield %t : tensor<8x64xf32>
  }
  util.return %r : tensor<8x64xf32>
}

// -----

// The number of iterations is an argument: the host counts.
// CHECK-LABEL: @unknown_count
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(n) -> (n)>
util.func public @unknown_count(%count: index, %h0: tensor<64xf32>) -> tensor<64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<64xf32>
  %r = scf.for %n = %c0 to %count step %c1 iter_args(%h = %h0) -> (tensor<64xf32>) {
    %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%h : tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = math.tanh %a : f32
      linalg.yield %m : f32
    } -> tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  util.return %r : tensor<64xf32>
}
