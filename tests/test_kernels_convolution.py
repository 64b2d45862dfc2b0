"""Kernels of convolutions against float64, run by Triton's interpreter on the CPU."""

import dataclasses

import numpy as np
import pytest
import test_kernels
from iree.compiler import ir
from test_kernels import close, draw, needs_triton, planned, run

from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution import planner as convolution
from mlirfuse.kernels.matmul.tilings import Tiling
from mlirfuse.options import FusionOptions
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops, convolutions
from mlirfuse.tuning import kernel_search

interpreter = test_kernels.interpreter


@dataclasses.dataclass(frozen=True)
class Conv:
    """Sizes of a convolution; `image` and `filter` are the orders of their axes in memory."""

    batch: int | None
    height: int
    width: int
    channels: int
    outputs: int
    side: tuple[int, int] = (3, 3)
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0
    image: str = "bhwc"
    filter: str = "ijcf"

    @property
    def size(self):
        return {
            "b": self.batch,
            "h": self.height + self.low + self.high,
            "w": self.width + self.low + self.high,
            "c": self.channels,
            "f": self.outputs,
            "i": self.side[0],
            "j": self.side[1],
        }

    def places(self):
        size = self.size
        return [
            (size[a] - (size[k] - 1) * self.dilation - 1) // self.stride + 1
            for a, k in (("h", "i"), ("w", "j"))
        ]

    def shape(self, axes, batch="?"):
        size = {**self.size, "h": self.height, "w": self.width}
        return [batch if size[a] is None else size[a] for a in axes]

    def result(self, batch="?"):
        h, w = self.places()
        size = {"b": self.batch or batch, "h": h, "w": w, "f": self.outputs}
        return [size[a] for a in self.image.replace("c", "f")]


def tensor(shape, kind):
    return f"tensor<{'x'.join(map(str, [*shape, kind]))}>"


def conv_text(c, kind="f16", value="0.0"):
    """relu(batch_norm(conv(x, w)) + residual) of images that are padded, and their sum."""
    window = [k for k in "ij" if k in c.filter]
    loops = ", ".join([*"bhwf", *window, "c"])
    moved = {
        a: f"{a} * {c.stride}" + (f" + {k} * {c.dilation}" if window else "")
        for a, k in (("h", "i"), ("w", "j"))
    }
    at = ", ".join(moved.get(a, a) for a in c.image)
    out_axes = c.image.replace("c", "f")
    out, space = c.result(), "b, f, h, w" if out_axes == "bfhw" else "b, h, w, f"
    image, weight, vector = (
        tensor(c.shape(c.image), kind),
        tensor(c.shape(c.filter), kind),
        tensor([c.outputs], kind),
    )
    padded = tensor([c.size[a] or "?" for a in c.image], kind)
    low, high = (", ".join(str(n if a in "hw" else 0) for a in c.image) for n in (c.low, c.high))
    narrow, wide, row = tensor(out, kind), tensor(out, "f32"), tensor([c.outputs], "f32")
    kinds = ", ".join(['"parallel"'] * 4 + ['"reduction"'] * (len(window) + 1))
    empty = "(%n)" if c.batch is None else "()"
    pad = (
        f"""%p = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %edge : {kind}
  }} : {image} to {padded}"""
        if c.low + c.high
        else ""
    )
    return f"""
#x = affine_map<({loops}) -> ({at})>
#w = affine_map<({loops}) -> ({", ".join(c.filter)})>
#y = affine_map<({loops}) -> ({", ".join(out_axes)})>
#id = affine_map<({space}) -> ({space})>
#f = affine_map<({space}) -> (f)>
#v = affine_map<(f) -> (f)>
func.func @main(%x: {image}, %w: {weight}, %mean: {vector}, %var: {vector}, %r: {narrow})
    -> ({narrow}) {{
  %zero = arith.constant 0.0 : f32
  %edge = arith.constant {value} : {kind}
  %none = arith.constant 0.0 : {kind}
  %eps = arith.constant 0.001 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {image}
  {pad}
  %e = tensor.empty{empty} : {wide}
  %h = tensor.empty{empty} : {narrow}
  %s = linalg.fill ins(%zero : f32) outs(%e : {wide}) -> {wide}
  %c = linalg.generic {{indexing_maps = [#x, #w, #y], iterator_types = [{kinds}]}}
      ins(%{"p" if pad else "x"}, %w : {padded}, {weight}) outs(%s : {wide}) {{
  ^bb0(%i: {kind}, %j: {kind}, %o: f32):
    %a = arith.extf %i : {kind} to f32
    %b = arith.extf %j : {kind} to f32
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %o, %m : f32
    linalg.yield %t : f32
  }} -> {wide}
  %ev = tensor.empty() : {row}
  %scale = linalg.generic {{indexing_maps = [#v, #v], iterator_types = ["parallel"]}}
      ins(%var : {vector}) outs(%ev : {row}) {{
  ^bb0(%i: {kind}, %o: f32):
    %a = arith.extf %i : {kind} to f32
    %b = arith.addf %a, %eps : f32
    %t = math.rsqrt %b : f32
    linalg.yield %t : f32
  }} -> {row}
  %d = linalg.generic {{indexing_maps = [#id, #f, #f, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%c, %mean, %scale : {wide}, {vector}, {row}) outs(%e : {wide}) {{
  ^bb0(%i: f32, %j: {kind}, %k: f32, %o: f32):
    %a = arith.extf %j : {kind} to f32
    %b = arith.subf %i, %a : f32
    %t = arith.mulf %b, %k : f32
    linalg.yield %t : f32
  }} -> {wide}
  %y = linalg.generic {{indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%d, %r : {wide}, {narrow}) outs(%h : {narrow}) {{
  ^bb0(%i: f32, %j: {kind}, %o: {kind}):
    %a = arith.truncf %i : f32 to {kind}
    %b = arith.addf %a, %j : {kind}
    %q = arith.cmpf ugt, %b, %none : {kind}
    %t = arith.select %q, %b, %none : {kind}
    linalg.yield %t : {kind}
  }} -> {narrow}
  return %y : {narrow}
}}
"""


