"""Every scalar op of `arith` and `math` in a kernel, by Triton's interpreter, against numpy."""

import math

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import NUMPY, TARGET, needs_triton, planned, run
from mlirfuse.kernels import triton_compiler

SHAPE = (8, 256)
INTEGERS = {"i1": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
TYPES = {**NUMPY, **INTEGERS}


def module(body, kinds, out, constant=""):
    """An elementwise op of tensors of these types; `body` computes `%r` of `%a0`, `%a1`, ..."""
    size = "x".join(map(str, SHAPE))
    arguments = ", ".join(f"%x{n}: tensor<{size}x{k}>" for n, k in enumerate(kinds))
    names = ", ".join(f"%x{n}" for n in range(len(kinds)))
    types = ", ".join(f"tensor<{size}x{k}>" for k in kinds)
    inside = ", ".join(f"%a{n}: {k}" for n, k in enumerate(kinds))
    return f"""
#id = affine_map<(r, c) -> (r, c)>
util.func public @main({arguments}) -> tensor<{size}x{out}> {{
  %e = tensor.empty() : tensor<{size}x{out}>
  {constant}
  %y = linalg.generic {{indexing_maps = [{", ".join(["#id"] * (len(kinds) + 1))}],
      iterator_types = ["parallel", "parallel"]}}
      ins({names} : {types}) outs(%e : tensor<{size}x{out}>) {{
  ^bb0({inside}, %o: {out}):
    {body}
    linalg.yield %r : {out}
  }} -> tensor<{size}x{out}>
  util.return %y : tensor<{size}x{out}>
}}
"""


def numbers(kind, seed, positive=False):
    """Ordinary numbers, and zeros, ones, halves, infinities, NaN; all bits of integers."""
    generator = np.random.default_rng(seed)
    if kind in INTEGERS:
        bounds = (0, 2) if kind == "i1" else (np.iinfo(TYPES[kind]).min, np.iinfo(TYPES[kind]).max)
        return generator.integers(*bounds, SHAPE).astype(TYPES[kind])
    found = generator.standard_normal(SHAPE) * generator.choice([0.01, 1.0, 30.0], SHAPE)
    found[0, :12] = 0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan
    found[1] = generator.permutation(found[0])
    return (np.abs(found) if positive else found).astype(TYPES[kind])


def agree(found, expected, relative):
    """Every element is near, and what is not finite is the same."""
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(
        found[~finite & ~np.isnan(expected)], expected[~finite & ~np.isnan(expected)]
    )
    np.testing.assert_allclose(found[finite], expected[finite], rtol=relative, atol=1e-30)


def away(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


UNARY = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "round": away,
    "roundeven": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "absf": np.abs,
}
RELATIVE = {"f16": 2e-3, "f32": 4e-6, "f64": 1e-13}


@needs_triton
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_functions(interpreter, name, kind):
    x = numbers(kind, 1)
    text = module(f"%r = math.{name} %a0 : {kind}", [kind], kind)
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        expected = UNARY[name](wide).astype(TYPES[kind]).astype(np.float64)
    if name in ("tan", "sin", "cos"):
        far = np.abs(wide) > 20
        found, expected = np.where(far, 0, found), np.where(far, 0, expected)
    if kind == "f16":  # results that are no normal numbers
        small = np.abs(expected) < 1e-4
        found, expected = np.where(small, 0, found), np.where(small, 0, expected)
    agree(found, expected, RELATIVE[kind])


@needs_triton
@pytest.mark.parametrize(
    ("body", "kind", "form"),
    [
        ("%r = math.cos %a0 : f16", "f16", "library.half_cos("),
        ("%h = arith.mulf %a0, %a0 : f16\n    %r = math.sin %h : f16", "f16", "library.half_sin("),
        ("%r = math.cos %a0 : bf16", "bf16", "tl.cos("),
        ("%r = math.sin %a0 : f32", "f32", "tl.sin("),
    ],
)
def test_sines_of_f16_need_no_care_of_large_angles(body, kind, form):
    """One that was computed may be kept in f32, where a larger number stands for infinity."""
    with ir.Context():
        _, (plan,) = planned(module(body, [kind], kind), "elementwise")
    assert form in plan.program.source


BINARY = {
    "math.atan2": np.arctan2,
    "math.copysign": np.copysign,
    "math.powf": np.power,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.minnumf": np.fmin,
}


@needs_triton
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(interpreter, name, kind):
    x, y = numbers(kind, 1, positive=name == "math.powf"), numbers(kind, 2)
    y = y / 8 if name == "math.powf" else y
    text = module(f"%r = {name} %a0, %a1 : {kind}", [kind] * 2, kind)
    (found,) = run(interpreter, text, "elementwise", [x, y], [SHAPE])
    with np.errstate(all="ignore"):
        expected = BINARY[name](x.astype(np.float64), y.astype(np.float64))
        expected = expected.astype(TYPES[kind]).astype(np.float64)
    if kind == "f16":
        small = np.abs(expected) < 1e-4
        found, expected = np.where(small, 0, found), np.where(small, 0, expected)
    agree(found, expected, 8 * RELATIVE[kind] if name == "math.powf" else RELATIVE[kind])


@needs_triton
@pytest.mark.parametrize("exponent", [3, -2, 0, 11])
def test_whole_powers(interpreter, exponent):
    x = np.abs(numbers("f64", 1)) + 0.5
    text = module(
        "%r = math.fpowi %a0, %p : f64, i32",
        ["f64"],
        "f64",
        f"%p = arith.constant {exponent} : i32",
    )
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    with np.errstate(all="ignore"):
        agree(found, x**exponent, 1e-13)


def of_unsigned(function):
    def called(x, y):
        kind = x.dtype.str.replace("i", "u")
        return function(x.view(kind), y.view(kind)).view(x.dtype)

    return called


def truncated(x, y):
    return np.trunc(x.astype(object) / y.astype(object)).astype(x.dtype)


INTEGER = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": of_unsigned(np.maximum),
    "minui": of_unsigned(np.minimum),
    "divui": of_unsigned(np.floor_divide),
    "remui": of_unsigned(np.remainder),
    "divsi": lambda x, y: x // y + ((x % y != 0) & ((x < 0) != (y < 0))),
    "remsi": np.fmod,
    "floordivsi": np.floor_divide,
    "ceildivsi": lambda x, y: x // y + (x % y != 0),
    "ceildivui": of_unsigned(lambda x, y: x // y + (x % y != 0)),
}


@needs_triton
@pytest.mark.parametrize("kind", ["i8", "i64"])
@pytest.mark.parametrize("name", INTEGER)
def test_integers(interpreter, name, kind):
    x, y = numbers(kind, 1), numbers(kind, 2)
    y[y == 0] = 3
    y[y == -1] = 5
    text = module(f"%r = arith.{name} %a0, %a1 : {kind}", [kind] * 2, kind)
    found = run(interpreter, text, "elementwise", [x, y], [SHAPE])[0]
    with np.errstate(all="ignore"):
        expected = INTEGER[name](x, y)
    np.testing.assert_array_equal(found, expected.astype(np.float64))


SHIFTS = {"shli": np.left_shift, "shrsi": np.right_shift, "shrui": of_unsigned(np.right_shift)}


@needs_triton
@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts(interpreter, name, kind):
    x, y = numbers(kind, 1), (numbers(kind, 2) % 7).astype(TYPES[kind])
    text = module(f"%r = arith.{name} %a0, %a1 : {kind}", [kind] * 2, kind)
    (found,) = run(interpreter, text, "elementwise", [x, y], [SHAPE])
    np.testing.assert_array_equal(found, SHIFTS[name](x, y).astype(np.float64))


@needs_triton
@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("name", ["ctlz", "cttz", "ctpop", "absi"])
def test_bits(interpreter, name, kind):
    x = numbers(kind, 1)
    x[0, :3] = 0, 1, -1
    width = x.dtype.itemsize * 8
    text = module(f"%r = math.{name} %a0 : {kind}", [kind], kind)
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    words = [f"{int(n) % (1 << width):0{width}b}" for n in x.flat]
    expected = {
        "ctlz": [len(w) - len(w.lstrip("0")) for w in words],
        "cttz": [len(w) - len(w.rstrip("0")) for w in words],
        "ctpop": [w.count("1") for w in words],
        "absi": [float(np.abs(n)) for n in x.flat],
    }[name]
    np.testing.assert_array_equal(found.flatten(), np.array(expected, np.float64))


ORDER = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
ORDER |= {"eq": np.equal, "ne": np.not_equal}


@needs_triton
@pytest.mark.parametrize("kind", ["i1", "i8", "i64"])
@pytest.mark.parametrize("sign", ["s", "u"])
@pytest.mark.parametrize("name", ORDER)
def test_comparisons_of_integers(interpreter, name, sign, kind):
    x, y = numbers(kind, 1), numbers(kind, 2)
    y[0] = x[0]
    predicate = name if name in ("eq", "ne") else sign + name
    text = module(f"%r = arith.cmpi {predicate}, %a0, %a1 : {kind}", [kind] * 2, "i1")
    (found,) = run(interpreter, text, "elementwise", [x, y], [SHAPE])
    if kind == "i1":
        x, y = (-x, -y) if sign == "s" else (x, y)
    elif sign == "u":
        x, y = (v.view(v.dtype.str.replace("i", "u")) for v in (x, y))
    np.testing.assert_array_equal(found, ORDER[name](x, y))


@needs_triton
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("order", ["o", "u"])
@pytest.mark.parametrize("name", [*ORDER, "all"])
def test_comparisons_of_numbers(interpreter, name, order, kind):
    x, y = numbers(kind, 1), numbers(kind, 2)
    y[0] = x[0]
    predicate = {"o": "ord", "u": "uno"}[order] if name == "all" else order + name
    text = module(f"%r = arith.cmpf {predicate}, %a0, %a1 : {kind}", [kind] * 2, "i1")
    (found,) = run(interpreter, text, "elementwise", [x, y], [SHAPE])
    either = np.isnan(x) | np.isnan(y)
    if name == "all":
        expected = either if order == "u" else ~either
    else:
        expected = ORDER[name](x, y) & ~either | either & (order == "u")
    np.testing.assert_array_equal(found, expected)


@needs_triton
@pytest.mark.parametrize("predicate", ["true", "false"])
def test_comparisons_without_a_question(interpreter, predicate):
    x = numbers("f32", 1)
    text = module(f"%r = arith.cmpf {predicate}, %a0, %a0 : f32", ["f32"], "i1")
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    assert (found == (predicate == "true")).all()


@needs_triton
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_classes(interpreter, name):
    x = numbers("f32", 1)
    text = module(f"%r = math.{name} %a0 : f32", ["f32"], "i1")
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    np.testing.assert_array_equal(found, getattr(np, name)(x))


def wrapped(x, kind):
    """Integers modulo the width of a type; the lowest bit for a boolean."""
    return (x & 1 if kind == "i1" else x.astype(TYPES[kind])).astype(np.float64)


def without_sign(x, kind):
    return x if kind == "i1" else x.view(x.dtype.str.replace("i", "u"))


@needs_triton
@pytest.mark.parametrize("source", ["i1", "i8", "i32", "i64"])
@pytest.mark.parametrize("kind", ["i1", "i8", "i32", "i64", "f16", "f64"])
@pytest.mark.parametrize("sign", ["s", "u"])
def test_casts_of_integers(interpreter, source, kind, sign):
    bits = [int(k[1:]) for k in (source, kind)]
    if kind[0] == "f":
        op = f"arith.{'si' if sign == 's' else 'ui'}tofp"
    elif bits[0] == bits[1] or (bits[0] > bits[1] and sign == "u"):
        pytest.skip("no such cast")
    else:
        op = "arith.trunci" if bits[0] > bits[1] else f"arith.ext{sign}i"
    x = numbers(source, 1)
    text = module(f"%r = {op} %a0 : {source} to {kind}", [source], kind)
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    given = without_sign(x, source) if sign == "u" else -x if source == "i1" else x
    if kind[0] == "f":
        with np.errstate(over="ignore"):
            expected = given.astype(np.float64).astype(TYPES[kind]).astype(np.float64)
        assert np.allclose(found, expected, rtol=1e-3 if kind == "f16" else 1e-7)
    else:
        np.testing.assert_array_equal(found, wrapped(given, kind))


@needs_triton
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("kind", ["i1", "i8", "i32", "i64"])
@pytest.mark.parametrize("sign", ["s", "u"])
def test_casts_to_integers(interpreter, source, kind, sign):
    low, high = (-90, 90) if sign == "s" else (0, 200 if kind == "i8" else 250)
    if kind == "i1":
        low, high = 0, 1.9
    x = np.random.default_rng(1).uniform(low, high, SHAPE).astype(TYPES[source])
    text = module(f"%r = arith.fpto{sign}i %a0 : {source} to {kind}", [source], kind)
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    np.testing.assert_array_equal(found, wrapped(np.trunc(x.astype(np.float64)).astype(int), kind))


@needs_triton
@pytest.mark.parametrize(
    ("source", "kind"),
    [("f32", "i32"), ("i32", "f32"), ("f16", "i16"), ("i16", "f16"), ("f64", "i64")],
)
def test_bitcasts(interpreter, source, kind):
    x = np.random.default_rng(1).uniform(1, 9, SHAPE)
    x = x.astype(TYPES[source]) if source[0] == "f" else x.astype(TYPES[kind]).view(TYPES[source])
    text = module(f"%r = arith.bitcast %a0 : {source} to {kind}", [source], kind)
    (found,) = run(interpreter, text, "elementwise", [x], [SHAPE])
    np.testing.assert_array_equal(found, x.view(TYPES[kind]).astype(np.float64))


@needs_triton
@pytest.mark.parametrize(
    ("kind", "target"), [("f16", "sm_90"), ("f32", "sm_80"), ("f64", "sm_90"), ("f32", "gfx942")]
)
def test_object_code_of_all_functions(kind, target):
    lines = [f"%v0 = arith.addf %a0, %a1 : {kind}"]
    for name in (*(f"math.{n}" for n in UNARY), *BINARY):
        last = f"%v{len(lines) - 1}"
        operands = f"{last}, %a1" if name in BINARY else last
        lines.append(f"%v{len(lines)} = {name} {operands} : {kind}")
    lines.append(f"%r = arith.addf %v{len(lines) - 1}, %a0 : {kind}")
    with ir.Context():
        _, (plan,) = planned(module("\n".join(lines), [kind] * 2, kind), "elementwise")
        assert triton_compiler.build(plan.program, target).code


@needs_triton
@pytest.mark.parametrize("kind", ["i8", "i64"])
def test_object_code_of_integers(kind):
    lines = [f"%v0 = arith.addi %a0, %a1 : {kind}"]
    for name in (
        *(f"arith.{n}" for n in (*INTEGER, *SHIFTS)),
        "math.ctlz",
        "math.cttz",
        "math.ctpop",
    ):
        last = f"%v{len(lines) - 1}"
        operands = last if name.startswith("math") else f"{last}, %a1"
        lines.append(f"%v{len(lines)} = {name} {operands} : {kind}")
    lines.append(f"%r = arith.addi %v{len(lines) - 1}, %a0 : {kind}")
    with ir.Context():
        _, (plan,) = planned(module("\n".join(lines), [kind] * 2, kind), "elementwise")
        assert triton_compiler.build(plan.program, TARGET.arch).code
