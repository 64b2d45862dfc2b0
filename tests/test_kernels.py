"""Kernels against float64: the same Triton text, run by Triton's interpreter on the CPU."""

import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from attention_text import write
from iree.compiler import ir
from linalg_text import Function
from norm_text import layer_norm, quantized, rms_norm

import mlirfuse
from mlirfuse import targets
from mlirfuse.core import MustFuseError, NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import planner as attention
from mlirfuse.kernels.codegen.iteration_space import Group, Space
from mlirfuse.kernels.codegen.scalar_ops import Unsupported
from mlirfuse.kernels.convolution import planner as convolution
from mlirfuse.kernels.matmul import planner as matmul
from mlirfuse.kernels.pointwise import planner as pointwise
from mlirfuse.kernels.reduction import planner as reduction
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.plugins import registry
from mlirfuse.structured.ir import ops
from mlirfuse.tuning import kernel_search

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
TARGET = targets.parse("cuda:sm_90")
TOLERANCE = {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.fixture(scope="module")
def interpreter():
    """Triton's interpreter, which conftest.py chooses."""
    torch = pytest.importorskip("torch")
    from mlirfuse.kernels import triton_worker

    return SimpleNamespace(load=triton_worker.load, torch=torch)


SUPPORTS = {
    "rows": reduction.supports,
    "matmul": matmul.supports,
    "attention": attention.supports,
    "convolution": convolution.supports,
    "elementwise": pointwise.supports,
}
KERNEL_PASSES = tuple(name for name in registry.passes() if name.endswith("_triton_kernel"))


def planned(text, kind):
    """What is planned for each group of the module, while its context lives."""
    options = FusionOptions(
        single_op_groups=kind != "attention",
        enable_feature=("kernels",),
        disable_pass=KERNEL_PASSES,
    )
    grouped, _ = engine.run(ir.Module.parse(text), target=TARGET, options=options)
    return grouped, [SUPPORTS[kind](region, TARGET) for region in kernel_search.regions(grouped)]


def to_torch(torch, array):
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def argument_number(value):
    """The argument of the function that the value is, or is a reshape of."""
    while not isinstance(value.owner, ir.Block):
        value = value.owner.operation.operands[0]
    return ir.BlockArgument(value).arg_number


def told_sizes(step, arrays, shape):
    """What a kernel is told of the sizes of these arrays and a result of that shape."""
    found = []
    for size in step.sizes:
        known = ops.shape(size.value)
        own = size.value in step.results
        given = shape if own else arrays[argument_number(size.value)].shape
        if len(given) == len(known):
            found.append(given[size.dim])
            continue
        static = np.prod([size for size in known if size is not None])
        found.append(int(np.prod(given) // static))
    return found


def run(interpreter, text, kind, arrays, shapes):
    """Calls the kernel of the module's one group; results of `shapes` start as NaN."""
    torch = interpreter.torch
    with ir.Context():
        grouped, plans = planned(text, kind)
        assert len(plans) == 1, str(grouped)
        plan = plans[0]
        assert not isinstance(plan, NoMatch | None), f"{plan}\n{grouped}"
        steps = plan.kernels()
        told = [told_sizes(step, arrays, shapes[0]) for step in steps]
        assert [len(step.scratch) > 0 for step in steps] == [True] * (len(steps) - 1) + [False]
        read = {v: arrays[argument_number(v)] for step in steps for v in step.operands}
        given = [[to_torch(torch, read[v]) for v in step.operands] for step in steps]
    names = {"*fp32": torch.float32, "*fp16": torch.float16, "*bf16": torch.bfloat16}
    results = []
    for step, inputs, sizes in zip(steps, given, told, strict=True):
        program = step.program
        module = interpreter.load(program.source, program.entry)
        kinds = [kind for name, kind in program.arguments if name.startswith("y")]
        inputs = [*results, *inputs]
        written = [[e.count(sizes) for e in shape] for shape in step.scratch] or shapes
        results = [
            torch.full(s, float("nan"), dtype=names[k])
            if k in names
            else torch.full(s, 99, dtype=torch.int8)
            for s, k in zip(written, kinds, strict=True)
        ]
        grid = tuple(extent.count(sizes) for extent in step.grid)
        with np.errstate(all="ignore"):
            getattr(module, program.entry)[grid](*inputs, *results, *sizes)
        assert not (step.scratch and any(r.isnan().any() for r in results))
    return [r.to(torch.float64).numpy() for r in results]


def draw(shape, dtype, seed=0, spread=1.0):
    numbers = np.random.default_rng(seed).standard_normal(shape) * spread
    return numbers.astype(NUMPY[dtype])


def close(found, expected, dtype):
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    scale = np.nanmax(np.abs(expected), initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * scale)


def softmax_reference(x):
    with np.errstate(invalid="ignore"):
        power = np.exp(x - x.max(-1, keepdims=True))
        return power / power.sum(-1, keepdims=True)


def softmax_text(sizes, dtype):
    f = Function("main", sizes)
    x = f.argument(range(len(sizes)), dtype)
    wide, column = f.cast(x, "f32"), [len(sizes) - 1]
    power = f.apply(
        "math.exp",
        f.apply("arith.subf", wide, f.reduce("arith.maximumf", wide, column, float("-inf"))),
    )
    quotient = f.apply("arith.divf", power, f.reduce("arith.addf", power, column))
    return f.finish(f.cast(quotient, dtype))


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(3, 5, 17), (7, 128), (1, 33), (2, 1500)])
def test_softmax(interpreter, shape, dtype):
    x = draw(shape, dtype, spread=4.0)
    (found,) = run(interpreter, softmax_text(shape, dtype), "rows", [x], [shape])
    close(found, softmax_reference(x.astype(np.float64)), dtype)


@needs_triton
def test_softmax_of_infinities(interpreter):
    x = draw((4, 19), "f32")
    x[0, 3], x[1, :], x[2, 5], x[3, :-1] = -np.inf, -np.inf, np.nan, -np.inf
    (found,) = run(interpreter, softmax_text(x.shape, "f32"), "rows", [x], [x.shape])
    close(found, softmax_reference(x.astype(np.float64)), "f32")
    assert np.isnan(found[1]).all()
    assert found[3, -1] == 1.0


@needs_triton
@pytest.mark.parametrize("count", [1, 5])
def test_softmax_of_dynamic_rows(interpreter, count):
    x = draw((count, 130), "f16")
    (found,) = run(interpreter, softmax_text((None, 130), "f16"), "rows", [x], [x.shape])
    close(found, softmax_reference(x.astype(np.float64)), "f16")


def test_dynamic_sizes_of_rows_are_walked_together():
    space = Space((Group("row", (None, None, 3), "row_inside"), Group("column", (40,))))
    rows = [(0, 0), (0, 1), (0, 2)]
    assert space.inside(0) == ["row_inside = row < 3 * size"]
    assert space.offset((None, None, 3, 40), [*rows, (1, 0)]) == "row * (40) + column"
    assert space.offset((None, None), rows[:2]) == "(row // 3)"
    assert space.offset((3,), rows[2:]) == "(row % 3)"
    assert space.offset((40, None, None), [(1, 0), *rows[:2]]) == "column * size + (row // 3)"
    for axes in (rows[:1], rows[1:2], rows[1:]):
        with pytest.raises(Unsupported, match="one of several dynamic dimensions"):
            space.offset([None, None, 3][: len(axes)], axes)


def test_dynamic_sizes_of_rows_are_walked_apart():
    row = Group("row", (None, None, 3), "row_inside", apart=True)
    space = Space((row, Group("column", (40,))))
    batch, token, part, column = (0, 0), (0, 1), (0, 2), (1, 0)
    assert space.offset((None,), [batch]) == "(row // (3 * size_1))"
    assert space.offset((None,), [token]) == "((row // 3) % size_1)"
    assert space.offset((None, 3), [token, part]) == "(row % (3 * size_1))"
    assert space.offset((None, None, 3, 40), [batch, token, part, column]) == "row * (40) + column"
    moved = "((row // 3) % size_1) * 40 * size_0 + (row // (3 * size_1)) * (40) + column"
    assert space.offset((None, None, 40), [token, batch, column]) == moved
    last = "(row % 3) * size + column * size + (row // 3)"
    assert space.offset((3, 1, None, None), [part, column, batch, token]) == last


@needs_triton
def test_rows_whose_dynamic_size_is_not_the_first():
    f = Function("main", (3, None, 40))
    x, scale = f.argument((0, 1, 2), "f16"), f.argument((2,), "f16")
    text = f.finish(rms_norm(f, x, (2,), scale, "f32"))
    with ir.Context():
        grouped, plans = planned(text, "rows")
        reason = "only the first dimensions of the rows may be dynamic"
        assert [getattr(plan, "detail", plan) for plan in plans] == [reason], str(grouped)


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("sizes", [(3, 7, 65), (5, 1, 256), (None, 3, 40), (None, None, 40)])
def test_add_rms_norm(interpreter, sizes, dtype):
    f = Function("main", sizes)
    x, r, g = f.argument((0, 1, 2), dtype), f.argument((0, 1, 2), dtype), f.argument((2,), dtype)
    total = f.apply("arith.addf", x, r)
    text = f.finish(rms_norm(f, total, (2,), g, "f32"), total)
    shape = tuple(s or 4 for s in sizes)
    arrays = [draw(shape, dtype, 1), draw(shape, dtype, 2), draw(shape[2:], dtype, 3)]
    results = run(interpreter, text, "rows", arrays, [shape, shape])
    a, b, gamma = (x.astype(np.float64) for x in arrays)
    kept = (a + b).astype(NUMPY[dtype]).astype(np.float64)
    normed = kept / np.sqrt((kept**2).mean(-1, keepdims=True) + 1e-5) * gamma
    for expected in (kept, normed):
        # Which result comes first is the group's choice.
        number = int(np.argmin([np.abs(r - expected).max() for r in results]))
        close(results.pop(number), expected, dtype)


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_quantized_rms_norm(interpreter, dtype):
    f = Function("main", (9, 130))
    x, g, scale = f.argument((0, 1), dtype), f.argument((1,), dtype), f.argument((1,), "f32")
    text = f.finish(quantized(f, rms_norm(f, x, (1,), g, "f32"), scale, None))
    arrays = [draw((9, 130), dtype, 1), draw((130,), dtype, 2), draw((130,), "f32", 3) * 99]
    (found,) = run(interpreter, text, "rows", arrays, [(9, 130)])
    a, gamma, factor = (x.astype(np.float64) for x in arrays)
    normed = a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-5) * gamma
    expected = np.clip(np.round(normed * factor), -128, 127)
    # A step where the narrow type rounds the norm to the other side of a half.
    assert np.abs(found - expected).max() <= (1 + np.abs(expected).max() * TOLERANCE[dtype])
    assert (found == expected).mean() > {"f32": 0.99, "f16": 0.9, "bf16": 0.6}[dtype]
    assert {-128, 127} <= {*found.ravel()}


