// RUN: %mlirfuse-opt %s --split-input-file --pipeline=complex_parts_rewrite --target=cuda:sm_90 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=complex_parts_rewrite --target=cpu | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=complex_parts_rewrite --target=vulkan | FileCheck %s --check-prefix=OFF
// OFF-NOT: tensor.insert_slice

#id = affine_map<(d0, d1) -> (d0, d1)>

// Parts of pairs, also of the merged ones, and pairs of parts.
// CHECK-LABEL: func.func @conjugated
// CHECK-SAME: %[[X:.+]]: tensor<3x8xf32>
// CHECK-DAG: %[[R:.+]] = tensor.extract_slice %[[X]][0, 0] [3, 4] [1, 2] : tensor<3x8xf32> to tensor<3x4xf32>
// CHECK-DAG: %[[I:.+]] = tensor.extract_slice %[[X]][0, 1] [3, 4] [1, 2] : tensor<3x8xf32> to tensor<3x4xf32>
// CHECK: %[[N:.+]] = linalg.generic {{.*}} ins(%[[I]] : tensor<3x4xf32>)
// CHECK: %[[E:.+]] = tensor.insert_slice %[[R]] into %{{.+}}[0, 0, 0] [3, 4, 1] [1, 1, 1]
// CHECK: %[[Y:.+]] = tensor.insert_slice %[[N]] into %[[E]][0, 0, 1] [3, 4, 1] [1, 1, 1]
// CHECK: return %[[Y]]
func.func @conjugated(%x: tensor<3x8xf32>) -> tensor<3x4x2xf32> {
  %p = tensor.expand_shape %x [[0], [1, 2]] output_shape [3, 4, 2] : tensor<3x8xf32> into tensor<3x4x2xf32>
  %c = iree_tensor_ext.bitcast %p : tensor<3x4x2xf32> -> tensor<3x4xcomplex<f32>>
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<3x4xcomplex<f32>>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: complex<f32>, %o: f32):
    %s = complex.re %a : complex<f32>
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  %i = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<3x4xcomplex<f32>>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: complex<f32>, %o: f32):
    %s = complex.im %a : complex<f32>
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  %f = tensor.empty() : tensor<3x4xcomplex<f32>>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%r, %n : tensor<3x4xf32>, tensor<3x4xf32>) outs(%f : tensor<3x4xcomplex<f32>>) {
  ^bb0(%a: f32, %b: f32, %o: complex<f32>):
    %s = complex.create %a, %b : complex<f32>
    linalg.yield %s : complex<f32>
  } -> tensor<3x4xcomplex<f32>>
  %y = iree_tensor_ext.bitcast %z : tensor<3x4xcomplex<f32>> -> tensor<3x4x2xf32>
  return %y : tensor<3x4x2xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// An argument of complex numbers is read as pairs; of numbers that are created the part is known.
// CHECK-LABEL: func.func @parts
// CHECK-SAME: %[[C:.+]]: tensor<6xcomplex<f32>>, %[[A:.+]]: tensor<6xf32>, %[[B:.+]]: tensor<6xf32>
// CHECK: %[[P:.+]] = iree_tensor_ext.bitcast %[[C]] : tensor<6xcomplex<f32>> -> tensor<6x2xf32>
// CHECK: %[[Q:.+]] = tensor.collapse_shape %[[P]] {{\[\[}}0, 1]] : tensor<6x2xf32> into tensor<12xf32>
// CHECK: %[[I:.+]] = tensor.extract_slice %[[Q]][1] [6] [2] : tensor<12xf32> to tensor<6xf32>
// CHECK: %[[N:.+]] = linalg.generic {{.*}} ins(%[[A]] : tensor<6xf32>)
// CHECK: return %[[I]], %[[N]]
func.func @parts(%c: tensor<6xcomplex<f32>>, %v: tensor<6xf32>, %b: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %e = tensor.empty() : tensor<6xf32>
  %f = tensor.empty() : tensor<6xcomplex<f32>>
  %i = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%c : tensor<6xcomplex<f32>>) outs(%e : tensor<6xf32>) {
  ^bb0(%x: complex<f32>, %o: f32):
    %s = complex.im %x : complex<f32>
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%v : tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.negf %x : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%a, %b : tensor<6xf32>, tensor<6xf32>) outs(%f : tensor<6xcomplex<f32>>) {
  ^bb0(%x: f32, %y: f32, %o: complex<f32>):
    %s = complex.create %x, %y : complex<f32>
    linalg.yield %s : complex<f32>
  } -> tensor<6xcomplex<f32>>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%z : tensor<6xcomplex<f32>>) outs(%e : tensor<6xf32>) {
  ^bb0(%x: complex<f32>, %o: f32):
    %s = complex.re %x : complex<f32>
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %i, %r : tensor<6xf32>, tensor<6xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>
#t = affine_map<(d0, d1) -> (d1, d0)>
#i = affine_map<(d0, d1) -> (d0, d1)>

// Another function of the numbers, and parts in another order.
// CHECK-LABEL: func.func @no_rewrite
// CHECK: complex.abs
// CHECK: complex.re
func.func @no_rewrite(%c: tensor<6xcomplex<f32>>, %d: tensor<2x3xcomplex<f32>>) -> (tensor<6xf32>, tensor<3x2xf32>) {
  %e = tensor.empty() : tensor<6xf32>
  %f = tensor.empty() : tensor<3x2xf32>
  %m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%c : tensor<6xcomplex<f32>>) outs(%e : tensor<6xf32>) {
  ^bb0(%x: complex<f32>, %o: f32):
    %s = complex.abs %x : complex<f32>
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %r = linalg.generic {indexing_maps = [#t, #i], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<2x3xcomplex<f32>>) outs(%f : tensor<3x2xf32>) {
  ^bb0(%x: complex<f32>, %o: f32):
    %s = complex.re %x : complex<f32>
    linalg.yield %s : f32
  } -> tensor<3x2xf32>
  return %m, %r : tensor<6xf32>, tensor<3x2xf32>
}
