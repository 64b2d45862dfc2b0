// RUN: %mlirfuse-opt %s --split-input-file --pipeline=softmax_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=softmax_fusion --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --pipeline='softmax_fusion{fuse_prologue=true}' | FileCheck %s --check-prefix=PROLOGUE
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=softmax_fusion --target=cuda | FileCheck %s --check-prefix=CUDA
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=softmax_fusion --target=cuda --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=CUDA-WHY
// CUDA-NOT: lowering_config

// The positive cases that name a framework are the IR that `mlirfuse-compile MODEL --dump-ir-dir=DIR`
// writes before this pass, cut down to the softmax.

// PyTorch and ONNX softmax, JAX's in f32, after global optimization. Elsewhere it is one dispatch
// already.
// CHECK-DAG: #[[TILES:.*]] = #iree_cpu.lowering_config<distribution = [64, 0, 0], vector_common_parallel = [8, 0, 0], vector_inner_parallel = [0, 1, 16]>
// CHECK-DAG: #[[ROOT:.*]] = #iree_codegen.compilation_info<lowering_config = #[[TILES]], translation_info
// CHECK-DAG: #[[LANES:.*]] = #iree_cpu.lowering_config<vector_common_parallel = [8, 16, 0], vector_reduction = [0, 0, 1]>
// CHECK-LABEL: @torch_softmax
// CHECK-SAME: %[[X:.*]]: tensor<2x3x16x64xf32>
// CHECK: %[[X2:.*]] = tensor.collapse_shape %[[X]] {{\[}}[0, 1, 2], [3]]
// CHECK: %[[X3:.*]] = tensor.expand_shape %[[X2]] {{.*}} into tensor<96x4x16xf32>
// CHECK: %[[G:.*]] = flow.dispatch.region -> (tensor<96x4x16xf32>)
// CHECK: %[[ML:.*]] = linalg.generic {{.*}} ins(%[[X3]] {{.*}} attrs = {{ *}}{lowering_config = #[[LANES]]}
// CHECK: arith.maximumf
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[ML]]
// CHECK: %[[P:.*]]:2 = linalg.generic {{.*}} ins(%[[X3]], %[[M]]
// CHECK: math.exp
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]]#0
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[P]]#1, %[[S]] {{.*}} attrs = {{ *}}{compilation_info = #[[ROOT]]}
// CHECK: flow.return %[[Y]]
// CUDA-LABEL: @torch_softmax
// CUDA-NOT: flow.dispatch.region
// CUDA-WHY-DAG: the group would hold one op
func.func @torch_softmax(%x: tensor<2x3x16x64xf32>) -> (tensor<2x3x16x64xf32>) {
  %0 = tensor.empty() : tensor<2x3x16x64xf32>
  %1 = linalg.softmax dimension(3) ins(%x : tensor<2x3x16x64xf32>) outs(%0 : tensor<2x3x16x64xf32>) -> tensor<2x3x16x64xf32>
  return %1 : tensor<2x3x16x64xf32>
}

// -----

