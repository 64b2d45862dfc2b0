// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=contraction_row_fusion | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=contraction_row_fusion | FileCheck %s --check-prefix=OFF

// A softmax of the rows of a product with a bias.
// CHECK-LABEL: @softmax
// CHECK: flow.dispatch.region
// CHECK: linalg.matmul
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK: flow.return
// OFF-LABEL: @softmax
// OFF-NOT: flow.dispatch.region
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @softmax(%a: tensor<4096x512xf16>, %b: tensor<512x64xf16>, %v: tensor<64xf32>) -> tensor<4096x64xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<4096x64xf32>
  %r = tensor.empty() : tensor<4096xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%r : tensor<4096xf32>) -> tensor<4096xf32>
  %lr = linalg.fill ins(%low : f32) outs(%r : tensor<4096xf32>) -> tensor<4096xf32>
  %c = linalg.matmul ins(%a, %b : tensor<4096x512xf16>, tensor<512x64xf16>) outs(%z : tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %x = linalg.generic {indexing_maps = [#all, #column, #all], iterator_types = ["parallel", "parallel"]} ins(%c, %v : tensor<4096x64xf32>, tensor<64xf32>) outs(%e : tensor<4096x64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.addf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<4096x64xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x64xf32>) outs(%lr : tensor<4096xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.maximumf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<4096xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<4096x64xf32>, tensor<4096xf32>) outs(%e : tensor<4096x64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.subf %i, %j : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<4096x64xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<4096x64xf32>) outs(%zr : tensor<4096xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<4096xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%p, %t : tensor<4096x64xf32>, tensor<4096xf32>) outs(%e : tensor<4096x64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.divf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<4096x64xf32>
  return %y : tensor<4096x64xf32>
}

// -----

// Rows of 512 columns are in several tiles.
// CHECK-LABEL: @long_rows
// CHECK-NOT: flow.dispatch.region
// OFF-LABEL: @long_rows
#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @long_rows(%a: tensor<4096x512xf16>, %b: tensor<512x512xf16>) -> tensor<4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096x512xf32>
  %r = tensor.empty() : tensor<4096xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%r : tensor<4096xf32>) -> tensor<4096xf32>
  %c = linalg.matmul ins(%a, %b : tensor<4096x512xf16>, tensor<512x512xf16>) outs(%z : tensor<4096x512xf32>) -> tensor<4096x512xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<4096x512xf32>) outs(%zr : tensor<4096xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<4096xf32>
  return %t : tensor<4096xf32>
}

// -----

// The ops that compute another operand of the epilogue are part of the group.
// CHECK-LABEL: @computed_operand
// CHECK: flow.dispatch.region
// CHECK: linalg.matmul
// CHECK: math.absf
// CHECK: arith.divf
// CHECK: arith.addf
// CHECK: flow.return
#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @computed_operand(%a: tensor<4096x512xf16>, %b: tensor<512x64xf16>, %v: tensor<4096x64xf32>) -> tensor<4096xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096x64xf32>
  %r = tensor.empty() : tensor<4096xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%r : tensor<4096xf32>) -> tensor<4096xf32>
  %c = linalg.matmul ins(%a, %b : tensor<4096x512xf16>, tensor<512x64xf16>) outs(%z : tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %p = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%v : tensor<4096x64xf32>) outs(%e : tensor<4096x64xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.absf %i : f32
    linalg.yield %s : f32
  } -> tensor<4096x64xf32>
  %x = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]} ins(%c, %p : tensor<4096x64xf32>, tensor<4096x64xf32>) outs(%e : tensor<4096x64xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.divf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<4096x64xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4096x64xf32>) outs(%zr : tensor<4096xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = arith.addf %i, %o : f32
    linalg.yield %s : f32
  } -> tensor<4096xf32>
  return %t : tensor<4096xf32>
}
