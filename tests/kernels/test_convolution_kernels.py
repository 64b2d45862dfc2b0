"""Kernels of convolutions against float64, run by Triton's interpreter on the CPU."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.conv_text import Conv, arrays_of, conv_text, reference, tensor
from helpers.kernel_runner import close, draw, needs_triton, planned, run
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution.family import CONVOLUTION
from mlirfuse.kernels.convolution.problem import ConvolutionConfig
from mlirfuse.options import FusionOptions
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops, convolutions

CASES = [
    Conv(2, 9, 7, 24, 20, low=1, high=1),
    Conv(1, 12, 9, 17, 33, taps=(3, 2), stride=2, low=1, high=2),
    Conv(1, 17, 13, 3, 24, taps=(7, 7), stride=2, low=3, high=3),
    Conv(2, 11, 10, 64, 8, dilation=2, low=2, high=2, filter="fijc"),
    Conv(3, 5, 5, 40, 70, taps=(1, 1), filter="cf"),
    Conv(2, 9, 9, 16, 16, taps=(1, 1), stride=2, filter="cf"),
    Conv(None, 6, 5, 70, 20, low=0, high=1),
    Conv(2, 9, 7, 24, 20, low=1, high=1, image="bchw", filter="fcij"),
    Conv(1, 17, 13, 3, 24, taps=(7, 7), stride=2, low=3, image="bchw", filter="fcij"),
    Conv(3, 5, 5, 40, 70, taps=(1, 1), image="bchw", filter="fc"),
    Conv(1, 6, 7, 1, 5, low=1, high=1),
    Conv(1, 17, 14, 3, 24, taps=(7, 7), stride=2, low=3, high=3),
    Conv(None, 9, 10, 3, 8, stride=2, high=1),
    Conv(2, 8, 6, 5, 8, taps=(2, 2), stride=2, dilation=1),
]


@needs_triton
@pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"{c.image} {c.batch}x{c.in_channels} {c.taps}"
)
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_convolution(interpreter, case, kind):
    """Not in bf16: Triton's interpreter multiplies its bits as whole numbers."""
    arrays = arrays_of(case, kind=kind)
    (found,) = run(interpreter, conv_text(case, kind), "convolution", arrays, [case.result(2)])
    close(found, reference(case, *arrays), kind)


@needs_triton
def test_convolution_of_infinities(interpreter):
    case = Conv(2, 6, 6, 20, 5, low=1, high=1)
    arrays = arrays_of(case)
    arrays[0][0, 2, 3, 4], arrays[0][1, 0, 0, 0], arrays[0][1, 5, 5, 19] = np.inf, -np.inf, np.nan
    (found,) = run(interpreter, conv_text(case), "convolution", arrays, [case.result()])
    expected = reference(case, *arrays)
    finite = np.isfinite(expected)
    assert (np.isfinite(found) == finite).all()
    assert (found[~finite & ~np.isnan(expected)] == np.inf).all()
    close(np.where(finite, found, 0), np.where(finite, expected, 0), "f16")


@needs_triton
def test_an_element_next_to_the_taps_may_be_infinite(interpreter):
    """Rows of taps are loaded in pairs: nine elements, and one of the pixel before them."""
    case = Conv(1, 3, 10, 3, 4, stride=2, low=1)
    arrays = arrays_of(case)
    arrays[0][0, 0, 4, 2] = np.inf
    text = conv_text(case)
    (found,) = run(interpreter, text, "convolution", arrays, [case.result()])
    expected = reference(case, *arrays)
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    assert np.isfinite(found[0, :, 3]).all()
    assert np.isinf(found[0, 0, 2]).any()
    _, plan = plan_of(text)
    assert "row_element = offs_k % 10" in plan.program.source
    assert "a = tl.where(mask_row[None, :], a, 0)" in plan.program.source


