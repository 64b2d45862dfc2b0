// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --fusion-limit=1 --explain 2>%t.log | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file %t.log

// CHECK: @first
// CHECK: flow.dispatch.region
// CHECK: @second
// CHECK-NOT: flow.dispatch.region

// WHY: fusion_limit (1): the number of applied rewrites reached --fusion-limit
