"""Conditions of Python statements whose value a tensor holds while a model is exported.

Statements that `torch_if_statements` rewrites call these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlirfuse.core import ImportFailedError

UNBOUND = object()
"""The value of a variable that a statement has not bound."""


def is_open(condition: Any) -> bool:
    """Whether only a call of the program knows if a condition holds."""
    import torch
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    if not isinstance(condition, torch.Tensor | torch.SymBool | torch.SymInt | torch.SymFloat):
        return False
    try:
        bool(condition)
    except GuardOnDataDependentSymNode:
        return isinstance(condition, torch.Tensor)
    return False


def number(tensor: Any) -> Any:
    """`tensor.item()`, as a tensor that is compared like a number of Python."""
    return tensor.double() if tensor.is_floating_point() else tensor


def negated(condition: Any) -> Any:
    """`not condition`."""
    return condition == 0 if is_open(condition) else not condition


def both(first: Any, second: Callable[[], Any]) -> Any:
    """`first and second()` as a condition."""
    if not is_open(first):
        return second() if first else False
    other = second()
    if is_open(other):
        return (first != 0).logical_and(other != 0)
    return first if other else False


def either(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second()` as a condition."""
    if not is_open(first):
        return True if first else second()
    other = second()
    if is_open(other):
        return (first != 0).logical_or(other != 0)
    return True if other else first


def chosen(condition: Any, then: Callable[[], Any], instead: Callable[[], Any]) -> Any:
    """`then() if condition else instead()`."""
    if not is_open(condition):
        return then() if condition else instead()
    return _selected(condition, then(), instead(), "its values")


def held(variables: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """The values of local variables; `UNBOUND` for one that has none."""
    return tuple(variables.get(name, UNBOUND) for name in names)


def joined(
    condition: Any, then: Sequence[Any], instead: Sequence[Any], names: Sequence[str]
) -> tuple[Any, ...]:
    """The values of variables after a statement: those of one branch or the other.

    Args:
      condition: a tensor of one element.
      then: the values where it holds; instead: those where it does not.
      names: of the variables, for messages.

    Raises:
      ImportFailedError: a variable is no tensor in one of the branches, or of another type.
    """
    values = zip(then, instead, names, strict=True)
    return tuple(_selected(condition, a, b, f"'{name}'") for a, b, name in values)


def _selected(condition: Any, then: Any, instead: Any, what: str) -> Any:
    import torch
    from torch.utils import _pytree as pytree

    if then is instead or instead is UNBOUND:
        return then
    if then is UNBOUND:
        return instead
    leaves, spec = pytree.tree_flatten(then)
    others, other_spec = pytree.tree_flatten(instead)
    if spec != other_spec:
        raise _differs(what, type(then).__name__, type(instead).__name__)
    made = []
    for a, b in zip(leaves, others, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            if a.dtype != b.dtype or a.dim() != b.dim():
                raise _differs(what, _described(a), _described(b))
            made.append(torch.where(condition.reshape(()) != 0, a, b))
        elif a is b or (type(a) is type(b) and a == b):
            made.append(a)
        else:
            raise _differs(what, _described(a), _described(b))
    return pytree.tree_unflatten(made, spec)


def _described(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return repr(value)


def _differs(what: str, then: str, instead: str) -> ImportFailedError:
    return ImportFailedError(
        f"a condition depends on values of tensors, and {what} differs in more than values:"
        f" {then} where it holds, {instead} where it does not"
    )
