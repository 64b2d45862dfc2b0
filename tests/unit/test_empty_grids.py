"""Dispatches over sizes of zero are left out on CUDA, which refuses to launch them."""

import re

import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton
from mlirfuse import targets
from mlirfuse.backend import final_program, grouping
from mlirfuse.backend.compiler import Compiler
from mlirfuse.builders import empty_grids
from mlirfuse.options import FusionOptions

FLOW = """
flow.executable private @dynamic {
  flow.executable.export public @dynamic workgroups(%n: index) -> (index, index, index) {
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice(%n)
    flow.return %x, %y, %z : index, index, index
  }
}
"""

STATIC_EXECUTABLE = """
flow.executable private @static {
  flow.executable.export public @static workgroups() -> (index, index, index) {
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
    flow.return %x, %y, %z : index, index, index
  }
}
"""

PROGRAM = """
#id = affine_map<(r, c) -> (r, c)>
func.func @main(%x: tensor<SIZEx48xf32>) -> tensor<SIZEx48xf32> {
  %zero = arith.constant 0 : index
  DIM
  %e = tensor.empty(OPERAND) : tensor<SIZEx48xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<SIZEx48xf32>) outs(%e : tensor<SIZEx48xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<SIZEx48xf32>
  return %y : tensor<SIZEx48xf32>
}
"""
DYNAMIC = {"SIZE": "?", "DIM": "%n = tensor.dim %x, %zero : tensor<?x48xf32>", "OPERAND": "%n"}
STATIC = {"SIZE": "7", "DIM": "", "OPERAND": ""}


def test_all_numbers_are_zero_where_one_is():
    with ir.Context():
        module = ir.Module.parse(FLOW + STATIC_EXECUTABLE)
        assert empty_grids.repair(module)
        text = str(module)
        assert module.operation.verify()
    dynamic, static = text.split("@static", 1)
    counts = r"%x, %y, %z = .*\n"
    assert re.search(
        counts + r".*\n? *%c0 = .*0 : index\n *%(\w+) = arith.muli %x, %y : index\n"
        r" *%(\w+) = arith.muli %\1, %z : index\n *%(\w+) = arith.cmpi eq, %\2, %c0 : index\n"
        r" *%(\w+) = arith.select %\3, %c0, %x : index\n"
        r" *%(\w+) = arith.select %\3, %c0, %y : index\n"
        r" *%(\w+) = arith.select %\3, %c0, %z : index\n *flow.return %\4, %\5, %\6 ",
        dynamic,
    )
    assert "arith.select" not in static


def test_modules_of_static_sizes_have_no_repair():
    with ir.Context():
        assert not empty_grids.repair(ir.Module.parse(STATIC_EXECUTABLE))


@needs_triton
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(("sizes", "selects"), [(DYNAMIC, True), (STATIC, False)])
def test_programs(tmp_path, sizes, selects, ours):
    """Those of IREE's code generation, and of our kernels."""
    text = PROGRAM
    for name, spelled in sizes.items():
        text = text.replace(name, spelled)
    source, normalized = tmp_path / "program.mlir", tmp_path / "normalized.mlirbc"
    source.write_text(text, encoding="utf-8")
    switch = {"enable_feature" if ours else "disable_feature": ("kernels",)}
    target, options = targets.parse("cuda:sm_90"), FusionOptions(**switch)
    compiler = Compiler(target, options)
    compiler.normalize(source, normalized, input_type="auto")
    grouped = grouping.group(normalized, tmp_path / "in.mlirbc", target=target, options=options)
    phases = tmp_path / "phases"
    counted = compiler.generate(grouped.path, tmp_path / "out.vmfb", fused=True, phases=phases)
    assert (counted.dispatches, counted.kernels) == (1, int(ours))
    assert final_program.read(phases, counted).kernels[0].name in counted.names
    (hal,) = phases.glob("*.executable-targets.mlir")
    _, _, region = hal.read_text(encoding="utf-8").partition("hal.executable.export")
    assert ("arith.select" in region.partition("hal.return")[0]) == selects
