// RUN: %mlirfuse-opt %s --split-input-file --pipeline=counted_loop_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=counted_loop_rewrite --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#s = affine_map<() -> ()>
#v = affine_map<(d) -> (d)>

// From: torch.while_loop, and recurrent layers of PyTorch, by mlirfuse.frontends.import_model and
//       iree-compile --compile-to=global-optimization
// CHECK-LABEL: func.func @rows_of_a_recurrence
// CHECK-SAME: %[[X:.+]]: tensor<6x4xf32>
// CHECK: %[[R:.+]]:2 = scf.for %[[N:.+]] = %{{.+}} to %{{.+}} step %{{.+}} iter_args(%[[Y:.+]] = %{{.+}}, %[[H:.+]] = %{{.+}}) -> (tensor<6x4xf32>, tensor<4xf32>) {
// CHECK: %[[I:.+]] = arith.index_cast %[[N]] : index to i64
// CHECK: arith.index_cast %[[I]]
// CHECK: %[[T:.+]] = tensor.insert_slice %{{.+}} into %[[Y]][%[[N]], 0] [1, 4] [1, 1]
// CHECK-NOT: scatter
// CHECK: scf.yield %[[T]], %{{.+}} : tensor<6x4xf32>, tensor<4xf32>
// CHECK: return %[[R]]#0
func.func @rows_of_a_recurrence(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %one = arith.constant 1 : i64
  %six = arith.constant 6 : i64
  %start = arith.constant dense<0> : tensor<i64>
  %rows = arith.constant dense<0.0> : tensor<6x4xf32>
  %state = arith.constant dense<0.0> : tensor<4xf32>
  %ei = tensor.empty() : tensor<i64>
  %eb = tensor.empty() : tensor<i1>
  %ev = tensor.empty() : tensor<4xf32>
  %r:3 = scf.while (%i = %start, %y = %rows, %h = %state) : (tensor<i64>, tensor<6x4xf32>, tensor<4xf32>) -> (tensor<i64>, tensor<6x4xf32>, tensor<4xf32>) {
    %g = linalg.generic {indexing_maps = [affine_map<(d) -> ()>, #v, #v], iterator_types = ["parallel"]} ins(%i, %h : tensor<i64>, tensor<4xf32>) outs(%ev : tensor<4xf32>) {
    ^bb0(%n: i64, %a: f32, %o: f32):
      %row = arith.index_cast %n : i64 to index
      %column = linalg.index 0 : index
      %e = tensor.extract %x[%row, %column] : tensor<6x4xf32>
      %t = arith.addf %a, %e : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %update = tensor.expand_shape %g [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
    %place = tensor.expand_shape %i [] output_shape [1] : tensor<i64> into tensor<1xi64>
    %w = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%update, %place : tensor<1x4xf32>, tensor<1xi64>) outs(%y : tensor<6x4xf32>) {
    ^bb0(%new: f32, %old: f32):
      iree_linalg_ext.yield %new : f32
    } -> tensor<6x4xf32>
    %j = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%i : tensor<i64>) outs(%ei : tensor<i64>) {
    ^bb0(%n: i64, %o: i64):
      %t = arith.addi %n, %one : i64
      linalg.yield %t : i64
    } -> tensor<i64>
    %c = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%j : tensor<i64>) outs(%eb : tensor<i1>) {
    ^bb0(%n: i64, %o: i1):
      %t = arith.cmpi slt, %n, %six : i64
      linalg.yield %t : i1
    } -> tensor<i1>
    %more = tensor.extract %c[] : tensor<i1>
    scf.condition(%more) %j, %w, %g : tensor<i64>, tensor<6x4xf32>, tensor<4xf32>
  } do {
  ^bb0(%i: tensor<i64>, %y: tensor<6x4xf32>, %h: tensor<4xf32>):
    scf.yield %i, %y, %h : tensor<i64>, tensor<6x4xf32>, tensor<4xf32>
  }
  return %r#1 : tensor<6x4xf32>
}

