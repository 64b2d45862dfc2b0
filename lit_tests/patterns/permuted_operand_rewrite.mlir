// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=permuted_operand_rewrite | FileCheck %s %}
// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=permuted_operand_rewrite --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=permuted_operand_rewrite --disable-pass=permuted_operand_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --pipeline=permuted_operand_rewrite --disable-feature=kernels | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --pipeline=permuted_operand_rewrite | FileCheck %s --check-prefix=OFF
// OFF-NOT: flow.dispatch.region

// Elements of %p that adjacent lanes need are 148 apart. The product is read behind a cast.
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[TURNED:.*]] = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
// CHECK-LABEL: @permuted
// CHECK-SAME: %[[X:.*]]: tensor<4x37x32768xf16>, %[[P:.*]]: tensor<32768x4x37xf16>
// CHECK: %[[T:.*]] = flow.dispatch.region -> (tensor<4x37x32768xf16>) attributes {{.*}}mlirfuse.pass = "permuted_operand_rewrite"
// CHECK: linalg.generic {indexing_maps = [#[[TURNED]], #[[ALL]]]{{.*}} ins(%[[P]] :
// CHECK: linalg.generic {indexing_maps = [#[[ALL]], #[[ALL]], #[[ALL]]]{{.*}} ins(%[[X]], %[[T]] :
// WHY: function @permuted
// WHY: permuted_operand_rewrite match 0: 1 op
#all = affine_map<(a, b, c) -> (a, b, c)>
#turned = affine_map<(a, b, c) -> (c, a, b)>
#kept = affine_map<(a, b, c) -> (b, c)>
func.func @permuted(%x: tensor<4x37x32768xf16>, %p: tensor<32768x4x37xf16>) -> tensor<37x32768xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x37x32768xf16>
  %m = linalg.generic {indexing_maps = [#all, #turned, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %p : tensor<4x37x32768xf16>, tensor<32768x4x37xf16>) outs(%e : tensor<4x37x32768xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %r = arith.mulf %a, %b : f16
    linalg.yield %r : f16
  } -> tensor<4x37x32768xf16>
  %ew = tensor.empty() : tensor<4x37x32768xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m : tensor<4x37x32768xf16>) outs(%ew : tensor<4x37x32768xf32>) {
  ^bb0(%a: f16, %o: f32):
    %r = arith.extf %a : f16 to f32
    linalg.yield %r : f32
  } -> tensor<4x37x32768xf32>
  %es = tensor.empty() : tensor<37x32768xf32>
  %init = linalg.fill ins(%zero : f32) outs(%es : tensor<37x32768xf32>) -> tensor<37x32768xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel", "parallel"]} ins(%w : tensor<4x37x32768xf32>) outs(%init : tensor<37x32768xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<37x32768xf32>
  return %s : tensor<37x32768xf32>
}

// -----

// No reduction reads it: a kernel for elementwise ops has tiles for both orders.
// CHECK-LABEL: @no_fusion_elementwise
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(a, b) -> (a, b)>
#turned = affine_map<(a, b) -> (b, a)>
func.func @no_fusion_elementwise(%x: tensor<4096x4096xf16>, %p: tensor<4096x4096xf16>) -> tensor<4096x4096xf16> {
  %e = tensor.empty() : tensor<4096x4096xf16>
  %m = linalg.generic {indexing_maps = [#all, #turned, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %p : tensor<4096x4096xf16>, tensor<4096x4096xf16>) outs(%e : tensor<4096x4096xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %r = arith.mulf %a, %b : f16
    linalg.yield %r : f16
  } -> tensor<4096x4096xf16>
  return %m : tensor<4096x4096xf16>
}

// -----

// A thread reads adjacent elements one after the other: they are along the reduced loop.
// CHECK-LABEL: @no_fusion_adjacent
// CHECK-NOT: flow.dispatch.region
#all = affine_map<(a, b) -> (a, b)>
#turned = affine_map<(a, b) -> (b, a)>
#kept = affine_map<(a, b) -> (b)>
func.func @no_fusion_adjacent(%x: tensor<64x65536xf32>, %p: tensor<65536x64xf32>) -> tensor<65536xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x65536xf32>
  %m = linalg.generic {indexing_maps = [#all, #turned, #all], iterator_types = ["parallel", "parallel"]} ins(%x, %p : tensor<64x65536xf32>, tensor<65536x64xf32>) outs(%e : tensor<64x65536xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<64x65536xf32>
  %es = tensor.empty() : tensor<65536xf32>
  %init = linalg.fill ins(%zero : f32) outs(%es : tensor<65536xf32>) -> tensor<65536xf32>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel"]} ins(%m : tensor<64x65536xf32>) outs(%init : tensor<65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<65536xf32>
  return %s : tensor<65536xf32>
}

// -----

// A transpose of 74 thousand elements takes less time than one more dispatch.
// CHECK-LABEL: @no_fusion_small
// CHECK-NOT: flow.dispatch.region
// WHY: function @no_fusion_small
// WHY: not_profitable
#all = affine_map<(a, b, c) -> (a, b, c)>
#turned = affine_map<(a, b, c) -> (c, a, b)>
#kept = affine_map<(a, b, c) -> (b, c)>
func.func @no_fusion_small(%x: tensor<4x37x500xf16>, %p: tensor<500x4x37xf16>) -> tensor<37x500xf16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<4x37x500xf16>
  %m = linalg.generic {indexing_maps = [#all, #turned, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %p : tensor<4x37x500xf16>, tensor<500x4x37xf16>) outs(%e : tensor<4x37x500xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %r = arith.mulf %a, %b : f16
    linalg.yield %r : f16
  } -> tensor<4x37x500xf16>
  %es = tensor.empty() : tensor<37x500xf16>
  %init = linalg.fill ins(%zero : f16) outs(%es : tensor<37x500xf16>) -> tensor<37x500xf16>
  %s = linalg.generic {indexing_maps = [#all, #kept], iterator_types = ["reduction", "parallel", "parallel"]} ins(%m : tensor<4x37x500xf16>) outs(%init : tensor<37x500xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = arith.maximumf %a, %o : f16
    linalg.yield %r : f16
  } -> tensor<37x500xf16>
  return %s : tensor<37x500xf16>
}
