// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=pooling_slices_rewrite | FileCheck %s

// From: torch.nn.functional.max_pool2d(x, (1, 2)).
// CHECK-LABEL: func.func @largest
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4x32xf32>
// CHECK: %[[A:.+]] = tensor.extract_slice %[[X]][0, 0, 0, 0] [2, 3, 4, 16] [1, 1, 1, 2]
// CHECK: %[[B:.+]] = tensor.extract_slice %[[X]][0, 0, 0, 1] [2, 3, 4, 16] [1, 1, 1, 2]
// CHECK: linalg.generic {{.+}} ins(%[[A]], %[[B]] : tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>)
// CHECK: ^bb0(%[[P:.+]]: f32, %[[Q:.+]]: f32, %{{.+}}: f32):
// CHECK: %[[M:.+]] = arith.maximumf %{{.+}}, %[[P]] : f32
// CHECK: %[[N:.+]] = arith.maximumf %[[M]], %[[Q]] : f32
// CHECK: linalg.yield %[[N]] : f32
#image = affine_map<(n, c, h, w, i, j) -> (n, c, h + i, w * 2 + j)>
#window = affine_map<(n, c, h, w, i, j) -> (i, j)>
#result = affine_map<(n, c, h, w, i, j) -> (n, c, h, w)>
func.func @largest(%x: tensor<2x3x4x32xf32>) -> tensor<2x3x4x16xf32> {
  %low = arith.constant 0xFF800000 : f32
  %k = tensor.empty() : tensor<1x2xf32>
  %e = tensor.empty() : tensor<2x3x4x16xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  %y = linalg.generic {indexing_maps = [#image, #window, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %k : tensor<2x3x4x32xf32>, tensor<1x2xf32>) outs(%f : tensor<2x3x4x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.maximumf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<2x3x4x16xf32>
  return %y : tensor<2x3x4x16xf32>
}

// -----

// Sums of f16 are taken in f32, as `pool_vector_kernel` takes them.
// CHECK-LABEL: func.func @sum
// CHECK-COUNT-4: tensor.extract_slice
// CHECK: arith.extf
// CHECK: arith.addf %{{.+}}, %{{.+}} : f32
// CHECK: arith.truncf %{{.+}} : f32 to f16
#image = affine_map<(c, w, j) -> (c, w * 4 + j)>
#window = affine_map<(c, w, j) -> (j)>
#result = affine_map<(c, w, j) -> (c, w)>
func.func @sum(%x: tensor<3x128xf16>) -> tensor<3x32xf16> {
  %zero = arith.constant 0.0 : f16
  %k = tensor.empty() : tensor<4xf16>
  %e = tensor.empty() : tensor<3x32xf16>
  %f = linalg.fill ins(%zero : f16) outs(%e : tensor<3x32xf16>) -> tensor<3x32xf16>
  %y = linalg.generic {indexing_maps = [#image, #window, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : tensor<3x128xf16>, tensor<4xf16>) outs(%f : tensor<3x32xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %m = arith.addf %o, %a : f16
    linalg.yield %m : f16
  } -> tensor<3x32xf16>
  return %y : tensor<3x32xf16>
}

// -----

// Left alone: channels last, for which there is a kernel, and fewer columns than a vector has lanes.
// CHECK-LABEL: func.func @others
// CHECK-NOT: tensor.extract_slice
#last = affine_map<(w, c, j) -> (w * 2 + j, c)>
#few = affine_map<(w, c, j) -> (c, w * 2 + j)>
#window = affine_map<(w, c, j) -> (j)>
#result = affine_map<(w, c, j) -> (w, c)>
#turned = affine_map<(w, c, j) -> (c, w)>
func.func @others(%x: tensor<64x16xf32>, %z: tensor<16x8xf32>) -> (tensor<32x16xf32>, tensor<16x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %k = tensor.empty() : tensor<2xf32>
  %e = tensor.empty() : tensor<32x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<32x16xf32>) -> tensor<32x16xf32>
  %y = linalg.generic {indexing_maps = [#last, #window, #result], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %k : tensor<64x16xf32>, tensor<2xf32>) outs(%f : tensor<32x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<32x16xf32>
  %g = tensor.empty() : tensor<16x4xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<16x4xf32>) -> tensor<16x4xf32>
  %s = linalg.generic {indexing_maps = [#few, #window, #turned], iterator_types = ["parallel", "parallel", "reduction"]} ins(%z, %k : tensor<16x8xf32>, tensor<2xf32>) outs(%h : tensor<16x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<16x4xf32>
  return %y, %s : tensor<32x16xf32>, tensor<16x4xf32>
}
