// RUN: %mlirfuse-opt --list-passes | FileCheck %s

// CHECK: rms_norm_fusion {{ *}}exact {{ *}}cpu,cuda,rocm,vulkan
// CHECK-NEXT: RMS norm
