"""Every tensor between two kernels has one reason of a closed list, true for the two kernels."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch

import mlirfuse
from helpers.explained import decision, report
from mlirfuse import explain
from mlirfuse.backend import boundaries
from mlirfuse.backend.exchanges import LOOP, Exchange
from mlirfuse.backend.final_program import FinalProgram
from mlirfuse.boundaries import Boundary, BoundaryReason
from mlirfuse.core import Kind, MlirfuseError, MustFuseError, Reason, Report, UsageError
from mlirfuse.final_kernels import FinalKernel, Operand
from mlirfuse.structured.ir import kernel_roles as roles
from mlirfuse.structured.ir.fusable_neighbors import nests


def written(shape):
    return Operand(shape, "f32", 256, is_result=True)


def kernel(name, *ops, code="iree", shape=(8, 8), layers=()):
    names = ("linalg.generic",) * len(ops)
    return FinalKernel(name, "main", ops, names, (written(shape),), 256, 1, code, layers=layers)


ONE, OTHER = kernel("one", "m.py:1:0"), kernel("other", "m.py:2:0")
PLAIN = Exchange(0, 1, (8, 8), "f32", 256, frozenset(), 1)


def reason(first, second, *decisions, one=ONE, other=OTHER, **changes):
    exchange = dataclasses.replace(PLAIN, **changes)
    program = FinalProgram((one, other), (first, second), (exchange,))
    (found,) = boundaries.of_program(program, decisions)
    assert (found.source_name, found.target_name) == (one.name, other.name)
    assert found.hint
    return found.reason


PAIRS = {
    BoundaryReason.TWO_CONTRACTIONS: (roles.CONTRACTION, roles.CONTRACTION),
    BoundaryReason.CONTRACTION_OPERAND: (roles.REDUCTION, roles.CONTRACTION),
    BoundaryReason.ROWS_OF_TILES: (roles.CONTRACTION, roles.REDUCTION),
    BoundaryReason.DATA_MOVEMENT: (roles.ELEMENTWISE, roles.MOVEMENT),
    BoundaryReason.COMPUTED_INDICES: (roles.ELEMENTWISE, roles.GATHER),
    BoundaryReason.OWN_KERNEL: (roles.ELEMENTWISE, roles.OPAQUE),
    BoundaryReason.NOT_TAKEN_TOGETHER: (roles.ELEMENTWISE, roles.ELEMENTWISE),
}

FEW, MANY = Operand((8,), "f32", 32), Operand((8, 8), "f32", 256)

CHANGED = {
    BoundaryReason.REDUCTION_FIRST: {
        "kinds": (roles.REDUCTION, roles.ELEMENTWISE),
        "shape": (8,),
    },
    BoundaryReason.NEXT_REDUCTION: {
        "kinds": (roles.REDUCTION, roles.REDUCTION),
        "shape": (8,),
        "one": dataclasses.replace(ONE, operands=(MANY, written((8,)))),
        "other": dataclasses.replace(OTHER, operands=(FEW, written((1,)))),
    },
    BoundaryReason.REPEATED_ELEMENTS: {"shape": (8,)},
    BoundaryReason.SEVERAL_USERS: {"users": 2},
    BoundaryReason.RESHAPED: {
        "through": frozenset({"flow.tensor.reshape"}),
        "other": dataclasses.replace(OTHER, operands=(Operand((16, 4), "f32", 256),)),
    },
    BoundaryReason.COPIED_PART: {"through": frozenset({"flow.tensor.slice"})},
    BoundaryReason.LOOP: {"through": frozenset({LOOP})},
    BoundaryReason.GROUP_ENDS: {
        "other": dataclasses.replace(OTHER, pass_name="layer_norm_fusion", match=0)
    },
    BoundaryReason.KERNEL_CODE: {"one": kernel("one", "m.py:1:0", code="row_triton_kernel")},
    BoundaryReason.DIFFERENT_SPACES: {"one": kernel("one", "m.py:1:0", shape=(4, 4))},
}


def test_every_reason_has_an_example():
    assert PAIRS.keys() | CHANGED.keys() | {BoundaryReason.OTHER_PATH} == set(BoundaryReason)
    codes = [r.code for r in (*Reason, *BoundaryReason)]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("code", ["scan_vector_kernel", "sort_triton_kernel"])
def test_rows_that_a_kernel_of_ours_reads_in_order(code):
    """Without our kernel the op is IREE's own: to leave it to IREE would fuse nothing."""
    reads = kernel("other", "m.py:2:0", code=code)
    found = reason(roles.CONTRACTION, roles.OPAQUE, other=reads)
    assert found is BoundaryReason.ROWS_OF_TILES