// -----

#s = affine_map<() -> ()>
#v = affine_map<(d) -> (d)>

// A copy of one row is a slice on a CPU: a kernel reads it as an operand.
// CHECK-LABEL: func.func @part_at_the_counter
// CHECK-SAME: %[[X:.+]]: tensor<6x4xf32>
// CHECK: scf.for %[[N:.+]] = %{{.+}} to %{{.+}} step
// CHECK: tensor.extract_slice %[[X]][%[[N]], 0] [1, 4] [1, 1] : tensor<6x4xf32> to tensor<4xf32>
// CHECK-NOT: tensor.extract %
func.func @part_at_the_counter(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %one = arith.constant 1 : i64
  %six = arith.constant 6 : i64
  %start = arith.constant dense<0> : tensor<i64>
  %rows = arith.constant dense<0.0> : tensor<6x4xf32>
  %state = arith.constant dense<0.0> : tensor<4xf32>
  %ei = tensor.empty() : tensor<i64>
  %eb = tensor.empty() : tensor<i1>
  %ev = tensor.empty() : tensor<4xf32>
  %r:3 = scf.while (%i = %start, %y = %rows, %h = %state) : (tensor<i64>, tensor<6x4xf32>, tensor<4xf32>) -> (tensor<i64>, tensor<6x4xf32>, tensor<4xf32>) {
    %p = linalg.generic {indexing_maps = [affine_map<(d) -> ()>, #v], iterator_types = ["parallel"]} ins(%i : tensor<i64>) outs(%ev : tensor<4xf32>) {
    ^bb0(%n: i64, %o: f32):
      %row = arith.index_cast %n : i64 to index
      %column = linalg.index 0 : index
      %e = tensor.extract %x[%row, %column] : tensor<6x4xf32>
      linalg.yield %e : f32
    } -> tensor<4xf32>
    %g = linalg.generic {indexing_maps = [#v, #v, #v], iterator_types = ["parallel"]} ins(%p, %h : tensor<4xf32>, tensor<4xf32>) outs(%ev : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %t = arith.addf %a, %b : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %update = tensor.expand_shape %g [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
    %place = tensor.expand_shape %i [] output_shape [1] : tensor<i64> into tensor<1xi64>
    %w = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true) ins(%update, %place : tensor<1x4xf32>, tensor<1xi64>) outs(%y : tensor<6x4xf32>) {
    ^bb0(%new: f32, %old: f32):
      iree_linalg_ext.yield %new : f32
    } -> tensor<6x4xf32>
    %j = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%i : tensor<i64>) outs(%ei : tensor<i64>) {
    ^bb0(%n: i64, %o: i64):
      %t = arith.addi %n, %one : i64
      linalg.yield %t : i64
    } -> tensor<i64>
    %c = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%j : tensor<i64>) outs(%eb : tensor<i1>) {
    ^bb0(%n: i64, %o: i1):
      %t = arith.cmpi slt, %n, %six : i64
      linalg.yield %t : i1
    } -> tensor<i1>
    %more = tensor.extract %c[] : tensor<i1>
    scf.condition(%more) %j, %w, %g : tensor<i64>, tensor<6x4xf32>, tensor<4xf32>
  } do {
  ^bb0(%i: tensor<i64>, %y: tensor<6x4xf32>, %h: tensor<4xf32>):
    scf.yield %i, %y, %h : tensor<i64>, tensor<6x4xf32>, tensor<4xf32>
  }
  return %r#1 : tensor<6x4xf32>
}

// -----

#s = affine_map<() -> ()>

