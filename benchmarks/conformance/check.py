"""Compiles the cases of a group, calls the programs and compares their results.

The cases of a group are one program where that compiles with every part of mlirfuse. A program that
does not is halved until single cases remain: each failure, and each part left out, has its case.
"""

from __future__ import annotations

import dataclasses
import pickle
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mlirfuse
from benchmarks.conformance.compare import difference, flat
from benchmarks.conformance.suite import Case, NotExportedError, Outcome, Suite
from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.benchmarking.messages import without_folders
from mlirfuse.compilation import computes_f64_as_f32
from mlirfuse.core import ImportFailedError, MlirfuseError, Reason
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import arrays

TIMEOUT = 120.0
"""Seconds for one step of the compiler."""

MAX_MERGED = 48
"""Most cases of one program."""

_MESSAGE_CHARS = 240

_BROKEN = re.compile(
    r"CUDA_ERROR_(?:ASSERT|ECC_UNCORRECTABLE|HARDWARE_STACK_ERROR|ILLEGAL_ADDRESS|"
    r"ILLEGAL_INSTRUCTION|INVALID_ADDRESS_SPACE|INVALID_PC|INVALID_VALUE|LAUNCH_FAILED|"
    r"LAUNCH_TIMEOUT|MISALIGNED_ADDRESS)"
)
"""Errors after which a process has no use of its CUDA context."""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a case.

    Attributes:
      case: name of the case.
      outcome: one of `Outcome`.
      detail: message of the failure, or the first difference.
      contained: whether a part of mlirfuse failed and was left out.
    """

    case: str
    outcome: Outcome
    detail: str = ""
    contained: bool = False


class Checker:
    """Checks cases of a suite for one target."""

    def __init__(self, suite: Suite, target: str, programs: Path | None = None) -> None:
        """Checks nothing yet.

        Args:
          suite: the suite that the cases are from.
          target: the machine to compile for.
          programs: folder for the programs and their arguments, which another machine runs; None to
            run them here.
        """
        self._suite = suite
        self._target = target
        self._programs = programs
        self._without_f64 = targets.parse(target).demotes_f64
        switches = {"enable_feature": ["kernels"]} if target.startswith("cuda") else {}
        self._options = FusionOptions.of(switches)

    def group(self, name: str, *, merged: bool = True) -> list[Result]:
        """Checks a group; a crash of a program ends the process."""
        cases = self._suite.cases(name)
        size = MAX_MERGED if merged and self._suite.merges else 1
        return [
            result
            for start in range(0, len(cases), size)
            for result in self.check(cases[start : start + size])
        ]

    def check(self, cases: Sequence[Case]) -> list[Result]:
        """Checks cases as one program, or halves of them."""
        if self._demotes(cases):
            missing = Result(cases[0].name, Outcome.NO_LOWERING, "the target has no f64")
            return self._halves(cases) or [missing]
        try:
            program = self._suite.program(cases)
            fused = self._compiled(program.model, program.example_inputs)
        except Exception as error:
            return self._halves(cases) or [self._failure(cases[0], error)]
        contained = any(
            d.reason is Reason.FELL_BACK for d in fused.report.decisions if d.reason is not None
        )
        if contained and len(cases) > 1:
            # Each part that was left out has its case, as each failure has.
            return self._halves(cases)
        if computes_f64_as_f32(fused.report):
            narrow = Result(cases[0].name, Outcome.NO_LOWERING, "no code in f64", contained)
            return self._halves(cases) or [narrow]
        arguments = program.arguments if program.example_inputs is None else program.example_inputs
        if self._programs is not None:
            self._keep(fused, arguments, cases)
            return [Result(case.name, Outcome.RIGHT, "compiled", contained) for case in cases]
        try:
            results = flat(fused(*arguments))
        except Exception as error:
            # An assertion that IREE's importer leaves in the program.
            missing = "unimplemented: " in str(error)
            outcome = Outcome.NO_LOWERING if missing else Outcome.FAILED
            failed = Result(cases[0].name, outcome, message(error), contained)
            return self._halves(cases) or [failed]
        return judged(cases, results, contained)

    def _demotes(self, cases: Sequence[Case]) -> bool:
        """Whether the target has no f64, and a result of a case is one."""
        results = (value for case in cases for value in case.expected)
        return self._without_f64 and any(_is_f64(value) for value in results)

    def _halves(self, cases: Sequence[Case]) -> list[Result]:
        """Checks the halves of several cases; no results for a single case."""
        if len(cases) == 1:
            return []
        half = len(cases) // 2
        return [*self.check(cases[:half]), *self.check(cases[half:])]

    def _compiled(self, model: Any, example_inputs: Any) -> mlirfuse.FusedModule:
        return mlirfuse.compile(
            model,
            example_inputs,
            target=self._target,
            options=self._options,
            cache=False,
            timeout=TIMEOUT,
        )

    def _failure(self, case: Case, error: Exception) -> Result:
        text = message(error)
        if isinstance(error, NotExportedError) or (
            isinstance(error, ImportFailedError) and "cannot export" in text
        ):
            return Result(case.name, Outcome.NOT_EXPORTED, text)
        stock = self._stock_failure(case)
        if stock is None:
            return Result(case.name, Outcome.FAILED, text)
        return Result(case.name, Outcome.NO_LOWERING, f"{text} | stock: {stock}")

    def _stock_failure(self, case: Case) -> str | None:
        """Why IREE and its own importer cannot compile a case; None where they can."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                path, input_type = self._suite.stock([case], Path(folder))
                compiler = Compiler(targets.parse(self._target), FusionOptions(), TIMEOUT)
                compiler.generate(
                    path, Path(folder, "stock.vmfb"), fused=False, input_type=input_type
                )
            except Exception as error:
                return message(error)
        return None

    def _keep(
        self, fused: mlirfuse.FusedModule, arguments: Sequence[Any], cases: Sequence[Case]
    ) -> None:
        """Writes a program, its flat arguments and the cases for a run on another machine."""
        assert self._programs is not None
        self._programs.mkdir(parents=True, exist_ok=True)
        # Its first case names it: a group that is checked again replaces its programs.
        name = f"{self._suite.name}-{quote(cases[0].name, safe='')}"
        fused.save(self._programs / f"{name}.vmfb")
        flattened = fused._flat_arguments(tuple(arguments), {})
        kept = {
            "arguments": [np_array(value) for value in flattened],
            "cases": [
                {
                    "name": case.name,
                    "expected": [np_array(value) for value in case.expected],
                    "rtol": case.rtol,
                    "atol": case.atol,
                }
                for case in cases
            ],
        }
        (self._programs / f"{name}.pickle").write_bytes(pickle.dumps(kept))


