"""`torch.compile` of graphs with ops that no program computes, against PyTorch itself."""

import logging
import time

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import mlirfuse
from mlirfuse import torch_compile
from mlirfuse.core import CompileFailedError, ImportFailedError
from mlirfuse.frontends.torch_decompositions import decomposition_table
from mlirfuse.frontends.torch_nodes import refusal
from mlirfuse.torch_backend import graph_compiler
from mlirfuse.torch_backend.culprits import culprits
from mlirfuse.torch_backend.partition import extract, is_op, split
from mlirfuse.torch_backend.program import Program

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

HERE = __file__


@torch.library.custom_op("mlirfuse_tests::wave", mutates_args=())
def wave(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@wave.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("mlirfuse_tests::noise", mutates_args=())
def noise(x: torch.Tensor) -> torch.Tensor:
    return x + torch.randn_like(x)


@noise.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("mlirfuse_tests::increment", mutates_args=("x",))
def increment(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("mlirfuse_tests::positive_rows", mutates_args=())
def positive_rows(x: torch.Tensor) -> torch.Tensor:
    return x[x.sum(-1) > 0].clone()


@positive_rows.register_fake
def _(x):
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(), x.shape[1]))


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr(torch_compile, "_warned", set())
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def warnings_of(caplog):
    """The warnings of the backend."""
    return lambda: [
        r.getMessage()
        for r in caplog.records
        if r.name == "mlirfuse.torch" and r.levelno >= logging.WARNING
    ]


torch.manual_seed(0)
UP, DOWN = nn.Linear(8, 8), nn.Linear(8, 8)


def check(got, expected):
    """The same containers, shapes, element types and strides, and close numbers."""
    leaves, spec = torch.utils._pytree.tree_flatten(got)
    wanted, wanted_spec = torch.utils._pytree.tree_flatten(expected)
    assert spec == wanted_spec
    for x, y in zip(leaves, wanted, strict=True):
        if isinstance(y, torch.Tensor):
            assert (x.shape, x.dtype, x.stride()) == (y.shape, y.dtype, y.stride())
            torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-5)
        else:
            assert x == y


def compare(model, *calls, dynamic=None, **options):
    """Runs both, with the same random numbers and arguments that may be changed."""
    step = torch.compile(model, backend="mlirfuse", dynamic=dynamic, options=options)
    with torch.no_grad():
        for given in calls:
            theirs = tuple(value.clone() for value in given)
            torch.manual_seed(1)
            got = step(*given)
            torch.manual_seed(1)
            check(got, model(*theirs))
            check(given, theirs)
    return mlirfuse.torch_reports()[-1]


def line_of(function):
    return f"{HERE}:{function.__code__.co_firstlineno + 1}"


# --- parts ----------------------------------------------------------------------------------------


def test_a_custom_op_between_two_linear_layers(warnings_of):
    def model(x):
        return DOWN(wave(UP(x)))

    report = compare(model, (torch.randn(4, 8),))
    assert [(p.name, p.ops) for p in report.programs] == [("part_0", 2), ("part_1", 2)]
    (left,) = report.left
    assert (left.op, left.line) == ("mlirfuse_tests.wave.default", line_of(model))
    reason = "is a custom op, and has no lowering in IREE"
    assert left.reason == reason
    assert warnings_of() == [
        "torch.compile: PyTorch runs 1 of 5 ops itself: 'mlirfuse_tests.wave.default'"
        f" {reason} ({line_of(model)})"
    ]


def test_an_op_inside_of_a_residual_makes_no_cycle():
    """`y` and the sum cannot be in one part: the custom op is between them."""

    def model(x):
        y = UP(x)
        return y + wave(y * 2) * 3 - y.exp()

    report = compare(model, (torch.randn(4, 8),))
    assert len(report.programs) == 2
    assert [op.op for op in report.left] == ["mlirfuse_tests.wave.default"]


def test_branches_around_an_op_are_one_part():
    def model(x):
        return wave(x.exp() + 1), (x * 2).relu(), x.tanh() * x

    report = compare(model, (torch.randn(4, 8),))
    assert len(report.programs) == 1


