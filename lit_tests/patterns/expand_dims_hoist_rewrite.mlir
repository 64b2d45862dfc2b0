// RUN: %mlirfuse-opt %s --split-input-file --pipeline=expand_dims_hoist_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=expand_dims_hoist_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

// A bias and a residual after the reshape of a matmul's result; the expand moves past both.
// CHECK-LABEL: @bias_and_residual
// CHECK-SAME: %[[C:.*]]: tensor<8x16xf32>, %[[BIAS:.*]]: tensor<16xf32>, %[[R:.*]]: tensor<2x4x16xf32>
// CHECK: %[[B:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[C]], %[[BIAS]]
// CHECK: %[[R2:.*]] = tensor.collapse_shape %[[R]] {{\[\[}}0, 1], [2]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[B]], %[[R2]]
// CHECK: %[[Y:.*]] = tensor.expand_shape %[[S]] {{\[\[}}0, 1], [2]] output_shape [2, 4, 16]
// CHECK: return %[[Y]]
#id = affine_map<(b, s, n) -> (b, s, n)>
#n = affine_map<(b, s, n) -> (n)>
func.func @bias_and_residual(%c: tensor<8x16xf32>, %bias: tensor<16xf32>, %r: tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf32> into tensor<2x4x16xf32>
  %e = tensor.empty() : tensor<2x4x16xf32>
  %b = linalg.generic {indexing_maps = [#id, #n, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %bias : tensor<2x4x16xf32>, tensor<16xf32>) outs(%e : tensor<2x4x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<2x4x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %r : tensor<2x4x16xf32>, tensor<2x4x16xf32>) outs(%e : tensor<2x4x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// -----

// A row reduction: its result is expanded as well.
// CHECK-LABEL: @row_sum_f16
// CHECK-SAME: %[[C:.*]]: tensor<8x16xf16>
// CHECK: %[[F:.*]] = linalg.fill {{.*}} -> tensor<8xf16>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[C]] : {{.*}} outs(%[[F]]
// CHECK: tensor.expand_shape %[[S]] {{\[\[}}0, 1]] output_shape [2, 4]
#id = affine_map<(b, s, n) -> (b, s, n)>
#bs = affine_map<(b, s, n) -> (b, s)>
func.func @row_sum_f16(%c: tensor<8x16xf16>) -> tensor<2x4xf16> {
  %zero = arith.constant 0.0 : f16
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf16> into tensor<2x4x16xf16>
  %e = tensor.empty() : tensor<2x4xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<2x4xf16>) -> tensor<2x4xf16>
  %y = linalg.generic {indexing_maps = [#id, #bs], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x4x16xf16>) outs(%f : tensor<2x4xf16>) {
  ^bb0(%i: f16, %o: f16):
    %s = arith.addf %i, %o : f16
    linalg.yield %s : f16
  } -> tensor<2x4xf16>
  return %y : tensor<2x4xf16>
}

// -----

// A dynamic leading dimension: the sizes of the new expand are those of the old one.
// CHECK-LABEL: @dynamic_batch
// CHECK-SAME: %[[C:.*]]: tensor<?x16xf32>, %[[B:.*]]: index
// CHECK: %[[E:.*]] = tensor.empty(%{{.*}}) : tensor<?x16xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[C]] : tensor<?x16xf32>) outs(%[[E]]
// CHECK: tensor.expand_shape %[[S]] {{\[\[}}0, 1], [2]] output_shape [%[[B]], 4, 16]
#id = affine_map<(b, s, n) -> (b, s, n)>
func.func @dynamic_batch(%c: tensor<?x16xf32>, %b: index) -> tensor<?x4x16xf32> {
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [%b, 4, 16] : tensor<?x16xf32> into tensor<?x4x16xf32>
  %e = tensor.empty(%b) : tensor<?x4x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<?x4x16xf32>) outs(%e : tensor<?x4x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<?x4x16xf32>
  return %y : tensor<?x4x16xf32>
}

// -----

// Batch and tokens are dynamic: the inits of a row sum and of its user are created with the
// size that the tensor before the reshape has. No reshape is left between the ops.
// CHECK-LABEL: @dynamic_batch_and_tokens
// CHECK-SAME: %[[X:.*]]: tensor<?x16xf32>, %[[N:.*]]: index, %[[B:.*]]: index, %[[T:.*]]: index
// CHECK: %[[CE:.*]] = tensor.empty(%[[N]]) : tensor<?x16xf32>
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<?x16xf32>) outs(%[[CE]]
// CHECK: %[[SE:.*]] = tensor.empty(%[[N]]) : tensor<?xf32>
// CHECK: %[[F:.*]] = linalg.fill {{.*}} outs(%[[SE]]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%[[C]] : tensor<?x16xf32>) outs(%[[F]]
// CHECK: %[[YE:.*]] = tensor.empty(%[[N]]) : tensor<?x16xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[S]] : tensor<?x16xf32>, tensor<?xf32>) outs(%[[YE]]
// CHECK: tensor.expand_shape %[[Y]] {{\[\[}}0, 1], [2]] output_shape [%[[B]], %[[T]], 16]
#id = affine_map<(b, s, n) -> (b, s, n)>
#bs = affine_map<(b, s, n) -> (b, s)>
#two = affine_map<(m, n) -> (m, n)>
func.func @dynamic_batch_and_tokens(%x: tensor<?x16xf32>, %n: index, %b: index, %t: index) -> tensor<?x?x16xf32> {
  %zero = arith.constant 0.0 : f32
  %ce = tensor.empty(%n) : tensor<?x16xf32>
  %c = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x16xf32>) outs(%ce : tensor<?x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = math.absf %i : f32
    linalg.yield %a : f32
  } -> tensor<?x16xf32>
  %w = tensor.expand_shape %c [[0, 1], [2]] output_shape [%b, %t, 16] : tensor<?x16xf32> into tensor<?x?x16xf32>
  %se = tensor.empty(%b, %t) : tensor<?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%se : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.generic {indexing_maps = [#id, #bs], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w : tensor<?x?x16xf32>) outs(%f : tensor<?x?xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = arith.addf %i, %o : f32
    linalg.yield %a : f32
  } -> tensor<?x?xf32>
  %ye = tensor.empty(%b, %t) : tensor<?x?x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #bs, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w, %s : tensor<?x?x16xf32>, tensor<?x?xf32>) outs(%ye : tensor<?x?x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %d = arith.divf %i, %j : f32
    linalg.yield %d : f32
  } -> tensor<?x?x16xf32>
  return %y : tensor<?x?x16xf32>
}

// -----

// The init holds data: it is reshaped, not created again.
// CHECK-LABEL: @dynamic_init_with_data
// CHECK-SAME: %[[C:.*]]: tensor<?x16xf32>, %[[A:.*]]: tensor<?x4x16xf32>
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[A]]
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[H]] {{\[\[}}0, 1], [2]]
// CHECK: linalg.generic {{.*}} ins(%[[C]] : tensor<?x16xf32>) outs(%[[R]]
#id = affine_map<(b, s, n) -> (b, s, n)>
func.func @dynamic_init_with_data(%c: tensor<?x16xf32>, %a: tensor<?x4x16xf32>, %b: index) -> tensor<?x4x16xf32> {
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [%b, 4, 16] : tensor<?x16xf32> into tensor<?x4x16xf32>
  %e = tensor.empty(%b) : tensor<?x4x16xf32>
  %h = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<?x4x16xf32>) outs(%e : tensor<?x4x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<?x4x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<?x4x16xf32>) outs(%h : tensor<?x4x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<?x4x16xf32>
  return %y : tensor<?x4x16xf32>
}

