"""Products of bytes that the importer widened: contractions of i8 with accumulators of i32.

  %a = extui %x : i8 to i32, less extui %zero          tensor<MxKxi32>, `MatMulInteger` of ONNX
  %b = extsi %w : i8 to i32                            tensor<KxNxi32>
  %c = linalg.matmul ins(%a, %b)                       tensor<MxNxi64>
  %y = trunci %c                                       tensor<MxNxi32>
becomes
  %u = linalg.generic {xori -128} ins(%x)                tensor<MxKxi8>, signed: %x less 128
  %p = linalg.matmul ins(%u, %w)                         tensor<MxNxi32>
  %s = linalg.generic {extsi, addi} ins(%w)              tensor<Nxi32>, sums of columns
  %y = linalg.generic {%p - %s * (%zero - 128)}          tensor<MxNxi32>

Exact: addition in i32 and i64 agrees modulo 2^32, and a result that stays i64 is rewritten only
where it fits i32. Each operand may be unsigned and may have a zero point. Sums of constant weights
are computed when the program is compiled; those of the other operand, where the weights have a zero
point or are unsigned, in each call.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlirfuse import builders
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir

_WIDE = ("i32", "i64")
"""Element types of accumulators that are rewritten."""

_MAX_PRODUCT = 255 * 255
"""Largest magnitude of a product of two bytes, each less a zero point."""

_SHIFT = 128
"""Difference between a byte as unsigned and the same with its highest bit flipped as signed."""

_MATMUL = ((0, 2), (2, 1), (0, 1))
"""Loops that the operands of a `linalg.matmul` are indexed by."""

_EXTENSIONS = ("arith.extsi", "arith.extui")

_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")


@dataclasses.dataclass(frozen=True, slots=True)
class _Factor:
    """An operand of a contraction, before it is widened.

    Attributes:
      value: the tensor of i8.
      loops: dimension of the tensor -> loop of the contraction.
      extension: the op that widens its elements.
      zero: the zero point, a tensor of rank 0; None for 0.
      zero_extension: the op that widens the zero point.
    """

    value: ir.Value
    loops: tuple[int, ...]
    extension: str
    zero: ir.Value | None
    zero_extension: str

    @property
    def is_unsigned(self) -> bool:
        """Whether the elements are unsigned."""
        return self.extension == "arith.extui"

    @property
    def has_offset(self) -> bool:
        """Whether signed elements differ from those that are multiplied."""
        return self.zero is not None or self.is_unsigned


def narrow_products(module: ir.Module) -> bool:
    """Rewrites all such contractions; returns whether there are any."""
    found = [op for op in ops.nested_ops(module.operation) if op.name.startswith("linalg.")]
    return any([_rewrite(op) for op in found if ops.is_contraction(op)])


def _rewrite(op: ir.Operation) -> bool:
    kinds = [ops.element_type(value) for value in op.operands]
    if kinds[:2] != ["i32", "i32"] or kinds[2] not in _WIDE or len(op.results) != 1:
        return False
    maps, sizes = ops.indexing_maps(op), ops.loop_sizes(op)
    if None in maps or None in sizes or ops.constant(op.operands[2]) != 0:
        return False
    if "arith.extui" in ops.scalar_names(op):
        return False
    factors = [_factor(op.operands[n], maps[n] or ()) for n in range(2)]
    left, right = factors
    if left is None or right is None:
        return False
    used = sorted({*left.loops, *right.loops})
    out = [d for d in maps[2] or () if d in used]
    if any(sizes[d] != 1 for d in range(len(sizes)) if d not in used) or not out:
        return False
    terms = math.prod(sizes[d] or 0 for d in used if d not in out)
    if kinds[2] == "i64" and terms * _MAX_PRODUCT >= 2**31 and _stays_wide(op.results[0]):
        return False
    from iree.compiler import ir

    with op.location, ir.InsertionPoint(op):
        left, right = _signed(left), _signed(right)
        result = _product(left, right, out, sizes)
        if left.has_offset:
            result = _corrected(result, left, right, terms, out, sizes)
        if right.has_offset:
            alone = dataclasses.replace(left, zero=None, extension="arith.extsi")
            result = _corrected(result, right, alone, terms, out, sizes)
        result = _with_units(result, ops.shape(op.results[0]))
        if kinds[2] == "i32":
            op.results[0].replace_all_uses_with(result)
        else:
            _replace(op.results[0], result)
    return True


def _factor(value: ir.Value, loops: ops.IndexMap) -> _Factor | None:
    """The bytes behind an operand of i32; None where it is anything else."""
    extension = zero_extension = ""
    zero: ir.Value | None = None
    while not extension:
        op = ops.defining_op(value)
        if op is None or None in ops.shape(value):
            return None
        if op.name in _RESHAPES:
            loops = _before_reshape(op, loops)
            value = op.operands[0]
        elif ops.is_elementwise(op) and len(op.results) == 1:
            step = _step(op)
            if step is None:
                return None
            extension, point, its_extension = step
            if point is not None:
                if zero is not None:
                    return None
                zero, zero_extension = point, its_extension
            maps = ops.plain_maps(op)
            place = dict(zip(maps[-1], loops, strict=True))
            loops = tuple(None if d is None else place.get(d) for d in maps[0])
            value = op.operands[0]
        else:
            return None
    known = tuple(d for d in loops if d is not None)
    if len(set(known)) != len(loops) or ops.element_type(value) != "i8":
        return None
    if zero is not None and ops.constant(zero) == 0:
        zero = None
    return _Factor(value, known, extension, zero, zero_extension)


def _step(op: ir.Operation) -> tuple[str, ir.Value | None, str] | None:
    """What an elementwise op does to its first input.

    Returns:
      The op that widens it, or nothing; the zero point that it subtracts, and the op that widens
      that; None for an op that does anything else.
    """
    if None in ops.indexing_maps(op):
        return None
    maps = ops.plain_maps(op)
    if len(set(maps[-1])) != len(ops.iterator_types(op)):
        return None
    block = ops.body(op)
    arguments = list(block.arguments)
    value = list(block.operations)[-1].operands[0]
    zero, zero_extension = None, ""
    if (difference := _defined(value, "arith.subi")) is not None:
        value, point = difference.operands
        widened = next((w for e in _EXTENSIONS if (w := _defined(point, e))), None)
        if widened is None or len(arguments) != 3 or widened.operands[0] != arguments[1]:
            return None
        zero, zero_extension = op.operands[1], widened.name
        if ops.ranked(zero) is None or ops.shape(zero) or ops.element_type(zero) != "i8":
            return None
    elif len(arguments) != 2:
        return None
    widened = next((w for e in _EXTENSIONS if (w := _defined(value, e))), None)
    if widened is not None:
        value = widened.operands[0]
    if value != arguments[0] or str(op.results[0].type).find("i32>") < 0:
        return None
    return ("" if widened is None else widened.name), zero, zero_extension


def _defined(value: ir.Value, name: str) -> ir.Operation | None:
    """The op of that name that defines a value."""
    op = ops.defining_op(value)
    return op if op is not None and op.name == name else None


def _before_reshape(op: ir.Operation, loops: ops.IndexMap) -> ops.IndexMap:
    """The loops of a reshape's operand, of those of its result; None where they are merged."""
    before, after = ops.shape(op.operands[0]), ops.shape(op.results[0])
    known = [d for d, size in zip(loops, after, strict=True) if size != 1]
    if [s for s in before if s != 1] != [s for s in after if s != 1]:
        return (None,) * len(before)
    rest = iter(known)
    return tuple(None if size == 1 else next(rest) for size in before)


