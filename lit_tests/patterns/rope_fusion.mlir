// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rope_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=rope_fusion --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY

#own = affine_map<(b, s, k, d) -> (b, s, k, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>
#sd = affine_map<(b, s, d) -> (s, d)>

// As it arrives from PyTorch: q * cos + torch.cat((-q[..., 8:], q[..., :8]), -1) * sin
//   mlirfuse-compile model:main --pipeline=none --dump-ir-dir=ir
// JAX and ONNX give the same from jnp.concatenate and from Slice, Neg, Concat.
// CHECK-LABEL: @torch
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[S:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<4x32x2x8xf32>)
// CHECK: tensor.extract %arg1
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x32x2x8xf32>, tensor<32x2x8xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[S]], %{{.*}} : tensor<4x32x2x8xf32>, tensor<32x2x8xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] :
// CHECK: flow.return %[[Y]]
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0], [1], [2, 3]]
// CHECK: return %[[M]]
func.func @torch(%q: tensor<4x32x16xf32>, %x: tensor<4x32x2x8xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>, %n: index) -> tensor<4x32x16xf32> {
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4x32x2x8xf32>
  %e3 = tensor.empty() : tensor<4x32x16xf32>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %x[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %a = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %b = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %y = linalg.generic {indexing_maps = [#bsd, #bsd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  return %y : tensor<4x32x16xf32>
}

// -----

#own = affine_map<(b, s, k, d) -> (b, s, k, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>
#sd = affine_map<(b, s, d) -> (s, d)>

// A dynamic batch.
// CHECK-LABEL: @dynamic_f16
// CHECK: %[[R:.*]] = flow.dispatch.region
// CHECK: %[[S:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<?x32x2x8xf16>)
// CHECK: tensor.extract %arg1
// CHECK: %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<?x32x2x8xf16>, tensor<32x2x8xf16>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[S]], %{{.*}} : tensor<?x32x2x8xf16>, tensor<32x2x8xf16>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] :
// CHECK: flow.return %[[Y]]
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0], [1], [2, 3]]
// CHECK: return %[[M]]
func.func @dynamic_f16(%q: tensor<?x32x16xf16>, %x: tensor<?x32x2x8xf16>, %cos: tensor<32x16xf16>, %sin: tensor<32x16xf16>, %n: index) -> tensor<?x32x16xf16> {
  %c1 = arith.constant 1 : index
  %e = tensor.empty(%n) : tensor<?x32x2x8xf16>
  %e3 = tensor.empty(%n) : tensor<?x32x16xf16>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<?x32x2x8xf16>) {
  ^bb0(%o: f16):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %x[%i, %j, %other, %l] : tensor<?x32x2x8xf16>
    %m = arith.negf %v : f16
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f16
    linalg.yield %s : f16
  } -> tensor<?x32x2x8xf16>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<?x32x2x8xf16> into tensor<?x32x16xf16>
  %a = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q, %cos : tensor<?x32x16xf16>, tensor<32x16xf16>) outs(%e3 : tensor<?x32x16xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<?x32x16xf16>
  %b = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<?x32x16xf16>, tensor<32x16xf16>) outs(%e3 : tensor<?x32x16xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<?x32x16xf16>
  %y = linalg.generic {indexing_maps = [#bsd, #bsd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<?x32x16xf16>, tensor<?x32x16xf16>) outs(%e3 : tensor<?x32x16xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.addf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<?x32x16xf16>
  return %y : tensor<?x32x16xf16>
}

// -----

#own = affine_map<(b, s, k, d) -> (b, s, k, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>
#sd = affine_map<(b, s, d) -> (s, d)>

// The index is no swap of halves: two minus the loop.
// CHECK-LABEL: @no_fusion_no_swap
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_no_swap(%q: tensor<4x32x16xf32>, %x: tensor<4x32x2x8xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>, %n: index) -> tensor<4x32x16xf32> {
  %c1 = arith.constant 2 : index
  %e = tensor.empty() : tensor<4x32x2x8xf32>
  %e3 = tensor.empty() : tensor<4x32x16xf32>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %x[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %a = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %b = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %y = linalg.generic {indexing_maps = [#bsd, #bsd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  return %y : tensor<4x32x16xf32>
}

// -----

#own = affine_map<(b, s, k, d) -> (b, s, k, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>
#sd = affine_map<(b, s, d) -> (s, d)>

// Nothing is negated.
// CHECK-LABEL: @no_fusion_no_negation
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_no_negation(%q: tensor<4x32x16xf32>, %x: tensor<4x32x2x8xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>, %n: index) -> tensor<4x32x16xf32> {
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4x32x2x8xf32>
  %e3 = tensor.empty() : tensor<4x32x16xf32>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %x[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = math.absf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %a = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %b = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %y = linalg.generic {indexing_maps = [#bsd, #bsd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  return %y : tensor<4x32x16xf32>
}

// -----

#own = affine_map<(b, s, k, d) -> (b, s, k, d)>
#bsd = affine_map<(b, s, d) -> (b, s, d)>
#sd = affine_map<(b, s, d) -> (s, d)>

// The rotation is returned too.
// CHECK-LABEL: @no_fusion_rotation_read_elsewhere
// CHECK-NOT: flow.dispatch.region
// WHY-NOT: @no_fusion_rotation_read_elsewhere
func.func @no_fusion_rotation_read_elsewhere(%q: tensor<4x32x16xf32>, %x: tensor<4x32x2x8xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>, %n: index) -> (tensor<4x32x16xf32>, tensor<4x32x16xf32>) {
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<4x32x2x8xf32>
  %e3 = tensor.empty() : tensor<4x32x16xf32>
  %r = linalg.generic {indexing_maps = [#own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x32x2x8xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %l = linalg.index 3 : index
    %other = arith.subi %c1, %k : index
    %v = tensor.extract %x[%i, %j, %other, %l] : tensor<4x32x2x8xf32>
    %m = arith.negf %v : f32
    %first = arith.cmpi eq, %other, %c1 : index
    %s = arith.select %first, %m, %v : f32
    linalg.yield %s : f32
  } -> tensor<4x32x2x8xf32>
  %z = tensor.collapse_shape %r [[0], [1], [2, 3]] : tensor<4x32x2x8xf32> into tensor<4x32x16xf32>
  %a = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q, %cos : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %b = linalg.generic {indexing_maps = [#bsd, #sd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%z, %sin : tensor<4x32x16xf32>, tensor<32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  %y = linalg.generic {indexing_maps = [#bsd, #bsd, #bsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x32x16xf32>, tensor<4x32x16xf32>) outs(%e3 : tensor<4x32x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.addf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x16xf32>
  return %y, %z : tensor<4x32x16xf32>, tensor<4x32x16xf32>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// As it arrives from JAX: jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).
// CHECK-LABEL: @jax_halves
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x32x2x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg2, %arg1, %arg3 : {{.*}}) outs(%{{.*}} : tensor<4x32x2x8xf32>)
// CHECK: %[[L:.*]] = arith.subf
// CHECK: %[[H:.*]] = arith.addf
// CHECK: %[[K:.*]] = linalg.index 2
// CHECK: %[[F:.*]] = arith.cmpi eq, %[[K]], %{{.*}}
// CHECK: arith.select %[[F]], %[[L]], %[[H]]
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0], [1], [2, 3]]
// CHECK: return %[[M]]
func.func @jax_halves(%a: tensor<4x32x8xf32>, %b: tensor<4x32x8xf32>, %cos: tensor<32x8xf32>, %sin: tensor<32x8xf32>, %more: tensor<4x32x8xf32>) -> tensor<4x32x16xf32> {
  %e = tensor.empty() : tensor<4x32x8xf32>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x8xf32>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %p = arith.mulf %j, %k : f32
    %s = arith.subf %i, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %cos, %a, %sin : tensor<4x32x8xf32>, tensor<32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.mulf %k, %l : f32
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %w = tensor.empty() : tensor<4x32x16xf32>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  %y = tensor.insert_slice %high into %i0[0, 0, 8] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  return %y : tensor<4x32x16xf32>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// The rounding joins the region, and the reshape in front of it moves behind.
// CHECK-LABEL: @rounded
// CHECK: flow.dispatch.region -> (tensor<4x32x2x8xf16>) {{.*}}"rope_fusion"
// CHECK: %[[S:.*]] = arith.select
// CHECK: %[[R:.*]] = arith.truncf %[[S]] : f32 to f16
// CHECK: linalg.yield %[[R]]
// CHECK: tensor.collapse_shape {{.*}} into tensor<4x32x16xf16>
// CHECK: tensor.collapse_shape {{.*}} into tensor<128x16xf16>
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @rounded(%a: tensor<4x32x8xf32>, %b: tensor<4x32x8xf32>, %cos: tensor<32x8xf32>, %sin: tensor<32x8xf32>, %more: tensor<4x32x8xf32>) -> tensor<128x16xf16> {
  %e = tensor.empty() : tensor<4x32x8xf32>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x8xf32>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %p = arith.mulf %j, %k : f32
    %s = arith.subf %i, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %cos, %a, %sin : tensor<4x32x8xf32>, tensor<32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.mulf %k, %l : f32
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %w = tensor.empty() : tensor<4x32x16xf32>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  %y = tensor.insert_slice %high into %i0[0, 0, 8] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  %flat = tensor.collapse_shape %y [[0, 1], [2]] : tensor<4x32x16xf32> into tensor<128x16xf32>
  %n = tensor.empty() : tensor<128x16xf16>
  %z = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%flat : tensor<128x16xf32>) outs(%n : tensor<128x16xf16>) {
  ^bb0(%p: f32, %o: f16):
    %q = arith.truncf %p : f32 to f16
    linalg.yield %q : f16
  } -> tensor<128x16xf16>
  return %z : tensor<128x16xf16>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// The same in bf16.
// CHECK-LABEL: @halves_bf16
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x32x2x8xbf16>)
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg2, %arg1, %arg3 : {{.*}}) outs(%{{.*}} : tensor<4x32x2x8xbf16>)
// CHECK: %[[L:.*]] = arith.subf
// CHECK: %[[H:.*]] = arith.addf
// CHECK: %[[K:.*]] = linalg.index 2
// CHECK: %[[F:.*]] = arith.cmpi eq, %[[K]], %{{.*}}
// CHECK: arith.select %[[F]], %[[L]], %[[H]]
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]] {{\[}}[0], [1], [2, 3]]
// CHECK: return %[[M]]
func.func @halves_bf16(%a: tensor<4x32x8xbf16>, %b: tensor<4x32x8xbf16>, %cos: tensor<32x8xbf16>, %sin: tensor<32x8xbf16>, %more: tensor<4x32x8xbf16>) -> tensor<4x32x16xbf16> {
  %e = tensor.empty() : tensor<4x32x8xbf16>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xbf16>, tensor<32x8xbf16>) outs(%e : tensor<4x32x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %o: bf16):
    %p = arith.mulf %i, %j : bf16
    linalg.yield %p : bf16
  } -> tensor<4x32x8xbf16>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xbf16>, tensor<4x32x8xbf16>, tensor<32x8xbf16>) outs(%e : tensor<4x32x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %k: bf16, %o: bf16):
    %p = arith.mulf %j, %k : bf16
    %s = arith.subf %i, %p : bf16
    linalg.yield %s : bf16
  } -> tensor<4x32x8xbf16>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %cos, %a, %sin : tensor<4x32x8xbf16>, tensor<32x8xbf16>, tensor<4x32x8xbf16>, tensor<32x8xbf16>) outs(%e : tensor<4x32x8xbf16>) {
  ^bb0(%i: bf16, %j: bf16, %k: bf16, %l: bf16, %o: bf16):
    %p = arith.mulf %i, %j : bf16
    %q = arith.mulf %k, %l : bf16
    %s = arith.addf %p, %q : bf16
    linalg.yield %s : bf16
  } -> tensor<4x32x8xbf16>
  %w = tensor.empty() : tensor<4x32x16xbf16>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xbf16> into tensor<4x32x16xbf16>
  %y = tensor.insert_slice %high into %i0[0, 0, 8] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xbf16> into tensor<4x32x16xbf16>
  return %y : tensor<4x32x16xbf16>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// PyTorch: torch.stack((a * cos - b * sin, a * sin + b * cos), -1): the elements of pairs.
// CHECK-LABEL: @torch_pairs_f16
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x32x8x2xf16>)
// CHECK: linalg.index 3
// CHECK: arith.select
// CHECK: %[[M:.*]] = tensor.expand_shape %[[R]] {{\[}}[0, 1], [2], [3], [4]]
// CHECK: return %[[M]]
func.func @torch_pairs_f16(%a: tensor<4x32x8xf16>, %b: tensor<4x32x8xf16>, %cos: tensor<32x8xf16>, %sin: tensor<32x8xf16>, %more: tensor<4x32x8xf16>) -> tensor<1x4x32x8x2xf16> {
  %e = tensor.empty() : tensor<4x32x8xf16>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xf16>, tensor<32x8xf16>) outs(%e : tensor<4x32x8xf16>) {
  ^bb0(%i: f16, %j: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    linalg.yield %p : f16
  } -> tensor<4x32x8xf16>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xf16>, tensor<4x32x8xf16>, tensor<32x8xf16>) outs(%e : tensor<4x32x8xf16>) {
  ^bb0(%i: f16, %j: f16, %k: f16, %o: f16):
    %p = arith.mulf %j, %k : f16
    %s = arith.subf %i, %p : f16
    linalg.yield %s : f16
  } -> tensor<4x32x8xf16>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %cos, %a, %sin : tensor<4x32x8xf16>, tensor<32x8xf16>, tensor<4x32x8xf16>, tensor<32x8xf16>) outs(%e : tensor<4x32x8xf16>) {
  ^bb0(%i: f16, %j: f16, %k: f16, %l: f16, %o: f16):
    %p = arith.mulf %i, %j : f16
    %q = arith.mulf %k, %l : f16
    %s = arith.addf %p, %q : f16
    linalg.yield %s : f16
  } -> tensor<4x32x8xf16>
  %w = tensor.empty() : tensor<1x4x32x8x2xf16>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0, 0, 0] [1, 4, 32, 8, 1] [1, 1, 1, 1, 1] : tensor<4x32x8xf16> into tensor<1x4x32x8x2xf16>
  %y = tensor.insert_slice %high into %i0[0, 0, 0, 0, 1] [1, 4, 32, 8, 1] [1, 1, 1, 1, 1] : tensor<4x32x8xf16> into tensor<1x4x32x8x2xf16>
  return %y : tensor<1x4x32x8x2xf16>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// The second half reads another tensor.
