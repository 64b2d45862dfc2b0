"""PyTorch's own module database, layers and losses with their sample inputs, as a suite.

Modules that differ in training are called in both modes. The state that a call in training updates,
such as the running statistics of a batch norm, is among its results.
"""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.utils import _pytree as pytree

from benchmarks.conformance import torch_module_samples
from benchmarks.conformance.suite import Case, Program
from benchmarks.conformance.torch_calls import (
    Call,
    Merged,
    Sample,
    TorchSuite,
    arguments,
    case_of,
    evenly,
    silent,
)

SAMPLES = {
    torch.float32: 24,
    torch.float16: 6,
    torch.bfloat16: 6,
    torch.float64: 2,
    torch.complex64: 2,
}
"""Element types, and the most samples of a module in one type and mode."""

HALVES = (torch.float16, torch.bfloat16)
"""Types that the database does not name: PyTorch refuses those that a module does not support."""

_IN_FLOAT32 = {"FractionalMaxPool2d", "FractionalMaxPool3d"}
"""Modules whose positions PyTorch's CPU kernels round to half precision in each step, and its CUDA
kernels do not."""


class TorchModules(TorchSuite):
    """The suite; see `benchmarks.conformance.suite.Suite`.

    Args:
      samples: element types, and the most samples of a module in one type and mode.
    """

    name = "torch-modules"

    def __init__(self, samples: dict[torch.dtype, int] | None = None) -> None:
        self._samples = SAMPLES if samples is None else samples

    def groups(self) -> Sequence[str]:
        """The classes of the database and of the further samples."""
        return list(_entries())

    def cases(self, group: str) -> Sequence[Case]:
        """Samples of all types and modes that PyTorch supports on the CPU.

        Samples that draw random numbers are left out, such as dropout in training. The expected
        results are those of the exported form: PyTorch's fast path of attention, which it does not
        export, writes zeros to the padded places of sequences.
        """
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            return list(self._cases(group))
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)

    def program(self, cases: Sequence[Case]) -> Program:
        """One module that takes and returns flat tuples of tensors."""
        return Program(Merged(cases), arguments(cases), arguments(cases))

    def _cases(self, group: str) -> Iterator[Case]:
        for dtype, count in self._samples.items():
            kind = str(dtype).removeprefix("torch.")
            for origin, info in _entries()[group].items():
                if dtype not in HALVES and dtype not in info.supported_dtypes("cpu"):
                    continue
                for training in (False, True) if info.train_and_eval_differ else (False,):
                    prefix = f"{group}/{kind}/{origin}{'training-' if training else ''}"
                    samples = evenly(list(_samples(info, dtype, training)), count)
                    for index, (call, tensors) in enumerate(samples):
                        name, in_float32 = f"{prefix}{index}", group in _IN_FLOAT32
                        case = case_of(name, dtype, call, tensors, in_float32=in_float32)
                        if case is not None:
                            yield case


class _Trained(torch.nn.Module):
    """A module in training: its results, and its state after the call."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module.train()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        results = self.module(*args, **kwargs)
        return results, [buffer.clone() for buffer in self.module.buffers()]


@functools.cache
def _entries() -> dict[str, dict[str, ModuleInfo]]:
    """The entries of each class by the beginning of their cases' names."""
    found: dict[str, dict[str, ModuleInfo]] = {}
    for origin, entries in (("", module_db), ("further-", torch_module_samples.further())):
        for info in entries:
            found.setdefault(info.module_cls.__name__, {})[origin] = info
    return found


def _samples(info: ModuleInfo, dtype: torch.dtype, training: bool) -> Iterator[Sample]:
    """The database's samples, the same ones in each run; none where PyTorch refuses the type."""
    seed = zlib.crc32(f"{info.name}/{dtype}".encode())
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        with silent():
            given = info.module_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=False, training=training
            )
            modules = [_module(info, sample, dtype) for sample in given]
    except (RuntimeError, NotImplementedError):
        return
    for sample, module in zip(given, modules, strict=True):
        leaves, spec = pytree.tree_flatten(_forward(sample))
        tensors = tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
        operator = _Trained(module) if training else module.eval()
        yield Call(operator, tuple(leaves), spec), tensors


def _forward(sample: ModuleInput) -> tuple[tuple[Any, ...], dict[str, Any]]:
    given = sample.forward_input
    return tuple(given.args), dict(given.kwargs)


def _module(info: ModuleInfo, sample: ModuleInput, dtype: torch.dtype) -> torch.nn.Module:
    given = sample.constructor_input
    module: torch.nn.Module = info.module_cls(*given.args, **given.kwargs).to(dtype)
    if info.is_lazy:
        args, kwargs = _forward(sample)
        with torch.no_grad():
            module(*args, **kwargs)  # gives the parameters their sizes
    return module
