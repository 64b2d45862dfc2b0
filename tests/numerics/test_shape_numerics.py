"""Reshapes to computed sizes: fused, unfused and float64 agree, for forms of all frontends."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import mlirfuse
from helpers.harness import FLOATS, Batch, Case

PASSES = "shape_reshape,shape_reshape_2,elementwise_fusion"
TARGETS = ("cuda:sm_90", "rocm:gfx942", "vulkan:ampere")

SCALARS = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %l6 = arith.constant 6 : i64
  %l24 = arith.constant 24 : i64
"""


def applied(op: str, result: str, source: str, kind: str, sizes: str = "") -> str:
    """Lines that apply an op to a tensor: something to fuse on either side of the reshape."""
    rank = kind.count("x")
    loops = ", ".join(f"d{d}" for d in range(rank))
    same = f"affine_map<({loops}) -> ({loops})>"
    parallel = ", ".join(['"parallel"'] * rank)
    dtype = kind[:-1].rsplit("x", 1)[-1]
    return f"""
  %e{result} = tensor.empty({sizes}) : {kind}
  %{result} = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{parallel}]}}
      ins(%{source} : {kind}) outs(%e{result} : {kind}) {{
  ^bb0(%a: {dtype}, %o: {dtype}):
    %n = {op} %a : {dtype}
    linalg.yield %n : {dtype}
  }} -> {kind}"""


def case(name, dtype, shape, text, reference, fires, dispatches=None) -> Case:
    rng = np.random.default_rng(4)
    numbers = rng.standard_normal(shape).astype(FLOATS[dtype])
    hostile = numbers.copy()
    hostile.flat[0], hostile.flat[-1] = np.inf, np.nan
    return Case(
        name=name,
        text=text,
        inputs={"normal": (numbers,), "hostile": (hostile,)},
        reference=lambda x: (reference(x),),
        fires=fires,
        ulps=1.0,
        computed=dtype,
        hostile=frozenset({"hostile"}),
        exact=frozenset({"normal"}),
        dispatches=dispatches,
    )


def view(name: str, dtype: str) -> Case:
    """PyTorch's view(x.shape[0], -1) between two elementwise ops: one dispatch."""
    wide, flat = f"tensor<?x4x6x{dtype}>", f"tensor<?x24x{dtype}>"
    text = f"""
func.func @{name}(%x: {wide}) -> {flat} {{{SCALARS}
  %b = tensor.dim %x, %c0 : {wide}{applied("math.absf", "m", "x", wide, "%b")}
  %i = arith.index_cast %b : index to i64
  %all = arith.muli %i, %l24 : i64
  %rest = arith.divui %all, %i : i64
  %s = tensor.from_elements %i, %rest : tensor<2xi64>
  %r = tensor.reshape %m(%s) : ({wide}, tensor<2xi64>) -> {flat}
{applied("arith.negf", "y", "r", flat, "%b")}
  return %y : {flat}
}}
"""
    return case(
        name, dtype, (5, 4, 6), text, lambda x: -abs(x).reshape(5, 24), {"shape_reshape": 1}, 1
    )


def dispatched(name: str, dtype: str) -> Case:
    """Sizes that a dispatch would compute and the host read back: no dispatch."""
    wide, flat = f"tensor<?x4x6x{dtype}>", f"tensor<?x?x{dtype}>"
    text = f"""
func.func @{name}(%x: {wide}) -> {flat} {{{SCALARS}
  %four = arith.constant 4 : i64
  %b = tensor.dim %x, %c0 : {wide}
  %i = arith.index_cast %b : index to i64
  %t = tensor.from_elements %i, %four : tensor<2xi64>
  %u = arith.constant dense<[1, 6]> : tensor<2xi64>
  %e = tensor.empty() : tensor<2xi64>
  %s = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
      affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%t, %u : tensor<2xi64>, tensor<2xi64>) outs(%e : tensor<2xi64>) {{
  ^bb0(%a: i64, %c: i64, %o: i64):
    %p = arith.muli %a, %c : i64
    linalg.yield %p : i64
  }} -> tensor<2xi64>
  %r = tensor.reshape %x(%s) : ({wide}, tensor<2xi64>) -> {flat}
  return %r : {flat}
}}
"""
    # The caller reads both sizes of the result, of which one is a number.
    fires = {"shape_reshape": 2, "shape_reshape_2": 1}
    return case(name, dtype, (5, 4, 6), text, lambda x: x.reshape(5, 24), fires, 0)


def exchanged(name: str, dtype: str) -> Case:
    """Two dynamic sizes are swapped, one of them doubled."""
    before, after = f"tensor<?x?x6x{dtype}>", f"tensor<?x?x3x{dtype}>"
    text = f"""
func.func @{name}(%x: {before}) -> {after} {{{SCALARS}
  %b = tensor.dim %x, %c0 : {before}
  %h = tensor.dim %x, %c1 : {before}
  %twice = arith.muli %b, %c2 : index
  %s = tensor.from_elements %h, %twice, %c3 : tensor<3xindex>
  %r = tensor.reshape %x(%s) : ({before}, tensor<3xindex>) -> {after}
{applied("arith.negf", "y", "r", after, "%h, %twice")}
  return %y : {after}
}}
"""
    return case(
        name, dtype, (2, 5, 6), text, lambda x: -x.reshape(5, 4, 3), {"shape_reshape": 1}, 1
    )