// torch.nn.functional.scaled_dot_product_attention with a mask: the mask is left to the contraction,
// the zeros of rows that are -inf throughout are recognized by the maximum.
// CHECK-LABEL: @torch_sdpa
// CHECK: linalg.batch_matmul
// CHECK: %[[A:.*]] = linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK-NOT: arith.ori
// CHECK: arith.maximumf
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<96x16xf32>) outs(%{{.*}} : tensor<96xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[M]],
// CHECK-NEXT: ^bb0(%[[MAX:.*]]: f32, %[[P:.*]]: f32, %[[S:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[CLOSED:.*]] = arith.cmpf oeq, %[[MAX]], %{{.*}} : f32
// CHECK: %[[Q:.*]] = arith.divf %[[P]], %[[S]] : f32
// CHECK: arith.select %[[CLOSED]], %{{.*}}, %[[Q]] : f32
// PROLOGUE-LABEL: @torch_sdpa
// PROLOGUE: %[[C:.*]] = linalg.batch_matmul
// PROLOGUE-NOT: arith.addf
// PROLOGUE: flow.dispatch.region
// PROLOGUE: arith.addf
// CUDA-LABEL: @torch_sdpa
// CUDA: flow.dispatch.region -> (tensor<96x48xf32>)
// CUDA-NOT: arith.ori
// CUDA: return
func.func @torch_sdpa(%q: tensor<2x3x16x32xf32>, %k: tensor<2x3x32x48xf32>, %mask: tensor<2x16x48xf32>) -> (tensor<2x3x16x48xf32>) {
  %qc = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x3x16x32xf32> into tensor<6x16x32xf32>
  %kc = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<2x3x32x48xf32> into tensor<6x32x48xf32>
  %zero = arith.constant 0.0 : f32
  %ec = tensor.empty() : tensor<6x16x48xf32>
  %fc = linalg.fill ins(%zero : f32) outs(%ec : tensor<6x16x48xf32>) -> tensor<6x16x48xf32>
  %c = linalg.batch_matmul ins(%qc, %kc : tensor<6x16x32xf32>, tensor<6x32x48xf32>) outs(%fc : tensor<6x16x48xf32>) -> tensor<6x16x48xf32>
  %s = tensor.expand_shape %c [[0, 1], [2], [3]] output_shape [2, 3, 16, 48] : tensor<6x16x48xf32> into tensor<2x3x16x48xf32>
  %0 = tensor.empty() : tensor<2x3x16x48xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s, %mask : tensor<2x3x16x48xf32>, tensor<2x16x48xf32>) outs(%0 : tensor<2x3x16x48xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x48xf32>
  %2 = tensor.empty() : tensor<2x3x16x48xf32>
  %3 = linalg.softmax dimension(3) ins(%1 : tensor<2x3x16x48xf32>) outs(%2 : tensor<2x3x16x48xf32>) -> tensor<2x3x16x48xf32>
  %4 = arith.constant 0xFF800000 : f32
  %5 = arith.constant false
  %6 = tensor.empty() : tensor<2x3x16x48xi1>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1 : tensor<2x3x16x48xf32>) outs(%6 : tensor<2x3x16x48xi1>) {
  ^bb0(%a0: f32, %o: i1):
    %r = arith.cmpf oeq, %a0, %4 : f32
    linalg.yield %r : i1
  } -> tensor<2x3x16x48xi1>
  %8 = tensor.empty() : tensor<2x3x16x48xi1>
  %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%7 : tensor<2x3x16x48xi1>) outs(%8 : tensor<2x3x16x48xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %5 : i1
    linalg.yield %r : i1
  } -> tensor<2x3x16x48xi1>
  %10 = tensor.empty() : tensor<2x3x16xi1>
  %11 = linalg.fill ins(%5 : i1) outs(%10 : tensor<2x3x16xi1>) -> tensor<2x3x16xi1>
  %12 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%9 : tensor<2x3x16x48xi1>) outs(%11 : tensor<2x3x16xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.ori %a0, %o : i1
    linalg.yield %r : i1
  } -> tensor<2x3x16xi1>
  %13 = tensor.empty() : tensor<2x3x16xi1>
  %14 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%12 : tensor<2x3x16xi1>) outs(%13 : tensor<2x3x16xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %5 : i1
    linalg.yield %r : i1
  } -> tensor<2x3x16xi1>
  %15 = arith.constant 0.0 : f32
  %16 = tensor.empty() : tensor<2x3x16x48xf32>
  %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%14, %3 : tensor<2x3x16xi1>, tensor<2x3x16x48xf32>) outs(%16 : tensor<2x3x16x48xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %15, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x48xf32>
  return %17 : tensor<2x3x16x48xf32>
}

// -----

// ONNX Softmax-13 with two dynamic dimensions.
// CHECK-LABEL: @onnx_dynamic
// CHECK-SAME: %[[X:.*]]: tensor<?x3x?x64xf32>, %[[B:.*]]: index, %[[C:.*]]: index
// CHECK: %[[BC:.*]] = arith.muli %[[B]], %[[C]] : index
// CHECK: %[[R:.*]] = arith.muli %[[BC]], %{{.*}} : index
// CHECK: %[[G:.*]] = flow.dispatch.region -> (tensor<?x4x16xf32>{%[[R]]})
// CHECK: tensor.expand_shape {{.*}} output_shape [%[[B]], 3, %[[C]], 64]
func.func @onnx_dynamic(%x: tensor<?x3x?x64xf32>, %b: index, %c: index) -> (tensor<?x3x?x64xf32>) {
  %0 = tensor.empty(%b, %c) : tensor<?x3x?x64xf32>
  %1 = linalg.softmax dimension(3) ins(%x : tensor<?x3x?x64xf32>) outs(%0 : tensor<?x3x?x64xf32>) -> tensor<?x3x?x64xf32>
  return %1 : tensor<?x3x?x64xf32>
}

// -----

