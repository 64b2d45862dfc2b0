// RUN: %mlirfuse-opt %s --pipeline=cse --split-input-file | FileCheck %s

// CHECK-LABEL: util.func public @first
// CHECK: %[[P:.*]] = arith.addf %arg0, %arg0
// CHECK-NEXT: arith.mulf %[[P]], %[[P]]
util.func public @first(%x: f32) -> f32 {
  %a = arith.addf %x, %x : f32
  %b = arith.addf %x, %x : f32
  %y = arith.mulf %a, %b : f32
  util.return %y : f32
}

// CHECK: // -----
// -----

// The same symbol again: sections do not see each other.
// CHECK-LABEL: util.func public @first
util.func public @first(%x: f32) -> f32 {
  util.return %x : f32
}
