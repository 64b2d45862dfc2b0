"""Kernels of poolings against numpy, run by Triton's interpreter on the CPU."""

import dataclasses
import itertools

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True)
class Pool:
    """Sizes of a pooling; `image` is the order of its axes, `start` its init.

    `result` is the order of the axes of the result; that of the image where it is empty. `squared`
    is whether the pooling is of the sum of the image and its square.
    """

    shape: tuple[int | None, ...]
    side: tuple[int, int] = (3, 3)
    stride: int = 2
    dilation: int = 1
    low: int = 0
    high: int = 0
    image: str = "bhwc"
    combine: str = "arith.maximumf"
    kind: str = "f16"
    edge: str = "0xFC00"
    start: str = "0xFC00"
    result: str = ""
    squared: bool = False

    @property
    def order(self):
        return self.result or self.image

    def out(self, batch="?"):
        sides = dict(zip("hw", self.side, strict=True))
        sizes = {
            a: (size + self.low + self.high - (sides[a] - 1) * self.dilation - 1) // self.stride + 1
            if a in sides
            else (batch if size is None else size)
            for a, size in zip(self.image, self.shape, strict=True)
        }
        return [sizes[a] for a in self.order]


def pool_text(p):
    """Half of the pooling, and one more."""
    kind, wide = p.kind, p.kind if p.combine != "arith.addf" else "f32"
    moved = {a: f"{a} * {p.stride} + {k} * {p.dilation}" for a, k in (("h", "i"), ("w", "j"))}
    at = ", ".join(moved.get(a, a) for a in p.image)

    def tensor(shape, kind):
        return f"tensor<{'x'.join('?' if s is None else str(s) for s in shape)}x{kind}>"

    image = tensor(p.shape, kind)
    added = [p.low + p.high if a in "hw" else 0 for a in p.image]
    size = [s if s is None else s + n for s, n in zip(p.shape, added, strict=True)]
    padded = tensor(size, kind)
    low, high = (", ".join(str(n if a in "hw" else 0) for a in p.image) for n in (p.low, p.high))
    read = "w" if p.squared else "x"
    square = (
        f"""%m = tensor.empty({"%n" if None in p.shape else ""}) : {image}
  %q = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel",
      "parallel", "parallel"]}} ins(%x : {image}) outs(%m : {image}) {{
  ^bb0(%a: {kind}, %o: {kind}):
    %r = arith.mulf %a, %a : {kind}
    linalg.yield %r : {kind}
  }} -> {image}
  %w = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel",
      "parallel", "parallel"]}} ins(%q, %x : {image}, {image}) outs(%m : {image}) {{
  ^bb0(%a: {kind}, %b: {kind}, %o: {kind}):
    %r = arith.addf %a, %b : {kind}
    linalg.yield %r : {kind}
  }} -> {image}"""
        if p.squared
        else ""
    )
    pad = (
        f"""%p = tensor.pad %{read} low[{low}] high[{high}] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %edge : {kind}
  }} : {image} to {padded}"""
        if p.low + p.high
        else ""
    )
    axes = ", ".join(p.order)
    out, result = tensor(p.out(), wide), tensor(p.out(), kind)
    window = f"tensor<{p.side[0]}x{p.side[1]}x{kind}>"
    dynamic = None in p.shape
    widen = f"%v = arith.extf %a : {kind} to {wide}" if wide != kind else ""
    narrow = f"%z = arith.truncf %s : {wide} to {kind}" if wide != kind else ""
    return f"""
#x = affine_map<({axes}, i, j) -> ({at})>
#k = affine_map<({axes}, i, j) -> (i, j)>
#y = affine_map<({axes}, i, j) -> ({axes})>
#id = affine_map<({axes}) -> ({axes})>
func.func @main(%x: {image}) -> {result} {{
  %edge = arith.constant {p.edge} : {kind}
  %start = arith.constant {p.start} : {wide}
  %half = arith.constant 0.5 : {wide}
  %one = arith.constant 1.0 : {wide}
  %c0 = arith.constant 0 : index
  {f"%n = tensor.dim %x, %c0 : {image}" if dynamic else ""}
  {square}
  {pad}
  %k = tensor.empty() : {window}
  %e = tensor.empty({"%n" if dynamic else ""}) : {out}
  %h = tensor.empty({"%n" if dynamic else ""}) : {result}
  %f = linalg.fill ins(%start : {wide}) outs(%e : {out}) -> {out}
  %y = linalg.generic {{indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel",
      "parallel", "parallel", "reduction", "reduction"]}}
      ins(%{"p" if pad else read}, %k : {padded}, {window}) outs(%f : {out}) {{
  ^bb0(%a: {kind}, %b: {kind}, %o: {wide}):
    {widen}
    %t = {p.combine} %o, %{"v" if widen else "a"} : {wide}
    linalg.yield %t : {wide}
  }} -> {out}
  %d = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel",
      "parallel", "parallel"]}} ins(%y : {out}) outs(%h : {result}) {{
  ^bb0(%a: {wide}, %o: {kind}):
    %r = arith.mulf %a, %half : {wide}
    %s = arith.addf %r, %one : {wide}
    {narrow}
    linalg.yield %{"z" if narrow else "s"} : {kind}
  }} -> {result}
  return %d : {result}
}}
"""


