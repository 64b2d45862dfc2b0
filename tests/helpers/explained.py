"""Decisions, reports and a grouped module, made by hand."""

from mlirfuse.core import Decision, Kind, Reason, Report

HOSTILE = "</script><script>document.body.dataset.broken='yes'</script>\x1b[31m\u202e<!--"


def decision(**changes):
    entry = {
        "pass_name": "add_rms_norm_fusion",
        "match": 0,
        "kind": Kind.PRODUCER_CONSUMER,
        "function": "main",
        "ops": ("net/model.py:10:3", "net/model.py:12:5", "net/model.py:12:5"),
        "op_names": ("linalg.generic",) * 3,
        "taken": True,
        "bytes_saved": 3 * 1024 * 1024,
        "gain_us": 42.0,
    }
    if changes.get("reason"):
        entry |= {"taken": False, "match": None}
    return Decision(**(entry | changes))


def report(*decisions, **changes):
    return Report(target="cpu", iree="3.13.0", options={}, decisions=list(decisions), **changes)


REFUSED = decision(
    reason=Reason.EXTRA_USERS,
    detail="%7 is read by linalg.matmul",
    ops=("net/model.py:20:1", "net/model.py:21:9"),
    op_names=("linalg.generic", "linalg.reduce"),
    gain_us=50.5,
)

FUSED = """
#m = affine_map<(a, b) -> (a, b)>
util.func public @main(%x: tensor<4x8xf32>, %y: tensor<?x8xf32>) -> (tensor<4x8xf32>, tensor<?x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = flow.dispatch.region -> (tensor<4x8xf32>)
      attributes {mlirfuse.match = 3 : i64, mlirfuse.pass = "softmax_fusion"} {
    %1 = linalg.copy {mlirfuse.match = 0 : i64, mlirfuse.pass = "transpose_matmul_fusion"}
      ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
    flow.return %1 : tensor<4x8xf32>
  }
  %2 = tensor.collapse_shape %0 [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %3 = tensor.expand_shape %2 [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>
  %4 = linalg.copy {mlirfuse.match = 1 : i64, mlirfuse.pass = "transpose_matmul_fusion"}
    ins(%3 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = linalg.copy ins(%y : tensor<?x8xf32>) outs(%y : tensor<?x8xf32>) -> tensor<?x8xf32>
  %6 = linalg.copy ins(%5 : tensor<?x8xf32>) outs(%y : tensor<?x8xf32>) -> tensor<?x8xf32>
  util.return %4, %6 : tensor<4x8xf32>, tensor<?x8xf32>
}
"""  # noqa: E501
