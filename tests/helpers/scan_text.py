"""Scans with casts and flips around them, as text, and their results in numpy."""

import numpy as np

from mlirfuse.frontends import torch_scans

BODIES = {
    "add": "%r = arith.addf %a, %b : T",
    "mul": "%r = arith.mulf %a, %b : T",
    **{
        name: torch_scans.COMBINERS[word]
        .floating.replace("%combined", "%r")
        .replace("INFINITY", "0x7F800000")
        for name, word in (("max", "maximum"), ("min", "minimum"), ("logaddexp", "logaddexp"))
    },
    "maxnum": "%r = arith.maxnumf %a, %b : T",
    "addi": "%r = arith.addi %a, %b : T",
    "muli": "%r = arith.muli %a, %b : T",
    "maxi": "%r = arith.maxsi %a, %b : T",
}
EXACT = {
    "add": np.cumsum,
    "mul": np.cumprod,
    "max": np.maximum.accumulate,
    "maxnum": np.fmax.accumulate,
    "min": np.minimum.accumulate,
    "addi": np.cumsum,
    "muli": np.cumprod,
    "maxi": np.maximum.accumulate,
    "logaddexp": np.logaddexp.accumulate,
}


def flip(name, source, kind, element, shape, axis):
    """A copy of a tensor that is reversed along an axis."""
    rank = len(shape)
    maps = ", ".join(f"d{n}" for n in range(rank))
    indices = [f"%i{n}" for n in range(rank)]
    lines = [f"    %i{n} = linalg.index {n} : index" for n in range(rank)]
    lines += [f"    %l = arith.constant {shape[axis] - 1} : index"]
    lines += [f"    %k = arith.subi %l, %i{axis} : index"]
    indices[axis] = "%k"
    iterators = ", ".join(['"parallel"'] * rank)
    body = "\n".join(lines)
    return f"""
  {name}e = tensor.empty() : {kind}
  {name} = linalg.generic {{indexing_maps = [affine_map<({maps}) -> ({maps})>],
      iterator_types = [{iterators}]}} outs({name}e : {kind}) {{
  ^bb0(%o: {element}):
{body}
    %v = tensor.extract {source}[{", ".join(indices)}] : {kind}
    linalg.yield %v : {element}
  }} -> {kind}"""


def cast(name, source, given, wanted, rank, op):
    maps = ", ".join(f"d{n}" for n in range(rank))
    (first, second) = (kind[kind.rindex("x") + 1 : -1] for kind in (given, wanted))
    iterators = ", ".join(['"parallel"'] * rank)
    same = f"affine_map<({maps}) -> ({maps})>"
    return f"""
  {name}e = tensor.empty() : {wanted}
  {name} = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{iterators}]}}
      ins({source} : {given}) outs({name}e : {wanted}) {{
  ^bb0(%i: {first}, %o: {second}):
    %v = {op} %i : {first} to {second}
    linalg.yield %v : {second}
  }} -> {wanted}"""


def scan_text(
    shape,
    axis,
    combine="add",
    dtype="f16",
    before=False,
    after=False,
    exclusive=False,
    element="f32",
    init=0,
):
    """A scan of `element` between casts from and to `dtype`, with flips around it."""
    sizes = "x".join(map(str, shape))
    rest = "x".join(str(n) for d, n in enumerate(shape) if d != axis)
    narrow, wide = f"tensor<{sizes}x{dtype}>", f"tensor<{sizes}x{element}>"
    total = f"tensor<{rest}{'x' if rest else ''}{element}>"
    lines, value = "", "%x"
    if before:
        lines += flip("%f", value, narrow, dtype, shape, axis)
        value = "%f"
    if dtype != element:
        lines += cast("%c", value, narrow, wide, len(shape), "arith.extf")
        value = "%c"
    lines += f"""
  %se = tensor.empty() : {wide}
  %te = tensor.empty() : {total}
  %zero = arith.constant {f"{init:.1f}" if "f" in element else init} : {element}
  %init = linalg.fill ins(%zero : {element}) outs(%te : {total}) -> {total}
  %s:2 = iree_linalg_ext.scan {{operandSegmentSizes = array<i32: 1, 2>}}
      dimension({axis}) inclusive({"false" if exclusive else "true"})
      ins({value} : {wide}) outs(%se, %init : {wide}, {total}) {{
  ^bb0(%a: {element}, %b: {element}):
    {BODIES[combine].replace(": T", f": {element}")}
    iree_linalg_ext.yield %r : {element}
  }} -> {wide}, {total}"""
    value = "%s#0"
    if dtype != element:
        lines += cast("%d", value, wide, narrow, len(shape), "arith.truncf")
        value = "%d"
    if after:
        lines += flip("%g", value, narrow, dtype, shape, axis)
        value = "%g"
    head = f"func.func @main(%x: {narrow}) -> {narrow} {{"
    return f"{head}\n{lines}\n  return {value} : {narrow}\n}}\n"


def expected(x, axis, combine="add", before=False, after=False, exclusive=False, init=0):
    wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
    wide = np.flip(wide, axis) if before else wide
    found = EXACT[combine](wide, axis=axis)
    if exclusive:
        found = np.roll(found, 1, axis)
        found[(slice(None),) * axis + (0,)] = 0
        found = found + init
    return np.flip(found, axis) if after else found