@needs_triton
def test_whole_numbers_of_a_byte(interpreter):
    """Rounded half to even, bounded on either side, with infinities."""
    x = np.array([[0.5, 1.5, -0.5, -2.5, 126.5, 127.5, -128.5, 3e4, -3e4, np.inf, -np.inf]])
    for dtype, low, high in (("f16", -128.0, 127.0), ("f32", -127.0, 127.0), ("bf16", -8.0, 7.0)):
        f = Function("main", (1, 11))
        rounded = f.apply("math.roundeven", f.argument((0, 1), dtype))
        bounded = f.apply("arith.minimumf", f.apply("arith.maximumf", rounded, low), high)
        text = f.finish(f.cast(bounded, "i8", "arith.fptosi"))
        (found,) = run(interpreter, text, "elementwise", [x.astype(NUMPY[dtype])], [x.shape])
        kept = x.astype(NUMPY[dtype]).astype(np.float64)
        assert (found == np.clip(np.round(kept), low, high)).all(), (dtype, found)


@needs_triton
@pytest.mark.parametrize("name", ["short_tanh", "short_erf"])
def test_short_functions(interpreter, name):
    x = np.concatenate(
        [np.linspace(-9, 9, 4001), np.geomspace(1e-30, 1, 90), [np.nan, np.inf, 1000.0]]
    )
    x = np.concatenate([x, -x, [0.0, -np.inf]]).astype(np.float32)[:8192]
    x = np.pad(x, (0, 8192 - x.size))
    source = "import triton\nimport triton.language as tl\n"
    source += "from mlirfuse.kernels.device import library\n\n@triton.jit\ndef short(x, y):\n"
    source += "    at = tl.arange(0, 8192)\n"
    source += f"    tl.store(y + at, library.{name}(tl.load(x + at)))\n"
    found = interpreter.torch.full((8192,), float("nan"))
    with np.errstate(all="ignore"):
        interpreter.load(source, "short").short[(1,)](interpreter.torch.from_numpy(x), found)
    exact = {"short_tanh": math.tanh, "short_erf": math.erf}[name]
    expected = np.array([exact(value) for value in x.astype(np.float64)])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=0)
    # One more than minus one is nothing, however large the number that it is multiplied with.
    assert (np.abs(found.numpy()[np.abs(x) >= 1000.0]) == 1.0).all()


