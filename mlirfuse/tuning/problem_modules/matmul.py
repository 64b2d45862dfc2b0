"""Regions of matmuls: plain, of i8, with quantized weights, gated, or of results that share A."""

from __future__ import annotations

import math

from mlirfuse.kernels.matmul.problem import MatmulProblem
from mlirfuse.tuning.problem_modules.region_text import RegionText, Tensor

GROUP_SIZE = 128
"""Elements of K that share a scale, as most quantized models have them."""

MAX_SHARED_A = 4
"""The batch up to which it counts results that share A: gate and up, keys and values, QKV."""

_WEIGHTS = {4: "i4", 8: "i8"}

_TYPES = {8: ("i8", "i32"), 16: ("f16", "f32"), 32: ("f32", "f32")}
"""Width of the operands -> element types of the operands and of the accumulators."""


def module_text(problem: MatmulProblem) -> str:
    """A module whose region has the problem, of f16, f32 or i8.

    Up to `MAX_SHARED_A` matmuls share A; more are a batch.

    Raises:
      ValueError: no region is known for the problem.
    """
    region = RegionText()
    if problem.operand_bits not in _TYPES or (problem.prologue and problem.operand_bits == 32):
        raise ValueError(f"a matmul of {problem.operand_bits} bits")
    narrow, wide = _TYPES[problem.operand_bits]
    shares = problem.batch if 1 < problem.batch <= MAX_SHARED_A else 1
    count = shares * problem.accumulators
    batched = problem.batch > MAX_SHARED_A
    if count > 1 and (batched or problem.prologue):
        raise ValueError("several results with a batch or a prologue")
    outer, batch = ("b", (problem.batch,)) if batched else ("", ())
    inner_k = "gs" if problem.grouped else "k"
    sizes = {"b": batch[0] if batch else 1, "m": problem.m, "n": problem.n, "k": problem.k}
    if problem.grouped:
        sizes["s"] = math.gcd(problem.k, GROUP_SIZE)
        sizes["g"] = problem.k // sizes["s"]
    a_map = outer + (f"m{inner_k}" if problem.a_k_contiguous else f"{inner_k}m")
    b_map = outer + (f"n{inner_k}" if problem.b_k_contiguous else f"{inner_k}n")

    def argument(axes: str, element: str) -> Tensor:
        return region.argument([sizes[axis] for axis in axes], element)

    a = argument(a_map, narrow)
    if not problem.prologue:
        operands = [argument(b_map, narrow) for _ in range(count)]
    elif problem.weight_bits:
        weights = argument(b_map, _WEIGHTS[problem.weight_bits])
        scales = argument("".join(axis for axis in b_map if axis not in "ks"), narrow)
        operands = [_dequantized(region, weights, scales, b_map)]
    else:
        scale = argument(inner_k, narrow)
        scaled = ["%z = arith.mulf %a0, %a1 : f16"]
        result = (a.shape, narrow, a_map)
        (a,) = region.generic(a_map, [(a, a_map), (scale, inner_k)], [result], scaled)
        operands = [argument(b_map, narrow)]
    out_map = f"{outer}mn"
    shape = tuple(sizes[axis] for axis in out_map)
    sums = _contraction(region, a, a_map, operands, b_map, out_map, inner_k, shape, wide)
    groups = [sums] if problem.accumulators > 1 else [[each] for each in sums]
    return region.module(*(_epilogue(region, group, out_map, wide) for group in groups))


def _dequantized(region: RegionText, weights: Tensor, scales: Tensor, axes: str) -> Tensor:
    """Weights of f16: integers times their scales."""
    body = [
        f"%w = arith.sitofp %a0 : {weights.element} to f16",
        "%z = arith.mulf %w, %a1 : f16",
    ]
    scale_axes = "".join(axis for axis in axes if axis not in "ks")
    inputs = [(weights, axes), (scales, scale_axes)]
    return region.generic(axes, inputs, [(weights.shape, "f16", axes)], body)[0]


def _contraction(
    region: RegionText,
    a: Tensor,
    a_map: str,
    operands: list[Tensor],
    b_map: str,
    out_map: str,
    inner_k: str,
    shape: tuple[int, ...],
    wide: str,
) -> list[Tensor]:
    """The accumulators of A times each operand."""
    add, multiply, extend = ("addi", "muli", "extsi") if wide == "i32" else ("addf", "mulf", "extf")
    factors, body = [f"%a{n}" for n in range(len(operands) + 1)], []
    if a.element != wide:
        body = [f"%w{f[1:]} = arith.{extend} {f} : {a.element} to {wide}" for f in factors]
        factors = [f"%w{f[1:]}" for f in factors]
    for n in range(len(operands)):
        body += [
            f"%p{n} = arith.{multiply} {factors[0]}, {factors[n + 1]} : {wide}",
            f"%z{n} = arith.{add} %o{n}, %p{n} : {wide}",
        ]
    init = region.filled(shape, wide, "0" if wide == "i32" else "0.0")
    return region.generic(
        out_map + inner_k,
        [(a, a_map), *((b, b_map) for b in operands)],
        [(init, out_map) for _ in operands],
        body,
        [f"%z{n}" for n in range(len(operands))],
        reduced=inner_k,
    )


def _epilogue(region: RegionText, sums: list[Tensor], axes: str, wide: str) -> Tensor:
    """A bias, or the product of a gate's SiLU and the other accumulators; rounded to f16."""
    shape = sums[0].shape
    inputs = [(each, axes) for each in sums]
    body = ["%s0 = arith.sitofp %a0 : i32 to f32"] if wide == "i32" else []
    value = "%s0" if wide == "i32" else "%a0"
    if len(sums) == 1:
        bias = region.argument(shape[-1:], "f16")
        inputs.append((bias, "n"))
        body += ["%b = arith.extf %a1 : f16 to f32", f"%y = arith.addf {value}, %b : f32"]
    else:
        one = region.constant("1.0", "f32")
        body += [
            "%e = arith.negf %a0 : f32",
            "%f = math.exp %e : f32",
            f"%g = arith.addf %f, {one} : f32",
            "%h0 = arith.divf %a0, %g : f32",
        ]
        body += [f"%h{n} = arith.mulf %h{n - 1}, %a{n} : f32" for n in range(1, len(sums))]
        body.append(f"%y = arith.mulf %h{len(sums) - 1}, {one} : f32")
    body.append("%z = arith.truncf %y : f32 to f16")
    return region.generic(axes, inputs, [(shape, "f16", axes)], body)[0]
