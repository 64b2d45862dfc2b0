"""`with mlirfuse.region(...)`: marks on their way from the model's source to the engine."""

import subprocess
import sys

import pytest
from iree.compiler import ir

import mlirfuse
from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import Reason, UsageError
from mlirfuse.frontends import import_model
from mlirfuse.marks import mark
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import marks, ops
from mlirfuse.structured.ir.marks import Mark

OUTER, TAIL = Mark("outer", "auto"), Mark("tail", "never")


def normalized(model, inputs, tmp_path, check):
    """The result of `check` for the model's module at global-optimization level."""
    imported = import_model(model, inputs)
    path = tmp_path / "normalized.mlirbc"
    compiler = Compiler(targets.parse("cpu"), FusionOptions(), None)
    compiler.normalize(imported.path, path, input_type=imported.input_type)
    with ir.Context():
        return check(ir.Module.parseFile(str(path)))


def by_kind(module):
    """Marks of the ops that have a body with this op: `tanh`, `erf`, `exp`."""
    found = {}
    for function in ops.functions(module):
        for op in function.regions[0].blocks[0].operations:
            for inner in ops.nested_ops(op.operation):
                found.setdefault(inner.name, set()).add(marks.of(op.operation))
            found.setdefault(op.operation.name, set()).add(marks.of(op.operation))
    return found


def check_marks(module):
    found = by_kind(module)
    assert found["math.tanh"] == {(OUTER,)}
    assert found["math.sin"] == {(OUTER, TAIL)}
    assert found["math.cos"] == {()}
    assert found["linalg.matmul"] == {()}


@pytest.fixture(scope="module")
def net():
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(8, 8)

        def forward(self, x):
            y = self.first(x)
            with mlirfuse.region("outer"):
                with mlirfuse.region("tail", fuse="never"):
                    y = torch.softmax(torch.sin(y), -1)
                y = torch.tanh(y)
            return torch.cos(y)

    return Net().eval(), (torch.ones(2, 8),)


def test_marks_of_a_module(net, tmp_path):
    normalized(*net, tmp_path, check_marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strict", [False, True])
def test_marks_of_a_pt2_file(net, tmp_path, strict):
    import torch

    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(*net, strict=strict), path)
    normalized(path, None, tmp_path, check_marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["module", "strict", "jax"])
def test_each_entry_of_a_must_block_is_a_group(tmp_path, form):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")

    def entered(x, tanh, exp):
        for _ in range(3):
            with mlirfuse.region("layer", fuse="must"):
                x = tanh(x)
            x = exp(x)
        return x

    class Net(torch.nn.Module):
        def forward(self, x):
            return entered(x, torch.tanh, torch.exp)

    def check(module):
        return [
            (function, mark, sum(op.name == "linalg.generic" for op in group))
            for (function, mark), group in sorted(marks.must_fuse(module).items())
        ]

    def f(x):
        return entered(x, jax.numpy.tanh, jax.numpy.exp)

    model, inputs = Net(), (torch.ones(8),)
    if form == "strict":
        model, inputs = torch.export.export(model, inputs, strict=True), None
    elif form == "jax":
        model, inputs = f, (jax.numpy.ones(8),)
    found = normalized(model, inputs, tmp_path, check)
    # The user's own export counts on from the exports before it.
    first = found[0][1].entry if form == "strict" else 0
    assert [(mark, count) for _, mark, count in found] == [
        (Mark("layer", "must", first + entry), 1) for entry in range(3)
    ]
    assert normalized(model, inputs, tmp_path, check) == found


def test_a_region_changes_no_result_of_pytorch(net):
    import torch

    model, inputs = net
    expected = torch.cos(torch.tanh(torch.softmax(torch.sin(model.first(*inputs)), -1)))
    assert torch.equal(model(*inputs), expected)


def test_the_layer_of_an_op_is_its_module(net, tmp_path):
    def check(module):
        block = ops.functions(module)[0].regions[0].blocks[0]
        found = {op.operation.name: op.operation for op in block.operations}
        assert marks.layer(found["linalg.matmul"]) == "first"
        assert marks.is_called(found["linalg.matmul"], "first")
        assert not marks.is_called(found["linalg.matmul"], "fir")
        assert ops.location_name(found["linalg.matmul"].location).startswith(__file__)

    normalized(*net, tmp_path, check)


