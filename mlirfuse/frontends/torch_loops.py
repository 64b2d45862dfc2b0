"""Writes `scan` and `map` of PyTorch as `while_loop`, or out in full where they are short.

    ys = scan(f, (h,), (xs,), (w,))
  becomes
    ys = empty(n, ...); while_loop(k < n, (h, y) = f(h, xs[k], w); ys[k] = y)

A `map` whose function has a rule for batches is one call of it. IREE's importer has neither op.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat

if TYPE_CHECKING:
    import torch

UNROLLED_STEPS = 8
"""Most steps that are written out."""

Function = Callable[..., Sequence[Any]]


def write_loops(module: torch.fx.GraphModule) -> None:
    """Replaces the ops in a graph of aten ops and in its subgraphs."""
    import torch

    for _, child in list(module.named_children()):
        if isinstance(child, torch.fx.GraphModule):
            write_loops(child)
    forms = _forms()
    found = [n for n in module.graph.nodes if str(n.target) in forms and n.op == "call_function"]
    for node in found:
        _replace(module, node, forms[str(node.target)])
    if found:
        module.graph.eliminate_dead_code()
        module.recompile()


def _forms() -> dict[str, Callable[..., Sequence[Any]]]:
    return {"scan": _scanned, "map_impl": _mapped}


def _scanned(
    step: Function, init: Sequence[Any], xs: Sequence[Any], kept: Sequence[Any]
) -> Sequence[Any]:
    """`scan` along axis 0: the last carried values, and the stacked results of the steps."""
    import torch

    count, number = xs[0].shape[0], len(init)
    if isinstance(count, int) and count <= UNROLLED_STEPS:
        carried, rows = list(init), []
        for k in range(count):
            carried_and_row = step(*carried, *(x[k] for x in xs), *kept)
            carried = list(carried_and_row[:number])
            rows.append(carried_and_row[number:])
        return [*carried, *(torch.stack(part) for part in zip(*rows, strict=True))]
    first = step(*init, *(x[0] for x in xs), *kept)
    outputs = [y.new_zeros((count, *y.shape)) for y in first[number:]]
    ends = number, number + len(outputs), number + len(outputs) + len(xs)

    def body(k: torch.Tensor, values: Carried) -> Carried:
        at = k.view(1)
        carried, made = values[: ends[0]], values[ends[0] : ends[1]]
        given, same = values[ends[1] : ends[2]], values[ends[2] :]
        new = step(*carried, *(x.index_select(0, at).squeeze(0) for x in given), *same)
        rows = [
            torch.index_put(whole, [at], row.unsqueeze(0))
            for whole, row in zip(made, new[number:], strict=True)
        ]
        return *new[:number], *rows, *given, *same

    return repeat(count, body, (*init, *outputs, *xs, *kept))[: ends[1]]


def _mapped(function: Function, xs: Sequence[Any], kept: Sequence[Any]) -> Sequence[Any]:
    """`map` over axis 0."""
    import torch

    count = xs[0].shape[0]
    try:
        axes = (*(0 for _ in xs), *(None for _ in kept))
        return list(torch.vmap(lambda *given: tuple(function(*given)), axes)(*xs, *kept))
    except Exception:  # an op without a rule for batches
        if isinstance(count, int) and not count:
            raise

    def step(*given: Any) -> Sequence[Any]:
        return function(*given)

    return _scanned(step, [], xs, kept)


def _replace(
    module: torch.fx.GraphModule, node: torch.fx.Node, form: Callable[..., Sequence[Any]]
) -> None:
    """Puts the graph of a form in the place of a node."""
    import torch
    from torch._dispatch.python import enable_python_dispatcher
    from torch._guards import detect_fake_mode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils import _pytree as pytree

    from mlirfuse.frontends.torch_decompositions import decomposition_table

    function, *rest = node.args
    inner = getattr(module, function.target)
    leaves, spec = pytree.tree_flatten(tuple(tuple(part) for part in rest))
    nodes = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
    values = [n.meta["val"] for n in nodes]

    def run(*given: Any) -> Any:
        return torch.fx.Interpreter(inner).run(*given)

    def whole(*given: Any) -> list[Any]:
        taken = iter(given)
        filled = [next(taken) if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves]
        return list(form(run, *pytree.tree_unflatten(filled, spec)))

    table = decomposition_table(whole_attention=False)
    mode = detect_fake_mode(values)
    with torch.no_grad(), mode or contextlib.nullcontext(), enable_python_dispatcher():
        made = make_fx(whole, decomposition_table=table, _allow_non_fake_inputs=True)(*values)
    _insert(module, node, made, nodes)


def _insert(
    module: torch.fx.GraphModule,
    node: torch.fx.Node,
    made: torch.fx.GraphModule,
    arguments: Sequence[torch.fx.Node],
) -> None:
    """Copies a graph in front of a node, whose items its results become."""
    import torch

    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    given = iter(arguments)
    with module.graph.inserting_before(node):
        for part in made.graph.nodes:
            if part.op == "placeholder":
                copies[part] = next(given)
            elif part.op == "output":
                results = [copies[result] for result in part.args[0]]
            elif part.op == "get_attr":
                name = _free_name(module, part.target)
                setattr(module, name, getattr(made, part.target))
                copies[part] = module.graph.get_attr(name)
                copies[part].meta = dict(part.meta)
            else:
                copies[part] = module.graph.node_copy(part, copies.__getitem__)
                copies[part].meta["stack_trace"] = node.meta.get("stack_trace")
    for user in list(node.users):
        assert user.target is operator.getitem
        result = results[user.args[1]]
        user.replace_all_uses_with(result, lambda reader: reader.op != "output")
        # The name of a result of the program stays.
        user.target, user.args = torch.ops.aten.clone.default, (result,)
    module.graph.erase_node(node)


def _free_name(module: torch.fx.GraphModule, name: str) -> str:
    index = 0
    while hasattr(module, f"{name}_{index}"):
        index += 1
    return f"{name}_{index}"
