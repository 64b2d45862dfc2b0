"""Kernels of grouped, depthwise and transposed convolutions, run by Triton's interpreter."""

import re

import numpy as np
import pytest

from helpers.conv_text import plan_of
from helpers.grouped_conv_text import Form, form_reference, form_text
from helpers.kernel_runner import TARGET, close, draw, needs_triton, run
from mlirfuse import targets
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution import heuristics, problem
from mlirfuse.kernels.convolution.family import CONVOLUTION
from mlirfuse.kernels.convolution.problem import ConvolutionProblem

DEPTHWISE = [
    Form((5, 7), (3, 3), groups=24),
    Form((5, 7), (3, 3), groups=24, last=True),
    Form((70,), (5,), groups=7, stride=2, low=2),
    Form((70,), (4,), groups=9, dilation=3, last=True, batch=1),
    Form((3, 4, 5), (3, 3, 3), groups=5, high=2, batch=1),
    Form((5, 6, 4), (2, 3, 1), groups=40, last=True, stride=2),
    Form((8, 8), (3, 2), groups=6, outer=2),
    Form((8, 8), (3, 3), groups=6, outer=3, last=True, stride=2),
    Form((9, 9), (13, 11), groups=2, low=6, high=5, batch=1),
    Form((8, 8), (3, 3), groups=6, inner=3, outer=2),
    Form((5, 7), (3, 3), groups=70, stride=2, turned=True, batch=1),
    Form((4, 5), (3, 3), groups=70, last=True, turned=True, batch=1),
    Form((3, 4, 5), (3, 3, 3), groups=5, outer=3, turned=True, batch=1),
    Form((4, 3), (4, 4), groups=20, spread=2, low=2, high=2, turned=True),
]
GROUPED = [
    Form((9, 11), (3, 3), groups=3, inner=16, outer=20),
    Form((9, 11), (3, 3), groups=3, inner=17, outer=5, last=True),
    Form((9, 11), (3, 3), groups=4, inner=4, outer=8, stride=2),
    Form((33,), (5,), groups=2, inner=8, outer=33, dilation=2, low=4, high=4),
    Form((3, 4, 3), (3, 3, 3), groups=2, inner=8, outer=4, batch=1),
]
OUTPUTS_IN_REGISTERS = [
    Form((5, 6), (3, 3), groups=3, inner=5, outer=5),
    Form((3, 3), (3, 3), groups=66, inner=3, outer=5, last=True, batch=1),
    Form((23,), (5,), groups=3, inner=6, outer=10, stride=2, dilation=2, low=3, high=2),
    Form((23,), (3,), groups=3, inner=10, outer=10, last=True, batch=1),
    Form((3, 4, 3), (3, 3, 3), groups=2, inner=3, outer=6, high=2, batch=1),
    Form((3, 4, 2), (2, 3, 1), groups=5, inner=10, outer=4, last=True, batch=1),
    Form((3, 3), (4, 4), groups=2, inner=5, outer=6, spread=2, low=2, high=2, batch=1),
    Form((3, 3), (7, 7), groups=2, inner=3, outer=7, low=3, high=3, batch=1),
]
"""Groups of odd numbers of channels."""

TRANSPOSED = [
    Form((7, 6), (4, 4), inner=20, outer=18, spread=2, low=2, high=2),
    Form((7, 6), (3, 3), inner=20, outer=18, spread=2, low=1, high=2, last=True),
    Form((9,), (4,), inner=17, outer=5, spread=3, dilation=2, low=5, high=6),
    Form((9,), (5,), inner=3, outer=5, spread=2, dilation=2, low=3, high=3),
    Form((9,), (4,), inner=40, outer=5, spread=4, dilation=6, low=7, high=9),
    Form((3, 2, 4), (3, 2, 4), inner=16, outer=8, spread=2, low=3, high=2, batch=1),
    Form((5, 5), (2, 2), inner=16, outer=8, spread=3, low=1, high=4),
    Form((4, 3), (4, 4), groups=3, inner=8, outer=5, spread=2, low=2, high=2),
    Form((4, 3), (4, 4), groups=20, spread=2, low=2, high=2),
    Form((4, 3), (3, 5), groups=20, spread=3, low=2, high=3, last=True),
    Form((30,), (4,), groups=6, spread=2, dilation=2, low=4, high=4),
    Form((7, 40), (3, 3), groups=2, spread=2, low=1, high=2, batch=1),
]

