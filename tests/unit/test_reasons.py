"""Every reason has an example that is refused with it, and that fuses once its cause is gone."""

import dataclasses
import inspect

import numpy as np
import onnx
import onnx.parser
import pytest
import torch

import mlirfuse
from helpers.pages import ROOT, generate
from mlirfuse import explain
from mlirfuse.core import Reason

CAUSES = {
    Reason.ALREADY_GROUPED: [("--load-pass", "--disable-pass=exp_add_fusion --load-pass")],
    Reason.DISABLED: [("--disable-pass=softmax_fusion", "")],
    Reason.TARGET_UNSUPPORTED: [("--target=vulkan", "--target=cuda")],
    Reason.TARGET_OFF: [("--target=cuda", "--target=cpu")],
    Reason.NUMERICS_LIMIT: [("--numerics=exact", "--numerics=reassociating")],
    Reason.FUSION_LIMIT: [("--fusion-limit=1", "--fusion-limit=2")],
    Reason.SKIPPED_OP_KIND: [("--skip-op-kind=linalg.softmax", "")],
    Reason.NEVER_FUSE: [("--never-fuse=probabilities", "")],
    Reason.MUST_FUSE: [("--must-fuse=sum,product", "")],
    Reason.SINGLE_OP: [("--target=cuda", "--target=cuda --single-op-groups")],
    Reason.EXTRA_USERS: [("return %s, %a", "return %s, %x")],
    Reason.WOULD_CYCLE: [("math.sin %a", "math.sin %x")],
    Reason.SIDE_EFFECTS: [("util.optimization_barrier", "math.cos")],
    Reason.DIFFERENT_BLOCKS: [
        ("    %b = arith.addf %a", "    %e = math.exp %x : tensor<8xf32>\n    %b = arith.addf %e")
    ],
    Reason.TOO_MANY_OPERANDS: [(", %15\n    : (tensor<8xf32>,", "\n    : ("), ("128", "120")],
    Reason.TOO_MANY_OPS: [("%30 : tensor", "%0 : tensor")],
    Reason.SHAPE_MISMATCH: [("13", "24")],
    Reason.DYNAMIC_SHAPE: [("?", "128")],
    Reason.ELEMENT_TYPE: [("f64", "f32")],
    Reason.INDEXING_MAP: [("(k, m)", "(m, k)"), ("16x24", "24x16")],
    Reason.CONSTANT_UNVERIFIED: [
        ("  %y =", "  %zeros = arith.constant dense<0.0> : tensor<24x32xf32>\n  %y ="),
        ("outs(%init", "outs(%zeros"),
    ],
    Reason.STRUCTURE: [("x1xf32", "x16xf32")],
    Reason.WRONG_AXIS: [("dimension(0)", "dimension(1)")],
    Reason.NOT_PROFITABLE: [("4x8x", "64x128x")],
    Reason.LEFT_TO_PRODUCER: [("elementwise_fusion", "matmul_elem_relu_fusion")],
    Reason.STACK_LIMIT: [("2048", "128")],
    Reason.REGISTER_LIMIT: [("8192", "4096")],
    Reason.FELL_BACK: [("4096", "64")],
}
"""Replacements in the example with which the fusion is made."""


@pytest.mark.parametrize("reason", list(Reason), ids=lambda r: r.code)
def test_a_reason_is_given(reason, tmp_path):
    example = generate.Example.of(reason)
    assert reason in [d.reason for d in example.decisions(tmp_path / "out")]


@pytest.mark.parametrize("reason", list(Reason), ids=lambda r: r.code)
def test_a_reason_goes_with_its_cause(reason, tmp_path):
    example = generate.Example.of(reason)
    text = (ROOT / example.path).read_text(encoding="utf-8")
    for old, new in CAUSES[reason]:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "changed.mlir"
    path.write_text(text, encoding="utf-8")
    command = text.split("\n")[1].removeprefix("// ").replace(example.path, str(path))
    changed = dataclasses.replace(example, command=command).decisions(tmp_path / "out")
    assert reason not in [d.reason for d in changed]
    assert any(d.taken for d in changed)


def test_every_example_is_a_reasons():
    files = {path.stem for path in (ROOT / "examples" / "reasons").glob("*.mlir")}
    assert files - {"groups.pdl"} == {reason.code for reason in Reason}


# --- the model's own words -----------------------------------------------------------------------


class Weights(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.tanh(), dim=1)


def weights(x):
    import jax

    return jax.nn.softmax(jax.numpy.tanh(x), axis=1)


def line_of(source, text):
    lines, first = inspect.getsourcelines(source)
    (found,) = [number for number, line in enumerate(lines, first) if text in line]
    return f"{__file__}:{found}:"


def of_torch(folder):
    return Weights().eval(), (torch.ones(8, 64),), line_of(Weights, "torch.softmax")


def of_jax(folder):
    return weights, (np.ones((8, 64), np.float32),), line_of(weights, "jax.nn.softmax")


def of_onnx(folder):
    text = """<ir_version: 8, opset_import: ["": 17]>
    net (float[8, 64] x) => (float[8, 64] y) { t = Tanh(x) y = Softmax<axis=1>(t) }"""
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        node.name = f"/head/weights/{node.op_type}"
    onnx.save(model, folder / "model.onnx")
    return str(folder / "model.onnx"), None, "/head/weights/Softmax"


@pytest.mark.parametrize("frontend", [of_torch, of_jax, of_onnx])
def test_a_reason_names_the_line_of_the_model(frontend, tmp_path):
    model, inputs, place = frontend(tmp_path)
    program = mlirfuse.compile(model, inputs, numerics="exact", cache=False)
    (refusal,) = [d for d in program.report.decisions if d.reason is Reason.NUMERICS_LIMIT]
    assert refusal.ops[-1].startswith(place)
    told = program.explain()
    assert Reason.NUMERICS_LIMIT.hint in told
    assert place in told
    why = explain.why(program.report, refusal.ops[0], refusal.ops[-1])
    assert f"{Reason.NUMERICS_LIMIT.code}: {Reason.NUMERICS_LIMIT.text}" in why
