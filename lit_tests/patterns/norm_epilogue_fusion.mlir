// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_rms_norm_fusion,rms_norm_fusion,norm_epilogue_fusion | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --pipeline=add_rms_norm_fusion,rms_norm_fusion,norm_epilogue_fusion --explain -o %t.ir 2>&1 | FileCheck %s --check-prefix=WHY

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#sums = {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}
#scaled = {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]}
#map = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map2 = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}

// Two ops read the norm, and all they compute ends in one: SiLU.
// CHECK-LABEL: @silu
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<4x8xf32>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "norm_epilogue_fusion"}
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SUM]] :
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[N]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[G]] :
// CHECK: flow.return %[[Y]] :
// CHECK-NOT: linalg.generic
// CHECK: return %[[R]]
func.func @silu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic #sums ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<4xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %a, %r : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %g = linalg.generic #map ins(%n : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.negf %a : f32
    %q = math.exp %p : f32
    %r = arith.addf %q, %c1 : f32
    %y = arith.divf %c1, %r : f32
    linalg.yield %y : f32
  } -> tensor<4x8xf32>
  %y = linalg.generic #map2 ins(%n, %g : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#m = affine_map<(m, n) -> (m)>
#sums = {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}
#scaled = {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]}
#map = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map2 = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}

// A producer with the gate as its only user is fused too; the residual add remains a result.
// CHECK-LABEL: @gate_and_kept_sum
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf16>, %[[D:.*]]: tensor<?x8xf16>, %[[Z:.*]]: tensor<?x8xf16>, %{{.*}}: index
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<?x8xf16>{{.*}}, tensor<?x8xf16>{{.*}}"norm_epilogue_fusion"
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[D]] :
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[H]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[H]], %[[SUM]] :
// CHECK: %[[G:.*]] = linalg.generic {{.*}} ins(%[[Z]] :
// CHECK: math.tanh
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[G]] :
// CHECK: flow.return %[[H]], %[[Y]] :
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @gate_and_kept_sum(%x: tensor<?x8xf16>, %d: tensor<?x8xf16>, %z: tensor<?x8xf16>, %rows: index) -> (tensor<?x8xf16>, tensor<?x8xf16>) {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty(%rows) : tensor<?xf32>
  %e = tensor.empty(%rows) : tensor<?x8xf16>
  %f = linalg.fill ins(%c0 : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>
  %h = linalg.generic #map2 ins(%x, %d : tensor<?x8xf16>, tensor<?x8xf16>) outs(%e : tensor<?x8xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %p = arith.addf %a, %b : f16
    linalg.yield %p : f16
  } -> tensor<?x8xf16>
  %s = linalg.generic #sums ins(%h : tensor<?x8xf16>) outs(%f : tensor<?xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    %p = arith.mulf %w, %w : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<?xf32>
  %n = linalg.generic #scaled ins(%h, %s : tensor<?x8xf16>, tensor<?xf32>) outs(%e : tensor<?x8xf16>) {
  ^bb0(%a: f16, %b: f32, %o: f16):
    %w = arith.extf %a : f16 to f32
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %w, %r : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<?x8xf16>
  %g = linalg.generic #map ins(%z : tensor<?x8xf16>) outs(%e : tensor<?x8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %p = math.tanh %a : f16
    linalg.yield %p : f16
  } -> tensor<?x8xf16>
  %y = linalg.generic #map2 ins(%n, %g : tensor<?x8xf16>, tensor<?x8xf16>) outs(%e : tensor<?x8xf16>) {
  ^bb0(%a: f16, %b: f16, %o: f16):
    %p = arith.mulf %a, %b : f16
    linalg.yield %p : f16
  } -> tensor<?x8xf16>
  return %y, %h : tensor<?x8xf16>, tensor<?x8xf16>
}

// -----

#bmn = affine_map<(b, m, n) -> (b, m, n)>
#bm = affine_map<(b, m, n) -> (b, m)>
#bn = affine_map<(b, m, n) -> (b, n)>
#sums = {indexing_maps = [#bmn, #bm], iterator_types = ["parallel", "parallel", "reduction"]}
#scaled = {indexing_maps = [#bmn, #bm, #bmn], iterator_types = ["parallel", "parallel", "parallel"]}
#modulated = {indexing_maps = [#bmn, #bn, #bmn], iterator_types = ["parallel", "parallel", "parallel"]}
#id = affine_map<(b, n) -> (b, n)>
#map = {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
#map2 = {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}