// jax.nn.softmax of bf16: the sum alone is f32. Every rounding is kept.
// CHECK-LABEL: @jax_bf16
// CHECK: flow.dispatch.region -> (tensor<96x4x16xbf16>)
// CHECK: arith.maximumf {{.*}} : bf16
// CHECK: %[[E:.*]] = math.exp {{.*}} : bf16
// CHECK: %[[W:.*]] = arith.extf %[[E]] : bf16 to f32
// CHECK: %[[A:.*]] = arith.addf %[[W]], %{{.*}} : f32
// CHECK: linalg.yield %[[A]], %[[E]] : f32, bf16
// CHECK: %[[T:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.divf %{{.*}}, %[[T]] : bf16
// CUDA-LABEL: @jax_bf16
// CUDA: flow.dispatch.region -> (tensor<96x64xbf16>)
func.func @jax_bf16(%x: tensor<96x64xbf16>) -> (tensor<96x64xbf16>) {
  %0 = arith.constant 0xFF80 : bf16
  %1 = tensor.empty() : tensor<96xbf16>
  %2 = linalg.fill ins(%0 : bf16) outs(%1 : tensor<96xbf16>) -> tensor<96xbf16>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xbf16>) outs(%2 : tensor<96xbf16>) {
  ^bb0(%a0: bf16, %o: bf16):
    %r = arith.maximumf %a0, %o : bf16
    linalg.yield %r : bf16
  } -> tensor<96xbf16>
  %4 = tensor.empty() : tensor<96x64xbf16>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<96xbf16>) outs(%4 : tensor<96x64xbf16>) {
  ^bb0(%a0: bf16, %o: bf16):
    linalg.yield %a0 : bf16
  } -> tensor<96x64xbf16>
  %6 = tensor.empty() : tensor<96x64xbf16>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %5 : tensor<96x64xbf16>, tensor<96x64xbf16>) outs(%6 : tensor<96x64xbf16>) {
  ^bb0(%a0: bf16, %a1: bf16, %o: bf16):
    %r = arith.subf %a0, %a1 : bf16
    linalg.yield %r : bf16
  } -> tensor<96x64xbf16>
  %8 = tensor.empty() : tensor<96x64xbf16>
  %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<96x64xbf16>) outs(%8 : tensor<96x64xbf16>) {
  ^bb0(%a0: bf16, %o: bf16):
    %r = math.exp %a0 : bf16
    linalg.yield %r : bf16
  } -> tensor<96x64xbf16>
  %10 = tensor.empty() : tensor<96x64xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%9 : tensor<96x64xbf16>) outs(%10 : tensor<96x64xf32>) {
  ^bb0(%a0: bf16, %o: f32):
    %r = arith.extf %a0 : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %12 = arith.constant 0.0 : f32
  %13 = tensor.empty() : tensor<96xf32>
  %14 = linalg.fill ins(%12 : f32) outs(%13 : tensor<96xf32>) -> tensor<96xf32>
  %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%11 : tensor<96x64xf32>) outs(%14 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %16 = tensor.empty() : tensor<96xbf16>
  %17 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%15 : tensor<96xf32>) outs(%16 : tensor<96xbf16>) {
  ^bb0(%a0: f32, %o: bf16):
    %r = arith.truncf %a0 : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<96xbf16>
  %18 = tensor.empty() : tensor<96x64xbf16>
  %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<96xbf16>) outs(%18 : tensor<96x64xbf16>) {
  ^bb0(%a0: bf16, %o: bf16):
    linalg.yield %a0 : bf16
  } -> tensor<96x64xbf16>
  %20 = tensor.empty() : tensor<96x64xbf16>
  %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%9, %19 : tensor<96x64xbf16>, tensor<96x64xbf16>) outs(%20 : tensor<96x64xbf16>) {
  ^bb0(%a0: bf16, %a1: bf16, %o: bf16):
    %r = arith.divf %a0, %a1 : bf16
    linalg.yield %r : bf16
  } -> tensor<96x64xbf16>
  return %21 : tensor<96x64xbf16>
}

// -----

// jax.nn.softmax with where=: the mask, shared by the heads, is on the scores, the sum and the
// result.
// CHECK-LABEL: @jax_where
// CHECK-SAME: %[[K:.*]]: tensor<2x16x64xi1>, %[[X:.*]]: tensor<2x3x16x64xf32>
// CHECK-NOT: linalg.generic
// CHECK: flow.dispatch.region -> (tensor<2x3x16x4x16xf32>)
// CHECK: math.exp
// CHECK: arith.select
// CHECK: arith.addf
// CHECK: arith.divf
// CHECK: arith.select
// CHECK: flow.return
func.func @jax_where(%keep: tensor<2x16x64xi1>, %x: tensor<2x3x16x64xf32>) -> (tensor<2x3x16x64xf32>) {
  %0 = tensor.empty() : tensor<2x3x16x64xi1>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%keep : tensor<2x16x64xi1>) outs(%0 : tensor<2x3x16x64xi1>) {
  ^bb0(%a0: i1, %o: i1):
    linalg.yield %a0 : i1
  } -> tensor<2x3x16x64xi1>
  %2 = arith.constant 0xFF800000 : f32
  %3 = arith.constant 0.0 : f32
  %4 = tensor.empty() : tensor<2x3x16x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1, %x : tensor<2x3x16x64xi1>, tensor<2x3x16x64xf32>) outs(%4 : tensor<2x3x16x64xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %a1, %2 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x64xf32>
  %6 = arith.constant 0xFF800000 : f32
  %7 = tensor.empty() : tensor<2x3x16xf32>
  %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
  %9 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%5 : tensor<2x3x16x64xf32>) outs(%8 : tensor<2x3x16xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16xf32>
  %10 = tensor.empty() : tensor<2x3x16x64xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%5, %9 : tensor<2x3x16x64xf32>, tensor<2x3x16xf32>) outs(%10 : tensor<2x3x16x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x64xf32>
  %12 = tensor.empty() : tensor<2x3x16x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%11 : tensor<2x3x16x64xf32>) outs(%12 : tensor<2x3x16x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x64xf32>
  %14 = tensor.empty() : tensor<2x3x16x64xf32>
  %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1, %13 : tensor<2x3x16x64xi1>, tensor<2x3x16x64xf32>) outs(%14 : tensor<2x3x16x64xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %a1, %3 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x64xf32>
  %16 = arith.constant 0.0 : f32
  %17 = tensor.empty() : tensor<2x3x16xf32>
  %18 = linalg.fill ins(%16 : f32) outs(%17 : tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
  %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%15 : tensor<2x3x16x64xf32>) outs(%18 : tensor<2x3x16xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16xf32>
  %20 = tensor.empty() : tensor<2x3x16x64xf32>
  %21 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%13, %19 : tensor<2x3x16x64xf32>, tensor<2x3x16xf32>) outs(%20 : tensor<2x3x16x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x64xf32>
  %22 = tensor.empty() : tensor<2x3x16x64xf32>
  %23 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%1, %21 : tensor<2x3x16x64xi1>, tensor<2x3x16x64xf32>) outs(%22 : tensor<2x3x16x64xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %a1, %3 : f32
    linalg.yield %r : f32
  } -> tensor<2x3x16x64xf32>
  return %23 : tensor<2x3x16x64xf32>
}