def test_parts_take_and_return_views_constants_and_arguments():
    def model(x):
        scale = torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8]) / 8  # sines of small numbers
        y = UP(x * scale + scale).relu()
        first, second = (y * 2).split(4, -1)
        values, indices = (y + scale).topk(2)  # no two elements are equal
        return {
            "expanded": wave(y.t().unsqueeze(0).expand(3, 8, 4)),
            "transposed": y.t(),
            "rest": y[1:],
            "constant": scale,
            "argument": x.t(),
            "halves": wave(first) * second * scale[:4],
            "largest": (wave(values) - indices, indices + 1),
        }

    report = compare(model, (torch.randn(4, 8),))
    assert len(report.programs) == 2
    assert {op.op for op in report.left} == {"mlirfuse_tests.wave.default"}


def test_arguments_changed_in_place():
    def model(x, cache):
        cache.add_(wave(x * 2) + 1)
        y = x * 3 + 1
        increment(y)
        x.mul_(2)
        return y.exp() * 2 + cache.sum(), x.view(-1), cache[1:]

    report = compare(model, (torch.randn(4, 8), torch.randn(4, 8)))
    assert report.programs
    names = {op.op for op in report.left}
    assert names == {"mlirfuse_tests.wave.default", "auto_functionalized_v2"}


def test_random_numbers_are_those_of_pytorch_in_their_order():
    """The second op needs no result of a part, and could run before the first."""

    def model(x):
        a = torch.rand_like(UP(x).relu())
        b = torch.randn(4, 8)
        c = noise((x.exp() + b.relu()) * 2)
        d = torch.rand(4, 8)
        return (UP(x) + d).relu() * 2 + c.cos() - a, b

    report = compare(model, (torch.randn(4, 8),))
    assert len(report.left) == 4
    assert report.programs


def test_dropout_keeps_pytorchs_random_numbers():
    def model(x):
        return DOWN(nn.functional.dropout(UP(x).relu(), 0.5, training=True))

    report = compare(model, (torch.randn(4, 8),))
    assert [op.op for op in report.left] == ["aten.native_dropout.default"]
    assert len(report.programs) == 2


def test_frozen_parameters_of_parts():
    up, down = nn.Linear(8, 8), nn.Linear(8, 8)

    def model(x):
        return down(wave(up(x)))

    x = torch.randn(4, 8)
    step = torch.compile(model, backend="mlirfuse", options={"freeze": True})
    with torch.no_grad():
        check(step(x), model(x))
        report = mlirfuse.torch_reports()[-1]
        assert [len(p.program.inputs) for p in report.programs] == [1, 1]
        down.weight.mul_(2)
        check(step(x), model(x))
    assert [len(p.program.inputs) for p in report.programs] == [1, 3]


# --- sizes ----------------------------------------------------------------------------------------


def test_one_program_for_several_sizes():
    def model(x):
        y = UP(x)
        z = wave(y).reshape(-1, 4)
        pairs = torch.cat([y, y * 2]).view(x.shape[0] * 2, 8)
        return (z * 2 + 1).relu(), x.shape[0] * 3, z.shape[0], pairs.sum(0) + z.sum()

    sizes = [(torch.randn(size, 8),) for size in (4, 6, 10)]
    report = compare(model, *sizes, dynamic=True)
    assert len(report.programs) == 2
    specs = [str(spec) for program in report.programs for spec in program.program.inputs]
    assert not [spec for spec in specs if spec.startswith("i64")]  # sizes are those of tensors


@pytest.mark.parametrize("shift", [0.0, -100.0])
def test_a_size_that_depends_on_the_data(shift):
    def model(x):
        rows = positive_rows(UP(x) * 2 + shift)
        return (rows.view(rows.shape[0] * 2, 4) * 3 + 1).exp(), rows.shape[0] + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        report = compare(model, (torch.randn(8, 8),))
    assert [op.op for op in report.left] == ["mlirfuse_tests.positive_rows.default"]
    assert len(report.programs) == 2


def test_numbers_that_the_importer_does_not_know():
    def model(x):
        count = int(x.abs().sum().item())
        torch._check(count > 0)
        torch._check(count < 1000)
        return UP(x) * x.sum().item() + torch.ones(count).sum()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        report = compare(model, (torch.rand(4, 8) + 1,))
    assert {op.op for op in report.left} >= {"trunc", "aten._local_scalar_dense.default"}
    assert report.programs


# --- small parts, and nothing at all --------------------------------------------------------------


