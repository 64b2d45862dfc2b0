// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_fusion,softmax_fusion,gather_fusion,axis_reduction_fusion,norm_prologue_fusion --target=cuda:sm_90 | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_fusion,softmax_fusion,gather_fusion,reduction_fusion,norm_prologue_fusion --target=cpu | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_fusion,softmax_fusion,gather_fusion,reduction_fusion,norm_prologue_fusion --target=vulkan | FileCheck %s --check-prefix=ALONE
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rms_norm_fusion,softmax_fusion,gather_fusion,reduction_fusion,norm_prologue_fusion --target=cpu --disable-feature=kernels | FileCheck %s --check-prefix=ALONE

#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>

// A kernel reads rows of the table; where there is none, the gather is a group of its own.
// CHECK-LABEL: func.func @embedding
// CHECK-COUNT-1: flow.dispatch.region
// CHECK: tensor.extract
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// ALONE-LABEL: func.func @embedding
// ALONE: tensor.extract
// ALONE: flow.dispatch.region
func.func @embedding(%table: tensor<50x64xf32>, %i: tensor<7xi64>) -> tensor<7x64xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<7x64xf32>
  %r = tensor.empty() : tensor<7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<7xf32>) -> tensor<7xf32>
  %g = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<7xi64>) outs(%e : tensor<7x64xf32>) {
  ^bb0(%a: i64, %o: f32):
    %n = arith.index_cast %a : i64 to index
    %c = linalg.index 1 : index
    %t = tensor.extract %table[%n, %c] : tensor<50x64xf32>
    linalg.yield %t : f32
  } -> tensor<7x64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%g : tensor<7x64xf32>) outs(%z : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %v = arith.addf %q, %o : f32
    linalg.yield %v : f32
  } -> tensor<7xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%g, %s : tensor<7x64xf32>, tensor<7xf32>) outs(%e : tensor<7x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = math.rsqrt %b : f32
    %v = arith.mulf %a, %d : f32
    linalg.yield %v : f32
  } -> tensor<7x64xf32>
  return %y : tensor<7x64xf32>
}

// -----

#row = affine_map<(d0, d1) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>

// The kernel for a CPU has no columns in another order.
// CPU-LABEL: func.func @turned
// CPU: tensor.extract
// CPU: flow.dispatch.region
func.func @turned(%table: tensor<50x64xf32>, %i: tensor<7xi64>) -> tensor<7x64xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<7x64xf32>
  %r = tensor.empty() : tensor<7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<7xf32>) -> tensor<7xf32>
  %g = linalg.generic {indexing_maps = [#row, #all], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<7xi64>) outs(%e : tensor<7x64xf32>) {
  ^bb0(%a: i64, %o: f32):
    %n = arith.index_cast %a : i64 to index
    %last = arith.constant 63 : index
    %d = linalg.index 1 : index
    %c = arith.subi %last, %d : index
    %t = tensor.extract %table[%n, %c] : tensor<50x64xf32>
    linalg.yield %t : f32
  } -> tensor<7x64xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]} ins(%g : tensor<7x64xf32>) outs(%z : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %v = arith.addf %q, %o : f32
    linalg.yield %v : f32
  } -> tensor<7xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]} ins(%g, %s : tensor<7x64xf32>, tensor<7xf32>) outs(%e : tensor<7x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = math.rsqrt %b : f32
    %v = arith.mulf %a, %d : f32
    linalg.yield %v : f32
  } -> tensor<7x64xf32>
  return %y : tensor<7x64xf32>
}
