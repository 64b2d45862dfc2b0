// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --pipeline=nested_reduction_rewrite | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=nested_reduction_rewrite | FileCheck %s --check-prefixes=CHECK,GPU %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=nested_reduction_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=vulkan:ampere --pipeline=nested_reduction_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=nested_reduction_rewrite --disable-pass=nested_reduction_rewrite | FileCheck %s --check-prefix=OFF

#all = affine_map<(n, c, h, w) -> (n, c, h, w)>
#first = affine_map<(n, c, h, w) -> (n, c, h)>
#three = affine_map<(n, c, h) -> (n, c, h)>
#second = affine_map<(n, c, h) -> (n, c)>
#two = affine_map<(n, c) -> (n, c)>
#channel = affine_map<(n, c) -> (c)>

// `x.amax([0, 2, 3])`: one op for a kernel of a GPU; on a CPU the first dimension is left.
// CHECK-DAG: #[[ALL:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CPU-DAG: #[[NC:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// GPU-DAG: #[[C:.+]] = affine_map<(d0, d1, d2, d3) -> (d1)>
// CHECK-LABEL: @chain
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4x5xf32>)
// CPU: %[[J:.*]] = linalg.fill {{.*}} -> tensor<2x3xf32>
// CPU: %[[S:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[NC]]], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%[[X]] : tensor<2x3x4x5xf32>) outs(%[[J]] : tensor<2x3xf32>)
// CPU: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CPU: %[[M:.*]] = arith.maximumf %[[A]], %[[B]] : f32
// CPU: linalg.yield %[[M]]
// CPU: linalg.generic {{.*}} ins(%[[S]] :
// GPU: %[[K:.*]] = linalg.fill {{.*}} -> tensor<3xf32>
// GPU: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[ALL]], #[[C]]], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%[[X]] : tensor<2x3x4x5xf32>) outs(%[[K]] : tensor<3xf32>)
// GPU: arith.maximumf
// GPU: return %[[Y]]
// OFF-LABEL: @chain
// OFF: %[[A:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3x4xf32>)
// OFF: %[[B:.*]] = linalg.generic {{.*}} ins(%[[A]] :
// OFF: linalg.generic {{.*}} ins(%[[B]] :
func.func @chain(%x: tensor<2x3x4x5xf32>) -> tensor<3xf32> {
  %low = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3x4xf32>
  %i = linalg.fill ins(%low : f32) outs(%ie : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4x5xf32>) outs(%i : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3x4xf32>
  %je = tensor.empty() : tensor<2x3xf32>
  %j = linalg.fill ins(%low : f32) outs(%je : tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = linalg.generic {indexing_maps = [#three, #second], iterator_types = ["parallel", "parallel", "reduction"]} ins(%r : tensor<2x3x4xf32>) outs(%j : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %ke = tensor.empty() : tensor<3xf32>
  %k = linalg.fill ins(%low : f32) outs(%ke : tensor<3xf32>) -> tensor<3xf32>
  %y = linalg.generic {indexing_maps = [#two, #channel], iterator_types = ["reduction", "parallel"]} ins(%s : tensor<2x3xf32>) outs(%k : tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

#all = affine_map<(n, c, h, w) -> (n, c, h, w)>
#first = affine_map<(n, c, h, w) -> (n, c, w)>
#three = affine_map<(n, c, w) -> (n, c, w)>
#second = affine_map<(n, c, w) -> (n, w)>

// The last dimension is kept.
// CHECK-LABEL: @middle
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4x5xi1>)
// CPU: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CPU: linalg.generic {{.*}} ins(%[[R]] :
// GPU: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%[[X]] :
// GPU: arith.ori
// OFF-LABEL: @middle
// OFF: %[[R:.*]] = linalg.generic
// OFF: linalg.generic {{.*}} ins(%[[R]] :
func.func @middle(%x: tensor<2x3x4x5xi1>) -> tensor<2x5xi1> {
  %false = arith.constant false
  %ie = tensor.empty() : tensor<2x3x5xi1>
  %i = linalg.fill ins(%false : i1) outs(%ie : tensor<2x3x5xi1>) -> tensor<2x3x5xi1>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<2x3x4x5xi1>) outs(%i : tensor<2x3x5xi1>) {
  ^bb0(%a: i1, %o: i1):
    %m = arith.ori %a, %o : i1
    linalg.yield %m : i1
  } -> tensor<2x3x5xi1>
  %je = tensor.empty() : tensor<2x5xi1>
  %j = linalg.fill ins(%false : i1) outs(%je : tensor<2x5xi1>) -> tensor<2x5xi1>
  %y = linalg.generic {indexing_maps = [#three, #second], iterator_types = ["parallel", "reduction", "parallel"]} ins(%r : tensor<2x3x5xi1>) outs(%j : tensor<2x5xi1>) {
  ^bb0(%a: i1, %o: i1):
    %m = arith.ori %a, %o : i1
    linalg.yield %m : i1
  } -> tensor<2x5xi1>
  return %y : tensor<2x5xi1>
}

// -----

#read = affine_map<(a, b, c, d) -> (c, b, a, d)>
#made = affine_map<(a, b, c, d) -> (b, a, c)>
#outer = affine_map<(a, b, c) -> (c, a, b)>
#result = affine_map<(a, b, c) -> (b, c)>

// Loops in other orders: the inner result is (b, a, c), and `a` of it is reduced. A sum that does
// not overflow in one order may in another one.
// CHECK-DAG: #[[READ:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d1, d0, d3)>
// CHECK-DAG: #[[RESULT:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d1)>
// CHECK-LABEL: @permuted
// CHECK-SAME: (%[[X:.*]]: tensor<4x7x6x5xi32>)
// CHECK: linalg.generic {indexing_maps = [#[[READ]], #[[RESULT]]], iterator_types = ["reduction", "parallel", "parallel", "reduction"]} ins(%[[X]] : tensor<4x7x6x5xi32>) outs(%{{.*}} : tensor<4x7xi32>)
// CHECK: arith.addi %{{.*}}, %{{.*}} : i32
// OFF-LABEL: @permuted
// OFF: %[[R:.*]] = linalg.generic
// OFF: linalg.generic {{.*}} ins(%[[R]] :
func.func @permuted(%x: tensor<4x7x6x5xi32>) -> tensor<4x7xi32> {
  %zero = arith.constant 0 : i32
  %ie = tensor.empty() : tensor<7x6x4xi32>
  %i = linalg.fill ins(%zero : i32) outs(%ie : tensor<7x6x4xi32>) -> tensor<7x6x4xi32>
  %r = linalg.generic {indexing_maps = [#read, #made], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x : tensor<4x7x6x5xi32>) outs(%i : tensor<7x6x4xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.addi %a, %o overflow<nsw> : i32
    linalg.yield %m : i32
  } -> tensor<7x6x4xi32>
  %je = tensor.empty() : tensor<4x7xi32>
  %j = linalg.fill ins(%zero : i32) outs(%je : tensor<4x7xi32>) -> tensor<4x7xi32>
  %y = linalg.generic {indexing_maps = [#outer, #result], iterator_types = ["reduction", "parallel", "parallel"]} ins(%r : tensor<7x6x4xi32>) outs(%j : tensor<4x7xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.addi %a, %o overflow<nsw> : i32
    linalg.yield %m : i32
  } -> tensor<4x7xi32>
  return %y : tensor<4x7xi32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b, 0)>
#kept = affine_map<(a, b, c) -> (a, 0, 0)>

// Dynamic sizes, and dimensions of size one that are kept. No kernel of a GPU takes the columns.
// CHECK-DAG: #[[ALL:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CPU-DAG: #[[KEPT:.+]] = affine_map<(d0, d1, d2) -> (d0, 0, 0)>
// CHECK-LABEL: @dynamic
// CHECK-SAME: (%[[X:.*]]: tensor<?x3x?xf32>,
// CPU: linalg.generic {indexing_maps = [#[[ALL]], #[[KEPT]]], iterator_types = ["parallel", "reduction", "reduction"]} ins(%[[X]] : tensor<?x3x?xf32>) outs(%{{.*}} : tensor<?x1x1xf32>)
// GPU: %[[R:.*]] = linalg.generic
// GPU: linalg.generic {{.*}} ins(%[[R]] :
// OFF-LABEL: @dynamic
// OFF: %[[R:.*]] = linalg.generic
// OFF: linalg.generic {{.*}} ins(%[[R]] :
func.func @dynamic(%x: tensor<?x3x?xf32>, %m: index) -> tensor<?x1x1xf32> {
  %high = arith.constant 0x7F800000 : f32
  %ie = tensor.empty(%m) : tensor<?x3x1xf32>
  %i = linalg.fill ins(%high : f32) outs(%ie : tensor<?x3x1xf32>) -> tensor<?x3x1xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<?x3x?xf32>) outs(%i : tensor<?x3x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m0 = arith.minimumf %a, %o : f32
    linalg.yield %m0 : f32
  } -> tensor<?x3x1xf32>
  %je = tensor.empty(%m) : tensor<?x1x1xf32>
  %j = linalg.fill ins(%high : f32) outs(%je : tensor<?x1x1xf32>) -> tensor<?x1x1xf32>
  %y = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["parallel", "reduction", "parallel"]} ins(%r : tensor<?x3x1xf32>) outs(%j : tensor<?x1x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m0 = arith.minimumf %a, %o : f32
    linalg.yield %m0 : f32
  } -> tensor<?x1x1xf32>
  return %y : tensor<?x1x1xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// The outer init may be any. Kernels of GPUs have constants.
// CHECK-LABEL: @another_init
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xi8>, %[[J:.*]]: tensor<2xi8>)
// CPU: linalg.generic {{.*}} ins(%[[X]] : tensor<2x3x4xi8>) outs(%[[J]] : tensor<2xi8>)
// GPU: %[[R:.*]] = linalg.generic
// GPU: linalg.generic {{.*}} ins(%[[R]] :
// OFF-LABEL: @another_init
// OFF: %[[R:.*]] = linalg.generic
// OFF: linalg.generic {{.*}} ins(%[[R]] :
func.func @another_init(%x: tensor<2x3x4xi8>, %j: tensor<2xi8>) -> tensor<2xi8> {
  %start = arith.constant -1 : i8
  %ie = tensor.empty() : tensor<2x3xi8>
  %i = linalg.fill ins(%start : i8) outs(%ie : tensor<2x3xi8>) -> tensor<2x3xi8>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi8>) outs(%i : tensor<2x3xi8>) {
  ^bb0(%a: i8, %o: i8):
    %m = arith.minui %a, %o : i8
    linalg.yield %m : i8
  } -> tensor<2x3xi8>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xi8>) outs(%j : tensor<2xi8>) {
  ^bb0(%a: i8, %o: i8):
    %m = arith.minui %a, %o : i8
    linalg.yield %m : i8
  } -> tensor<2xi8>
  return %y : tensor<2xi8>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Both start from a number, so that no NaN stays.
// CHECK-LABEL: @maximum_of_numbers
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "reduction"]} ins(%{{.*}} : tensor<2x3x4xf32>)
// CHECK: arith.maxnumf
// OFF-LABEL: @maximum_of_numbers
// OFF: %[[R:.*]] = linalg.generic
// OFF: linalg.generic {{.*}} ins(%[[R]] :
func.func @maximum_of_numbers(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %start = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maxnumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0xFF800000 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maxnumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// The largest number without a sign.
// CHECK-LABEL: @unsigned
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "reduction"]} ins(%{{.*}} : tensor<2x3x4xi8>)
// CHECK: arith.minui
// OFF-LABEL: @unsigned
// OFF: %[[R:.*]] = linalg.generic
// OFF: linalg.generic {{.*}} ins(%[[R]] :
func.func @unsigned(%x: tensor<2x3x4xi8>) -> tensor<2xi8> {
  %start = arith.constant -1 : i8
  %ie = tensor.empty() : tensor<2x3xi8>
  %i = linalg.fill ins(%start : i8) outs(%ie : tensor<2x3xi8>) -> tensor<2x3xi8>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi8>) outs(%i : tensor<2x3xi8>) {
  ^bb0(%a: i8, %o: i8):
    %m = arith.minui %a, %o : i8
    linalg.yield %m : i8
  } -> tensor<2x3xi8>
  %other = arith.constant 3 : i8
  %je = tensor.empty() : tensor<2xi8>
  %j = linalg.fill ins(%other : i8) outs(%je : tensor<2xi8>) -> tensor<2xi8>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xi8>) outs(%j : tensor<2xi8>) {
  ^bb0(%a: i8, %o: i8):
    %m = arith.minui %a, %o : i8
    linalg.yield %m : i8
  } -> tensor<2xi8>
  return %y : tensor<2xi8>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Without the inner init, an outer one that is NaN stays where all elements are NaN.
// CHECK-LABEL: @no_rewrite_of_ignored_nan
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_ignored_nan(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %start = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maxnumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0x7FC00000 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maxnumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// An exclusive or of sums, which start from the same number.
// CHECK-LABEL: @no_rewrite_of_other_combiners
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_other_combiners(%x: tensor<2x3x4xi32>) -> tensor<2xi32> {
  %start = arith.constant 0 : i32
  %ie = tensor.empty() : tensor<2x3xi32>
  %i = linalg.fill ins(%start : i32) outs(%ie : tensor<2x3xi32>) -> tensor<2x3xi32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi32>) outs(%i : tensor<2x3xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.addi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<2x3xi32>
  %other = arith.constant 0 : i32
  %je = tensor.empty() : tensor<2xi32>
  %j = linalg.fill ins(%other : i32) outs(%je : tensor<2xi32>) -> tensor<2xi32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xi32>) outs(%j : tensor<2xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.xori %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<2xi32>
  return %y : tensor<2xi32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Sums of floats depend on the order.
// CHECK-LABEL: @no_rewrite_of_sums
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_sums(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %start = arith.constant 0.0 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0.0 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Differences are no combination.
// CHECK-LABEL: @no_rewrite_of_differences
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_differences(%x: tensor<2x3x4xi32>) -> tensor<2xi32> {
  %start = arith.constant 0 : i32
  %ie = tensor.empty() : tensor<2x3xi32>
  %i = linalg.fill ins(%start : i32) outs(%ie : tensor<2x3xi32>) -> tensor<2x3xi32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi32>) outs(%i : tensor<2x3xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.subi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<2x3xi32>
  %other = arith.constant 0 : i32
  %je = tensor.empty() : tensor<2xi32>
  %j = linalg.fill ins(%other : i32) outs(%je : tensor<2xi32>) -> tensor<2xi32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xi32>) outs(%j : tensor<2xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.subi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<2xi32>
  return %y : tensor<2xi32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>

// The outer op combines its operand with another tensor.
// CHECK-LABEL: @no_rewrite_of_elementwise_ops
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_elementwise_ops(%x: tensor<2x3x4xi32>, %j: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %start = arith.constant 0 : i32
  %ie = tensor.empty() : tensor<2x3xi32>
  %i = linalg.fill ins(%start : i32) outs(%ie : tensor<2x3xi32>) -> tensor<2x3xi32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi32>) outs(%i : tensor<2x3xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.addi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<2x3xi32>
  %y = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<2x3xi32>) outs(%j : tensor<2x3xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.addi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Another user of the inner result.
// CHECK-LABEL: @no_rewrite_of_another_user
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_another_user(%x: tensor<2x3x4xf32>) -> (tensor<2xf32>, tensor<2x3xf32>) {
  %start = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0xFF800000 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y, %r : tensor<2xf32>, tensor<2x3xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// The inner init is a number that may be the largest one.
// CHECK-LABEL: @no_rewrite_of_another_init
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_another_init(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %start = arith.constant 0.0 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0xFF800000 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Neutral for numbers with a sign.
// CHECK-LABEL: @no_rewrite_of_largest_signed
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_largest_signed(%x: tensor<2x3x4xi8>) -> tensor<2xi8> {
  %start = arith.constant 127 : i8
  %ie = tensor.empty() : tensor<2x3xi8>
  %i = linalg.fill ins(%start : i8) outs(%ie : tensor<2x3xi8>) -> tensor<2x3xi8>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi8>) outs(%i : tensor<2x3xi8>) {
  ^bb0(%a: i8, %o: i8):
    %m = arith.minui %a, %o : i8
    linalg.yield %m : i8
  } -> tensor<2x3xi8>
  %other = arith.constant -1 : i8
  %je = tensor.empty() : tensor<2xi8>
  %j = linalg.fill ins(%other : i8) outs(%je : tensor<2xi8>) -> tensor<2xi8>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xi8>) outs(%j : tensor<2xi8>) {
  ^bb0(%a: i8, %o: i8):
    %m = arith.minui %a, %o : i8
    linalg.yield %m : i8
  } -> tensor<2xi8>
  return %y : tensor<2xi8>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// No kernel has a neutral element of four bits.
// CHECK-LABEL: @no_rewrite_of_four_bits
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_four_bits(%x: tensor<2x3x4xi4>) -> tensor<2xi4> {
  %start = arith.constant 7 : i4
  %ie = tensor.empty() : tensor<2x3xi4>
  %i = linalg.fill ins(%start : i4) outs(%ie : tensor<2x3xi4>) -> tensor<2x3xi4>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi4>) outs(%i : tensor<2x3xi4>) {
  ^bb0(%a: i4, %o: i4):
    %m = arith.minsi %a, %o : i4
    linalg.yield %m : i4
  } -> tensor<2x3xi4>
  %other = arith.constant 7 : i4
  %je = tensor.empty() : tensor<2xi4>
  %j = linalg.fill ins(%other : i4) outs(%je : tensor<2xi4>) -> tensor<2xi4>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xi4>) outs(%j : tensor<2xi4>) {
  ^bb0(%a: i4, %o: i4):
    %m = arith.minsi %a, %o : i4
    linalg.yield %m : i4
  } -> tensor<2xi4>
  return %y : tensor<2xi4>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// The inner reduction computes what it combines.
// CHECK-LABEL: @no_rewrite_of_computed_terms
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_computed_terms(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %start = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %m = arith.maximumf %q, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0xFF800000 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// The accumulator is not combined.
// CHECK-LABEL: @no_rewrite_of_last_elements
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_last_elements(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %start = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0xFF800000 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Nor is the combination the result.
// CHECK-LABEL: @no_rewrite_of_unused_maxima
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_unused_maxima(%x: tensor<2x3x4xf32>) -> tensor<2xf32> {
  %start = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%start : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %a : f32
  } -> tensor<2x3xf32>
  %other = arith.constant 0xFF800000 : f32
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%other : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#copies = affine_map<(a, b, c) -> (a, c)>

// The outer reduction copies its result along a loop that its operand does not have.
// CHECK-LABEL: @no_rewrite_of_copies
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_copies(%x: tensor<2x3x4xf32>) -> tensor<2x5xf32> {
  %low = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%low : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %je = tensor.empty() : tensor<2x5xf32>
  %j = linalg.fill ins(%low : f32) outs(%je : tensor<2x5xf32>) -> tensor<2x5xf32>
  %y = linalg.generic {indexing_maps = [#first, #copies], iterator_types = ["parallel", "reduction", "parallel"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// -----

#first = affine_map<(a, b, c) -> (a, b)>
#read = affine_map<(a, b, c) -> (a, c)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// Nor does the operand of the inner reduction have the loop that the outer one reduces.
// CHECK-LABEL: @no_rewrite_of_repeated_elements
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_repeated_elements(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  %low = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%low : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#read, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%low : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%j : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// The largest elements of one result, and where they are.
// CHECK-LABEL: @no_rewrite_of_positions
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_of_positions(%x: tensor<2x3x4xi32>) -> (tensor<2xi32>, tensor<2xi32>) {
  %low = arith.constant -2147483648 : i32
  %ie = tensor.empty() : tensor<2x3xi32>
  %i = linalg.fill ins(%low : i32) outs(%ie : tensor<2x3xi32>) -> tensor<2x3xi32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xi32>) outs(%i : tensor<2x3xi32>) {
  ^bb0(%a: i32, %o: i32):
    %m = arith.maxsi %a, %o : i32
    linalg.yield %m : i32
  } -> tensor<2x3xi32>
  %je = tensor.empty() : tensor<2xi32>
  %j = linalg.fill ins(%low : i32) outs(%je : tensor<2xi32>) -> tensor<2xi32>
  %y:2 = linalg.generic {indexing_maps = [#two, #second, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xi32>) outs(%j, %j : tensor<2xi32>, tensor<2xi32>) {
  ^bb0(%a: i32, %o: i32, %p: i32):
    %m = arith.maxsi %a, %o : i32
    linalg.yield %m, %p : i32, i32
  } -> (tensor<2xi32>, tensor<2xi32>)
  return %y#0, %y#1 : tensor<2xi32>, tensor<2xi32>
}

// -----

#all = affine_map<(a, b, c) -> (a, b, c)>
#first = affine_map<(a, b, c) -> (a, b)>
#two = affine_map<(a, b) -> (a, b)>
#second = affine_map<(a, b) -> (a)>

// The inner reduction is computed once, and not in each iteration.
// CHECK-LABEL: @no_rewrite_in_a_loop
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: scf.for
// CHECK: linalg.generic {{.*}} ins(%[[R]] :
func.func @no_rewrite_in_a_loop(%x: tensor<2x3x4xf32>, %from: index, %to: index, %step: index) -> tensor<2xf32> {
  %low = arith.constant 0xFF800000 : f32
  %ie = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%low : f32) outs(%ie : tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x3x4xf32>) outs(%i : tensor<2x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %je = tensor.empty() : tensor<2xf32>
  %j = linalg.fill ins(%low : f32) outs(%je : tensor<2xf32>) -> tensor<2xf32>
  %z = scf.for %n = %from to %to step %step iter_args(%k = %j) -> (tensor<2xf32>) {
    %y = linalg.generic {indexing_maps = [#two, #second], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<2x3xf32>) outs(%k : tensor<2xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.maximumf %a, %o : f32
      linalg.yield %m : f32
    } -> tensor<2xf32>
    scf.yield %y : tensor<2xf32>
  }
  return %z : tensor<2xf32>
}
