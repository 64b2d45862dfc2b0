// RUN: %if triton %{ %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=reduction_fusion,row_triton_kernel | FileCheck %s %}
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --enable-feature=kernels --pipeline=reduction_fusion,row_triton_kernel --disable-pass=row_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %mlirfuse-opt %s --split-input-file --target=cuda:sm_90 --disable-feature=kernels --pipeline=reduction_fusion,row_triton_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=FEATURE
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu --enable-feature=kernels --pipeline=reduction_fusion,row_triton_kernel | FileCheck %s --check-prefix=OFF
// OFF-NOT: hal.dispatch.extern

// A region whose rows fit a CTA; two rows of 512 at a time.
// FEATURE: row_triton_kernel
// FEATURE: needs --enable-feature=kernels
// CHECK-LABEL: @row_norm
// CHECK-SAME: %[[X:.*]]: tensor<1024x512xf16>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "row_kernel"(%[[X]]) : (tensor<1024x512xf16>) -> tensor<1024x512xf16>
// CHECK: %[[N:.*]] = arith.constant 512 : index
// CHECK: hal.return %[[N]]
// CHECK: workgroup_size = [128 : index, 1 : index, 1 : index]
// CHECK: util.return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
util.func public @row_norm(%x: tensor<1024x512xf16>) -> tensor<1024x512xf16> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<1024xf32>
  %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<1024xf32>) -> tensor<1024xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024x512xf16>) outs(%start : tensor<1024xf32>) {
  ^bb0(%in: f16, %out: f32):
    %wide = arith.extf %in : f16 to f32
    %next = arith.addf %wide, %out : f32
    linalg.yield %next : f32
  } -> tensor<1024xf32>
  %empty = tensor.empty() : tensor<1024x512xf16>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<1024x512xf16>, tensor<1024xf32>) outs(%empty : tensor<1024x512xf16>) {
  ^bb0(%in: f16, %s: f32, %out: f16):
    %wide = arith.extf %in : f16 to f32
    %part = arith.divf %wide, %s : f32
    %narrow = arith.truncf %part : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<1024x512xf16>
  util.return %y : tensor<1024x512xf16>
}

// -----

// CHECK-LABEL: @row_norm_bf16
// CHECK-SAME: %[[X:.*]]: tensor<1024x512xbf16>
// CHECK: %[[Y:.*]] = hal.dispatch.extern "row_kernel"(%[[X]]) : (tensor<1024x512xbf16>) -> tensor<1024x512xbf16>
// CHECK: %[[N:.*]] = arith.constant 512 : index
// CHECK: hal.return %[[N]]
// CHECK: workgroup_size = [128 : index, 1 : index, 1 : index]
// CHECK: util.return %[[Y]]
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
util.func public @row_norm_bf16(%x: tensor<1024x512xbf16>) -> tensor<1024x512xbf16> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<1024xf32>
  %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<1024xf32>) -> tensor<1024xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1024x512xbf16>) outs(%start : tensor<1024xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %wide = arith.extf %in : bf16 to f32
    %next = arith.addf %wide, %out : f32
    linalg.yield %next : f32
  } -> tensor<1024xf32>
  %empty = tensor.empty() : tensor<1024x512xbf16>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<1024x512xbf16>, tensor<1024xf32>) outs(%empty : tensor<1024x512xbf16>) {
  ^bb0(%in: bf16, %s: f32, %out: bf16):
    %wide = arith.extf %in : bf16 to f32
    %part = arith.divf %wide, %s : f32
    %narrow = arith.truncf %part : f32 to bf16
    linalg.yield %narrow : bf16
  } -> tensor<1024x512xbf16>
  util.return %y : tensor<1024x512xbf16>
}

// -----

// The number of rows is the kernel's last argument.
// CHECK-LABEL: @dynamic_rows
// CHECK-SAME: %[[X:.*]]: tensor<?x512xf16>
// CHECK: %[[D:.*]] = tensor.dim %[[X]]
// CHECK: %[[I:.*]] = arith.index_cast %{{.*}} : index to i32
// CHECK: hal.dispatch.extern "row_kernel"[%{{.*}}](%[[X]], %[[I]])
// CHECK: ceildivui
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
util.func public @dynamic_rows(%x: tensor<?x512xf16>) -> tensor<?x512xf16> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x512xf16>
  %low = arith.constant 0xFF800000 : f32
  %sums = tensor.empty(%d) : tensor<?xf32>
  %start = linalg.fill ins(%low : f32) outs(%sums : tensor<?xf32>) -> tensor<?xf32>
  %top = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x512xf16>) outs(%start : tensor<?xf32>) {
  ^bb0(%in: f16, %out: f32):
    %wide = arith.extf %in : f16 to f32
    %next = arith.maximumf %wide, %out : f32
    linalg.yield %next : f32
  } -> tensor<?xf32>
  %empty = tensor.empty(%d) : tensor<?x512xf16>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %top : tensor<?x512xf16>, tensor<?xf32>) outs(%empty : tensor<?x512xf16>) {
  ^bb0(%in: f16, %s: f32, %out: f16):
    %wide = arith.extf %in : f16 to f32
    %part = arith.subf %wide, %s : f32
    %narrow = arith.truncf %part : f32 to f16
    linalg.yield %narrow : f16
  } -> tensor<?x512xf16>
  util.return %y : tensor<?x512xf16>
}