// -----

// Two groups of loops, one of which an operand reads partially: only the other collapses.
// CHECK-LABEL: @one_of_two_groups
// CHECK-SAME: %[[C:.*]]: tensor<8x16xf32>, %[[H:.*]]: tensor<4xf32>
// CHECK: %[[X:.*]] = tensor.expand_shape %[[C]] {{\[\[}}0], [1, 2]] output_shape [8, 4, 4]
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[H]]
// CHECK: tensor.expand_shape {{.*}} output_shape [2, 4, 4, 4]
#id = affine_map<(b, s, h, d) -> (b, s, h, d)>
#h = affine_map<(b, s, h, d) -> (h)>
func.func @one_of_two_groups(%c: tensor<8x16xf32>, %h: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  %x = tensor.expand_shape %c [[0, 1], [2, 3]] output_shape [2, 4, 4, 4] : tensor<8x16xf32> into tensor<2x4x4x4xf32>
  %e = tensor.empty() : tensor<2x4x4x4xf32>
  %y = linalg.generic {indexing_maps = [#id, #h, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %h : tensor<2x4x4x4xf32>, tensor<4xf32>) outs(%e : tensor<2x4x4x4xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.mulf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<2x4x4x4xf32>
  return %y : tensor<2x4x4x4xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_operand_reads_part_of_the_group
// CHECK: %[[X:.*]] = tensor.expand_shape
// CHECK: linalg.generic {{.*}} ins(%[[X]]
// WHY-DAG: an operand reads only part of the collapsed loops
#id = affine_map<(b, s, n) -> (b, s, n)>
#b = affine_map<(b, s, n) -> (b, n)>
func.func @no_rewrite_operand_reads_part_of_the_group(%c: tensor<8x16xf32>, %m: tensor<2x16xf32>) -> tensor<2x4x16xf32> {
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf32> into tensor<2x4x16xf32>
  %e = tensor.empty() : tensor<2x4x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #b, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x4x16xf32>, tensor<2x16xf32>) outs(%e : tensor<2x4x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}

// -----

// CHECK-LABEL: @no_rewrite_body_reads_an_index
// CHECK: %[[X:.*]] = tensor.expand_shape
// CHECK: linalg.generic {{.*}} ins(%[[X]]
// WHY-DAG: the body reads a loop index
#id = affine_map<(b, s, n) -> (b, s, n)>
func.func @no_rewrite_body_reads_an_index(%c: tensor<8x16xi64>) -> tensor<2x4x16xi64> {
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xi64> into tensor<2x4x16xi64>
  %e = tensor.empty() : tensor<2x4x16xi64>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x4x16xi64>) outs(%e : tensor<2x4x16xi64>) {
  ^bb0(%i: i64, %o: i64):
    %d = linalg.index 0 : index
    %k = arith.index_cast %d : index to i64
    %s = arith.addi %i, %k : i64
    linalg.yield %s : i64
  } -> tensor<2x4x16xi64>
  return %y : tensor<2x4x16xi64>
}

// -----

// A transpose takes the group apart.
// CHECK-LABEL: @no_rewrite_transpose
// CHECK: %[[X:.*]] = tensor.expand_shape
// CHECK: linalg.generic {{.*}} ins(%[[X]]
#id = affine_map<(b, s, n) -> (b, s, n)>
#t = affine_map<(b, s, n) -> (s, b, n)>
func.func @no_rewrite_transpose(%c: tensor<8x16xf32>) -> tensor<4x2x16xf32> {
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf32> into tensor<2x4x16xf32>
  %e = tensor.empty() : tensor<4x2x16xf32>
  %y = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x4x16xf32>) outs(%e : tensor<4x2x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<4x2x16xf32>
  return %y : tensor<4x2x16xf32>
}

// -----

// The sum is over the rows of a batch: other users of the rows are not moved past the reshape.
// CHECK-LABEL: @no_rewrite_reduced_in_part
// CHECK: %[[X:.*]] = tensor.expand_shape
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[S]] :
// WHY-DAG: a reduction reads only part of the collapsed loops
#id = affine_map<(b, s, n) -> (b, s, n)>
#b = affine_map<(b, s, n) -> (b)>
func.func @no_rewrite_reduced_in_part(%c: tensor<8x16xf32>) -> tensor<2x4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %x = tensor.expand_shape %c [[0, 1], [2]] output_shape [2, 4, 16] : tensor<8x16xf32> into tensor<2x4x16xf32>
  %r = tensor.empty() : tensor<2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<2xf32>) -> tensor<2xf32>
  %t = linalg.generic {indexing_maps = [#id, #b], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<2x4x16xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%i: f32, %o: f32):
    %a = arith.addf %i, %o : f32
    linalg.yield %a : f32
  } -> tensor<2xf32>
  %e = tensor.empty() : tensor<2x4x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #b, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %t : tensor<2x4x16xf32>, tensor<2xf32>) outs(%e : tensor<2x4x16xf32>) {
  ^bb0(%i: f32, %m: f32, %o: f32):
    %d = arith.subf %i, %m : f32
    linalg.yield %d : f32
  } -> tensor<2x4x16xf32>
  return %y : tensor<2x4x16xf32>
}