@pytest.fixture(scope="module")
def function():
    jax = pytest.importorskip("jax")

    def f(x):
        y = x @ x
        with mlirfuse.region("outer"):
            with jax.named_scope("net"), mlirfuse.region("tail", fuse="never"):
                y = jax.nn.softmax(jax.numpy.sin(y))
            y = jax.numpy.tanh(y)
        return jax.numpy.cos(y)

    return f, (jax.numpy.ones((8, 8)),)


def test_marks_of_a_function_of_jax(function, tmp_path):
    normalized(*function, tmp_path, check_marks)


def test_marks_of_a_serialized_export_of_jax(function, tmp_path):
    import jax
    import jax.export

    exported = jax.export.export(jax.jit(function[0]))(*function[1])
    normalized(bytes(exported.serialize()), None, tmp_path, check_marks)


def test_the_layer_of_an_op_of_jax_is_its_scope(function, tmp_path):
    def check(module):
        layers = set()
        for op in ops.functions(module)[0].regions[0].blocks[0].operations:
            layers.add(marks.layer(op.operation))
        assert layers == {"", "net"}

    normalized(*function, tmp_path, check)


def test_never_keeps_ops_out_of_groups(net, tmp_path):
    def check(module):
        _, report = engine.run(module, target=targets.parse("cpu"), options=FusionOptions())
        refused = {d.reason: d for d in report.decisions if not d.taken}
        assert refused[Reason.NEVER_FUSE].detail == "mlirfuse.region 'tail'"
        taken = [d for d in report.decisions if d.taken]
        assert all("softmax" not in "".join(d.op_names) for d in taken)

    normalized(*net, tmp_path, check)


CHAIN = """
#m = affine_map<(a) -> (a)>
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
    ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.tanh %a : f32
    linalg.yield %b : f32
  } -> tensor<8xf32> loc("FIRST")
  %1 = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
    ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.exp %a : f32
    linalg.yield %b : f32
  } -> tensor<8xf32> loc("SECOND"("m.py":3:1))
  return %1 : tensor<8xf32>
}
"""


def refusal(first, second="second", **switches):
    text = CHAIN.replace("FIRST", first).replace("SECOND", second)
    report = mlirfuse.fuse(text, **switches)[1]
    left_out = (Reason.SINGLE_OP, Reason.NOT_PROFITABLE)  # a kernel of one op, of so few elements
    return [(d.reason, d.detail) for d in report.decisions if d.reason not in left_out]


def test_a_mark_of_auto_changes_nothing():
    assert refusal(mark("a"), mark("b")) == [(None, "")]


@pytest.mark.parametrize("scopes", ["{}", "jit(f)/net/{}/dot", "jit(f)/mlirfuse.region:auto:a/{}"])
def test_a_mark_is_found_among_scopes(scopes):
    found = refusal(scopes.format(mark("b-1.c", "never")))
    assert (Reason.NEVER_FUSE, "mlirfuse.region 'b-1.c'") in found


def test_a_block_can_be_named_on_the_command_line():
    assert (Reason.NEVER_FUSE, "a") in refusal(mark("a"), never_fuse=["a"])
    assert refusal(mark("ab"), never_fuse=["a"]) == [(None, "")]


def test_a_layer_can_be_named_on_the_command_line():
    layer = "mlirfuse.layer:blocks.0.norm"
    for name in ("blocks.0.norm", "blocks.0", "blocks"):
        assert (Reason.NEVER_FUSE, name) in refusal(layer, never_fuse=[name])
    for name in ("norm", "blocks.0.no", "block"):
        assert refusal(layer, never_fuse=[name]) == [(None, "")]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("a b",), "'a b' is not a name"),
        (("a/b",), "'a/b' is not a name"),
        (("",), "'' is not a name"),
        ((3,), "'3' is not a name"),
        (("a", "always"), "fuse='always' is unknown (known: auto, must, never)"),
    ],
)
def test_a_wrong_mark_is_refused(arguments, what):
    with pytest.raises(UsageError) as caught, mlirfuse.region(*arguments):
        pass
    assert what in str(caught.value)


def test_a_region_imports_no_framework():
    code = """
import sys, mlirfuse
with mlirfuse.region("a", fuse="must"):
    pass
assert not {"torch", "jax", "iree.compiler"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_region_is_left_when_its_body_raises(net):
    import torch

    class Broken(torch.nn.Module):
        def forward(self, x):
            try:
                with mlirfuse.region("a", fuse="never"):
                    raise ValueError
            except ValueError:
                return x.tanh()

    program = torch.export.export(Broken(), net[1])
    assert not any("custom" in node.meta for node in program.graph.nodes)
