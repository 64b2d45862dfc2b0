// RUN: %mlirfuse-opt %s --split-input-file --pipeline=loop_unrolling_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=loop_unrolling_rewrite --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#v = affine_map<(d) -> (d)>

// Twelve iterations are two of six; captured counters are those of each part.
// CHECK-LABEL: func.func @scan
// CHECK-DAG: %[[SIX:.+]] = arith.constant 6 : index
// CHECK: scf.for %[[N:.+]] = %{{.+}} to %{{.+}} step %[[SIX]] iter_args(%[[H:.+]] = %{{.+}}) -> (tensor<4xf32>) {
// CHECK: %[[A:.+]] = linalg.generic {{.*}} ins(%[[H]]
// CHECK: tensor.extract %{{.+}}[%[[N]],
// CHECK: %[[N1:.+]] = arith.addi %[[N]], %c1
// CHECK: %[[B:.+]] = linalg.generic {{.*}} ins(%[[A]]
// CHECK: tensor.extract %{{.+}}[%[[N1]],
// CHECK-COUNT-4: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: scf.yield
// CHECK: } {mlirfuse.unrolled}
func.func @scan(%x: tensor<12x4xf32>, %h: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c12 = arith.constant 12 : index
  %ev = tensor.empty() : tensor<4xf32>
  %r = scf.for %n = %c0 to %c12 step %c1 iter_args(%s = %h) -> (tensor<4xf32>) {
    %g = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%ev : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %column = linalg.index 0 : index
      %e = tensor.extract %x[%n, %column] : tensor<12x4xf32>
      %t = arith.addf %a, %e : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    scf.yield %g : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

#v = affine_map<(d) -> (d)>

// Of thirteen iterations seven are one, and six another one.
// CHECK-LABEL: func.func @prime
// CHECK-DAG: %[[END:.+]] = arith.constant 7 : index
// CHECK: %[[R:.+]] = scf.for %{{.+}} = %{{.+}} to %[[END]] step %{{.+}} iter_args
// CHECK-COUNT-7: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: scf.yield
// CHECK: scf.for %{{.+}} = %{{.+}} to %c13 step %{{.+}} iter_args(%{{.+}} = %[[R]])
// CHECK-COUNT-6: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: scf.yield
func.func @prime(%h: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c13 = arith.constant 13 : index
  %ev = tensor.empty() : tensor<4xf32>
  %r = scf.for %n = %c0 to %c13 step %c1 iter_args(%s = %h) -> (tensor<4xf32>) {
    %g = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%ev : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %t = math.exp %a : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    scf.yield %g : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

#v = affine_map<(d) -> (d)>

// The number of iterations is known when the program runs.
// CHECK-LABEL: func.func @dynamic
// CHECK: scf.for
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: mlirfuse.unrolled
// WHY: not_profitable
// WHY: one iteration, or iterations of many ops
func.func @dynamic(%h: tensor<4xf32>, %count: index) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ev = tensor.empty() : tensor<4xf32>
  %r = scf.for %n = %c0 to %count step %c1 iter_args(%s = %h) -> (tensor<4xf32>) {
    %g = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%ev : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %t = math.exp %a : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    scf.yield %g : tensor<4xf32>
  }
  %q = scf.for %n = %c0 to %c1 step %c1 iter_args(%s = %h) -> (tensor<4xf32>) {
    %g = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%ev : tensor<4xf32>) {
    ^bb0(%a: f32, %o: f32):
      %t = math.exp %a : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    scf.yield %g : tensor<4xf32>
  }
  return %r, %q : tensor<4xf32>, tensor<4xf32>
}
