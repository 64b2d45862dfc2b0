"""The base of the ops of plans, and the tensors that follow from an op's input."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.tensors import TensorSpec

INPUT, OUTPUT = "input", "output"


@dataclasses.dataclass(frozen=True, slots=True)
class Derived:
    """Tensors of one op, which follow from its input.

    Attributes:
      output: the result that the next op reads.
      arguments: name -> tensor that the caller gives; a scalar has no dimensions.
      results: name -> further result of the plan.
    """

    output: TensorSpec
    arguments: Mapping[str, TensorSpec] = dataclasses.field(default_factory=dict)
    results: Mapping[str, TensorSpec] = dataclasses.field(default_factory=dict)


SCALAR = TensorSpec((), "f32")


@dataclasses.dataclass(frozen=True)
class Op:
    """An op with its parameters.

    Attributes:
      kind: name of the method of `FusionPlan` that adds it.
    """

    kind: ClassVar[str]

    def derive(self, given: TensorSpec) -> Derived:
        """The op's tensors.

        Raises:
          Refusal: the op does not take such an input.
        """
        raise NotImplementedError


def need_image(given: TensorSpec) -> None:
    """Checks that the tensor has a layout.

    Raises:
      Refusal: it has none.
    """
    if not given.layout:
        raise Refusal(Code.LAYOUT, f"{given} has no layout such as NCHW")


def need_rank(given: TensorSpec, kind: str) -> None:
    """Checks that the tensor has a dimension.

    Raises:
      Refusal: it is a scalar.
    """
    if not given.shape:
        raise Refusal(Code.SHAPE, f"{kind} of a scalar")


def need_positive(value: int, name: str) -> None:
    """Checks that a parameter is a number of elements.

    Raises:
      Refusal: it is none, or is not positive.
    """
    if not isinstance(value, int) or value < 1:
        raise Refusal(Code.SHAPE, f"{name} is a positive number, not {value!r}")