@needs_triton
def test_halves_are_rounded_to_even(interpreter):
    halves = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 2**22 + 0.5, 2**23 + 1, -3e9], np.float32)
    source = "import triton\nimport triton.language as tl\n"
    source += "from mlirfuse.kernels.device import library\n\n@triton.jit\ndef rounded(x, y):\n"
    source += "    at = tl.arange(0, 8)\n"
    source += "    tl.store(y + at, library.round_even(tl.load(x + at)))\n"
    found = interpreter.torch.full((8,), float("nan"))
    module = interpreter.load(source, "rounded")
    module.rounded[(1,)](interpreter.torch.from_numpy(halves), found)
    assert (found.numpy() == np.round(halves)).all()


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_layer_norm_over_two_axes(interpreter, dtype):
    f = Function("main", (5, 3, 11))
    x, g, b = f.argument((0, 1, 2), dtype), f.argument((1, 2), dtype), f.argument((1, 2), dtype)
    text = f.finish(layer_norm(f, x, (1, 2), g, b, "f32"))
    arrays = [draw((5, 3, 11), dtype, 1), draw((3, 11), dtype, 2), draw((3, 11), dtype, 3)]
    (found,) = run(interpreter, text, "rows", arrays, [(5, 3, 11)])
    a, gamma, beta = (x.astype(np.float64) for x in arrays)
    centered = a - a.mean((1, 2), keepdims=True)
    variance = (centered**2).mean((1, 2), keepdims=True)
    close(found, centered / np.sqrt(variance + 1e-5) * gamma + beta, dtype)


