// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:generic --pipeline=long_sum_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=long_sum_rewrite | FileCheck %s --check-prefix=OFF

// OFF-LABEL: @squares
// OFF-NOT: f64
// CHECK-LABEL: @squares
// CHECK: %[[Z:.+]] = linalg.fill {{.*}} -> tensor<?xf64>
// CHECK: %[[W:.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]} ins(%{{.+}} : tensor<?x?xf32>) outs(%[[Z]] : tensor<?xf64>)
// CHECK: %[[S:.+]] = arith.mulf
// CHECK: %[[T:.+]] = arith.addf %[[S]], %{{.+}} : f32
// CHECK: %[[E:.+]] = arith.extf %[[T]] : f32 to f64
// CHECK: arith.addf %{{.+}}, %[[E]] : f64
// CHECK: %[[R:.+]] = linalg.generic {{.*}} ins(%[[W]] : tensor<?xf64>)
// CHECK: arith.truncf
// CHECK: return %[[R]]
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
func.func @squares(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x?xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %i = linalg.fill ins(%c : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xf32>) outs(%i : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %a : f32
    %r = arith.addf %m, %o : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  return %s : tensor<?xf32>
}

// -----

// Rows of few numbers, a maximum, and a matmul keep their type.
// CHECK-LABEL: @others
// CHECK-NOT: f64
// CHECK: return
#all = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>
func.func @others(%x: tensor<?x64xf32>, %y: tensor<64x?xf32>, %z: tensor<?x64xf32>) -> (tensor<?xf32>, tensor<64xf32>, tensor<64x64xf32>) {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x64xf32>
  %c = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %i = linalg.fill ins(%c : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x64xf32>) outs(%i : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %f = tensor.empty() : tensor<64xf32>
  %j = linalg.fill ins(%c : f32) outs(%f : tensor<64xf32>) -> tensor<64xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<64x?xf32>) outs(%j : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %g = tensor.empty() : tensor<64x64xf32>
  %k = linalg.fill ins(%c : f32) outs(%g : tensor<64x64xf32>) -> tensor<64x64xf32>
  %u = linalg.matmul ins(%y, %z : tensor<64x?xf32>, tensor<?x64xf32>) outs(%k : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %s, %t, %u : tensor<?xf32>, tensor<64xf32>, tensor<64x64xf32>
}

// -----

// In a group, which keeps its results.
// CHECK-LABEL: @grouped
// CHECK: flow.dispatch.region -> (tensor<f32>)
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction"]} ins(%{{.+}} : tensor<16384xf32>) outs(%{{.+}} : tensor<f64>)
// CHECK: arith.truncf
// CHECK: flow.return %{{.+}} : tensor<f32>
func.func @grouped(%x: tensor<16384xf32>) -> tensor<f32> {
  %y = flow.dispatch.region -> (tensor<f32>) {
    %c = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<f32>
    %i = linalg.fill ins(%c : f32) outs(%e : tensor<f32>) -> tensor<f32>
    %s = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<16384xf32>) outs(%i : tensor<f32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.addf %a, %o : f32
      linalg.yield %r : f32
    } -> tensor<f32>
    flow.return %s : tensor<f32>
  }
  return %y : tensor<f32>
}
