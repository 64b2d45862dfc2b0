"""Groups of the norm passes beyond their lit files."""

import gc

import pytest
from iree.compiler import ir

from helpers import norm_text
from helpers.linalg_text import Function, Tensor
from mlirfuse import targets
from mlirfuse.core import Reason
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.expr import expressions as ex
from mlirfuse.structured.expr import nodes
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import norm_matches, norms

NORMS = "add_layer_norm_fusion,add_rms_norm_fusion,layer_norm_fusion,rms_norm_fusion"


def mean(f: Function, x: Tensor) -> Tensor:
    return f.apply("arith.divf", f.reduce("arith.addf", x, (1,)), float(f.sizes[1] or 0))


def layer_norm(
    f: Function, x: Tensor, gamma: Tensor, *, again: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A layer norm and its mean; mean and variance are taken of `again`."""
    read = again or x
    average = mean(f, read)
    centered = f.apply("arith.subf", read, average)
    variance = mean(f, f.apply("arith.mulf", centered, centered))
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, 1e-5))
    scaled = f.apply("arith.mulf", f.apply("arith.subf", x, average), rstd)
    return f.apply("arith.mulf", scaled, gamma), average


def parsed(text: str) -> ir.Module:
    return ir.Module.parse(text, ir.Context())


def fuse(text: str, pipeline: str, target: str = "cpu", **switches):
    options = FusionOptions(pipeline=pipeline, **switches)
    return engine.run(parsed(text), target=targets.parse(target), options=options)


def regions(module: ir.Module) -> list[ir.Operation]:
    return [
        op
        for function in ops.functions(module)
        for op in ops.nested_ops(function)
        if op.name == ops.REGION
    ]


def inside(region: ir.Operation) -> list[str]:
    """The scalar ops of the region's generics, in order."""
    names = (op.name for op in ops.nested_ops(region))
    return [n for n in names if n.startswith(("arith.", "math.")) and n != "arith.constant"]


def test_a_tensor_computed_twice_ends_the_group_at_both():
    """Without common subexpressions removed, statistics and scale read copies of one value."""
    f = Function("f", (4, 8))
    x, gamma = f.argument((0, 1), "f32"), f.argument((1,), "f32")
    first, second = (f.apply("math.exp", f.apply("arith.mulf", x, x)) for _ in range(2))
    text = f.finish(layer_norm(f, first, gamma, again=second)[0])
    module, report = fuse(text, "layer_norm_fusion")
    assert report.counts() == {"layer_norm_fusion": 1}
    (region,) = regions(module)
    assert "math.exp" not in inside(region)
    assert sum(1 for op in ops.nested_ops(module.operation) if op.name == "math.exp") == 2


def test_sizes_of_reshapes_are_no_elements():
    """An expand of a dynamic tensor takes index operands; they have no element type to refuse."""
    text = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#flat = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<?x8xf32>, %n: index) -> tensor<?x8xf32> {
  %zero = arith.constant 0.0 : f32
  %eight = arith.constant 8.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %er = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x8xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %q = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %q : f32
    linalg.yield %a : f32
  } -> tensor<?xf32>
  %w = tensor.expand_shape %s [[0, 1]] output_shape [%n, 1] : tensor<?xf32> into tensor<?x1xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %y = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d0, 0)>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<?x8xf32>, tensor<?x1xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%i: f32, %q: f32, %o: f32):
    %v = arith.divf %q, %eight : f32
    %ve = arith.addf %v, %eps : f32
    %r = math.rsqrt %ve : f32
    %p = arith.mulf %i, %r : f32
    linalg.yield %p : f32
  } -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