@pytest.mark.parametrize("expected", PAIRS, ids=lambda r: r.code)
def test_reason_of_two_kinds_of_kernel(expected):
    assert reason(*PAIRS[expected]) is expected


@pytest.mark.parametrize("expected", CHANGED, ids=lambda r: r.code)
def test_reason_of_one_property(expected):
    kinds = (roles.ELEMENTWISE, roles.ELEMENTWISE)
    kinds, changes = CHANGED[expected].get("kinds", kinds), dict(CHANGED[expected])
    changes.pop("kinds", None)
    assert reason(*kinds, **changes) is expected


def test_a_reshape_that_only_splits_or_collapses_is_no_reason():
    through = CHANGED[BoundaryReason.RESHAPED]["through"]
    flat = dataclasses.replace(OTHER, operands=(Operand((64,), "f32", 256), written((64,))))
    found = reason(roles.ELEMENTWISE, roles.ELEMENTWISE, through=through, other=flat)
    assert found is BoundaryReason.NOT_TAKEN_TOGETHER


def test_a_kernel_between_the_two_comes_before_refusals():
    """A residual: what is added at the end is also needed on the way there."""
    kernels = ONE, kernel("between", "m.py:3:0"), OTHER
    exchanges = [
        dataclasses.replace(PLAIN, source=s, target=t) for s, t in [(0, 1), (1, 2), (0, 2)]
    ]
    program = FinalProgram(kernels, (roles.ELEMENTWISE,) * 3, tuple(exchanges))
    refusals = [refused(Reason.NOT_PROFITABLE, *BOTH)]
    found = {(b.source, b.target): b.reason for b in boundaries.of_program(program, refusals)}
    assert found[0, 2] is BoundaryReason.OTHER_PATH
    assert found[0, 1] is found[1, 2] is BoundaryReason.NOT_TAKEN_TOGETHER


def test_a_kernel_of_ours_that_has_its_own_code_is_not_one_of_iree():
    """A scan of ours takes elementwise ops; only that of IREE takes none."""
    one = kernel("one", "m.py:1:0", code="scan_vector_kernel")
    assert reason(roles.OPAQUE, roles.ELEMENTWISE, one=one) is BoundaryReason.GROUP_ENDS
    assert reason(roles.OPAQUE, roles.ELEMENTWISE) is BoundaryReason.OWN_KERNEL


def test_code_of_ours_is_a_reason_only_where_iree_would_fuse_the_two():
    """Neither a tensor with several users, nor ops after a group, which IREE leaves as it is."""
    one = kernel("one", "m.py:1:0", code="matmul_vector_kernel")
    kinds = (roles.CONTRACTION, roles.ELEMENTWISE)
    assert reason(*kinds, one=one) is BoundaryReason.KERNEL_CODE
    assert reason(*kinds, one=one, users=2) is BoundaryReason.SEVERAL_USERS
    alone = dataclasses.replace(one, pass_name="matmul_vector_kernel", match=0)
    assert reason(*kinds, one=alone) is BoundaryReason.KERNEL_CODE
    grouped = dataclasses.replace(one, pass_name="matmul_elem_relu_fusion", match=0)
    assert reason(*kinds, one=grouped) is BoundaryReason.GROUP_ENDS


