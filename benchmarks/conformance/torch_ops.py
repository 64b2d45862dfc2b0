"""PyTorch's own operator database with its sample inputs, forward, as a suite.

Its arguments, one or several tensors for each sample, are those that PyTorch's tests use. For
floating-point types a further case of elementwise operators and reductions holds zeros of both
signs, infinities and NaN.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import random
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import (
    BinaryUfuncInfo,
    OpInfo,
    ReductionOpInfo,
    UnaryUfuncInfo,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.conformance.suite import Case, NotExportedError, Program

TYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)

SAMPLES = 6
"""Samples of an operator in one type."""

MAX_SAMPLES_READ = 400
"""Samples of which these are chosen; some operators generate thousands."""

MAX_ELEMENTS = 100_000
"""Elements of all arguments of a sample; larger samples are left out."""

MAX_EXTREMES = 1000
"""Elements of a tensor with special values: in large ones PyTorch orders equal ones at random."""

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

FOURIER_ERROR = 4.0
"""Error of an element of a Fourier transform, in roundings of the largest element: each element is
a sum of all arguments, and an algorithm is as exact as another one by the norm of all errors alone.
PyTorch's own error is zero where small integers cancel."""

_RANDOM = "draws random numbers"
_UNINITIALIZED = "returns uninitialized memory"
_IN_PLACE = "writes into its argument"
_NO_TENSOR = "returns no tensor"
_LAYOUT = "is about sparse layouts"
_NOT_UNIQUE = "its result is unique only up to signs or the order of its parts"
_CUDA = "runs on CUDA only"

LEFT_OUT = {
    **dict.fromkeys(
        (
            "bernoulli",
            "multinomial",
            "nn.functional.alpha_dropout",
            "nn.functional.dropout",
            "nn.functional.dropout2d",
            "nn.functional.dropout3d",
            "nn.functional.feature_alpha_dropout.with_train",
            "nn.functional.feature_alpha_dropout.without_train",
            "nn.functional.fractional_max_pool2d",
            "nn.functional.fractional_max_pool3d",
            "nn.functional.rrelu",
            "normal",
            "normal.number_mean",
            "pca_lowrank",
            "rand_like",
            "randint",
            "randint_like",
            "randn",
            "randn_like",
            "svd_lowrank",
        ),
        _RANDOM,
    ),
    **dict.fromkeys(
        (
            "cauchy",
            "exponential",
            "geometric",
            "log_normal",
            "normal.in_place",
            "resize_",
            "resize_as_",
            "uniform",
            "zero_",
        ),
        _IN_PLACE,
    ),
    **dict.fromkeys(
        (
            "empty",
            "empty_like",
            "empty_permuted",
            "empty_strided",
            "new_empty",
            "new_empty_strided",
        ),
        _UNINITIALIZED,
    ),
    **dict.fromkeys(("allclose", "broadcast_shapes", "equal", "item"), _NO_TENSOR),
    **dict.fromkeys(("sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"), _LAYOUT),
    **dict.fromkeys(("linalg.eig", "linalg.eigh", "linalg.svd", "svd"), _NOT_UNIQUE),
    **dict.fromkeys(
        (
            "bmm.triton_optimized",
            "jiterator_2inputs_2outputs",
            "jiterator_4inputs_with_extra_args",
            "jiterator_binary",
            "jiterator_binary_return_by_ref",
            "jiterator_unary",
            "torch.ops.aten._efficient_attention_forward",
            "torch.ops.aten._flash_attention_forward",
        ),
        _CUDA,
    ),
}
"""Entries of the database that are no cases, and the reason."""

_ANY_OF_EQUAL = {"kthvalue", "median", "mode", "nanmedian", "topk"}
"""Operators whose second result is the index of any one of equal elements."""

_IN_FLOAT32 = {"grid_sampler_2d", "grid_sampler_3d", "histc", "nn.functional.grid_sample"}
"""Operators whose positions PyTorch's CPU kernels round to half precision in each step. Its CUDA
kernels and its decompositions compute them in float32: so are the expected results."""

_CASTS_TO_INTEGERS = {"byte", "char", "int", "long", "short"}
"""Casts of NaN and infinities, which are undefined: PyTorch's results differ between devices."""