@needs_triton
def test_long_rows_compute_late(interpreter):
    """Where registers are few, a sum is stored at once, and weights are loaded after the sums."""
    shape = (2, 32768)
    f = Function("main", shape)
    x, r = f.argument((0, 1), "f16"), f.argument((0, 1), "f16")
    g, b = (f.cast(f.argument((1,), "f16"), "f32") for _ in "gb")
    total = f.apply("arith.addf", x, r)
    text = f.finish(layer_norm(f, total, (1,), g, b, "f32"), total)
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        lines = plan.program.source.splitlines()
    first = {word: next(n for n, s in enumerate(lines) if word in s) for word in ("store", "sum")}
    weights = [n for n, s in enumerate(lines) if "tl.load" in s and "row *" not in s]
    assert first["store"] < first["sum"] < min(weights)
    arrays = [draw(shape, "f16", 1), draw(shape, "f16", 2)]
    arrays += [draw(shape[1:], "f16", 3), draw(shape[1:], "f16", 4)]
    results = run(interpreter, text, "rows", arrays, [shape, shape])
    kept = (arrays[0] + arrays[1]).astype(np.float64)
    centered = kept - kept.mean(1, keepdims=True)
    normed = centered / np.sqrt((centered**2).mean(1, keepdims=True) + 1e-5)
    normed = normed * arrays[2].astype(np.float64) + arrays[3].astype(np.float64)
    for expected in (kept, normed):
        number = int(np.argmin([np.abs(r - expected).max() for r in results]))
        close(results.pop(number), expected, "f16")


