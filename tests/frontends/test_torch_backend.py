"""`torch.compile(model, backend="mlirfuse")` on the CPU, against PyTorch itself."""

import logging
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from transformers import BertConfig, BertModel

import mlirfuse
from mlirfuse import torch_compile
from mlirfuse.frontends.torch_graph import import_graph
from mlirfuse.runtime import inline_calls
from mlirfuse.runtime.module import FusedModule
from mlirfuse.torch_backend import packed_weights

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr(torch_compile, "_warned", set())
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def logged(caplog):
    """The messages that the backend has logged, without the line about each graph."""
    caplog.set_level(logging.INFO, "mlirfuse.torch")

    def messages():
        found = [r.getMessage() for r in caplog.records if r.name == "mlirfuse.torch"]
        return [message for message in found if not message.startswith("graph_")]

    return messages


@pytest.fixture
def programs(monkeypatch):
    """The calls of compiled programs."""
    calls = []
    call = FusedModule.__call__

    def counted(self, *args, **kwargs):
        calls.append(self)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(FusedModule, "__call__", counted)
    return calls


def compiled(model, *, dynamic=None, **options):
    options = {"fallback": False, **options}
    return torch.compile(model, backend="mlirfuse", dynamic=dynamic, options=options)


def check(got, expected, tolerance=1e-5):
    """The same containers, shapes, element types and strides, and close numbers."""
    leaves, spec = torch.utils._pytree.tree_flatten(got)
    wanted, wanted_spec = torch.utils._pytree.tree_flatten(expected)
    assert spec == wanted_spec
    for x, y in zip(leaves, wanted, strict=True):
        if isinstance(y, torch.Tensor):
            assert (x.shape, x.dtype, x.stride()) == (y.shape, y.dtype, y.stride())
            torch.testing.assert_close(x, y, atol=tolerance, rtol=tolerance)
        else:
            assert x == y


torch.manual_seed(0)
MLP = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).eval()

# --- models ---------------------------------------------------------------------------------------


def test_mlp_without_and_with_gradients(programs, logged):
    x = torch.randn(3, 16)
    model = compiled(MLP, fallback=True)
    with torch.no_grad():
        check(model(x), MLP(x))
    with torch.inference_mode():
        check(model(x), MLP(x))
    assert len(programs) == 2
    assert not logged()
    model(x).sum().backward()
    assert MLP[0].weight.grad is not None
    model(x + 1)
    assert len(programs) == 2
    assert logged() == [
        "torch.compile: it needs gradients, and only inference is compiled; call the model"
        " under torch.no_grad() or torch.inference_mode(); PyTorch runs this graph itself"
    ]


def test_transformer_with_a_mask(programs):
    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    bert = BertModel(config).eval()
    ids = torch.randint(0, 50, (2, 8))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    with torch.no_grad():
        got = compiled(bert)(ids, attention_mask=mask)
        expected = bert(ids, attention_mask=mask)
    check(got.last_hidden_state, expected.last_hidden_state)
    check(got.pooler_output, expected.pooler_output)
    assert programs[0].report.target.startswith("cpu")
    assert any(
        d.taken and d.pass_name == "add_layer_norm_fusion" for d in programs[0].report.decisions
    )


def test_encoder_layers_that_pytorch_has_as_one_op(programs):
    post = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    pre = nn.TransformerEncoderLayer(
        16, 2, 32, batch_first=True, norm_first=True, activation="gelu"
    ).eval()
    hidden = torch.tensor([[False, False, True], [False, False, False]])
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)

    def model(x):
        return post(x), post(x, causal), pre(x, None, hidden)

    x = torch.randn(2, 3, 16)
    with torch.no_grad():
        check(compiled(model, stock=True)(x), model(x))
    assert len(programs) == 1


def test_a_dynamic_size_is_compiled_once(programs):
    def model(x, w, n):
        y = x @ w
        return y * n, y.reshape(-1).sum(), x.shape[0] * 2, torch.arange(x.shape[0])

    step = compiled(model, dynamic=True)
    w = torch.randn(4, 6)
    for size in (3, 7, 5):
        x = torch.randn(size, 4)
        check(step(x, w, size + 1), model(x, w, size + 1))
    assert len(programs) == 3
    assert len(set(programs)) == 1
    assert [str(spec) for spec in programs[0].inputs] == ["?x?xf32", "?x?xf32", "i64"]


# --- values ---------------------------------------------------------------------------------------