_EXTREMES = {
    "clamp",
    "cummax",
    "cummin",
    "logcumsumexp",
    "logsumexp",
    "log_softmax",
    "msort",
    "max.reduction_no_dim",
    "max.reduction_with_dim",
    "min.reduction_no_dim",
    "min.reduction_with_dim",
    "nn.functional.adaptive_max_pool2d",
    "nn.functional.hardtanh",
    "nn.functional.leaky_relu",
    "nn.functional.max_pool1d",
    "nn.functional.max_pool2d",
    "softmax",
    "sort",
    "topk",
    "where",
}
"""Further operators that get a case with zeros, infinities and NaN."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """An operator with its arguments; tensors among them are those of the call."""

    operator: Callable[..., Any]
    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return _tensors(self.operator(*args, **kwargs))


class _Merged(torch.nn.Module):
    """Several calls as one module of flat arguments and results."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given, results = iter(tensors), []
        for case in self.cases:
            assert case.call is not None
            results += case.call(*itertools.islice(given, len(case.arguments)))
        return tuple(results)


class _Draws(TorchDispatchMode):  # type: ignore[misc]
    """A context that sees whether an operator draws random numbers, with dropout for example."""

    any = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        seeded = torch.Tag.nondeterministic_seeded in function.tags
        self.any |= seeded and "scaled_dot_product" not in function.name()
        return function(*args, **(kwargs or {}))


class TorchOps:
    """The suite; see `benchmarks.conformance.suite.Suite`.

    Args:
      types: element types of the samples.
      samples: number of samples of an operator in one type.
    """

    name = "torch"
    merges = True

    def __init__(self, types: Sequence[torch.dtype] = TYPES, samples: int = SAMPLES) -> None:
        self._types = types
        self._samples = samples

    def groups(self) -> Sequence[str]:
        """The entries of the database."""
        return [name for name in _entries() if name not in LEFT_OUT]

    def cases(self, group: str) -> Sequence[Case]:
        """Samples of all types that PyTorch supports on the CPU."""
        op = _entries()[group]
        supported = op.supported_dtypes("cpu")
        cases = []
        for dtype in self._types:
            if dtype not in supported:
                continue
            chosen = _spread(list(_samples(op, dtype, group)), self._samples)
            named = [(str(index), *sample) for index, sample in enumerate(chosen)]
            if dtype.is_floating_point and _has_extremes(op, group):
                named += [
                    ("extremes", call, _with_extremes(group, tensors))
                    for call, tensors in chosen
                    if tensors and tensors[0].dtype == dtype
                    if 10 <= tensors[0].numel() <= MAX_EXTREMES
                ][:1]
            kind = str(dtype).removeprefix("torch.")
            for index, call, tensors in named:
                case = _case(f"{group}/{kind}/{index}", dtype, call, tensors)
                cases += [case] if case is not None else []
        return cases

    def program(self, cases: Sequence[Case]) -> Program:
        """One module that takes and returns flat tuples of tensors."""
        tensors = _arguments(cases)
        try:
            return Program(_exported(cases, tensors), None, tensors)
        except Exception as error:
            raise NotExportedError(f"{type(error).__name__}: {error}") from error

    def stock(self, cases: Sequence[Case], folder: Path) -> tuple[Path, str]:
        """Export, PyTorch's own decompositions, IREE's FX importer."""
        from iree.compiler.extras.fx_importer import FxImporter

        with _silent():
            program = _exported(cases, _arguments(cases)).run_decompositions()
            importer = FxImporter()
            importer.import_program(program, func_name="main")
        path = folder / "stock.mlir"
        path.write_text(str(importer.module))
        return path, "torch"


@functools.cache
def _entries() -> dict[str, OpInfo]:
    return {
        op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db
    }


def _silent() -> contextlib.AbstractContextManager[Any]:
    return warnings.catch_warnings(action="ignore")


def _arguments(cases: Sequence[Case]) -> tuple[Any, ...]:
    return tuple(tensor for case in cases for tensor in case.arguments)


def _exported(cases: Sequence[Case], tensors: tuple[Any, ...]) -> torch.export.ExportedProgram:
    with _silent(), torch.no_grad():
        # Tensors that are one object are merged by the export.
        return torch.export.export(_Merged(cases).eval(), tuple(t.clone() for t in tensors))


_Sample = tuple[_Call, tuple[torch.Tensor, ...]]