// -----

// PyTorch's softmax of f16: casts around the op.
// CHECK-LABEL: @torch_half
// CHECK-SAME: %[[X:.*]]: tensor<96x64xf16>
// CHECK: %[[X3:.*]] = tensor.expand_shape %[[X]]
// CHECK: flow.dispatch.region -> (tensor<96x4x16xf16>)
// CHECK: linalg.generic {{.*}} ins(%[[X3]]
// CHECK: arith.extf
// CHECK: arith.truncf
// CHECK: flow.return
func.func @torch_half(%x: tensor<96x64xf16>) -> (tensor<96x64xf16>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<96x64xf16>) outs(%0 : tensor<96x64xf32>) {
  ^bb0(%a0: f16, %o: f32):
    %r = arith.extf %a0 : f16 to f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %2 = tensor.empty() : tensor<96x64xf32>
  %3 = linalg.softmax dimension(1) ins(%1 : tensor<96x64xf32>) outs(%2 : tensor<96x64xf32>) -> tensor<96x64xf32>
  %4 = tensor.empty() : tensor<96x64xf16>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<96x64xf32>) outs(%4 : tensor<96x64xf16>) {
  ^bb0(%a0: f32, %o: f16):
    %r = arith.truncf %a0 : f32 to f16
    linalg.yield %r : f16
  } -> tensor<96x64xf16>
  return %5 : tensor<96x64xf16>
}

// -----

// The row is no multiple of the lanes: one loop of 32 columns at a time.
// CHECK-LABEL: @log_softmax
// CHECK: flow.dispatch.region -> (tensor<96x100xf32>)
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: %[[L:.*]] = math.log
// CHECK: arith.subf %{{.*}}, %[[L]]
// CHECK: flow.return
func.func @log_softmax(%x: tensor<96x100xf32>) -> (tensor<96x100xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x100xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x100xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x100xf32>, tensor<96xf32>) outs(%4 : tensor<96x100xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x100xf32>
  %6 = tensor.empty() : tensor<96x100xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x100xf32>) outs(%6 : tensor<96x100xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x100xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x100xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%11 : tensor<96xf32>) outs(%12 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.log %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %14 = tensor.empty() : tensor<96x100xf32>
  %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5, %13 : tensor<96x100xf32>, tensor<96xf32>) outs(%14 : tensor<96x100xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x100xf32>
  return %15 : tensor<96x100xf32>
}

// -----

// Four thousand exponentials a row do not fit in the stack: they are computed again.
// CHECK-LABEL: @times_reciprocal_long_row
// CHECK: flow.dispatch.region -> (tensor<96x4096xf32>)
// CHECK: math.exp
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: arith.mulf
// CHECK: flow.return
func.func @times_reciprocal_long_row(%x: tensor<96x4096xf32>) -> (tensor<96x4096xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x4096xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maxnumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x4096xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x4096xf32>, tensor<96xf32>) outs(%4 : tensor<96x4096xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x4096xf32>
  %6 = tensor.empty() : tensor<96x4096xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x4096xf32>) outs(%6 : tensor<96x4096xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x4096xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x4096xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = arith.constant 1.0 : f32
  %13 = tensor.empty() : tensor<96xf32>
  %14 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%11 : tensor<96xf32>) outs(%13 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.divf %12, %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %15 = tensor.empty() : tensor<96x4096xf32>
  %16 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %14 : tensor<96x4096xf32>, tensor<96xf32>) outs(%15 : tensor<96x4096xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.mulf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x4096xf32>
  return %16 : tensor<96x4096xf32>
}