def test_element_types_strides_and_other_results(programs):
    def model(half, brain, n, byte, keep, image, kernel, columns, scale):
        flat = half.float().sum(0)
        return {
            "half": half * 2,
            "brain": (brain + brain).t(),
            "n": n.argmax(-1),
            "byte": byte + 1,
            "keep": ~keep,
            "image": F.conv2d(image, kernel),
            "columns": columns * scale,
            "every second": columns.relu()[:, ::2],
            "view of an argument": n.view(-1),
            "views": (flat, flat.view(2, 3), flat[2:]),
            "nothing": None,
            "number": 3,
            "constant": torch.tensor([1.0, 2.0]),
            "int32": n.int(),
        }

    given = (
        torch.randn(4, 6).half(),
        torch.randn(3, 5).bfloat16(),
        torch.randint(-9, 9, (3, 4)),
        torch.tensor([250, 3], dtype=torch.uint8),
        torch.tensor([True, False]),
        torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last),
        torch.randn(4, 3, 3, 3),
        torch.randn(6, 4).t(),
        torch.tensor(3.0),
    )
    model_of_ours = compiled(model, stock=True)
    check(model_of_ours(*given), model(*given), 1e-4)
    got = model_of_ours(*given)
    assert got["view of an argument"].data_ptr() == given[2].data_ptr()
    assert programs[0].inputs[5].shape == (2, 5, 5, 3)  # as it lies in memory, without a copy


def test_results_that_are_equal_have_memory_of_their_own(programs):
    def model(x):
        return x + 1, x + 1, (x + 1)[1:], torch.arange(4)

    step = compiled(model, stock=True)
    x = torch.randn(4, 4)
    first, second, third, constant = step(x)
    for tensor in (first, constant):
        tensor.add_(100)
    check((second, third), (x + 1, (x + 1)[1:]))
    check(step(x), model(x))
    assert len(programs) == 2


def test_arguments_and_buffers_changed_in_place(programs):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x, cache):
            self.count.add_(1)
            cache[1:3].copy_(x)
            x.mul_(2)
            return cache.sum() + self.count

    ours, theirs = Counter(), Counter()
    step = compiled(ours, stock=True)
    for n in range(2):
        given = [(torch.full((2, 3), float(n)), torch.ones(4, 3)) for _ in range(2)]
        check(step(*given[0]), theirs(*given[1]))
        check(given[0], given[1])
    check(ours.count, theirs.count)
    assert len(programs) == 2


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("freeze", [False, True])
def test_parameters_changed_in_place(freeze, programs, logged):
    layer = nn.Linear(16, 16)
    step = compiled(layer, stock=True, freeze=freeze)
    x = torch.randn(2, 16)
    with torch.no_grad():
        check(step(x), layer(x))
        layer.weight.mul_(2)
        check(step(x), layer(x))
        layer.load_state_dict({"weight": torch.ones(16, 16), "bias": torch.zeros(16)})
        check(step(x), layer(x))
    assert [len(program.inputs) for program in programs] == [1 if freeze else 3, 3, 3]
    assert len(logged()) == freeze


@pytest.fixture
def opened(monkeypatch):
    """The calls of `FusedModule.with_parameters`, by which weights are packed."""
    calls = []
    change = FusedModule.with_parameters

    def counted(self, *args, **kwargs):
        calls.append(self)
        return change(self, *args, **kwargs)

    monkeypatch.setattr(FusedModule, "with_parameters", counted)
    return calls


def test_weights_are_packed_when_they_change(programs, opened, logged):
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step = compiled(model, pack_weights=True)
    x = torch.randn(32, 64)

    def checked():
        with torch.no_grad():
            check(step(x), model(x))

    for _ in range(3):
        checked()
    assert len(opened) == 1
    assert len(programs[0].inputs) == 3  # biases are arguments
    assert not any("transpose" in k.name or "encode" in k.name for k in programs[0].kernels)
    model(x).square().mean().backward()
    optimizer.step()
    checked()
    checked()
    assert len(opened) == 2
    model.load_state_dict({name: 0.5 * value for name, value in model.state_dict().items()})
    checked()
    model[0].weight.data = torch.randn(96, 64)
    checked()
    with torch.no_grad():
        model[2].bias.add_(1)
    checked()
    assert len(opened) == 4
    assert logged() == []


