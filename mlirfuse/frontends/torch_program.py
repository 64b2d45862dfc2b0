"""Exported PyTorch programs as modules of the torch dialect, with their calling convention."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import CallError, ImportFailedError
from mlirfuse.frontends.imported import ImportedModel, WorkDirectory
from mlirfuse.frontends.lowering import lower, one_line, write_module
from mlirfuse.frontends.torch_bytes import return_bytes_signed
from mlirfuse.frontends.torch_complex import fold_parts, split_complex
from mlirfuse.frontends.torch_control_flow import node_importer
from mlirfuse.frontends.torch_convolutions import lower_convolutions
from mlirfuse.frontends.torch_empty import replace_empty
from mlirfuse.frontends.torch_halves import as_pairs
from mlirfuse.frontends.torch_importer import TensorKey, importer_classes
from mlirfuse.frontends.torch_indices import wrap_indices
from mlirfuse.frontends.torch_loops import write_loops
from mlirfuse.frontends.torch_nodes import CurrentNode
from mlirfuse.frontends.torch_scalars import round_compared, widen_scalars
from mlirfuse.frontends.torch_scans import lower_scans
from mlirfuse.frontends.torch_spread import lower_spreads
from mlirfuse.frontends.torch_sums import split_sums
from mlirfuse.frontends.torch_views import split_views
from mlirfuse.frontends.weights import Weights
from mlirfuse.support import dialect_modules
from mlirfuse.support.calling import Leaf, Parameter, describe
from mlirfuse.support.signature import DynamicSize

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir


COLLECTED_BYTES = 64 << 20
"""Bytes of constants from which the garbage of an import is collected at once. That takes some
tenths of a second, for all objects of PyTorch; a small program may wait."""


def lower_fx(
    program: torch.export.ExportedProgram | torch.fx.GraphModule,
    *,
    source: str,
    function: str,
    timeout: float | None,
    parameters: Mapping[TensorKey, str] | None = None,
) -> ImportedModel:
    """Lowers a program to linalg.

    Args:
      program: a decomposed program; a graph module is a function of its placeholders.
      source: name of the model, for errors.
      function: name of the function in the result.
      timeout: seconds for the lowering; None for no limit.
      parameters: `tensor_key` of a constant -> its name, for those that the program is given when
        it is loaded.

    Raises:
      ImportFailedError: IREE rejects the program; the message names the op.
      CompileFailedError: the lowering crashed or ran out of time.
    """
    import torch
    from iree.compiler import ir

    weights = Weights()
    workdir = WorkDirectory()
    unlowered = Path(workdir.name, "imported.mlirbc")
    dialect_modules.add()
    context = ir.Context()
    current = CurrentNode()
    write_loops(program if isinstance(program, torch.fx.GraphModule) else program.graph_module)
    replace_empty(program.graph)
    wrap_indices(program.graph)
    widen_scalars(program.graph)
    round_compared(program.graph)
    split_sums(program.graph)
    split_views(program.graph)
    split_complex(program if isinstance(program, torch.fx.GraphModule) else program.graph_module)
    try:
        write_module(
            _fx_module(program, context, weights, function, current, parameters or {}), unlowered
        )
    except (
        *(AssertionError, LookupError, NotImplementedError),
        *(RuntimeError, TypeError, ValueError),
    ) as error:
        found = f"{type(error).__name__}: {one_line(error)}"
        where = f" ({current.place})" if current.place else ""
        message = f"{source}: IREE's importer does not take it: {found}{where}"
        raise ImportFailedError(message, op=current.op, place=current.place) from error
    finally:
        del context
        if weights.nbytes >= COLLECTED_BYTES:
            gc.collect()  # the importer and the exported program are in cycles
    return lower(
        workdir,
        unlowered,
        input_type="torch",
        frontend="torch",
        source=source,
        function=function,
        weights=weights,
        timeout=timeout,
    )


def _fx_module(
    program: torch.export.ExportedProgram | torch.fx.GraphModule,
    context: ir.Context,
    weights: Weights,
    function: str,
    current: CurrentNode,
    parameters: Mapping[TensorKey, str],
) -> ir.Module:
    """The program as a module of the torch dialect, with stand-ins for its large tensors.

    Args:
      program: a decomposed program.
      context: context of the module.
      weights: collects the tensors.
      function: name of the function.
      current: is told of each node before it is imported.
      parameters: as for `lower_fx`.
    """
    import torch
    from iree.compiler.extras import fx_importer

    _add_unsigned_types()
    hooks_class, cache_class = importer_classes()
    with context:
        importer = fx_importer.FxImporter(
            context=context,
            hooks=hooks_class(weights, parameters),
            graph_node_importer_cls=node_importer(),
        )
        importer._cc = cache_class(context, importer._py_attr_tracker, current)
        if isinstance(program, torch.fx.GraphModule):
            with _without_devices(program):
                importer.import_graph_module(program, func_name=function)
        else:
            with _without_devices(program.graph_module):
                importer.import_program(program, func_name=function)
    return_bytes_signed(importer.module, function)
    fold_parts(importer.module)
    lower_scans(importer.module)
    lower_convolutions(importer.module)
    lower_spreads(importer.module)
    return importer.module


def _add_unsigned_types() -> None:
    """Adds the unsigned types that the tables of IREE 3.13's importer lack."""
    import numpy as np
    import torch
    from iree.compiler import ir
    from iree.compiler.extras import fx_importer

    for bits, code in ((16, 27), (32, 28), (64, 29)):
        dtype = getattr(torch, f"uint{bits}")
        fx_importer.TORCH_DTYPE_TO_INT.setdefault(dtype, code)
        fx_importer.TORCH_DTYPE_TO_MLIR_TYPE_ASM.setdefault(dtype, f"ui{bits}")
        fx_importer.TORCH_DTYPE_TO_NPY_TYPE.setdefault(dtype, getattr(np, f"uint{bits}"))
        fx_importer.TORCH_DTYPE_TO_MLIR_TYPE.setdefault(
            dtype, functools.partial(ir.IntegerType.get_unsigned, bits)
        )


