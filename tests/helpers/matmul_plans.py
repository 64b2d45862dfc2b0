"""Linear layers, matmuls that share A, and their plans with a configuration for Hopper."""

import numpy as np

from helpers.kernel_runner import close, draw, planned, run
from helpers.linalg_text import Function
from mlirfuse import targets
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.tuning import kernel_search

HOPPER = targets.parse("cuda:sm_90")
COOPERATIVE = MatmulConfig(128, 256, 64, 4, 4, consumer_warpgroups=2)


def biased(sizes, left, right, dtype):
    """A matmul and a bias of f32; loops are batch, m, n, k."""
    f = Function("main", sizes)
    a, b = f.argument(left, dtype), f.argument(right, dtype)
    bias = f.argument((2,), "f32")
    out = (0, 1, 2) if 0 in left else (1, 2)
    return f.finish(f.apply("arith.addf", f.contract(a, b, out, "f32"), bias))


def check_biased(interpreter, sizes, left, right, dtype):
    """Compares the kernel of a `biased` matmul with float64."""
    shapes = [[sizes[loop] for loop in loops] for loops in (left, right, (2,))]
    kinds = (dtype, dtype, "f32")
    arrays = [draw(s, kind, seed) for seed, (s, kind) in enumerate(zip(shapes, kinds, strict=True))]
    batched = 0 in left
    out = [sizes[loop] for loop in ((0, 1, 2) if batched else (1, 2))]
    (found,) = run(interpreter, biased(sizes, left, right, dtype), "matmul", arrays, [out])
    a, b, bias = (array.astype(np.float64) for array in arrays)
    names = ["".join("bmnk"[loop] for loop in loops) for loops in (left, right)]
    expected = np.einsum(f"{names[0]},{names[1]}->{'bmn' if batched else 'mn'}", a, b) + bias
    close(found, expected, "f32")


def linear(sizes, left=(0, 2), right=(1, 2), dtype="f16", function="math.erf"):
    """A matmul with a bias, a function and a residual; loops are m, n, k, batch."""
    f = Function("main", sizes)
    a, b = f.argument(left, dtype), f.argument(right, dtype)
    out = tuple(n for n in (3, 0, 1) if n in (*left, *right))
    bias, r = f.argument((1,), dtype), f.argument(out, dtype)
    total = f.contract(a, b, out, "f32")
    active = f.apply(function, f.apply("arith.addf", total, f.cast(bias, "f32")))
    return f.finish(f.apply("arith.addf", f.cast(active, dtype), r))


def several(rows, columns, depth, parts, joint, dtype="f16", computed=False):
    """Matmuls of one A with slices of one weight: gated, or each with its own epilogue."""
    wide, part = f"tensor<{columns * parts}x{depth}x{dtype}>", f"tensor<{columns}x{depth}x{dtype}>"
    sums, out = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}x{columns}x{dtype}>"
    left, count = f"tensor<{rows}x{depth}x{dtype}>", range(parts)
    ends = range(1 if joint else parts)
    maps = ", ".join(["#a", *["#b"] * parts, *["#c"] * parts])
    lines = [
        "#a = affine_map<(m, n, k) -> (m, k)>",
        "#b = affine_map<(m, n, k) -> (n, k)>",
        "#c = affine_map<(m, n, k) -> (m, n)>",
        "#id = affine_map<(m, n) -> (m, n)>",
        f"func.func @main(%x: {left}, %w: {wide}) -> ({', '.join([out for _ in ends])}) {{",
        "%zero = arith.constant 0.0 : f32",
        f"%r:{len(ends)} = flow.dispatch.region -> ({', '.join([out for _ in ends])}) {{",
        f"%e = tensor.empty() : {sums}",
        f"%h = tensor.empty() : {out}",
        f"%f = linalg.fill ins(%zero : f32) outs(%e : {sums}) -> {sums}",
    ]
    used = "%x"
    if computed:
        used = "%z"
        lines += [
            f"%v = tensor.empty() : {left}",
            "%z = linalg.generic {indexing_maps = [#id, #id], iterator_types ="
            f' ["parallel", "parallel"]}} ins(%x : {left}) outs(%v : {left}) {{',
            f"^bb0(%g: {dtype}, %o: {dtype}):",
            f"%q = math.exp %g : {dtype}",
            f"linalg.yield %q : {dtype}",
            f"}} -> {left}",
        ]
    for n in count:
        place = f"[{n * columns}, 0] [{columns}, {depth}] [1, 1]"
        lines.append(f"%w{n} = tensor.extract_slice %w{place} : {wide} to {part}")
    lines += [
        f"%s:{parts} = linalg.generic {{indexing_maps = [{maps}], iterator_types ="
        ' ["parallel", "parallel", "reduction"]}'
        f" ins({used}, {', '.join(f'%w{n}' for n in count)} : {left}, {', '.join([part] * parts)})"
        f" outs({', '.join(['%f'] * parts)} : {', '.join([sums] * parts)}) {{",
        f"^bb0(%l: {dtype}, {', '.join(f'%b{n}: {dtype}' for n in count)},"
        f" {', '.join(f'%o{n}: f32' for n in count)}):",
        f"%m = arith.extf %l : {dtype} to f32",
    ]
    for n in count:
        lines += [
            f"%c{n} = arith.extf %b{n} : {dtype} to f32",
            f"%p{n} = arith.mulf %m, %c{n} : f32",
            f"%t{n} = arith.addf %o{n}, %p{n} : f32",
        ]
    lines += [
        f"linalg.yield {', '.join(f'%t{n}' for n in count)} : {', '.join(['f32'] * parts)}",
        f"}} -> ({', '.join([sums] * parts)})",
    ]
    for n in ends:
        other = 1 if joint else n
        lines += [
            f"%y{n} = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types ="
            f' ["parallel", "parallel"]}} ins(%s#{n}, %s#{other} : {sums}, {sums})'
            f" outs(%h : {out}) {{",
            f"^bb0(%g: f32, %u: f32, %o: {dtype}):",
            "%q = math.tanh %g : f32",
            "%j = arith.mulf %q, %u : f32",
            f"%k = arith.truncf %j : f32 to {dtype}",
            f"linalg.yield %k : {dtype}",
            f"}} -> {out}",
        ]
    names = ", ".join(f"%y{n}" for n in ends)
    lines.append(f"flow.return {names} : {', '.join([out for _ in ends])}")
    lines.append("}")
    names = ", ".join(f"%r#{n}" for n in ends)
    lines.append(f"return {names} : {', '.join([out for _ in ends])}")
    return "\n".join([*lines, "}"])


def plan(text, config=COOPERATIVE, target=HOPPER):
    """The plan of the one matmul with a configuration."""
    module, _ = planned(text, "matmul")
    (found,) = [
        found
        for region in kernel_search.regions(module)
        if (found := MATMUL.plan(region, target, config)) is not None
    ]
    return found
