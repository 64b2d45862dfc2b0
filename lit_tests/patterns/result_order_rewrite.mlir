// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=result_order_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=DEFAULT
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=result_order_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=result_order_rewrite | FileCheck %s --check-prefix=OFF
// DEFAULT: result_order_rewrite
// OFF-LABEL: @groups_and_broadcast
// OFF: -> tensor<40x2x8xf32>
// OFF: tensor.collapse_shape
// OFF: -> tensor<16x40xf32>

// The convolution has channels first, the groups are merged then, and the broadcast is read through.
// CHECK-DAG: #[[FIRST:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d2, d0)>
// CHECK-DAG: #[[WHOLE:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[CHANNEL:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: @groups_and_broadcast
// CHECK-SAME: %[[X:.*]]: tensor<2x4x42xf32>, %[[W:.*]]: tensor<2x8x4x3xf32>, %[[V:.*]]: tensor<16xf32>
// CHECK: %[[C:.*]] = linalg.generic {indexing_maps = [{{.*}}, {{.*}}, #[[FIRST]]], {{.*}} ins(%[[X]], %[[W]] : {{.*}} outs({{.*}} : tensor<2x8x40xf32>)
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[C]] {{\[\[}}0, 1], [2]]
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[WHOLE]], #[[CHANNEL]], #[[WHOLE]]], {{.*}} ins(%[[M]], %[[V]] :
// CHECK: return %[[Y]]
#image = affine_map<(x, g, f, c, i) -> (g, c, x + i)>
#filter = affine_map<(x, g, f, c, i) -> (g, f, c, i)>
#out = affine_map<(x, g, f, c, i) -> (x, g, f)>
#whole = affine_map<(a, b) -> (a, b)>
#swapped = affine_map<(a, b) -> (b, a)>
#last = affine_map<(a, b) -> (b)>
func.func @groups_and_broadcast(%x: tensor<2x4x42xf32>, %w: tensor<2x8x4x3xf32>, %v: tensor<16xf32>) -> tensor<16x40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x2x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<40x2x8xf32>) -> tensor<40x2x8xf32>
  %c = linalg.generic {indexing_maps = [#image, #filter, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<2x4x42xf32>, tensor<2x8x4x3xf32>) outs(%z : tensor<40x2x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<40x2x8xf32>
  %m = tensor.collapse_shape %c [[0], [1, 2]] : tensor<40x2x8xf32> into tensor<40x16xf32>
  %eb = tensor.empty() : tensor<40x16xf32>
  %b = linalg.generic {indexing_maps = [#last, #whole], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<16xf32>) outs(%eb : tensor<40x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<40x16xf32>
  %ey = tensor.empty() : tensor<16x40xf32>
  %y = linalg.generic {indexing_maps = [#swapped, #swapped, #whole], iterator_types = ["parallel", "parallel"]} ins(%m, %b : tensor<40x16xf32>, tensor<40x16xf32>) outs(%ey : tensor<16x40xf32>) {
  ^bb0(%a: f32, %q: f32, %o: f32):
    %s = arith.addf %a, %q : f32
    linalg.yield %s : f32
  } -> tensor<16x40xf32>
  return %y : tensor<16x40xf32>
}

// -----

// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2) -> (d1, d0)>
// CHECK-DAG: #[[WHOLE:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: @contraction_and_residual
// CHECK-SAME: %[[X:.*]]: tensor<40x5xf32>, %[[W:.*]]: tensor<5x7xf32>, %[[R:.*]]: tensor<7x40xf32>
// CHECK: %[[C:.*]] = linalg.generic {indexing_maps = [{{.*}}, {{.*}}, #[[OUT]]], {{.*}} ins(%[[X]], %[[W]] :
// CHECK: linalg.generic {indexing_maps = [#[[WHOLE]], #[[WHOLE]], #[[WHOLE]]], {{.*}} ins(%[[C]], %[[R]] :
#whole = affine_map<(a, b) -> (a, b)>
#swapped = affine_map<(a, b) -> (b, a)>
func.func @contraction_and_residual(%x: tensor<40x5xf32>, %w: tensor<5x7xf32>, %r: tensor<7x40xf32>) -> tensor<7x40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<40x7xf32>) -> tensor<40x7xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<40x5xf32>, tensor<5x7xf32>) outs(%z : tensor<40x7xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<40x7xf32>
  %ey = tensor.empty() : tensor<7x40xf32>
  %y = linalg.generic {indexing_maps = [#swapped, #whole, #whole], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<40x7xf32>, tensor<7x40xf32>) outs(%ey : tensor<7x40xf32>) {
  ^bb0(%a: f32, %q: f32, %o: f32):
    %s = arith.addf %a, %q : f32
    linalg.yield %s : f32
  } -> tensor<7x40xf32>
  return %y : tensor<7x40xf32>
}

// -----

// WHY: several operands in another order
// CHECK-LABEL: @no_rewrite_residual_in_the_old_order
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<40x7xf32>)
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<7x40xf32>)
#whole = affine_map<(a, b) -> (a, b)>
#swapped = affine_map<(a, b) -> (b, a)>
func.func @no_rewrite_residual_in_the_old_order(%x: tensor<40x5xf32>, %w: tensor<5x7xf32>, %r: tensor<40x7xf32>) -> tensor<7x40xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<40x7xf32>) -> tensor<40x7xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<40x5xf32>, tensor<5x7xf32>) outs(%z : tensor<40x7xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<40x7xf32>
  %ey = tensor.empty() : tensor<7x40xf32>
  %y = linalg.generic {indexing_maps = [#swapped, #swapped, #whole], iterator_types = ["parallel", "parallel"]} ins(%c, %r : tensor<40x7xf32>, tensor<40x7xf32>) outs(%ey : tensor<7x40xf32>) {
  ^bb0(%a: f32, %q: f32, %o: f32):
    %s = arith.addf %a, %q : f32
    linalg.yield %s : f32
  } -> tensor<7x40xf32>
  return %y : tensor<7x40xf32>
}

// -----

// WHY: another op reads the result in its order
// CHECK-LABEL: @no_rewrite_other_user
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<40x7xf32>)
#whole = affine_map<(a, b) -> (a, b)>
#swapped = affine_map<(a, b) -> (b, a)>
func.func @no_rewrite_other_user(%x: tensor<40x5xf32>, %w: tensor<5x7xf32>) -> (tensor<7x40xf32>, tensor<40x7xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<40x7xf32>) -> tensor<40x7xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<40x5xf32>, tensor<5x7xf32>) outs(%z : tensor<40x7xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<40x7xf32>
  %ey = tensor.empty() : tensor<7x40xf32>
  %y = linalg.generic {indexing_maps = [#swapped, #whole], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<40x7xf32>) outs(%ey : tensor<7x40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<7x40xf32>
  return %y, %c : tensor<7x40xf32>, tensor<40x7xf32>
}

// -----

// WHY: the accumulators start from a tensor
// CHECK-LABEL: @no_rewrite_accumulators_of_a_tensor
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<40x7xf32>)
#whole = affine_map<(a, b) -> (a, b)>
#swapped = affine_map<(a, b) -> (b, a)>
func.func @no_rewrite_accumulators_of_a_tensor(%x: tensor<40x5xf32>, %w: tensor<5x7xf32>, %z: tensor<40x7xf32>) -> tensor<7x40xf32> {
  %c = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<40x5xf32>, tensor<5x7xf32>) outs(%z : tensor<40x7xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<40x7xf32>
  %ey = tensor.empty() : tensor<7x40xf32>
  %y = linalg.generic {indexing_maps = [#swapped, #whole], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<40x7xf32>) outs(%ey : tensor<7x40xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<7x40xf32>
  return %y : tensor<7x40xf32>
}

// -----

// WHY: the last dimension of its order are not adjacent pixels
// CHECK-LABEL: @no_rewrite_channels_last
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<7x40xf32>)
// CHECK: linalg.generic {{.*}} outs({{.*}} : tensor<40x7xf32>)
#whole = affine_map<(a, b) -> (a, b)>
#swapped = affine_map<(a, b) -> (b, a)>
func.func @no_rewrite_channels_last(%x: tensor<40x5xf32>, %w: tensor<5x7xf32>) -> tensor<40x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<7x40xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<7x40xf32>) -> tensor<7x40xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (n, m)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<40x5xf32>, tensor<5x7xf32>) outs(%z : tensor<7x40xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<7x40xf32>
  %ey = tensor.empty() : tensor<40x7xf32>
  %y = linalg.generic {indexing_maps = [#swapped, #whole], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<7x40xf32>) outs(%ey : tensor<40x7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<40x7xf32>
  return %y : tensor<40x7xf32>
}
