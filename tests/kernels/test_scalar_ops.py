"""Bounds and rounding in kernels, run by Triton's interpreter on the CPU; and concatenations."""

import itertools

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import NUMPY, TARGET, needs_triton, run
from mlirfuse.core import NoMatch
from mlirfuse.kernels.data_movement.analysis import analyze_chain, chain
from mlirfuse.kernels.data_movement.family import plan_concat
from mlirfuse.structured.ir import ops

BOUNDED = """
#id = affine_map<(r, c) -> (r, c)>
util.func public @main(%x: tensor<8x16xTYPE>) -> tensor<8x16xTYPE> {{
  %two = arith.constant {constant} : TYPE
  %e = tensor.empty() : tensor<8x16xTYPE>
  %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%x : tensor<8x16xTYPE>) outs(%e : tensor<8x16xTYPE>) {{
  ^bb0(%a: TYPE, %o: TYPE):
    %c = arith.cmpf {predicate}, {sides} : TYPE
    %s = arith.select %c, {choices} : TYPE
    linalg.yield %s : TYPE
  }} -> tensor<8x16xTYPE>
  util.return %y : tensor<8x16xTYPE>
}}
"""
COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


ABOVE_ONE = """
#id = affine_map<(r, c) -> (r, c)>
util.func public @main(%x: tensor<8x16xf16>) -> tensor<8x16xf16> {
  %one = arith.constant 1.0 : f16
  %two = arith.constant 2.0 : f16
  %e = tensor.empty() : tensor<8x16xf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x16xf16>) outs(%e : tensor<8x16xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = math.sqrt %two : f16
    %d = arith.divf %a, %r : f16
    %f = math.tanh %d : f16
    %s = arith.addf %f, %one : f16
    linalg.yield %s : f16
  } -> tensor<8x16xf16>
  util.return %y : tensor<8x16xf16>
}
"""


FUNCTION = """
#id = affine_map<(r, c) -> (r, c)>
util.func public @main(%x: tensor<8x16xTYPE>) -> tensor<8x16xTYPE> {
  %e = tensor.empty() : tensor<8x16xTYPE>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x16xTYPE>) outs(%e : tensor<8x16xTYPE>) {
  ^bb0(%a: TYPE, %o: TYPE):
    %r = FUNCTION %a : TYPE
    linalg.yield %r : TYPE
  } -> tensor<8x16xTYPE>
  util.return %y : tensor<8x16xTYPE>
}
"""

DIVIDED = """
#id = affine_map<(r, c) -> (r, c)>
util.func public @main(%x: tensor<8x16xTYPE>, %z: tensor<8x16xTYPE>) -> tensor<8x16xTYPE> {
  %one = arith.constant 1.0 : TYPE
  %e = tensor.empty() : tensor<8x16xTYPE>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %z : tensor<8x16xTYPE>, tensor<8x16xTYPE>) outs(%e : tensor<8x16xTYPE>) {
  ^bb0(%a: TYPE, %o: TYPE, %out: TYPE):
    %e0 = math.exp %o : TYPE
    %e1 = arith.addf %one, %e0 : TYPE
    %below = arith.subf %e0, %one : TYPE
    %m = arith.mulf %o, %o : TYPE
    %square = arith.addf %m, %one : TYPE
    %n = arith.mulf %a, %o : TYPE
    %product = arith.addf %n, %one : TYPE
    %larger = arith.maximumf %o, %one : TYPE
    %d = arith.divf %a, DIVISOR : TYPE
    linalg.yield %d : TYPE
  } -> tensor<8x16xTYPE>
  util.return %y : tensor<8x16xTYPE>
}
"""


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("function", ["log", "log2", "log10", "log1p"])
def test_short_logarithms(interpreter, function, dtype):
    """Those of results of 16 bits: around one, far from it, and of numbers that have none."""
    near = 1 + np.linspace(-0.06, 0.06, 113)
    far = [0.0, -0.0, np.inf, -1.0, -2.0, np.nan, 6e-8, 1e-4, 0.5, 2.0, 3e4, 6e4, 1e-3, 70.0, 0.9]
    numbers = np.concatenate([near - (function == "log1p"), far]).reshape(8, 16)
    x = numbers.astype(NUMPY[dtype])
    text = FUNCTION.replace("FUNCTION", f"math.{function}").replace("TYPE", dtype)
    with ir.Context():
        _, (plan,) = kernel_runner.planned(text, "elementwise")
        assert f"library.short_{function}(" in plan.program.source
    (found,) = run(interpreter, text, "elementwise", [x], [(8, 16)])
    with np.errstate(all="ignore"):
        expected = getattr(np, function)(x.astype(np.float64)).astype(x.dtype)
    rounding = 2.0**-10 if dtype == "f16" else 2.0**-7
    np.testing.assert_allclose(found, expected.astype(np.float64), rtol=rounding, atol=0)


