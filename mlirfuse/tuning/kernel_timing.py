"""Times candidate kernels on this machine's GPU: `python measure.py FOLDER`, or `measured(FOLDER)`.

Needs the driver of CUDA and numpy, neither Triton nor IREE: `kernel_search.build` copies this file
next to the kernels, so that another machine can build them. Every candidate computes the same
numbers into results that start as NaN, or as zeros where it updates them; one whose results differ
from the first's is left out.
"""

from __future__ import annotations

import ctypes
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 12
"""Timed rounds; the median counts."""

CALLS = 5
"""Launches of a round."""

BEYOND_CACHE = 120_000_000
"""Bytes of operands, in several copies, that no cache of a GPU holds."""

COPIES = 8
"""Maximum number of copies of the operands."""

COMPARED = 1 << 22
"""Bytes of a result that are compared."""

TOLERANCE = 2e-2
"""Largest difference between two candidates, of the largest magnitude: an ulp or two of bf16."""

_SHARED_MEMORY = 8
"""`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`."""

_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


class DeviceError(Exception):
    """The driver refused something."""


class Device:
    """The first GPU, by the driver's own functions."""

    def __init__(self) -> None:
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise DeviceError("no CUDA driver on this machine") from None
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, 256, device)
        self.name = name.value.decode()

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self._driver, function)(*arguments)
        if code:
            raise DeviceError(f"{function} failed with {code}")

    def memory(self, data: np.ndarray[Any, Any], size: int) -> int:
        """New memory of `size` bytes, filled with the data again and again."""
        place = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(max(size, 16)))
        held = min(data.nbytes, size)
        self._call(
            "cuMemcpyHtoD_v2", place, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(held)
        )
        while held < size:
            more = min(held, size - held)
            target = ctypes.c_uint64(place.value + held)
            self._call("cuMemcpyDtoD_v2", target, place, ctypes.c_size_t(more))
            held += more
        return place.value

    def free(self, place: int) -> None:
        """Gives memory back."""
        self._call("cuMemFree_v2", ctypes.c_uint64(place))

    def read(self, place: int, size: int) -> np.ndarray[Any, Any]:
        """Bytes of the device's memory."""
        found = np.empty(size, np.uint8)
        self._call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(found.ctypes.data),
            ctypes.c_uint64(place),
            ctypes.c_size_t(size),
        )
        return found

    def fill(self, place: int, size: int, byte: int = 0xFF) -> None:
        """Fills memory, with ones where no byte is given: NaN in every floating-point type."""
        self._call("cuMemsetD8_v2", ctypes.c_uint64(place), byte, ctypes.c_size_t(size))

    def kernel(self, code: bytes, entry: str, shared: int) -> ctypes.c_void_p:
        """Loads a kernel."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), code + b"\0")
        self._call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared > 48 * 1024:
            self._call("cuFuncSetAttribute", function, _SHARED_MEMORY, shared)
        return function

    def launch(self, function: ctypes.c_void_p, job: dict[str, Any], arguments: list[Any]) -> None:
        """Starts a kernel."""
        places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        self._call(
            "cuLaunchKernel",
            function,
            *job["grid"],
            job["threads"],
            1,
            1,
            job["shared"],
            None,
            places,
            None,
        )

    def wait(self) -> None:
        """Waits for all that was started."""
        self._call("cuCtxSynchronize")

    def microseconds(self, call: Callable[[], None]) -> float:
        """The time of one call."""
        for _ in range(CALLS):
            call()
        found = []
        for _ in range(ROUNDS):
            events = [ctypes.c_void_p(), ctypes.c_void_p()]
            for event in events:
                self._call("cuEventCreate", ctypes.byref(event), 0)
            self._call("cuEventRecord", events[0], None)
            for _ in range(CALLS):
                call()
            self._call("cuEventRecord", events[1], None)
            self.wait()
            taken = ctypes.c_float()
            self._call("cuEventElapsedTime", ctypes.byref(taken), *events)
            found.append(taken.value * 1e3 / CALLS)
            for event in events:
                self._call("cuEventDestroy_v2", event)
        return statistics.median(found)


def _numbers(kind: str) -> np.ndarray[Any, Any]:
    """A few numbers of a type; they are repeated."""
    draws = np.random.default_rng(0)
    if kind in ("i1", "i8"):
        low, high = (0, 2) if kind == "i1" else (-128, 128)
        return draws.integers(low, high, 1_000_003).astype(np.int8)
    if kind.startswith("i"):
        return np.zeros(1024, np.uint8)
    real = draws.standard_normal(1_000_003).astype(np.float32) * 0.25
    if kind == "bf16":
        return (real.view(np.uint32) >> 16).astype(np.uint16)
    return real.astype(np.float16) if kind == "f16" else real


def _reals(data: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """Bytes as f32."""
    if kind == "bf16":
        wide = data.view(np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32)
    types = {"f16": np.float16, "f32": np.float32, "i32": np.int32}
    return data.view(types.get(kind, np.int8)).astype(np.float32)


class _Group:
    """The tensors and results of the candidates for one problem."""

    def __init__(self, device: Device, job: dict[str, Any]) -> None:
        self.device = device
        sizes = [count * _BYTES[kind] for count, kind in job["tensors"]]
        copies = max(1, min(COPIES, math.ceil(BEYOND_CACHE / max(1, sum(sizes)))))
        self.sets = [
            [
                device.memory(_numbers(kind), size)
                for size, (_, kind) in zip(sizes, job["tensors"], strict=True)
            ]
            for _ in range(copies)
        ]
        self.results = [(n * _BYTES[kind], kind) for n, kind in job["results"]]
        # Results have copies too: a cache would hold a buffer that is written over and over.
        self.written = [
            [device.memory(np.zeros(16, np.uint8), size) for size, _ in self.results]
            for _ in range(copies)
        ]
        self.places = self.written[0]
        self.expected: list[np.ndarray[Any, Any]] | None = None

    def free(self) -> None:
        """Gives the memory back."""
        for place in (p for places in (*self.sets, *self.written) for p in places):
            self.device.free(place)

    def check(self) -> str:
        """Why the present results are wrong; empty when they are like the first candidate's."""
        found = [
            _reals(self.device.read(place, min(size, COMPARED)), kind)
            for place, (size, kind) in zip(self.places, self.results, strict=True)
        ]
        if any(np.isnan(array).any() for array in found):
            return "results that are no numbers"
        if self.expected is None:
            self.expected = found
        for one, other in zip(found, self.expected, strict=True):
            difference = np.abs(one - other).max() / max(1.0, np.abs(other).max())
            if difference > TOLERANCE:
                return f"results that differ by {difference:.2g}"
        return ""


