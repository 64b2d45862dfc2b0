"""The kernels of the final program: those that IREE dispatches, with the model's ops."""

import numpy as np
import pytest
import torch
from iree.compiler import ir

import mlirfuse
from mlirfuse import cost, explain
from mlirfuse.backend import final_program, statistics
from mlirfuse.compilation import open_model
from mlirfuse.core import MlirfuseError, Report
from mlirfuse.final_kernels import IREE, FinalKernel
from mlirfuse.options import FusionOptions
from mlirfuse.structured.ir import ops


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.up = torch.nn.Linear(64, 256)
        self.down = torch.nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(64, 128, bias=False)
        self.up = torch.nn.Linear(64, 128, bias=False)

    def forward(self, x):
        return self.gate(x), self.up(x)


class Gate(Pair):
    def forward(self, x):
        gate, up = super().forward(x)
        return torch.nn.functional.silu(gate) * up


class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.nn.functional.max_pool2d(x, 2).mean((2, 3))
        return torch.softmax(self.head(x), -1)


class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)

    def forward(self, x):
        return self.layers(x)


MODELS = {
    "mlp": (Mlp, (8, 64)),
    "conv": (Conv, (1, 3, 16, 16)),
    "blocks": (Blocks, (2, 16, 64)),
}


def compiled(name, target="cpu", **switches):
    torch.manual_seed(0)
    model, shape = MODELS[name]
    switches.setdefault("disable_feature", ("fallback",))
    return mlirfuse.compile(model().eval(), (torch.randn(shape),), target=target, **switches)


@pytest.mark.parametrize("target", ["cpu", "vulkan", "cuda:sm_90"])
@pytest.mark.parametrize("name", MODELS)
def test_every_dispatch_is_listed_once(name, target):
    features = ("fallback", "kernels") if target == "cuda:sm_90" else ("fallback",)
    program = compiled(name, target, disable_feature=features)
    report = program.report
    assert len(program.kernels) == report.dispatches["fused"]
    assert sum(k.code != IREE for k in program.kernels) == report.dispatches["kernels"]
    assert sorted(k.name for k in program.kernels if k.code == IREE) == sorted(report.left)
    for kernel in program.kernels:
        assert kernel.calls == 1
        assert len(kernel.ops) == len(kernel.op_names) == len(kernel.layers) > 0
        assert 0 < kernel.bytes <= sum(o.bytes for o in kernel.operands)
        assert kernel.workgroups, kernel.name
        written = [o.is_result for o in kernel.operands]
        assert written == sorted(written)


COPIES = """
func.func @main(%a: tensor<256x8xf32>, %b: tensor<256x40xf32>)
    -> (tensor<256x32xf32>, tensor<256x24xf32>) {
  %exp = math.exp %a : tensor<256x8xf32>
  %tanh = math.tanh %b : tensor<256x40xf32>
  %empty = tensor.empty() : tensor<256x32xf32>
  %part = tensor.extract_slice %tanh[0, 8] [256, 24] [1, 1]
    : tensor<256x40xf32> to tensor<256x24xf32>
  %first = tensor.insert_slice %exp into %empty[0, 0] [256, 8] [1, 1]
    : tensor<256x8xf32> into tensor<256x32xf32>
  %again = tensor.insert_slice %exp into %first[0, 8] [256, 8] [1, 1]
    : tensor<256x8xf32> into tensor<256x32xf32>
  %both = tensor.insert_slice %part into %again[0, 8] [256, 24] [1, 1]
    : tensor<256x24xf32> into tensor<256x32xf32>
  return %both, %part : tensor<256x32xf32>, tensor<256x24xf32>
}
"""


def test_copies_are_named_by_the_op_and_count_the_bytes_that_they_move():
    program = mlirfuse.compile(COPIES)
    copies = [k for k in program.kernels if k.op_names == ("tensor.insert_slice",)]
    assert [k.bytes for k in copies] == [2 * 256 * columns * 4 for columns in (8, 8, 24)]
    exp, tanh = (k for k in program.kernels if k not in copies)
    assert exp.bytes == 2 * 256 * 8 * 4
    assert tanh.bytes == 2 * 256 * 24 * 4  # reads a slice of its operand
    moved = [b for b in program.report.boundaries if b.reason.code == "data_movement"]
    assert {b.detail for b in moved} == {"tensor.insert_slice"}


def test_a_copied_slice_has_its_name():
    def model(x):
        return x[:, 8:32].contiguous()

    class Slice(torch.nn.Module):
        def forward(self, x):
            return model(x)

    (copy,) = mlirfuse.compile(Slice(), (torch.randn(256, 40),)).kernels
    assert copy.op_names == ("tensor.extract_slice",)
    assert copy.bytes == 2 * 256 * 24 * 4