def test_a_refusal_of_general_rules_is_not_why_iree_fuses_nothing():
    """IREE, which has other rules, would have taken the two but for a kernel of one of them."""
    alone = dataclasses.replace(
        kernel("one", "m.py:1:0", code="row_vector_kernel", shape=(8,)),
        pass_name="row_vector_kernel",
        match=0,
    )
    refusal = dataclasses.replace(
        refused(Reason.WRONG_AXIS, *BOTH), pass_name="reduction_fusion", kind=Kind.PRODUCER_CONSUMER
    )
    kinds, few = (roles.REDUCTION, roles.ELEMENTWISE), {"one": alone, "shape": (8,), "bytes": 32}
    assert reason(*kinds, refusal, **few) is BoundaryReason.KERNEL_CODE
    assert reason(*kinds, refusal, **few, users=2) is Reason.WRONG_AXIS
    of_iree = few | {"one": dataclasses.replace(alone, code="iree", pass_name=None)}
    assert reason(*kinds, refusal, **of_iree) is Reason.WRONG_AXIS
    pattern = dataclasses.replace(refusal, pass_name="layer_norm_fusion")
    assert reason(*kinds, pattern, **few) is Reason.WRONG_AXIS


def test_a_reshape_of_axes_that_the_second_kernel_moves_is_a_reason():
    through = CHANGED[BoundaryReason.RESHAPED]["through"]
    other = dataclasses.replace(
        OTHER, operands=(Operand((8, 2, 4), "f32", 256), written((8, 4, 2)))
    )
    exchange = dataclasses.replace(PLAIN, through=through)
    program = FinalProgram(
        (ONE, other),
        (roles.CONTRACTION, roles.ELEMENTWISE),
        (exchange,),
        moving_axes=frozenset({1}),
    )
    (found,) = boundaries.of_program(program, ())
    assert found.reason is BoundaryReason.RESHAPED
    assert "another order" in found.detail


class Scored(torch.nn.Module):
    """A score of each head, as in graph attention, and a linear layer for an image."""

    def __init__(self):
        super().__init__()
        self.heads = torch.nn.Linear(64, 64)
        self.weights = torch.nn.Parameter(torch.ones(4, 16))
        self.up = torch.nn.Linear(64, 1568)
        self.conv = torch.nn.Conv2d(32, 8, 3)

    def forward(self, x):
        h = self.heads(x).view(-1, 4, 16)
        product = h * self.weights
        score = product.sum(-1)
        y = self.up(x)
        y = torch.relu(y)
        y = self.conv(y.view(-1, 32, 7, 7))
        return score, h, y


