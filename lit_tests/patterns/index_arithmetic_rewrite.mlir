// RUN: %mlirfuse-opt %s --split-input-file --pipeline=index_arithmetic_rewrite --target=cuda:sm_90 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=index_arithmetic_rewrite --target=cpu | FileCheck %s --check-prefix=CPU
// RUN: %mlirfuse-opt %s --split-input-file --disable-pass=index_arithmetic_rewrite --pipeline=index_arithmetic_rewrite --target=cuda:sm_90 | FileCheck %s --check-prefix=OFF

#id = affine_map<(n, w) -> (n, w)>
#w = affine_map<(n, w) -> (w)>

// The nearest elements of a resize by two, with the wrap of negative indices.
// CHECK-LABEL: func.func @twice
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>
// CHECK: linalg.generic {indexing_maps = [#{{.+}}], iterator_types = ["parallel", "parallel"]} outs(
// CHECK-NEXT: ^bb0(%{{.+}}: f32):
// CHECK-NEXT: %[[W:.+]] = linalg.index 1
// CHECK: %[[I:.+]] = arith.divui %[[W]], %c2
// CHECK-NEXT: %[[N:.+]] = linalg.index 0
// CHECK-NEXT: %[[E:.+]] = tensor.extract %[[X]][%[[N]], %[[I]]]
// CHECK-NEXT: linalg.yield %[[E]]
// CPU-LABEL: func.func @twice
// CPU: linalg.generic {{.*}} ins(%{{.+}} : tensor<8xi64>)
// OFF-LABEL: func.func @twice
// OFF: linalg.generic {{.*}} ins(%{{.+}} : tensor<8xi64>)
func.func @twice(%x: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %i = arith.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]> : tensor<8xi64>
  %c0 = arith.constant 0 : i64
  %c4 = arith.constant 4 : i64
  %e = tensor.empty() : tensor<3x8xf32>
  %y = linalg.generic {indexing_maps = [#w, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<8xi64>) outs(%e : tensor<3x8xf32>) {
  ^bb0(%k: i64, %o: f32):
    %n = linalg.index 0 : index
    %b = arith.cmpi slt, %k, %c0 : i64
    %a = arith.addi %k, %c4 : i64
    %s = arith.select %b, %a, %k : i64
    %j = arith.index_cast %s : i64 to index
    %v = tensor.extract %x[%n, %j] : tensor<3x4xf32>
    linalg.yield %v : f32
  } -> tensor<3x8xf32>
  return %y : tensor<3x8xf32>
}

// -----

#id = affine_map<(n, w) -> (n, w)>
#w = affine_map<(n, w) -> (w)>

// Negative indices count from the end; a line is computed on CPUs, too.
// CHECK-LABEL: func.func @from_the_end
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>
// CHECK: %[[W:.+]] = linalg.index 1
// CHECK: %[[I:.+]] = arith.subi %c3{{.*}}, %[[W]]
// CHECK: tensor.extract %[[X]][%{{.+}}, %[[I]]]
// CPU-LABEL: func.func @from_the_end
// CPU: %[[W:.+]] = linalg.index 1
// CPU: %[[I:.+]] = arith.subi %c3{{.*}}, %[[W]]
// CPU: tensor.extract %{{.+}}[%{{.+}}, %[[I]]]
func.func @from_the_end(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %i = arith.constant dense<[-1, -2, -3, -4]> : tensor<4xi64>
  %c0 = arith.constant 0 : i64
  %c4 = arith.constant 4 : i64
  %e = tensor.empty() : tensor<3x4xf32>
  %y = linalg.generic {indexing_maps = [#w, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<4xi64>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%k: i64, %o: f32):
    %n = linalg.index 0 : index
    %b = arith.cmpi slt, %k, %c0 : i64
    %a = arith.addi %k, %c4 : i64
    %s = arith.select %b, %a, %k : i64
    %j = arith.index_cast %s : i64 to index
    %v = tensor.extract %x[%n, %j] : tensor<3x4xf32>
    linalg.yield %v : f32
  } -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// A reflected axis, whose indices an op computes; the sum is not read from memory.
// CHECK-LABEL: func.func @reflected
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[Z:.+]]: tensor<8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[Z]] : tensor<8xf32>)
// CHECK: %[[W:.+]] = linalg.index 0
// CHECK-DAG: %[[L:.+]] = arith.subi %c2{{.*}}, %[[W]]
// CHECK-DAG: %[[B:.+]] = arith.cmpi slt, %[[W]], %c{{[23]}}
// CHECK: %[[S:.+]] = arith.select %[[B]], %[[L]], %{{.+}} : index
// CHECK: tensor.extract %[[X]][%[[S]]]
func.func @reflected(%x: tensor<4xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
  %c2 = arith.constant 2 : i64
  %c3 = arith.constant 3 : i64
  %t = tensor.empty() : tensor<8xi64>
  %i = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%t : tensor<8xi64>) {
  ^bb0(%o: i64):
    %w = linalg.index 0 : index
    %k = arith.index_cast %w : index to i64
    %d = arith.subi %k, %c2 : i64
    %a = math.absi %d : i64
    %r = arith.subi %c3, %a : i64
    %f = math.absi %r : i64
    %s = arith.subi %c3, %f : i64
    linalg.yield %s : i64
  } -> tensor<8xi64>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%i, %z : tensor<8xi64>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%k: i64, %q: f32, %o: f32):
    %j = arith.index_cast %k : i64 to index
    %v = tensor.extract %x[%j] : tensor<4xf32>
    %u = arith.addf %v, %q : f32
    linalg.yield %u : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// No index is outside: the element that JAX would take for it is not chosen.
