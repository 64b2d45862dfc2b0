// RUN: %mlirfuse-opt %S/Inputs/two_norms.mlir --pipeline=rms_norm_fusion --disable-pass=rms_norm_fusion@match=1 --explain --candidates --why=two_norms.mlir:37,two_norms.mlir:45 --timing -o %t.out 2>&1 | FileCheck %s

// CHECK: function @first
// CHECK: rms_norm_fusion match 0: 2 ops
// CHECK: function @second
// CHECK: disabled (1): the pass, or this match of it, is switched off
// CHECK-NEXT: hint:
// CHECK: rank {{ *}}kind {{ *}}pass
// CHECK: no: two_norms.mlir:37 and two_norms.mlir:45 are in no common group
// CHECK: seconds  share  part
// CHECK: rms_norm_fusion
// CHECK: 100.0%  total
