"""Contractions of narrow integers and quantized norms agree with the unfused program."""

import numpy as np
import pytest

from helpers.harness import FLOATS, Batch, Case
from helpers.linalg_text import Function
from helpers.norm_text import quantized

M, N, K = 24, 48, 32
PASSES = "add_rms_norm_quant_fusion,rms_norm_quant_fusion,inference_qbmm_add_fusion"


Operand = tuple[str, str, str]


def generic(out: str, inputs: list[Operand], result: str, dtype: str, body: str) -> str:
    """One elementwise op over (m, n); `inputs` are names, types and loops."""
    maps = "".join(f"affine_map<(m, n) -> ({axes})>, " for _, _, axes in inputs)
    names = ", ".join(name for name, _, _ in inputs)
    types = ", ".join(kind for _, kind, _ in inputs)
    elements = [kind.rpartition("x")[2].rstrip(">") for _, kind, _ in inputs]
    scalars = "".join(f"%i{i}: {element}, " for i, element in enumerate(elements))
    return (
        f"  {out}e = tensor.empty(ROWS) : {result}\n"
        f"  {out} = linalg.generic {{indexing_maps = [{maps}affine_map<(m, n) -> (m, n)>],"
        f' iterator_types = ["parallel", "parallel"]}} ins({names} : {types})'
        f" outs({out}e : {result}) {{\n  ^bb0({scalars}%o: {dtype}):\n    {body}\n"
        f"    linalg.yield %r : {dtype}\n  }} -> {result}\n"
    )


def function(name: str, arguments: str, body: str, result: str, dynamic: bool) -> str:
    head = ""
    if dynamic:
        arguments, body, result = (
            text.replace(f"tensor<{M}x", "tensor<?x") for text in (arguments, body, result)
        )
        head = "  %axis = arith.constant 0 : index\n  %rows = tensor.dim %x, %axis : "
        head += f"{arguments.split(',')[0].partition(': ')[2]}\n"
    body = body.replace("ROWS", "%rows" if dynamic else "")
    return (
        f"func.func @{name}({arguments}) -> {result} {{\n{head}{body}  return %y : {result}\n}}\n"
    )


def qbmm(name: str, dtype: str, dynamic: bool, bias: str) -> Case:
    """A matmul of i8, a scale for each channel, and a bias in i32, in float or none."""
    rng = np.random.default_rng(5)
    kind = FLOATS[dtype]
    sums, wide = f"tensor<{M}x{N}xi32>", f"tensor<{M}x{N}x{dtype}>"
    body = (
        f"  %zero = arith.constant 0 : i32\n  %e = tensor.empty(ROWS) : {sums}\n"
        f"  %f = linalg.fill ins(%zero : i32) outs(%e : {sums}) -> {sums}\n"
        f"  %c = linalg.matmul ins(%x, %w : tensor<{M}x{K}xi8>, tensor<{K}x{N}xi8>)"
        f" outs(%f : {sums}) -> {sums}\n"
    )
    last = "%c"
    arguments = f"%x: tensor<{M}x{K}xi8>, %w: tensor<{K}x{N}xi8>, %s: tensor<{N}x{dtype}>"
    if bias == "i32":
        arguments += f", %b: tensor<{N}xi32>"
        body += generic(
            "%p",
            [(last, sums, "m, n"), ("%b", f"tensor<{N}xi32>", "n")],
            sums,
            "i32",
            "%r = arith.addi %i0, %i1 : i32",
        )
        last = "%p"
    body += generic(
        "%d" if bias == "float" else "%y",
        [(last, sums, "m, n"), ("%s", f"tensor<{N}x{dtype}>", "n")],
        wide,
        dtype,
        f"%q = arith.sitofp %i0 : i32 to {dtype}\n    %r = arith.mulf %q, %i1 : {dtype}",
    )
    if bias == "float":
        arguments += f", %b: tensor<{N}x{dtype}>"
        body += generic(
            "%y",
            [("%d", wide, "m, n"), ("%b", f"tensor<{N}x{dtype}>", "n")],
            wide,
            dtype,
            f"%r = arith.addf %i0, %i1 : {dtype}",
        )

    def draw(low: int, high: int, scale: float) -> tuple[np.ndarray, ...]:
        arrays = [
            rng.integers(low, high, (M, K)).astype(np.int8),
            rng.integers(low, high, (K, N)).astype(np.int8),
            (scale * rng.random(N)).astype(kind),
        ]
        if bias == "i32":
            arrays.append(rng.integers(-999, 999, N).astype(np.int32))
        elif bias == "float":
            arrays.append(rng.standard_normal(N).astype(kind))
        return tuple(arrays)

    def reference(x, w, s, b=0):
        c = x.astype(np.int64) @ w.astype(np.int64)
        return ((c + b) * s if bias == "i32" else c * s + b,)

    tiny = draw(-3, 4, 1.0)
    tiny[2][:] = 1e-38 if dtype != "f16" else 6e-8
    special = draw(-128, 128, 1.0)
    special[2][:3] = [np.inf, np.nan, 0.0]
    # Sums of 32 products do not fit in f16.
    wider = {"random", "lowest"} if dtype == "f16" else set()
    return Case(
        name=name,
        text=function(name, arguments, body, wide, dynamic),
        inputs={
            "random": draw(-128, 128, 0.01),
            "small": draw(-20, 21, 0.01),
            "lowest": (*draw(-128, -127, 0.0)[:2], *draw(0, 1, 0.001)[2:]),
            "zeros": draw(0, 1, 1.0),
            "tiny": tiny,
            "special": special,
        },
        reference=reference,
        fires={"inference_qbmm_add_fusion": 1},
        ulps=3,
        computed=dtype,
        hostile=frozenset({"special", "tiny", *wider}),
        exact=frozenset({"zeros"}),
        dispatches=1,
    )