"""
    module, report = fuse(text, "rms_norm_fusion")
    assert [d.detail for d in report.decisions] == [""]
    assert len(regions(module)) == 1


# --- find_norm -----------------------------------------------------------------------------------


class Found:
    """The result of `find_norm` for the first result of a function; it keeps the module alive."""

    def __init__(self, text: str) -> None:
        self.module = parsed(text)
        block = ops.functions(self.module)[0].regions[0].blocks[0]
        self.arguments = list(block.arguments)
        terminator = block.operations[len(block.operations) - 1].operation
        self.norm = norms.find_norm(terminator.operands[0])


def test_the_parts_of_a_layer_norm():
    f = Function("f", (4, 8))
    x, gamma, beta = f.argument((0, 1), "f32"), f.argument((1,), "f32"), f.argument((1,), "f32")
    y = f.apply("arith.addf", layer_norm(f, x, gamma)[0], beta)
    found = Found(f.finish(y))
    norm = found.norm
    assert isinstance(norm, norms.Norm)
    assert norm.centered
    assert norm.axes == (1,)
    assert norm.epsilon == pytest.approx(1e-5)
    assert norm.x == ex.start(found.arguments[0])
    assert [ex.source(g) for g in norm.gamma] == [nodes.Element(found.arguments[1], (1,))]
    assert norm.beta == nodes.Element(found.arguments[2], (1,))
    assert norm.stops == set(found.arguments)


def rms(squares, root: str = "math.rsqrt", shift: float | None = 1e-5, count: float = 8.0) -> str:
    """`x` times the reciprocal root of a mean of squares; `squares` writes the summed values."""
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    total = f.reduce("arith.addf", squares(f, x), (1,))
    variance = f.apply("arith.divf", total, count)
    if shift is not None:
        variance = f.apply("arith.addf", variance, shift)
    return f.finish(f.apply("arith.mulf", x, f.apply(root, variance)))


def square(f: Function, x: Tensor) -> Tensor:
    return f.apply("arith.mulf", x, x)


def test_epsilon_may_be_absent():
    found = Found(rms(square, shift=None))
    assert isinstance(found.norm, norms.Norm)
    assert found.norm.epsilon == 0.0


@pytest.mark.parametrize(("exponent", "known"), [(2.0, True), (3.0, False)])
def test_the_exponent_is_verified(exponent, known):
    found = Found(rms(lambda f, x: f.apply("math.powf", x, exponent)))
    assert isinstance(found.norm, norms.Norm) is known


def scaled_by(reciprocal) -> Found:
    """`x` times the expression that `reciprocal` writes of the mean of squares and epsilon."""
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    variance = f.apply("arith.addf", mean(f, square(f, x)), 1e-5)
    return Found(f.finish(f.apply("arith.mulf", x, reciprocal(f, variance))))


@pytest.mark.parametrize(
    ("reciprocal", "known"),
    [
        (lambda f, v: f.apply("math.rsqrt", v), True),
        (lambda f, v: f.apply("math.powf", v, -0.5), True),
        (lambda f, v: f.apply("math.powf", v, -0.25), False),
        (lambda f, v: f.apply("arith.divf", 1.0, f.apply("math.sqrt", v)), True),
        (lambda f, v: f.apply("arith.divf", 1.0, f.apply("math.powf", v, 0.5)), True),
        (lambda f, v: f.apply("arith.divf", 1.0, f.apply("math.powf", v, 0.25)), False),
        (lambda f, v: f.apply("arith.divf", 1.0, f.apply("math.exp", v)), False),
        (lambda f, v: f.apply("arith.divf", 2.0, f.apply("math.sqrt", v)), True),
        (lambda f, v: f.apply("math.sqrt", v), False),
        (lambda f, v: f.apply("math.exp", v), False),
    ],
)
def test_the_reciprocal_root_is_verified(reciprocal, known):
    assert isinstance(scaled_by(reciprocal).norm, norms.Norm) is known


@pytest.mark.parametrize(("root", "known"), [("math.sqrt", True), ("math.exp", False)])
def test_the_root_of_a_quotient_is_verified(root, known):
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    variance = f.apply("arith.addf", mean(f, square(f, x)), 1e-5)
    found = Found(f.finish(f.apply("arith.divf", x, f.apply(root, variance))))
    assert isinstance(found.norm, norms.Norm) is known


def test_a_quotient_by_another_tensor_ends_before_the_division():
    f = Function("f", (4, 8))
    x, other = f.argument((0, 1), "f32"), f.argument((1,), "f32")
    y, _ = layer_norm(f, x, f.argument((1,), "f32"))
    module, report = fuse(f.finish(f.apply("arith.divf", y, other)), "layer_norm_fusion")
    assert report.counts() == {"layer_norm_fusion": 1}
    (region,) = regions(module)
    assert inside(region)[-1] == "arith.mulf"


@pytest.mark.parametrize("axes", [(0, 1), (0,)])
def test_an_add_after_the_norm_that_varies_over_rows_is_not_fused(axes):
    f = Function("f", (4, 8))
    x, gamma, residual = f.argument((0, 1), "f32"), f.argument((1,), "f32"), f.argument(axes, "f32")
    y = f.apply("arith.addf", layer_norm(f, x, gamma)[0], residual)
    module, report = fuse(f.finish(y), "layer_norm_fusion")
    assert report.counts() == {"layer_norm_fusion": 1}
    (region,) = regions(module)
    assert inside(region)[-1] == "arith.mulf"


@pytest.mark.parametrize(("clamp", "known"), [(0.0, True), (1.0, False)])
def test_a_variance_may_be_clamped_at_zero_only(clamp, known):
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    average = mean(f, x)
    variance = f.apply("arith.subf", mean(f, square(f, x)), square(f, average))
    variance = f.apply("arith.maximumf", variance, clamp)
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, 1e-5))
    found = Found(f.finish(f.apply("arith.mulf", f.apply("arith.subf", x, average), rstd)))
    assert isinstance(found.norm, norms.Norm) is known


def test_a_difference_of_moments_belongs_to_a_centered_tensor():
    """`x` itself, scaled by its standard deviation, is neither of the two norms."""
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    average = mean(f, x)
    variance = f.apply("arith.subf", mean(f, square(f, x)), square(f, average))
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, 1e-5))
    assert not isinstance(Found(f.finish(f.apply("arith.mulf", x, rstd))).norm, norms.Norm)


def test_another_tensor_than_a_mean_may_be_taken_off():
    f = Function("f", (4, 8))
    x, y = f.argument((0, 1), "f32"), f.argument((0, 1), "f32")
    shifted = f.apply("arith.subf", x, y)
    variance = mean(f, square(f, shifted))
    rstd = f.apply("math.rsqrt", f.apply("arith.addf", variance, 1e-5))
    found = Found(f.finish(f.apply("arith.mulf", shifted, rstd)))
    assert isinstance(found.norm, norms.Norm)
    assert not found.norm.centered


def test_moments_over_other_axes_have_no_difference():
    f = Function("f", (4, 6, 8))
    x = f.argument((0, 1, 2), "f32")

    def average(of: Tensor, axes: tuple[int, ...], count: float) -> Tensor:
        return f.apply("arith.divf", f.reduce("arith.addf", of, axes), count)

    both = average(x, (1, 2), 48.0)
    second = average(square(f, x), (2,), 8.0)
    variance = f.apply("arith.addf", f.apply("arith.subf", second, square(f, both)), 1e-5)
    shifted = f.apply("arith.subf", x, average(x, (2,), 8.0))
    found = Found(f.finish(f.apply("arith.mulf", shifted, f.apply("math.rsqrt", variance))))
    assert isinstance(found.norm, norms.NearNorm)
    assert found.norm.refusal.reason is Reason.STRUCTURE


def test_a_division_by_the_length_is_nothing_to_report():
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    length = f.apply("math.sqrt", f.reduce("arith.addf", square(f, x), (1,)))
    assert Found(f.finish(f.apply("arith.divf", x, length))).norm is None


DIAGONAL = """
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @f(%x: tensor<4x8x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 64.0 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [#all, affine_map<(d0, d1, d2) -> (d0)>],
      iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x : tensor<4x8x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %q = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %q : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1, d1)>, #row, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<4x8x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %q: f32, %o: f32):
    %v = arith.divf %q, %n : f32
    %r = math.rsqrt %v : f32
    %p = arith.mulf %i, %r : f32
    linalg.yield %p : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""


def test_a_diagonal_of_the_summed_tensor_is_no_norm():
    """Both reduction loops would correspond to one axis."""
    assert not isinstance(Found(DIAGONAL).norm, norms.Norm)


@pytest.mark.parametrize(
    ("addends", "known"),
    [(((0, 1), (0, 1)), True), (((0, 1), (1,)), False), (((0, 1), (0,)), False)],
)
def test_a_residual_has_the_shape_of_the_add(addends, known):
    f = Function("f", (4, 8))
    left, right = (f.argument(axes, "f32") for axes in addends)
    total = f.apply("arith.addf", left, right)
    found = Found(f.finish(layer_norm(f, total, f.argument((1,), "f32"))[0]))
    assert isinstance(found.norm, norms.Norm)
    assert (norm_matches.residual(found.norm) is not None) is known


def test_a_transpose_between_the_add_and_the_norm_is_not_fused():
    f = Function("f", (4, 8))
    x, r = f.argument((1, 0), "f32"), f.argument((1, 0), "f32")
    total = f.apply("copy", f.apply("arith.addf", x, r, axes=(1, 0)), axes=(0, 1))
    text = f.finish(layer_norm(f, total, f.argument((1,), "f32"))[0])
    module, report = fuse(text, NORMS)
    assert report.counts() == {"layer_norm_fusion": 1}
    (region,) = regions(module)
    assert inside(region)[:2] == ["arith.addf", "arith.divf"]


def test_a_doubled_tensor_is_no_residual():
    f = Function("f", (4, 8))
    x = f.argument((0, 1), "f32")
    found = Found(f.finish(layer_norm(f, f.apply("arith.addf", x, x), f.argument((1,), "f32"))[0]))
    assert isinstance(found.norm, norms.Norm)
    assert norm_matches.residual(found.norm) is None


def test_the_pass_without_the_add_reports_a_near_norm():
    f = Function("f", (4, 8))
    total = f.apply("arith.addf", f.argument((0, 1), "f32"), f.argument((0, 1), "f32"))
    shift = f.argument((), "f32")
    variance = f.apply("arith.addf", mean(f, square(f, total)), shift)
    text = f.finish(f.apply("arith.mulf", total, f.apply("math.rsqrt", variance)))
    assert fuse(text, "add_rms_norm_fusion")[1].decisions == []
    (decision,) = fuse(text, "rms_norm_fusion")[1].decisions
    assert decision.reason is Reason.CONSTANT_UNVERIFIED


TWO_RESULTS = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @f(%x: tensor<4x8xf32>, %s: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 8.0 : f32
  %er = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<4xf32>) -> tensor<4xf32>
  %q = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %acc: f32):
    %ii = arith.mulf %i, %i : f32
    %a = arith.addf %acc, %ii : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y:2 = linalg.generic {indexing_maps = [#id, #row, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %q : tensor<4x8xf32>, tensor<4xf32>) outs(%e, %e : tensor<4x8xf32>, tensor<4x8xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32, %p: f32):
    %v = arith.divf %j, %n : f32
    %r = math.rsqrt %v : f32
    %k = arith.mulf %i, %r : f32
    linalg.yield %k, %r : f32, f32
  } -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return %y#0, %y#1 : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


def test_an_op_with_two_results_is_no_root():
    assert fuse(TWO_RESULTS, "rms_norm_fusion")[1].decisions == []


# --- one pass per norm --------------------------------------------------------------------------


def written(
    writing: str,
    *,
    dtype: str = "f32",
    shape: tuple[int, ...] = (8,),
    add: bool = True,
    affine: tuple[str | None, ...] = ("f32", "f32"),
    quantize: bool = False,
) -> str:
    f = Function("f", (4, *shape))
    everything, axes = tuple(range(1 + len(shape))), tuple(range(1, 1 + len(shape)))
    x = f.argument(everything, dtype)
    total = f.apply("arith.addf", x, f.argument(everything, dtype)) if add else x
    parts = [None if kind is None else f.argument(axes, kind) for kind in affine]
    y = norm_text.WRITINGS[writing](f, total, axes, *parts, stats="f32")
    return f.finish(norm_text.quantized(f, y, f.argument(axes, "f32"), None) if quantize else y)


V3, EXT, ADD = (f"add_layer_norm{variant}_fusion" for variant in ("_v3", "_ext", ""))
CHAINS = {
    "v3": (written("layer_norm", shape=(2, 4)), (V3, ADD, "layer_norm_fusion")),
    "v3 without shift": (
        written("layer_norm", shape=(2, 4), affine=("f32", None)),
        (V3, EXT, ADD, "layer_norm_fusion"),
    ),
    "ext": (written("layer_norm", affine=("f32", None)), (EXT, ADD, "layer_norm_fusion")),
    "mixed": (
        written("layer_norm", dtype="f16", affine=("f16", "f32")),
        (EXT, ADD, "layer_norm_fusion"),
    ),
    "add": (written("layer_norm"), (ADD, "layer_norm_fusion")),
    "cast": (
        written("rms_norm", dtype="f16", affine=("f16",)),
        ("add_cast_rms_norm_cast_fusion", "add_rms_norm_fusion", "rms_norm_fusion"),
    ),
    "quantized": (
        written("rms_norm", add=False, affine=("f32",), quantize=True),
        ("rms_norm_quant_fusion", "rms_norm_fusion"),
    ),
    "add quantized": (
        written("rms_norm", affine=("f32",), quantize=True),
        (
            "add_rms_norm_quant_fusion",
            "rms_norm_quant_fusion",
            "add_rms_norm_fusion",
            "rms_norm_fusion",
        ),
    ),
    "group": (
        norm_text.group_norm_text("f", "f32", 2, 4, 2, 6),
        ("group_norm_fusion", "layer_norm_fusion"),
    ),
}
"""Passes that take a graph, each when those before it are off."""

NAMES = frozenset(name for _, chain in CHAINS.values() for name in chain)


@pytest.mark.parametrize(
    ("title", "off"),
    [(title, off) for title, (_, chain) in CHAINS.items() for off in range(len(chain))],
)
@pytest.mark.parametrize("preset", ["default", "norms_only"])
def test_the_most_special_pass_that_is_on_takes_a_norm(title, off, preset):
    text, chain = CHAINS[title]
    options = FusionOptions(pipeline=preset, disable_pass=chain[:off])
    _, report = engine.run(parsed(text), target=targets.parse("cpu"), options=options)
    counts = report.counts()
    assert {name: counts[name] for name in NAMES & set(counts)} == {chain[off]: 1}


# --- targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "columns", "kept", "fires"),
    [
        ("cuda:sm_80", 12288, True, "layer_norm_fusion"),
        ("rocm:gfx942", 12288, True, "layer_norm_fusion"),
        ("cuda:sm_80", 12288, False, "add_layer_norm_fusion"),
        ("cuda:sm_80", 8192, True, "layer_norm_fusion"),
        ("cuda:sm_80", 4096, True, "add_layer_norm_fusion"),
        ("vulkan", 12288, True, "add_layer_norm_fusion"),
    ],
)
def test_long_rows_with_the_add_as_a_result_on_gpus(target, columns, kept, fires):
    f = Function("f", (4, columns))
    x, r, gamma = f.argument((0, 1), "f32"), f.argument((0, 1), "f32"), f.argument((1,), "f32")
    total = f.apply("arith.addf", x, r)
    y = layer_norm(f, total, gamma)[0]
    _, report = fuse(
        f.finish(y, total) if kept else f.finish(y), NORMS, target, disable_feature=("kernels",)
    )
    assert report.counts() == {fires: 1}
    refused = [d.reason.code for d in report.decisions if d.reason is not None]
    assert refused == ["register_limit"] * (fires == "layer_norm_fusion")