// -----

// maxnumf passes over NaNs: it does not say whether a row is -inf throughout.
// CHECK-LABEL: @closed_rows_of_maxnumf
// CHECK: arith.ori
// CHECK: flow.dispatch.region
// CHECK: return
func.func @closed_rows_of_maxnumf(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maxnumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %14 = arith.constant 0xFF800000 : f32
  %15 = arith.constant false
  %16 = tensor.empty() : tensor<96x64xi1>
  %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<96x64xf32>) outs(%16 : tensor<96x64xi1>) {
  ^bb0(%a0: f32, %o: i1):
    %r = arith.cmpf oeq, %a0, %14 : f32
    linalg.yield %r : i1
  } -> tensor<96x64xi1>
  %18 = tensor.empty() : tensor<96x64xi1>
  %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<96x64xi1>) outs(%18 : tensor<96x64xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %15 : i1
    linalg.yield %r : i1
  } -> tensor<96x64xi1>
  %20 = tensor.empty() : tensor<96xi1>
  %21 = linalg.fill ins(%15 : i1) outs(%20 : tensor<96xi1>) -> tensor<96xi1>
  %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%19 : tensor<96x64xi1>) outs(%21 : tensor<96xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.ori %a0, %o : i1
    linalg.yield %r : i1
  } -> tensor<96xi1>
  %23 = tensor.empty() : tensor<96xi1>
  %24 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%22 : tensor<96xi1>) outs(%23 : tensor<96xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %15 : i1
    linalg.yield %r : i1
  } -> tensor<96xi1>
  %25 = arith.constant 0.0 : f32
  %26 = tensor.empty() : tensor<96x64xf32>
  %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%24, %13 : tensor<96xi1>, tensor<96x64xf32>) outs(%26 : tensor<96x64xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %25, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %27 : tensor<96x64xf32>
}

// -----

// A maximum that starts from the lowest finite number is never -inf.
// CHECK-LABEL: @closed_rows_of_lowest
// CHECK: arith.ori
// CHECK: flow.dispatch.region
// CHECK: return
func.func @closed_rows_of_lowest(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF7FFFFF : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %14 = arith.constant 0xFF800000 : f32
  %15 = arith.constant false
  %16 = tensor.empty() : tensor<96x64xi1>
  %17 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<96x64xf32>) outs(%16 : tensor<96x64xi1>) {
  ^bb0(%a0: f32, %o: i1):
    %r = arith.cmpf oeq, %a0, %14 : f32
    linalg.yield %r : i1
  } -> tensor<96x64xi1>
  %18 = tensor.empty() : tensor<96x64xi1>
  %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<96x64xi1>) outs(%18 : tensor<96x64xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %15 : i1
    linalg.yield %r : i1
  } -> tensor<96x64xi1>
  %20 = tensor.empty() : tensor<96xi1>
  %21 = linalg.fill ins(%15 : i1) outs(%20 : tensor<96xi1>) -> tensor<96xi1>
  %22 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%19 : tensor<96x64xi1>) outs(%21 : tensor<96xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.ori %a0, %o : i1
    linalg.yield %r : i1
  } -> tensor<96xi1>
  %23 = tensor.empty() : tensor<96xi1>
  %24 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%22 : tensor<96xi1>) outs(%23 : tensor<96xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %15 : i1
    linalg.yield %r : i1
  } -> tensor<96xi1>
  %25 = arith.constant 0.0 : f32
  %26 = tensor.empty() : tensor<96x64xf32>
  %27 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%24, %13 : tensor<96xi1>, tensor<96x64xf32>) outs(%26 : tensor<96x64xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %25, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %27 : tensor<96x64xf32>
}

// -----