// CHECK-LABEL: @no_fusion_other_tensors
// CHECK-NOT: flow.dispatch.region
// WHY: structure (1)
// WHY: the two parts are computed from different tensors
func.func @no_fusion_other_tensors(%a: tensor<4x32x8xf32>, %b: tensor<4x32x8xf32>, %cos: tensor<32x8xf32>, %sin: tensor<32x8xf32>, %more: tensor<4x32x8xf32>) -> tensor<4x32x16xf32> {
  %e = tensor.empty() : tensor<4x32x8xf32>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x8xf32>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %p = arith.mulf %j, %k : f32
    %s = arith.subf %i, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%more, %cos, %a, %sin : tensor<4x32x8xf32>, tensor<32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.mulf %k, %l : f32
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %w = tensor.empty() : tensor<4x32x16xf32>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  %y = tensor.insert_slice %high into %i0[0, 0, 8] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  return %y : tensor<4x32x16xf32>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// Integers rotate nothing.
// CHECK-LABEL: @no_fusion_integers
// CHECK-NOT: flow.dispatch.region
// WHY: element_type (1)
// WHY: i32
func.func @no_fusion_integers(%a: tensor<4x32x8xi32>, %b: tensor<4x32x8xi32>, %cos: tensor<32x8xi32>, %sin: tensor<32x8xi32>, %more: tensor<4x32x8xi32>) -> tensor<4x32x16xi32> {
  %e = tensor.empty() : tensor<4x32x8xi32>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xi32>, tensor<32x8xi32>) outs(%e : tensor<4x32x8xi32>) {
  ^bb0(%i: i32, %j: i32, %o: i32):
    %p = arith.muli %i, %j : i32
    linalg.yield %p : i32
  } -> tensor<4x32x8xi32>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xi32>, tensor<4x32x8xi32>, tensor<32x8xi32>) outs(%e : tensor<4x32x8xi32>) {
  ^bb0(%i: i32, %j: i32, %k: i32, %o: i32):
    %p = arith.muli %j, %k : i32
    %s = arith.subi %i, %p : i32
    linalg.yield %s : i32
  } -> tensor<4x32x8xi32>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %cos, %a, %sin : tensor<4x32x8xi32>, tensor<32x8xi32>, tensor<4x32x8xi32>, tensor<32x8xi32>) outs(%e : tensor<4x32x8xi32>) {
  ^bb0(%i: i32, %j: i32, %k: i32, %l: i32, %o: i32):
    %p = arith.muli %i, %j : i32
    %q = arith.muli %k, %l : i32
    %s = arith.addi %p, %q : i32
    linalg.yield %s : i32
  } -> tensor<4x32x8xi32>
  %w = tensor.empty() : tensor<4x32x16xi32>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xi32> into tensor<4x32x16xi32>
  %y = tensor.insert_slice %high into %i0[0, 0, 8] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xi32> into tensor<4x32x16xi32>
  return %y : tensor<4x32x16xi32>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// One half is returned too.