def test_single_ops_are_left_to_pytorch(warnings_of):
    def model(x):
        return wave(x * 2).t() + 1

    for _ in range(2):
        report = compare(model, (torch.randn(4, 8),))
        torch._dynamo.reset()
    assert not report.programs
    assert [(op.op, op.supported) for op in report.left] == [
        ("mlirfuse_tests.wave.default", False),
        ("aten.mul.Tensor", True),
        ("aten.add.Tensor", True),
    ]
    (warning,) = warnings_of()
    assert "'mlirfuse_tests.wave.default' is a custom op" in warning
    assert "aten.mul" not in warning
    assert warning.endswith("; PyTorch runs this graph itself")


def test_a_single_contraction_is_a_program():
    def model(x):
        return wave(x @ x.T)

    assert len(compare(model, (torch.randn(4, 8),)).programs) == 1


def test_a_part_without_a_tensor_is_left_to_pytorch():
    def model(x):
        return wave(x), torch.arange(4) * 2 + 1

    report = compare(model, (torch.randn(4, 8),))
    assert not report.programs
    assert len(report.left) > 2
    assert [op.op for op in report.left if not op.supported] == ["mlirfuse_tests.wave.default"]


# --- how culprits are found -----------------------------------------------------------------------


def singular_values(x):
    return torch.linalg.svd(UP(x) * 2)[1] * 3 + 1


@pytest.mark.parametrize(
    ("model", "op", "reason"),
    [
        (singular_values, "aten._linalg_svd.default", "has no lowering in IREE"),
        (
            lambda x: (UP(x).double() * 3).tanh() * 2 + 1,
            "aten.tanh.default",
            "computes in float64: IREE lacks a function of float64 for cpu",
        ),
    ],
)
def test_an_op_without_a_lowering(model, op, reason, warnings_of):
    report = compare(model, (torch.randn(4, 8),))
    assert report.programs
    (left,) = [left for left in report.left if not left.supported]
    assert left.op == op
    assert left.reason.startswith(reason)
    line = f"{HERE}:{model.__code__.co_firstlineno + (model.__name__ != '<lambda>')}"
    assert left.line == line
    (warning,) = warnings_of()
    assert f"'{op}' {reason}" in warning
    torch._dynamo.reset()
    step = torch.compile(model, backend="mlirfuse", options={"fallback": False})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised, torch.no_grad():
        step(torch.randn(4, 8))
    assert op.removesuffix(".default") in str(raised.value)
    assert f"{line}" in str(raised.value)


def failing(monkeypatch, fails, error):
    """Programs whose ops fit a predicate cannot be compiled; returns their numbers of ops."""
    compile_program = Program._compile
    tried = []

    def planted(self, module, frozen):
        ops = [str(n.target) for n in module.graph.nodes if n.op == "call_function"]
        if fails(ops):
            tried.append(len(ops))
            raise error
        compile_program(self, module, frozen)

    monkeypatch.setattr(Program, "_compile", planted)
    return tried


def refused(**kwargs):
    return CompileFailedError("torch.compile: no code", stage="codegen", **kwargs)


def test_a_failure_of_code_generation_is_found_by_halving(monkeypatch):
    def model(x):
        y = UP(x).relu() * 2 + 1
        return DOWN(y.cos()).exp() - 3

    tried = failing(monkeypatch, lambda ops: "aten.cos.default" in ops, refused(returncode=1))
    report = compare(model, (torch.randn(4, 8),))
    (left,) = report.left
    assert (left.op, left.reason) == ("aten.cos.default", "cannot be compiled: no code")
    assert left.line.startswith(HERE)
    assert len(report.programs) == 2
    assert tried == sorted(tried, reverse=True)
    assert tried[-1] == 1


def test_a_part_whose_halves_compile_is_left_as_a_whole(monkeypatch):
    def model(x):
        y = wave(DOWN(x).relu())
        return UP(y).exp() - 3

    failing(
        monkeypatch,
        lambda ops: {"aten.exp.default", "aten.addmm.default"} <= set(ops),
        refused(returncode=1),
    )
    report = compare(model, (torch.randn(4, 8),))
    assert len(report.programs) == 1
    assert {op.op for op in report.left} == {
        "mlirfuse_tests.wave.default",
        *("aten.permute.default", "aten.addmm.default", "aten.exp.default", "aten.sub.Tensor"),
    }


