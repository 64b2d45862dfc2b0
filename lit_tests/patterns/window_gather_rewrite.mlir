// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=window_gather_rewrite | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=window_gather_rewrite | FileCheck %s --check-prefix=OFF

// From: torch.Tensor.unfold, windows of 16 with steps of 8.
// CHECK-DAG: #[[ID:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @unfold
// CHECK-SAME: %[[X:.+]]: tensor<4x40xf32>, %[[W:.+]]: tensor<4x4x16xf32>
// CHECK: linalg.generic {indexing_maps = [#[[ID]], #[[ID]]], {{.*}}} ins(%[[W]] : tensor<4x4x16xf32>)
// CHECK: ^bb0(%[[IN:.+]]: f32, %{{.+}}: f32):
// CHECK: %[[N:.+]] = linalg.index 0
// CHECK: %[[K:.+]] = linalg.index 1
// CHECK: %[[EIGHT:.+]] = arith.constant 8 : index
// CHECK: %[[S:.+]] = arith.muli %[[K]], %[[EIGHT]] : index
// CHECK: %[[D:.+]] = linalg.index 2
// CHECK: %[[AT:.+]] = arith.addi %[[S]], %[[D]] : index
// CHECK: %[[V:.+]] = tensor.extract %[[X]][%[[N]], %[[AT]]] : tensor<4x40xf32>
// CHECK: arith.mulf %[[V]], %[[IN]] : f32
// OFF-LABEL: func.func @unfold
// OFF-NOT: tensor.extract
#windows = affine_map<(n, w, k) -> (n, w * 8 + k)>
#id = affine_map<(n, w, k) -> (n, w, k)>
func.func @unfold(%x: tensor<4x40xf32>, %h: tensor<4x4x16xf32>) -> tensor<4x4x16xf32> {
  %e = tensor.empty() : tensor<4x4x16xf32>
  %y = linalg.generic {indexing_maps = [#windows, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %h : tensor<4x40xf32>, tensor<4x4x16xf32>) outs(%e : tensor<4x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4x4x16xf32>
  return %y : tensor<4x4x16xf32>
}

// -----

// A step and a start, a constant index, and a dynamic size.
// CHECK-LABEL: func.func @strided
// CHECK-SAME: %[[X:.+]]: tensor<3x?xi32>
// CHECK: %[[TWO:.+]] = arith.constant 2 : index
// CHECK: %[[I:.+]] = linalg.index 0
// CHECK: %[[THREE:.+]] = arith.constant 3 : index
// CHECK: %[[S:.+]] = arith.muli %[[I]], %[[THREE]] : index
// CHECK: %[[ONE:.+]] = arith.constant 1 : index
// CHECK: %[[AT:.+]] = arith.addi %[[S]], %[[ONE]] : index
// CHECK: tensor.extract %[[X]][%[[TWO]], %[[AT]]] : tensor<3x?xi32>
#strided = affine_map<(i) -> (2, i * 3 + 1)>
#line = affine_map<(i) -> (i)>
func.func @strided(%x: tensor<3x?xi32>, %n: index) -> tensor<?xi32> {
  %e = tensor.empty(%n) : tensor<?xi32>
  %y = linalg.generic {indexing_maps = [#strided, #line], iterator_types = ["parallel"]} ins(%x : tensor<3x?xi32>) outs(%e : tensor<?xi32>) {
  ^bb0(%a: i32, %o: i32):
    linalg.yield %a : i32
  } -> tensor<?xi32>
  return %y : tensor<?xi32>
}

// -----

// Left alone: quotients, and windows that a reduction reads.
// CHECK-LABEL: func.func @others
// CHECK-NOT: tensor.extract
#quotient = affine_map<(i) -> (i floordiv 2)>
#line = affine_map<(i) -> (i)>
#pooled = affine_map<(i, k) -> (i * 2 + k)>
#kept = affine_map<(i, k) -> (i)>
#window = affine_map<(i, k) -> (k)>
func.func @others(%x: tensor<4xf32>, %z: tensor<8xf32>, %k: tensor<2xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#quotient, #line], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#pooled, #window, #kept], iterator_types = ["parallel", "reduction"]} ins(%z, %k : tensor<8xf32>, tensor<2xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.addf %a, %o : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  return %y, %s : tensor<8xf32>, tensor<4xf32>
}
