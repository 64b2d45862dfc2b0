// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=attention_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=attention_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

// Two query heads read each head of k and v; the mask is computed from the indices.
// WHY-LABEL: @causal
// WHY: attention_triton_kernel
// WHY: needs --enable-feature=kernels
// CHECK-LABEL: @causal
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x2x128x64xf16>, %[[K:.*]]: tensor<2x4x128x64xf16>, %[[V:.*]]: tensor<2x4x128x64xf16>
// CHECK: %[[O:.*]] = hal.dispatch.extern "attention_kernel"(%[[Q]], %[[K]], %[[V]])
// CHECK: util.return %[[O]]
#q = affine_map<(b, h, g, m, n, d, k) -> (b, h, g, m, d)>
#k = affine_map<(b, h, g, m, n, d, k) -> (b, h, k, d)>
#v = affine_map<(b, h, g, m, n, d, k) -> (b, h, k, n)>
#scale = affine_map<(b, h, g, m, n, d, k) -> ()>
#mask = affine_map<(b, h, g, m, n, d, k) -> (m, k)>
#out = affine_map<(b, h, g, m, n, d, k) -> (b, h, g, m, n)>
#id = affine_map<(m, k) -> (m, k)>
util.func public @causal(%q: tensor<2x4x2x128x64xf16>, %k: tensor<2x4x128x64xf16>, %v: tensor<2x4x128x64xf16>) -> tensor<2x4x2x128x64xf16> {
  %scale = arith.constant 0.125 : f32
  %y = flow.dispatch.region -> (tensor<2x4x2x128x64xf16>) {
    %seen = tensor.empty() : tensor<128x128xi1>
    %mask = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%seen : tensor<128x128xi1>) {
    ^bb0(%out: i1):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %r = arith.cmpi sge, %i, %j : index
      linalg.yield %r : i1
    } -> tensor<128x128xi1>
    %empty = tensor.empty() : tensor<2x4x2x128x64xf16>
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #scale, #mask, #out]> ins(%q, %k, %v, %scale, %mask : tensor<2x4x2x128x64xf16>, tensor<2x4x128x64xf16>, tensor<2x4x128x64xf16>, f32, tensor<128x128xi1>) outs(%empty : tensor<2x4x2x128x64xf16>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
    } -> tensor<2x4x2x128x64xf16>
    flow.return %o : tensor<2x4x2x128x64xf16>
  }
  util.return %y : tensor<2x4x2x128x64xf16>
}

// -----

// WHY-LABEL: @causal_bf16
// WHY: attention_triton_kernel
// WHY: needs --enable-feature=kernels
// CHECK-LABEL: @causal_bf16
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x2x128x64xbf16>, %[[K:.*]]: tensor<2x4x128x64xbf16>, %[[V:.*]]: tensor<2x4x128x64xbf16>
// CHECK: %[[O:.*]] = hal.dispatch.extern "attention_kernel"(%[[Q]], %[[K]], %[[V]])
// CHECK: util.return %[[O]]
#q = affine_map<(b, h, g, m, n, d, k) -> (b, h, g, m, d)>
#k = affine_map<(b, h, g, m, n, d, k) -> (b, h, k, d)>
#v = affine_map<(b, h, g, m, n, d, k) -> (b, h, k, n)>
#scale = affine_map<(b, h, g, m, n, d, k) -> ()>
#mask = affine_map<(b, h, g, m, n, d, k) -> (m, k)>
#out = affine_map<(b, h, g, m, n, d, k) -> (b, h, g, m, n)>
#id = affine_map<(m, k) -> (m, k)>
util.func public @causal_bf16(%q: tensor<2x4x2x128x64xbf16>, %k: tensor<2x4x128x64xbf16>, %v: tensor<2x4x128x64xbf16>) -> tensor<2x4x2x128x64xbf16> {
  %scale = arith.constant 0.125 : f32
  %y = flow.dispatch.region -> (tensor<2x4x2x128x64xbf16>) {
    %seen = tensor.empty() : tensor<128x128xi1>
    %mask = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%seen : tensor<128x128xi1>) {
    ^bb0(%out: i1):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %r = arith.cmpi sge, %i, %j : index
      linalg.yield %r : i1
    } -> tensor<128x128xi1>
    %empty = tensor.empty() : tensor<2x4x2x128x64xbf16>
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #scale, #mask, #out]> ins(%q, %k, %v, %scale, %mask : tensor<2x4x2x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, f32, tensor<128x128xi1>) outs(%empty : tensor<2x4x2x128x64xbf16>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
    } -> tensor<2x4x2x128x64xbf16>
    flow.return %o : tensor<2x4x2x128x64xbf16>
  }
  util.return %y : tensor<2x4x2x128x64xbf16>
}

