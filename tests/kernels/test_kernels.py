"""Kernels against float64: the same Triton text, run by Triton's interpreter on the CPU."""

import functools
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from iree.compiler import ir

import mlirfuse
from helpers import kernel_runner
from helpers.attention_text import attention_reference, write
from helpers.kernel_runner import NUMPY, TARGET, TOLERANCE, close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from helpers.matmul_text import INT8_MATMUL, check_several_matmuls, matmul_text
from helpers.norm_text import layer_norm, quantized, rms_norm
from helpers.softmax_text import softmax_reference, softmax_text
from mlirfuse.core import MustFuseError
from mlirfuse.kernels import triton_compiler, triton_worker
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Group, Space
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.problem import ReductionConfig


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
    # Off by one where the narrow type rounds the norm to the other side of a half.
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
def test_bytes_in_shared_memory_are_of_integers():
    """ptxas converts a float of which the last byte is stored: all of them were 255."""
    f = Function("main", (139, 99))
    x, g, scale = f.argument((0, 1), "f16"), f.argument((1,), "f16"), f.argument((1,), "f32")
    text = f.finish(quantized(f, rms_norm(f, x, (1,), g, "f32"), scale, None))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
    code = triton_compiler.build(plan.program, TARGET.arch).code.decode()
    stored = re.findall(r"st\.shared\.b8\s+\[.*\], (%\w+);", code)
    assert stored
    assert {*stored}.isdisjoint(re.findall(r"\.f32\s+(%\w+),", code))


@needs_triton
def test_no_kernel_has_packed_additions(tmp_path):
    """ptxas adds zero where a constant is added to a pair of which one half is read.

    Here LLVM packs the origins of the residue classes of the result.
    """

    class Transposed(torch.nn.Module):
        def forward(self, x, w, b):
            y = torch.conv_transpose2d(x, w, b, stride=3, padding=1, output_padding=1, dilation=2)
            return torch.relu(y)

    shapes = (1, 16, 8, 16), (16, 8, 3, 3), (8,)
    arguments = tuple(torch.zeros(shape, dtype=torch.float16) for shape in shapes)
    before = {*triton_compiler.sources()}
    mlirfuse.compile(Transposed(), arguments, target="cuda:sm_90", cache=False)
    code = "\n".join(ptx.decode() for ptx in triton_compiler.sources() if ptx not in before)
    assert "add.s16 %a0, %a0, %b0;" in code
    assert not re.search(r"\badd\.[su]16x2", code)


def test_packed_additions_are_two():
    text = "\tadd.s16x2 \t%r3, %r1, %r2;\n\tadd.u16x2 \t%r4, %r3, %r2;\n"
    found = triton_worker.without_packed_adds(text + "\tadd.f16x2 \t%r4, %r3, %r2;\n")
    assert re.findall(r"add\.\w+|mov.b32 %r\d|%a1, %a1, %b1", found) == [
        *["add.s16", "add.s16", "%a1, %a1, %b1", "mov.b32 %r3"],
        *["add.s16", "add.s16", "%a1, %a1, %b1", "mov.b32 %r4"],
        "add.f16x2",
    ]


@needs_triton
def test_log1p_of_f32_is_right_to_an_ulp(interpreter):
    """Also next to -1 and zero, where libdevice's branches to another form."""
    draw = np.random.default_rng(0)
    parts = [draw.uniform(-1, 2, 4096), np.exp(draw.uniform(-80, 88, 4096))]
    parts += [-np.exp(draw.uniform(-80, 0, 4096)), np.arange(1, 1000) * 2.0**-24 - 1]
    parts += [[0.0, -0.0, np.inf, -np.inf, np.nan, -1, -2, 1e-40, -1e-40, 3.4e38]]
    x = np.concatenate(parts).astype(np.float32)
    found = of_library(interpreter, "log1p", x).astype(np.float64)
    with np.errstate(all="ignore"):
        expected = np.log1p(x.astype(np.float64))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    unit = np.spacing(np.abs(expected[finite]).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(found[finite] - expected[finite]) / unit) < 1.5
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))