RUNS = [
    Form((13, 7), (5, 3), groups=24, low=2, high=2),
    Form((13, 7), (3, 3), groups=24, last=True),
    Form((64, 32), (7, 7), groups=2, low=3, high=3, batch=1),
    Form((31, 33), (3, 3), groups=3, low=0, high=0, batch=2),
    Form((31, 33), (5, 5), groups=3, stride=2, low=2, high=1, batch=1),
    Form((19, 8), (5, 3), groups=10, stride=2, dilation=2, low=4, high=4, batch=1),
    Form((9, 4, 5), (3, 3, 3), groups=5, high=2, batch=1),
    Form((5, 9, 4), (1, 3, 3), groups=40, last=True, batch=1),
    Form((16, 8), (3, 3), groups=6, inner=3, batch=1),
    Form((11, 7), (3, 3), groups=70, turned=True, batch=1),
    Form((22, 33), (3, 3), groups=20, turned=True),
]
"""Outputs of a thread whose taps overlap."""

SINGLE = [
    Form((9, 11), (3, 3), inner=20),
    Form((9, 11), (3, 3), inner=20, last=True),
    Form((9, 11), (3, 5), inner=3, stride=2, low=2, high=1),
    Form((7, 6), (4, 4), inner=20, spread=2, low=2, high=2),
    Form((40,), (5,), dilation=2, low=4, high=4),
    Form((5, 6, 4), (2, 3, 1), inner=17, batch=1),
]
"""No output channels: IREE drops the dimension of the only one."""

FORMS = {
    "depthwise": DEPTHWISE,
    "single": SINGLE,
    "grouped": GROUPED,
    "registers": OUTPUTS_IN_REGISTERS,
    "transposed": TRANSPOSED,
}


@needs_triton
@pytest.mark.parametrize(
    ("form", "kind"),
    [
        (pytest.param(form, kind, id=f"{name}{number}-{kind}"))
        for name, forms in FORMS.items()
        for number, form in enumerate(forms)
        for kind in ("f32", "f16", "bf16")[: 1 if number else 2 + (name == "registers")]
    ],
)
def test_form(interpreter, form, kind):
    fan_in = (form.inner or 1) ** 0.5
    arrays = [
        draw(form.shape(form.image_axes, form.image), kind, 1),
        draw(form.shape(form.filter_axes), kind, 2, 1 / fan_in),
        draw(form.shape(form.bias_axes), kind, 3),
    ]
    result = form.shape(form.out_axes)
    (found,) = run(interpreter, form_text(form, kind), "convolution", arrays, [result])
    close(found, form_reference(form, *arrays), kind)


@pytest.fixture
def direct(monkeypatch):
    """Single outputs are direct, however many input channels they have."""
    monkeypatch.setattr(problem, "PIXELS_OF_CHANNEL", 0)


@needs_triton
@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("form", [form for form in SINGLE if not form.last])
def test_threads_add_the_channels_of_a_single_output(interpreter, direct, runs, form, kind):
    arrays = [
        draw(form.shape(form.image_axes, form.image), kind, 1),
        draw(form.shape(form.filter_axes), kind, 2, 1 / 9),
        draw([], kind, 3),
    ]
    text, shape = form_text(form, kind), form.shape(form.out_axes)
    assert "tl.dot(" not in plan_of(text, None, TARGET).program.source
    (found,) = run(interpreter, text, "convolution", arrays, [shape])
    close(found, form_reference(form, *arrays), kind)


@needs_triton
@pytest.mark.parametrize("number", [0, 1])
def test_an_infinite_element_is_infinite_in_a_single_output(interpreter, number):
    """The tile of a GEMM has further columns, of products with zeros."""
    form = SINGLE[number]
    image = draw(form.shape(form.image_axes, form.image), "f32", 1)
    image[0, 2, 3, 4] = np.inf
    weights = np.abs(draw(form.shape(form.filter_axes), "f32", 2)) + 0.1
    arrays = [image, weights, draw([], "f32", 3)]
    assert "tl.dot(" in plan_of(form_text(form, "f32"), None, TARGET).program.source
    result = form.shape(form.out_axes)
    (found,) = run(interpreter, form_text(form, "f32"), "convolution", arrays, [result])
    np.testing.assert_array_equal(np.isinf(found), np.isinf(form_reference(form, *arrays)))
    assert np.isinf(found).any()
    assert not np.isnan(found).any()