@pytest.mark.parametrize("rounds", [0, 8])
def test_a_timeout_is_not_tried_again_in_halves(monkeypatch, rounds):
    monkeypatch.setattr(graph_compiler, "MAX_ROUNDS", rounds)
    returncode = 1 if rounds == 0 else None  # no round is left to find the op in
    tried = failing(
        monkeypatch, lambda ops: "aten.cos.default" in ops, refused(returncode=returncode)
    )

    def model(x):
        return DOWN(wave(UP(x).relu()).cos() * 2)

    report = compare(model, (torch.randn(4, 8),))
    assert len(tried) == 1
    assert [p.name for p in report.programs] == ["part_0"]
    reasons = {op.reason for op in report.left if op.op != "mlirfuse_tests.wave.default"}
    assert reasons == {"is in a part that cannot be compiled: no code"}


def test_a_trial_takes_the_items_of_its_ops():
    def model(x):
        values, indices = (x * 2).topk(3)
        return values + indices

    module = graph_of(model, torch.randn(4, 8))
    ops = [node for node in module.graph.nodes if is_op(node)]
    assert [node.name for node in ops] == ["mul", "topk", "add"]
    first, last = extract(module, ops[:2]), extract(module, ops[2:])
    assert first.module.code.count("topk[") == 2
    assert len(last.arguments) == 2  # tensors, and not the tuple of them


def graph_of(function, *arguments):
    return make_fx(function, tracing_mode="fake")(*arguments)


def test_an_error_names_ops_by_name_line_or_both():
    module = graph_of(lambda x: (x.cos() + x.half().cos().sum()).exp(), torch.randn(4, 8))
    ops = {node.name: node for node in module.graph.nodes if node.op == "call_function"}
    for index, node in enumerate(ops.values()):
        node.meta["stack_trace"] = f'  File "model.py", line {index + 1}, in forward\n'

    def found(op, place):
        error = ImportFailedError("m: IREE has no lowering for it", op=op, place=place)
        return [left.node for left in culprits(error, list(ops.values()), None)]

    assert list(ops) == ["cos", "_to_copy", "cos_1", "sum_1", "add", "exp"]
    assert found("torch.aten.cos", "") == ["cos", "cos_1"]
    assert found("torch.aten.cos", "model.py:3:0") == ["cos_1"]  # the other is of f32
    assert found("torch.aten.decomposed", "model.py:4:0") == ["sum_1"]
    assert found("", "") == list(ops)


def test_tensors_of_other_devices_and_layouts_are_refused():
    module = graph_of(lambda x: (x.to("meta"), x.to_sparse(), x + 1), torch.randn(4, 8))
    ops = [node for node in module.graph.nodes if node.op == "call_function"]
    reasons = [refusal(node, torch.device("cpu")) for node in ops]
    assert reasons[0] == "takes or makes tensors on meta, and the graph's are on cpu"
    assert reasons[1] == "takes or makes tensors of layout torch.sparse_coo"
    assert reasons[-1] == ""


def test_a_graph_is_not_changed_by_cutting_it():
    def model(x):
        return torch.rand(4, 8) + wave(x @ x.T @ x) @ x.T @ x + torch.rand(4, 8)

    module = graph_of(model, torch.randn(4, 8))
    before = module.code
    left = {node.name for node in module.graph.nodes if "wave" in node.name or "rand" in node.name}
    assert len(left) == 3
    cut = split(module, left)
    assert [part.name for part in cut.parts] == ["part_0", "part_1"]
    assert module.code == before
    assert "mlirfuse_after" not in cut.outer.code


def test_large_graphs_are_cut_in_seconds():
    def model(x):
        for _ in range(100):
            x = (x * 1.01 + 1).relu() - x
        x = wave(x)
        for _ in range(100):
            x = (x * 1.01 + 1).relu() - x
        return x

    module = graph_of(model, torch.randn(4, 8))
    start = time.perf_counter()
    cut = split(module, {"wave"})
    assert [len(part.nodes) for part in cut.parts] == [400, 400]
    assert time.perf_counter() - start < 60


def test_no_random_op_is_decomposed():
    """PyTorch's decompositions draw other numbers than its kernels."""

    def is_random(op):
        return torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())

    table = decomposition_table(whole_attention=False)
    assert any(map(is_random, table))
    assert not any(map(is_random, torch_compile._decompositions()))
    assert len(torch_compile._decompositions()) > len(table) / 2
