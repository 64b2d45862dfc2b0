"""Imports functionalized graphs of aten ops, as AOTAutograd passes them to a backend.

    forward(s0, x: f32[s0, 8], w: f32[8, 8] of strides (1, 8)) -> (mm(x, w), s0 * 2, None)
  becomes
    @main(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> (tensor<?x8xf32>, i64)

Symbolic sizes are taken from the tensors. A tensor whose axes have another order in memory, such as
a transposed one, is passed and returned in memory order, so that it is not copied.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mlirfuse.core import ImportFailedError
from mlirfuse.frontends import torch_batches
from mlirfuse.frontends.imported import ImportedModel
from mlirfuse.frontends.torch_importer import tensor_key
from mlirfuse.frontends.torch_layout import memory_order
from mlirfuse.frontends.torch_program import has_f64_tensors, lower_fx
from mlirfuse.support.signature import inverse

if TYPE_CHECKING:
    import torch

MakeArgument: TypeAlias = Callable[[Sequence[Any]], Any]
"""Makes an argument of the program from the arguments of the graph."""

MakeResult: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Any]
"""Makes a result of the graph from its arguments and the results of the program."""


@dataclasses.dataclass(frozen=True, slots=True)
class GraphModel:
    """An imported graph and how it is called.

    Attributes:
      imported: the program, which takes and returns flat lists.
      make_arguments: a function for each argument of the program.
      make_results: a function for each result of the graph.
    """

    imported: ImportedModel
    make_arguments: tuple[MakeArgument, ...]
    make_results: tuple[MakeResult, ...]


def import_graph(
    module: torch.fx.GraphModule,
    *,
    constants: Mapping[int, torch.Tensor],
    source: str,
    timeout: float | None = None,
    parameters: bool = False,
) -> GraphModel:
    """Imports a graph, which is changed.

    Args:
      module: aten ops without mutation that `torch_nodes.refusal` accepts; each node has its fake
        value, of static or symbolic sizes.
      constants: index of an argument -> its value, for those that become parts of the program.
      source: name of the model, for messages.
      timeout: seconds for the lowering; None for no limit.
      parameters: whether the program is given these values when it is loaded, by the names of
        `parameter_name`, in place of holding them.

    Raises:
      ImportFailedError: the graph has an op without a lowering, or takes no tensor.
      CompileFailedError: the lowering crashed or ran out of time.
    """
    boundary = _Boundary(module)
    boundary.freeze(constants)
    boundary.read_sizes()
    make_results = boundary.results()
    make_arguments = boundary.arguments()
    if not boundary.has_tensor():
        raise ImportFailedError(f"{source}: the program would have no tensor among its arguments")
    module.graph.lint()
    at_batch = torch_batches.of_graph(module, source=source, timeout=timeout)
    named = {tensor_key(t): parameter_name(i) for i, t in constants.items()} if parameters else {}
    imported = lower_fx(module, source=source, function="main", timeout=timeout, parameters=named)
    imported.at_batch = at_batch
    imported.unflatten = list
    imported.keeps_f64 |= has_f64_tensors(module.graph)
    return GraphModel(imported, tuple(make_arguments), tuple(make_results))


def parameter_name(index: int) -> str:
    """The name of the parameter that an argument becomes."""
    return f"argument_{index}"


class _Boundary:
    """The arguments and results of a graph, which are changed to those of the program."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.graph = module.graph
        self.output = self.graph.output_node()
        self.placeholders = self.graph.find_nodes(op="placeholder")
        self.first = next(node for node in self.graph.nodes if node.op != "placeholder")

    def has_tensor(self) -> bool:
        """Whether an argument is a tensor: results are of the kind of the arguments."""
        import torch

        remaining = self.graph.find_nodes(op="placeholder")
        return any(isinstance(node.meta["val"], torch.Tensor) for node in remaining)

    def freeze(self, constants: Mapping[int, torch.Tensor]) -> None:
        """Turns arguments into constants of the program, except where they are returned."""
        for index, tensor in constants.items():
            node, name = self.placeholders[index], f"constant_{index}"
            setattr(self.module, name, tensor)
            with self.graph.inserting_before(self.first):
                constant = self.graph.get_attr(name)
            constant.meta = dict(node.meta)
            self._replace(node, constant)

    def read_sizes(self) -> None:
        """Replaces symbolic arguments by sizes of tensors, which the compiler knows equal."""
        import torch

        symbols = {
            node.meta["val"].node.expr: node
            for node in self.placeholders
            if isinstance(node.meta["val"], torch.SymInt)
        }
        for node in self.placeholders:
            value = node.meta["val"]
            for axis, size in enumerate(getattr(value, "shape", ())):
                if not isinstance(size, torch.SymInt) or not node.users:
                    continue
                if (symbol := symbols.pop(size.node.expr, None)) is not None:
                    size_op = self._call(torch.ops.aten.sym_size.int, node, axis, value=size)
                    self._replace(symbol, size_op)

    def results(self) -> list[MakeResult]:
        """Keeps the computed results; returns how those of the graph are made."""
        import torch

        arguments = {node: index for index, node in enumerate(self.placeholders)}
        computed: dict[torch.fx.Node, MakeResult] = {}
        kept: list[torch.fx.Node] = []
        makes: list[MakeResult] = []
        for entry in self.output.args[0]:
            if not isinstance(entry, torch.fx.Node):
                makes.append(_constant(entry))
            elif entry in arguments:
                makes.append(_returned(arguments[entry]))
            else:
                if entry not in computed:
                    node, computed[entry] = self._result(entry, len(kept))
                    kept.append(node)
                makes.append(computed[entry])
        self.output.args = (tuple(kept),)
        return makes

    def _result(self, node: torch.fx.Node, index: int) -> tuple[torch.fx.Node, MakeResult]:
        import torch

        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return node, lambda _given, got: got[index]
        axes = memory_order(value)
        transforms: list[Callable[[torch.Tensor], torch.Tensor]] = []
        if not value.dtype.is_signed and value.dtype != torch.bool:
            transforms.append(
                lambda result: result.view(value.dtype)
            )  # IREE's integers have no sign
        if not value.dim():
            transforms.append(lambda result: result.to(value.device))
        if axes is None and _copied(value):
            shape, strides = tuple(value.shape), value.stride()
            transforms.append(lambda result: result.new_empty_strided(shape, strides).copy_(result))
        elif axes is not None and axes != tuple(range(value.dim())):
            node = self._call(
                torch.ops.aten.permute.default,
                node,
                list(axes),
                value=value.permute(axes),
                before=self.output,
            )
            back = inverse(axes)
            transforms.append(lambda result: result.permute(back))

        def make(_given: Sequence[Any], got: Sequence[Any]) -> Any:
            result = got[index]
            for transform in transforms:
                result = transform(result)
            return result

        return node, make

    def arguments(self) -> list[MakeArgument]:
        """Keeps the used arguments; returns how they are made from those of the graph."""
        import torch

        self.graph.eliminate_dead_code()
        takes: list[MakeArgument] = []
        for index, node in enumerate(self.placeholders):
            if not node.users:
                self.graph.erase_node(node)
                continue
            value = node.meta["val"]
            axes = memory_order(value) if isinstance(value, torch.Tensor) else None
            if axes is None or axes == tuple(range(value.dim())):
                takes.append(operator.itemgetter(index))
                continue
            back = self._call(
                torch.ops.aten.permute.default, node, list(inverse(axes)), value=value
            )
            node.replace_all_uses_with(back, lambda user, back=back: user is not back)
            node.meta = {"val": value.permute(axes)}
            takes.append(_permuted(index, axes))
        return takes

    def _replace(self, node: torch.fx.Node, by: torch.fx.Node) -> None:
        node.replace_all_uses_with(by, lambda user: user is not self.output and user is not by)

    def _call(
        self, op: Any, *args: Any, value: Any, before: torch.fx.Node | None = None
    ) -> torch.fx.Node:
        with self.graph.inserting_before(before or self.first):
            node = self.graph.call_function(op, args)
        node.meta = {"val": value}
        return node


def _constant(value: Any) -> MakeResult:
    return lambda _given, _got: value


def _returned(index: int) -> MakeResult:
    return lambda given, _got: given[index]


def _permuted(index: int, axes: Sequence[int]) -> MakeArgument:
    return lambda given: given[index].permute(axes)


def _copied(value: torch.Tensor) -> bool:
    """Whether a result is copied into memory with the same gaps.

    Expanded results, and those of dynamic sizes, stay in C order.
    """
    return all(isinstance(n, int) and n for n in (*value.shape, *value.stride()))
