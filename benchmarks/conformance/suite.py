"""Cases, the suites that they come from, and the outcomes of their check."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol


class Outcome(enum.StrEnum):
    """The result of the check of a case."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_EXPORTED = "refused by the exporter"
    NO_LOWERING = "no lowering in IREE"
    FAILED = "failed in mlirfuse"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of one operator, and its expected results.

    Attributes:
      name: name in its suite, e.g. `add/float32/3`; the first part is its group.
      arguments: arguments of the call: arrays of the framework, scalars and containers of them.
      expected: the framework's results, flat, as arrays of the framework; None for a result that
        is not compared (uninitialized memory).
      rtol: error allowed relative to the expected element; the suite's own where it has one.
      atol: absolute error allowed.
      call: the operator, `call(*arguments)`, returns one array or a container of arrays; None
        where `model` is given.
      model: a serialized model, for ONNX.
    """

    name: str
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    rtol: float
    atol: float
    call: Callable[..., Any] | None = None
    model: bytes | None = None

    @property
    def group(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]


class NotExportedError(Exception):
    """The framework itself cannot export a program."""


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """Several cases as one program.

    Attributes:
      model: a model for `mlirfuse.compile`.
      example_inputs: its example inputs.
      arguments: flat arguments of a call, as arrays of numpy or the framework.
    """

    model: Any
    example_inputs: Any
    arguments: tuple[Any, ...]


class Suite(Protocol):
    """A framework's collection of operators."""

    name: str
    """`onnx`, `torch`, `torch-modules` or `jax`."""

    merges: bool
    """Whether several cases can be one program."""

    def groups(self) -> Sequence[str]:
        """Names of all groups, in a fixed order."""

    def cases(self, group: str) -> Sequence[Case]:
        """The cases of a group, the same ones in each run; the framework computes `expected`."""

    def program(self, cases: Sequence[Case]) -> Program:
        """The cases as one program, whose flat results are those of the cases in order.

        Raises:
          NotExportedError: the framework cannot trace or export it.
        """

    def stock(self, cases: Sequence[Case], folder: Path) -> tuple[Path, str]:
        """Exports the cases by the framework and IREE's own importer, without code of ours.

        Returns:
          A file of MLIR, and the value of `--iree-input-type` for `iree-compile`.

        Raises:
          Exception: of any kind: IREE's importer does not take it.
        """