def _signed(factor: _Factor) -> _Factor:
    """An operand whose elements are signed; unsigned ones keep their mark, and are less by 128."""
    if not factor.is_unsigned:
        return factor
    sizes = ops.shape(factor.value)
    space = tuple(range(len(sizes)))

    def flip(arguments: list[ir.Value]) -> list[ir.Value]:
        highest = builders.scalar_constant(-_SHIFT, "i8")
        return [builders.scalar("arith.xori", [arguments[0], highest], "i8")]

    flipped = builders.generic(
        [factor.value],
        [builders.empty(sizes, "i8")],
        [space, space],
        ["parallel"] * len(sizes),
        flip,
    )
    return dataclasses.replace(factor, value=flipped.results[0])


def _product(
    left: _Factor, right: _Factor, out: list[int], sizes: tuple[int | None, ...]
) -> ir.Value:
    """The contraction of signed bytes: a `linalg.matmul` where it is one."""
    from iree.compiler.dialects import linalg

    rows = left.loops[:-1]
    if len(rows) and right.loops == (left.loops[-1], out[-1]) and tuple(out[:-1]) == rows:
        columns = sizes[out[-1]]
        flat = [list(range(len(rows))), [len(rows)]]
        image = builders.collapse(left.value, flat)
        result = _zeros([ops.shape(image)[0], columns])
        product: ir.Value = linalg.matmul(image, right.value, outs=[result])
        # IREE 3.13 reads the maps where an operand is transposed, and crashes without them.
        product.owner.attributes["indexing_maps"] = _matmul_maps()
        if len(rows) == 1:
            return product
        return builders.expand(product, flat, [sizes[d] for d in out])
    used = sorted({*left.loops, *right.loops})

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        a, b = (builders.scalar("arith.extsi", [x], "i32") for x in arguments[:2])
        product = builders.scalar("arith.muli", [a, b], "i32")
        return [builders.scalar("arith.addi", [arguments[2], product], "i32")]

    return builders.generic(
        [left.value, right.value],
        [_zeros([sizes[d] for d in out])],
        [tuple(used.index(d) for d in loops) for loops in (left.loops, right.loops, out)],
        ["parallel" if d in out else "reduction" for d in used],
        body,
    ).results[0]


def _matmul_maps() -> ir.ArrayAttr:
    from iree.compiler import ir

    maps = (ir.AffineMap.get_permutation([0, 1, 2]).get_submap(dims) for dims in _MATMUL)
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(index_map) for index_map in maps])