def measured(folder: Path, say: Callable[[str], None] = lambda text: None) -> list[dict[str, Any]]:
    """The jobs of a folder with their times, `us`, or why they have none, `refused`.

    Raises:
      DeviceError: there is no GPU, or a kernel broke it.
    """
    device = Device()
    jobs: list[dict[str, Any]] = json.loads((folder / "jobs.json").read_text("utf-8"))
    group, of = None, None
    for number, job in enumerate(jobs):
        problem = job["family"], job["problem"]
        if problem != of:
            if group is not None:
                group.free()
            group, of = _Group(device, job), problem
        assert group is not None
        _measure(device, folder, job, group)
        message = job.get("refused") or f"{job['us']:.1f} us"
        tried = f"{json.dumps(job['problem'])} {json.dumps(job['config'])}"
        say(f"[{number + 1}/{len(jobs)}] {tried}: {message}")
    for job in jobs:
        job["device"] = device.name
    return jobs


def _measure(device: Device, folder: Path, job: dict[str, Any], group: _Group) -> None:
    try:
        code = (folder / job["object"]).read_bytes()
        function = device.kernel(code, job["entry"], job["shared"])
    except DeviceError as error:
        job["refused"] = str(error)
        return
    sizes = [ctypes.c_int32(size) for size in job["dynamic_sizes"]]
    packs = [
        [*map(ctypes.c_uint64, [*(tensors[n] for n in job["operands"]), *written]), *sizes]
        for tensors, written in zip(group.sets, group.written, strict=True)
    ]
    for place, (size, _) in zip(group.places, group.results, strict=True):
        device.fill(place, size, 0 if job.get("in_place") else 0xFF)
    device.launch(function, job, packs[0])
    device.wait()
    why = group.check()
    if why:
        job["refused"] = why
        return
    turn = 0

    def call() -> None:
        nonlocal turn
        turn = (turn + 1) % len(packs)
        device.launch(function, job, packs[turn])

    job["us"] = round(device.microseconds(call), 2)


def main() -> int:
    """Measures the folder of the command line, and writes `measured.json` into it."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    try:
        jobs = measured(folder, lambda text: print(text, flush=True))
    except DeviceError as error:
        print(f"measure.py: error: {error}", file=sys.stderr)
        return 1
    (folder / "measured.json").write_text(json.dumps(jobs, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