@needs_triton
@pytest.mark.parametrize(
    ("channels", "side", "direct"), [(2, 56, True), (24, 200, True), (512, 16, False)]
)
def test_a_single_output_of_few_input_channels_is_summed_by_threads(channels, side, direct):
    form = Form((side, side), (3, 3), inner=channels, batch=1)
    plan = plan_of(form_text(form, "f16"), None, TARGET)
    sources = [step.program.source for step in plan.kernels()]
    assert any("tl.dot(" in source for source in sources) != direct


@pytest.fixture
def runs(monkeypatch):
    """Small convolutions have runs, too."""
    monkeypatch.setattr(heuristics, "DIRECT_WARPS_PER_SM", 0)


@needs_triton
@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("form", RUNS)
def test_adjacent_outputs_share_elements(interpreter, runs, form, kind):
    arrays = [
        draw(form.shape(form.image_axes, form.image), kind, 1),
        draw(form.shape(form.filter_axes), kind, 2, 1 / 9),
        draw(form.shape(form.bias_axes), kind, 3),
    ]
    plan = plan_of(form_text(form, kind), None, TARGET)
    assert "for part in tl.static_range(" in plan.program.source
    (found,) = run(
        interpreter,
        form_text(form, kind),
        "convolution",
        arrays,
        [form.shape(form.out_axes)],
    )
    close(found, form_reference(form, *arrays), kind)


@needs_triton
@pytest.mark.parametrize(("number", "scalar"), [(0, False), (1, False), (2, True), (3, True)])
def test_weights_of_one_channel_are_scalars(runs, number, scalar):
    source = plan_of(form_text(RUNS[number], "f32"), None, TARGET).program.source
    assert ("filter_offset = (image % " in source) == scalar


@needs_triton
@pytest.mark.parametrize("turned", [True, False])
def test_a_tile_has_adjacent_channels_where_the_result_has_them_last(turned):
    """A sector of them is stored at a time."""
    form = Form((64, 64), (3, 3), groups=480, turned=turned)
    source = plan_of(form_text(form, "f16"), None, TARGET).program.source
    assert ("tiles of 16 by 32" in source and "(row % 480)" in source) == turned


@needs_triton
@pytest.mark.parametrize(("size", "area"), [(16, 128), (64, 512)])
def test_tiles_of_several_channels_have_an_element_for_each_thread(runs, size, area):
    """Planes of 16 by 16 in runs of rows are shorter than a tile; those of 64 by 64 are not."""
    form = Form((size, size), (5, 5), low=2, high=2, groups=512, batch=16)
    source = plan_of(form_text(form, "f16"), None, TARGET).program.source
    rows, columns = map(int, re.search(r"tiles of (\d+) by (\d+)", source).groups())
    assert rows * columns == area


@needs_triton
@pytest.mark.parametrize(("number", "guarded"), [(3, True), (0, False)])
def test_runs_read_nothing_behind_an_image_without_padding(runs, number, guarded):
    """The last run of 29 rows of outputs has three more; padding has its own condition."""
    source = plan_of(form_text(RUNS[number], "f32"), None, TARGET).program.source
    assert ("((origin2 + tap0 * 1) < 31)" in source) == guarded


@needs_triton
@pytest.mark.parametrize("form", [RUNS[2], RUNS[7]])
def test_runs_build(runs, form):
    plan = plan_of(form_text(form, "f16"), None, TARGET)
    assert triton_compiler.build(plan.program, TARGET.arch).code


@needs_triton
@pytest.mark.parametrize("name", ["cuda:sm_80", "cuda:sm_90", "rocm:gfx942"])
@pytest.mark.parametrize("form", [forms[0] for forms in FORMS.values()], ids=FORMS)
def test_form_builds(form, name):
    target = targets.parse(name)
    plan = plan_of(form_text(form, "f32"), None, target)
    assert not isinstance(plan, NoMatch), plan
    assert b"conv_kernel" in triton_compiler.build(plan.program, target.arch).code


@needs_triton
@pytest.mark.parametrize("form", OUTPUTS_IN_REGISTERS)
def test_output_channels_of_a_group_share_the_loads_of_an_image(form):
    plan = plan_of(form_text(form, "f32"), None, TARGET)
    source = plan.program.source
    assert plan.problem.is_direct
    assert "tl.dot(" not in source
    assert source.count(" = tl.load(elements + (") == 1
    assert source.count(" += a * b") == form.outer
    assert f"for output in tl.static_range({form.outer}):" in source


