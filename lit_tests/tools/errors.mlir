// RUN: not %mlirfuse-opt %s -o %t.none 2>&1 | FileCheck %s --check-prefix=PARSE
// RUN: not %mlirfuse-opt %s --disable-pass=rms_norm 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not %mlirfuse-opt %s --target=tpu 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not test -e %t.none

// PARSE: errors.mlir:11:23: error: use of undeclared SSA value name
// PASS: mlirfuse-opt: error: --disable-pass: unknown pass 'rms_norm'; did you mean 'rms_norm_fusion'?
// TARGET: mlirfuse-opt: error: unknown target 'tpu'
util.func public @main(%x: f32) -> f32 {
  // The parser names line and column in this file.
  %y = arith.addf %x, %nothing : f32
  util.return %y : f32
}