def breaks_device(results: Iterable[Result]) -> bool:
    """Whether a case left its process without a device: its next cases fail, too."""
    return any(_BROKEN.search(result.detail) for result in results)


def np_array(value: Any) -> Any:
    """An array of a framework as one of numpy; scalars and None unchanged."""
    return value if arrays.kind_of(value) is None else arrays.numpy_of(value)


def _is_f64(value: Any) -> bool:
    return arrays.kind_of(value) is not None and "f64" in arrays.dtype_name(np_array(value))


def judged(cases: Sequence[Case], results: Sequence[Any], contained: bool) -> list[Result]:
    """The outcomes of cases whose flat results are concatenated."""
    found = []
    start = 0
    for case in cases:
        part = results[start : start + len(case.expected)]
        start += len(case.expected)
        different = difference(part, case.expected, case.rtol, case.atol)
        outcome = Outcome.WRONG if different else Outcome.RIGHT
        found.append(Result(case.name, outcome, different, contained))
    return found


def message(error: Exception) -> str:
    """The text of an error on one line, with the names of files alone, not their folders."""
    kind = "" if isinstance(error, MlirfuseError) else f"{type(error).__name__}: "
    text = without_folders(f"{kind}{error}")
    return text if len(text) <= _MESSAGE_CHARS else f"{text[:_MESSAGE_CHARS]}..."
