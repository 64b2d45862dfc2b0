"""The run-time arguments of a plan: tensors and scalars, which no kernel is compiled for."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mlirfuse.core import UsageError, nearest
from mlirfuse.fusion_plan.codes import Code, FusionPlanError
from mlirfuse.fusion_plan.ops import Derived, Op
from mlirfuse.runtime import arrays


class FusionOp(Protocol):
    """An op of a plan, as `FusionPlan.ops` and its methods return it."""

    @property
    def index(self) -> int:
        """Its place among the plan's ops."""

    @property
    def op(self) -> Op:
        """Its parameters."""


DEFAULTS: Mapping[str, float] = {
    "alpha": 1.0,
    "beta": 1.0,
    "gamma": 1.0,
    "epsilon": 1e-5,
    "momentum": 0.1,
    "scale": 1.0,
    "zero_point": 0.0,
}
"""Values of the scalars that are not set."""


class PlanArguments:
    """Values of the arguments of the ops of one plan; a set of arguments serves many calls.

    Attributes:
      ops: the ops of the plan.
    """

    def __init__(self, derived: Sequence[Derived], ops: Sequence[Op]) -> None:
        self.ops = tuple(ops)
        self._derived = derived
        self._values: dict[tuple[int, str], Any] = {}
        self._placed: dict[tuple[int, str, str], Any] = {}

    def set(self, op: FusionOp | int, **values: Any) -> None:
        """Sets arguments of an op by their names in `op.tensors`.

        Raises:
          UsageError: the op is not of this plan, or has no such argument, or a scalar is no number.
        """
        index = self._index(op)
        known = self._derived[index].arguments
        for name, value in values.items():
            kind = self.ops[index].kind
            if name not in known:
                raise UsageError(f"{kind} has no argument '{name}'{nearest(name, known)}")
            if isinstance(value, str) or (value is None and name in DEFAULTS):
                raise UsageError(f"argument '{name}' of {kind} is {known[name]}, not {value!r}")
            self._values[index, name] = value
            for placed in [p for p in self._placed if p[:2] == (index, name)]:
                del self._placed[placed]

    def _index(self, op: FusionOp | int) -> int:
        """The place of an op in the plan.

        Raises:
          UsageError: it is not of this plan.
        """
        index = op if isinstance(op, int) else op.index
        known = 0 <= index < len(self.ops)
        if not known or (not isinstance(op, int) and op.op != self.ops[index]):
            shown = index if isinstance(op, int) else f"{index}, {op.op.kind},"
            kinds = ", ".join(each.kind for each in self.ops)
            raise UsageError(
                f"op {shown} is not of the plan of these arguments, whose ops are {kinds}"
            )
        return index

    def set_conv(
        self, op: FusionOp | int, alpha: float = 1.0, beta: float = 0.0, weights: Any = None
    ) -> None:
        """Sets the filter of a convolution and the factor of its result.

        Raises:
          UsageError: `beta`, the factor of the output's former value, is not 0.
        """
        if beta != 0.0:
            raise UsageError(
                f"beta={beta}: a plan writes its output; add a former value as a residual"
            )
        self.set(op, alpha=alpha, weights=weights)

    def set_matmul(self, op: FusionOp | int, weights: Any) -> None:
        """Sets the weights of a matmul."""
        self.set(op, weights=weights)

    def set_bias(self, op: FusionOp | int, bias: Any) -> None:
        """Sets a bias."""
        self.set(op, bias=bias)

    def set_residual(self, op: FusionOp | int, residual: Any) -> None:
        """Sets the tensor that is added."""
        self.set(op, residual=residual)

    def set_activation(
        self, op: FusionOp | int, *, alpha: float = 1.0, beta: float = 1.0, gamma: float = 1.0
    ) -> None:
        """Sets the scalars of an activation; those that its mode does not read are ignored.

        Raises:
          UsageError: the op is no activation of this plan.
        """
        index = self._index(op)
        kind = self.ops[index].kind
        if not kind.startswith("activation"):
            raise UsageError(f"op {index}, {kind}, is no activation")
        given = {"alpha": alpha, "beta": beta, "gamma": gamma}
        read = self._derived[index].arguments
        self.set(index, **{name: value for name, value in given.items() if name in read})

    def set_activation_backward(
        self,
        op: FusionOp | int,
        x: Any,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        gamma: float = 1.0,
    ) -> None:
        """Sets the input of the activation and its scalars."""
        self.set_activation(op, alpha=alpha, beta=beta, gamma=gamma)
        self.set(op, x=x)

    def set_batch_norm(
        self,
        op: FusionOp | int,
        scale: Any,
        bias: Any,
        mean: Any,
        variance: Any,
        epsilon: float = 1e-5,
    ) -> None:
        """Sets scale, bias and statistics of a batch norm in inference."""
        self.set(op, scale=scale, bias=bias, mean=mean, variance=variance, epsilon=epsilon)

    def set_batch_norm_training(
        self,
        op: FusionOp | int,
        scale: Any,
        bias: Any,
        running_mean: Any,
        running_variance: Any,
        *,
        momentum: float = 0.1,
        epsilon: float = 1e-5,
    ) -> None:
        """Sets scale, bias and running statistics; `momentum` is the part of this batch in them."""
        running = {"running_mean": running_mean, "running_variance": running_variance}
        self.set(op, scale=scale, bias=bias, momentum=momentum, epsilon=epsilon, **running)

    def set_batch_norm_backward(
        self, op: FusionOp | int, x: Any, scale: Any, saved_mean: Any, saved_inverse_deviation: Any
    ) -> None:
        """Sets the batch norm's input, its scale and the saved statistics."""
        saved = {"saved_mean": saved_mean, "saved_inverse_deviation": saved_inverse_deviation}
        self.set(op, x=x, scale=scale, **saved)

    def set_norm(
        self, op: FusionOp | int, scale: Any, bias: Any = None, *, epsilon: float = 1e-5
    ) -> None:
        """Sets scale, bias (of layer norm) and epsilon."""
        self.set(op, scale=scale, epsilon=epsilon, **({} if bias is None else {"bias": bias}))

    def set_quantize(self, op: FusionOp | int, scale: float, zero_point: float = 0.0) -> None:
        """Sets scale and zero point."""
        self.set(op, scale=scale, zero_point=zero_point)

    def set_attention(self, op: FusionOp | int, keys: Any, values: Any) -> None:
        """Sets keys and values."""
        self.set(op, keys=keys, values=values)

    def flat(self, order: Sequence[tuple[int, str]], x: Any) -> list[Any]:
        """The values in the program's order, scalars as arrays of the kind of `x` and beside it.

        Raises:
          FusionPlanError: a tensor is not set.
        """
        return [self._value(index, name, x) for index, name in order]

    def _value(self, index: int, name: str, x: Any) -> Any:
        value = self._values.get((index, name))
        spec = self._derived[index].arguments[name]
        if value is None and not spec.shape:
            value = DEFAULTS.get(name)
        if value is None:
            raise FusionPlanError(
                Code.MISSING_ARGUMENT,
                f"argument '{name}' of op {index}, {self.ops[index].kind}, is not set: {spec}",
            )
        kind = arrays.kind_of(x)
        if spec.shape or (arrays.kind_of(value) == kind and not _is_number(value)):
            return value
        key = (index, name, f"{kind} {getattr(x, 'device', '')}")
        if key not in self._placed:
            self._placed[key] = _beside(float(value), spec.dtype, x, kind)
        return self._placed[key]


def _is_number(value: Any) -> bool:
    """Whether it is a number, or an array of numpy without dimensions."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0
    return isinstance(value, numbers.Number | np.generic)


def _beside(value: float, dtype: str, x: Any, kind: str | None) -> Any:
    """A scalar of an element type as an array of the kind of another one, on its device."""
    made = np.asarray(value, arrays.numpy_dtype(dtype))
    if kind == "torch":
        return x.new_full((), value, dtype=getattr(sys.modules["torch"], made.dtype.name))
    if kind == "jax":
        import jax.numpy

        return jax.numpy.asarray(made)
    return made