// A modulation by batch and channel; after a reshape a residual, over the full space.
// CHECK-LABEL: @modulated_after_reshape
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8xbf16>, %[[SCALE:.*]]: tensor<2x8xf32>, %[[Z:.*]]: tensor<6x8xbf16>
// CHECK: %[[SPLIT:.*]] = tensor.expand_shape %[[Z]] {{.*}} into tensor<2x3x8xbf16>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<2x3x8xbf16>) {{.*}}"norm_epilogue_fusion"
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[X]] :
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[SUM]] :
// CHECK: %[[ONE:.*]] = linalg.generic {{.*}} ins(%[[SCALE]] :
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[N]], %[[ONE]] :
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[M]], %[[SPLIT]] :
// CHECK: flow.return %[[Y]] :
// CHECK: %[[J:.*]] = tensor.collapse_shape %[[R]] {{.*}} into tensor<6x8xbf16>
// CHECK: return %[[J]]
func.func @modulated_after_reshape(%x: tensor<2x3x8xbf16>, %scale: tensor<2x8xf32>, %z: tensor<6x8xbf16>) -> tensor<6x8xbf16> {
  %c0 = arith.constant 0.0 : f32
  %c1 = arith.constant 1.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x3x8xf32>
  %es = tensor.empty() : tensor<2x8xf32>
  %ej = tensor.empty() : tensor<6x8xbf16>
  %f = linalg.fill ins(%c0 : f32) outs(%er : tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = linalg.generic #sums ins(%x : tensor<2x3x8xbf16>) outs(%f : tensor<2x3xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %p = arith.mulf %w, %w : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<2x3xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<2x3x8xbf16>, tensor<2x3xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%a: bf16, %b: f32, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %w, %r : f32
    linalg.yield %y : f32
  } -> tensor<2x3x8xf32>
  %one = linalg.generic #map ins(%scale : tensor<2x8xf32>) outs(%es : tensor<2x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %a, %c1 : f32
    linalg.yield %p : f32
  } -> tensor<2x8xf32>
  %g = linalg.generic #modulated ins(%n, %one : tensor<2x3x8xf32>, tensor<2x8xf32>) outs(%e : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<2x3x8xf32>
  %j = tensor.collapse_shape %g [[0, 1], [2]] : tensor<2x3x8xf32> into tensor<6x8xf32>
  %y = linalg.generic #map2 ins(%j, %z : tensor<6x8xf32>, tensor<6x8xbf16>) outs(%ej : tensor<6x8xbf16>) {
  ^bb0(%a: f32, %b: bf16, %o: bf16):
    %w = arith.extf %b : bf16 to f32
    %p = arith.addf %a, %w : f32
    %t = arith.truncf %p : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<6x8xbf16>
  return %y : tensor<6x8xbf16>
}

// -----

#mn = affine_map<(m, n) -> (m, n)>
#nm = affine_map<(m, n) -> (n, m)>
#m = affine_map<(m, n) -> (m)>
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#sums = {indexing_maps = [#mn, #m], iterator_types = ["parallel", "reduction"]}
#scaled = {indexing_maps = [#mn, #m, #mn], iterator_types = ["parallel", "parallel"]}
#map = {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]}
#map2 = {indexing_maps = [#mn, #mn, #mn], iterator_types = ["parallel", "parallel"]}
#product = {indexing_maps = [#mk, #kn, #out], iterator_types = ["parallel", "parallel", "reduction"]}
#transposed = {indexing_maps = [#nm, #mn, #mn], iterator_types = ["parallel", "parallel"]}

