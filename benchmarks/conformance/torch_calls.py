"""Calls of PyTorch's operators and modules: their expected results, and programs of several."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.conformance.suite import Case, NotExportedError, Program

RTOL = {
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 4e-2,
}
"""Relative error allowed. PyTorch's own tests allow 1.3e-6, 1e-3 and 1.6e-2 between two
implementations of one operator; composed operators round in between, in another order."""

ATOL = {
    torch.float32: 1e-5,
    torch.complex64: 1e-5,
    torch.float16: 1e-3,
    torch.bfloat16: 1e-2,
}

EAGER_ERRORS = 4.0
"""PyTorch's own error, against the same operator in double precision, is allowed this often."""

MAX_EAGER_ERROR = 0.02
"""Bound of that allowance, relative to the largest expected element."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """An operator or a module with its arguments; tensors among them are those of the call."""

    operator: Callable[..., Any]
    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results that are tensors."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return _tensors(self.operator(*args, **kwargs))

    def copied(self) -> Call:
        """The call of a copy of its module, whose state it may update."""
        if not isinstance(self.operator, torch.nn.Module):
            return self
        return dataclasses.replace(self, operator=copy.deepcopy(self.operator))

    def converted(self, dtype: torch.dtype) -> Call:
        """The call of a copy of its module whose state is of another floating-point type."""
        other = self.copied()
        if isinstance(other.operator, torch.nn.Module):
            is_complex = any(p.is_complex() for p in other.operator.parameters())
            other.operator.to(dtype.to_complex() if is_complex else dtype)
        return other


class Merged(torch.nn.Module):
    """Several calls as one module of flat arguments and results."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases
        operators = [case.call.operator for case in cases if isinstance(case.call, Call)]
        self.modules_called = torch.nn.ModuleList(
            operator for operator in operators if isinstance(operator, torch.nn.Module)
        )

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results of all calls."""
        given, results = iter(tensors), []
        for case in self.cases:
            assert case.call is not None
            results += case.call(*itertools.islice(given, len(case.arguments)))
        return tuple(results)


class _Draws(TorchDispatchMode):  # type: ignore[misc]
    """A context that sees whether a call draws random numbers, with dropout for example."""

    any = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        seeded = torch.Tag.nondeterministic_seeded in function.tags
        self.any |= seeded and "scaled_dot_product" not in function.name()
        return function(*args, **(kwargs or {}))


class TorchSuite:
    """Programs of calls, for suites of PyTorch; see `benchmarks.conformance.suite.Suite`."""

    merges = True

    def program(self, cases: Sequence[Case]) -> Program:
        """One module that takes and returns flat tuples of tensors."""
        tensors = arguments(cases)
        try:
            return Program(_exported(cases, tensors), None, tensors)
        except Exception as error:
            raise NotExportedError(f"{type(error).__name__}: {error}") from error

    def stock(self, cases: Sequence[Case], folder: Path) -> tuple[Path, str]:
        """Export, PyTorch's own decompositions, IREE's FX importer."""
        from iree.compiler.extras.fx_importer import FxImporter

        with silent():
            program = _exported(cases, arguments(cases)).run_decompositions()
            importer = FxImporter()
            importer.import_program(program, func_name="main")
        path = folder / "stock.mlir"
        path.write_text(str(importer.module))
        return path, "torch"


def silent() -> contextlib.AbstractContextManager[Any]:
    return warnings.catch_warnings(action="ignore")


def arguments(cases: Sequence[Case]) -> tuple[Any, ...]:
    return tuple(tensor for case in cases for tensor in case.arguments)


def _exported(cases: Sequence[Case], tensors: tuple[Any, ...]) -> torch.export.ExportedProgram:
    with silent(), torch.no_grad():
        # Tensors that are one object are merged by the export.
        return torch.export.export(Merged(cases), tuple(t.clone() for t in tensors))


Sample = tuple[Call, tuple[torch.Tensor, ...]]


def evenly(samples: Sequence[Sample], count: int) -> list[Sample]:
    """As many samples, evenly over the list."""
    if len(samples) <= count:
        return list(samples)
    step = max(1, count - 1)
    return [samples[index * (len(samples) - 1) // step] for index in range(count)]


def case_of(
    name: str,
    dtype: torch.dtype,
    call: Call,
    tensors: tuple[torch.Tensor, ...],
    *,
    in_float32: bool = False,
) -> Case | None:
    """The case; None where PyTorch refuses the call, draws random numbers or returns no tensor.

    Args:
      name: its name.
      dtype: the element type that the errors allowed depend on.
      call: the call.
      tensors: its arguments.
      in_float32: whether the expected results of half precision are computed in float32.
    """
    drawn = _Draws()
    try:
        with silent(), torch.no_grad(), drawn:
            expected = call.copied()(*(t.clone() for t in tensors))
            if in_float32:
                wide = call.converted(torch.float32)(
                    *(t.float() if inexact(t.dtype) else t for t in tensors)
                )
                expected = tuple(t.to(e.dtype) for t, e in zip(wide, expected, strict=True))
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None
    if not expected or drawn.any:
        return None
    exact = _exact(call, tensors)
    overflow = [
        _overflows(got, exact[index] if index < len(exact) else got)
        for index, got in enumerate(expected)
    ]
    return Case(
        name=name,
        arguments=tensors,
        expected=tuple(
            None if out else t.detach().resolve_conj().resolve_neg()
            for out, t in zip(overflow, expected, strict=True)
        ),
        rtol=RTOL.get(dtype, RTOL[torch.float32]),
        atol=max(ATOL.get(dtype, ATOL[torch.float32]), _eager_error(exact, expected)),
        call=call,
    )


def _exact(call: Call, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The operator's results in double precision; none where it has no double form.

    Integers are promoted to the default type, which is double too.
    """
    wider = {torch.complex64: torch.complex128}
    wide = [t.to(wider.get(t.dtype, torch.float64)) if inexact(t.dtype) else t for t in tensors]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with silent(), torch.no_grad():
            return call.converted(torch.float64)(*(t.clone() for t in wide))
    except Exception:
        return ()
    finally:
        torch.set_default_dtype(default)


def _overflows(got: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether PyTorch's result in half precision overflows on the way to a number of its type."""
    if got.dtype not in (torch.float16, torch.bfloat16) or got.shape != exact.shape:
        return False
    fits = exact.isfinite() & (exact.abs() < torch.finfo(got.dtype).max)
    return bool((fits & ~got.isfinite()).any())


def _eager_error(exact: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> float:
    """The absolute error that PyTorch's own error justifies."""
    found = 0.0
    for got, want in zip(expected, exact, strict=False):
        if not inexact(got.dtype) or got.shape != want.shape or not got.numel():
            continue
        finite = got.isfinite() & want.isfinite()
        got, want = got[finite].to(want.dtype), want[finite]
        if got.numel():
            error, size = (got - want).abs().max().item(), want.abs().max().item()
            found = max(found, min(EAGER_ERRORS * error, MAX_EAGER_ERROR * size))
    return found


def inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _tensors(results: Any) -> tuple[torch.Tensor, ...]:
    return tuple(leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor))
