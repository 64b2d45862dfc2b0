"""Programs on a device, called with tensors of PyTorch, and the checks of their calls."""

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
"""Initial value of bytes of results: NaN in all floating-point types, -1 of integers."""

GUARD_BYTES = 4096
"""Size of the guards before and after a result's memory, which must stay unchanged."""

GUARD_VALUE = 0xA5
"""Value of the guards' bytes."""

HOST, CUDA = 1, 2
"""Device types of DLPack."""


class Program(abc.ABC):
    """A function that is called with tensors."""

    def passed(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The arguments in the program's representation."""
        return list(arguments)

    @abc.abstractmethod
    def call(self, passed: Sequence[Tensor]) -> list[Tensor]:
        """The results, in the program's own memory."""

    @abc.abstractmethod
    def write(self, passed: Sequence[Tensor], out: Sequence[Tensor]) -> bool:
        """Lets the program write results to memory of the caller.

        Args:
          passed: the arguments.
          out: tensors for the results.

        Returns:
          Whether this is possible: the program's commands can be replayed with other addresses.
        """


class Loaded(Program):
    """A function of a `.vmfb`."""

    def __init__(self, image: bytes, name: str, uri: str, dtypes: Sequence[str]) -> None:
        """Loads a program.

        Args:
          image: bytes of the file.
          name: name of the function.
          uri: URI of the device, `cuda` or `local-task`.
          dtypes: element types of the arguments.
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
        """The arguments as bytes: IREE imports neither bf16 nor i4 through DLPack."""
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
        """Replays the call as a CUDA graph that writes to the caller's memory."""
        if self._kind != CUDA:
            return False
        try:
            graph = Graph(self.call, passed, self._device)
        except NotRecorded:
            return False
        found = graph.launch(passed, out)
        torch.cuda.synchronize()
        return all(one is given for one, given in zip(found, out, strict=True))


def packed(raw: Tensor) -> Tensor:
    """Packs i4, two to a byte, the first in the lower bits."""
    low, high = raw[0::2] & 15, raw[1::2] & 15
    return low | high << 4


def element_type(dtype: str) -> int:
    """iree-runtime's code of an element type."""
    import iree.runtime as rt

    return int(getattr(rt.HalElementType, _TYPES[dtype]))


def torch_type(element: Any) -> torch.dtype:
    """PyTorch's element type for iree-runtime's code."""
    import iree.runtime as rt

    known = {
        "FLOAT_16": torch.float16,
        "BFLOAT_16": torch.bfloat16,
        "FLOAT_32": torch.float32,
        "INT_8": torch.int8,
        "SINT_8": torch.int8,
        "INT_32": torch.int32,
        "SINT_32": torch.int32,
        "INT_64": torch.int64,
        "SINT_64": torch.int64,
        "BOOL_8": torch.bool,
    }
    codes = {int(getattr(rt.HalElementType, name)): dtype for name, dtype in known.items()}
    return codes[int(element)]


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
    dtypes = [case.work.dtype_of(index) for index in range(len(case.work.inputs))]
    return Loaded(path.read_bytes(), case.name, uri, dtypes)


# --- checks -------------------------------------------------------------------------------------


def check(case: Case, program: Program, device: str, *, replayed: bool = True) -> dict[str, Any]:
    """Calls a program with each of the case's sizes.

    Returns:
      `error`: maximum error over the tolerance; `calls`: number of calls; `written`: number of
      calls that wrote to memory between guards; `said`: message of the failure, or empty.
    """
    worst, guarded, failure = 0.0, 0, ""
    for sizes in case.work.sizes:
        error, could, message = _check_call(case, program, device, sizes, replayed=replayed)
        worst, guarded = max(worst, error), guarded + could
        if message:
            shown = ", ".join(f"{name} {size}" for name, size in sizes.items())
            failure = f"{shown}: {message}" if shown else message
            break
    return {"error": worst, "calls": len(case.work.sizes), "written": guarded, "said": failure}


def _check_call(
    case: Case, program: Program, device: str, sizes: Mapping[str, int], *, replayed: bool
) -> tuple[float, bool, str]:
    arguments = make_arguments(case, sizes, device)
    expected = reference(case.work, arguments)
    passed = program.passed(arguments)
    before = [t.clone() for t in passed]
    found = program.call(passed)
    error, message = compared(found, expected, case)
    if message and device != "cpu":
        # PyTorch's libraries on the device may be wrong as well: its code for processors decides.
        exact = reference(case.work, [t.cpu() for t in arguments])
        expected = [t.to(device) for t in exact]
        error, message = compared(found, expected, case)
    if message:
        return error, False, message
    del arguments
    first = [t.clone() for t in found]
    # The next call gets this memory again, and must write all of it.
    for result in found:
        _bytes(result).fill_(POISON)
    _wait(device)
    del found
    again = program.call(passed)
    message = _other(again, first, expected, case, "a second call over NaN")
    del again
    could = False
    if not message and replayed:
        buffers = [GuardedBuffer(result) for result in first]
        could = program.write(passed, [buffer.result for buffer in buffers])
        if could:
            replay = [buffer.result for buffer in buffers]
            message = _other(replay, first, expected, case, "a replayed call over NaN")
            outside = [n for n, buffer in enumerate(buffers) if not buffer.intact()]
            message = message or (f"result {outside[0]}: written outside of it" if outside else "")
    changed = [n for n, (a, b) in enumerate(zip(passed, before, strict=True)) if _differ(a, b)]
    if changed and not message:
        message = f"argument {changed[0]} was written to"
    return error, could, message


class GuardedBuffer:
    """Memory for a result, filled with NaN, between guards.

    Attributes:
      result: the tensor.
    """

    def __init__(self, like: Tensor) -> None:
        size = like.nbytes
        self._whole = torch.full(
            (size + 2 * GUARD_BYTES,), GUARD_VALUE, dtype=torch.uint8, device=like.device
        )
        self._inside = slice(GUARD_BYTES, GUARD_BYTES + size)
        self._whole[self._inside] = POISON
        self.result = self._whole[self._inside].view(like.dtype).view(like.shape)

    def intact(self) -> bool:
        """Whether the guards are unchanged."""
        guards = self._whole[: self._inside.start], self._whole[self._inside.stop :]
        return all(bool((guard == GUARD_VALUE).all()) for guard in guards)


def compared(found: Sequence[Tensor], expected: Sequence[Tensor], case: Case) -> tuple[float, str]:
    """The maximum error over the tolerance, and a message; an empty one if it is at most 1.

    The tolerance of an element is relative to its magnitude plus the root mean square of all, since
    the largest element of a softmax or a norm does not bound the others' errors; it is at least the
    distance of subnormal numbers.
    """
    if len(found) != len(expected):
        return math.inf, f"{len(found)} results; expected {len(expected)}"
    worst = 0.0
    for index, (ours, exact) in enumerate(zip(found, expected, strict=True)):
        if ours.shape != exact.shape:
            shapes = f"{tuple(ours.shape)}; expected {tuple(exact.shape)}"
            return math.inf, f"result {index} is {shapes}"
        error = error_of(ours, exact.double(), tolerance_of(case, ours.dtype), case.work.step)
        at = int(error.argmax())
        worst = max(worst, float(error[at]))
        if not worst <= 1.0:
            got, want = float(ours.reshape(-1)[at]), float(exact.reshape(-1)[at])
            count = int((error > 1.0).sum())
            return worst, (
                f"result {index} of {tuple(ours.shape)}: {count} wrong, element {at} is {got:g};"
                f" expected {want:g}"
            )
    return worst, ""


def error_of(ours: Tensor, exact: Tensor, tolerance: float, step: float = 0.0) -> Tensor:
    """Error of each element over its tolerance; infinite where only one value is finite or NaN."""
    kind, ours, exact = ours.dtype, ours.double().reshape(-1), exact.reshape(-1)
    finite = torch.isfinite(exact)
    kept = torch.where(finite, exact, 0.0)
    rms = (kept.square().sum() / finite.sum().clamp(min=1)).sqrt()
    least = torch.finfo(torch.float32).tiny
    if kind.is_floating_point:
        least = max(least, torch.finfo(kind).tiny * torch.finfo(kind).eps)
    allowed = tolerance * (kept.abs() + rms) + step + least
    error = (ours - exact).abs() / allowed
    same = (ours == exact) | (ours.isnan() & exact.isnan())
    error = torch.where(finite & torch.isfinite(ours), error, torch.inf)
    return torch.where(same, 0.0, error)


def tolerance_of(case: Case, dtype: torch.dtype) -> float:
    """Relative tolerance of a result."""
    if case.work.tolerance:
        return case.work.tolerance
    return TOLERANCES[case.work.dtype]


def _other(
    found: Sequence[Tensor],
    first: Sequence[Tensor],
    expected: Sequence[Tensor],
    case: Case,
    call: str,
) -> str:
    """A message if a later call is wrong: if it has other bits, unless sums are reordered."""
    if case.work.reordered:
        _, message = compared(found, expected, case)
        return f"{call}: {message}" if message else ""
    return _other_bits(found, first, call)


def _other_bits(found: Sequence[Tensor], first: Sequence[Tensor], call: str) -> str:
    for index, (ours, before) in enumerate(zip(found, first, strict=True)):
        if _differ(ours, before):
            elements = ours.element_size()
            changed = (_bytes(ours) != _bytes(before)).view(-1, elements).any(1).nonzero()
            return (
                f"result {index} of {tuple(ours.shape)}: {call} left {len(changed)} other elements,"
                f" the first at {int(changed[0])}"
            )
    return ""


def _differ(a: Tensor, b: Tensor) -> bool:
    return not torch.equal(_bytes(a), _bytes(b))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
