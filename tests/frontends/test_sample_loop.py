"""Batches of any number of samples: the proof that they are independent, and the loop over them."""

import numpy as np
import onnx
import pytest
import torch
from iree.compiler import ir, passmanager
from onnx import numpy_helper, parser
from torch import nn

import mlirfuse
from mlirfuse.backend.compiler import Compiler
from mlirfuse.compilation import open_model
from mlirfuse.core import CompileFailedError
from mlirfuse.frontends.batches.independence import analyze
from mlirfuse.frontends.batches.states import Dependent
from mlirfuse.options import FusionOptions

BATCH = torch.export.Dim("batch")


def analyzed(arguments, results, body, batched):
    """The work of a function, after the named ops were generalized."""
    text = f"util.func public @main({arguments}) -> {results} {{\n{body}\n}}"
    with ir.Context():
        module = ir.Module.parse(f"module {{\n{text}\n}}")
        passmanager.PassManager.parse("builtin.module(util.func(linalg-generalize-named-ops))").run(
            module.operation
        )
        function = next(op.operation for op in module.body)
        return analyze(function, batched)


ROWS = "affine_map<(a, b) -> (a, b)>"

INDEPENDENT = {
    "a bias of each sample": (
        "%x: tensor<2x5xf32>",
        "tensor<2x5xf32>",
        f"""%c = arith.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0]]>
              : tensor<2x5xf32>
            %e = tensor.empty() : tensor<2x5xf32>
            %y = linalg.generic {{indexing_maps = [{ROWS}, {ROWS}, {ROWS}],
              iterator_types = ["parallel", "parallel"]}}
              ins(%x, %c : tensor<2x5xf32>, tensor<2x5xf32>) outs(%e : tensor<2x5xf32>) {{
            ^bb0(%a: f32, %b: f32, %o: f32):
              %s = arith.addf %a, %b : f32
              linalg.yield %s : f32 }} -> tensor<2x5xf32>
            util.return %y : tensor<2x5xf32>""",
    ),
    "rows of samples in one matrix": (
        "%x: tensor<2x3x4xf32>, %w: tensor<4x6xf32>",
        "tensor<2x3x6xf32>",
        """%c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
           %z = arith.constant 0.0 : f32
           %e = tensor.empty() : tensor<6x6xf32>
           %f = linalg.fill ins(%z : f32) outs(%e : tensor<6x6xf32>) -> tensor<6x6xf32>
           %m = linalg.matmul ins(%c, %w : tensor<6x4xf32>, tensor<4x6xf32>)
             outs(%f : tensor<6x6xf32>) -> tensor<6x6xf32>
           %y = tensor.expand_shape %m [[0, 1], [2]] output_shape [2, 3, 6]
             : tensor<6x6xf32> into tensor<2x3x6xf32>
           util.return %y : tensor<2x3x6xf32>""",
    ),
    "a part of the channels": (
        "%x: tensor<2x4xf32>",
        "tensor<2x2xf32>",
        """%y = tensor.extract_slice %x[0, 1] [2, 2] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
           util.return %y : tensor<2x2xf32>""",
    ),
}


def chosen(number, computed=""):
    """Channels of samples by indices, of the sample with a number that the body has."""
    return f"""%i = arith.constant dense<[2, 0]> : tensor<2xi64>
      %n = tensor.empty() : tensor<2xi64>
      %own = linalg.generic {{indexing_maps = [affine_map<(a) -> (a)>],
        iterator_types = ["parallel"]}} outs(%n : tensor<2xi64>) {{
      ^bb0(%o: i64):
        %d = linalg.index 0 : index
        %c = arith.index_cast %d : index to i64
        linalg.yield %c : i64 }} -> tensor<2xi64>
      %e = tensor.empty() : tensor<2x2xf32>
      %zero = arith.constant 0 : i64
      %two = arith.constant 2 : i64
      %y = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a)>,
        affine_map<(a, b) -> (b)>, {ROWS}], iterator_types = ["parallel", "parallel"]}}
        ins(%own, %i : tensor<2xi64>, tensor<2xi64>) outs(%e : tensor<2x2xf32>) {{
      ^bb0(%s: i64, %c: i64, %o: f32):
        {computed}
        %below = arith.cmpi slt, {number}, %zero : i64
        %wrapped = arith.addi {number}, %two : i64
        %at = arith.select %below, %wrapped, {number} : i64
        %p = arith.index_cast %at : i64 to index
        %q = arith.index_cast %c : i64 to index
        %v = tensor.extract %x[%p, %q] : tensor<2x4xf32>
        linalg.yield %v : f32 }} -> tensor<2x2xf32>
      util.return %y : tensor<2x2xf32>"""