ROUNDED = """
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
util.func public @main(%x: tensor<8x16xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %h = tensor.empty() : tensor<8x16xHALF>
  %l = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.log %a : f32
    linalg.yield %r : f32
  } -> tensor<8x16xf32>
  %m = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%l, %x : tensor<8x16xf32>, tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<8x16xf32>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%m : tensor<8x16xf32>) outs(%h : tensor<8x16xHALF>) {
  ^bb0(%a: f32, %o: HALF):
    %r = arith.truncf %a : f32 to HALF
    linalg.yield %r : HALF
  } -> tensor<8x16xHALF>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%t : tensor<8x16xHALF>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%a: HALF, %o: f32):
    %r = arith.extf %a : HALF to f32
    linalg.yield %r : f32
  } -> tensor<8x16xf32>
  %se = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%se : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(SUMMED : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  util.return %s : tensor<8xf32>
}
"""


@needs_triton
@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize(("summed", "short"), [("%w", True), ("%m", False)])
def test_short_forms_of_numbers_that_are_rounded_later(interpreter, half, summed, short):
    """The sum is f32, its terms are rounded before or not."""
    text = ROUNDED.replace("HALF", half).replace("SUMMED", summed)
    with ir.Context():
        _, (plan,) = kernel_runner.planned(text, "rows")
    assert ("library.short_log(" in plan.program.source) == short
    if not short:
        return  # The ops that round are without users.
    x = np.linspace(0.1, 9, 128).reshape(8, 16).astype(np.float32)
    (found,) = run(interpreter, text, "rows", [x], [(8,)])
    terms = x.astype(np.float64) * np.log(x.astype(np.float64))
    np.testing.assert_allclose(found, terms.sum(1), rtol=1e-2)


DIVISORS = [
    ("f16", "%o", True),
    ("f32", "%e1", True),
    ("bf16", "%e1", True),
    ("f32", "%e0", False),
    ("f32", "%o", False),
    ("bf16", "%o", False),
    ("f32", "%below", False),
    ("f32", "%square", True),
    ("f32", "%product", False),
    ("f32", "%larger", True),
]
"""Element type, divisor in `DIVIDED`, and whether it is known to be normal, with its inverse."""


@needs_triton
@pytest.mark.parametrize(("dtype", "divisor", "normal"), DIVISORS)
def test_quotients(interpreter, dtype, divisor, normal):
    """A division needs no scaling where the divisor cannot be subnormal."""
    text = DIVIDED.replace("DIVISOR", divisor).replace("TYPE", dtype)
    with ir.Context():
        _, (plan,) = kernel_runner.planned(text, "elementwise")
    assert ("library.quotient(" in plan.program.source) == normal
    numbers = np.linspace(-9, 9, 128)
    x, y = (np.roll(numbers, n).reshape(8, 16).astype(NUMPY[dtype]) for n in (0, 5))
    (found,) = run(interpreter, text, "elementwise", [x, y], [(8, 16)])
    a, b = x.astype(np.float64), y.astype(np.float64)
    divisors = {
        "%o": b,
        "%e1": np.exp(b) + 1,
        "%e0": np.exp(b),
        "%below": np.exp(b) - 1,
        "%square": b * b + 1,
        "%product": a * b + 1,
        "%larger": np.maximum(b, 1),
    }
    rounding = {"f32": 4e-6, "f16": 2.0**-9, "bf16": 2.0**-6}[dtype]
    np.testing.assert_allclose(found, a / divisors[divisor], rtol=rounding)


