"""A model of equal stages, and passes with a planted mistake that shows in one stage only.

Stage i computes `select(mask, x * sum(x * x), 0)` over the rows of `8 x (16 + i)`, which
`reduction_fusion` takes into one group. Each stage has arguments and a result of its own.
"""

import dataclasses

from iree.compiler import ir

from mlirfuse.core import FusionPass, Kind, Match
from mlirfuse.patterns import PASSES
from mlirfuse.structured.ir import ops

ROWS = 8

GROUPS = "reduction_fusion"
"""The pass that takes the stages, and in which most mistakes are planted."""

STAGE = """
  %e{i} = tensor.empty() : tensor<8x{n}xf32>
  %t{i} = tensor.empty() : tensor<8xf32>
  %f{i} = linalg.fill ins(%zero : f32) outs(%t{i} : tensor<8xf32>) -> tensor<8xf32>
  %s{i} = linalg.generic {{indexing_maps = [#all, #row],
                           iterator_types = ["parallel", "reduction"]}}
      ins({x} : tensor<8x{n}xf32>) outs(%f{i} : tensor<8xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %a : f32
    %q = arith.addf %p, %b : f32
    linalg.yield %q : f32
  }} -> tensor<8xf32>
  %y{i} = linalg.generic {{indexing_maps = [#all, #row, #all, #all],
                           iterator_types = ["parallel", "parallel"]}}
      ins({x}, %s{i}, %m{i} : tensor<8x{n}xf32>, tensor<8xf32>, tensor<8x{n}xi1>)
      outs(%e{i} : tensor<8x{n}xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: i1, %unused: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.select %c, %p, %zero : f32
    linalg.yield %q : f32
  }} -> tensor<8x{n}xf32>
"""

SLICE = "  %x{i} = tensor.extract_slice %w{i}[1, 0] [8, {n}] [1, 1]" + (
    " : tensor<10x{n}xf32> to tensor<8x{n}xf32>\n"
)


def width(stage):
    """Columns of a stage."""
    return 16 + stage


def model(stages, *, sliced=False, first=0, name="main"):
    """The text; with `sliced` every stage reads eight rows out of ten.

    Args:
      stages: index of the last stage plus one.
      sliced: whether each stage slices its argument.
      first: index of the first stage.
      name: of the function.
    """
    arguments, body, results = [], "", []
    for i in range(first, stages):
        given, rows = (f"%w{i}", 10) if sliced else (f"%x{i}", 8)
        arguments.append(f"{given}: tensor<{rows}x{width(i)}xf32>, %m{i}: tensor<8x{width(i)}xi1>")
        if sliced:
            body += SLICE.format(i=i, n=width(i))
        body += STAGE.format(i=i, n=width(i), x=f"%x{i}")
        results.append((f"%y{i}", f"tensor<8x{width(i)}xf32>"))
    types = ", ".join(t for _, t in results)
    return (
        "#row = affine_map<(i, j) -> (i)>\n#all = affine_map<(i, j) -> (i, j)>\n"
        f"func.func @{name}({', '.join(arguments)}) -> ({types}) {{\n"
        f"  %zero = arith.constant 0.0 : f32\n{body}"
        f"  return {', '.join(n for n, _ in results)} : {types}\n}}\n"
    )


ADD_RMS_NORM = """
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<8x64xf32>, %r: tensor<8x64xf32>, %g: tensor<64xf32>)
    -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 64.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<8x64xf32>
  %h = linalg.generic {indexing_maps = [#all, #all, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %r : tensor<8x64xf32>, tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x64xf32>
  %t = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%t : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%h : tensor<8x64xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.mulf %a, %a : f32
    %1 = arith.addf %0, %o : f32
    linalg.yield %1 : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#all, #row, #column, #all],
                       iterator_types = ["parallel", "parallel"]}
      ins(%h, %s, %g : tensor<8x64xf32>, tensor<8xf32>, tensor<64xf32>)
      outs(%e : tensor<8x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %0 = arith.divf %b, %n : f32
    %1 = arith.addf %0, %eps : f32
    %2 = math.rsqrt %1 : f32
    %3 = arith.mulf %a, %2 : f32
    %4 = arith.mulf %3, %c : f32
    linalg.yield %4 : f32
  } -> tensor<8x64xf32>
  return %h, %y : tensor<8x64xf32>, tensor<8x64xf32>
}
"""


# --- mistakes ------------------------------------------------------------------------------------