// -----

// CHECK-LABEL: @attention_of_f32
// CHECK-SAME: %[[Q:.*]]: tensor<2x128x64xf32>, %[[K:.*]]: tensor<2x128x64xf32>, %[[V:.*]]: tensor<2x128x64xf32>
// CHECK: hal.dispatch.extern "attention_kernel"(%[[Q]], %[[K]], %[[V]])
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#scale = affine_map<(b, m, n, d, k) -> ()>
#out = affine_map<(b, m, n, d, k) -> (b, m, n)>
util.func public @attention_of_f32(%q: tensor<2x128x64xf32>, %k: tensor<2x128x64xf32>, %v: tensor<2x128x64xf32>) -> tensor<2x128x64xf32> {
  %scale = arith.constant 0.125 : f32
  %y = flow.dispatch.region -> (tensor<2x128x64xf32>) {
    %empty = tensor.empty() : tensor<2x128x64xf32>
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #scale, #out]> ins(%q, %k, %v, %scale : tensor<2x128x64xf32>, tensor<2x128x64xf32>, tensor<2x128x64xf32>, f32) outs(%empty : tensor<2x128x64xf32>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
    } -> tensor<2x128x64xf32>
    flow.return %o : tensor<2x128x64xf32>
  }
  util.return %y : tensor<2x128x64xf32>
}

// -----

// WHY-LABEL: @no_kernel_f64
// WHY: element_type
// WHY: attention_triton_kernel
// WHY: attention in f64
// CHECK-LABEL: @no_kernel_f64
// CHECK-NOT: hal.dispatch.extern
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#scale = affine_map<(b, m, n, d, k) -> ()>
#out = affine_map<(b, m, n, d, k) -> (b, m, n)>
util.func public @no_kernel_f64(%q: tensor<2x128x64xf64>, %k: tensor<2x128x64xf64>, %v: tensor<2x128x64xf64>) -> tensor<2x128x64xf64> {
  %scale = arith.constant 0.125 : f64
  %y = flow.dispatch.region -> (tensor<2x128x64xf64>) {
    %empty = tensor.empty() : tensor<2x128x64xf64>
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #scale, #out]> ins(%q, %k, %v, %scale : tensor<2x128x64xf64>, tensor<2x128x64xf64>, tensor<2x128x64xf64>, f64) outs(%empty : tensor<2x128x64xf64>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
    } -> tensor<2x128x64xf64>
    flow.return %o : tensor<2x128x64xf64>
  }
  util.return %y : tensor<2x128x64xf64>
}

// -----

// All sizes but the head's are dynamic, passed as 32-bit constants; queries and batch make the grid.
// CHECK-LABEL: @dynamic_sizes
// CHECK-SAME: %[[Q:.*]]: tensor<?x?x64xf16>, %[[K:.*]]: tensor<?x?x64xf16>, %[[V:.*]]: tensor<?x?x64xf16>
// CHECK: %[[B:.*]] = tensor.dim %[[Q]],
// CHECK: %[[M:.*]] = tensor.dim %[[Q]],
// CHECK: %[[N:.*]] = tensor.dim %[[K]],
// CHECK: %[[B32:.*]] = arith.index_cast %[[B]] : index to i32
// CHECK: %[[M32:.*]] = arith.index_cast %[[M]] : index to i32
// CHECK: %[[N32:.*]] = arith.index_cast %[[N]] : index to i32
// CHECK: %[[O:.*]] = hal.dispatch.extern "attention_kernel"[%[[B]], %[[M]], %[[N]]](%[[Q]], %[[K]], %[[V]], %[[B32]], %[[M32]], %[[N32]])
// CHECK-SAME: count(%{{.*}}: !hal.device, %[[WB:.*]]: index, %[[WM:.*]]: index, %{{.*}}: index)
// CHECK: %[[X:.*]] = arith.muli %{{.*}}, %[[WM]] : index
// CHECK: %[[C:.*]] = arith.ceildivui %[[X]],
// CHECK: %[[Y:.*]] = arith.muli %{{.*}}, %[[WB]] : index
// CHECK: %[[G:.*]] = arith.muli %[[C]], %[[Y]] : index
// CHECK: hal.return %[[G]],
// CHECK: util.return %[[O]]
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#scale = affine_map<(b, m, n, d, k) -> ()>
#out = affine_map<(b, m, n, d, k) -> (b, m, n)>
util.func public @dynamic_sizes(%q: tensor<?x?x64xf16>, %k: tensor<?x?x64xf16>, %v: tensor<?x?x64xf16>, %b: index, %m: index) -> tensor<?x?x64xf16> {
  %scale = arith.constant 0.125 : f32
  %y = flow.dispatch.region -> (tensor<?x?x64xf16>{%b, %m}) {
    %empty = tensor.empty(%b, %m) : tensor<?x?x64xf16>
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #scale, #out]> ins(%q, %k, %v, %scale : tensor<?x?x64xf16>, tensor<?x?x64xf16>, tensor<?x?x64xf16>, f32) outs(%empty : tensor<?x?x64xf16>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
    } -> tensor<?x?x64xf16>
    flow.return %o : tensor<?x?x64xf16>
  }
  util.return %y : tensor<?x?x64xf16>
}

