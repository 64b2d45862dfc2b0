// RUN: %mlirfuse-opt %s --explain 2>&1 | FileCheck %s --check-prefix=OFF
// RUN: %mlirfuse-opt %s --single-op-groups | FileCheck %s --check-prefix=ON

// OFF-NOT: flow.dispatch.region
// OFF: single_op (1): the group would hold one op
// OFF-NEXT: hint: allow it with --single-op-groups

// ON: %[[P:.*]] = flow.dispatch.region {{.*}}mlirfuse.pass = "elementwise_fusion"
// ON: linalg.generic
// ON: util.return %[[P]]
#id = affine_map<(d0) -> (d0)>
util.func public @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %a, %a : f32
    linalg.yield %m : f32
  } -> tensor<64xf32>
  util.return %y : tensor<64xf32>
}
