// RUN: not %mlirfuse-opt %s --must-fuse=a.mlir:1,a.mlir:2 --never-fuse=a.mlir:2 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not %mlirfuse-opt %s --fusion-limit=-1 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not %mlirfuse-opt %s --explain=json --candidates=json 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: %mlirfuse-opt %s --disable-pass=rms_norm_fusion --enable-pass=rms-norm-fusion --print-options 2>&1 | FileCheck %s --check-prefix=NOTE

// BOTH: mlirfuse-opt: error: --never-fuse and --must-fuse both name a.mlir:2
// LIMIT: mlirfuse-opt: error: --fusion-limit: takes a number of rewrites from 0, or none
// JSON: mlirfuse-opt: error: --explain=json and --candidates=json both want stdout
// NOTE: mlirfuse-opt: warning: command line: rms_norm_fusion is both disabled and enabled; disabled wins
util.func public @main(%x: f32) -> f32 {
  util.return %x : f32
}