def wrong_constant(region):
    """Multiplies by 1.25 where the factor has to be 1."""
    _scalar(region, lambda v: _binary("arith.mulf", v, _constant(1.25)))


def uncompilable(region):
    """An op that IREE's code generation has no lowering for, on any target."""

    def make(value):
        wide = _unary("arith.extf", value, ir.Type.parse("f128"))
        return _unary("arith.truncf", _unary("math.erf", wide), ir.F32Type.get())

    _scalar(region, make)


def slow(region):
    """The same value, by way of some thousand tanhs for each element."""

    def make(value):
        kind = ir.IndexType.get()
        start, end, step = (_constant(n, kind) for n in (0, 2000, 1))
        zero = _constant(0.0)
        loop = ir.Operation.create(
            "scf.for", results=[zero.type], operands=[start, end, step, zero], regions=1
        )
        block = loop.regions[0].blocks.append(kind, zero.type, arg_locs=[loop.location] * 2)
        with ir.InsertionPoint(block):
            small = _unary("math.tanh", _binary("arith.addf", value, block.arguments[1]))
            kept = _binary("arith.mulf", small, _constant(1e-30))
            ir.Operation.create("scf.yield", operands=[kept])
        return _binary("arith.addf", value, loop.results[0])

    _scalar(region, make)


def dropped_mask(region):
    """The value without its mask."""
    for op in ops.nested_ops(region):
        if op.name == "arith.select":
            op.results[0].replace_all_uses_with(op.operands[1])
            op.erase()
            return


def _scalar(region, change):
    """Changes the scalar that the last op of the region yields."""
    last = [o for o in ops.nested_ops(region) if o.name == "linalg.generic"][-1]
    end = list(ops.body(last).operations)[-1].operation
    with ir.InsertionPoint(end), end.location:
        end.operands[0] = change(end.operands[0])


def _constant(number, kind=None):
    kind = kind or ir.F32Type.get()
    attribute = ir.IntegerAttr if isinstance(number, int) else ir.FloatAttr
    return ir.Operation.create(
        "arith.constant", results=[kind], attributes={"value": attribute.get(kind, number)}
    ).results[0]


def _unary(name, value, kind=None):
    return ir.Operation.create(name, results=[kind or value.type], operands=[value]).results[0]


def _binary(name, left, right):
    return ir.Operation.create(name, results=[left.type], operands=[left, right]).results[0]


def mistaken(mistake, *stages, **fields):
    """The pass `reduction_fusion` with a mistake in these stages, and with other fields."""
    sound = PASSES[GROUPS]

    def rewrite(match, ctx):
        region = sound.rewrite(match, ctx)
        if ops.shape(region.results[0])[-1] in [width(s) for s in stages]:
            with region.context:
                mistake(region)
        return region

    return dataclasses.replace(sound, rewrite=rewrite, **fields)


def plant(monkeypatch, mistake, *stages):
    """Makes `reduction_fusion` do the mistake in these stages."""
    monkeypatch.setitem(PASSES, GROUPS, mistaken(mistake, *stages))


WRONG_CONSTANT = mistaken(wrong_constant, 1, name="planted_constant_fusion", aliases=())
UNCOMPILABLE = mistaken(uncompilable, 1, name="planted_uncompilable_fusion", aliases=())
SLOW = mistaken(slow, 1, name="planted_slow_fusion", aliases=())
"""Passes for `--load-pass`."""


def plant_slices(monkeypatch, *stages):
    """A pass `slice_rewrite` that writes slices anew, those of some stages one row too far."""

    def match(root, ctx):
        return Match(root, (root,)) if ops.in_region(root) is False else None

    def rewrite(match, ctx):
        wrong = ops.shape(match.root.results[0])[-1] in [width(s) for s in stages]
        new = match.root.clone(ir.InsertionPoint(match.root)).operation
        if wrong:
            with new.context:
                offsets = list(new.attributes["static_offsets"])
                new.attributes["static_offsets"] = ir.DenseI64ArrayAttr.get(
                    [offsets[0] + 1, *offsets[1:]]
                )
        match.root.results[0].replace_all_uses_with(new.results[0])
        match.root.erase()
        return new

    entry = FusionPass(
        name="slice_rewrite",
        summary="planted",
        roots=("tensor.extract_slice",),
        match=match,
        rewrite=rewrite,
        kind=Kind.REWRITE,
    )
    monkeypatch.setitem(PASSES, entry.name, entry)