@needs_triton
@pytest.mark.parametrize("last", [False, True])
def test_adjacent_lanes_load_adjacent_elements_of_the_image(last):
    """Whatever the order of the result is, which is stored once."""
    form = Form((9, 11), (3, 3), groups=70, last=last, turned=True)
    source = plan_of(form_text(form, "f32"), None, TARGET).program.source
    assert ("origin3 = column\n" if last else "origin3 = (column % 11)") in source


@needs_triton
def test_output_channels_in_registers_build():
    for form in (OUTPUTS_IN_REGISTERS[0], OUTPUTS_IN_REGISTERS[1]):
        plan = plan_of(form_text(form, "f16"), None, TARGET)
        assert triton_compiler.build(plan.program, TARGET.arch).code


@pytest.mark.parametrize(
    ("groups", "inner", "outer", "taps", "bits", "direct"),
    [
        (32, 1, 1, 9, 16, True),
        (32, 64, 3, 9, 16, True),
        (32, 3, 5, 9, 16, True),
        (32, 5, 5, 9, 32, True),
        (32, 10, 10, 9, 32, True),
        (16, 6, 6, 27, 16, True),
        # Matrix instructions compute many output channels from elements that are gathered once.
        (8, 8, 188, 49, 16, False),
        (4, 8, 16, 9, 16, False),
        (4, 4, 17, 9, 16, False),
        # Blocks of K of one tap.
        (4, 16, 8, 9, 16, False),
        (4, 41, 256, 49, 16, False),
        (1, 3, 5, 9, 16, False),
    ],
)
def test_which_groups_are_computed_without_matrix_instructions(
    groups, inner, outer, taps, bits, direct
):
    problem = ConvolutionProblem(25088, outer, inner, taps, operand_bits=bits, groups=groups)
    assert problem.is_direct == direct
    if direct:
        config, gpu = CONVOLUTION.default_config(problem, TARGET), TARGET.gpu
        each = config.block_m * config.block_n // (config.num_warps * gpu.warp_size)
        assert each * outer <= max(outer, heuristics.MAX_DIRECT_ACCUMULATORS)


CHANNELS_LAST = """
#read = affine_map<(n, c, h, w) -> (n, h, w, c)>
#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#image = affine_map<(n, h, w, c, i, j) -> (n, c, h + i, w + j)>
#filter = affine_map<(n, h, w, c, i, j) -> (c, i, j)>
#out = affine_map<(n, h, w, c, i, j) -> (n, h, w, c)>
func.func @main(%x: tensor<2x7x6x20xf32>, %w: tensor<20x3x3xf32>) -> tensor<2x7x6x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x20x7x6xf32>
  %t = linalg.generic {indexing_maps = [#read, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x7x6x20xf32>) outs(%e : tensor<2x20x7x6xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<2x20x7x6xf32>
  %p = tensor.pad %t low[0, 0, 2, 1] high[0, 0, 0, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<2x20x7x6xf32> to tensor<2x20x9x8xf32>
  %f = tensor.empty() : tensor<2x7x6x20xf32>
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<2x7x6x20xf32>) -> tensor<2x7x6x20xf32>
  %y = linalg.generic {indexing_maps = [#image, #filter, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%p, %w : tensor<2x20x9x8xf32>, tensor<20x3x3xf32>) outs(%z : tensor<2x7x6x20xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %m = arith.mulf %i, %j : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x7x6x20xf32>
  return %y : tensor<2x7x6x20xf32>
}
"""


@needs_triton
def test_an_image_with_channels_last_is_read_in_place(interpreter):
    """A copy to channels first had a kernel of its own."""
    x, w = draw((2, 7, 6, 20), "f32", 1), draw((20, 3, 3), "f32", 2)
    (found,) = run(interpreter, CHANNELS_LAST, "convolution", [x, w], [(2, 7, 6, 20)])
    around = np.pad(x.astype(np.float64), ((0, 0), (2, 0), (1, 1), (0, 0)))
    expected = sum(
        around[:, i : i + 7, j : j + 6] * w.astype(np.float64)[:, i, j]
        for i in range(3)
        for j in range(3)
    )
    close(found, expected, "f32")
