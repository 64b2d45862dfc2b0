"""The description of a plan: input and ops, as values, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from mlirfuse.core import UsageError, nearest
from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.ops import OPS, Derived, Op
from mlirfuse.fusion_plan.tensors import DTYPES, TensorSpec

DIRECTIONS = ("vertical",)
"""Axes of fusion: from an op to the next one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """A plan as a value.

    Attributes:
      input: the first op's input.
      ops: the ops in the order of the data.
    """

    input: TensorSpec
    ops: tuple[Op, ...] = ()

    def derived(self) -> list[Derived]:
        """The tensors of each op.

        Raises:
          Refusal: an op does not take its input; `op` is its index.
        """
        current = self.input
        if current.dtype not in DTYPES:
            raise Refusal(Code.DTYPE, f"element type {current.dtype}")
        found = []
        for index, op in enumerate(self.ops):
            try:
                found.append(op.derive(current))
            except Refusal as refusal:
                raise dataclasses.replace(refusal, op=index) from None
            current = found[-1].output
        return found

    def with_ops(self, *ops: Op) -> Description:
        """The plan with other ops."""
        return dataclasses.replace(self, ops=ops)

    def __str__(self) -> str:
        """The plan in one line."""
        layout = f" {self.input.layout}" if self.input.layout else ""
        return " -> ".join([f"{self.input}{layout}", *map(described, self.ops)])

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {
            "input": dataclasses.asdict(self.input),
            "ops": [{"kind": op.kind, **dataclasses.asdict(op)} for op in self.ops],
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Description:
        """The plan that `to_dict` wrote.

        Raises:
          UsageError: there is no such op or parameter.
        """
        try:
            given = entry["input"]
            spec = TensorSpec(tuple(given["shape"]), given["dtype"], given["layout"])
            return cls(spec, tuple(_op(dict(op)) for op in entry["ops"]))
        except (KeyError, TypeError) as error:
            raise UsageError(f"not the description of a plan: {error}") from error

    def key(self) -> str:
        """The description as one line of JSON."""
        return json.dumps(self.to_dict(), sort_keys=True)


def _op(entry: dict[str, Any]) -> Op:
    kind = entry.pop("kind")
    if kind not in OPS:
        raise UsageError(f"unknown op '{kind}'{nearest(kind, OPS)}")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    return OPS[kind](**values)


_ALWAYS_NAMED = frozenset({"activation", "activation_backward", "norm", "pool", "reduce"})
"""Kinds whose mode is part of their text."""


def described(op: Op) -> str:
    """An op with the parameters that differ from their defaults."""
    shown = [op.kind]
    for field in dataclasses.fields(op):
        value = getattr(op, field.name)
        named = op.kind in _ALWAYS_NAMED and field.name == "mode"
        if named or field.default is dataclasses.MISSING or value != field.default:
            text = "x".join(map(str, value)) if isinstance(value, tuple) else value
            shown.append(f"{field.name}={text}")
    return " ".join(shown)
