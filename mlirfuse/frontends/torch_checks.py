"""Removes checks of values from exported programs: a compiled program does not raise."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CHECKS = (
    "_linalg_check_errors",
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
)
"""Ops without a result for the program: they raise where a value is out of range."""


def drop_checks(program: torch.export.ExportedProgram) -> None:
    """Removes checks, and the tokens that order them."""
    import torch
    from torch.export.graph_signature import InputKind, OutputKind

    graph, signature = program.graph, program.graph_signature
    for node in list(graph.nodes):
        if node.target is torch.ops.higher_order.with_effects:
            token, op, *_ = node.args
            if op.overloadpacket.__name__ not in CHECKS:
                continue
            for user in list(node.users):
                if user.target is operator.getitem and user.args[1] == 0:
                    user.replace_all_uses_with(token)
                    graph.erase_node(user)
            graph.erase_node(node)
        elif (
            isinstance(node.target, torch._ops.OpOverload)
            and node.target.overloadpacket.__name__ in CHECKS
            and not node.users
        ):
            graph.erase_node(node)
    placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
    tokens = [spec for spec in signature.input_specs if spec.kind == InputKind.TOKEN]
    if any(user.op != "output" for spec in tokens for user in placeholders[spec.arg.name].users):
        return
    output = graph.output_node()
    kept = [spec.kind != OutputKind.TOKEN for spec in signature.output_specs]
    output.args = (tuple(value for value, keep in zip(output.args[0], kept, strict=True) if keep),)
    signature.output_specs[:] = [
        spec for spec, keep in zip(signature.output_specs, kept, strict=True) if keep
    ]
    for spec in tokens:
        signature.input_specs.remove(spec)
        graph.erase_node(placeholders[spec.arg.name])
    program.graph_module.recompile()
