// RUN: %mlirfuse-opt %s --split-input-file --pipeline=gathered_producer_rewrite | FileCheck %s

#m = affine_map<(n, c) -> (n, c)>
#r = affine_map<(n, c) -> (n)>
#n = affine_map<(n) -> (n)>

// The loss of PyTorch's cross-entropy, after two steps of its log-softmax.
// CHECK-DAG: #[[N:.+]] = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @cross_entropy
// CHECK-SAME: %[[X:.+]]: tensor<8x32xf16>, %[[S:.+]]: tensor<8xf32>, %[[T:.+]]: tensor<8xi64>
// CHECK: linalg.generic {indexing_maps = [#[[N]], #[[N]], #[[N]]], {{.*}}} ins(%[[T]], %[[S]] : tensor<8xi64>, tensor<8xf32>)
// CHECK-NEXT: ^bb0(%[[J:.+]]: i64, %[[M:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[C:.+]] = arith.index_cast %[[J]]
// CHECK-NEXT: %[[I:.+]] = linalg.index 0
// CHECK-NEXT: %[[E:.+]] = tensor.extract %[[X]][%[[I]], %[[C]]]
// CHECK-NEXT: %[[W:.+]] = arith.extf %[[E]]
// CHECK-NEXT: %[[D:.+]] = arith.subf %[[W]], %[[M]]
// CHECK-NEXT: %[[L:.+]] = arith.negf %[[D]]
// CHECK-NEXT: linalg.yield %[[L]]
// CHECK-NOT: linalg.generic
func.func @cross_entropy(%x: tensor<8x32xf16>, %s: tensor<8xf32>, %t: tensor<8xi64>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %w = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf16>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f16, %o: f32):
    %p = arith.extf %a : f16 to f32
    linalg.yield %p : f32
  } -> tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#m, #r, #m], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<8x32xf32>, tensor<8xf32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.subf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8x32xf32>
  %f = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%t : tensor<8xi64>) outs(%f : tensor<8xf32>) {
  ^bb0(%j: i64, %o: f32):
    %c = arith.index_cast %j : i64 to index
    %i = linalg.index 0 : index
    %p = tensor.extract %d[%i, %c] : tensor<8x32xf32>
    %q = arith.negf %p : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

#m = affine_map<(n, c) -> (n, c)>
#t = affine_map<(n, c) -> (c, n)>
#z = affine_map<(n, c) -> ()>
#n = affine_map<(n) -> (n)>

// A transposed operand, and one of no dimensions.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: %[[X:.+]]: tensor<32x8xf32>, %[[S:.+]]: tensor<f32>, %[[T:.+]]: tensor<4xi64>
// CHECK: linalg.generic {{.*}} ins(%[[T]], %[[S]] : tensor<4xi64>, tensor<f32>)
// CHECK-NEXT: ^bb0(%[[J:.+]]: i64, %[[A:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[C:.+]] = arith.index_cast %[[J]]
// CHECK-NEXT: %[[I:.+]] = linalg.index 0
// CHECK-NEXT: %[[E:.+]] = tensor.extract %[[X]][%[[C]], %[[I]]]
// CHECK-NEXT: arith.mulf %[[E]], %[[A]]
func.func @transposed(%x: tensor<32x8xf32>, %s: tensor<f32>, %t: tensor<4xi64>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<8x32xf32>
  %d = linalg.generic {indexing_maps = [#t, #z, #m], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<32x8xf32>, tensor<f32>) outs(%e : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8x32xf32>
  %f = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%t : tensor<4xi64>) outs(%f : tensor<4xf32>) {
  ^bb0(%j: i64, %o: f32):
    %c = arith.index_cast %j : i64 to index
    %i = linalg.index 0 : index
    %p = tensor.extract %d[%i, %c] : tensor<8x32xf32>
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

#n = affine_map<(n) -> (n)>

// More than half of the elements are read.
// CHECK-LABEL: func.func @most
// CHECK: math.exp
// CHECK: tensor.extract
func.func @most(%x: tensor<8xf32>, %t: tensor<5xi64>) -> tensor<5xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %d = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.exp %a : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %f = tensor.empty() : tensor<5xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%t : tensor<5xi64>) outs(%f : tensor<5xf32>) {
  ^bb0(%j: i64, %o: f32):
    %c = arith.index_cast %j : i64 to index
    %p = tensor.extract %d[%c] : tensor<8xf32>
    linalg.yield %p : f32
  } -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

#n = affine_map<(n) -> (n)>

// The tensor is a result, too.
// CHECK-LABEL: func.func @result
// CHECK: %[[D:.+]] = linalg.generic
// CHECK: math.exp
// CHECK: tensor.extract %[[D]]
func.func @result(%x: tensor<8xf32>, %t: tensor<2xi64>) -> (tensor<2xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %d = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.exp %a : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %f = tensor.empty() : tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%t : tensor<2xi64>) outs(%f : tensor<2xf32>) {
  ^bb0(%j: i64, %o: f32):
    %c = arith.index_cast %j : i64 to index
    %p = tensor.extract %d[%c] : tensor<8xf32>
    linalg.yield %p : f32
  } -> tensor<2xf32>
  return %y, %d : tensor<2xf32>, tensor<8xf32>
}

// -----

#n = affine_map<(n) -> (n)>

// Constant data is computed once, at load time.
// CHECK-LABEL: func.func @constant
// CHECK: math.exp
// CHECK: tensor.extract
func.func @constant(%t: tensor<2xi64>) -> tensor<2xf32> {
  %x = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %d = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.exp %a : f32
    linalg.yield %p : f32
  } -> tensor<8xf32>
  %f = tensor.empty() : tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%t : tensor<2xi64>) outs(%f : tensor<2xf32>) {
  ^bb0(%j: i64, %o: f32):
    %c = arith.index_cast %j : i64 to index
    %p = tensor.extract %d[%c] : tensor<8xf32>
    linalg.yield %p : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

#m = affine_map<(n, c) -> (n, c)>
#n = affine_map<(n) -> (n)>

// The matmul would write f32 instead of f16.
// CHECK-LABEL: func.func @larger
// CHECK: linalg.matmul
// CHECK: %[[D:.+]] = linalg.generic
// CHECK: tensor.extract %[[D]]
func.func @larger(%a: tensor<8x16xf16>, %b: tensor<16x32xf16>, %t: tensor<8xi64>) -> tensor<8xf16> {
  %z = arith.constant 0.0 : f32
  %g = tensor.empty() : tensor<8x32xf32>
  %i = linalg.fill ins(%z : f32) outs(%g : tensor<8x32xf32>) -> tensor<8x32xf32>
  %x = linalg.matmul ins(%a, %b : tensor<8x16xf16>, tensor<16x32xf16>) outs(%i : tensor<8x32xf32>) -> tensor<8x32xf32>
  %e = tensor.empty() : tensor<8x32xf16>
  %d = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8x32xf32>) outs(%e : tensor<8x32xf16>) {
  ^bb0(%p: f32, %o: f16):
    %q = arith.truncf %p : f32 to f16
    linalg.yield %q : f16
  } -> tensor<8x32xf16>
  %f = tensor.empty() : tensor<8xf16>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%t : tensor<8xi64>) outs(%f : tensor<8xf16>) {
  ^bb0(%j: i64, %o: f16):
    %c = arith.index_cast %j : i64 to index
    %k = linalg.index 0 : index
    %p = tensor.extract %d[%k, %c] : tensor<8x32xf16>
    linalg.yield %p : f16
  } -> tensor<8xf16>
  return %y : tensor<8xf16>
}