// CHECK-LABEL: func.func @all_inside
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>
// CHECK: linalg.generic {indexing_maps = [#{{.+}}, #{{.+}}], iterator_types = ["parallel"]} ins(%[[X]] : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[A:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: linalg.yield %[[A]]
func.func @all_inside(%x: tensor<4xf32>) -> tensor<4xf32> {
  %i = arith.constant dense<[3, 1, 0, 2]> : tensor<4xi32>
  %c4 = arith.constant 4 : i32
  %nan = arith.constant 0x7FC00000 : f32
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%i, %x : tensor<4xi32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%k: i32, %a: f32, %o: f32):
    %b = arith.cmpi slt, %k, %c4 : i32
    %s = arith.select %b, %a, %nan : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// CHECK-LABEL: func.func @kept_one_is_outside
// CHECK: linalg.generic {{.*}} ins(%{{.+}}, %{{.+}} : tensor<4xi32>, tensor<4xf32>)
// CHECK: arith.select
func.func @kept_one_is_outside(%x: tensor<4xf32>) -> tensor<4xf32> {
  %i = arith.constant dense<[3, 1, 4, 2]> : tensor<4xi32>
  %c4 = arith.constant 4 : i32
  %nan = arith.constant 0x7FC00000 : f32
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%i, %x : tensor<4xi32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%k: i32, %a: f32, %o: f32):
    %b = arith.cmpi slt, %k, %c4 : i32
    %s = arith.select %b, %a, %nan : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// A permutation has no short form.
// CHECK-LABEL: func.func @no_form_of_a_permutation
// CHECK: linalg.generic {{.*}} ins(%{{.+}} : tensor<8xi64>)
func.func @no_form_of_a_permutation(%x: tensor<8xf32>) -> tensor<8xf32> {
  %i = arith.constant dense<[3, 1, 4, 0, 5, 7, 2, 6]> : tensor<8xi64>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<8xi64>) outs(%e : tensor<8xf32>) {
  ^bb0(%k: i64, %o: f32):
    %j = arith.index_cast %k : i64 to index
    %v = tensor.extract %x[%j] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// Indices outside of the tensor stay what they are.
// CHECK-LABEL: func.func @no_form_of_negative_indices
// CHECK: linalg.generic {{.*}} ins(%{{.+}} : tensor<4xi64>)
func.func @no_form_of_negative_indices(%x: tensor<8xf32>) -> tensor<4xf32> {
  %i = arith.constant dense<[-1, 0, 1, 2]> : tensor<4xi64>
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%k: i64, %o: f32):
    %j = arith.index_cast %k : i64 to index
    %v = tensor.extract %x[%j] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// CHECK-LABEL: func.func @no_form_of_an_argument
// CHECK-SAME: %{{.+}}: tensor<8xf32>, %[[I:.+]]: tensor<4xi64>
// CHECK: linalg.generic {{.*}} ins(%[[I]] : tensor<4xi64>)
func.func @no_form_of_an_argument(%x: tensor<8xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%k: i64, %o: f32):
    %j = arith.index_cast %k : i64 to index
    %v = tensor.extract %x[%j] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// The product wraps in i8: its values are not known.
// CHECK-LABEL: func.func @no_form_of_a_product_that_wraps
// CHECK: arith.muli %{{.+}}, %{{.+}} : i8
func.func @no_form_of_a_product_that_wraps(%x: tensor<512xf32>) -> tensor<4xf32> {
  %i = arith.constant dense<[0, 50, 100, 120]> : tensor<4xi8>
  %c2 = arith.constant 2 : i8
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<4xi8>) outs(%e : tensor<4xf32>) {
  ^bb0(%k: i8, %o: f32):
    %p = arith.muli %k, %c2 : i8
    %j = arith.index_castui %p : i8 to index
    %v = tensor.extract %x[%j] : tensor<512xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// A loop of dynamic size has no table.
// CHECK-LABEL: func.func @no_form_of_a_dynamic_loop
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : index
func.func @no_form_of_a_dynamic_loop(%x: tensor<8xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %e = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) {
  ^bb0(%o: f32):
    %k = linalg.index 0 : index
    %b = arith.cmpi slt, %k, %c0 : index
    %a = arith.addi %k, %c8 : index
    %j = arith.select %b, %a, %k : index
    %v = tensor.extract %x[%j] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

#id = affine_map<(w) -> (w)>

// CHECK-LABEL: func.func @no_form_of_no_index
// CHECK: arith.select
func.func @no_form_of_no_index(%x: tensor<4xf32>) -> tensor<0xf32> {
  %c0 = arith.constant 0 : index
  %nan = arith.constant 0x7FC00000 : f32
  %e = tensor.empty() : tensor<0xf32>
  %y = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<0xf32>) {
  ^bb0(%o: f32):
    %k = linalg.index 0 : index
    %b = arith.cmpi slt, %k, %c0 : index
    %v = tensor.extract %x[%k] : tensor<4xf32>
    %s = arith.select %b, %nan, %v : f32
    linalg.yield %s : f32
  } -> tensor<0xf32>
  return %y : tensor<0xf32>
}
