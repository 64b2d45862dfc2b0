"""The index of the first largest or smallest element, as two plain reductions.

    %v, %i = linalg.generic {maximumf; cmpf ogt, select} ins(%x) outs(%low, %zero)
  becomes
    %v = linalg.generic {maximumf} ins(%x) outs(%low)
    %f = linalg.generic {minimumf of the indices with %x == %v or %x != %x} ins(%x, %v) outs(%inf)
    %i = linalg.generic {fptosi} ins(%f)

The first form, that of IREE's importer of PyTorch and ONNX, passes over NaN, and so does its other
form, `iree_linalg_ext.arg_compare`. On CUDA IREE 3.13 gives any of several equal elements, and
"failed to distribute" for rows of 4096. The frameworks give the first NaN, else the first of equal
elements. JAX's argmax, a reduction whose body says all this, becomes the same. Indices below 2^24
are reduced as f32, which every target does well; on CUDA, IREE has the wrong identity for `minsi`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mlirfuse import builders
from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir

_COMBINERS = {
    "arith.maximumf": "arith.maximumf",
    "arith.maxnumf": "arith.maximumf",
    "arith.minimumf": "arith.minimumf",
    "arith.minnumf": "arith.minimumf",
    "arith.maxsi": "arith.maxsi",
    "arith.maxui": "arith.maxui",
    "arith.minsi": "arith.minsi",
    "arith.minui": "arith.minui",
}
"""Op of the reduction of the elements -> the one that propagates NaN."""

_MAX_FLOAT_INDEX = 2**24
"""Largest size of which f32 holds every index."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """A reduction to an element and its index.

    Attributes:
      combiner: op that combines the elements.
      loop: the reduced loop.
      iterators: kinds of the loops.
      reads: index map of the elements.
      writes: index map of both results.
    """

    combiner: str
    loop: int
    iterators: Sequence[str]
    reads: ops.IndexMap
    writes: ops.IndexMap


def split_index_reductions(module: ir.Module) -> bool:
    """Rewrites all such reductions; returns whether there are any."""
    nested = ops.nested_ops(module.operation)
    candidates = [op for op in nested if op.name in _FORMS and len(op.results) == 2]
    changed = False
    for op in candidates:
        found = next((f for form in _FORMS[op.name] if (f := form(op)) is not None), None)
        if found is not None:
            _rewrite(op, found)
            changed = True
    return changed


def _arg_compare(op: ir.Operation) -> _Found | None:
    """`arg_compare` of one input without a base of the indices, by a strict comparison."""
    from iree.compiler import ir

    if len(op.operands) != 3:
        return None
    names = [inner.operation.name for inner in ops.body(op).operations]
    floats = not _integer(op)
    if names != ["arith.cmpf" if floats else "arith.cmpi", "iree_linalg_ext.yield"]:
        return None
    comparison = ops.body(op).operations[0].operation
    if list(comparison.operands) != list(ops.body(op).arguments):
        return None
    combiners = [c for c in set(_COMBINERS.values()) if _is_strict(comparison, c)]
    if len(combiners) != 1:
        return None
    loop = ir.IntegerAttr(op.attributes["dimension"]).value
    rank = len(ops.shape(op.operands[0]))
    kinds = ["reduction" if d == loop else "parallel" for d in range(rank)]
    kept = tuple(d for d in range(rank) if d != loop)
    return _Found(combiners[0], loop, kinds, tuple(range(rank)), kept)


def _importers(op: ir.Operation) -> _Found | None:
    """The form of IREE's importers: one input, the index of the loop, a strict comparison."""
    if ops.num_inputs(op) != 1 or not _reduces_one_loop(op):
        return None
    names = [inner.operation.name for inner in ops.body(op).operations]
    combiner = next((name for name in names if name in _COMBINERS), None)
    rest = ["linalg.index", "arith.index_cast", "arith.select", "linalg.yield"]
    expected = sorted([*rest, combiner or "", "arith.cmpi" if _integer(op) else "arith.cmpf"])
    if combiner is None or sorted(names) != expected:
        return None
    element, index = list(ops.body(op).operations)[-1].operands
    arguments = list(ops.body(op).arguments)
    chosen = index.owner
    if element.owner.name != combiner or {*element.owner.operands} != {*arguments[:2]}:
        return None
    if chosen.name != "arith.select" or chosen.operands[2] != arguments[2]:
        return None
    compared = chosen.operands[0].owner
    if compared.name not in ("arith.cmpf", "arith.cmpi"):
        return None
    if list(compared.operands) != arguments[:2] or not _is_strict(compared, combiner):
        return None
    cast = chosen.operands[1].owner
    source = cast.operands[0].owner if cast.name == "arith.index_cast" else cast
    return _found(op, combiner) if source.name == "linalg.index" else None


def _jax(op: ir.Operation) -> _Found | None:
    """The form of JAX's argmax and argmin: elements and indices, ties and NaN decided."""
    if ops.num_inputs(op) != 2 or not _reduces_one_loop(op) or not _is_iota(op):
        return None
    arguments = list(ops.body(op).arguments)
    element, index, best, best_index = arguments
    inner = [o.operation for o in ops.body(op).operations]
    names = [o.name for o in inner]
    compares = [o for o in inner if o.name in ("arith.cmpf", "arith.cmpi")]
    allowed = {"arith.cmpf", "arith.cmpi", "arith.ori", "arith.andi", "arith.select"}
    if not {*names[:-1]} <= allowed or names.count("arith.select") != 2:
        return None
    values, indices = inner[-1].operands
    if values.owner.name != "arith.select" or indices.owner.name != "arith.select":
        return None
    if [*values.owner.operands][1:] != [best, element]:
        return None
    if [*indices.owner.operands][1:] != [best_index, index]:
        return None
    strict = [o for o in compares if list(o.operands) == [best, element]]
    for comparison in strict:
        for combiner in ("maximumf", "minimumf", "maxsi", "maxui", "minsi", "minui"):
            if _is_strict(comparison, f"arith.{combiner}"):
                return _found(op, f"arith.{combiner}")
    return None


