"""Typed construction of a softmax over rows in a dispatch region.

The parts are computed once each, leading dimensions collapsed where every operand allows it:

    %m = linalg.generic {maximum of the scores}        tensor<RxN> -> tensor<R>
    %s, %p = linalg.generic {sum of exponentials}      tensor<RxN> -> tensor<R>, tensor<RxN>
    %y = linalg.generic {%p / %s}                      tensor<RxN>

A CPU takes a maximum or a sum in two steps, with the row as K x L and one accumulator for each of
L lanes: no shuffle before the last step. `%p` is kept in the thread's stack where it fits there,
and computed again elsewhere.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.structured.expr.expressions import number, start, type_of
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr, Reduce
from mlirfuse.structured.ir import analysis_cache, ops
from mlirfuse.structured.recognize.row_softmax import Body, RowSoftmax, at_column, without_nans


@dataclasses.dataclass(frozen=True, slots=True)
class Tiles:
    """Tile sizes for the rows, for IREE's CPU code generation.

    Attributes:
      rows: rows in flight in one thread.
      rows_per_workgroup: rows of one workgroup.
      columns: elements of a row in one vector.
      lanes: whether each lane of a vector has its own accumulator; the row is a multiple of them.
      keeps_power: whether the exponentials are kept between the sum and the quotient.
    """

    rows: int
    rows_per_workgroup: int
    columns: int
    lanes: bool
    keeps_power: bool


def form_softmax(
    found: RowSoftmax, group: Sequence[ir.Operation], tiles: Tiles | None, *, max_skips_nan: bool
) -> ir.Operation:
    """Puts a softmax into one new `flow.dispatch.region` and erases the replaced ops.

    Args:
      found: the softmax.
      group: the replaced ops, in block order.
      tiles: for a CPU; None leaves tiling to IREE.
      max_skips_nan: whether the target's maximum along a row may ignore a NaN.

    Returns:
      The region. Its location is the fusion of the group's locations.
    """
    location = ir.Location.fused([op.location for op in group], context=found.root.context)
    with ir.InsertionPoint(found.root), location:
        region, result = _Builder(found, Body(found, group), tiles, max_skips_nan).build()
    found.root.results[0].replace_all_uses_with(result)
    for op in reversed(group):
        op.erase()
    return region


_Axis = int | None
"""An axis of an operand: the index of a row loop, or None for the columns."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor that a generic reads; columns that are split are one axis here."""

    value: ir.Value
    axes: tuple[_Axis, ...]


_Known = Mapping[Expr, _Operand]
"""The parts that the region has computed so far."""