@needs_triton
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", lambda x: np.tanh(x) + 1),
        ("%f, %one", "%one, %f", lambda x: np.tanh(x) + 1),
        ("%f, %one", "%f, %two", lambda x: np.tanh(x) + 2),
        ("arith.addf %f", "arith.mulf %f", np.tanh),
    ],
)
def test_tanh_above_one(interpreter, old, new, expected):
    """The addition of one, and the division by a root, have forms of their own."""
    text = ABOVE_ONE.replace(old, new)
    x = np.linspace(-6, 6, 128).reshape(8, 16).astype(np.float16)
    with ir.Context():
        _, (plan,) = kernel_runner.planned(text, "elementwise")
        source = plan.program.source
    above = new in ("", "%one, %f")
    assert ("library.short_tanh(" in source) != above
    assert " / " not in source
    assert source.count("library.quotient(2.0") == above
    assert "sqrt" not in source
    (found,) = run(interpreter, text, "elementwise", [x], [(8, 16)])
    wide = expected(x.astype(np.float64) / np.sqrt(2.0))
    np.testing.assert_allclose(found.astype(np.float64), wide, rtol=1e-3, atol=1e-6)


@needs_triton
@pytest.mark.parametrize("size", [6.0, 40.0, 200.0])
def test_tanh_above_one_of_f32(interpreter, size):
    """As near as one and the tangent of float64, also where both nearly cancel."""
    text = ABOVE_ONE.replace("f16", "f32")
    x = np.linspace(-size, size, 128).reshape(8, 16).astype(np.float32)
    with ir.Context():
        _, (plan,) = kernel_runner.planned(text, "elementwise")
        assert "library.tanh(" not in plan.program.source
    (found,) = run(interpreter, text, "elementwise", [x], [(8, 16)])
    wide = 2 / (1 + np.exp(-2 * (x.astype(np.float64) / np.sqrt(2.0))))
    np.testing.assert_allclose(found.astype(np.float64), wide, rtol=1e-5, atol=1e-37)


@needs_triton
@pytest.mark.parametrize(
    ("last", "form"),
    [
        ("%s = arith.addf %f, %one : f32", "tl.exp2("),
        ("%s = arith.addf %one, %f : f32", "tl.exp2("),
        ("%s = arith.addf %f, %a : f32", "tl.exp("),
        ("%s = arith.mulf %f, %one : f32", "tl.exp("),
        ("%t = arith.addf %f, %one : f32\n    %s = arith.mulf %t, %f : f32", "tl.exp("),
        ("%z = arith.constant 0.0 : f32\n    %s = arith.addf %f, %z : f32", "tl.exp("),
    ],
)
def test_exponentials_beside_which_a_constant_is_added_lose_no_number(interpreter, last, form):
    """Subnormal results are zero where a sum with a constant does not tell them from it."""
    text = ABOVE_ONE.replace("f16", "f32").replace("math.tanh %d", "math.exp %a")
    text = text.replace("%s = arith.addf %f, %one : f32", last)
    x = np.linspace(-100, 5, 128).reshape(8, 16).astype(np.float32)
    with ir.Context():
        _, (plan,) = kernel_runner.planned(text, "elementwise")
        assert form in plan.program.source
    (found,) = run(interpreter, text, "elementwise", [x], [(8, 16)])
    assert np.isfinite(found).all()


@needs_triton
@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("%a, %r", "%r, %a", "library.quotient(v"),
        ("math.sqrt %two", "math.sqrt %a", "library.quotient(v"),
        ("linalg.yield %s", "%t = arith.addf %s, %r : f16\n    linalg.yield %t", "tl.sqrt("),
    ],
)
def test_divisions_that_are_kept(old, new, kept):
    with ir.Context():
        _, (plan,) = kernel_runner.planned(ABOVE_ONE.replace(old, new), "elementwise")
        assert kept in plan.program.source


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("order", ["o", "u"])
def test_selects_that_bound(interpreter, dtype, order):
    """NaN included, a select and its replacement agree; with zero it remains a select."""
    x = np.linspace(-4, 4, 128).reshape(8, 16).astype(kernel_runner.NUMPY[dtype])
    x[0, :4] = np.nan, np.inf, -np.inf, 2.0
    for name, turned, swapped, constant in itertools.product(
        COMPARE, (False, True), (False, True), (2.0, 0.0)
    ):
        text = BOUNDED.replace("TYPE", dtype).format(
            constant=constant,
            predicate=order + name,
            sides="%two, %a" if turned else "%a, %two",
            choices="%two, %a" if swapped else "%a, %two",
        )
        (found,) = run(interpreter, text, "elementwise", [x], [(8, 16)])
        wide = x.astype(np.float64)
        sides = (constant, wide) if turned else (wide, constant)
        with np.errstate(invalid="ignore"):
            holds = COMPARE[name](*sides) | ((order == "u") & np.isnan(wide))
        choices = (constant, wide) if swapped else (wide, constant)
        expected = np.where(holds, *choices)
        np.testing.assert_array_equal(found, expected, err_msg=f"{order}{name} {turned} {swapped}")


