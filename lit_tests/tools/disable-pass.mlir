// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --disable-pass=RMS-Norm-Fusion | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --disable-pass=rms_norm_fusion@match=0 | FileCheck %s --check-prefix=MATCH
// RUN: env MLIRFUSE_FLAGS="--disable_pass=rms_norm_fusion@func=second" %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion | FileCheck %s --check-prefix=FUNC

// OFF: @first
// OFF-NOT: flow.dispatch.region
// OFF: @second
// OFF-NOT: flow.dispatch.region

// MATCH: @first
// MATCH-NOT: flow.dispatch.region
// MATCH: @second
// MATCH: flow.dispatch.region {{.*}}mlirfuse.match = 1 : i64, mlirfuse.pass = "rms_norm_fusion"

// FUNC: @first
// FUNC: flow.dispatch.region {{.*}}mlirfuse.match = 0 : i64, mlirfuse.pass = "rms_norm_fusion"
// FUNC: @second
// FUNC-NOT: flow.dispatch.region