@needs_triton
def test_few_channels_are_loaded_in_pairs():
    _, plan = plan_of(conv_text(Conv(2, 64, 64, 3, 64, taps=(7, 7), stride=2, low=3, high=3)))
    text = triton_compiler.build(plan.program, "sm_90").code.decode()
    assert "ld.global.b16" not in text
    assert text.count("ld.global.b32") >= 32


def plan_of(text):
    with ir.Context():
        grouped, plans = planned(text, "convolution")
        assert not isinstance(plans[0], NoMatch), plans[0]
        return str(grouped), plans[0]


@needs_triton
def test_the_region_holds_the_padding_and_the_scales():
    grouped, plan = plan_of(conv_text(CASES[0]))
    assert grouped.index("flow.dispatch.region") < grouped.index("tensor.pad")
    assert grouped.count("flow.dispatch.region") == 1
    assert len(plan.operands) == 5


@needs_triton
@pytest.mark.parametrize("arch", ["sm_80", "gfx942"])
def test_convolution_builds(arch):
    _, plan = plan_of(conv_text(Conv(2, 16, 16, 64, 64, low=1, high=1, filter="fijc"), "bf16"))
    kernel = triton_compiler.build(plan.program, arch)
    assert b"conv_kernel" in kernel.code
    assert kernel.shared_memory > 0


@needs_triton
def test_configurations_to_measure_fit_the_output_channels():
    _, plan = plan_of(conv_text(CASES[0]))
    configs = CONVOLUTION.configs(plan.problem, kernel_runner.TARGET)
    assert configs
    assert all(isinstance(c, ConvolutionConfig) and c.block_n <= 64 for c in configs)


@needs_triton
def test_accumulators_that_start_from_a_tensor(interpreter):
    """The convolution adds to its fourth argument, which the kernel adds to the accumulators."""
    case = Conv(2, 5, 6, 20, 7)
    text = conv_text(case)
    head, _, tail = text.partition("%s = linalg.fill ins(%zero : f32)")
    wide = tensor(case.result(), "f32")
    text = head.replace("%r: ", f"%s: {wide}, %r: ") + tail.partition("\n")[2]
    x, w, mean, var, residual = arrays_of(case)
    start = draw(case.result(), "f32", 6)
    arrays = [x, w, mean, var, start, residual]
    (found,) = run(interpreter, text, "convolution", arrays, [case.result()])
    scale = 1 / np.sqrt(var.astype(np.float64) + 0.001)
    expected = reference(case, x, w, mean, var, residual + start * scale)
    close(found, expected, "f16")


@pytest.mark.parametrize("wanted", [False, True])
def test_kernels_have_convolutions_imported_with_channels_last(tmp_path, wanted):
    """In IREE the first convolution reads the argument as it is; the second reads its result."""
    weight = "tensor<8x8x3x3xf16>"
    image, between, out = (f"tensor<2x8x{n}x{n}xf16>" for n in (10, 8, 6))
    source, output = tmp_path / "in.mlir", tmp_path / "out.mlirbc"
    source.write_text(
        f"func.func @main(%x: {image}, %w: {weight}, %f: {between}, %g: {out}) -> {out} {{\n"
        f"%c = linalg.conv_2d_nchw_fchw ins(%x, %w : {image}, {weight}) outs(%f : {between})"
        f" -> {between}\n"
        f"%d = linalg.conv_2d_nchw_fchw ins(%c, %w : {between}, {weight}) outs(%g : {out})"
        f" -> {out}\n"
        f"return %d : {out}\n}}\n"
    )
    options = FusionOptions(disable_feature=() if wanted else ("kernels",))
    Compiler(kernel_runner.TARGET, options).normalize(source, output, input_type="none")
    with ir.Context():
        module = ir.Module.parse(output.read_bytes())
        _, second = [
            convolution_loops.classify(view.operation)
            for function in ops.functions(module)
            for block in ops.blocks(function)
            for view in block.operations
            if convolutions.is_convolution(view.operation)
        ]
        channels_last = second.image_dims[-1] == ((second.channel_loop, 1),)
    assert channels_last == wanted