_PREDICATES = {
    "arith.maximumf": (2, 9),
    "arith.maxnumf": (2, 9),
    "arith.minimumf": (4, 11),
    "arith.minnumf": (4, 11),
    "arith.maxsi": (4,),
    "arith.maxui": (8,),
    "arith.minsi": (2,),
    "arith.minui": (6,),
}
"""Predicates by which the first operand wins: `ogt`, `ugt`, `olt`, `ult`, `sgt`, `ugt`, ..."""


def _is_strict(comparison: ir.Operation, combiner: str) -> bool:
    from iree.compiler import ir

    floats = comparison.name == "arith.cmpf"
    predicate = ir.IntegerAttr(comparison.attributes["predicate"]).value
    return floats == combiner.endswith("f") and predicate in _PREDICATES[combiner]


def _integer(op: ir.Operation) -> bool:
    return ops.element_type(op.operands[0]).startswith("i")


def _reduces_one_loop(op: ir.Operation) -> bool:
    reads = ops.indexing_maps(op)[0]
    if None in ops.indexing_maps(op) or ops.iterator_types(op).count("reduction") != 1:
        return False
    # The first input has every loop, so that the new reductions have the same sizes.
    loops = len(ops.iterator_types(op))
    return reads is not None and sorted(d for d in reads if d is not None) == list(range(loops))


def _found(op: ir.Operation, combiner: str) -> _Found:
    iterators, maps = ops.iterator_types(op), ops.plain_maps(op)
    loop = iterators.index("reduction")
    return _Found(_COMBINERS[combiner], loop, iterators, maps[0], maps[-1])


def _is_iota(op: ir.Operation) -> bool:
    """Whether the second input holds the index of the reduced loop."""
    loop = list(ops.iterator_types(op)).index("reduction")
    source = ops.defining_op(ops.inputs(op)[1])
    if source is None or source.name != "linalg.generic" or ops.num_inputs(source) != 0:
        return False
    names = [inner.operation.name for inner in ops.body(source).operations]
    if names != ["linalg.index", "arith.index_cast", "linalg.yield"]:
        return False
    from iree.compiler import ir

    axis = ir.IntegerAttr(ops.body(source).operations[0].attributes["dim"]).value
    written = ops.indexing_maps(source)[0] or ()
    return axis in written and ops.plain_maps(op)[1][written.index(axis)] == loop


_FORMS: Mapping[str, tuple[Callable[[ir.Operation], _Found | None], ...]] = {
    "iree_linalg_ext.arg_compare": (_arg_compare,),
    "linalg.generic": (_importers, _jax),
}
"""Name of an op -> the forms that it may have."""


def _rewrite(op: ir.Operation, found: _Found) -> None:
    from iree.compiler import ir

    reads, writes, iterators = found.reads, found.writes, found.iterators
    source, init = op.operands[0], op.operands[len(op.operands) - 2]
    element = ops.element_type(source)
    given = ops.element_type(op.results[1])
    size = ops.shape(source)[reads.index(found.loop)]
    exact = size is not None and size <= _MAX_FLOAT_INDEX
    kind = "f32" if exact else given
    with ir.InsertionPoint(op), op.location:
        value = builders.generic(
            [source],
            [init],
            [reads, writes],
            iterators,
            lambda a: [builders.scalar(found.combiner, [a[0], a[1]], element)],
        ).results[0]
        largest = builders.scalar_constant(
            float("inf") if exact else 2 ** (int(kind[1:]) - 1) - 1, kind
        )
        sizes = builders.dynamic_sizes(op.results[1])
        empty = builders.empty(ops.shape(op.results[1]), kind, sizes)

        def first(a: list[ir.Value]) -> list[ir.Value]:
            loop = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), found.loop)
            place = ir.Operation.create("linalg.index", [ir.IndexType.get()], [], {"dim": loop})
            index = builders.scalar("arith.index_cast", [place.result], "i32" if exact else kind)
            if exact:
                index = builders.scalar("arith.sitofp", [index], kind)
            if element.startswith("i"):
                hit = builders.scalar("arith.cmpi", [a[0], a[1]], "i1", "0 : i64")
            else:
                equal = builders.scalar("arith.cmpf", [a[0], a[1]], "i1", "1 : i64")
                nan = builders.scalar("arith.cmpf", [a[0], a[0]], "i1", "13 : i64")
                hit = builders.scalar("arith.ori", [equal, nan], "i1")
            candidate = builders.scalar("arith.select", [hit, index, largest], kind)
            combiner = "arith.minimumf" if exact else "arith.minsi"
            return [builders.scalar(combiner, [candidate, a[2]], kind)]

        place = builders.generic(
            [source, value],
            [builders.fill(largest, empty)],
            [reads, writes, writes],
            iterators,
            first,
        ).results[0]
        if exact:
            identity = tuple(range(len(writes)))
            place = builders.generic(
                [place],
                [builders.empty(ops.shape(op.results[1]), given, sizes)],
                [identity, identity],
                ["parallel"] * len(writes),
                lambda a: [builders.scalar("arith.fptosi", [a[0]], given)],
            ).results[0]
    op.results[0].replace_all_uses_with(value)
    op.results[1].replace_all_uses_with(place)
    op.erase()