// -----

// WHY-LABEL: @no_kernel_sincos
// WHY: row_triton_kernel
// WHY: the kernel cannot compute math.sincos
// CHECK-LABEL: @no_kernel_sincos
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
util.func public @no_kernel_sincos(%x: tensor<64x512xf32>) -> tensor<64x512xf32> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x512xf32>) outs(%start : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %next = arith.addf %in, %out : f32
    linalg.yield %next : f32
  } -> tensor<64xf32>
  %empty = tensor.empty() : tensor<64x512xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<64x512xf32>, tensor<64xf32>) outs(%empty : tensor<64x512xf32>) {
  ^bb0(%in: f32, %s: f32, %out: f32):
    %sine, %part = math.sincos %in : f32
    linalg.yield %part : f32
  } -> tensor<64x512xf32>
  util.return %y : tensor<64x512xf32>
}

// -----

// The reductions run over different axes.
// WHY-LABEL: @no_kernel_two_axes
// WHY: row_triton_kernel
// WHY: the ops do not share rows and columns
// CHECK-LABEL: @no_kernel_two_axes
// CHECK-NOT: hal.dispatch.extern
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#none = affine_map<(r) -> ()>
#all = affine_map<(r) -> (r)>
util.func public @no_kernel_two_axes(%x: tensor<64x512xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : tensor<64xf32>
  %total = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<64xf32>) -> tensor<64xf32>
  %first = linalg.fill ins(%zero : f32) outs(%total : tensor<f32>) -> tensor<f32>
  %y = flow.dispatch.region -> (tensor<f32>) {
    %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x512xf32>) outs(%start : tensor<64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %next = arith.addf %in, %out : f32
      linalg.yield %next : f32
    } -> tensor<64xf32>
    %every = linalg.generic {indexing_maps = [#all, #none], iterator_types = ["reduction"]} ins(%sum : tensor<64xf32>) outs(%first : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %next = arith.addf %in, %out : f32
      linalg.yield %next : f32
    } -> tensor<f32>
    flow.return %every : tensor<f32>
  }
  util.return %y : tensor<f32>
}

// -----

// Of constants alone, with two results: the first gets memory, or IREE would mix the two up.
// CHECK-LABEL: @constants
// CHECK: %[[ZEROS:.*]] = flow.tensor.splat %{{.*}} : tensor<512xi64>
// CHECK: hal.dispatch.extern "row_kernel"(%[[ZEROS]]) : (tensor<512xi64>) -> (%[[ZEROS]], tensor<512xi1>)
func.func @constants() -> (tensor<512xi64>, tensor<512xi1>) {
  %g:2 = flow.dispatch.region -> (tensor<512xi64>, tensor<512xi1>) attributes {mlirfuse.match = 0 : i64, mlirfuse.pass = "axis_reduction_fusion"} {
    %false = arith.constant false
    %e = tensor.empty() : tensor<512xi64>
    %positions = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<512xi64>) {
    ^bb0(%o: i64):
      %i = linalg.index 0 : index
      %p = arith.index_cast %i : index to i64
      linalg.yield %p : i64
    } -> tensor<512xi64>
    %w = tensor.empty() : tensor<512x512xi1>
    %odd = linalg.generic {indexing_maps = [affine_map<(q, k) -> (q)>, affine_map<(q, k) -> (q, k)>], iterator_types = ["parallel", "parallel"]} ins(%positions : tensor<512xi64>) outs(%w : tensor<512x512xi1>) {
    ^bb0(%q: i64, %o: i1):
      %c = arith.trunci %q : i64 to i1
      linalg.yield %c : i1
    } -> tensor<512x512xi1>
    %m = tensor.empty() : tensor<512xi1>
    %init = linalg.fill ins(%false : i1) outs(%m : tensor<512xi1>) -> tensor<512xi1>
    %any = linalg.generic {indexing_maps = [affine_map<(q, k) -> (q, k)>, affine_map<(q, k) -> (q)>], iterator_types = ["parallel", "reduction"]} ins(%odd : tensor<512x512xi1>) outs(%init : tensor<512xi1>) {
    ^bb0(%c: i1, %o: i1):
      %r = arith.ori %c, %o : i1
      linalg.yield %r : i1
    } -> tensor<512xi1>
    flow.return %positions, %any : tensor<512xi64>, tensor<512xi1>
  }
  return %g#0, %g#1 : tensor<512xi64>, tensor<512xi1>
}
