// RUN: not %mlirfuse-opt %s --pipeline=none --split-input-file --verify-diagnostics 2>&1 | FileCheck %s

// CHECK: verify-diagnostics-fails.mlir:5:8: error: unexpected error: 'arith.addf' op operand #0
util.func public @not_expected(%x: i32) -> i32 {
  %y = arith.addf %x, %x : i32
  util.return %y : i32
}

// -----

// CHECK-NEXT: verify-diagnostics-fails.mlir:12:1: error: expected error did not come: no such thing
// expected-error @+0 {{no such thing}}
util.func public @fine(%x: i32) -> i32 {
  util.return %x : i32
}