class _Builder:
    """One construction, at the current insertion point and location."""

    def __init__(
        self, found: RowSoftmax, body: Body, tiles: Tiles | None, max_skips_nan: bool
    ) -> None:
        self.found = found
        self.body = body
        self.tiles = tiles
        self.element = ops.element_type(found.root.results[0])
        self.final = start(found.root.results[0])
        self.terms = {
            reduce: at_column(reduce, found.column) for reduce in (found.maximum, found.denominator)
        }
        if max_skips_nan and found.tests_maximum:
            self.terms[found.maximum] = without_nans(found.maximum, self.terms[found.maximum])
        self.sizes = ops.shape(found.root.results[0])
        values = iter(builders.dynamic_sizes(found.root.results[0]))
        self.size_values = {d: next(values) for d, s in enumerate(self.sizes) if s is None}
        self.keeps_power = tiles is not None and tiles.keeps_power and self._power_is_shared()
        self.groups = self._collapsed_rows()
        self.rows = tuple(range(len(self.groups)))
        self.row_sizes = [builders.product([self.sizes[d] for d in g]) for g in self.groups]
        row_values = [self._row_value(group) for group in self.groups]
        self.dynamic = [value for value in row_values if value is not None]
        self.operands = {
            (leaf, split): self._operand(leaf, split)
            for split, exprs in self._reads().items()
            for expr in exprs
            for leaf in self._elements(expr)
        }

    def build(self) -> tuple[ir.Operation, ir.Value]:
        """The region, and its result in the shape of the root's."""
        shape = self._shape(split=self._splits_result())
        region = ir.Operation.create(
            ops.REGION,
            results=[builders.tensor_type(shape, self.element)],
            operands=self.dynamic,
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(self.dynamic), 0])},
            regions=2,
        )
        with ir.InsertionPoint(region.regions[0].blocks.append()):
            known: dict[Expr, _Operand] = {}
            self._reduce(self.found.maximum, known)
            self._reduce(self.found.denominator, known, self.keeps_power)
            ir.Operation.create(ops.RETURN, operands=[self._quotient(known)])
        return region, self._final_shape(region.results[0])

    # --- operands ------------------------------------------------------------------------------

    def _power_is_shared(self) -> bool:
        """Whether both the sum and the result are made of the exponentials."""
        power = frozenset({self.found.numerator})
        both = (self.terms[self.found.denominator], self.final)
        return all(self.found.numerator in self.body.leaves(expr, power) for expr in both)

    def _splits_result(self) -> bool:
        # IREE would collapse the lanes again where nothing in the region keeps them apart.
        return self._lanes() and self.keeps_power

    def _lanes(self) -> bool:
        return self.tiles is not None and self.tiles.lanes

    def _reads(self) -> dict[bool, list[Expr]]:
        """The expressions over columns split into lanes, and those over whole columns."""
        reads: dict[bool, list[Expr]] = {True: [], False: []}
        reads[self._lanes()] += self.terms.values()
        reads[self._splits_result()].append(self.final)
        return reads

    def _elements(self, expr: Expr) -> list[Element]:
        cuts = frozenset({self.found.maximum, self.found.denominator})
        return [e for e in self.body.leaves(expr, cuts) if isinstance(e, Element)]

    def _collapsed_rows(self) -> list[list[int]]:
        """The leading dimensions, collapsed where all operands have both neighbors or none.

        IREE collapses the rest of them, and drops the tile sizes of the ops that it changes.
        """
        exprs = [expr for several in self._reads().values() for expr in several]
        used = [set(leaf.index) for expr in exprs for leaf in self._elements(expr)]
        groups: list[list[int]] = []
        for d in range(self.found.column):
            if groups and all((d in u) == (d - 1 in u) for u in used):
                groups[-1].append(d)
            else:
                groups.append([d])
        return groups

    def _operand(self, leaf: Element, split: bool) -> _Operand:
        """The tensor of a leaf with its rows collapsed, and its columns split where asked."""
        axes: list[_Axis] = []
        pieces: list[list[int]] = []
        for position, d in enumerate(leaf.index):
            axis = next((n for n, group in enumerate(self.groups) if d in group), None)
            if axis is not None and axis in axes:
                pieces[-1].append(position)
            else:
                axes.append(axis)
                pieces.append([position])
        value = leaf.value
        if len(pieces) < len(leaf.index):
            value = builders.collapse(value, pieces)
        if split and None in axes:
            whole = [[n] for n in range(len(axes) - 1)]
            sizes = [*ops.shape(value)[:-1], *self._column_sizes(split=True)]
            dynamic = [v for n, v in self._row_values().items() if n in axes]
            value = builders.expand(value, [*whole, [len(whole), len(axes)]], sizes, dynamic)
        return _Operand(value, tuple(axes))

    # --- shapes ------------------------------------------------------------------------------

    def _row_value(self, group: list[int]) -> ir.Value | None:
        """The size of collapsed dimensions as a value, where one of them is dynamic."""
        factors = [self.size_values[d] for d in group if d in self.size_values]
        static = math.prod(self.sizes[d] or 1 for d in group)
        if factors and static != 1:
            factors.append(builders.scalar_constant(static, "index"))
        if not factors:
            return None
        return functools.reduce(
            lambda a, b: builders.scalar("arith.muli", [a, b], "index"), factors
        )

    def _row_values(self) -> dict[int, ir.Value]:
        """Row loops of dynamic size, with their sizes."""
        loops = [n for n, size in enumerate(self.row_sizes) if size is None]
        return dict(zip(loops, self.dynamic, strict=True))

    def _shape(self, *, split: bool) -> list[int | None]:
        return [*self.row_sizes, *self._column_sizes(split=split)]

    def _column_sizes(self, *, split: bool) -> list[int | None]:
        size = self.sizes[self.found.column]
        if not split:
            return [size]
        assert size is not None, "the pass refuses rows of dynamic length"
        assert self.tiles is not None
        return [size // self.tiles.columns, self.tiles.columns]

    def _final_shape(self, value: ir.Value) -> ir.Value:
        column = len(self.rows)
        if self._splits_result():
            value = builders.collapse(value, [*([n] for n in self.rows), [column, column + 1]])
        if len(self.sizes) > column + 1:
            groups = [*self.groups, [self.found.column]]
            value = builders.expand(value, groups, self.sizes, list(self.size_values.values()))
        return value

    # --- the parts ---------------------------------------------------------------------------

    def _reduce(self, reduce: Reduce, known: dict[Expr, _Operand], keeps: bool = False) -> None:
        """Reduces along the rows; adds the results to `known`.

        Loops are the rows and the columns; with lanes the rows, the lanes, and a row's vectors.
        """
        lanes = self._lanes()
        column = len(self.rows)
        columns = (column + 1, column) if lanes else (column,)
        kind = type_of(reduce.init)
        body = _Scalars(self.body, self.terms[reduce], known)
        read = [known.get(e) or self.operands[e, lanes] for e in body.leaves]  # type: ignore[index]
        inits = [self._start(reduce, lanes=lanes)]
        maps: list[ops.IndexMap] = [(*self.rows, *columns[1:])]
        power = self.found.numerator
        if keeps:
            inits.append(builders.empty(self._shape(split=lanes), power.type, self.dynamic))
            maps.append((*self.rows, *columns))

        def combine(arguments: list[ir.Value]) -> list[ir.Value]:
            values = body.emit(arguments)
            term, accumulator = values[self.terms[reduce]], arguments[len(read)]
            combined = builders.scalar(reduce.combiner, [term, accumulator], kind)
            return [combined, values[power]] if keeps else [combined]

        op = builders.generic(
            [operand.value for operand in read],
            inits,
            [*(self._map(operand, columns) for operand in read), *maps],
            ["parallel"] * (len(self.rows) + len(columns) - 1) + ["reduction"],
            combine,
            self._reduction_config(lanes=lanes),
        )
        whole = self._combine_lanes(reduce, op.results[0]) if lanes else op.results[0]
        known[reduce] = _Operand(whole, self.rows)
        if keeps:
            known[power] = _Operand(op.results[1], (*self.rows, None))

    def _combine_lanes(self, reduce: Reduce, value: ir.Value) -> ir.Value:
        kind = type_of(reduce.init)
        op = builders.generic(
            [value],
            [self._start(reduce, lanes=False)],
            [(*self.rows, len(self.rows)), self.rows],
            ["parallel"] * len(self.rows) + ["reduction"],
            lambda arguments: [builders.scalar(reduce.combiner, arguments, kind)],
            self._reduction_config(lanes=False),
        )
        return op.results[0]

    def _start(self, reduce: Reduce, *, lanes: bool) -> ir.Value:
        """The init of the reduction, for each row or each lane of a row."""
        first, kind = number(reduce.init), type_of(reduce.init)
        assert first is not None, "the recognition verified the reduction's init"
        sizes = [*self.row_sizes, *(self._column_sizes(split=True)[1:] if lanes else [])]
        empty = builders.empty(sizes, kind, self.dynamic)
        filled = builders.fill(builders.scalar_constant(first, kind), empty)
        if self.tiles is not None:
            fill = ops.defining_op(filled)
            assert fill is not None
            rows, inner = self._row_tiles(self.tiles.rows), [0] * len(self.rows)
            levels = {"vector_common_parallel": [*rows, 0] if lanes else rows}
            if lanes:
                levels["vector_inner_parallel"] = [*inner, self.tiles.columns]
            for name, attribute in _lowering_config(levels).items():
                fill.attributes[name] = attribute
        return filled

    def _quotient(self, known: _Known) -> ir.Value:
        split = self._splits_result()
        body = _Scalars(self.body, self.final, known)
        read = [known.get(e) or self.operands[e, split] for e in body.leaves]  # type: ignore[index]
        sizes = self._shape(split=split)
        columns = tuple(range(len(self.rows), len(sizes)))
        op = builders.generic(
            [operand.value for operand in read],
            [builders.empty(sizes, self.element, self.dynamic)],
            [*(self._map(operand, columns) for operand in read), (*self.rows, *columns)],
            ["parallel"] * len(sizes),
            lambda arguments: [body.emit(arguments)[self.final]],
            self._root_config(split=split),
        )
        return op.results[0]

    def _map(self, operand: _Operand, columns: tuple[int, ...]) -> ops.IndexMap:
        return tuple(d for axis in operand.axes for d in (columns if axis is None else (axis,)))

    # --- tile sizes --------------------------------------------------------------------------

    def _row_tiles(self, size: int) -> list[int]:
        return [1] * (len(self.rows) - 1) + [size]

    def _reduction_config(self, *, lanes: bool) -> dict[str, ir.Attribute]:
        if self.tiles is None:
            return {}
        rows, none = self._row_tiles(self.tiles.rows), [0] * len(self.rows)
        columns = self.tiles.columns
        return _lowering_config(
            {
                "vector_common_parallel": [*rows, *([columns] if lanes else []), 0],
                "vector_reduction": [*none, *([0, 1] if lanes else [columns])],
            }
        )

    def _root_config(self, *, split: bool) -> dict[str, ir.Attribute]:
        """The tile sizes of the op that IREE distributes the dispatch by."""
        if self.tiles is None:
            return {}
        rows, none = self._row_tiles(self.tiles.rows), [0] * len(self.rows)
        inner = [1, self.tiles.columns] if split else [self.tiles.columns]
        levels = {
            "distribution": [*self._row_tiles(self.tiles.rows_per_workgroup), *([0] * len(inner))],
            "vector_common_parallel": [*rows, *([0] * len(inner))],
            "vector_inner_parallel": [*none, *inner],
        }
        text = (
            f"#iree_codegen.compilation_info<lowering_config = {_text(levels)}, "
            "translation_info = <pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>>"
        )
        return {"compilation_info": analysis_cache.parse(ir.Attribute, text)}


def _lowering_config(levels: Mapping[str, Sequence[int]]) -> dict[str, ir.Attribute]:
    return {"lowering_config": analysis_cache.parse(ir.Attribute, _text(levels))}


def _text(levels: Mapping[str, Sequence[int]]) -> str:
    tiles = ", ".join(f"{name} = {list(sizes)}" for name, sizes in levels.items())
    return f"#iree_cpu.lowering_config<{tiles}>"


class _Scalars:
    """The scalar computation of one expression in one generic's body."""

    def __init__(self, body: Body, expr: Expr, known: _Known) -> None:
        self.body = body
        self.expr = expr
        self.leaves = body.leaves(expr, frozenset(known))

    def emit(self, arguments: list[ir.Value]) -> dict[Expr, ir.Value]:
        """Builds the expression from block arguments; returns the value of every node."""
        values: dict[Expr, ir.Value] = dict(zip(self.leaves, arguments, strict=False))

        def build(expr: Expr) -> ir.Value:
            node = self.body.expand(expr)
            if node not in values:
                if isinstance(node, Const):
                    values[node] = builders.scalar_constant(node.number, node.type)
                else:
                    assert isinstance(node, Apply)
                    args = [build(arg) for arg in node.args]
                    values[node] = builders.scalar(node.op, args, node.type, node.predicate)
            values[expr] = values[node]
            return values[node]

        build(self.expr)
        return values