def reference(p, x, edge, start):
    x = x.astype(np.float64).transpose([p.image.index(a) for a in "bhwc"])
    x = x * x + x if p.squared else x
    spread = (p.low, p.high)
    x = np.pad(x, ((0, 0), spread, spread, (0, 0)), constant_values=edge)
    h, w = (p.out()[p.order.index(a)] for a in "hw")
    total = np.full((x.shape[0], h, w, x.shape[3]), start)
    combine = {"arith.maximumf": np.maximum, "arith.minnumf": np.fmin, "arith.addf": np.add}
    for i, j in itertools.product(*map(range, p.side)):
        part = x[
            :,
            i * p.dilation : i * p.dilation + (h - 1) * p.stride + 1 : p.stride,
            j * p.dilation : j * p.dilation + (w - 1) * p.stride + 1 : p.stride,
        ]
        total = combine[p.combine](total, part)
    return (total * 0.5 + 1).transpose(["bhwc".index(a) for a in p.order])


CASES = [
    Pool((2, 9, 8, 24), low=1, high=1),
    Pool((3, 20, 7, 8), image="bchw", side=(2, 3), low=1, high=0),
    Pool((1, 12, 12, 130), side=(2, 2)),
    Pool((1, 11, 9, 5), stride=1, dilation=2, low=2, high=1),
    Pool((None, 6, 5, 7), low=1, high=1),
    Pool((2, 9, 9, 16), low=1, high=1, combine="arith.addf", edge="0.0", start="0.0"),
    Pool((2, 9, 9, 16), combine="arith.minnumf", kind="f32", edge="0.25", start="2.0", low=1),
    Pool((1, 4, 4, 3), side=(4, 4), low=2, high=2, kind="bf16", edge="-1.0", start="0.5"),
    Pool(
        (2, 3, 11, 9),
        image="bchw",
        side=(5, 5),
        low=2,
        high=2,
        combine="arith.addf",
        edge="0.0",
        start="0.0",
    ),
    Pool((None, 3, 8, 9), image="bchw", low=1, high=1, edge="-1.0"),
    Pool(
        (1, 5, 13, 40),
        image="bchw",
        stride=1,
        dilation=2,
        low=0,
        high=3,
        kind="f32",
        edge="-3.0",
        start="-9.0",
    ),
    # Rows of a tile are along the innermost dimension of the image.
    Pool((2, 11, 9, 40), low=1, high=1, result="bchw"),
    Pool((None, 36, 9, 37), image="bchw", low=1, high=1, result="bhwc"),
    Pool((1, 40, 8, 34), image="cbhw", stride=1, kind="f32", start="-9.0", result="hwbc"),
    # Loops over the rows of a large window.
    Pool((1, 15, 14, 8), side=(10, 9), stride=1, low=3, high=2),
    Pool(
        (2, 3, 24, 23),
        image="bchw",
        side=(11, 11),
        stride=3,
        combine="arith.addf",
        edge="0.0",
        start="0.0",
    ),
    # Ops in front of the padding, which are computed of each element of a window.
    Pool((2, 9, 8, 24), low=1, high=1, squared=True),
    Pool(
        (2, 3, 11, 9),
        image="bchw",
        low=2,
        high=0,
        kind="f32",
        edge="-1.0",
        start="-9.0",
        squared=True,
    ),
    Pool((3, 20, 7, 8), image="bchw", side=(2, 2), squared=True),
    Pool(
        (1, 15, 14, 8),
        side=(10, 9),
        stride=1,
        low=3,
        high=2,
        kind="f32",
        start="-9.0",
        squared=True,
    ),
    Pool((1, 100, 5, 4), side=(90, 2), low=2, high=1, kind="f32", edge="-9.0", start="-9.0"),
]
NUMBERS = {"0xFC00": -np.inf}


