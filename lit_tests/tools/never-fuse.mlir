// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --never-fuse=two_norms.mlir:18 --why=two_norms.mlir:10,two_norms.mlir:18 2>%t.why | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file %t.why

// CHECK: @first
// CHECK-NOT: flow.dispatch.region
// CHECK: @second
// CHECK: flow.dispatch.region

// WHY: no: two_norms.mlir:10 and two_norms.mlir:18 are in no common group
// WHY: an op of the match is marked never-fuse: two_norms.mlir:18
