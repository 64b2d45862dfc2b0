// Ours and MLIR's passes in one string, with options and an anchor.
// RUN: %mlirfuse-opt %s --pipeline='cse,RMS-norm-fusion,util.func(canonicalize{max-iterations=2})' -v 2>%t.log | FileCheck %s
// RUN: FileCheck %s --check-prefix=LOG --input-file %t.log

// LOG: cse: {{[0-9.]+}} ms
// LOG-NEXT: rms_norm_fusion: 0 rewrites, {{[0-9.]+}} ms
// LOG-NEXT: util.func(canonicalize{max-iterations=2}): {{[0-9.]+}} ms

// CHECK: %[[P:.*]] = arith.addf %arg0, %arg0
// CHECK-NEXT: arith.mulf %[[P]], %[[P]]
// CHECK-NEXT: util.return
util.func public @main(%x: f32, %dead: f32) -> f32 {
  %a = arith.addf %x, %x : f32
  %b = arith.addf %x, %x : f32
  %y = arith.mulf %a, %b : f32
  util.return %y : f32
}
