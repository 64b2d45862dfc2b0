// A switch whose behaviour this version does not have is an error, never ignored.
// RUN: not %mlirfuse-opt %s --disable-feature=guard 2>&1 | FileCheck %s --check-prefix=FEATURE
// RUN: not env MLIRFUSE_FLAGS=--enable_feature=guard %mlirfuse-opt %s 2>&1 | FileCheck %s --check-prefix=ENV

// FEATURE: mlirfuse-opt: error: --disable-feature: feature 'guard' is not available in this version (available: data_tiling, fallback, fma, kernels)
// ENV: mlirfuse-opt: error: MLIRFUSE_FLAGS: --enable-feature: feature 'guard' is not available
util.func public @main(%x: f32) -> f32 {
  util.return %x : f32
}