def norm(
    name: str,
    dtype: str,
    *,
    rows: int | None = None,
    add: bool = False,
    keep: bool = False,
    signed: bool = True,
    offset: bool = True,
) -> Case:
    """An RMS norm in f32, scaled by channel, rounded half to even and clamped to 8 bits.

    With `keep` the unquantized norm, and the add where there is one, are results too. Without
    `offset` the scale is one number.
    """
    f = Function(name, (rows, N))
    x = f.argument((0, 1), dtype)
    r = f.argument((0, 1), dtype) if add else None
    gamma = f.argument((1,), dtype)
    scale = f.argument((1,) if offset else (), "f32")
    total = x if r is None else f.apply("arith.addf", x, r)
    wide = f.cast(total, "f32")
    square = f.reduce("arith.addf", f.apply("arith.mulf", wide, wide), (1,))
    rstd = f.apply("math.rsqrt", f.apply("arith.divf", square, float(N)))
    y = f.cast(
        f.apply("arith.mulf", f.apply("arith.mulf", wide, rstd), f.cast(gamma, "f32")), dtype
    )
    shift = f.argument((1,), "f32") if offset else None
    low, high = (-128.0, 127.0) if signed else (0.0, 255.0)
    q = quantized(f, y, scale, shift, signed=signed)
    kept = [y, *([total] if add else [])] if keep else []

    def reference(x, *rest):
        s, (gamma, scale, *shift) = (x + rest[0], rest[1:]) if add else (x, rest)
        normed = s / np.sqrt((s * s).mean(1, keepdims=True)) * gamma
        steps = np.clip(np.rint(normed * scale + (shift[0] if shift else 0.0)), low, high)
        # The runtime shows 8 bits as signed.
        q = np.where(steps > 127, steps - 256, steps)
        return (q, normed, s)[: 1 + len(kept)]

    kind = FLOATS[dtype]
    normal = np.random.default_rng(len(name)).standard_normal

    def arguments(data: np.ndarray, gamma: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        exact = gamma is not None
        data = np.resize(data, (rows or len(data), N))
        other = [np.zeros_like(data) if exact else normal(data.shape)] if add else []
        parts = [gamma if exact else normal(N)]
        factor = np.ones(N) if exact else 20.0 + 10.0 * normal(N)
        factors = [factor if offset else factor[0]]
        shifts = [np.zeros(N) if exact else 5.0 * normal(N)] if offset else []
        narrow = [np.asarray(a, kind) for a in (data, *other, *parts)]
        return (*narrow, *(np.asarray(a, np.float32) for a in (*factors, *shifts)))

    tiny = 1e-4 if dtype == "f16" else 1e-17
    lines = np.stack(
        [normal(N), 1e4 + normal(N), np.full(N, 3.14159), tiny * (1 + np.arange(N)), -normal(N)]
    )
    # Rows of plus and minus one have the mean square one: gamma itself is rounded.
    ones = np.where(normal((4, N)) > 0, 1.0, -1.0)
    huge = np.full((2, N), float(np.finfo(np.float32).max) if dtype != "f16" else 60000.0)
    return Case(
        name=name,
        text=f.finish(q, *kept),
        inputs={
            "normal": arguments(normal((rows or 7, N))),
            "extreme": arguments(lines),
            "ties": arguments(ones, np.arange(N) - 24 + 0.5),
            "beyond the range": arguments(ones, 16.0 * (np.arange(N) - 24)),
            "overflow": arguments(huge),
        },
        reference=reference,
        fires={"add_rms_norm_quant_fusion" if add else "rms_norm_quant_fusion": 1},
        ulps=9.0,
        computed=dtype,
        hostile=frozenset({"overflow"}),
        exact=frozenset({"ties", "beyond the range"}),
        dispatches=1,
    )


CASES = {
    case.name: case
    for case in [
        qbmm("qbmm_f32", "f32", False, "float"),
        qbmm("qbmm_f32_dynamic", "f32", True, "i32"),
        qbmm("qbmm_f16", "f16", False, "none"),
        qbmm("qbmm_bf16", "bf16", False, "float"),
        norm("norm_f32", "f32"),
        norm("norm_f16", "f16", keep=True),
        norm("norm_bf16_unsigned", "bf16", rows=6, signed=False, offset=False),
        norm("add_norm_f32", "f32", add=True, keep=True),
        norm("add_norm_f16", "f16", rows=8, add=True, offset=False),
        norm("add_norm_bf16", "bf16", add=True, signed=False),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES).run()


@pytest.mark.parametrize("name", CASES)
def test_quantized(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [
        qbmm("vulkan_qbmm", "f32", False, "float"),
        norm("vulkan_norm", "f32", rows=8),
        norm("vulkan_add_norm", "f32", rows=8, add=True),
    ]
    for outcome in Batch(cases=cases, pipeline=PASSES, target=vulkan).run().values():
        outcome.check()