def of_library(interpreter, name, x):
    """The results of a function of the library for numbers of f32, a power of two at most."""
    size = 1 << (x.size - 1).bit_length()
    source = "import triton\nimport triton.language as tl\n"
    source += "from mlirfuse.kernels.device import library\n\n@triton.jit\ndef short(x, y):\n"
    source += f"    at = tl.arange(0, {size})\n"
    source += f"    tl.store(y + at, library.{name}(tl.load(x + at)))\n"
    found = interpreter.torch.full((size,), float("nan"))
    given = interpreter.torch.from_numpy(np.pad(x, (0, size - x.size)))
    with np.errstate(all="ignore"):
        interpreter.load(source, "short").short[(1,)](given, found)
    return found.numpy()[: x.size]


@needs_triton
@pytest.mark.parametrize("name", ["short_tanh", "short_erf", "short_expm1", "short_log1p"])
def test_short_functions(interpreter, name):
    x = np.concatenate(
        [np.linspace(-9, 9, 4001), np.geomspace(1e-30, 1, 90), [np.nan, np.inf, 1000.0]]
    )
    x = np.concatenate([x, -x, [0.0, -np.inf]]).astype(np.float32)
    found = of_library(interpreter, name, x)
    exact = {"short_tanh": np.tanh, "short_erf": np.vectorize(math.erf)}
    exact |= {"short_expm1": np.expm1, "short_log1p": np.log1p}
    with np.errstate(all="ignore"):
        expected = exact[name](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1.1e-5, atol=0)
    if name in ("short_expm1", "short_log1p"):
        return
    # One more than minus one is nothing, however large the number that it is multiplied with.
    assert (np.abs(found[np.abs(x) >= 1000.0]) == 1.0).all()


def waves(interpreter, function, largest):
    """Angles, near multiples of a quarter turn too, and their sines by a function of the library.

    Args:
      interpreter: Triton's.
      function: name of the function, `short_sin`.
      largest: the largest angle.

    Returns:
      The angles, the results, and those of numpy in f64.
    """
    x = np.concatenate([np.linspace(-largest, largest, 4001), np.geomspace(1e-30, 3, 90)])
    quarters = np.arange(-83000, 83000, 149) * (np.pi / 2)
    x = np.concatenate([x, quarters[np.abs(quarters) <= largest], [0.0, -0.0, np.nan]])
    x = np.pad(x[:8192], (0, max(0, 8192 - x.size))).astype(np.float32)
    source = "import triton\nimport triton.language as tl\n"
    source += "from mlirfuse.kernels.device import library\n\n@triton.jit\ndef wave(x, y):\n"
    source += "    at = tl.arange(0, 8192)[None, :]\n"
    source += f"    tl.store(y + at, library.{function}(tl.load(x + at)))\n"
    found = interpreter.torch.full((8192,), float("nan"))
    interpreter.load(source, "wave").wave[(1,)](interpreter.torch.from_numpy(x), found)
    exact = getattr(np, function.rpartition("_")[2])(x.astype(np.float64))
    return x, found.numpy(), exact


@needs_triton
@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("largest", [20.0, 131071.0, 1e30])
def test_short_sines(interpreter, name, largest):
    """A tile with one large argument is computed by Triton's functions."""
    x, found, expected = waves(interpreter, f"short_{name}", largest)
    inside = np.abs(x) < 1e5  # the interpreter's own sine of larger ones is numpy's of f32
    difference = np.abs(found - expected)[inside]
    assert (difference <= 1e-6).all(), difference.max()
    assert (difference <= 1e-9 + 2e-5 * np.abs(expected)[inside]).all()
    assert np.isnan(found[np.isnan(x)]).all()


@needs_triton
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_of_halves(interpreter, name):
    """All that f16 holds; larger ones of f32 stand for infinity."""
    x, found, expected = waves(interpreter, f"half_{name}", 70000.0)
    valid = np.abs(x) < 65520.0
    assert (np.abs(found - expected)[valid] <= 1e-9 + 2e-5 * np.abs(expected[valid])).all()
    assert np.isnan(found[~valid]).all()