@needs_triton
@pytest.mark.parametrize(
    "case", CASES, ids=lambda p: f"{p.image} {p.shape} {p.combine} {p.kind} {p.result}"
)
def test_pooling(interpreter, case):
    batch = 3
    shape = [batch if size is None else size for size in case.shape]
    x = draw(shape, case.kind, 1)
    (found,) = run(interpreter, pool_text(case), "pooling", [x], [case.out(batch)])
    edge, start = (NUMBERS.get(text) or float(text) for text in (case.edge, case.start))
    close(found, reference(case, x, edge, start), case.kind)


@needs_triton
@pytest.mark.parametrize(
    ("case", "fused"),
    [
        (Pool((2, 9, 8, 24), low=1, high=1, squared=True), True),
        (Pool((None, 9, 8, 24), low=1, high=1, squared=True), False),
        (Pool((64, 512, 512, 64), side=(9, 9), stride=1, squared=True), False),
    ],
    ids=["few", "unknown", "81 times each"],
)
def test_ops_in_front_are_computed_again_where_that_is_cheap(case, fused):
    with ir.Context():
        grouped, plans = planned(pool_text(case), "pooling")
    pools = [plan for plan in plans if plan is not None]
    assert (len(pools), len(plans)) == (1, 1 if fused else 2), str(grouped)
    assert ("v1 * v1" in pools[0].program.source) == fused


@needs_triton
def test_nan_and_infinities_win(interpreter):
    case = CASES[0]
    x = draw(case.shape, "f16", 1)
    x[0, 0, 0, 0], x[0, 3, 3, 1], x[1, 4, 4, :], x[1, 8, 7, 2] = np.nan, np.inf, -np.inf, np.nan
    (found,) = run(interpreter, pool_text(case), "pooling", [x], [case.out()])
    expected = reference(case, x, -np.inf, -np.inf)
    assert np.isnan(expected).sum() == 2
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(np.isinf(found), np.isinf(expected))
    finite = np.isfinite(expected)
    close(np.where(finite, found, 0), np.where(finite, expected, 0), "f16")


@needs_triton
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "gfx942"])
def test_pixels_are_read_in_whole_lines(arch):
    with ir.Context():
        _, plans = planned(pool_text(Pool((512, 16, 16, 64), low=1, high=1)), "pooling")
        kernel = triton_compiler.build(plans[0].program, arch)
    if arch != "gfx942":
        text = kernel.code.decode()
        assert "ld.global.v4.b32" in text
        assert "ld.global.b16" not in text


def test_sides_of_the_image_are_checked_where_windows_cross_them():
    """Of windows of 3x3 with a padded side of one, the middle one of each axis crosses none."""
    with ir.Context():
        _, plans = planned(pool_text(Pool((2, 3, 9, 9), image="bchw", low=1, high=1)), "pooling")
        source = plans[0].program.source
    loads = [line for line in source.splitlines() if "tl.load(" in line]
    low = [sum(f"(first{dim} >= 0)" in line for line in loads) for dim in (2, 3)]
    high = [sum(f"(first{dim} + 2 < 9)" in line for line in loads) for dim in (2, 3)]
    assert (len(loads), low, high) == (9, [3, 3], [3, 3])
    assert not any(f"first{dim} + 1" in line for line in loads for dim in (2, 3))


