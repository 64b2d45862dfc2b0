"""`structured.ir.ops` re-exports every public name of its modules."""

import ast
from pathlib import Path

import pytest

from mlirfuse.structured.ir import (
    constants,
    functions,
    locations,
    ops,
    structured_ops,
    tensor_ops,
    tensor_types,
    values,
)


def public_names(module):
    """Names that the module defines itself, without those that start with an underscore."""
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        names = [getattr(node, "name", "")]
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        yield from (name for name in names if name and not name.startswith("_"))


@pytest.mark.parametrize(
    "module",
    [values, tensor_types, structured_ops, constants, tensor_ops, locations, functions],
    ids=lambda module: module.__name__.rpartition(".")[2],
)
def test_every_public_name_is_exported(module):
    own = {name for name in public_names(module) if name != "clear_caches"}
    assert own <= set(ops.__all__)
    assert all(getattr(ops, name) is getattr(module, name) for name in own)