INDEPENDENT["a mask of each window"] = (
    "%w: tensor<2x2x3xf32>",
    "tensor<2x2x3xf32>",
    f"""%c = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [1.0, 2.0, 3.0],
          [4.0, 5.0, 6.0]]> : tensor<4x3xf32>
        %x = tensor.collapse_shape %w [[0, 1], [2]] : tensor<2x2x3xf32> into tensor<4x3xf32>
        %e = tensor.empty() : tensor<4x3xf32>
        %y = linalg.generic {{indexing_maps = [{ROWS}, {ROWS}, {ROWS}],
          iterator_types = ["parallel", "parallel"]}}
          ins(%x, %c : tensor<4x3xf32>, tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {{
        ^bb0(%a: f32, %b: f32, %o: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32 }} -> tensor<4x3xf32>
        %r = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 2, 3]
          : tensor<4x3xf32> into tensor<2x2x3xf32>
        util.return %r : tensor<2x2x3xf32>""",
)
INDEPENDENT["a sample by its own number"] = (
    "%x: tensor<2x4xf32>",
    "tensor<2x2xf32>",
    chosen("%s"),
)

DEPENDENT = {
    "another sample by its number": (
        "%x: tensor<2x4xf32>",
        "tensor<2x2xf32>",
        chosen("%t", "%one = arith.constant 1 : i64\n%t = arith.subi %one, %s : i64"),
        "computed indices",
    ),
    "a sample that is read under a condition": (
        "%x: tensor<2x4xf32>",
        "tensor<2x2xf32>",
        chosen("%s").replace(
            "%v = tensor.extract %x[%p, %q] : tensor<2x4xf32>",
            """%v = scf.if %below -> f32 {
                 %u = tensor.extract %x[%q, %p] : tensor<2x4xf32>
                 scf.yield %u : f32
               } else {
                 %u = tensor.extract %x[%p, %q] : tensor<2x4xf32>
                 scf.yield %u : f32
               }""",
        ),
        "computed indices",
    ),
    "a sample by the number of a channel": (
        "%x: tensor<2x4xf32>",
        "tensor<2x2xf32>",
        chosen("%c"),
        "computed indices",
    ),
    "a sum over samples": (
        "%x: tensor<2x4xf32>",
        "tensor<4xf32>",
        """%z = arith.constant 0.0 : f32
           %e = tensor.empty() : tensor<4xf32>
           %f = linalg.fill ins(%z : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
           %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>,
             affine_map<(a, b) -> (b)>], iterator_types = ["reduction", "parallel"]}
             ins(%x : tensor<2x4xf32>) outs(%f : tensor<4xf32>) {
           ^bb0(%a: f32, %o: f32):
             %s = arith.addf %a, %o : f32
             linalg.yield %s : f32 } -> tensor<4xf32>
           util.return %y : tensor<4xf32>""",
        "meet in a loop",
    ),
    "a product of all pairs": (
        "%x: tensor<2x4xf32>",
        "tensor<2x2xf32>",
        """%z = arith.constant 0.0 : f32
           %e = tensor.empty() : tensor<2x2xf32>
           %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
           %y = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, c)>,
             affine_map<(a, b, c) -> (b, c)>, affine_map<(a, b, c) -> (a, b)>],
             iterator_types = ["parallel", "parallel", "reduction"]}
             ins(%x, %x : tensor<2x4xf32>, tensor<2x4xf32>) outs(%f : tensor<2x2xf32>) {
           ^bb0(%a: f32, %b: f32, %o: f32):
             %p = arith.mulf %a, %b : f32
             %s = arith.addf %p, %o : f32
             linalg.yield %s : f32 } -> tensor<2x2xf32>
           util.return %y : tensor<2x2xf32>""",
        "meet in a loop",
    ),
    "another row for each sample": (
        "%x: tensor<2x3xf32>",
        "tensor<2x3xf32>",
        f"""%c = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
            %e = tensor.empty() : tensor<2x3xf32>
            %y = linalg.generic {{indexing_maps = [{ROWS}, {ROWS}, {ROWS}],
              iterator_types = ["parallel", "parallel"]}}
              ins(%x, %c : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {{
            ^bb0(%a: f32, %b: f32, %o: f32):
              %s = arith.addf %a, %b : f32
              linalg.yield %s : f32 }} -> tensor<2x3xf32>
            util.return %y : tensor<2x3xf32>""",
        "a dimension of another tensor",
    ),
    "the number of a sample": (
        "%x: tensor<2x3xf32>",
        "tensor<2x3xf32>",
        f"""%e = tensor.empty() : tensor<2x3xf32>
            %y = linalg.generic {{indexing_maps = [{ROWS}, {ROWS}],
              iterator_types = ["parallel", "parallel"]}}
              ins(%x : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) {{
            ^bb0(%a: f32, %o: f32):
              %i = linalg.index 0 : index
              %n = arith.index_cast %i : index to i32
              %f = arith.sitofp %n : i32 to f32
              %s = arith.addf %a, %f : f32
              linalg.yield %s : f32 }} -> tensor<2x3xf32>
            util.return %y : tensor<2x3xf32>""",
        "meet in a loop",
    ),
    "the first sample": (
        "%x: tensor<2x4xf32>",
        "tensor<1x4xf32>",
        """%y = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
           util.return %y : tensor<1x4xf32>""",
        "a part of the samples",
    ),
    "samples inside of a dimension": (
        "%x: tensor<2x3x4xf32>",
        "tensor<6x4xf32>",
        """%e = tensor.empty() : tensor<3x2x4xf32>
           %t = linalg.transpose ins(%x : tensor<2x3x4xf32>) outs(%e : tensor<3x2x4xf32>)
             permutation = [1, 0, 2]
           %y = tensor.collapse_shape %t [[0, 1], [2]] : tensor<3x2x4xf32> into tensor<6x4xf32>
           util.return %y : tensor<6x4xf32>""",
        "inside of a dimension",
    ),
    "samples beside each other": (
        "%x: tensor<2x4xf32>",
        "tensor<4x4xf32>",
        """%y = tensor.concat dim(0) %x, %x
             : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
           util.return %y : tensor<4x4xf32>""",
        "beside others",
    ),
    "rows of zeros between samples": (
        "%x: tensor<2x4xf32>",
        "tensor<3x4xf32>",
        """%z = arith.constant 0.0 : f32
           %y = tensor.pad %x low[1, 0] high[0, 0] {
           ^bb0(%a: index, %b: index):
             tensor.yield %z : f32 } : tensor<2x4xf32> to tensor<3x4xf32>
           util.return %y : tensor<3x4xf32>""",
        "between samples",
    ),
    "a result without samples": (
        "%x: tensor<2x4xf32>, %w: tensor<2x4xf32>",
        "tensor<2x4xf32>",
        "util.return %w : tensor<2x4xf32>",
        "no batch",
    ),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_samples(name):
    arguments, results, body = INDEPENDENT[name]
    count = arguments.count("%")
    analyzed(arguments, results, body, [True] + [False] * (count - 1))


@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_samples(name):
    arguments, results, body, reason = DEPENDENT[name]
    count = arguments.count("%")
    with pytest.raises(Dependent, match=reason):
        analyzed(arguments, results, body, [True] + [False] * (count - 1))


def test_products_of_few_rows_are_counted():
    arguments, results, body = INDEPENDENT["rows of samples in one matrix"]
    work = analyzed(arguments, results, body, [True, False])
    assert (work.total, work.few_rows) == (3 * 4 * 6, 3 * 4 * 6)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 7),
        )

    def forward(self, image, scale):
        return {"y": self.layers(image), "scaled": image * scale}