def _samples(op: OpInfo, dtype: torch.dtype, group: str) -> Iterator[_Sample]:
    """The database's samples that are small and of plain tensors, the same ones in each run."""
    seed = zlib.crc32(f"{group}/{dtype}".encode())
    random.seed(seed)
    torch.manual_seed(seed)
    with _silent():
        read = list(itertools.islice(op.sample_inputs("cpu", dtype), MAX_SAMPLES_READ))
    for sample in read:
        if group in ("argsort", "sort"):
            sample.kwargs.setdefault("stable", True)
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if any(isinstance(leaf, torch.Generator) for leaf in leaves):
            continue
        if sample.kwargs.get("dropout_p"):  # draws random numbers
            continue
        if any(t.layout != torch.strided for t in tensors):
            continue
        if sum(t.numel() for t in tensors) > MAX_ELEMENTS:
            continue
        plain = tuple(t.detach().resolve_conj().resolve_neg() for t in tensors)
        yield _Call(op.op, tuple(leaves), spec), plain


def _spread(samples: Sequence[_Sample], count: int) -> list[_Sample]:
    """Samples of different shapes and other arguments, evenly over the list."""
    different = {}
    for call, tensors in samples:
        rest = [leaf for leaf in call.leaves if not isinstance(leaf, torch.Tensor)]
        key = (tuple((t.shape, t.stride()) for t in tensors), str(rest), str(call.spec))
        different.setdefault(key, (call, tensors))
    unique = list(different.values())
    if len(unique) <= count:
        return unique
    step = max(1, count - 1)
    return [unique[index * (len(unique) - 1) // step] for index in range(count)]


def _has_extremes(op: OpInfo, group: str) -> bool:
    elementwise = isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo | ReductionOpInfo)
    return elementwise or group in _EXTREMES


def _with_extremes(group: str, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The tensors with special values among the elements of the first."""
    first = tensors[0].clone(memory_format=torch.contiguous_format)
    special = [float("nan"), 0.0, float("inf"), -0.0, float("-inf")]
    if group in _CASTS_TO_INTEGERS:
        special = [value for value in special if value == 0]
    if "_polynomial_" in group:
        special = special[1:]  # PyTorch returns uninitialized memory for NaN
    flat = first.view(-1)
    for index, value in enumerate(special):
        if index * 3 < flat.numel():
            flat[index * 3] = value
    return (first, *tensors[1:])


def _case(
    name: str, dtype: torch.dtype, call: _Call, tensors: tuple[torch.Tensor, ...]
) -> Case | None:
    """The case; None where PyTorch refuses the sample, or returns no tensor."""
    group = name.partition("/")[0]
    drawn = _Draws()
    try:
        with _silent(), torch.no_grad(), drawn:
            expected = call(*(t.clone() for t in tensors))
            if group in _IN_FLOAT32:
                wide = call(*(t.float() if _inexact(t.dtype) else t for t in tensors))
                expected = tuple(t.to(e.dtype) for t, e in zip(wide, expected, strict=True))
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None
    if not expected or drawn.any:
        return None
    ties = group in _ANY_OF_EQUAL
    exact = _exact(call, tensors)
    left_out = [
        (ties and index) or _overflows(got, exact[index] if index < len(exact) else got)
        for index, got in enumerate(expected)
    ]
    return Case(
        name=name,
        arguments=tensors,
        expected=tuple(
            None if out else t.detach().resolve_conj().resolve_neg()
            for out, t in zip(left_out, expected, strict=True)
        ),
        rtol=RTOL.get(dtype, RTOL[torch.float32]),
        atol=max(
            ATOL.get(dtype, ATOL[torch.float32]),
            _eager_error(exact, expected),
            _fourier_error(expected) if group.startswith("fft.") else 0.0,
        ),
        call=call,
    )


def _exact(call: _Call, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """The operator's results in double precision; none where it has no double form.

    Integers are promoted to the default type, which is double too.
    """
    wider = {torch.complex64: torch.complex128}
    wide = [t.to(wider.get(t.dtype, torch.float64)) if _inexact(t.dtype) else t for t in tensors]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _silent(), torch.no_grad():
            return call(*(t.clone() for t in wide))
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
        if not _inexact(got.dtype) or got.shape != want.shape or not got.numel():
            continue
        finite = got.isfinite() & want.isfinite()
        got, want = got[finite].to(want.dtype), want[finite]
        if got.numel():
            error, size = (got - want).abs().max().item(), want.abs().max().item()
            found = max(found, min(EAGER_ERRORS * error, MAX_EAGER_ERROR * size))
    return found


def _fourier_error(expected: tuple[torch.Tensor, ...]) -> float:
    """The absolute error that another algorithm for a Fourier transform may have."""
    return max(
        FOURIER_ERROR * torch.finfo(got.dtype).eps * got.abs().max().item()
        if _inexact(got.dtype) and got.numel()
        else 0.0
        for got in expected
    )


def _inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _tensors(results: Any) -> tuple[torch.Tensor, ...]:
    return tuple(leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor))