// The residual is an operand of the norm: the matmul cannot take a user of the norm as epilogue.
// CHECK-LABEL: @residual_of_matmul
// CHECK: %[[P:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<8x8xf32>) {{.*}}"norm_epilogue_fusion"
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[P]], %{{.*}} : tensor<8x8xf32>, tensor<8xf32>)
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[N]] :
// CHECK: flow.return %[[Y]] :
func.func @residual_of_matmul(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %zz = linalg.fill ins(%c0 : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.generic #product ins(%x, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zz : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<8x8xf32>
  %s = linalg.generic #sums ins(%p : tensor<8x8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p2 = arith.mulf %a, %a : f32
    %q = arith.addf %p2, %o : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %n = linalg.generic #scaled ins(%p, %s : tensor<8x8xf32>, tensor<8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p2 = arith.divf %b, %c8 : f32
    %q = arith.addf %p2, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %a, %r : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  %y = linalg.generic #map2 ins(%p, %n : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p2 = arith.addf %a, %b : f32
    linalg.yield %p2 : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// The same with a matmul of another tensor: it takes the op as its epilogue.
// CHECK-LABEL: @no_fusion_epilogue_of_matmul
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}"rms_norm_fusion"
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[R]] :
// WHY: left_to_producer
func.func @no_fusion_epilogue_of_matmul(%x: tensor<8x8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %zz = linalg.fill ins(%c0 : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = linalg.generic #product ins(%v, %w : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zz : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<8x8xf32>
  %s = linalg.generic #sums ins(%x : tensor<8x8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p2 = arith.mulf %a, %a : f32
    %q = arith.addf %p2, %o : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<8x8xf32>, tensor<8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p2 = arith.divf %b, %c8 : f32
    %q = arith.addf %p2, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %a, %r : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  %y = linalg.generic #map2 ins(%p, %n : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p2 = arith.addf %a, %b : f32
    linalg.yield %p2 : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// The norm itself is a result of the function.
// CHECK-LABEL: @no_fusion_read_elsewhere
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}"rms_norm_fusion"
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[R]] :
// CHECK: return %[[R]], %[[Y]]
func.func @no_fusion_read_elsewhere(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic #sums ins(%x : tensor<8x8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<8x8xf32>, tensor<8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %a, %r : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  %y = linalg.generic #map ins(%n : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.tanh %a : f32
    linalg.yield %p : f32
  } -> tensor<8x8xf32>
  return %n, %y : tensor<8x8xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: @no_fusion_read_transposed
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}"rms_norm_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[R]], %{{.*}} :
func.func @no_fusion_read_transposed(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic #sums ins(%x : tensor<8x8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<8x8xf32>, tensor<8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %a, %r : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  %y = linalg.generic #transposed ins(%n, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.addf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// Users of the f16 widen them as they load; the tanh before that is fused.
// CHECK-LABEL: @no_fusion_of_widening
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<8x8xf16>) {{.*}}"norm_epilogue_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[R]] : tensor<8x8xf16>) outs(%{{.*}} : tensor<8x8xf32>)
func.func @no_fusion_of_widening(%x: tensor<8x8xf16>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %eh = tensor.empty() : tensor<8x8xf16>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic #sums ins(%x : tensor<8x8xf16>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f16, %o: f32):
    %w = arith.extf %a : f16 to f32
    %p = arith.mulf %w, %w : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<8x8xf16>, tensor<8xf32>) outs(%eh : tensor<8x8xf16>) {
  ^bb0(%a: f16, %b: f32, %o: f16):
    %w = arith.extf %a : f16 to f32
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %w, %r : f32
    %t = arith.truncf %y : f32 to f16
    linalg.yield %t : f16
  } -> tensor<8x8xf16>
  %t = linalg.generic #map ins(%n : tensor<8x8xf16>) outs(%eh : tensor<8x8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %p = math.tanh %a : f16
    linalg.yield %p : f16
  } -> tensor<8x8xf16>
  %y = linalg.generic #map ins(%t : tensor<8x8xf16>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f16, %o: f32):
    %p = arith.extf %a : f16 to f32
    linalg.yield %p : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// CHECK-LABEL: @no_fusion_i32
// CHECK: %[[R:.*]] = flow.dispatch.region {{.*}}"rms_norm_fusion"
// CHECK: linalg.generic {{.*}} ins(%[[R]], %{{.*}} :
// WHY: element_type
func.func @no_fusion_i32(%x: tensor<8x8xf32>, %i: tensor<8x8xi32>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic #sums ins(%x : tensor<8x8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<8x8xf32>, tensor<8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %a, %r : f32
    linalg.yield %y : f32
  } -> tensor<8x8xf32>
  %y = linalg.generic #map2 ins(%n, %i : tensor<8x8xf32>, tensor<8x8xi32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: i32, %o: f32):
    %w = arith.sitofp %b : i32 to f32
    %p = arith.mulf %a, %w : f32
    linalg.yield %p : f32
  } -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// A norm is written as f32 for a contraction, and as bf16 for another reader.
// CHECK-LABEL: @widened
// CHECK: %[[R:.*]]:2 = flow.dispatch.region -> (tensor<8x8xbf16>, tensor<8x8xf32>) attributes {{.*}}"norm_epilogue_fusion"
// CHECK: arith.shli
// CHECK: flow.return
// CHECK-NOT: linalg.generic
// CHECK: return %[[R]]#1, %[[R]]#0
func.func @widened(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xbf16>) {
  %c0 = arith.constant 0.0 : f32
  %c8 = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %c16 = arith.constant 16 : i32
  %er = tensor.empty() : tensor<8xf32>
  %e = tensor.empty() : tensor<8x8xbf16>
  %ew = tensor.empty() : tensor<8x8xf32>
  %z = linalg.fill ins(%c0 : f32) outs(%er : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic #sums ins(%x : tensor<8x8xf32>) outs(%z : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %p, %o : f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  %n = linalg.generic #scaled ins(%x, %s : tensor<8x8xf32>, tensor<8xf32>) outs(%e : tensor<8x8xbf16>) {
  ^bb0(%a: f32, %b: f32, %o: bf16):
    %p = arith.divf %b, %c8 : f32
    %q = arith.addf %p, %eps : f32
    %r = math.rsqrt %q : f32
    %y = arith.mulf %a, %r : f32
    %t = arith.truncf %y : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<8x8xbf16>
  %w = linalg.generic #map ins(%n : tensor<8x8xbf16>) outs(%ew : tensor<8x8xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %p = arith.bitcast %a : bf16 to i16
    %q = arith.extui %p : i16 to i32
    %r = arith.shli %q, %c16 : i32
    %t = arith.bitcast %r : i32 to f32
    linalg.yield %t : f32
  } -> tensor<8x8xf32>
  return %w, %n : tensor<8x8xf32>, tensor<8x8xbf16>
}
