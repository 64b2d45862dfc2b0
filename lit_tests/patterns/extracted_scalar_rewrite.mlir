// RUN: %mlirfuse-opt %s --split-input-file --pipeline=extracted_scalar_rewrite | FileCheck %s

#m = affine_map<(d) -> (d)>
#z = affine_map<(d) -> ()>

// From: DynamicQuantizeLinear of ONNX: a scale and a zero point that other ops compute.
// CHECK-DAG: #[[M:.+]] = affine_map<(d0) -> (d0)>
// CHECK-DAG: #[[Z:.+]] = affine_map<(d0) -> ()>
// CHECK-LABEL: func.func @quantize
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>, %[[S:.+]]: tensor<f32>, %[[P:.+]]: tensor<i8>
// CHECK-NOT: tensor.extract
// CHECK: linalg.generic {indexing_maps = [#[[M]], #[[Z]], #[[Z]], #[[M]]], {{.*}}} ins(%[[X]], %[[P]], %[[S]] : tensor<8xf32>, tensor<i8>, tensor<f32>)
// CHECK-NEXT: ^bb0(%[[A:.+]]: f32, %[[B:.+]]: i8, %[[C:.+]]: f32, %{{.+}}: i8):
// CHECK-NEXT: arith.uitofp %[[B]]
// CHECK-NEXT: arith.divf %[[A]], %[[C]]
func.func @quantize(%x: tensor<8xf32>, %scale: tensor<f32>, %zero: tensor<i8>) -> tensor<8xi8> {
  %s = tensor.extract %scale[] : tensor<f32>
  %z = tensor.extract %zero[] : tensor<i8>
  %e = tensor.empty() : tensor<8xi8>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xi8>) {
  ^bb0(%a: f32, %o: i8):
    %p = arith.uitofp %z : i8 to f32
    %q = arith.divf %a, %s : f32
    %r = arith.addf %q, %p : f32
    %t = arith.fptoui %r : f32 to i8
    linalg.yield %t : i8
  } -> tensor<8xi8>
  return %y : tensor<8xi8>
}

// -----

#m = affine_map<(d) -> (d)>

// A scalar that two ops capture, and one that is yielded as it is.
// CHECK-LABEL: func.func @two_users
// CHECK-NOT: tensor.extract
// CHECK: linalg.generic {{.*}} ins(%{{.+}}, %[[S:.+]] : tensor<8xf32>, tensor<f32>)
// CHECK: linalg.generic {{.*}} ins(%[[S]] : tensor<f32>)
// CHECK-NEXT: ^bb0(%[[A:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: linalg.yield %[[A]]
func.func @two_users(%x: tensor<8xf32>, %scale: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %s = tensor.extract %scale[] : tensor<f32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.divf %a, %s : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %w = linalg.generic {indexing_maps = [#m], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %y, %w : tensor<8xf32>, tensor<8xf32>
}

// -----

#m = affine_map<(d) -> (d)>

// A constant stays, and an element of a larger tensor.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: tensor.extract
// CHECK: linalg.generic {{.*}} ins(%{{.+}} : tensor<8xf32>)
func.func @others(%x: tensor<8xf32>, %rows: tensor<4xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<2.0> : tensor<f32>
  %one = arith.constant 1 : index
  %s = tensor.extract %c[] : tensor<f32>
  %t = tensor.extract %rows[%one] : tensor<4xf32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.divf %a, %s : f32
    %r = arith.addf %q, %t : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}