// The rows that get zeros are those of another tensor.
// CHECK-LABEL: @other_rows_closed
// CHECK: arith.ori
// CHECK: flow.dispatch.region
// CHECK: return
func.func @other_rows_closed(%x: tensor<96x64xf32>, %y: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.softmax dimension(1) ins(%x : tensor<96x64xf32>) outs(%0 : tensor<96x64xf32>) -> tensor<96x64xf32>
  %2 = arith.constant 0xFF800000 : f32
  %3 = arith.constant false
  %4 = tensor.empty() : tensor<96x64xi1>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<96x64xf32>) outs(%4 : tensor<96x64xi1>) {
  ^bb0(%a0: f32, %o: i1):
    %r = arith.cmpf oeq, %a0, %2 : f32
    linalg.yield %r : i1
  } -> tensor<96x64xi1>
  %6 = tensor.empty() : tensor<96x64xi1>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xi1>) outs(%6 : tensor<96x64xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %3 : i1
    linalg.yield %r : i1
  } -> tensor<96x64xi1>
  %8 = tensor.empty() : tensor<96xi1>
  %9 = linalg.fill ins(%3 : i1) outs(%8 : tensor<96xi1>) -> tensor<96xi1>
  %10 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xi1>) outs(%9 : tensor<96xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.ori %a0, %o : i1
    linalg.yield %r : i1
  } -> tensor<96xi1>
  %11 = tensor.empty() : tensor<96xi1>
  %12 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%10 : tensor<96xi1>) outs(%11 : tensor<96xi1>) {
  ^bb0(%a0: i1, %o: i1):
    %r = arith.cmpi eq, %a0, %3 : i1
    linalg.yield %r : i1
  } -> tensor<96xi1>
  %13 = arith.constant 0.0 : f32
  %14 = tensor.empty() : tensor<96x64xf32>
  %15 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%12, %1 : tensor<96xi1>, tensor<96x64xf32>) outs(%14 : tensor<96x64xf32>) {
  ^bb0(%a0: i1, %a1: f32, %o: f32):
    %r = arith.select %a0, %13, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %15 : tensor<96x64xf32>
}

// -----

// The cast is not fused.
// CHECK-LABEL: @two_users_of_the_softmax
// CHECK: %[[G:.*]] = flow.dispatch.region
// CHECK: linalg.generic
// CHECK: flow.return
// CHECK: %[[Y:.*]] = tensor.collapse_shape %[[G]]
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[Y]]
// CHECK: return %[[N]], %[[Y]]
func.func @two_users_of_the_softmax(%x: tensor<96x64xf32>) -> (tensor<96x64xf16>, tensor<96x64xf32>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.softmax dimension(1) ins(%x : tensor<96x64xf32>) outs(%0 : tensor<96x64xf32>) -> tensor<96x64xf32>
  %2 = tensor.empty() : tensor<96x64xf16>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<96x64xf32>) outs(%2 : tensor<96x64xf16>) {
  ^bb0(%a0: f32, %o: f16):
    %r = arith.truncf %a0 : f32 to f16
    linalg.yield %r : f16
  } -> tensor<96x64xf16>
  return %3, %1 : tensor<96x64xf16>, tensor<96x64xf32>
}

// -----

// The scores are a result: they are computed before the group.
// CHECK-LABEL: @scores_read_elsewhere
// CHECK: %[[S:.*]] = linalg.generic
// CHECK: %[[S3:.*]] = tensor.expand_shape %[[S]]
// CHECK: flow.dispatch.region
// CHECK: linalg.generic {{.*}} ins(%[[S3]]
// CHECK: return %{{.*}}, %[[S]]
func.func @scores_read_elsewhere(%x: tensor<96x64xf32>, %b: tensor<64xf32>) -> (tensor<96x64xf32>, tensor<96x64xf32>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<96x64xf32>, tensor<64xf32>) outs(%0 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %2 = tensor.empty() : tensor<96x64xf32>
  %3 = linalg.softmax dimension(1) ins(%1 : tensor<96x64xf32>) outs(%2 : tensor<96x64xf32>) -> tensor<96x64xf32>
  return %3, %1 : tensor<96x64xf32>, tensor<96x64xf32>
}

// -----

// An op that asks for its loop index keeps its loops.
// CHECK-LABEL: @index_mask_stays_outside
// CHECK: linalg.index
// CHECK: flow.dispatch.region
// CHECK-NOT: linalg.index
// CHECK: return
func.func @index_mask_stays_outside(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96x64xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<96x64xf32>) outs(%1 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sle, %j, %i : index
    %r = arith.select %c, %a0, %0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %3 = tensor.empty() : tensor<96x64xf32>
  %4 = linalg.softmax dimension(1) ins(%2 : tensor<96x64xf32>) outs(%3 : tensor<96x64xf32>) -> tensor<96x64xf32>
  return %4 : tensor<96x64xf32>
}

// -----

// An operand that three heads read is computed once.
// CHECK-LABEL: @shared_mask_stays_outside
// CHECK: %[[M:.*]] = linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: math.absf
// CHECK: flow.dispatch.region
// CHECK-NOT: math.absf
// CHECK: return
func.func @shared_mask_stays_outside(%x: tensor<3x32x64xf32>, %m: tensor<32x64xf32>) -> (tensor<3x32x64xf32>) {
  %0 = tensor.empty() : tensor<32x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<32x64xf32>) outs(%0 : tensor<32x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.absf %a0 : f32
    linalg.yield %r : f32
  } -> tensor<32x64xf32>
  %2 = tensor.empty() : tensor<3x32x64xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %1 : tensor<3x32x64xf32>, tensor<32x64xf32>) outs(%2 : tensor<3x32x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<3x32x64xf32>
  %4 = tensor.empty() : tensor<3x32x64xf32>
  %5 = linalg.softmax dimension(2) ins(%3 : tensor<3x32x64xf32>) outs(%4 : tensor<3x32x64xf32>) -> tensor<3x32x64xf32>
  return %5 : tensor<3x32x64xf32>
}

