"""Contractions of narrow integers compute what the unfused program computes."""

import numpy as np
import pytest
from harness import FLOATS, Batch, Case

M, N, K = 24, 48, 32
PASSES = "inference_qbmm_add_fusion"


Operand = tuple[str, str, str]


def generic(out: str, inputs: list[Operand], result: str, dtype: str, body: str) -> str:
    """One elementwise op over (m, n); `inputs` are names, types and what indexes them."""
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
    """A product of i8, a scale for each channel, and a bias in i32, in float or none."""
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


CASES = {
    case.name: case
    for case in [
        qbmm("qbmm_f32", "f32", False, "float"),
        qbmm("qbmm_f32_dynamic", "f32", True, "i32"),
        qbmm("qbmm_f16", "f16", False, "none"),
        qbmm("qbmm_bf16", "bf16", False, "float"),
    ]
}


@pytest.fixture(scope="module")
def outcomes():
    return Batch(cases=list(CASES.values()), pipeline=PASSES).run()


@pytest.mark.parametrize("name", CASES)
def test_quantized(name, outcomes):
    outcomes[name].check()


def test_vulkan(vulkan):
    cases = [qbmm("vulkan_qbmm", "f32", False, "float")]
    for outcome in Batch(cases=cases, pipeline=PASSES, target=vulkan).run().values():
        outcome.check()