class Centered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.layer(x) - self.layer(x).mean(0, keepdim=True)


class Counted(Centered):
    def forward(self, x):
        return self.layer(x) * x.shape[0]


def is_loop(model, inputs, shapes, **switches):
    options = FusionOptions(**switches)
    with open_model(model, inputs, target="cpu", options=options, dynamic_shapes=shapes) as work:
        return work.imported.unlooped is not None


def test_a_network_of_any_number_of_images():
    model, images = Net().eval(), torch.randn(4, 3, 20, 20)
    inputs = (images, torch.tensor(2.0))
    program = mlirfuse.compile(
        model, inputs, target="cpu", dynamic_shapes=({0: BATCH}, None), cache=False
    )
    assert [spec.shape for spec in program.inputs] == [(None, 3, 20, 20), ()]
    codes = {kernel.code for kernel in program.kernels if "conv" in kernel.name}
    assert codes
    assert "iree" not in codes
    for number in (1, 5, 0):
        x = torch.randn(number, 3, 20, 20)
        with torch.no_grad():
            expected = model(x, inputs[1])
        found = program(x, inputs[1])
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(torch.as_tensor(found[name]), value, rtol=1e-4, atol=1e-5)


class Alone(Centered):
    """One sample is computed in another way than several."""

    def forward(self, x):
        y = self.layer(x)
        return y.exp() if x.shape[0] == 1 else y