// -----

// Neither before the softmax nor after it.
// CHECK-LABEL: @transposing_ops_stay_outside
// CHECK: %[[S:.*]] = linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: math.absf
// CHECK: flow.dispatch.region
// CHECK-NOT: arith.truncf
// CHECK: flow.return
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.truncf
// CHECK: return
func.func @transposing_ops_stay_outside(%x: tensor<64x96xf32>) -> (tensor<64x96xf16>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x96xf32>) outs(%0 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.absf %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %2 = tensor.empty() : tensor<96x64xf32>
  %3 = linalg.softmax dimension(1) ins(%1 : tensor<96x64xf32>) outs(%2 : tensor<96x64xf32>) -> tensor<96x64xf32>
  %4 = tensor.empty() : tensor<64x96xf16>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<96x64xf32>) outs(%4 : tensor<64x96xf16>) {
  ^bb0(%a0: f32, %o: f16):
    %r = arith.truncf %a0 : f32 to f16
    linalg.yield %r : f16
  } -> tensor<64x96xf16>
  return %5 : tensor<64x96xf16>
}

// -----

// Softmax over the first axis.
// CHECK-LABEL: @no_fusion_other_axis
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: over axis 0 of a tensor of rank 2
func.func @no_fusion_other_axis(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.softmax dimension(0) ins(%x : tensor<96x64xf32>) outs(%0 : tensor<96x64xf32>) -> tensor<96x64xf32>
  return %1 : tensor<96x64xf32>
}

// -----