def product_text(sizes, left, right, out, dtype, residual):
    """A product with a bias, tanh, a cast and a residual; loops are batch, row, column, term."""
    f = Function("main", sizes)
    a, b = f.argument(left, dtype), f.argument(right, dtype)
    bias, r = f.argument((2,), "f32"), f.argument(residual, dtype)
    total = f.contract(a, b, out, "f32")
    active = f.apply("math.tanh", f.apply("arith.addf", total, bias))
    return f.finish(f.apply("arith.addf", f.cast(active, dtype), r))


@needs_triton
@pytest.mark.parametrize(
    ("sizes", "left", "right"),
    [
        ((1, 37, 53, 71), (1, 3), (3, 2)),
        ((1, 64, 64, 64), (1, 3), (2, 3)),
        ((3, 17, 1, 5), (0, 1, 3), (0, 2, 3)),
        ((1, 5, 130, 129), (3, 1), (3, 2)),
        ((1, None, 20, 65), (1, 3), (2, 3)),
        ((1, 1, 45, 70), (3,), (3, 2)),
        ((1, 1, 45, 70), (2, 3), (3,)),
        ((2, 1, 45, 33), (0, 3), (0, 2, 3)),
    ],
)
def test_product(interpreter, sizes, left, right):
    """In f16 alone: Triton's interpreter multiplies the bits of bf16 as whole numbers."""
    dtype = "f16"
    out = tuple(n for n in range(3) if n in (*left, *right))
    text = product_text(sizes, left, right, out, dtype, out)
    full = tuple(s or 70 for s in sizes)
    shape = tuple(full[a] for a in out)
    arrays = [draw([full[a] for a in axes], dtype, n) for n, axes in enumerate((left, right))]
    arrays += [draw((full[2],), "f32", 3), draw(shape, dtype, 4)]
    (found,) = run(interpreter, text, "matmul", arrays, [shape])
    a, b, bias, r = (x.astype(np.float64) for x in arrays)
    letters = "bmnk"
    spelled = ",".join("".join(letters[a] for a in axes) for axes in (left, right))
    total = np.einsum(f"{spelled}->{''.join(letters[a] for a in out)}", a, b)
    close(found, np.tanh(total + bias) + r, dtype)


