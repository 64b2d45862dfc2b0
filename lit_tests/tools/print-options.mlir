// RUN: env MLIRFUSE_FLAGS="--numerics=exact --fusion_limit=4" %mlirfuse-opt --print-options --fusion-limit=2 | FileCheck %s

// CHECK: [tool.mlirfuse]
// CHECK-NEXT: load_pass = [] {{ *}}# default
// CHECK-NEXT: pipeline = "default" {{ *}}# default
// CHECK: numerics = "exact" {{ *}}# MLIRFUSE_FLAGS
// CHECK: fusion_limit = 2 {{ *}}# command line