// The same, decomposed.
// CHECK-LABEL: @no_fusion_parts_over_other_axis
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: over axis 0 of a tensor of rank 2
func.func @no_fusion_parts_over_other_axis(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<64xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<64xf32>) -> tensor<64xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<64xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<64xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<64xf32>) -> tensor<64xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<64xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// The sum is of another tensor.
// CHECK-LABEL: @no_fusion_sum_of_another
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the denominator is not the sum of the numerators
func.func @no_fusion_sum_of_another(%x: tensor<96x64xf32>, %y: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// The maximum is of another tensor.
// CHECK-LABEL: @no_fusion_max_of_another
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the maximum is not that of the scores
func.func @no_fusion_max_of_another(%x: tensor<96x64xf32>, %y: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// The exponentials are a result too.
// CHECK-LABEL: @no_fusion_exponentials_read
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: an intermediate value has users outside the match
func.func @no_fusion_exponentials_read(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>, tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13, %7 : tensor<96x64xf32>, tensor<96x64xf32>
}

// -----

// Nothing keeps the exponentials from overflow.
// CHECK-LABEL: @no_fusion_no_maximum
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: no maximum is subtracted before the exponential
func.func @no_fusion_no_maximum(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<96x64xf32>) outs(%0 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %2 = arith.constant 0.0 : f32
  %3 = tensor.empty() : tensor<96xf32>
  %4 = linalg.fill ins(%2 : f32) outs(%3 : tensor<96xf32>) -> tensor<96xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<96x64xf32>) outs(%4 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1, %5 : tensor<96x64xf32>, tensor<96xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %7 : tensor<96x64xf32>
}

// -----

// The minimum is subtracted.
// CHECK-LABEL: @no_fusion_minimum
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the value subtracted before the exponential is no maximum
func.func @no_fusion_minimum(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0x7F800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.minimumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// The maximum starts from zero.
// CHECK-LABEL: @no_fusion_maximum_from_zero
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the maximum does not start at -inf
func.func @no_fusion_maximum_from_zero(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0.0 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// The sum starts from one (softmax plus one).
// CHECK-LABEL: @no_fusion_sum_from_one
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the denominator is no sum from zero
func.func @no_fusion_sum_from_one(%x: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 1.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// CHECK-LABEL: @no_fusion_f64
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the pass does not support this element type
func.func @no_fusion_f64(%x: tensor<96x64xf64>) -> (tensor<96x64xf64>) {
  %0 = tensor.empty() : tensor<96x64xf64>
  %1 = linalg.softmax dimension(1) ins(%x : tensor<96x64xf64>) outs(%0 : tensor<96x64xf64>) -> tensor<96x64xf64>
  return %1 : tensor<96x64xf64>
}

// -----

// CHECK-LABEL: @no_fusion_short_rows
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: rows of 8 columns, fewer than 16
func.func @no_fusion_short_rows(%x: tensor<3x8xf32>) -> (tensor<3x8xf32>) {
  %0 = tensor.empty() : tensor<3x8xf32>
  %1 = linalg.softmax dimension(1) ins(%x : tensor<3x8xf32>) outs(%0 : tensor<3x8xf32>) -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// -----

// A vector of rows is one for a kernel.
// CHECK-LABEL: @vectors_of_short_rows
// CHECK: flow.dispatch.region
func.func @vectors_of_short_rows(%x: tensor<96x8xf32>) -> (tensor<96x8xf32>) {
  %0 = tensor.empty() : tensor<96x8xf32>
  %1 = linalg.softmax dimension(1) ins(%x : tensor<96x8xf32>) outs(%0 : tensor<96x8xf32>) -> tensor<96x8xf32>
  return %1 : tensor<96x8xf32>
}

// -----

// CHECK-LABEL: @single_row
// CHECK: flow.dispatch.region
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK: flow.return
func.func @single_row(%x: tensor<64xf32>) -> (tensor<64xf32>) {
  %0 = tensor.empty() : tensor<64xf32>
  %1 = linalg.softmax dimension(0) ins(%x : tensor<64xf32>) outs(%0 : tensor<64xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// -----

// CHECK-LABEL: @no_fusion_dynamic_columns
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: the row's length is dynamic
func.func @no_fusion_dynamic_columns(%x: tensor<96x?xf32>, %n: index) -> (tensor<96x?xf32>) {
  %0 = tensor.empty(%n) : tensor<96x?xf32>
  %1 = linalg.softmax dimension(1) ins(%x : tensor<96x?xf32>) outs(%0 : tensor<96x?xf32>) -> tensor<96x?xf32>
  return %1 : tensor<96x?xf32>
}

// -----

// The scores are read through a transpose.
// CHECK-LABEL: @no_fusion_transposed_scores
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: an operand is indexed by (1, 0)
func.func @no_fusion_transposed_scores(%x: tensor<64x96xf32>) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x96xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<64x96xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// The maximum is one of each column.
// CHECK-LABEL: @no_fusion_max_over_other_axis
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: maximum and sum reduce different axes
func.func @no_fusion_max_over_other_axis(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<64xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<64xf32>) -> tensor<64xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<64x64xf32>) outs(%2 : tensor<64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.maximumf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %4 = tensor.empty() : tensor<64x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<64x64xf32>, tensor<64xf32>) outs(%4 : tensor<64x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.subf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<64x64xf32>
  %6 = tensor.empty() : tensor<64x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<64x64xf32>) outs(%6 : tensor<64x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<64x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<64xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<64xf32>) -> tensor<64xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<64x64xf32>) outs(%10 : tensor<64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %12 = tensor.empty() : tensor<64x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<64x64xf32>, tensor<64xf32>) outs(%12 : tensor<64x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<64x64xf32>
  return %13 : tensor<64x64xf32>
}

// -----

// The scale is a scalar that the bodies capture.
// CHECK-LABEL: @no_fusion_captured_scalar
// CHECK-NOT: flow.dispatch.region
// CHECK: return
// WHY-DAG: reads a loop index or a scalar from outside its op
func.func @no_fusion_captured_scalar(%x: tensor<96x64xf32>, %s: f32) -> (tensor<96x64xf32>) {
  %0 = arith.constant 0xFF800000 : f32
  %1 = tensor.empty() : tensor<96xf32>
  %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<96xf32>) -> tensor<96xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<96x64xf32>) outs(%2 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %t = arith.mulf %a0, %s : f32
    %r = arith.maximumf %t, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %3 : tensor<96x64xf32>, tensor<96xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %t = arith.mulf %a0, %s : f32
    %r = arith.subf %t, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %6 = tensor.empty() : tensor<96x64xf32>
  %7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<96x64xf32>) outs(%6 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %8 = arith.constant 0.0 : f32
  %9 = tensor.empty() : tensor<96xf32>
  %10 = linalg.fill ins(%8 : f32) outs(%9 : tensor<96xf32>) -> tensor<96xf32>
  %11 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<96x64xf32>) outs(%10 : tensor<96xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = arith.addf %a0, %o : f32
    linalg.yield %r : f32
  } -> tensor<96xf32>
  %12 = tensor.empty() : tensor<96x64xf32>
  %13 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<96x64xf32>, tensor<96xf32>) outs(%12 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %13 : tensor<96x64xf32>
}

// -----

// A quotient of exponentials is nothing like a softmax: not a word about it.
// CHECK-LABEL: @no_softmax
// CHECK-NOT: flow.dispatch.region
// CHECK: return
func.func @no_softmax(%x: tensor<96x64xf32>, %y: tensor<96x64xf32>) -> (tensor<96x64xf32>) {
  %0 = tensor.empty() : tensor<96x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<96x64xf32>) outs(%0 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %2 = tensor.empty() : tensor<96x64xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<96x64xf32>) outs(%2 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %o: f32):
    %r = math.exp %a0 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  %4 = tensor.empty() : tensor<96x64xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1, %3 : tensor<96x64xf32>, tensor<96x64xf32>) outs(%4 : tensor<96x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.divf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<96x64xf32>
  return %5 : tensor<96x64xf32>
}