@pytest.mark.parametrize("shape", [(1, 1000), (1000,), (1, 1, 4000)])
def test_a_softmax_of_one_row_is_one_kernel(shape):
    class Softmax(torch.nn.Module):
        def forward(self, x):
            return torch.log_softmax(x, -1)

    program = mlirfuse.compile(Softmax(), (torch.randn(shape),))
    (kernel,) = program.kernels
    assert kernel.pass_name == "softmax_fusion"
    x = torch.randn(shape)
    np.testing.assert_allclose(program(x), torch.log_softmax(x, -1), atol=1e-5)


def test_ops_of_one_line_are_counted_each():
    class Norm(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.layer_norm(x, (64,))

    (kernel,) = mlirfuse.compile(Norm(), (torch.randn(8, 64),)).kernels
    assert kernel.code == "row_vector_kernel"
    assert len(kernel.ops) > 3
    assert len(set(kernel.ops)) == 1


def test_constants_are_no_ops_of_a_kernel():
    def attention(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    class Attention(torch.nn.Module):
        def forward(self, q, k, v):
            return attention(q, k, v)

    given = tuple(torch.randn(1, 2, 32, 16) for _ in range(3))
    for kernel in mlirfuse.compile(Attention(), given).kernels:
        assert "arith.constant" not in kernel.op_names


def test_a_kernel_names_its_ops_layer_group_and_tensors():
    norm, up, down = compiled("mlp", disable_pass=["row_vector_kernel"]).kernels
    assert norm.code == IREE
    assert (norm.pass_name, norm.match) == ("layer_norm_fusion", 0)
    assert set(norm.layers) == {"norm"}
    assert (up.code, up.pass_name) == ("matmul_vector_kernel", "matmul_elem_gelu_fusion")
    assert up.op_names[0] == "linalg.matmul"
    assert up.layers[0] == "up"
    assert all(place.startswith(__file__) for place in up.ops)
    assert up.operands[0].shape == norm.operands[-1].shape == (8, 64)
    assert [o.shape for o in down.operands if o.is_result] == [(8, 64)]
    assert up.flops >= 2 * 8 * 64 * 256


@pytest.mark.parametrize(
    ("module", "dtype", "pass_name"),
    [
        (Pair, torch.float32, "matmul_horizontal_fusion"),  # weights concatenated
        (Pair, torch.float16, "matmul_horizontal_fusion"),  # two results
        (Gate, torch.float16, "inference_swiglu_fusion"),
    ],
)
def test_a_kernel_of_merged_contractions_names_all_of_them(module, dtype, pass_name):
    program = mlirfuse.compile(
        module().eval().to(dtype),
        (torch.randn(64, 64, dtype=dtype),),
        target="cuda:sm_90",
        disable_feature=["kernels", "fallback"],
    )
    (merged,) = (k for k in program.kernels if k.pass_name == pass_name)
    assert {"gate", "up"} <= set(merged.layers)
    slices = [k.layers for k in program.kernels if k is not merged]
    assert slices in ([], [("gate",), ("up",)])


def test_equal_layers_keep_their_own_names():
    """IREE keeps one executable of equal ones, with the locations of the first."""
    kernels = compiled("blocks").kernels
    names = {k.name for k in kernels}
    assert len(names) < len(kernels)
    for layer in range(3):
        mine = [k for k in kernels if f"layers/layers/{layer}/linear1" in k.layers]
        assert len(mine) == 1
    matches = [(k.pass_name, k.match) for k in kernels if k.pass_name]
    assert len(set(matches)) == len(matches)


def test_the_names_are_those_of_the_entry_points(tmp_path):
    program = compiled("conv")
    program.save(tmp_path / "conv.vmfb")
    held = (tmp_path / "conv.vmfb").read_bytes()
    assert all(k.name.encode() in held for k in program.kernels)


def test_the_list_is_in_the_manifest(tmp_path):
    program = compiled("mlp")
    program.save(tmp_path / "mlp.vmfb")
    assert mlirfuse.load(tmp_path / "mlp.vmfb").kernels == program.kernels
    again = Report.from_dict(program.report.to_dict())
    assert tuple(again.kernels) == program.kernels
    old = program.report.to_dict()
    del old["kernels"]
    assert Report.from_dict(old).kernels == []


def test_stock_has_a_list_too():
    program = compiled("mlp", stock=True)
    assert len(program.kernels) == program.report.dispatches["stock"]
    assert {k.code for k in program.kernels} == {IREE}
    assert {k.pass_name for k in program.kernels} == {None}


LOOP = """
func.func @main(%x: tensor<8x8xf32>, %n: index) -> tensor<8x8xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %e = tensor.empty() : tensor<8x8xf32>
  %y = scf.for %i = %zero to %n step %one iter_args(%s = %x) -> tensor<8x8xf32> {
    %m = linalg.matmul ins(%s, %x : tensor<8x8xf32>, tensor<8x8xf32>)
      outs(%s : tensor<8x8xf32>) -> tensor<8x8xf32>
    scf.yield %m : tensor<8x8xf32>
  }
  return %y : tensor<8x8xf32>
}
"""


def test_a_loop_has_no_number_of_calls(tmp_path):
    path = tmp_path / "loop.mlir"
    path.write_text(LOOP)
    program = mlirfuse.compile(path)
    assert program.kernels
    assert {k.calls for k in program.kernels if "linalg.matmul" in k.op_names} == {None}


DYNAMIC = """
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = math.exp %x : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
"""


def test_dynamic_sizes_are_unknown(tmp_path):
    path = tmp_path / "dynamic.mlir"
    path.write_text(DYNAMIC)
    (kernel,) = mlirfuse.compile(path).kernels
    assert kernel.operands[0].shape == (None,)  # IREE merges the dimensions
    assert (kernel.bytes, kernel.flops, kernel.operands[0].bytes) == (None, None, None)


FILL = """
func.func @main(%x: i64) -> tensor<9xi64> {
  %e = tensor.empty() : tensor<9xi64>
  %y = linalg.fill ins(%x : i64) outs(%e : tensor<9xi64>) -> tensor<9xi64>
  return %y : tensor<9xi64>
}
"""


def test_a_dispatch_that_scheduling_makes_is_listed(tmp_path):
    """A fill of i64 is a dispatch of a builtin of IREE: no command of a device fills 8 bytes."""
    path = tmp_path / "fill.mlir"
    path.write_text(FILL)
    program = mlirfuse.compile(path)
    assert len(program.kernels) == program.report.dispatches["fused"]
    text = explain.kernels_text(program.report)
    assert all(k.name in text for k in program.kernels)


def test_kernels_of_functions_that_were_compiled_alike(tmp_path):
    for name in ("main", "other"):
        text = DYNAMIC.replace("@main", f"@{name}")
        (tmp_path / name).write_text(text)
    both = "".join((tmp_path / name).read_text() for name in ("main", "other"))
    path = tmp_path / "both.mlir"
    path.write_text(both)
    program = mlirfuse.compile(path, function="main")
    assert [k.function for k in program.kernels] == ["main", "other"]


def test_a_missing_phase_is_an_error(tmp_path):
    counted = statistics.Statistics(0, 0, ())
    with pytest.raises(MlirfuseError, match="no IR after the phase"):
        final_program.read(tmp_path, counted)


def test_a_damaged_phase_is_an_error(tmp_path):
    for name in ("dispatch-creation", "flow", "executable-targets"):
        (tmp_path / f"module.0.{name}.mlir").write_text("nonsense")
    with pytest.raises(MlirfuseError, match="cannot read the phase"):
        final_program.read(tmp_path, statistics.Statistics(0, 0, ()))


def test_without_the_list_the_program_is_compiled(monkeypatch):
    def fail(*_):
        raise ValueError("planted")

    monkeypatch.setattr(final_program, "read", fail)
    program = compiled("mlp", disable_feature=(), cache=False)
    assert program.kernels == ()
    x = np.zeros((8, 64), np.float32)
    assert program(x).shape == (8, 64)
    assert explain.kernels_text(program.report).startswith("no kernels")


def test_the_text_has_a_row_for_each_kernel():
    program = compiled("mlp", disable_pass=["row_vector_kernel"])
    text = explain.kernels_text(program.report)
    for kernel in program.kernels:
        assert f"{kernel.name}  " in text
    assert "formed by layer_norm_fusion match 0: (8x64xf32) -> 8x64xf32" in text
    assert "3 kernels, 2 of them generated by mlirfuse" in text
    assert "(up)" in text


def test_listing_leaves_the_program_as_it_is(tmp_path):
    """The flags that write the phases change nothing in the program."""
    torch.manual_seed(0)
    options = FusionOptions.resolve()
    with open_model(Mlp().eval(), (torch.randn(8, 64),), target="cpu", options=options) as work:
        made = []
        for phases in (None, tmp_path / "phases"):
            program = tmp_path / "program.vmfb"
            work.compiler.generate(work.normalized, program, fused=False, phases=phases)
            made.append(program.read_bytes())
    assert made[0] == made[1]


def test_kernel_from_an_older_file_has_no_layers():
    kernel = FinalKernel("k", "main", ("a",), ("linalg.generic",), (), 0, 0)
    entry = kernel.to_dict()
    del entry["layers"]
    assert FinalKernel.from_dict(entry) == kernel


class Lookup(torch.nn.Module):
    """Rows of a table; also the whole table, where `whole`."""

    def __init__(self, whole):
        super().__init__()
        self.table = torch.nn.Embedding(500, 64)
        self.whole = whole

    def forward(self, index):
        found = self.table(index) * 2
        return found + self.table.weight[:16].sum() if self.whole else found


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_a_gather_reads_what_it_asks_for(target):
    model = Lookup(whole=False).eval()
    module = mlirfuse.compile(model, (torch.zeros(8, 2, dtype=torch.int64),), target=target)
    (kernel,) = module.kernels
    assert sum(operand.bytes for operand in kernel.operands) == 8 * 16 + 4 * 64 * (500 + 16)
    assert kernel.bytes == 8 * 16 + 4 * 64 * (16 + 16)


def test_a_table_with_other_readers_is_read_whole():
    text = """
    func.func @main(%table: tensor<500xf32>, %rows: tensor<5xf32>)
        -> (tensor<5xf32>, tensor<500xf32>) {
      %few = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>],
          iterator_types = ["parallel"]} outs(%rows : tensor<5xf32>) {
      ^bb0(%out: f32):
        %c = arith.constant 7 : index
        %e = tensor.extract %table[%c] : tensor<500xf32>
        linalg.yield %e : f32
      } -> tensor<5xf32>
      %all = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
          iterator_types = ["parallel"]}
          ins(%table : tensor<500xf32>) outs(%table : tensor<500xf32>) {
      ^bb0(%x: f32, %out: f32):
        %y = arith.addf %x, %x : f32
        linalg.yield %y : f32
      } -> tensor<500xf32>
      return %few, %all : tensor<5xf32>, tensor<500xf32>
    }"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (function,) = ops.functions(module)
        few, whole = (op for op in ops.nested_ops(function) if op.name == "linalg.generic")
        assert cost.unread_bytes([few]) == 4 * (500 - 5)
        assert cost.unread_bytes([few, whole]) == 0
        assert cost.unread_bytes([whole]) == 0


def test_counting_stock_lists_its_kernels(monkeypatch):
    """Of a program from the cache too; explanations then count its bytes."""
    report = compiled("mlp", count_stock=True).report
    stock = compiled("mlp", stock=True).kernels
    assert [k.name for k in report.stock_kernels] == [k.name for k in stock]
    assert [k.bytes for k in report.stock_kernels] == [k.bytes for k in stock]
    assert {k.workgroups for k in report.stock_kernels} == {None}
    shown = explain.text(report)
    assert "savings: against stock IREE by its program" in shown
    assert "of stock IREE: " in shown
    again = compiled("mlp", count_stock=True).report
    assert again.stock_kernels == report.stock_kernels

    def fail(*_, **__):
        raise ValueError("planted")

    monkeypatch.setattr(final_program, "read", fail)
    lost = compiled("mlp", count_stock=True, disable_feature=(), cache=False).report
    assert lost.dispatches["stock"] == len(stock)
    assert lost.stock_kernels == []
    assert any("kernels of stock IREE are not listed: ValueError" in n for n in lost.notes)


_TWO_OF_ONE_NAME = """
hal.executable private @first {
  hal.executable.variant public @cuda_nvptx_fb target(<"cuda", "cuda-nvptx-fb">) {
    hal.executable.export public @row_kernel ordinal(0) count(%arg0: !hal.device) -> (index) {
      %c1 = arith.constant 1 : index
      %c939 = arith.constant 939 : index
      hal.return %c1, %c939, %c1 : index, index, index
    }
    hal.executable.export public @own ordinal(1) count(%arg0: !hal.device) -> (index) {
      %c7 = arith.constant 7 : index
      hal.return %c7, %c7, %c7 : index, index, index
    }
  }
}
hal.executable private @second {
  hal.executable.variant public @cuda_nvptx_fb target(<"cuda", "cuda-nvptx-fb">) {
    hal.executable.export public @row_kernel ordinal(0) count(%arg0: !hal.device) -> (index) {
      %c1 = arith.constant 1 : index
      hal.return %c1, %c1, %c1 : index, index, index
    }
  }
}
"""


def test_entry_points_of_one_name_have_their_own_workgroups():
    assert final_program._workgroups(_TWO_OF_ONE_NAME) == {
        ("first", "row_kernel"): (1, 939, 1),
        ("first", "own"): (7, 7, 7),
        ("second", "row_kernel"): (1, 1, 1),
        ("", "own"): (7, 7, 7),
    }


def test_the_text_of_stock_lists_its_kernels():
    report = compiled("mlp", count_stock=True).report
    text = explain.stock_text(report)
    assert f"{len(report.stock_kernels)} kernels" in text.splitlines()[0]
    assert all(kernel.name in text for kernel in report.stock_kernels)
    report.stock_kernels = []
    assert explain.stock_text(report).startswith("stock IREE's program: dispatches ")
