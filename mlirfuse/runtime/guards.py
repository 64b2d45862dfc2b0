"""What happens to a call with arguments that a program was not compiled for.

program = mlirfuse.compile(model, (x,), guard="recompile")
program(longer_x)                       # compiled for this shape, once
"""

from __future__ import annotations

import collections
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mlirfuse.core import CallError, UsageError, nearest
from mlirfuse.runtime import arrays
from mlirfuse.runtime.pytree import leaves
from mlirfuse.support.signature import DynamicSize, TensorSpec

POLICIES = ("recompile", "fallback", "error", "off")
"""Compile again, call the model itself, raise `CallError`, or do not look."""

MOST_PROGRAMS = 16
"""Programs that a module keeps for other shapes; the least recently called goes first."""

Program = Callable[..., Any]


def check_policy(policy: str) -> None:
    """Refuses what is no policy.

    Raises:
      UsageError: it is none.
    """
    if policy not in POLICIES:
        raise UsageError(f"unknown guard '{policy}'{nearest(policy, POLICIES)}")


def check_sizes(
    sizes: Iterable[DynamicSize],
    values: Sequence[Any],
    specs: Sequence[TensorSpec],
    source: str,
) -> None:
    """Refuses dynamic sizes that the model was not exported for.

    Args:
      sizes: what the model says of them.
      values: the arguments; each fits its spec.
      specs: of the arguments.
      source: the model, for the error.

    Raises:
      CallError: two that are to be equal are not, or one is out of its range.
    """
    for size in sizes:
        (first, axis), *others = size.places
        got = values[first].shape[axis]
        place = f"axis {axis} of argument '{specs[first].name or first}'"
        for index, other in others:
            if values[index].shape[other] != got:
                raise CallError(
                    f"{source}: axis {other} of argument '{specs[index].name or index}' is"
                    f" {values[index].shape[other]}; expected {got}, which {place} is"
                )
        if got < size.least or (size.most is not None and got > size.most):
            raise CallError(f"{source}: {place} is {got}; expected {size}")


@dataclasses.dataclass(slots=True)
class Guard:
    """A policy and what it needs. Safe to use from several threads.

    Attributes:
      policy: one of `POLICIES`.
      model: the model itself, for `fallback`.
      compile: compiles the model for arguments, for `recompile`.
    """

    policy: str = "error"
    model: Callable[..., Any] | None = None
    compile: Callable[[tuple[Any, ...] | Mapping[str, Any]], Program] | None = None
    _programs: collections.OrderedDict[str, Program] = dataclasses.field(
        default_factory=collections.OrderedDict
    )
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def answer(self, error: CallError, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Does what the policy says with a call that does not fit.

        Raises:
          CallError: `error`, where nothing else can be done.
          MlirfuseError: the model cannot be compiled for these arguments.
        """
        if self.policy == "fallback" and self.model is not None:
            return self._called(self.model, args, kwargs)
        if self.policy == "recompile" and self.compile is not None and not (args and kwargs):
            return self._program(args or kwargs)(*args, **kwargs)
        raise error

    def _called(
        self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """What the model returns, in arrays of the caller's kind."""
        results = model(*self._taken(args), **self._taken(kwargs))
        if arrays.common_kind(leaves((args, kwargs))) != "numpy":
            return results
        return _mapped(results, lambda v: arrays.numpy_of(v) if arrays.kind_of(v) else v)

    def _taken(self, values: Any) -> Any:
        """The arguments as the model takes them: a PyTorch module takes no arrays of numpy."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(self.model, torch.nn.Module):
            return values
        return _mapped(values, lambda v: arrays.torch_of(v) if isinstance(v, np.ndarray) else v)

    def _program(self, given: tuple[Any, ...] | Mapping[str, Any]) -> Program:
        assert self.compile is not None
        key = describe(given)
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self.compile(self._taken(given))
            self._programs.move_to_end(key)
            while len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)
            return self._programs[key]


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The structure with each leaf changed."""
    if isinstance(value, Mapping):
        return {k: _mapped(v, change) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(v, change) for v in value)
    return change(value)


def describe(value: Any) -> str:
    """What a program is compiled for: structure, shapes, element types, and plain values."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k!r}: {describe(v)}" for k, v in value.items())
        return f"{type(value).__name__}({inner})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(describe, value))})"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__}({list(value.shape)}, {value.dtype})"
    return repr(value)
