"""Deduplicate equal results of a region, and forward a result that is an operand.

    %g:3 = flow.dispatch.region { %a; %b reads %a; %c = %b * 1; flow.return %a, %b, %c }
    users of %g#2
  becomes
    users of %g#1

IREE folds the computation of `%c`, sees `%b` returned twice, and gives users of the second one the
*first result of the region*, `%a`. An operand that is returned next to another result does not
compile. Elementwise ops are followed as scalar computations, which MLIR folds and compares; results
of other ops are opaque.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir, passmanager

from mlirfuse.builders.tensors import scalar_constant
from mlirfuse.structured.ir import fusable_neighbors, ops

_MIN_RESULTS = 2
"""A single result has no equal."""


def drop_equal_results(module: ir.Module) -> None:
    """Replaces a region's result by an earlier one or an operand that is equal to it."""
    for function in ops.functions(module):
        for block in ops.blocks(function):
            for op in block.operations:
                region = op.operation
                if region.name == ops.REGION and len(region.results) >= _MIN_RESULTS:
                    _drop(region)


def _drop(region: ir.Operation) -> None:
    inner = region.regions[0].blocks[0]
    returned = list(inner.operations[len(inner.operations) - 1].operation.operands)
    scalars = _Scalars(inner)
    first: dict[object, ir.Value] = {}
    for result, scalar, size in zip(
        region.results, scalars.of(returned), _sizes(region), strict=True
    ):
        kept = first.setdefault((scalar, result.type, size), result)
        operand = scalars.whole(scalar)
        if operand is not None and operand.type == result.type and ops.block_of(operand) != inner:
            kept = operand
        if kept != result:
            result.replace_all_uses_with(kept)


def _sizes(region: ir.Operation) -> Iterator[tuple[ir.Value, ...]]:
    """The dynamic sizes of each result."""
    operands = iter(region.operands)
    for result in region.results:
        yield tuple(next(operands) for size in ops.shape(result) if size is None)


class _Scalars:
    """The ops of a region as a function of scalars: one element of each value."""

    def __init__(self, block: ir.Block) -> None:
        self.scratch = ir.Module.create(ir.Location.unknown(block.owner.context))
        with self.scratch.context, ir.Location.unknown():
            with ir.InsertionPoint(self.scratch.body):
                self.function = ir.Operation.create(
                    "func.func",
                    attributes={
                        "sym_name": ir.StringAttr.get("scalars"),
                        "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
                    },
                    regions=1,
                )
            self.block = self.function.regions[0].blocks.append()
            self.known: dict[tuple[ir.Value, ops.IndexMap], ir.Value] = {}
            self.given: list[tuple[ir.Value, ops.IndexMap]] = []
            with ir.InsertionPoint(self.block):
                for op in block.operations:
                    self.follow(op.operation)

    def of(self, values: list[ir.Value]) -> list[ir.Value]:
        """The element of each tensor at one index; equal elements are equal objects."""
        with self.scratch.context, ir.Location.unknown():
            with ir.InsertionPoint(self.block):
                scalars = [self.at(v, tuple(range(len(ops.shape(v))))) for v in values]
                ir.Operation.create("func.return", operands=scalars)
            self.function.attributes["function_type"] = ir.TypeAttr.get(
                ir.FunctionType.get(
                    [a.type for a in self.block.arguments], [s.type for s in scalars]
                )
            )
            manager = passmanager.PassManager.parse("builtin.module(func.func(canonicalize,cse))")
            manager.run(self.scratch.operation)
        function = ops.functions(self.scratch)[0]
        block = function.regions[0].blocks[0]
        return list(block.operations[len(block.operations) - 1].operation.operands)

    def whole(self, scalar: ir.Value) -> ir.Value | None:
        """The value that the scalar is an element of, at the same index."""
        if not isinstance(scalar.owner, ir.Block):
            return None
        value, index_map = self.given[ir.BlockArgument(scalar).arg_number]
        return value if index_map == tuple(range(len(ops.shape(value)))) else None

    def follow(self, op: ir.Operation) -> None:
        """Computes an element of the op's results, where it is elementwise."""
        if not ops.is_elementwise(op) or ops.reads_inits(op) or not _is_arithmetic(op):
            return
        maps, count = ops.indexing_maps(op), ops.num_inputs(op)
        loops = tuple(range(len(ops.iterator_types(op))))
        if None in maps[:count] or any(m != loops for m in maps[count:]):
            return
        body = ops.body(op)
        copies = {
            argument: self.at(value, m or ())
            for argument, value, m in zip(body.arguments, op.operands, maps[:count], strict=False)
        }
        *computed, terminator = [o.operation for o in body.operations]
        for old in computed:
            new = old.clone().operation
            for operand, value in enumerate(new.operands):
                new.operands[operand] = copies[value] if value in copies else self.at(value, ())
            copies.update(zip(old.results, new.results, strict=True))
        for result, value in zip(op.results, terminator.operands, strict=True):
            self.known[result, loops] = copies[value] if value in copies else self.at(value, ())

    def at(self, value: ir.Value, index_map: ops.IndexMap) -> ir.Value:
        """The element that an index map of the loops reads."""
        found = self.known.get((value, index_map))
        if found is not None:
            return found
        number = ops.constant(value)
        if number is None or isinstance(value.type, ir.IndexType):
            tensor = ops.ranked(value)
            kind = value.type if tensor is None else tensor.element_type
            made = self.block.add_argument(kind, ir.Location.current)
            self.given.append((value, index_map))
        else:
            made = scalar_constant(number, ops.element_type(value))
        self.known[value, index_map] = made
        return made


def _is_arithmetic(op: ir.Operation) -> bool:
    """Whether the body computes with scalars alone."""
    return fusable_neighbors.has_scalar_body(op) and all(
        ops.ranked(v) is None for o in ops.body(op).operations for v in o.operation.operands
    )
