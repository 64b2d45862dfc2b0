"""Objects of classes of the model's own among its arguments and results, such as a cache of keys.

    forward(ids, cache) -> Output(state, cache)
  becomes
    forward(ids, [keys, values]) -> [state, keys, values]

`torch.export` takes containers that PyTorch's pytrees know. An object of another class is replaced
by the tensors and numbers of its attributes, and made again from those of a call; its other
attributes are those of the example.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.core import CallError

if TYPE_CHECKING:
    import torch

_ARGUMENTS = "an object among the arguments has other attributes than that of the example inputs"


@dataclasses.dataclass(frozen=True, slots=True)
class _Constant:
    """A part of an object that is no value of the program."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class _Tree:
    """Containers, and what is at each of their leaves: None for a value of the program.

    Attributes:
      kind: class of the object whose attributes these are; None for containers themselves.
      spec: PyTorch's description of the containers.
      parts: for each leaf.
    """

    kind: type | None
    spec: Any
    parts: tuple[_Tree | _Constant | None, ...]

    @property
    def has_objects(self) -> bool:
        """Whether one of the leaves is an object."""
        return any(isinstance(part, _Tree) for part in self.parts)

    def takes(self, other: _Tree) -> bool:
        """Whether another tree has the same containers and objects."""
        return (
            (self.kind, self.spec) == (other.kind, other.spec)
            and len(self.parts) == len(other.parts)
            and all(
                part.takes(found)
                if isinstance(part, _Tree) and isinstance(found, _Tree)
                else type(part) is type(found)
                for part, found in zip(self.parts, other.parts, strict=True)
            )
        )

    def made(self, values: Iterator[Any]) -> Any:
        """The containers with values in place of the leaves."""
        from torch.utils import _pytree as pytree

        leaves = [
            next(values)
            if part is None
            else (part.value if isinstance(part, _Constant) else part.made(values))
            for part in self.parts
        ]
        tree = pytree.tree_unflatten(leaves, self.spec)
        if self.kind is None:
            return tree
        made = self.kind.__new__(self.kind)
        vars(made).update(tree)
        return made


class Objects:
    """The objects of a model, found while it is exported.

    Attributes:
      results: how the results are made; None where they have no objects.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._arguments = _apart((args, dict(kwargs)))[1]
        self.results: _Tree | None = None

    @property
    def among_arguments(self) -> bool:
        """Whether an argument is an object, or has one in it."""
        return self._arguments.has_objects

    def opened(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with lists in place of objects.

        Raises:
          CallError: an object differs from that of the example inputs.
        """
        from torch.utils import _pytree as pytree

        tree = self._arguments
        if not tree.has_objects:
            return args, dict(kwargs)
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        if len(leaves) != len(tree.parts):
            return args, dict(kwargs)  # what differs is said later
        for index, part in enumerate(tree.parts):
            if isinstance(part, _Tree):
                leaf = leaves[index]
                if type(leaf) is not part.kind:
                    raise CallError(f"an argument is no {part.kind and part.kind.__name__}")
                leaves[index], found = _apart(dict(vars(leaf)), (id(leaf),))
                if not part.takes(dataclasses.replace(found, kind=part.kind)):
                    raise CallError(_ARGUMENTS)
        opened: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(leaves, spec)
        return opened

    @contextlib.contextmanager
    def handled(self, model: torch.nn.Module) -> Iterator[None]:
        """A block in which a model takes opened arguments, and returns lists for objects."""

        def before(_model: Any, args: Any, kwargs: Any) -> Any:
            leaves = self._arguments.spec.flatten_up_to((args, kwargs))
            parts = [
                part.made(iter(leaf)) if isinstance(part, _Tree) else leaf
                for leaf, part in zip(leaves, self._arguments.parts, strict=True)
            ]
            return self._arguments.spec.unflatten(parts)

        def after(_model: Any, _args: Any, result: Any) -> Any:
            values, tree = _apart(result)
            self.results = tree if tree.has_objects else None
            return values if tree.has_objects else result

        hooks = [model.register_forward_hook(after)]
        if self.among_arguments:
            hooks.append(model.register_forward_pre_hook(before, with_kwargs=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def wrap(
        self, flatten: Callable[..., list[Any]], unflatten: Callable[[Sequence[Any]], Any]
    ) -> tuple[Callable[..., list[Any]], Callable[[Sequence[Any]], Any]]:
        """The calling convention with objects, around that of the exported program."""
        tree = self.results

        def flattened(*args: Any, **kwargs: Any) -> list[Any]:
            args, kwargs = self.opened(args, kwargs)
            return flatten(*args, **kwargs)

        def unflattened(results: Sequence[Any]) -> Any:
            assert tree is not None
            return tree.made(iter(unflatten(results)))

        return (
            flattened if self.among_arguments else flatten,
            unflattened if tree is not None else unflatten,
        )


def _apart(value: Any, around: tuple[int, ...] = ()) -> tuple[list[Any], _Tree]:
    """The values of the program among the leaves of containers, and how they are put together.

    Args:
      value: the containers.
      around: the objects that they are in, by their identity.
    """
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(value)
    values: list[Any] = []
    parts: list[_Tree | _Constant | None] = []
    for leaf in leaves:
        if _is_object(leaf) and id(leaf) not in around:
            inner, tree = _apart(dict(vars(leaf)), (*around, id(leaf)))
            if any(map(_is_tensor, inner)):
                values += inner
                parts.append(dataclasses.replace(tree, kind=type(leaf)))
                continue
        if around and not _is_value(leaf):
            parts.append(_Constant(leaf))
        else:
            values.append(leaf)
            parts.append(None)
    return values, _Tree(None, spec, tuple(parts))


def _is_object(leaf: Any) -> bool:
    import torch

    others = (torch.nn.Module, enum.Enum, type, types.FunctionType, types.ModuleType)
    return hasattr(leaf, "__dict__") and not _is_value(leaf) and not isinstance(leaf, others)


def _is_value(leaf: Any) -> bool:
    import torch

    numbers = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, str, type(None))
    return _is_tensor(leaf) or isinstance(leaf, numbers)


def _is_tensor(leaf: Any) -> bool:
    import torch

    return isinstance(leaf, torch.Tensor)