@needs_triton
def test_short_numbers_are_rounded_to_even(interpreter):
    """Every f16 and every bf16 that is a number."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = [bits.view(np.float16).astype(np.float32), (bits.astype(np.uint32) << 16).view("f4")]
    source = "import triton\nimport triton.language as tl\n"
    source += "from mlirfuse.kernels.device import library\n\n@triton.jit\ndef rounded(x, y):\n"
    source += "    at = tl.arange(0, 65536)\n"
    source += "    tl.store(y + at, library.short_round(tl.load(x + at)))\n"
    torch, module = interpreter.torch, interpreter.load(source, "rounded")
    for x, kind in zip(wide, (torch.float16, torch.bfloat16), strict=True):
        x = np.where(np.isnan(x), 0, x)
        found = torch.full((1 << 16,), float("nan"))
        with np.errstate(all="ignore"):
            module.rounded[(1,)](torch.from_numpy(x), found)
        expected = torch.from_numpy(np.round(x)).to(kind)
        assert bool((found.to(kind) == expected).all())


def concatenation(sizes, whole, axis, order):
    """Parts along an axis, written in some order."""
    kinds = ["x".join(map(str, [*whole[:axis], n, *whole[axis + 1 :]])) + "xf32" for n in sizes]
    total = "x".join(map(str, whole)) + "xf32"
    arguments = ", ".join(f"%a{n}: tensor<{kind}>" for n, kind in enumerate(kinds))
    lines, last = [f"%w = tensor.empty() : tensor<{total}>"], "%w"
    for number in order:
        places = [0] * len(whole)
        places[axis] = sum(sizes[:number])
        box = [*whole[:axis], sizes[number], *whole[axis + 1 :]]
        lines.append(
            f"%r{number} = tensor.insert_slice %a{number} into {last}{places} {box} "
            f"{[1] * len(whole)} : tensor<{kinds[number]}> into tensor<{total}>"
        )
        last = f"%r{number}"
    body = "\n".join(lines)
    return (
        f"util.func public @main({arguments}) -> tensor<{total}> {{\n{body}\n"
        f"util.return {last} : tensor<{total}>\n}}"
    )


@needs_triton
@pytest.mark.parametrize(
    ("sizes", "whole", "axis", "order"),
    [
        ((63, 1), (6, 64, 8), 1, (0, 1)),
        ((3, 5, 9), (7, 17), 1, (2, 0, 1)),
        ((700, 13), (713, 5), 0, (1, 0)),
    ],
)
def test_concatenation(interpreter, sizes, whole, axis, order):
    torch = interpreter.torch
    with ir.Context():
        module = ir.Module.parse(concatenation(sizes, whole, axis, order))
        (function,) = ops.functions(module)
        last = [op for op in next(ops.blocks(function)).operations][-2].operation
        analysis = analyze_chain(chain(last))
        plan = analysis if isinstance(analysis, NoMatch) else plan_concat(analysis, TARGET)
        assert not isinstance(plan, NoMatch), plan
        numbers = [ir.BlockArgument(value).arg_number for value in plan.operands]
        program, (extent, *_) = plan.program, plan.grid
        assert numbers == [*range(len(sizes))]
    parts = [
        torch.rand([*whole[:axis], n, *whole[axis + 1 :]], generator=torch.manual_seed(n))
        for n in sizes
    ]
    found = torch.full(whole, float("nan"))
    kernel = getattr(interpreter.load(program.source, program.entry), program.entry)
    kernel[(extent.size * extent.repeat,)](*parts, found)
    assert bool((found == torch.cat(parts, axis)).all())
