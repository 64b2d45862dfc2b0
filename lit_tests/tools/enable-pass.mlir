// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --enable-pass=rms_norm_fusion@match=1 | FileCheck %s
// RUN: env MLIRFUSE_FLAGS="--disable_pass=rms_norm_fusion" %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --enable-pass=rms_norm_fusion@func=second | FileCheck %s
// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --enable-pass=rms_norm_fusion --disable-pass=rms_norm_fusion@func=first | FileCheck %s

// CHECK: @first
// CHECK-NOT: flow.dispatch.region
// CHECK: @second
// CHECK: flow.dispatch.region {{.*}}mlirfuse.match = 1 : i64, mlirfuse.pass = "rms_norm_fusion"