def reference(c, x, w, mean, var, residual):
    x, w, mean, var = (a.astype(np.float64) for a in (x, w, mean, var))
    x = x.transpose([c.image.index(a) for a in "bhwc"])
    w = w.transpose([c.filter.index(a) for a in "ijcf" if a in c.filter])
    w = w.reshape(*c.side, c.channels, c.outputs)
    x = np.pad(x, ((0, 0), (c.low, c.high), (c.low, c.high), (0, 0)))
    h, width = c.places()
    total = np.zeros((x.shape[0], h, width, c.outputs))
    with np.errstate(invalid="ignore"):
        for i in range(c.side[0]):
            for j in range(c.side[1]):
                part = x[
                    :,
                    i * c.dilation : i * c.dilation + (h - 1) * c.stride + 1 : c.stride,
                    j * c.dilation : j * c.dilation + (width - 1) * c.stride + 1 : c.stride,
                ]
                total += part @ w[i, j]
        y = (total - mean) / np.sqrt(var + 0.001)
        y = y.transpose(["bhwf".index(a) for a in c.image.replace("c", "f")])
        y = y + residual.astype(np.float64)
        return np.where(y <= 0, 0.0, y)


def arrays_of(c, batch=2):
    kind = "f16"
    return [
        draw(c.shape(c.image, batch), kind, 1),
        draw(c.shape(c.filter), kind, 2, 1 / np.sqrt(c.channels * c.side[0] * c.side[1])),
        draw((c.outputs,), kind, 3),
        np.abs(draw((c.outputs,), kind, 4)),
        draw(c.result(batch), kind, 5),
    ]


def supported(text, tiling, target):
    """The plan of a convolution's kernel with a tiling, or why there is none."""
    with ir.Context():
        module, _ = planned(text, "convolution")
        (found,) = (
            found
            for region in kernel_search.regions(module)
            if (found := convolution.supports(region, target, tiling)) is not None
        )
        return found


class Array(np.ndarray):
    """What a kernel's text does to a tensor."""

    def to(self, dtype):
        return self.astype(dtype)


