"""A program on a device, called with tensors of PyTorch, and what its calls are checked for."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.check.case import TOLERANCES, Case, Tensor, make_arguments, reference
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime.cupti_trace import NotRecorded
from mlirfuse.runtime.replay import Graph

POISON = 0xFF
"""Of every byte of memory for results: NaN in all types of floating point, -1 of integers."""

GUARD = 4096
"""Bytes on both sides of a result's memory that nobody may write to."""

GUARDED = 0xA5
"""What they hold."""

HOST, CUDA = 1, 2
"""DLPack's numbers of kinds of devices."""


class Program(abc.ABC):
    """A function that is called with tensors."""

    def passed(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The arguments as the program takes them."""
        return list(arguments)

    @abc.abstractmethod
    def call(self, passed: Sequence[Tensor]) -> list[Tensor]:
        """The results, in the program's own memory."""

    @abc.abstractmethod
    def write(self, passed: Sequence[Tensor], out: Sequence[Tensor]) -> bool:
        """Has results written to memory of the caller's.

        Args:
          passed: the arguments.
          out: for the results.

        Returns:
          Whether it could be: the program's commands can be replayed with other addresses.
        """


class Loaded(Program):
    """A function of a `.vmfb`."""

    def __init__(self, image: bytes, name: str, uri: str, dtypes: Sequence[str]) -> None:
        """Loads a program.

        Args:
          image: the file's bytes.
          name: of the function.
          uri: of the device, `cuda` or `local-task`.
          dtypes: element types of its arguments.
        """
        import iree.runtime as rt

        from mlirfuse.runtime.devices import open_device

        self._device = open_device(uri, recorded=uri == "cuda")
        self._kind = CUDA if uri == "cuda" else HOST
        self._dtypes = dtypes
        self._shapes: list[tuple[int, ...]] = []
        instance = rt.VmInstance()
        module = rt.VmModule.copy_buffer(instance, image)
        hal = rt.create_hal_module(instance, self._device)
        self._context = rt.VmContext(instance, [hal, module])
        self._function = module.lookup_function(name)
        if self._function is None:
            raise MlirfuseError(f"the program has no function {name}")

    def passed(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The arguments as bytes: IREE takes neither bf16 nor i4 through DLPack."""
        self._shapes = [tuple(tensor.shape) for tensor in arguments]
        raw = [_bytes(tensor.contiguous()) for tensor in arguments]
        return [
            packed(one) if dtype == "i4" else one
            for one, dtype in zip(raw, self._dtypes, strict=True)
        ]

    def call(self, passed: Sequence[Tensor]) -> list[Tensor]:
        """The results, in the program's own memory."""
        import iree.runtime as rt

        given = rt.VmVariantList(len(passed))
        kept = []
        for raw, shape, dtype in zip(passed, self._shapes, self._dtypes, strict=True):
            buffer = self._device.from_dlpack_capsule(raw.__dlpack__()).get_buffer()
            kept.append(buffer)
            given.push_ref(rt.HalBufferView(buffer, shape, element_type(dtype)))
        if self._kind == CUDA:
            torch.cuda.current_stream().synchronize()
        results = rt.VmVariantList(4)
        self._context.invoke(self._function, given, results)
        return [
            self._tensor(results.get_as_object(n, rt.HalBufferView)) for n in range(results.size)
        ]

    def _tensor(self, view: Any) -> Tensor:
        import iree.runtime as rt

        dtype, shape = torch_type(view.element_type), list(view.shape)
        size = dtype.itemsize * math.prod(shape)
        raw = rt.HalBufferView(view.get_buffer(), (size,), int(rt.HalElementType.UINT_8))
        capsule = self._device.create_dlpack_capsule(raw, self._kind, 0)
        return torch.from_dlpack(capsule).view(dtype).reshape(shape)

    def write(self, passed: Sequence[Tensor], out: Sequence[Tensor]) -> bool:
        """Has a CUDA graph of the call's commands write to the caller's memory."""
        if self._kind != CUDA:
            return False
        try:
            graph = Graph(self.call, passed)
        except NotRecorded:
            return False
        found = graph.launch(passed, out)
        torch.cuda.synchronize()
        return all(one is given for one, given in zip(found, out, strict=True))


def packed(raw: Tensor) -> Tensor:
    """Bytes of i4, two to a byte, the first in the lower bits."""
    low, high = raw[0::2] & 15, raw[1::2] & 15
    return low | high << 4


def element_type(dtype: str) -> int:
    """IREE's number of an element type."""
    import iree.runtime as rt

    return int(getattr(rt.HalElementType, _TYPES[dtype]))


def torch_type(element: Any) -> torch.dtype:
    """PyTorch's element type of IREE's number."""
    import iree.runtime as rt

    known = {
        "FLOAT_16": torch.float16,
        "BFLOAT_16": torch.bfloat16,
        "FLOAT_32": torch.float32,
        "INT_8": torch.int8,
        "SINT_8": torch.int8,
        "INT_32": torch.int32,
        "SINT_32": torch.int32,
    }
    numbers = {int(getattr(rt.HalElementType, name)): dtype for name, dtype in known.items()}
    return numbers[int(element)]


_TYPES = {
    "f16": "FLOAT_16",
    "bf16": "BFLOAT_16",
    "f32": "FLOAT_32",
    "i1": "BOOL_8",
    "i4": "INT_4",
    "i8": "INT_8",
    "i64": "INT_64",
}


def load(case: Case, path: Path, uri: str) -> Loaded:
    """A case's function of a program."""
    dtypes = [case.work.dtype_of(number) for number in range(len(case.work.inputs))]
    return Loaded(path.read_bytes(), case.name, uri, dtypes)


# --- what is checked -----------------------------------------------------------------------------


def check(case: Case, program: Program, device: str, *, replayed: bool = True) -> dict[str, Any]:
    """Calls a program with each of the case's sizes.

    Returns:
      `error`: the largest, over what is allowed; `calls`; `written`: how many of them wrote into
      memory between guards; `said`: what is wrong, empty when nothing is.
    """
    worst, guarded, wrong = 0.0, 0, ""
    for sizes in case.work.sizes:
        error, could, said = _check_call(case, program, device, sizes, replayed=replayed)
        worst, guarded = max(worst, error), guarded + could
        if said:
            shown = ", ".join(f"{name} {size}" for name, size in sizes.items())
            wrong = f"{shown}: {said}" if shown else said
            break
    return {"error": worst, "calls": len(case.work.sizes), "written": guarded, "said": wrong}


def _check_call(
    case: Case, program: Program, device: str, sizes: Mapping[str, int], *, replayed: bool
) -> tuple[float, bool, str]:
    arguments = make_arguments(case, sizes, device)
    expected = reference(case.work, arguments)
    passed = program.passed(arguments)
    del arguments
    before = [t.clone() for t in passed]
    found = program.call(passed)
    error, said = compared(found, expected, case)
    if said:
        return error, False, said
    first = [t.clone() for t in found]
    # The next call gets this memory again, and has to write to all of it.
    for result in found:
        _bytes(result).fill_(POISON)
    _wait(device)
    del found
    again = program.call(passed)
    said = _other_bits(again, first, "a second call over NaN")
    del again
    could = False
    if not said and replayed:
        places = [Place(result) for result in first]
        could = program.write(passed, [place.result for place in places])
        if could:
            said = _other_bits([p.result for p in places], first, "a replayed call over NaN")
            outside = [n for n, place in enumerate(places) if not place.intact()]
            said = said or (f"result {outside[0]}: written outside of it" if outside else "")
    changed = [n for n, (a, b) in enumerate(zip(passed, before, strict=True)) if _differ(a, b)]
    if changed and not said:
        said = f"argument {changed[0]} was written to"
    return error, could, said


class Place:
    """Memory for a result, full of NaN, in the middle of memory that nobody may write to.

    Attributes:
      result: the tensor.
    """

    def __init__(self, like: Tensor) -> None:
        size = like.nbytes
        self._whole = torch.full(
            (size + 2 * GUARD,), GUARDED, dtype=torch.uint8, device=like.device
        )
        self._inside = slice(GUARD, GUARD + size)
        self._whole[self._inside] = POISON
        self.result = self._whole[self._inside].view(like.dtype).view(like.shape)

    def intact(self) -> bool:
        """Whether nobody wrote around the result."""
        sides = self._whole[: self._inside.start], self._whole[self._inside.stop :]
        return all(bool((side == GUARDED).all()) for side in sides)


def compared(found: Sequence[Tensor], expected: Sequence[Tensor], case: Case) -> tuple[float, str]:
    """The largest error over what is allowed, and what is wrong.

    An element may be off by the tolerance times its magnitude and the root mean square of all: the
    largest of a softmax or a norm says nothing of the others.
    """
    if len(found) != len(expected):
        return math.inf, f"{len(found)} results; expected {len(expected)}"
    worst = 0.0
    for number, (ours, exact) in enumerate(zip(found, expected, strict=True)):
        if ours.shape != exact.shape:
            shapes = f"{tuple(ours.shape)}; expected {tuple(exact.shape)}"
            return math.inf, f"result {number} is {shapes}"
        error = error_of(ours, exact.double(), tolerance_of(case, ours.dtype), case.work.step)
        at = int(error.argmax())
        worst = max(worst, float(error[at]))
        if not worst <= 1.0:
            got, want = float(ours.reshape(-1)[at]), float(exact.reshape(-1)[at])
            many = int((error > 1.0).sum())
            return worst, (
                f"result {number} of {tuple(ours.shape)}: {many} wrong, element {at} is {got:g};"
                f" expected {want:g}"
            )
    return worst, ""


def error_of(ours: Tensor, exact: Tensor, tolerance: float, step: float = 0.0) -> Tensor:
    """Each element's error over what is allowed; infinite where only one is finite or NaN."""
    ours, exact = ours.double().reshape(-1), exact.reshape(-1)
    finite = torch.isfinite(exact)
    kept = torch.where(finite, exact, 0.0)
    rms = (kept.square().sum() / finite.sum().clamp(min=1)).sqrt()
    allowed = tolerance * (kept.abs() + rms) + step + torch.finfo(torch.float32).tiny
    error = (ours - exact).abs() / allowed
    same = (ours == exact) | (ours.isnan() & exact.isnan())
    error = torch.where(finite & torch.isfinite(ours), error, torch.inf)
    return torch.where(same, 0.0, error)


def tolerance_of(case: Case, dtype: torch.dtype) -> float:
    """Of a result of that type."""
    if case.work.tolerance:
        return case.work.tolerance
    return TOLERANCES[case.work.dtype]


def _other_bits(found: Sequence[Tensor], first: Sequence[Tensor], what: str) -> str:
    for number, (ours, before) in enumerate(zip(found, first, strict=True)):
        if _differ(ours, before):
            elements = ours.element_size()
            places = (_bytes(ours) != _bytes(before)).view(-1, elements).any(1).nonzero()
            return (
                f"result {number} of {tuple(ours.shape)}: {what} left {len(places)} other elements,"
                f" the first at {int(places[0])}"
            )
    return ""


def _differ(a: Tensor, b: Tensor) -> bool:
    return not torch.equal(_bytes(a), _bytes(b))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