def several_text(rows, columns, depth, parts, joint):
    """Products of one left operand with slices of one weight: gated, or each with its own bias."""
    wide, part = f"tensor<{depth}x{columns * parts}xf16>", f"tensor<{depth}x{columns}xf16>"
    sums, out = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}x{columns}xf16>"
    count, ends = range(parts), 1 if joint else parts
    results = ", ".join([out] * ends)
    maps = ["#a", *["#b"] * parts, *["#c"] * parts]
    text = f"""
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
func.func @main(%x: tensor<{rows}x{depth}xf16>, %w: {wide}, %bias: tensor<{columns}xf32>)
    -> ({results}) {{
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %r:{ends} = flow.dispatch.region -> ({results}) {{
    %e = tensor.empty() : {sums}
    %h = tensor.empty() : {out}
    %f = linalg.fill ins(%zero : f32) outs(%e : {sums}) -> {sums}
"""
    for n in count:
        text += f"%w{n} = tensor.extract_slice %w[0, {n * columns}] [{depth}, {columns}] [1, 1]"
        text += f" : {wide} to {part}\n"
    text += f"%s:{parts} = linalg.generic {{indexing_maps = [{', '.join(maps)}],"
    text += 'iterator_types = ["parallel", "parallel", "reduction"]}'
    text += f" ins(%x, {', '.join(f'%w{n}' for n in count)} : tensor<{rows}x{depth}xf16>,"
    text += f" {', '.join([part] * parts)}) outs({', '.join(['%f'] * parts)} :"
    text += f" {', '.join([sums] * parts)}) {{\n^bb0(%l: f16, "
    text += ", ".join([f"%b{n}: f16" for n in count] + [f"%o{n}: f32" for n in count]) + "):\n"
    for n in count:
        text += f"%l{n} = arith.extf %l : f16 to f32\n%c{n} = arith.extf %b{n} : f16 to f32\n"
        text += f"%p{n} = arith.mulf %l{n}, %c{n} : f32\n%t{n} = arith.addf %o{n}, %p{n} : f32\n"
    text += f"linalg.yield {', '.join(f'%t{n}' for n in count)} : {', '.join(['f32'] * parts)}\n"
    text += f"}} -> ({', '.join([sums] * parts)})\n"
    plain = 'iterator_types = ["parallel", "parallel"]}'
    if joint:
        text += f"%y = linalg.generic {{indexing_maps = [#id, #id, #id], {plain}"
        text += f" ins(%s#0, %s#1 : {sums}, {sums}) outs(%h : {out}) {{\n"
        text += "^bb0(%g: f32, %u: f32, %o: f16):\n%m = arith.negf %g : f32\n"
        text += "%q = math.exp %m : f32\n%d = arith.addf %q, %one : f32\n"
        text += "%i = arith.divf %g, %d : f32\n%j = arith.mulf %i, %u : f32\n"
        text += f"%k = arith.truncf %j : f32 to f16\nlinalg.yield %k : f16\n}} -> {out}\n"
    for n in () if joint else count:
        text += f"%y{n} = linalg.generic {{indexing_maps = [#id, #n, #id], {plain}"
        text += f" ins(%s#{n}, %bias : {sums}, tensor<{columns}xf32>) outs(%h : {out}) {{\n"
        text += "^bb0(%g: f32, %u: f32, %o: f16):\n%j = arith.addf %g, %u : f32\n"
        text += f"%k = arith.truncf %j : f32 to f16\nlinalg.yield %k : f16\n}} -> {out}\n"
    names = ["%y"] if joint else [f"%y{n}" for n in count]
    text += f"flow.return {', '.join(names)} : {', '.join([out] * len(names))}\n}}\n"
    names = [f"%r#{n}" for n in range(len(names))]
    return f"{text}return {', '.join(names)} : {', '.join([out] * len(names))}\n}}"


@needs_triton
@pytest.mark.parametrize(("rows", "columns", "depth"), [(37, 53, 71), (1, 64, 64), (130, 40, 128)])
@pytest.mark.parametrize("joint", [True, False])
def test_several_products(interpreter, rows, columns, depth, joint):
    """A gated unit in one workgroup, and a split into three with a bias each."""
    parts = 2 if joint else 3
    text = several_text(rows, columns, depth, parts, joint)
    arrays = [draw((rows, depth), "f16", 1), draw((depth, columns * parts), "f16", 2)]
    arrays.append(draw((columns,), "f32", 3))
    found = run(interpreter, text, "matmul", arrays, [(rows, columns)] * (1 if joint else parts))
    x, w, bias = (array.astype(np.float64) for array in arrays)
    sums = np.split(x @ w, parts, -1)
    expected = [total + bias for total in sums]
    if joint:
        expected = [sums[0] / (1 + np.exp(-sums[0])) * sums[1]]
    for one, other in zip(found, expected, strict=True):
        close(one, other, "f16")


@needs_triton
@pytest.mark.parametrize("depth", [96, 71])
def test_product_of_dequantized_weights(interpreter, depth):
    f = Function("main", (9, 40, depth))
    x, w = f.argument((0, 2), "f16"), f.argument((1, 2), "i8")
    scale = f.argument((1,), "f16")
    wide = f.apply("arith.mulf", f.cast(w, "f16", "arith.sitofp"), scale)
    text = f.finish(f.cast(f.contract(x, wide, (0, 1), "f32"), "f16"))
    weights = np.random.default_rng(2).integers(-128, 128, (40, depth)).astype(np.int8)
    arrays = [draw((9, depth), "f16", 1), weights, draw((40,), "f16", 3, 1 / 64)]
    (found,) = run(interpreter, text, "matmul", arrays, [(9, 40)])
    a, b, s = (array.astype(np.float64) for array in arrays)
    close(found, a @ (b * s[:, None]).T, "f16")


