"""`--must-fuse` and marks hold in the engine's groups and in IREE's dispatches."""

from pathlib import Path

import pytest
import torch

import mlirfuse
from mlirfuse import explain
from mlirfuse.core import MustFuseError, Reason


class Block(torch.nn.Module):
    """A norm, and more of its row, in one marked block."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x):
        with mlirfuse.region("row", fuse="must"):
            y = torch.tanh(self.norm(x)) * 2
        return y @ y.T


def compiled(**switches):
    return mlirfuse.compile(Block().eval(), (torch.ones(8, 32),), cache=False, **switches)


def test_no_pass_takes_some_ops_of_a_required_group():
    program = compiled()
    assert program.report.counts()["reduction_fusion"] == 1
    (refused,) = [d for d in program.report.decisions if d.pass_name == "layer_norm_fusion"]
    assert refused.reason is Reason.MUST_FUSE
    assert refused.detail.startswith("mlirfuse.region 'row' has ")
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(program(x), Block().eval()(x), rtol=1e-4, atol=1e-4)


def test_the_dispatches_are_checked():
    """The row's group is off: IREE forms several dispatches of the block."""
    with pytest.raises(
        MustFuseError, match=r"region 'row': the ops are in \d+ dispatches of @main"
    ):
        compiled(pipeline="cse")


POOLED = """
#m = affine_map<(a, b, c, d) -> (a, b, c, d)>
func.func @main(%x: tensor<1x8x8x4xf32>, %s: tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32> {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x4x4x4xf32>
  %w = tensor.empty() : tensor<2x2xf32>
  %i = linalg.fill ins(%low : f32) outs(%e : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %p = linalg.pooling_nhwc_max {strides = dense<2> : vector<2xi64>}
    ins(%x, %w : tensor<1x8x8x4xf32>, tensor<2x2xf32>)
    outs(%i : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %a = linalg.generic {indexing_maps = [#m, #m, #m], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%p, %s : tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) outs(%e : tensor<1x4x4x4xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %q = arith.mulf %u, %v : f32
    linalg.yield %q : f32
  } -> tensor<1x4x4x4xf32>
  return %a : tensor<1x4x4x4xf32>
}
"""  # noqa: E501


def test_ops_that_iree_fuses_fulfill_it(tmp_path):
    """No pass takes the two: IREE makes one dispatch of them, which is the program that runs."""
    path = tmp_path / "pooled.mlir"
    path.write_text(POOLED)
    switches = {"disable_feature": ("kernels",), "pipeline": "cse", "cache": False}
    pool, scale = ("pooled.mlir:8", "pooled.mlir:11")
    program = mlirfuse.compile(path, must_fuse=[(pool, scale)], **switches)
    (kernel,) = program.kernels
    assert {place.rpartition("/")[2] for place in kernel.ops} == {f"{pool}:8", f"{scale}:8"}
    with pytest.raises(MustFuseError, match="-:8"):
        mlirfuse.fuse(POOLED, must_fuse=[("-:8", "-:11")], pipeline="cse")


def test_a_kernel_of_ours_is_one_of_the_dispatches(tmp_path):
    """The matmul is called as a kernel in the vector dialect, the norm is a dispatch of IREE."""
    with pytest.raises(MustFuseError, match=r"'all': the ops are in \d+ dispatches of @main"):
        mlirfuse.compile(Marked().eval(), (torch.ones(8, 32),), cache=False)


class Marked(torch.nn.Module):
    """A norm and a linear layer in one marked block."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.linear = torch.nn.Linear(32, 48)

    def forward(self, x):
        with mlirfuse.region("all", fuse="must"):
            return self.linear(self.norm(x))


class Gated(torch.nn.Module):
    """SwiGLU: the ops between the two named layers are named by nobody."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(64, 160, bias=False)
        self.up = torch.nn.Linear(64, 160, bias=False)

    def forward(self, x):
        return torch.nn.functional.silu(self.gate(x)) * self.up(x)


