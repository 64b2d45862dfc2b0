// The op kinds inside a linalg op's body count too.
// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --skip-op-kind=linalg.matmul,math.rsqrt --explain -o - 2>&1 | FileCheck %s

// CHECK-NOT: flow.dispatch.region
// CHECK: skipped_op_kind (1): an op of the match is of a kind that --skip-op-kind keeps out
// CHECK: math.rsqrt