BYTES = """
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (n, k)>
#c = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
func.func @main(%x: tensor<33x71xi8>, %w: tensor<40x71xi8>, %s: tensor<40xf32>)
    -> tensor<33x40xf32> {
  %zero = arith.constant 0 : i32
  %r = flow.dispatch.region -> (tensor<33x40xf32>) {
    %e = tensor.empty() : tensor<33x40xi32>
    %f = linalg.fill ins(%zero : i32) outs(%e : tensor<33x40xi32>) -> tensor<33x40xi32>
    %t = linalg.matmul indexing_maps = [#a, #b, #c]
        ins(%x, %w : tensor<33x71xi8>, tensor<40x71xi8>)
        outs(%f : tensor<33x40xi32>) -> tensor<33x40xi32>
    %h = tensor.empty() : tensor<33x40xf32>
    %y = linalg.generic {indexing_maps = [#id, #n, #id], iterator_types = ["parallel", "parallel"]}
        ins(%t, %s : tensor<33x40xi32>, tensor<40xf32>) outs(%h : tensor<33x40xf32>) {
    ^bb0(%i: i32, %c: f32, %o: f32):
      %j = arith.sitofp %i : i32 to f32
      %k = arith.mulf %j, %c : f32
      linalg.yield %k : f32
    } -> tensor<33x40xf32>
    flow.return %y : tensor<33x40xf32>
  }
  return %r : tensor<33x40xf32>
}
"""


@needs_triton
def test_product_of_bytes(interpreter):
    draws = np.random.default_rng(2)
    arrays = [draws.integers(-128, 128, s).astype(np.int8) for s in ((33, 71), (40, 71))]
    arrays.append(draw((40,), "f32", 3))
    (found,) = run(interpreter, BYTES, "matmul", arrays, [(33, 40)])
    a, b, s = (array.astype(np.float64) for array in arrays)
    close(found, (a @ b.T) * s, "f32")


def attention_reference(q, k, v, scale, mask):
    """Softmax of the scores, with heads of k and v shared by the heads of q."""
    scores = np.einsum("bhgmd,bhkd->bhgmk", q, k) * scale + mask
    return np.einsum("bhgmk,bhkn->bhgmn", softmax_reference(scores), v)


@needs_triton
@pytest.mark.parametrize(
    ("extents", "mask"),
    [
        ((2, 3, 1, 150, 32, 32, 150), "causal"),
        ((2, 3, 2, 37, 16, 16, 53), ""),
        ((2, 2, 3, 5, 40, 24, 130), "boolean"),
        ((2, 3, 1, 7, 64, 64, 9), "bias"),
        ((2, 3, 1, 7, 128, 128, 19), "added"),
        ((1, 2, 4, 1, 32, 32, 1061), ""),
        ((1, 2, 1, 3, 24, 32, 700), "boolean"),
    ],
)
def test_attention(interpreter, extents, mask):
    b, h, g, m, n, d, k = extents
    text, _ = write("main", extents, dtype="f16", mask=mask)
    heads = (b, h, g) if g > 1 else (b, h)
    arrays = [draw((*heads, m, d), "f16", 1), draw((b, h, k, d), "f16", 2)]
    arrays.append(draw((b, h, k, n), "f16", 3))
    weight = np.zeros((b, m, k))
    if mask == "causal":
        weight = np.where(np.arange(k) <= np.arange(m)[:, None], 0.0, -np.inf) + weight
    elif mask == "bias":
        arrays.append(draw((b, m, k), "f16", 4))
        weight = arrays[3].astype(np.float64)
    elif mask:
        keep = np.random.default_rng(5).random((b, m, k)) < 0.6
        keep[0, 1] = False
        arrays.append(keep.astype(np.int8))
        closed = -np.inf if mask == "boolean" else float(np.finfo(np.float32).min)
        weight = np.where(keep, 0.0, closed)
    (found,) = run(interpreter, text, "attention", arrays, [(*heads, m, n)])
    q, key, v = (x.astype(np.float64) for x in arrays[:3])
    expected = attention_reference(
        q.reshape(b, h, g, m, d), key, v, 0.25, weight[:, None, None]
    ).reshape(found.shape)
    close(found, expected, "f16")
    assert np.isnan(expected).any() == (mask == "boolean")