def place(text):
    """The location of the first line of `Scored` with a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if line.strip().startswith(text))
    return f"{Path(__file__).name}:{number}"


def test_must_fuse_leaves_ops_to_iree_that_kernels_of_ours_would_split():
    """The hint of `kernel_code` is true: a request comes before a kernel for a part of it."""
    model, x = Scored().eval(), torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    options = {"cache": False, "disable_pass": ["sibling_kernel_fusion"]}
    program = mlirfuse.compile(model, (x,), **options)
    found = {
        b.reason: tuple(
            op.rpartition("/")[2].rpartition(":")[0] for op in (b.source_ops[-1], b.target_ops[-1])
        )
        for b in program.report.boundaries
    }
    pair = (place("product = h"), place("score = product"))
    assert found[BoundaryReason.KERNEL_CODE] == pair
    assert found[BoundaryReason.RESHAPED] == (place("y = self.up"), place("y = torch.relu"))
    fused = mlirfuse.compile(model, (x,), must_fuse=[pair], **options)
    assert len(fused.kernels) == len(program.kernels) - 1
    for one, other in zip(fused(x), model(x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_tensor_of_as_many_bytes_but_fewer_elements_is_no_reshape():
    through = CHANGED[BoundaryReason.RESHAPED]["through"]
    wide = dataclasses.replace(OTHER, operands=(Operand((8, 4), "f64", 256),))
    found = reason(roles.ELEMENTWISE, roles.ELEMENTWISE, through=through, other=wide)
    assert found is BoundaryReason.RESHAPED


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((8, 6), (2, 4, 6), True),
        ((8, 6), (6, 8), False),
        ((8, 6), (8, 3), False),
        ((0, 4), (4, 0), True),
        ((None, 4), (3, 5), True),
    ],
)
def test_shapes_nest(before, after, expected):
    assert nests(before, after) is expected


def refused(why, *ops, **changes):
    names = ("linalg.generic",) * len(ops)
    return decision(reason=why, ops=ops, op_names=names, **changes)


BOTH = ("m.py:1:0", "m.py:2:0")


def test_the_refusal_that_considered_both_decides():
    found = refused(Reason.NOT_PROFITABLE, *BOTH)
    assert reason(roles.ELEMENTWISE, roles.ELEMENTWISE, found) is Reason.NOT_PROFITABLE


@pytest.mark.parametrize(
    "other",
    [
        refused(Reason.NOT_PROFITABLE, "m.py:1:0", "m.py:1:0"),
        refused(Reason.NOT_PROFITABLE, "m.py:1:0", "m.py:3:0"),
        refused(Reason.NOT_PROFITABLE, *BOTH, kind=Kind.SIBLING),
    ],
    ids=["one_kernel", "another_op", "siblings"],
)
def test_other_refusals_do_not_decide(other):
    found = reason(roles.ELEMENTWISE, roles.ELEMENTWISE, other)
    assert found is BoundaryReason.NOT_TAKEN_TOGETHER


def test_a_refusal_of_both_comes_before_the_kinds_of_kernel_and_the_user_before_all():
    """Two contractions of one operand are a kernel where a pass takes them, as in SwiGLU."""
    pair = (roles.CONTRACTION, roles.CONTRACTION)
    assert reason(*pair) is BoundaryReason.TWO_CONTRACTIONS
    found = refused(Reason.NOT_PROFITABLE, *BOTH)
    assert reason(*pair, found) is Reason.NOT_PROFITABLE
    assert reason(*pair, found, refused(Reason.NEVER_FUSE, *BOTH)) is Reason.NEVER_FUSE


NORM = "norm"


def layered(name, *layers):
    """A kernel of ops of one line."""
    return kernel(name, *("m.py:1:0",) * len(layers), layers=layers)


def test_ops_of_one_line_are_told_apart_by_layer():
    """Two layers of a loop: what was refused of one says nothing about the other."""
    one, other = layered("one", "blocks/1/up"), layered("other", "blocks/1/down")
    found = [
        refused(Reason.NOT_PROFITABLE, "m.py:1:0", "m.py:1:0", layers=layers)
        for layers in [("blocks/0/up", "blocks/0/down"), ("blocks/1/up", "blocks/1/down")]
    ]
    pair = (roles.ELEMENTWISE, roles.ELEMENTWISE)
    plain = reason(*pair, found[0], one=one, other=other)
    assert plain is BoundaryReason.NOT_TAKEN_TOGETHER
    assert reason(*pair, found[1], one=one, other=other) is Reason.NOT_PROFITABLE


def test_why_a_norm_is_several_kernels():
    """Its mean is a kernel and the rest another one: the refusal of the whole norm decided."""
    one, other = layered("mean", NORM), layered("rest", NORM)
    changes = {"one": one, "other": other, "shape": (8,)}
    pair = (roles.REDUCTION, roles.ELEMENTWISE)
    whole = refused(Reason.FELL_BACK, *("m.py:1:0",) * 4, layers=(NORM,) * 4)
    assert reason(*pair, whole, **changes) is Reason.FELL_BACK
    last = refused(Reason.CONSTANT_UNVERIFIED, "m.py:1:0", layers=(NORM,))
    assert reason(*pair, last, **changes) is Reason.CONSTANT_UNVERIFIED
    grown = refused(Reason.WRONG_AXIS, "m.py:1:0", layers=(NORM,), pass_name="reduction_fusion")
    assert reason(*pair, grown, whole, **changes) is Reason.FELL_BACK
    elsewhere = refused(Reason.CONSTANT_UNVERIFIED, "m.py:1:0", layers=("other_norm",))
    assert reason(*pair, elsewhere, **changes) is BoundaryReason.REDUCTION_FIRST


def test_ops_of_one_line_are_told_apart_by_number():
    """Both kernels have an op of line 1: a refusal of one op there is about neither pair."""
    one, other = kernel("one", "m.py:1:0"), kernel("other", "m.py:1:0")
    pair = (roles.ELEMENTWISE, roles.ELEMENTWISE)
    alone = refused(Reason.NOT_PROFITABLE, "m.py:1:0")
    assert reason(*pair, alone, one=one, other=other) is BoundaryReason.NOT_TAKEN_TOGETHER
    both = refused(Reason.NOT_PROFITABLE, "m.py:1:0", "m.py:1:0")
    assert reason(*pair, both, one=one, other=other) is Reason.NOT_PROFITABLE
    wide = kernel("one", "m.py:1:0", "m.py:1:0")  # the two refused ops may both be in it
    assert reason(*pair, both, one=wide, other=other) is BoundaryReason.NOT_TAKEN_TOGETHER


# --- models --------------------------------------------------------------------------------------


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.up = torch.nn.Linear(64, 256)
        self.down = torch.nn.Linear(256, 64)

    def forward(self, x):
        y = self.up(self.norm(x))
        z = torch.nn.functional.gelu(y)
        return torch.softmax(self.down(z), -1)


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        return self.head(torch.nn.functional.max_pool2d(x, 2).mean((2, 3)))


def attention():
    return torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)


MODELS = {"mlp": (Mlp, (8, 64)), "conv": (Conv, (1, 3, 16, 16)), "block": (attention, (2, 16, 64))}


def compiled(name, target="cpu", **switches):
    torch.manual_seed(0)
    model, shape = MODELS[name]
    return mlirfuse.compile(model().eval(), (torch.randn(shape),), target=target, **switches)


@pytest.mark.parametrize("target", ["cpu", "vulkan", "cuda:sm_90"])
@pytest.mark.parametrize("name", MODELS)
def test_every_boundary_of_a_model_has_its_reason(name, target):
    off = ("kernels",) if target == "cuda:sm_90" else ()
    program = compiled(name, target, disable_feature=("fallback", *off))
    found = program.report.boundaries
    assert found
    read = {b.target for b in found}
    assert read == set(range(1, len(program.kernels)))  # all but the first read another's result
    for boundary in found:
        assert boundary.source < boundary.target
        assert boundary.reason is not BoundaryReason.NOT_TAKEN_TOGETHER, boundary
        assert boundary.bytes > 0


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_must_fuse_disproves_no_reason(target):
    """No switch puts the two sides of a boundary of the MLP into one kernel."""
    program = compiled("mlp", target)
    pairs = [
        (one, other)
        for b in program.report.boundaries
        for one, other in itertools.product(b.source_ops, b.target_ops)
        if not set(b.source_ops) & set(b.target_ops) and "-" not in (one, other)
    ]
    assert pairs
    for pair in pairs[:3]:
        with pytest.raises(MustFuseError):
            compiled("mlp", target, must_fuse=[pair], cache=False)


def test_why_takes_layers_and_lines():
    entry = compiled("mlp").report
    assert (
        explain.why(entry, "norm", "up").splitlines()[0].startswith("no: norm and up are in diff")
    )
    assert "contraction_operand" in explain.why(entry, "norm", "up")
    assert "two_contractions" in explain.why(entry, "down", "up")
    assert "#0 " in (path := explain.why(entry, "norm", "down"))
    assert "no tensor goes directly" in path
    assert path.count(" -> ") == 2
    (up,) = (k for k in entry.kernels if "up" in k.layers)
    assert len(up.ops) > 1
    assert explain.why(entry, "up", up.ops[-1]).startswith("yes: kernel ")
    with pytest.raises(UsageError, match=r"no op at 'upp': .* nearest: 'up'"):
        explain.why(entry, "upp", "down")
    assert explain.why(entry, "#0", entry.kernels[1].name) == explain.why(
        entry, entry.kernels[0].name, "#1"
    ).replace(f"{entry.kernels[0].name} and #1", f"#0 and {entry.kernels[1].name}")
    assert explain.why(entry, "linalg.softmax", "down").startswith("no: ")


def test_why_are_two_siblings_two_kernels():
    """No tensor leads from one to the other: the refusal of a pass that considered both."""
    one, other = layered("q_kernel", "q"), layered("k_kernel", "k")
    found = refused(Reason.TARGET_OFF, "m.py:1:0", "m.py:1:0", layers=("q", "k"), kind=Kind.SIBLING)
    answer = explain.why(report(found, kernels=[one, other]), "q", "k")
    assert "no tensor leads from one to the other" in answer
    assert Reason.TARGET_OFF.text in answer
    assert Reason.TARGET_OFF.hint in answer


def test_why_knows_a_layer_by_its_outer_layer_but_not_by_a_part_of_its_name():
    one = kernel("one", "-", layers=("blocks/1/up",))
    other = kernel("other", "-", "-", layers=("blocks/10/up", "blocks/10/up"))
    entry = report(kernels=[one, other])
    assert explain.why(entry, "blocks.10", "blocks.10").startswith("yes: kernel other")
    assert explain.why(entry, "blocks.1", "blocks.10.up") == (
        "no: blocks.1 and blocks.10.up are in different kernels\n"
        "no tensor leads from one to the other\n"
    )


def test_an_op_alone_is_not_fused_with_itself():
    entry = report(kernels=[kernel("one", "m.py:1:0", layers=("",))])
    assert explain.why(entry, "m.py:1", "m.py:1").startswith("no: ")


def test_explain_is_about_the_kernels():
    """A refused pair that IREE fused anyway is not among those that are not fused."""
    pair = refused(Reason.NOT_PROFITABLE, *BOTH)
    separate = explain.text(report(pair, kernels=[ONE, OTHER]))
    assert "not fused (1)" in separate
    together = explain.text(report(pair, kernels=[kernel("both", *BOTH, layers=("", ""))]))
    assert "not fused (0)" in together
    assert "kernels (1)\n    #0 both: 2 ops, formed by IREE" in together
    assert "1 kernel; 0 groups" in together


def test_rewrites_have_a_section_of_their_own():
    entry = report(refused(Reason.SHAPE_MISMATCH, "m.py:1:0", kind=Kind.REWRITE))
    shown = explain.text(entry)
    assert "not fused (0)" in shown
    assert "rewrites of layouts and forms not made (1)" in shown
    assert "0 candidates refused" in shown


def test_explain_lists_boundaries_by_reason():
    entry = compiled("mlp").report
    shown = explain.text(entry)
    for boundary in entry.boundaries:
        assert f"{boundary.reason.code} (" in shown
        assert f"#{boundary.source} -> #{boundary.target}" in shown
        assert boundary.hint in shown


def test_boundaries_are_in_the_report():
    entry = compiled("mlp").report
    again = Report.from_dict(entry.to_dict())
    assert again.boundaries == entry.boundaries
    document = entry.boundaries[0].to_dict()
    assert document["hint"] == entry.boundaries[0].hint
    with pytest.raises(MlirfuseError, match="unknown reason"):
        Boundary.from_dict(document | {"reason": "none"})


LOOPED = """
func.func @main(%x: tensor<8x8xf32>, %n: index) -> tensor<8x8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %f = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %i = linalg.fill ins(%f : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = math.exp %x : tensor<8x8xf32>
  %y = scf.for %k = %zero to %n step %one iter_args(%s = %a) -> tensor<8x8xf32> {
    %m = linalg.matmul ins(%s, %x : tensor<8x8xf32>, tensor<8x8xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %m : tensor<8x8xf32>
  }
  %z = math.tanh %y : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}
"""


def test_a_loop_is_a_reason(tmp_path):
    path = tmp_path / "loop.mlir"
    path.write_text(LOOPED)
    program = mlirfuse.compile(path)
    assert BoundaryReason.LOOP in {b.reason for b in program.report.boundaries}