def test_weights_that_change_in_each_call_are_arguments(programs, opened, logged):
    layer = nn.Linear(64, 64)
    step = compiled(layer, pack_weights=True)
    x = torch.randn(4, 64)
    for _ in range(packed_weights.MAX_CHANGES + 3):
        with torch.no_grad():
            check(step(x), layer(x))
            layer.weight.mul_(1.1)
    assert [len(program.inputs) for program in programs][-2:] == [3, 3]
    (message,) = logged()
    assert "the weights change in nearly each call; all are arguments from now on" in message


def test_weights_are_packed_whatever_their_memory(programs):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(96, 64)
            self.turned = nn.Parameter(torch.randn(64, 64).t())
            self.narrow = nn.Parameter(torch.randn(64, 64, dtype=torch.bfloat16))
            self.small = nn.Parameter(torch.randn(8, 8))

        def forward(self, ids):
            x = self.table(ids) @ self.turned
            y = (x.bfloat16() @ self.narrow).float()
            return (x + y) @ self.table.weight.t(), y[:, :8] @ self.small

    model = Tied().eval()
    step = compiled(model, pack_weights=True)
    ids = torch.randint(0, 96, (16,))
    with torch.no_grad():
        check(step(ids), model(ids), 0.2)
        for parameter in model.parameters():
            parameter.mul_(0.5)
        check(step(ids), model(ids), 0.2)
    assert [len(program.inputs) for program in programs] == [2, 2]


def test_packed_weights_are_profiled(programs):
    layer = nn.Linear(64, 64)
    x = torch.randn(32, 64)
    with torch.no_grad():
        compiled(layer, pack_weights=True)(x)
        found = programs[0].profile(layer.bias, x, calls=3)
    assert [row.name for row in found.kernels] == [k.name for k in programs[0].kernels]


def test_small_programs_with_packed_weights_run_on_the_calling_thread(monkeypatch, opened):
    """The device is tried once, not after each change."""
    layer = nn.Linear(64, 64)
    step = compiled(layer, pack_weights=True)
    trials = []
    choose = inline_calls.Trial._choose

    def chosen(self, inline, fewest):
        trials.append(fewest)
        choose(self, inline, {inline_calls.INLINE: 1e-6, inline_calls.THREADS: 2e-6})

    monkeypatch.setattr(inline_calls.Trial, "_choose", chosen)
    monkeypatch.setattr(inline_calls, "MAX_SECONDS", 10.0)
    monkeypatch.setattr(inline_calls, "MAX_RATIO", 1e9)
    x = torch.randn(2, 64)
    with torch.no_grad():
        for _ in range(20):
            check(step(x), layer(x))
        layer.weight.mul_(2)
        for _ in range(20):
            check(step(x), layer(x))
    assert len(trials) == 1
    assert [module.device for module in opened] == ["local-task", "local-task"]
    (program,) = mlirfuse.torch_reports()[-1].programs
    assert program.program.device == "local-sync"


def test_packed_weights_of_parts():
    first, second = nn.Linear(64, 64), nn.Linear(64, 64)

    def model(x):
        return second(nn.functional.dropout(first(x).relu() * 2, 0.0, training=True))

    step = compiled(model, pack_weights=True, fallback=True)
    x = torch.randn(4, 64)
    with torch.no_grad():
        for _ in range(2):
            check(step(x), model(x))
            second.weight.mul_(2)


def test_scalars_that_a_graph_makes_on_a_gpu_are_lowered():
    def masked(keep, x):
        zero = torch.scalar_tensor(0.0, dtype=x.dtype, device="cpu")
        return (torch.where(keep, x, zero),)

    arguments = torch.ones(4, dtype=torch.bool), torch.ones(4, dtype=torch.float16)
    module = make_fx(masked, tracing_mode="fake")(*arguments)
    factory = torch.ops.aten.scalar_tensor.default
    (scalar,) = module.graph.find_nodes(op="call_function", target=factory)
    scalar.kwargs = {**scalar.kwargs, "device": torch.device("cuda:0")}
    assert len(import_graph(module, constants={}, source="graph").imported.outputs) == 1
    assert scalar.kwargs["device"] == torch.device("cuda:0")


# --- graphs that are not compiled -----------------------------------------------------------------


def test_graph_break(programs):
    def model(x):
        y = x.relu() + 1
        torch._dynamo.graph_break()
        return y * y

    x = torch.randn(4)
    check(compiled(model, stock=True)(x), model(x))
    assert len(set(programs)) == 2