@needs_triton
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_object_code(arch):
    with ir.Context():
        _, plans = planned(softmax_text((6, 40), "f16"), "rows")
        kernel = triton_compiler.build(plans[0].program, arch)
    text = kernel.code.decode()
    assert f".target {arch}" in text
    assert "_param_1\n)" in text
    assert kernel.workgroup_size == (32, 1, 1)


@needs_triton
def test_object_code_of_amd():
    """HIP passes what the description lists: two buffers and the dynamic size."""
    with ir.Context():
        _, plans = planned(softmax_text((None, 40), "f16"), "rows")
        kernel = triton_compiler.build(plans[0].program, "gfx942")
    assert kernel.code.startswith(b"\x7fELF")
    assert kernel.code.count(b"global_buffer") == 2
    assert kernel.code.count(b"by_value") == 1
    assert (kernel.workgroup_size, kernel.suffix) == ((256, 1, 1), "hsaco")


@needs_triton
@pytest.mark.parametrize(
    ("target", "mark"),
    [("cuda:sm_90", b".entry row_kernel("), ("rocm:gfx942", b"row_kernel.kd")],
)
def test_the_program_holds_the_kernel(tmp_path, target, mark):
    source, program = tmp_path / "model.mlir", tmp_path / "model.vmfb"
    source.write_text(softmax_text((None, 40), "f16"))
    tool = [
        str(Path(sys.executable).with_name("mlirfuse-compile")),
        str(source),
        "-o",
        str(program),
    ]
    switches = [f"--target={target}", "--enable-feature=kernels", "--explain"]
    done = subprocess.run([*tool, *switches], capture_output=True, text=True, check=True)
    assert "row_triton_kernel 1" in done.stdout + done.stderr
    assert mark in program.read_bytes()


APART = """
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func @main(%x: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %y = flow.dispatch.region -> (tensor<64x64xf32>) {
    %v = tensor.empty() : tensor<64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%v : tensor<64xf32>) -> tensor<64xf32>
    %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<64x64xf32>) outs(%f : tensor<64xf32>) {
    ^bb0(%i: f32, %o: f32):
      %n = arith.addf %i, %o : f32
      linalg.yield %n : f32
    } -> tensor<64xf32> loc("sum")
    %d = linalg.generic
        {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x, %s : tensor<64x64xf32>, tensor<64xf32>) outs(%e : tensor<64x64xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %n = arith.divf %i, %j : f32
      linalg.yield %n : f32
    } -> tensor<64x64xf32> loc("quotient")
    flow.return %d : tensor<64x64xf32>
  } loc(fused["sum", "quotient"])
  %g = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = linalg.matmul ins(%y, %b : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%g : tensor<64x64xf32>) -> tensor<64x64xf32> loc("product")
  return %c : tensor<64x64xf32>
}
"""


@needs_triton
def test_a_kernel_is_a_dispatch_of_what_must_be_fused():
    switches = {"target": TARGET, "enable_feature": ("kernels",), "pipeline": "row_triton_kernel"}
    _, report = mlirfuse.fuse(APART, must_fuse=[("sum", "quotient")], **switches)
    assert report.counts() == {"row_triton_kernel": 1}
    with pytest.raises(MustFuseError, match="the ops are in 2 dispatches of @main"):
        mlirfuse.fuse(APART, must_fuse=[("sum", "product")], **switches)


def refusal(text, kind):
    with ir.Context():
        _, plans = planned(text, kind)
        assert isinstance(plans[0], NoMatch), plans
        return plans[0].reason


def test_no_kernel_for_products_of_f32():
    text = product_text((1, 8, 8, 8), (1, 3), (3, 2), (1, 2), "f32", (1, 2))
    assert refusal(text, "matmul") is Reason.ELEMENT_TYPE
