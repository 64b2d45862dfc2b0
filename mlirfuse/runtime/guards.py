"""Calls with arguments that a program was not compiled for.

program = mlirfuse.compile(model, (x,), guard="recompile")
program(longer_x)                       # compiles for this shape, once
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
"""Compile again, call the model itself, raise `CallError`, or skip the checks."""

MAX_PROGRAMS = 16
"""Programs that a module keeps for other arguments; the least recently called is dropped first."""

Program = Callable[..., Any]


def check_policy(policy: str) -> None:
    """Checks the name of a policy.

    Raises:
      UsageError: it is not one of `POLICIES`.
    """
    if policy not in POLICIES:
        raise UsageError(f"unknown guard '{policy}'{nearest(policy, POLICIES)}")


def check_sizes(
    sizes: Iterable[DynamicSize],
    values: Sequence[Any],
    specs: Sequence[TensorSpec],
    source: str,
) -> None:
    """Checks the dynamic sizes of a call.

    Args:
      sizes: the model's dynamic sizes, with their ranges.
      values: the arguments; each fits its spec.
      specs: specs of the arguments.
      source: name of the model, for the error.

    Raises:
      CallError: two dimensions of one size differ, or a size is out of its range.
    """
    for size in sizes:
        (first, axis), *others = size.dimensions
        got = values[first].shape[axis]
        where = f"axis {axis} of argument '{specs[first].name or first}'"
        for index, other in others:
            if values[index].shape[other] != got:
                raise CallError(
                    f"{source}: axis {other} of argument '{specs[index].name or index}' is"
                    f" {values[index].shape[other]}; expected {got}, as {where} is"
                )
        if got < size.min or (size.max is not None and got > size.max):
            raise CallError(f"{source}: {where} is {got}; expected {size}")


@dataclasses.dataclass(slots=True)
class Guard:
    """A policy with the model and the compiler that it needs. Safe to use from several threads.

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

    def handle(self, error: CallError, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Applies the policy to a call that does not fit.

        Raises:
          CallError: `error`, under the policy `error`.
          MlirfuseError: the model cannot be compiled for these arguments.
        """
        if self.policy == "fallback" and self.model is not None:
            return self._call_model(self.model, args, kwargs)
        if self.policy == "recompile" and self.compile is not None and not (args and kwargs):
            return self._program(args or kwargs)(*args, **kwargs)
        raise error

    def _call_model(
        self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """The model's results, as arrays of numpy if the arguments are."""
        results = model(*self._to_model(args), **self._to_model(kwargs))
        if arrays.common_kind(leaves((args, kwargs))) != "numpy":
            return results
        return _map_leaves(results, lambda v: arrays.numpy_of(v) if arrays.kind_of(v) else v)

    def _to_model(self, values: Any) -> Any:
        """Arrays of numpy as tensors, for a PyTorch module."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(self.model, torch.nn.Module):
            return values
        return _map_leaves(values, lambda v: arrays.torch_of(v) if isinstance(v, np.ndarray) else v)

    def _program(self, given: tuple[Any, ...] | Mapping[str, Any]) -> Program:
        assert self.compile is not None
        key = describe(given)
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self.compile(self._to_model(given))
            self._programs.move_to_end(key)
            while len(self._programs) > MAX_PROGRAMS:
                self._programs.popitem(last=False)
            return self._programs[key]


def _map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The structure with `change` applied to each leaf."""
    if isinstance(value, Mapping):
        return {k: _map_leaves(v, change) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_map_leaves(v, change) for v in value)
    return change(value)


def describe(value: Any) -> str:
    """Key of a program: the structure, shapes, element types and plain values of its arguments."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k!r}: {describe(v)}" for k, v in value.items())
        return f"{type(value).__name__}({inner})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(describe, value))})"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__}({list(value.shape)}, {value.dtype})"
    return repr(value)
