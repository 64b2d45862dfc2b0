"""Imports `torch.cond` and `while_loop`, the control flow of PyTorch programs.

    cond(p, f, g, (x,))            torch.prim.If %p -> { call @f(%x) } else { call @g(%x) }
    while_loop(c, f, (x,), (w,))   torch.prim.Loop %c(%x, %w) { call @f(%x, %w); call @c }

IREE 3.13's importer has no `cond`, and no `while_loop` of one value or with operands that stay the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir


@functools.cache
def node_importer() -> type:
    """The class that imports the nodes of a graph."""
    from iree.compiler.extras import fx_importer

    class NodeImporter(fx_importer.GraphNodeImporter):  # type: ignore[misc]
        def _import_hop_cond(self, loc: ir.Location, node: torch.fx.Node, _hop: Any) -> None:
            condition, then, instead, *rest = node.args
            operands = [self._import_argument(loc, part) for part in _flat(rest)]
            types = [self._cc.value_info_to_type(value) for value in node.meta["val"]]
            made = _operation(
                "torch.prim.If", [self._truth(loc, condition)], types, loc, regions=2
            )
            for region, branch in zip(made.regions, (then, instead), strict=True):
                with _block(region, [], loc):
                    found = _called(self._function(node, branch), operands, types, loc)
                    _operation("torch.prim.If.yield", found, [], loc)
            self._bind(node, made.results)

        def _import_hop_while_loop(self, loc: ir.Location, node: torch.fx.Node, _hop: Any) -> None:
            condition, body, *rest = node.args
            carried, kept = (_flat(part) for part in (rest[:1], rest[1:]))
            types = [self._cc.value_info_to_type(value) for value in node.meta["val"]]
            first = [self._import_argument(loc, part) for part in carried]
            same = [self._import_argument(loc, part) for part in kept]
            test, step = self._function(node, condition), self._function(node, body)

            def holds(values: Sequence[ir.Value]) -> ir.Value:
                truth = self._cc.get_vtensor_type((), _boolean())
                (found,) = _called(test, [*values, *same], [truth], loc)
                return _operation(
                    "torch.aten.Bool.Tensor", [found], [self._cc.torch_bool_type], loc
                ).result

            with loc:
                limit = fx_importer._make_constant_op(
                    "torch.constant.int",
                    self._cc.integer_attr(2**63 - 1, 64),
                    self._cc.torch_int_type,
                ).result
            made = _operation(
                "torch.prim.Loop", [limit, holds(first), *first], types, loc, regions=1
            )
            with _block(made.regions[0], [self._cc.torch_int_type, *types], loc) as arguments:
                new = _called(step, [*arguments[1:], *same], types, loc)
                _operation("torch.prim.Loop.condition", [holds(new), *new], [], loc)
            self._bind(node, made.results)

        def _function(self, node: torch.fx.Node, branch: torch.fx.Node) -> str:
            """The name of the function that a subgraph became."""
            module = getattr(node.graph.owning_module, branch.target)
            return str(self.fx_importer._graph_module_to_func_name[id(module)])

        def _truth(self, loc: ir.Location, condition: Any) -> ir.Value:
            import torch

            value = self._import_argument(loc, condition)
            if not isinstance(condition, torch.fx.Node):
                return value
            if not isinstance(condition.meta["val"], torch.Tensor):
                return value
            kind = [self._cc.torch_bool_type]
            return _operation("torch.aten.Bool.Tensor", [value], kind, loc).result

        def _bind(self, node: torch.fx.Node, results: Sequence[ir.Value]) -> None:
            self._multi_result_nodes.add(node)
            for index, value in enumerate(results):
                self.bind_node_value(node, value, index)

    return NodeImporter


@contextlib.contextmanager
def _block(
    region: ir.Region, types: Sequence[ir.Type], loc: ir.Location
) -> Iterator[list[ir.Value]]:
    """A block that builds the only block of a region; its arguments."""
    from iree.compiler import ir

    with loc:
        block = ir.Block.create_at_start(region, list(types))
    with ir.InsertionPoint(block):
        yield list(block.arguments)


def _flat(parts: Sequence[Any]) -> list[Any]:
    return [leaf for part in parts for leaf in (part if isinstance(part, list | tuple) else [part])]


def _boolean() -> torch.dtype:
    import torch

    return torch.bool


def _operation(
    name: str,
    operands: Sequence[ir.Value],
    types: Sequence[ir.Type],
    loc: ir.Location,
    regions: int = 0,
) -> ir.Operation:
    from iree.compiler import ir

    return ir.Operation.create(
        name, results=list(types), operands=list(operands), regions=regions, loc=loc
    )


def _called(
    name: str, operands: Sequence[ir.Value], types: Sequence[ir.Type], loc: ir.Location
) -> list[ir.Value]:
    from iree.compiler import ir

    callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
    call = ir.Operation.create(
        "func.call", attributes=callee, results=list(types), operands=list(operands), loc=loc
    )
    return list(call.results)