def test_kernels_keep_longer_rows():
    f = Function("f", (4, 8192))
    x, r, gamma = f.argument((0, 1), "f32"), f.argument((0, 1), "f32"), f.argument((1,), "f32")
    total = f.apply("arith.addf", x, r)
    text = f.finish(layer_norm(f, total, gamma)[0], total)
    _, report = fuse(text, NORMS, "cuda")
    assert report.counts() == {"add_layer_norm_fusion": 1}


def test_long_rows_over_two_axes_with_the_add_as_a_result():
    f = Function("f", (4, 12, 1024))
    x, r = f.argument((0, 1, 2), "f32"), f.argument((0, 1, 2), "f32")
    total = f.apply("arith.addf", x, r)
    y = norm_text.layer_norm(f, total, (1, 2), None, None, "f32")
    _, report = fuse(
        f.finish(y, total), f"{V3},layer_norm_fusion", "cuda:sm_80", disable_feature=("kernels",)
    )
    assert report.counts() == {"layer_norm_fusion": 1}
    (refused,) = (d for d in report.decisions if d.reason is not None)
    assert refused.detail == "buffered rows of 12288 elements, the limit is 4096"


# --- lifetime ------------------------------------------------------------------------------------


def test_nothing_keeps_a_context_alive():
    def work() -> None:
        f = Function("f", (4, 8))
        x, gamma = f.argument((0, 1), "f32"), f.argument((1,), "f32")
        fuse(f.finish(*layer_norm(f, x, gamma)), NORMS)

    gc.collect()
    before = ir.Context._get_live_count()
    work()
    gc.collect()
    assert ir.Context._get_live_count() == before
