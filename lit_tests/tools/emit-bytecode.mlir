// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --emit-bytecode | %mlirfuse-opt - --pipeline=none --mlir-print-debuginfo | FileCheck %s

// CHECK: @first
// CHECK: flow.dispatch.region {{.*}}mlirfuse.match = 0 : i64, mlirfuse.pass = "rms_norm_fusion"
// CHECK: loc("{{.*}}two_norms.mlir":