def static(name: str, dtype: str) -> Case:
    """All sizes are numbers, in a tensor: 8x9 to 6x12."""
    before, after = f"tensor<8x9x{dtype}>", f"tensor<?x?x{dtype}>"
    text = f"""
func.func @{name}(%x: {before}) -> {after} {{
{applied("arith.negf", "m", "x", before)}
  %s = arith.constant dense<[6, 12]> : tensor<2xi64>
  %r = tensor.reshape %m(%s) : ({before}, tensor<2xi64>) -> {after}
  return %r : {after}
}}
"""
    fires = {"shape_reshape_2": 1}
    return case(name, dtype, (8, 9), text, lambda x: -x.reshape(6, 12), fires, 1)


FORMS = {"view": view, "dispatched": dispatched, "exchanged": exchanged, "static": static}
CASES = {
    f"{form}_{dtype}": make(f"{form}_{dtype}", dtype)
    for form, make in FORMS.items()
    for dtype in ("f32", "f16")
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES).run()


@pytest.mark.parametrize("name", CASES)
def test_shape(name, outcomes):
    outcomes[name].check()


def test_sizes_leave_the_dispatches(outcomes):
    """Unfused, IREE takes a dispatch for the sizes and cuts at the view."""
    assert outcomes["dispatched_f32"].dispatches == {"fused": 0, "unfused": 1}
    assert outcomes["view_f32"].dispatches == {"fused": 1, "unfused": 2}


@pytest.mark.parametrize("target", TARGETS)
def test_compiles(target):
    cases = [c for n, c in CASES.items() if n.endswith("_f32")]
    fired = Batch(cases=cases, pipeline=PASSES, target=target).compiled()
    assert fired == {c.name: c.fires for c in cases}


def test_pytorch_view():
    """PyTorch's form of a dynamic batch is the form that the pass is for."""

    class View(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x).view(x.shape[0], -1) + 1

    x = torch.linspace(-1, 1, 60).reshape(4, 3, 5)
    fused = mlirfuse.compile(
        View(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},), cache=False
    )
    assert fused.report.counts()["shape_reshape"] == 1
    assert fused.report.dispatches["fused"] == 1
    more = torch.linspace(-2, 2, 105).reshape(7, 3, 5)
    np.testing.assert_array_equal(np.asarray(fused(more)), View()(more).numpy())


def test_norm_of_dynamic_batch_and_tokens():
    """Between flat rows and a matmul: as one group without reshapes, and without fusion."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 24), torch.nn.LayerNorm(24), torch.nn.Linear(24, 8)
    ).eval()
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    program = torch.export.export(model, (torch.randn(4, 5, 16),), dynamic_shapes=(sizes,))
    fused, unfused = (
        mlirfuse.compile(program, pipeline=pipeline, cache=False)
        for pipeline in ("default", "none")
    )
    assert fused.report.counts()["layer_norm_fusion"] == 1
    inputs = [torch.randn(*shape, 16) for shape in ((1, 3), (3, 7), (7, 1))]
    got = [[np.asarray(compiled(x)) for compiled in (fused, unfused)] for x in inputs]
    with torch.no_grad():
        exact = [model.double()(x.double()).numpy() for x in inputs]
    for pair, expected in zip(got, exact, strict=True):
        for found in pair:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", ["n", 2])
def test_onnx_arrives_folded(batch, tmp_path):
    """Shape, Gather, Mul, Concat, Reshape: the import leaves a collapse, and nothing to rewrite."""
    node, value = helper.make_node, helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            node("Relu", ["x"], ["r"]),
            node("Shape", ["x"], ["s"]),
            *(node("Gather", ["s", f"i{axis}"], [f"d{axis}"]) for axis in range(3)),
            node("Mul", ["d1", "d2"], ["rest"]),
            node("Unsqueeze", ["d0", "i0v"], ["first"]),
            node("Unsqueeze", ["rest", "i0v"], ["second"]),
            node("Concat", ["first", "second"], ["target"], axis=0),
            node("Reshape", ["r", "target"], ["y"]),
        ],
        "shapes",
        [value("x", TensorProto.FLOAT, [batch, 4, 6])],
        [value("y", TensorProto.FLOAT, ["p", "q"])],
        [
            *(numpy_helper.from_array(np.array(axis), f"i{axis}") for axis in range(3)),
            numpy_helper.from_array(np.array([0]), "i0v"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "shapes.onnx")
    fused = mlirfuse.compile(str(tmp_path / "shapes.onnx"), cache=False)
    assert "shape_reshape" not in fused.report.counts()
    assert "shape_reshape_2" not in fused.report.counts()
    assert fused.report.dispatches["fused"] == 1
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 4, 6)
    np.testing.assert_array_equal(np.asarray(fused(x)), np.maximum(x, 0).reshape(2, 24))