// Steps of two from three: 3, 5, 7. The last value is a constant, and other readers get a tensor.
// CHECK-LABEL: func.func @steps
// CHECK-DAG: %[[FIRST:.+]] = arith.constant 3 : index
// CHECK-DAG: %[[END:.+]] = arith.constant 9 : index
// CHECK-DAG: %[[STEP:.+]] = arith.constant 2 : index
// CHECK: scf.for %[[N:.+]] = %[[FIRST]] to %[[END]] step %[[STEP]]
// CHECK: tensor.from_elements
// CHECK: %[[LAST:.+]] = arith.constant dense<9> : tensor<i64>
// CHECK: return %[[LAST]]
func.func @steps(%x: tensor<2xi64>) -> (tensor<i64>, tensor<2xi64>) {
  %two = arith.constant 2 : i64
  %eight = arith.constant 8 : i64
  %start = arith.constant dense<3> : tensor<i64>
  %ei = tensor.empty() : tensor<i64>
  %eb = tensor.empty() : tensor<i1>
  %r:2 = scf.while (%i = %start, %y = %x) : (tensor<i64>, tensor<2xi64>) -> (tensor<i64>, tensor<2xi64>) {
    %w = tensor.insert_slice %i into %y[0] [1] [1] : tensor<i64> into tensor<2xi64>
    %j = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%i : tensor<i64>) outs(%ei : tensor<i64>) {
    ^bb0(%n: i64, %o: i64):
      %t = arith.addi %n, %two : i64
      linalg.yield %t : i64
    } -> tensor<i64>
    %c = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%j : tensor<i64>) outs(%eb : tensor<i1>) {
    ^bb0(%n: i64, %o: i1):
      %t = arith.cmpi slt, %n, %eight : i64
      linalg.yield %t : i1
    } -> tensor<i1>
    %more = tensor.extract %c[] : tensor<i1>
    scf.condition(%more) %j, %w : tensor<i64>, tensor<2xi64>
  } do {
  ^bb0(%i: tensor<i64>, %y: tensor<2xi64>):
    scf.yield %i, %y : tensor<i64>, tensor<2xi64>
  }
  return %r#0, %r#1 : tensor<i64>, tensor<2xi64>
}

// -----

#s = affine_map<() -> ()>

// The bound is known when the program runs.
// CHECK-LABEL: func.func @bound_of_an_argument
// CHECK: scf.while
// WHY: constant_unverified
// WHY: the condition is not that a counter is below a constant
func.func @bound_of_an_argument(%x: tensor<2xi64>, %bound: tensor<i64>) -> tensor<2xi64> {
  %two = arith.constant 2 : i64
  %start = arith.constant dense<3> : tensor<i64>
  %ei = tensor.empty() : tensor<i64>
  %eb = tensor.empty() : tensor<i1>
  %r:2 = scf.while (%i = %start, %y = %x) : (tensor<i64>, tensor<2xi64>) -> (tensor<i64>, tensor<2xi64>) {
    %w = tensor.insert_slice %i into %y[0] [1] [1] : tensor<i64> into tensor<2xi64>
    %j = linalg.generic {indexing_maps = [#s, #s], iterator_types = []} ins(%i : tensor<i64>) outs(%ei : tensor<i64>) {
    ^bb0(%n: i64, %o: i64):
      %t = arith.addi %n, %two : i64
      linalg.yield %t : i64
    } -> tensor<i64>
    %c = linalg.generic {indexing_maps = [#s, #s, #s], iterator_types = []} ins(%j, %bound : tensor<i64>, tensor<i64>) outs(%eb : tensor<i1>) {
    ^bb0(%n: i64, %b: i64, %o: i1):
      %t = arith.cmpi slt, %n, %b : i64
      linalg.yield %t : i1
    } -> tensor<i1>
    %more = tensor.extract %c[] : tensor<i1>
    scf.condition(%more) %j, %w : tensor<i64>, tensor<2xi64>
  } do {
  ^bb0(%i: tensor<i64>, %y: tensor<2xi64>):
    scf.yield %i, %y : tensor<i64>, tensor<2xi64>
  }
  return %r#1 : tensor<2xi64>
}