// -----

// WHY-LABEL: @no_kernel_dynamic_heads
// WHY: dynamic_shape
// WHY: attention_triton_kernel
// WHY: of the heads and batches only the first size may be dynamic
// CHECK-LABEL: @no_kernel_dynamic_heads
// CHECK-NOT: hal.dispatch.extern
#q = affine_map<(b, h, m, n, d, k) -> (b, h, m, d)>
#k = affine_map<(b, h, m, n, d, k) -> (b, h, k, d)>
#v = affine_map<(b, h, m, n, d, k) -> (b, h, k, n)>
#scale = affine_map<(b, h, m, n, d, k) -> ()>
#out = affine_map<(b, h, m, n, d, k) -> (b, h, m, n)>
util.func public @no_kernel_dynamic_heads(%q: tensor<2x?x128x64xf16>, %k: tensor<2x?x128x64xf16>, %v: tensor<2x?x128x64xf16>, %h: index) -> tensor<2x?x128x64xf16> {
  %scale = arith.constant 0.125 : f32
  %y = flow.dispatch.region -> (tensor<2x?x128x64xf16>{%h}) {
    %empty = tensor.empty(%h) : tensor<2x?x128x64xf16>
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #scale, #out]> ins(%q, %k, %v, %scale : tensor<2x?x128x64xf16>, tensor<2x?x128x64xf16>, tensor<2x?x128x64xf16>, f32) outs(%empty : tensor<2x?x128x64xf16>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
    } -> tensor<2x?x128x64xf16>
    flow.return %o : tensor<2x?x128x64xf16>
  }
  util.return %y : tensor<2x?x128x64xf16>
}

// -----

// WHY-LABEL: @no_kernel_dynamic_head_size
// WHY: dynamic_shape
// WHY: attention_triton_kernel
// WHY: the head size
// CHECK-LABEL: @no_kernel_dynamic_head_size
// CHECK-NOT: hal.dispatch.extern
#q = affine_map<(b, m, n, d, k) -> (b, m, d)>
#k = affine_map<(b, m, n, d, k) -> (b, k, d)>
#v = affine_map<(b, m, n, d, k) -> (b, k, n)>
#scale = affine_map<(b, m, n, d, k) -> ()>
#out = affine_map<(b, m, n, d, k) -> (b, m, n)>
util.func public @no_kernel_dynamic_head_size(%q: tensor<2x128x?xf16>, %k: tensor<2x128x?xf16>, %v: tensor<2x128x64xf16>) -> tensor<2x128x64xf16> {
  %scale = arith.constant 0.125 : f32
  %y = flow.dispatch.region -> (tensor<2x128x64xf16>) {
    %empty = tensor.empty() : tensor<2x128x64xf16>
    %o = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #scale, #out]> ins(%q, %k, %v, %scale : tensor<2x128x?xf16>, tensor<2x128x?xf16>, tensor<2x128x64xf16>, f32) outs(%empty : tensor<2x128x64xf16>) {
    ^bb0(%s: f32):
      iree_linalg_ext.yield %s : f32
    } -> tensor<2x128x64xf16>
    flow.return %o : tensor<2x128x64xf16>
  }
  util.return %y : tensor<2x128x64xf16>
}