@pytest.mark.parametrize("model", [Centered, Counted, Alone])
def test_a_network_whose_samples_meet_is_no_loop(model):
    assert not is_loop(model().eval(), (torch.randn(4, 3, 8, 8),), ({0: BATCH},))


def test_torch_compile_for_a_second_size():
    """Dynamo makes the first size a symbol once it sees another one."""
    torch._dynamo.reset()
    model = Net().eval()
    compiled = torch.compile(model, backend="mlirfuse")
    with torch.no_grad():
        for number in (4, 3, 6):
            x, scale = torch.randn(number, 3, 20, 20), torch.tensor(2.0)
            found, expected = compiled(x, scale), model(x, scale)
            for name, value in expected.items():
                torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)
    report = mlirfuse.torch_reports()[-1]
    codes = {kernel.code for kernel in report.kernels if "conv" in kernel.name}
    assert codes
    assert "iree" not in codes
    torch._dynamo.reset()


def test_products_of_one_row_are_no_loop():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).eval()
    assert not is_loop(model, (torch.randn(4, 8),), ({0: BATCH},))


def test_other_open_sizes_are_no_loop():
    model, x = nn.Conv2d(3, 4, 3).eval(), torch.randn(4, 3, 8, 8)
    height = torch.export.Dim("height", min=4, max=64)
    assert is_loop(model, (x,), ({0: BATCH},))
    assert not is_loop(model, (x,), ({0: BATCH, 2: height},))
    assert not is_loop(model, (x,), None)


def test_the_switch():
    model, x = nn.Conv2d(3, 4, 3).eval(), torch.randn(4, 3, 8, 8)
    assert not is_loop(model, (x,), ({0: BATCH},), disable_feature=("sample_loop",))


def test_a_loop_that_iree_refuses_is_left_out(monkeypatch):
    def refuse(compiler, source, output, **arguments):
        if b"main_sample" in source.read_bytes():
            raise CompileFailedError("iree-compile refused", stage="global-optimization")
        return normalize(compiler, source, output, **arguments)

    normalize = Compiler.normalize
    monkeypatch.setattr(Compiler, "normalize", refuse)
    model, x = nn.Conv2d(3, 4, 3).eval(), torch.randn(4, 3, 8, 8)
    program = mlirfuse.compile(model, (x,), dynamic_shapes=({0: BATCH},), cache=False)
    assert "not in a loop over samples" in program.report.notes[0]
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(program(x)), model(x), rtol=1e-4, atol=1e-5)


def test_a_batch_of_an_onnx_file(tmp_path):
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["": 19]>
        net (float[n,3,9,9] x, float[n,1,1,1] s) => (float[n,4,7,7] y) {
          c = Conv(x, w)
          y = Mul(c, s)
        }"""
    )
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "model.onnx")
    assert is_loop(tmp_path / "model.onnx", None, None)
    program = mlirfuse.compile(tmp_path / "model.onnx", cache=False)
    assert not program.report.notes
    x, s = np.ones((3, 3, 9, 9), np.float32), np.arange(3, dtype=np.float32).reshape(3, 1, 1, 1)
    expected = np.broadcast_to(weights.sum((1, 2, 3))[None, :, None, None] * s, (3, 4, 7, 7))
    np.testing.assert_allclose(program(x, s), expected, 1e-4, 1e-4)