@contextlib.contextmanager
def _without_devices(module: torch.fx.GraphModule) -> Iterator[None]:
    """A block in which tensors that a program makes are on the CPU.

    IREE lowers `scalar_tensor` on no other device, and the program's device is chosen later.
    """
    import torch

    graphs = [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    given = {
        node: node.kwargs
        for graph in graphs
        for node in graph.nodes
        if node.kwargs.get("device") is not None
    }
    for node, kwargs in given.items():
        node.kwargs = {**kwargs, "device": torch.device("cpu")}
    try:
        yield
    finally:
        for node, kwargs in given.items():
            node.kwargs = kwargs


def tensor_names(specs: Any) -> list[str]:
    """Names of the user's arguments or results that exist at run time, without constants."""
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

    users = (InputKind.USER_INPUT, OutputKind.USER_OUTPUT)
    return [
        spec.arg.name
        for spec in specs
        if spec.kind in users
        and not (isinstance(spec.arg, ConstantArgument) and spec.kind == InputKind.USER_INPUT)
    ]


def dynamic_sizes(program: torch.export.ExportedProgram) -> tuple[DynamicSize, ...]:
    """The symbols among the sizes of the arguments, with their ranges; no expressions of them."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    dimensions: dict[Any, list[tuple[int, int]]] = {}
    for index, name in enumerate(tensor_names(program.graph_signature.input_specs)):
        value = nodes[name].meta.get("val")
        for axis, size in enumerate(getattr(value, "shape", ())):
            symbol = getattr(getattr(size, "node", None), "expr", None)
            if symbol is not None and symbol.is_Symbol:
                dimensions.setdefault(symbol, []).append((index, axis))
    found = []
    for symbol, where in dimensions.items():
        limits = program.range_constraints.get(symbol)
        lower, upper = 0, None
        if limits is not None:  # an end may be infinite
            lower = max(0, int(limits.lower)) if limits.lower.is_Integer else 0
            upper = int(limits.upper) if limits.upper.is_Integer else None
        found.append(DynamicSize(str(symbol), tuple(where), lower, upper))
    return tuple(found)


def has_f64_tensors(graph: torch.fx.Graph) -> bool:
    """Whether a graph computes with tensors of f64 or complex128; scalars do not count."""
    import torch
    from torch.utils import _pytree as pytree

    wide = (torch.float64, torch.complex128)
    return any(
        isinstance(part, torch.Tensor) and part.dtype in wide and part.dim() > 0
        for node in graph.nodes
        for part in pytree.tree_leaves(node.meta.get("val"))
    )


def share_sizes(program: torch.export.ExportedProgram) -> None:
    """Gives arguments of equal sizes the same sizes in the graph: those of the first argument.

    Otherwise a mask of (b, t) next to tokens of (b, t) has two more sizes for the compiler, which
    then cannot prove that reshapes of their combination keep the number of elements.
    """
    import torch

    aten, graph = torch.ops.aten, program.graph
    names = {spec.arg.name for spec in program.graph_signature.input_specs}
    first: dict[Any, tuple[torch.fx.Node, int]] = {}
    sizes: dict[Any, torch.fx.Node] = {}

    def sized(symbol: Any, value: torch.SymInt) -> torch.fx.Node:
        if symbol not in sizes:
            sizes[symbol] = graph.call_function(aten.sym_size.int, first[symbol])
            sizes[symbol].meta["val"] = value
        return sizes[symbol]

    start = next(node for node in graph.nodes if node.op != "placeholder")
    for node in [n for n in graph.nodes if n.op == "placeholder" and n.name in names]:
        shape = getattr(node.meta.get("val"), "shape", ())
        symbols = [getattr(getattr(size, "node", None), "expr", None) for size in shape]
        for axis, symbol in enumerate(symbols):
            if symbol is not None:
                first.setdefault(symbol, (node, axis))
        if all(symbol is None or first[symbol][0] == node for symbol in symbols):
            continue
        with graph.inserting_before(start):
            pairs = zip(symbols, shape, strict=True)
            view_sizes = [size if symbol is None else sized(symbol, size) for symbol, size in pairs]
            view = graph.call_function(aten.view.default, (node, view_sizes))
        view.meta["val"] = node.meta["val"]
        own = {view, *sizes.values()}
        node.replace_all_uses_with(
            view, delete_user_cb=lambda user, own=own: user not in own and user.op != "output"
        )
    program.graph_module.recompile()


def calling_convention(
    program: torch.export.ExportedProgram, source: str
) -> tuple[Callable[..., list[Any]], Callable[[Sequence[Any]], Any]]:
    """`flatten` and `unflatten` of the imported model."""
    from torch.export.graph_signature import ConstantArgument, InputKind
    from torch.utils import _pytree

    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    constants = [
        spec.arg.value if isinstance(spec.arg, ConstantArgument) else _pytree
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT
    ]

    def flatten(*args: Any, **kwargs: Any) -> list[Any]:
        keywords = in_spec.child(1).context
        ordered = {key: kwargs[key] for key in keywords if key in kwargs}
        ordered.update(kwargs)
        leaves, spec = _pytree.tree_flatten((args, ordered))
        if spec != in_spec:
            raise CallError(
                f"{source}: called with {_described(args, kwargs)}; it was exported for "
                f"{in_spec.child(0).num_children} positional arguments"
                + (f" and the keywords {', '.join(map(str, keywords))}" if keywords else "")
                + " of the structure of the example inputs"
            )
        flat = []
        for leaf, constant in zip(leaves, constants, strict=True):
            if constant is _pytree:
                flat.append(leaf)
            elif leaf != constant:
                raise CallError(
                    f"{source}: an argument is {leaf!r}; the model was exported for {constant!r}"
                )
        return flat

    def unflatten(results: Sequence[Any]) -> Any:
        return _pytree.tree_unflatten(list(results), out_spec)

    def alone(results: Sequence[Any]) -> Any:
        return results[0]

    return flatten, alone if out_spec == _pytree.tree_structure(0) else unflatten


def evaluator(
    load: Callable[[], torch.export.ExportedProgram],
) -> Callable[[Sequence[Any]], list[Any]]:
    """PyTorch's own results of an exported program, for flat arguments."""

    def call(flat: Sequence[Any]) -> list[Any]:
        import torch
        from torch.export.graph_signature import ConstantArgument, InputKind
        from torch.utils import _pytree

        program, given = load(), iter(flat)
        leaves = [
            spec.arg.value if isinstance(spec.arg, ConstantArgument) else next(given)
            for spec in program.graph_signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        ]
        args, kwargs = _pytree.tree_unflatten(leaves, program.call_spec.in_spec)
        with torch.no_grad():
            results = program.module()(*args, **kwargs)
        leaves = _pytree.tree_leaves(results)
        return [as_pairs(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]

    return call


def parameters(program: torch.export.ExportedProgram) -> tuple[Parameter, ...]:
    """The parameters of the imported model; none where a container is of a class of its own."""
    from torch.export.graph_signature import ConstantArgument, InputKind
    from torch.utils import _pytree

    count, leaves = 0, []
    for spec in program.graph_signature.input_specs:
        if spec.kind != InputKind.USER_INPUT:
            continue
        if isinstance(spec.arg, ConstantArgument):
            leaves.append(spec.arg.value)
        else:
            leaves.append(Leaf(count))
            count += 1
    args, kwargs = _pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    entry = program.module_call_graph[0].signature
    return describe(args, kwargs, (entry and entry.forward_arg_names) or ())


def _described(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    text = f"{len(args)} positional arguments"
    return text + (f" and the keywords {', '.join(kwargs)}" if kwargs else "")