// CHECK-LABEL: @no_fusion_part_read_elsewhere
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_part_read_elsewhere(%a: tensor<4x32x8xf32>, %b: tensor<4x32x8xf32>, %cos: tensor<32x8xf32>, %sin: tensor<32x8xf32>, %more: tensor<4x32x8xf32>) -> (tensor<4x32x16xf32>, tensor<4x32x8xf32>) {
  %e = tensor.empty() : tensor<4x32x8xf32>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x8xf32>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %p = arith.mulf %j, %k : f32
    %s = arith.subf %i, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %cos, %a, %sin : tensor<4x32x8xf32>, tensor<32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.mulf %k, %l : f32
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %w = tensor.empty() : tensor<4x32x16xf32>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  %y = tensor.insert_slice %high into %i0[0, 0, 8] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x16xf32>
  return %y, %low : tensor<4x32x16xf32>, tensor<4x32x8xf32>
}

// -----

#hsd = affine_map<(h, s, d) -> (h, s, d)>
#sd = affine_map<(h, s, d) -> (s, d)>

// The slices leave a gap.
// CHECK-LABEL: @no_fusion_gap
// CHECK-NOT: flow.dispatch.region
func.func @no_fusion_gap(%a: tensor<4x32x8xf32>, %b: tensor<4x32x8xf32>, %cos: tensor<32x8xf32>, %sin: tensor<32x8xf32>, %more: tensor<4x32x8xf32>) -> tensor<4x32x17xf32> {
  %e = tensor.empty() : tensor<4x32x8xf32>
  %ac = linalg.generic {indexing_maps = [#hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a, %cos : tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    linalg.yield %p : f32
  } -> tensor<4x32x8xf32>
  %low = linalg.generic {indexing_maps = [#hsd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ac, %b, %sin : tensor<4x32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %o: f32):
    %p = arith.mulf %j, %k : f32
    %s = arith.subf %i, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %high = linalg.generic {indexing_maps = [#hsd, #sd, #hsd, #sd, #hsd], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b, %cos, %a, %sin : tensor<4x32x8xf32>, tensor<32x8xf32>, tensor<4x32x8xf32>, tensor<32x8xf32>) outs(%e : tensor<4x32x8xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
    %p = arith.mulf %i, %j : f32
    %q = arith.mulf %k, %l : f32
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<4x32x8xf32>
  %w = tensor.empty() : tensor<4x32x17xf32>
  %i0 = tensor.insert_slice %low into %w[0, 0, 0] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x17xf32>
  %y = tensor.insert_slice %high into %i0[0, 0, 9] [4, 32, 8] [1, 1, 1] : tensor<4x32x8xf32> into tensor<4x32x17xf32>
  return %y : tensor<4x32x17xf32>
}