@needs_triton
@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("largest", [20.0, 131071.0])
def test_sines_of_large_tiles(interpreter, name, largest):
    """Near multiples of a quarter turn, too, where results are small."""
    x, found, expected = waves(interpreter, f"tile_{name}", largest)
    valid = ~np.isnan(x)
    units = np.abs(found - expected)[valid] / np.spacing(np.abs(expected[valid]), dtype="f4")
    assert units.max() <= 2.5
    if name == "sin":
        assert (np.signbit(found) == np.signbit(x))[x == 0].all()
    assert np.isnan(found[~valid]).all()


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
def test_long_rows_compute_late(interpreter, monkeypatch):
    """Under register pressure an add is stored at once, and weights are loaded late."""
    one_cta = functools.partial(REDUCTION.plan, config=ReductionConfig(32768, 32, 32768))
    monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", one_cta)
    shape = (2, 32768)
    f = Function("main", shape)
    x, r = f.argument((0, 1), "f16"), f.argument((0, 1), "f16")
    g, b = (f.cast(f.argument((1,), "f16"), "f32") for _ in "gb")
    total = f.apply("arith.addf", x, r)
    text = f.finish(layer_norm(f, total, (1,), g, b, "f32"), total)
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        lines = plan.program.source.splitlines()
    first = {
        word: next(n for n, s in enumerate(lines) if word in s) for word in ("tl.store", "tl.sum(")
    }
    weights = [n for n, s in enumerate(lines) if "tl.load" in s and "row *" not in s]
    assert first["tl.store"] < first["tl.sum("] < min(weights)
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
        ((1, 45, 1, 70), (1, 3), (3, 2)),
        ((1, 45, 1, 70), (3, 1), (2, 3)),
        ((1, None, 1, 70), (1, 3), (3, 2)),
    ],
)
def test_matmul(interpreter, sizes, left, right):
    """In f16 alone: Triton's interpreter multiplies the bits of bf16 as whole numbers."""
    dtype = "f16"
    out = tuple(n for n in range(3) if n in (*left, *right))
    text = matmul_text(sizes, left, right, out, dtype, out)
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


@needs_triton
@pytest.mark.parametrize(("rows", "columns", "depth"), [(37, 53, 71), (1, 64, 64), (130, 40, 128)])
@pytest.mark.parametrize("joint", [True, False])
def test_several_matmuls(interpreter, rows, columns, depth, joint):
    check_several_matmuls(interpreter, rows, columns, depth, joint)


@needs_triton
@pytest.mark.parametrize("depth", [96, 71])
def test_matmul_of_dequantized_weights(interpreter, depth, monkeypatch):
    # The kernel for few rows is written in Gluon, which the interpreter does not run.
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
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


@needs_triton
def test_matmul_of_bytes(interpreter):
    draws = np.random.default_rng(2)
    arrays = [draws.integers(-128, 128, s).astype(np.int8) for s in ((33, 71), (40, 71))]
    arrays.append(draw((40,), "f32", 3))
    (found,) = run(interpreter, INT8_MATMUL, "matmul", arrays, [(33, 40)])
    a, b, s = (array.astype(np.float64) for array in arrays)
    close(found, (a @ b.T) * s, "f32")


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "f32"])
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
        ((2, 3, 1, 1, 64, 64, 700), "bias"),
        ((1, 4, 1, 1, 32, 32, 300), ""),
    ],
)
def test_attention(interpreter, extents, mask, dtype):
    b, h, g, m, n, d, k = extents
    text, _ = write("main", extents, dtype=dtype, mask=mask)
    heads = (b, h, g) if g > 1 else (b, h)
    arrays = [draw((*heads, m, d), dtype, 1), draw((b, h, k, d), dtype, 2)]
    arrays.append(draw((b, h, k, n), dtype, 3))
    weight = np.zeros((b, m, k))
    if mask == "causal":
        weight = np.where(np.arange(k) <= np.arange(m)[:, None], 0.0, -np.inf) + weight
    elif mask == "bias":
        arrays.append(draw((b, m, k), dtype, 4))
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
    close(found, expected, dtype)
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
    """HIP passes the arguments that the description lists: two buffers and the dynamic size."""
    with ir.Context():
        _, plans = planned(softmax_text((None, 40), "f16"), "rows")
        kernel = triton_compiler.build(plans[0].program, "gfx942")
    assert kernel.code.startswith(b"\x7fELF")
    assert kernel.code.count(b"global_buffer") == 2
    assert kernel.code.count(b"by_value") == 1
    assert (kernel.workgroup_size, kernel.suffix) == ((128, 1, 1), "hsaco")


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
def test_a_kernel_is_a_dispatch_of_ops_that_must_be_fused():
    switches = {"target": TARGET, "enable_feature": ("kernels",), "pipeline": "row_triton_kernel"}
    _, report = mlirfuse.fuse(APART, must_fuse=[("sum", "quotient")], **switches)
    assert report.counts() == {"row_triton_kernel": 1}
    with pytest.raises(MustFuseError, match="the ops are in 2 dispatches of @main"):
        mlirfuse.fuse(APART, must_fuse=[("sum", "product")], **switches)
