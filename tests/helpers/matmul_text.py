"""Matmuls with prologues and epilogues, one by one and several at once, as text."""

import numpy as np

from helpers.kernel_runner import close, draw, run
from helpers.linalg_text import Function


def matmul_text(sizes, left, right, out, dtype, residual):
    """A matmul with a bias, tanh, a cast and a residual; loops are batch, m, n, k."""
    f = Function("main", sizes)
    a, b = f.argument(left, dtype), f.argument(right, dtype)
    bias, r = f.argument((2,), "f32"), f.argument(residual, dtype)
    total = f.contract(a, b, out, "f32")
    active = f.apply("math.tanh", f.apply("arith.addf", total, bias))
    return f.finish(f.apply("arith.addf", f.cast(active, dtype), r))


def several_matmuls_text(rows, columns, depth, parts, joint):
    """Matmuls of one A with slices of one weight: gated, or each with its own bias."""
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


def check_several_matmuls(interpreter, rows, columns, depth, joint):
    """A gated unit in one CTA, and a split into three with a bias each."""
    parts = 2 if joint else 3
    text = several_matmuls_text(rows, columns, depth, parts, joint)
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


INT8_MATMUL = """
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