def test_float64_and_complex_numbers():
    def model(x, y, z):
        return y.sum(0) + x.double(), z @ z.T.conj(), torch.fft.rfft(x).abs()

    x = torch.rand(4, 8)
    arguments = (x, torch.rand(4, 8, dtype=torch.float64), torch.rand(4, 8, dtype=torch.complex64))
    for ours, theirs in zip(compiled(model)(*arguments), model(*arguments), strict=True):
        check(ours, theirs)


@pytest.mark.parametrize(
    ("target", "reason"),
    [("vulkan", "has no float64"), ("cpu", "IREE lacks a function of float64")],
)
def test_float64_never_becomes_float32(target, reason, logged):
    x = torch.rand(4, dtype=torch.float64)
    got = compiled(torch.sin, fallback=True, target=target)(x)
    assert torch.equal(got, torch.sin(x))
    assert reason in "".join(logged())


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda x: x + torch.rand(4), "'aten.rand.default' draws random numbers"),
        (lambda _: torch.arange(3) + 1, "would have no tensor among its arguments"),
    ],
)
def test_a_graph_that_cannot_be_compiled_runs_in_pytorch(model, reason, programs, logged):
    x = torch.rand(4)
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="ImportFailedError"
    ) as raised:
        compiled(model)(x)
    assert reason in str(raised.value)
    torch._dynamo.reset()
    for _ in range(2):
        torch.manual_seed(1)
        got = compiled(model, fallback=True)(x)
        torch._dynamo.reset()
        torch.manual_seed(1)
        check(got, model(x))
    (line,) = logged()
    assert reason in line
    assert "\n" not in line
    assert not programs


def test_wrong_options():
    for options, message in [
        ({"disable_pas": "x"}, "options: unknown key 'disable_pas'; did you mean 'disable_pass'?"),
        ({"fallback": 1}, "options: fallback=1 is neither True nor False"),
        ({"cuda_graph": 1}, "options: cuda_graph=1 is neither True nor False"),
        ({"target": "tpu"}, "unknown target 'tpu'"),
        ({"disable_pass": "softmax"}, "--disable-pass: unknown pass 'softmax'"),
    ]:
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
            torch.compile(torch.relu, backend="mlirfuse", options=options)(torch.ones(2))
        assert message in str(raised.value)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="another backend"):
        torch.compile(torch.relu, backend="mlirfuse", mode="max-autotune")(torch.ones(2))


def test_cuda_graphs_are_for_cuda(programs):
    x = torch.randn(4, 8)
    for asked in ({"mode": "reduce-overhead"}, {"options": {"cuda_graph": True}}):
        step = torch.compile(torch.relu, backend="mlirfuse", **asked)
        check(step(x), torch.relu(x))


def test_options_reach_the_compiler(programs):
    x = torch.randn(4, 8)
    step = compiled(lambda x: F.layer_norm(x, (8,)), **{"disable-pass": ["layer_norm_fusion"]})
    check(step(x), F.layer_norm(x, (8,)))
    assert programs[0].report.options["disable_pass"] == ["layer_norm_fusion"]


PROCESS = """
    import sys
    import torch
    layer = torch.nn.Linear(8, 8)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(8))
        layer.bias.zero_()
        assert "mlirfuse" not in sys.modules
        step = torch.compile(layer, backend="mlirfuse", options={"fallback": False})
        if sys.argv[1] == "second":
            from mlirfuse.compilation import Compilation
            Compilation.build = None  # nothing is to be compiled again
        x = torch.randn(2, 8)
        torch.testing.assert_close(step(x), x)
"""


def test_a_second_process_finds_the_program_in_the_cache():
    for turn in ("first", "second"):
        command = [sys.executable, "-c", textwrap.dedent(PROCESS), turn]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_profile_of_another_model_is_named_and_wrong_ones_refused(tmp_path, caplog):
    path = tmp_path / "p.toml"
    path.write_text("schema = 1\n")
    step = torch.compile(torch.relu, backend="mlirfuse", options={"profile": str(path)})
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        assert torch.equal(step(torch.ones(2)), torch.ones(2))
    assert f"{path}: no section is for this model" in caplog.text
    torch._dynamo.reset()
    path.write_text("schema = 2\n")
    options = {"profile": str(path), "fallback": False}
    with torch.no_grad(), pytest.raises(Exception, match="schema is 2, not 1"):
        torch.compile(torch.relu, backend="mlirfuse", options=options)(torch.ones(2))
