// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=image_widening_rewrite | FileCheck %s
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=image_widening_rewrite --disable-pass=image_widening_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:sapphirerapids --pipeline=image_widening_rewrite | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --split-input-file --target=cpu:x86-64-v3 --pipeline=image_widening_rewrite --explain -o %t 2>&1 | FileCheck %s --check-prefix=WHY
// OFF-NOT: arith.extui

// Two layers read one image.
// CHECK-LABEL: @two
// CHECK-SAME: (%[[X:.*]]: tensor<64x96xbf16>)
// CHECK: %[[I:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<64x96xbf16>) outs(%{{.*}} : tensor<64x96xf32>)
// CHECK: arith.bitcast %{{.*}} : bf16 to i16
// CHECK: arith.extui
// CHECK: arith.shli
// CHECK: arith.bitcast %{{.*}} : i32 to f32
// CHECK-NOT: ins(%[[X]]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[I]], %{{.*}} : tensor<64x96xf32>, tensor<96x128xbf16>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[W:.*]]: bf16, %[[S:.*]]: f32):
// CHECK-NEXT: %[[V:.*]] = arith.extf %[[W]] : bf16 to f32
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[A]], %[[V]]
// CHECK-NEXT: %[[T:.*]] = arith.addf %[[S]], %[[P]]
// CHECK-NEXT: linalg.yield %[[T]]
// CHECK: linalg.generic {{.*}} ins(%[[I]], %{{.*}} : tensor<64x96xf32>, tensor<96x256xbf16>)
util.global private @a : tensor<96x128xbf16>
util.global private @b : tensor<96x256xbf16>
util.func public @two(%x: tensor<64x96xbf16>) -> (tensor<64x128xf32>, tensor<64x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %a = util.global.load immutable @a : tensor<96x128xbf16>
  %b = util.global.load immutable @b : tensor<96x256xbf16>
  %e = tensor.empty() : tensor<64x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  %y = linalg.matmul ins(%x, %a : tensor<64x96xbf16>, tensor<96x128xbf16>) outs(%f : tensor<64x128xf32>) -> tensor<64x128xf32>
  %g = tensor.empty() : tensor<64x256xf32>
  %h = linalg.fill ins(%zero : f32) outs(%g : tensor<64x256xf32>) -> tensor<64x256xf32>
  %z = linalg.matmul ins(%x, %b : tensor<64x96xbf16>, tensor<96x256xbf16>) outs(%h : tensor<64x256xf32>) -> tensor<64x256xf32>
  util.return %y, %z : tensor<64x128xf32>, tensor<64x256xf32>
}

// -----

// CHECK-LABEL: @few_rows
// CHECK-NOT: arith.extui
// WHY: not_profitable (1)
// WHY: 16 rows of the image, 128 columns
util.global private @w : tensor<96x128xbf16>
util.func public @few_rows(%x: tensor<16x96xbf16>) -> tensor<16x128xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load immutable @w : tensor<96x128xbf16>
  %e = tensor.empty() : tensor<16x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x128xf32>) -> tensor<16x128xf32>
  %y = linalg.matmul ins(%x, %w : tensor<16x96xbf16>, tensor<96x128xbf16>) outs(%f : tensor<16x128xf32>) -> tensor<16x128xf32>
  util.return %y : tensor<16x128xf32>
}

// -----

// CHECK-LABEL: @few_columns
// CHECK-NOT: arith.extui
// WHY: not_profitable (1)
// WHY: 64 rows of the image, 64 columns
util.global private @w : tensor<96x64xbf16>
util.func public @few_columns(%x: tensor<64x96xbf16>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load immutable @w : tensor<96x64xbf16>
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = linalg.matmul ins(%x, %w : tensor<64x96xbf16>, tensor<96x64xbf16>) outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  util.return %y : tensor<64x64xf32>
}

// -----

// No operand is constant: neither is known to be the filter.
// CHECK-LABEL: @no_filter
// CHECK-NOT: arith.extui
util.func public @no_filter(%x: tensor<64x96xbf16>, %w: tensor<96x128xbf16>) -> tensor<64x128xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  %y = linalg.matmul ins(%x, %w : tensor<64x96xbf16>, tensor<96x128xbf16>) outs(%f : tensor<64x128xf32>) -> tensor<64x128xf32>
  util.return %y : tensor<64x128xf32>
}

// -----

// f16 is widened by one instruction from memory.
// CHECK-LABEL: @half
// CHECK-NOT: arith.extui
util.global private @w : tensor<96x128xf16>
util.func public @half(%x: tensor<64x96xf16>) -> tensor<64x128xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load immutable @w : tensor<96x128xf16>
  %e = tensor.empty() : tensor<64x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  %y = linalg.matmul ins(%x, %w : tensor<64x96xf16>, tensor<96x128xf16>) outs(%f : tensor<64x128xf32>) -> tensor<64x128xf32>
  util.return %y : tensor<64x128xf32>
}

// -----

// The second operand is the image.
// CHECK-LABEL: @second
// CHECK: %[[I:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<96x64xbf16>) outs(%{{.*}} : tensor<96x64xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[I]] : tensor<128x96xbf16>, tensor<96x64xf32>)
util.global private @w : tensor<128x96xbf16>
util.func public @second(%x: tensor<96x64xbf16>) -> tensor<128x64xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load immutable @w : tensor<128x96xbf16>
  %e = tensor.empty() : tensor<128x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<128x64xf32>) -> tensor<128x64xf32>
  %y = linalg.matmul ins(%w, %x : tensor<128x96xbf16>, tensor<96x64xbf16>) outs(%f : tensor<128x64xf32>) -> tensor<128x64xf32>
  util.return %y : tensor<128x64xf32>
}

// -----

// A reshape, which has no body, reads the image, too.
// CHECK-LABEL: @reshaped
// CHECK-SAME: (%[[X:.*]]: tensor<64x96xbf16>)
// CHECK-DAG: tensor.expand_shape %[[X]]
// CHECK-DAG: linalg.generic {{.*}} ins(%[[X]] : tensor<64x96xbf16>) outs(%{{.*}} : tensor<64x96xf32>)
util.global private @w : tensor<96x128xbf16>
util.func public @reshaped(%x: tensor<64x96xbf16>) -> (tensor<64x128xf32>, tensor<8x8x96xbf16>) {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load immutable @w : tensor<96x128xbf16>
  %e = tensor.empty() : tensor<64x128xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64x128xf32>) -> tensor<64x128xf32>
  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [8, 8, 96] : tensor<64x96xbf16> into tensor<8x8x96xbf16>
  %y = linalg.matmul ins(%x, %w : tensor<64x96xbf16>, tensor<96x128xbf16>) outs(%f : tensor<64x128xf32>) -> tensor<64x128xf32>
  util.return %y, %r : tensor<64x128xf32>, tensor<8x8x96xbf16>
}