def _corrected(
    result: ir.Value,
    factor: _Factor,
    other: _Factor,
    terms: int,
    out: list[int],
    sizes: tuple[int | None, ...],
) -> ir.Value:
    """A product less that of the offset of one factor and the sums of the other, less its offset.

    Args:
      result: the product.
      factor: the operand with the offset.
      other: the other operand.
      terms: summands of each element of the product.
      out: loops of the result.
      sizes: sizes of the contraction's loops.
    """
    loops = sorted(other.loops)
    kept = [d for d in loops if d in out]

    def add(arguments: list[ir.Value]) -> list[ir.Value]:
        wide = builders.scalar("arith.extsi", [arguments[0]], "i32")
        return [builders.scalar("arith.addi", [arguments[1], wide], "i32")]

    sums = builders.generic(
        [other.value],
        [_zeros([sizes[d] for d in kept])],
        [tuple(loops.index(d) for d in other.loops), tuple(loops.index(d) for d in kept)],
        ["parallel" if d in out else "reduction" for d in loops],
        add,
    ).results[0]
    points = [f.zero for f in (factor, other) if f.zero is not None]

    def subtract(arguments: list[ir.Value]) -> list[ir.Value]:
        given = iter(arguments[2:])
        offset, its_offset = (_offset(f, given) for f in (factor, other))
        every = builders.scalar(
            "arith.muli", [its_offset, builders.scalar_constant(terms, "i32")], "i32"
        )
        total = builders.scalar("arith.subi", [arguments[1], every], "i32")
        part = builders.scalar("arith.muli", [total, offset], "i32")
        return [builders.scalar("arith.subi", [arguments[0], part], "i32")]

    space = tuple(range(len(out)))
    return builders.generic(
        [result, sums, *points],
        [builders.empty([sizes[d] for d in out], "i32")],
        [space, tuple(out.index(d) for d in kept), *[()] * len(points), space],
        ["parallel"] * len(out),
        subtract,
    ).results[0]


def _offset(factor: _Factor, given: Iterator[ir.Value]) -> ir.Value:
    """What is to be subtracted from the signed elements of a factor, as an i32."""
    shift = builders.scalar_constant(_SHIFT if factor.is_unsigned else 0, "i32")
    if factor.zero is None:
        point = builders.scalar_constant(0, "i32")
    else:
        point = builders.scalar(factor.zero_extension, [next(given)], "i32")
    return builders.scalar("arith.subi", [point, shift], "i32")


def _zeros(sizes: list[int | None]) -> ir.Value:
    return builders.fill(builders.scalar_constant(0, "i32"), builders.empty(sizes, "i32"))


def _with_units(value: ir.Value, shape: tuple[int | None, ...]) -> ir.Value:
    """A tensor with further dimensions of size 1."""
    held = ops.shape(value)
    if held == shape:
        return value
    groups: list[list[int]] = []
    pending: list[int] = []
    rest = list(held)
    for dimension, size in enumerate(shape):
        pending.append(dimension)
        if rest and size == rest[0]:
            groups.append(pending)
            rest, pending = rest[1:], []
    groups[-1] += pending
    return builders.expand(value, groups, list(shape))


def _is_truncation(op: ir.Operation) -> bool:
    """Whether an op makes i32 of i64, element by element."""
    if not ops.is_elementwise(op) or ops.scalar_names(op) != ("arith.trunci", "linalg.yield"):
        return False
    maps = ops.indexing_maps(op)
    return ops.element_type(op.results[0]) == "i32" and maps[0] == maps[1]


def _stays_wide(value: ir.Value) -> bool:
    """Whether an i64 has users that do not make it i32."""
    return any(
        _stays_wide(user.results[0]) if user.name in _RESHAPES else not _is_truncation(user)
        for user in ops.users(value)
    )


def _replace(wide: ir.Value, value: ir.Value) -> None:
    """Replaces a value of i64 by one of i32."""
    from iree.compiler import ir

    for user in ops.users(wide):
        if user.name in _RESHAPES:
            with user.location, ir.InsertionPoint(user):
                sizes = ops.shape(user.results[0])
                same = ir.Operation.create(
                    user.name,
                    results=[builders.tensor_type(sizes, "i32")],
                    operands=[value, *list(user.operands)[1:]],
                    attributes=dict(_attributes(user)),
                )
            _replace(user.results[0], same.results[0])
        elif _is_truncation(user):
            user.results[0].replace_all_uses_with(value)
    if any(not _is_truncation(u) and u.name not in _RESHAPES for u in ops.users(wide)):
        sizes = ops.shape(value)
        space = tuple(range(len(sizes)))
        after = ops.defining_op(value)
        assert after is not None
        with after.location, ir.InsertionPoint.after(after):
            wider = builders.generic(
                [value],
                [builders.empty(sizes, "i64")],
                [space, space],
                ["parallel"] * len(sizes),
                lambda arguments: [builders.scalar("arith.extsi", arguments[:1], "i64")],
            )
        wide.replace_all_uses_with(wider.results[0])


def _attributes(op: ir.Operation) -> list[tuple[str, ir.Attribute]]:
    return [(name, op.attributes[name]) for name in op.attributes]
