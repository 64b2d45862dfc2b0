"""The arguments of a call as the flat list of a program's inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlirfuse.core import CallError, nearest
from mlirfuse.support.calling import Parameter
from mlirfuse.support.signature import TensorSpec

_MAX_LISTED = 8
"""Arguments listed in a message about their count."""


def by_inputs(
    args: Sequence[Any], kwargs: Mapping[str, Any], inputs: Sequence[TensorSpec], source: str
) -> list[Any]:
    """The flat list of a program's inputs, given by position or by name.

    Args:
      args: the first inputs.
      kwargs: the others by their names.
      inputs: specs of the inputs.
      source: name of the model, for the error.

    Raises:
      CallError: it has another length, or another name.
    """
    flat = [*args]
    if kwargs:
        names = [spec.name for spec in inputs]
        for name in kwargs:
            if name not in names:
                known = nearest(name, filter(None, names))
                raise CallError(f"{source}: no argument is called '{name}'{known}")
            if names.index(name) < len(args):
                raise CallError(f"{source}: argument '{name}' is given twice")
        flat += [kwargs[name] for name in names[len(args) :] if name in kwargs]
    if len(flat) != len(inputs):
        shown = ", ".join(map(named, inputs[:_MAX_LISTED]))
        more = ", ..." if len(inputs) > _MAX_LISTED else ""
        raise CallError(
            f"{source}: number of arguments is {len(flat)}; expected {len(inputs)} ({shown}{more})"
        )
    return flat


def takes_inputs(
    parameters: Sequence[Parameter], flatten: Callable[..., Any] | None, count: int
) -> bool:
    """Whether the positional arguments of a model are a program's inputs, one by one.

    Args:
      parameters: of the model; none where they are not known.
      flatten: makes the flat list where a call has a form of its own; it may note the arguments.
      count: number of the inputs.
    """
    if not parameters:
        return flatten is None
    return [parameter.tree for parameter in parameters] == [{"leaf": n} for n in range(count)]


def named(spec: TensorSpec) -> str:
    """An argument as a signature shows it."""
    return f"{spec.name}: {spec}" if spec.name else str(spec)