def test_two_layers_are_fused_with_the_ops_between_them():
    """The pass refuses the pair, which does not pay on a CPU; a request comes first."""
    model, x = Gated().eval(), torch.randn(16, 64, generator=torch.Generator().manual_seed(2))
    switches = {"enable_pass": ["inference_swiglu_fusion"], "cache": False}
    program = mlirfuse.compile(model, (x,), must_fuse=[("gate", "up")], **switches)
    (kernel,) = program.kernels
    assert kernel.pass_name == "inference_swiglu_fusion"
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


def test_the_refusal_is_that_of_the_named_layers():
    """Two blocks of one class: the lines of the model are those of the other block too."""
    model = torch.nn.ModuleList([Gated(), Gated()]).eval()

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = model

        def forward(self, x):
            return self.blocks[1](self.blocks[0](x)[:, :64])

    with pytest.raises(MustFuseError, match=r"target_off, .*cpu\); hint: switch it on with"):
        mlirfuse.compile(
            Both(), (torch.ones(16, 64),), must_fuse=[("blocks.1.gate", "blocks.1.up")], cache=False
        )


class NormAndLinear(torch.nn.Module):
    """Two layers of one line."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up = torch.nn.Linear(32, 64)

    def forward(self, x):
        return self.up(self.norm(x))


def test_the_tensor_between_the_two_layers_is_the_reason():
    with pytest.raises(MustFuseError, match=r"contraction_operand, .*; hint: fold the work"):
        mlirfuse.compile(
            NormAndLinear().eval(), (torch.ones(8, 32),), must_fuse=[("norm", "up")], cache=False
        )


class Merged(torch.nn.Module):
    """IREE merges elementwise ops into their user, whose location the op has then."""

    def forward(self, x, s, b):
        pooled = torch.nn.functional.max_pool2d(x, 2)
        scaled = pooled * s
        moved = scaled + b
        joined = torch.relu(moved)
        return joined, joined.sum((2, 3)).exp()


def line(text):
    """The location of the first line of this file that begins with a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(n for n, each in enumerate(lines, 1) if each.strip().startswith(text))
    return f"{Path(__file__).name}:{number}"


def test_ops_that_iree_merged_are_in_the_kernel_that_computes_them():
    model = Merged().eval()
    inputs = (torch.ones(1, 16, 32, 32), torch.ones(1, 16, 16, 16), torch.ones(1, 16, 16, 16))
    names = ("pooled =", "scaled =", "moved =", "joined =")
    pooled, scaled, moved, joined = map(line, names)
    switches = {"pipeline": "cse", "disable_feature": ["kernels"], "cache": False}
    program = mlirfuse.compile(model, inputs, must_fuse=[(scaled, joined)], **switches)
    first = program.kernels[0]
    held = [op.rpartition("/")[2].removesuffix(":0") for op in first.ops]
    assert held == [pooled, scaled, moved, joined]
    assert explain.why(program.report, scaled, moved).startswith("yes: ")
    with pytest.raises(MustFuseError, match="the ops are in 2 dispatches"):
        mlirfuse.compile(model, inputs, must_fuse=[(scaled, line("return joined"))], **switches)


def test_ops_of_mlir_text_that_iree_merged_are_named_too(tmp_path):
    """Their arithmetic has lines of its own there."""
    path = tmp_path / "scaled.mlir"
    again = POOLED[POOLED.index("  %a = ") : POOLED.index("  return")]
    again = again.replace("%a =", "%c =").replace("ins(%p", "ins(%a")
    path.write_text(POOLED.replace("  return %a", f"{again}  return %c"))
    switches = {"disable_feature": ["kernels"], "pipeline": "cse", "cache": False}
    program = mlirfuse.compile(path, **switches)
    (kernel,) = program.kernels
    lines = [place.rpartition("/")[2] for place in kernel.ops]
    assert lines == ["scaled.mlir:8:8", "scaled.mlir:11:8", "scaled.mlir:17:8"]
