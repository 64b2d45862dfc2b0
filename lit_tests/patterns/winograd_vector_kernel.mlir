// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=winograd_vector_kernel | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --disable-feature=kernels --pipeline=winograd_vector_kernel | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=winograd_vector_kernel --explain 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY

// Windows of 6x6 elements give 4x4 outputs; the filter is transformed when the program is loaded.
#x = affine_map<(b, y, x, n, i, j, c) -> (b, y + i, x + j, c)>
#w = affine_map<(b, y, x, n, i, j, c) -> (n, i, j, c)>
#y = affine_map<(b, y, x, n, i, j, c) -> (b, y, x, n)>
#a = affine_map<(b, y, x, n) -> (b, y, x, n)>
// CHECK: hal.executable.source private @[[EXE:vector_kernel_[0-9a-f]+]]
// CHECK: hal.executable.export public @[[ENTRY:winograd_[0-9a-f]+]]
// CHECK: util.global private @transformed_filter : tensor<147456xf32>
// CHECK-LABEL: func.func @convolution
// CHECK: %[[W:.+]] = util.global.load {{.*}}@transformed_filter
// CHECK: %[[Y:.+]]:2 = flow.dispatch @[[EXE]]::@[[ENTRY]]({{.*}}%[[W]]
// CHECK: return %[[Y]]#0 : tensor<1x56x56x64xf32>
// OFF-LABEL: func.func @convolution
// OFF: flow.dispatch.region
func.func @convolution(%x: tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32> {
  %w = arith.constant dense<1.0> : tensor<64x3x3x64xf32>
  %zero = arith.constant 0.0 : f32
  %r = flow.dispatch.region -> (tensor<1x56x56x64xf32>) {
    %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
    ^bb0(%i: index, %j: index, %k: index, %l: index):
      tensor.yield %zero : f32
    } : tensor<1x56x56x64xf32> to tensor<1x58x58x64xf32>
    %e = tensor.empty() : tensor<1x56x56x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
        ins(%p, %w : tensor<1x58x58x64xf32>, tensor<64x3x3x64xf32>) outs(%f : tensor<1x56x56x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x56x56x64xf32>
    %u = linalg.generic {indexing_maps = [#a, #a], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%c : tensor<1x56x56x64xf32>) outs(%e : tensor<1x56x56x64xf32>) {
    ^bb0(%a: f32, %o: f32):
      %t = arith.maximumf %a, %zero : f32
      linalg.yield %t : f32
    } -> tensor<1x56x56x64xf32>
    flow.return %u : tensor<1x56x56x64xf32>
  }
  return %r : tensor<1x56x56x64xf32>
}

// -----

// A filter that is an argument would be transformed in each call.
#x = affine_map<(b, y, x, n, i, j, c) -> (b, y + i, x + j, c)>
#w = affine_map<(b, y, x, n, i, j, c) -> (n, i, j, c)>
#y = affine_map<(b, y, x, n, i, j, c) -> (b, y, x, n)>
// CHECK-LABEL: func.func @computed_filter
// CHECK: flow.dispatch.region
// WHY: winograd_vector_kernel
// WHY: not_profitable
// WHY: the filter is no constant: each call transforms it
func.func @computed_filter(%x: tensor<1x58x58x64xf32>, %w: tensor<64x3x3x64xf32>) -> tensor<1x56x56x64xf32> {
  %zero = arith.constant 0.0 : f32
  %r = flow.dispatch.region -> (tensor<1x56x56x64xf32>) {
    %e = tensor.empty() : tensor<1x56x56x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
        ins(%x, %w : tensor<1x58x58x64xf32>, tensor<64x3x3x64xf32>) outs(%f : tensor<1x56x56x64xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x56x56x64xf32>
    flow.return %c : tensor<1x56x56x64xf32>
  }
  return %r : tensor<1x56x56x64xf32>
}

// -----

// With few channels the transforms take longer than they save.
#x = affine_map<(b, y, x, n, i, j, c) -> (b, y + i, x + j, c)>
#w = affine_map<(b, y, x, n, i, j, c) -> (n, i, j, c)>
#y = affine_map<(b, y, x, n, i, j, c) -> (b, y, x, n)>
// CHECK-LABEL: func.func @few_channels
// CHECK: flow.dispatch.region
// WHY: winograd_vector_kernel
// WHY: sums over taps take less than {{.*}} times as long in the model
func.func @few_channels(%x: tensor<1x58x58x3xf32>) -> tensor<1x56x56x8xf32> {
  %w = arith.constant dense<1.0> : tensor<8x3x3x3xf32>
  %zero = arith.constant 0.0 : f32
  %r = flow.dispatch.region -> (tensor<1x56x56x8xf32>) {
    %e = tensor.empty() : tensor<1x56x56x8xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x56x56x8xf32>) -> tensor<1x56x56x8xf32>
    %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
        ins(%x, %w : tensor<1x58x58x3xf32>, tensor<8x3x3x3xf32>) outs(%f : tensor<1x56x56x8xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<1x56x56x8xf32>
    flow.return %c : tensor<1x56x56x8xf32>
  }
  return %r : tensor<1x56x56x8xf32>
}
