// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --fusion-limit=1 --explain 2>&1 | FileCheck %s

// CHECK-DAG: fusion_limit (1): the number of applied rewrites reached --fusion-limit
// CHECK-DAG: flow.dispatch.region {{.*}}mlirfuse.match = 0 : i64
// CHECK-DAG: rewrites: rms_norm_fusion 1
