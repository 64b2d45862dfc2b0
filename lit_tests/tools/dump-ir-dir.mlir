// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --dump-ir-dir=%t.dumps -o %t.out
// RUN: FileCheck %s --check-prefix=BEFORE --input-file %t.dumps/000_rms_norm_fusion_before.mlir
// RUN: FileCheck %s --check-prefix=AFTER --input-file %t.dumps/000_rms_norm_fusion_after.mlir
// RUN: FileCheck %s --check-prefix=AFTER --input-file %t.out

// BEFORE: @first
// BEFORE-NOT: flow.dispatch.region
// AFTER: @first
// AFTER: flow.dispatch.region