@needs_triton
@pytest.mark.parametrize(("image", "result"), [("bhwc", "bchw"), ("bchw", "bhwc")])
def test_both_sides_are_coalesced(image, result):
    """Where another dimension is innermost in the result, tiles have 32 elements of both."""
    sizes = {"b": 64, "h": 64, "w": 64, "c": 64}
    case = Pool(tuple(sizes[a] for a in image), image=image, side=(2, 2), result=result)
    with ir.Context():
        _, plans = planned(pool_text(case), "pooling")
    assert "tiles of 32 by 32" in plans[0].program.source


@needs_triton
def test_windows_along_the_last_dimension_have_one_pointer():
    """An element is at a constant distance from the first one of its window."""
    with ir.Context():
        _, plans = planned(pool_text(Pool((64, 32, 64, 64), image="bchw", low=1)), "pooling")
        text = triton_compiler.build(plans[0].program, "sm_90").code.decode()
    loads = [line for line in text.splitlines() if "ld.global" in line]
    assert len(loads) >= 9
    assert sum("+" in line for line in loads) >= len(loads) * 8 // 9


def refused(text):
    options = FusionOptions(enable_feature=("kernels",), pipeline="pooling_fusion")
    with ir.Context():
        grouped, report = engine.run(ir.Module.parse(text), target=TARGET, options=options)
        assert ops.REGION not in str(grouped)
    return {d.reason for d in report.decisions if d.pass_name == "pooling_fusion"}


def test_poolings_without_a_kernel():
    assert refused(pool_text(Pool((2, 9, 8, 24), combine="arith.mulf"))) == {Reason.STRUCTURE}
    wide = pool_text(Pool((2, 9, 8, 24), kind="f64", edge="0.0", start="0.0"))
    assert refused(wide) == {Reason.ELEMENT_TYPE}


def test_a_padding_of_a_dynamic_dimension_is_not_fused(monkeypatch):
    monkeypatch.setattr(triton_compiler, "missing", lambda: None)
    text = pool_text(Pool((None, 6, 5, 7), low=1, high=1))
    text = text.replace("low[0, 1, 1, 0]", "low[1, 1, 1, 0]")
    with ir.Context():
        _, plans = planned(text, "pooling")
        assert isinstance(plans[0], NoMatch)
        assert plans[0].reason is Reason.STRUCTURE


@needs_triton
def test_image_of_f16_that_is_cast_before_its_padding(interpreter):
    text = """
#x = affine_map<(b, h, c, i) -> (b, h * 2 + i, c)>
#k = affine_map<(b, h, c, i) -> (i)>
#y = affine_map<(b, h, c, i) -> (b, h, c)>
#id = affine_map<(b, h, c) -> (b, h, c)>
func.func @main(%x: tensor<2x9x17xf16>) -> tensor<2x5x17xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x9x17xf32>
  %f = linalg.generic {indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x9x17xf16>) outs(%e : tensor<2x9x17xf32>) {
  ^bb0(%a: f16, %o: f32):
    %t = arith.extf %a : f16 to f32
    linalg.yield %t : f32
  } -> tensor<2x9x17xf32>
  %p = tensor.pad %f low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<2x9x17xf32> to tensor<2x11x17xf32>
  %h = tensor.empty() : tensor<2x5x17xf32>
  %s = linalg.fill ins(%zero : f32) outs(%h : tensor<2x5x17xf32>) -> tensor<2x5x17xf32>
  %k = tensor.empty() : tensor<3xf32>
  %c = linalg.generic {indexing_maps = [#x, #k, #y],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %k : tensor<2x11x17xf32>, tensor<3xf32>) outs(%s : tensor<2x5x17xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.addf %o, %a : f32
    linalg.yield %t : f32
  } -> tensor<2x5x17xf32>
  return %c : tensor<2x5x17xf32>
}
"""
    x = draw((2, 9, 17), "f16", 1)
    (found,) = run(interpreter, text, "pooling", [x], [(2, 5, 17)])
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (0, 0)))
    close(found, sum(padded[:, i : i + 9 : 2] for i in range(3)), "f32")
