// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=shared_mask_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=shared_mask_rewrite --disable-pass=shared_mask_rewrite | FileCheck %s --check-prefix=OFF

#n = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// From: torch.nn.functional.cross_entropy, whose losses and their number read the mask.
// CHECK-LABEL: func.func @ignored_targets
// CHECK-SAME: %[[T:.+]]: tensor<94xi64>, %[[L:.+]]: tensor<94xf32>
// CHECK: %[[M:.+]] = linalg.generic {{.*}} ins(%[[T]] : tensor<94xi64>)
// CHECK: linalg.generic {{.*}} ins(%[[M]], %[[L]]
// CHECK: %[[M2:.+]] = linalg.generic {{.*}} ins(%[[T]] : tensor<94xi64>)
// CHECK: arith.cmpi ne
// CHECK: linalg.generic {{.*}} ins(%[[M2]]
// OFF-LABEL: func.func @ignored_targets
// OFF-COUNT-1: arith.cmpi
// OFF-NOT: arith.cmpi
// OFF: return
func.func @ignored_targets(%t: tensor<94xi64>, %l: tensor<94xf32>) -> (tensor<94xf32>, tensor<i64>) {
  %ignored = arith.constant -100 : i64
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i64
  %e = tensor.empty() : tensor<94xi1>
  %m = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%t : tensor<94xi64>) outs(%e : tensor<94xi1>) {
  ^bb0(%x: i64, %o: i1):
    %c = arith.cmpi ne, %x, %ignored : i64
    linalg.yield %c : i1
  } -> tensor<94xi1>
  %ef = tensor.empty() : tensor<94xf32>
  %a = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]} ins(%m, %l : tensor<94xi1>, tensor<94xf32>) outs(%ef : tensor<94xf32>) {
  ^bb0(%x: i1, %y: f32, %o: f32):
    %s = arith.select %x, %y, %zero : f32
    linalg.yield %s : f32
  } -> tensor<94xf32>
  %es = tensor.empty() : tensor<i64>
  %f = linalg.fill ins(%none : i64) outs(%es : tensor<i64>) -> tensor<i64>
  %b = linalg.generic {indexing_maps = [#n, #none], iterator_types = ["reduction"]} ins(%m : tensor<94xi1>) outs(%f : tensor<i64>) {
  ^bb0(%x: i1, %o: i64):
    %w = arith.extui %x : i1 to i64
    %s = arith.addi %w, %o : i64
    linalg.yield %s : i64
  } -> tensor<i64>
  return %a, %b : tensor<94xf32>, tensor<i64>
}

// -----

#mn = affine_map<(d0, d1) -> (d0, d1)>

// A large mask of a tensor that its users do not read: it would be read twice, with eight bytes for each one.
// CHECK-LABEL: func.func @large
// CHECK-COUNT-1: arith.cmpi
// CHECK-NOT: arith.cmpi
// CHECK: return
func.func @large(%t: tensor<1024x1024xi64>, %l: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  %ignored = arith.constant -100 : i64
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<1024x1024xi1>
  %m = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<1024x1024xi64>) outs(%e : tensor<1024x1024xi1>) {
  ^bb0(%x: i64, %o: i1):
    %c = arith.cmpi ne, %x, %ignored : i64
    linalg.yield %c : i1
  } -> tensor<1024x1024xi1>
  %ef = tensor.empty() : tensor<1024x1024xf32>
  %a = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%m, %l : tensor<1024x1024xi1>, tensor<1024x1024xf32>) outs(%ef : tensor<1024x1024xf32>) {
  ^bb0(%x: i1, %y: f32, %o: f32):
    %s = arith.select %x, %y, %zero : f32
    linalg.yield %s : f32
  } -> tensor<1024x1024xf32>
  %b = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%m, %l : tensor<1024x1024xi1>, tensor<1024x1024xf32>) outs(%ef : tensor<1024x1024xf32>) {
  ^bb0(%x: i1, %y: f32, %o: f32):
    %s = arith.select %x, %y, %one : f32
    linalg.yield %s : f32
  } -> tensor<1024x1024xf32>
  return %a, %b : tensor<1024x1024xf32>, tensor<1024x1024xf32>
}