CASES = [
    Conv(2, 9, 7, 24, 20, low=1, high=1),
    Conv(1, 12, 9, 17, 33, side=(3, 2), stride=2, low=1, high=2),
    Conv(1, 17, 13, 3, 24, side=(7, 7), stride=2, low=3, high=3),
    Conv(2, 11, 10, 64, 8, dilation=2, low=2, high=2),
    Conv(3, 5, 5, 40, 70, side=(1, 1), filter="cf"),
    Conv(2, 9, 9, 16, 16, side=(1, 1), stride=2, filter="cf"),
    Conv(None, 6, 5, 70, 20, low=0, high=1),
    Conv(2, 9, 7, 24, 20, low=1, high=1, image="bchw", filter="fcij"),
    Conv(1, 17, 13, 3, 24, side=(7, 7), stride=2, low=3, image="bchw", filter="fcij"),
    Conv(3, 5, 5, 40, 70, side=(1, 1), image="bchw", filter="fc"),
    Conv(1, 6, 7, 1, 5, low=1, high=1, filter="fijc"),
    Conv(1, 17, 14, 3, 24, side=(7, 7), stride=2, low=3, high=3),
    Conv(None, 9, 10, 3, 8, stride=2, high=1, filter="fijc"),
    Conv(2, 8, 6, 5, 8, side=(2, 2), stride=2, dilation=1),
]


@needs_triton
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.image} {c.batch}x{c.channels} {c.side}")
def test_convolution(interpreter, case):
    """In f16 alone: Triton's interpreter multiplies the bits of bf16 as whole numbers."""
    arrays = arrays_of(case)
    (found,) = run(interpreter, conv_text(case), "convolution", arrays, [case.result(2)])
    close(found, reference(case, *arrays), "f16")


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
def test_a_neighbour_of_the_window_may_be_infinite(interpreter):
    """Rows of the window are read in pairs: nine channels, and one of the place before them."""
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
    assert "along = term % 10" in plan.program.source
    assert "a = tl.where(belongs[None, :], a, 0)" in plan.program.source


@needs_triton
def test_the_stem_reads_pairs():
    _, plan = plan_of(conv_text(Conv(2, 64, 64, 3, 64, side=(7, 7), stride=2, low=3, high=3)))
    text = triton_compiler.build(plan.program, "sm_90").code.decode()
    assert "ld.global.b16" not in text
    assert text.count("ld.global.b32") >= 32


def plan_of(text):
    with ir.Context():
        grouped, plans = planned(text, "convolution")
        assert not isinstance(plans[0], NoMatch), plans[0]
        return str(grouped), plans[0]


@needs_triton
def test_the_group_holds_the_padding_and_the_channels():
    grouped, plan = plan_of(conv_text(CASES[0]))
    assert grouped.index("flow.dispatch.region") < grouped.index("tensor.pad")
    assert grouped.count("flow.dispatch.region") == 1
    assert len(plan.operands) == 5


@needs_triton
@pytest.mark.parametrize("arch", ["sm_80", "gfx942"])
def test_convolution_builds(arch):
    _, plan = plan_of(conv_text(Conv(2, 16, 16, 64, 64, low=1, high=1), "bf16"))
    kernel = triton_compiler.build(plan.program, arch)
    assert b"conv_kernel" in kernel.code
    assert kernel.shared_memory > 0


@needs_triton
def test_candidates_fit_the_columns():
    _, plan = plan_of(conv_text(CASES[0]))
    tilings = convolution.candidates(plan.key)
    assert tilings
    assert all(isinstance(t, Tiling) and t.width <= 64 for t in tilings)


@needs_triton
def test_sums_that_start_from_a_tensor(interpreter):
    """The convolution adds to its fourth argument, which the kernel reads after the sums."""
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


@pytest.mark.parametrize("feature", [(), ("kernels",)])
def test_kernels_have_convolutions_imported_with_channels_last(tmp_path, feature):
    """IREE lets the first convolution read what it is given; the second reads its result."""
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
    options = FusionOptions(enable_feature=feature)
    Compiler(test_kernels.TARGET, options).normalize(source, output, input_type="none")
    with ir.Context():
        module = ir.Module.parse(output.read_bytes())
        _, second = [
            convolution_loops.classify(view.operation)
            for function in ops.functions(module)
            for block in ops.blocks(function)
            for view in block.operations
            if convolutions.is_convolution(view.operation)
        ]
        channels_last = second.terms[-1] == ((second.channel, 1),)
    assert channels_last == bool(feature)
