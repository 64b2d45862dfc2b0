"""PyTorch's own operator database with its sample inputs, forward, as a suite.

Its arguments, one or several tensors for each sample, are those that PyTorch's tests use. For
floating-point types a further case of elementwise operators and reductions holds zeros of both
signs, infinities and NaN.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import (
    BinaryUfuncInfo,
    OpInfo,
    ReductionOpInfo,
    UnaryUfuncInfo,
)
from torch.utils import _pytree as pytree

from benchmarks.conformance.suite import Case
from benchmarks.conformance.torch_calls import (
    Call,
    Sample,
    TorchSuite,
    case_of,
    evenly,
    inexact,
    silent,
)

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


class TorchOps(TorchSuite):
    """The suite; see `benchmarks.conformance.suite.Suite`.

    Args:
      types: element types of the samples.
      samples: number of samples of an operator in one type.
    """

    name = "torch"

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
            chosen = evenly(_different(_samples(op, dtype, group)), self._samples)
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


@functools.cache
def _entries() -> dict[str, OpInfo]:
    return {
        op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db
    }


def _samples(op: OpInfo, dtype: torch.dtype, group: str) -> Iterator[Sample]:
    """The database's samples that are small and of plain tensors, the same ones in each run."""
    seed = zlib.crc32(f"{group}/{dtype}".encode())
    random.seed(seed)
    torch.manual_seed(seed)
    with silent():
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
        yield Call(op.op, tuple(leaves), spec), plain


def _different(samples: Iterable[Sample]) -> list[Sample]:
    """Samples of different shapes or other arguments."""
    different = {}
    for call, tensors in samples:
        rest = [leaf for leaf in call.leaves if not isinstance(leaf, torch.Tensor)]
        key = (tuple((t.shape, t.stride()) for t in tensors), str(rest), str(call.spec))
        different.setdefault(key, (call, tensors))
    return list(different.values())


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
    name: str, dtype: torch.dtype, call: Call, tensors: tuple[torch.Tensor, ...]
) -> Case | None:
    """The case; None where PyTorch refuses the sample, or returns no tensor."""
    group = name.partition("/")[0]
    case = case_of(name, dtype, call, tensors, in_float32=group in _IN_FLOAT32)
    if case is not None and group in _ANY_OF_EQUAL:
        values, *indices = case.expected
        return dataclasses.replace(case, expected=(values, *(None for _ in indices)))
    if case is not None and group.startswith("fft."):
        return dataclasses.replace(case, atol=max(case.atol, _fourier_error(case.expected)))
    return case


def _fourier_error(expected: tuple[torch.Tensor | None, ...]) -> float:
    """The absolute error that another algorithm for a Fourier transform may have."""
    return max(
        FOURIER_ERROR * torch.finfo(got.dtype).eps * got.abs().max().item()
        if got is not None and inexact(got.dtype) and got.numel()
        else 0.0
        for got in expected
    )
