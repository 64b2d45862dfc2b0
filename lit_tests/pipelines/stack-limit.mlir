// The engine keeps the add out of the norm's group where the CPU's stack would not hold the rows; the
// norm alone still fits, and a GPU has no such limit.
// RUN: %mlirfuse-opt %s --pipeline=add_rms_norm_fusion,rms_norm_fusion --explain 2>%t.txt | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file %t.txt
// RUN: %mlirfuse-opt %s --pipeline=add_rms_norm_fusion,rms_norm_fusion --target=cuda:sm_80 | FileCheck %s --check-prefix=GPU

// CHECK-LABEL: @add_then_norm_of_wide_rows
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}"rms_norm_fusion"
// CHECK-NOT: ins(%arg0, %arg1
// CHECK: return %[[R]], %[[H]]
// WHY: 393216 bytes of stack, the limit is 32768
// GPU-LABEL: @add_then_norm_of_wide_rows
// GPU: %[[R:.*]]:2 = flow.dispatch.region {{.*}}"add_rms_norm_fusion"
// GPU: linalg.generic {{.*}} ins(%arg0, %arg1
// GPU: return %[[R]]#1, %[[R]]#0
#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#n = affine_map<(m, n) -> (n)>
#i = affine_map<(i) -> (i)>
func.func @add_then_norm_of_wide_rows(%x: tensor<8x2048xf32>, %r: tensor<8x2048xf32>, %gamma: tensor<2048xf32>) -> (tensor<8x2048xf32>, tensor<8x2048xf32>) {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 2048.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<8x2048xf32>
  %er = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %h = linalg.generic {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%x, %r : tensor<8x2048xf32>, tensor<8x2048xf32>) outs(%e : tensor<8x2048xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<8x2048xf32>
  %q = linalg.generic {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]} ins(%h : tensor<8x2048xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %p = arith.mulf %i, %i : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %rstd = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]} ins(%q : tensor<8xf32>) outs(%er : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %d = arith.divf %i, %count : f32
    %a = arith.addf %d, %eps : f32
    %s = math.rsqrt %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#mn, #m, #n, #mn], iterator_types = ["parallel", "parallel"]} ins(%h, %rstd, %gamma : tensor<8x2048xf32>, tensor<8xf32>, tensor<2048xf32>) outs(%e : tensor<8x2048xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %a = arith.mulf %i, %j : f32
    %s = arith.mulf %a, %k : f32
    linalg.yield %s : f32
  } -> tensor<8x2048xf32>
  return %y, %h : tensor<8x2048xf32>, tensor<8x2048xf32>
}
