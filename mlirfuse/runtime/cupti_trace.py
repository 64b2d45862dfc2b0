"""The commands that a call gives to the CUDA driver, recorded through CUPTI's callbacks.

iree-runtime 3.13 issues a program's commands one by one at each call, from a thread of its own.
CUPTI reports each command with its arguments, so that it can be issued again.

CUPTI is called through ctypes: `cupti-python` needs a newer library than the one in PyTorch's
packages, which is loaded already when a tensor is on a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mlirfuse.core import MlirfuseError
from mlirfuse.support import cupti

_DRIVER_API = 1
"""CUPTI's domain of the driver's functions."""

_ENTER, _EXIT = 0, 1

_POINTER = 8
"""Size of a kernel parameter that is an address, in bytes; constants of iree-runtime have 4."""


class NotRecorded(MlirfuseError):
    """The commands of a call could not be recorded, or cannot be issued again."""


class Busy(NotRecorded):
    """CUPTI or the device was in use elsewhere; a later recording may succeed."""


class Launch(NamedTuple):
    """A kernel launch.

    Attributes:
      function: the driver's handle of the kernel.
      grid: CTAs along x, y, z.
      block: threads of a CTA along x, y, z.
      shared: dynamic shared memory, in bytes.
      parameters: bytes of each parameter.
    """

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    parameters: tuple[bytes, ...]


class Copy(NamedTuple):
    """A copy of `size` bytes on the device, between two addresses."""

    target: int
    source: int
    size: int


class Update(NamedTuple):
    """A copy of bytes of the host to an address of the device."""

    target: int
    data: bytes


class Fill(NamedTuple):
    """A fill of `length` elements of `width` bytes each with one value."""

    target: int
    value: int
    width: int
    length: int


Command = Launch | Copy | Update | Fill


class _Callback(ctypes.Structure):
    """`CUpti_CallbackData`."""

    _fields_ = (
        ("site", ctypes.c_int),
        ("function", ctypes.c_char_p),
        ("parameters", ctypes.c_void_p),
        ("returned", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("context_uid", ctypes.c_uint32),
        ("correlation", ctypes.c_void_p),
        ("correlation_id", ctypes.c_uint32),
    )


class _Launched(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.c_void_p),
    )


class _Copied(ctypes.Structure):
    _fields_ = (
        ("target", ctypes.c_uint64),
        ("source", ctypes.c_uint64),
        ("size", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
    )


def _filled(element: Any) -> type[ctypes.Structure]:
    class Filled(ctypes.Structure):
        _fields_ = (
            ("target", ctypes.c_uint64),
            ("value", element),
            ("count", ctypes.c_size_t),
            ("stream", ctypes.c_void_p),
        )

    return Filled


_FILLS = {
    f"cuMemsetD{8 * width}Async": (width, _filled(element))
    for width, element in ((1, ctypes.c_uint8), (2, ctypes.c_uint16), (4, ctypes.c_uint32))
}


class _Allocated(ctypes.Structure):
    _fields_ = (("address", ctypes.POINTER(ctypes.c_uint64)), ("size", ctypes.c_size_t))


_ALLOCATION = b"cuMemAlloc_v2"

_COPIES = ("cuMemcpyAsync", "cuMemcpyDtoDAsync")

_NOT_REPLAYABLE = ("cuMemcpy", "cuMemset", "cuLaunch", "cuGraphLaunch")
"""Prefixes of the driver's functions that give the device work of other kinds."""

_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_Callback)
)


class Recorder:
    """Records commands; the driver's threads call it.

    Attributes:
      commands: the commands issued so far.
      streams: handles of the streams that they were issued to.
      allocations: first byte and size in bytes of memory that was allocated on the device.
    """

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.streams: set[int | None] = set()
        self.allocations: list[tuple[int, int]] = []
        self._failure: Exception | None = None
        self._inside = threading.local()

    def on_api_call(self, _user: Any, _domain: int, _function: int, data: Any) -> None:
        """CUPTI's callback at the entry and the exit of each function of the driver."""
        found = data.contents
        if getattr(self._inside, "busy", False):
            return
        self._inside.busy = True
        try:
            if found.site == _ENTER:
                self._record(found.function.decode(), found.parameters)
            elif found.site == _EXIT and found.function == _ALLOCATION:
                made = _Allocated.from_address(found.parameters)
                self.allocations.append((made.address.contents.value, made.size))
        except Exception as error:  # It must not propagate through the driver's frames.
            self._failure = self._failure or error
        finally:
            self._inside.busy = False

    def _record(self, function: str, parameters: int) -> None:
        name = function.removesuffix("_ptsz").removesuffix("_v2")
        if name == "cuLaunchKernel":
            given: Any = _Launched.from_address(parameters)
            made: Command = Launch(
                given.function,
                tuple(given.grid),
                tuple(given.block),
                given.shared,
                _parameters(given.function, given.parameters),
            )
        elif name in _COPIES:
            given = _Copied.from_address(parameters)
            made = Copy(given.target, given.source, given.size)
        elif name == "cuMemcpyHtoDAsync":
            given = _Copied.from_address(parameters)
            made = Update(given.target, ctypes.string_at(given.source, given.size))
        elif name in _FILLS:
            width, layout = _FILLS[name]
            given = layout.from_address(parameters)
            made = Fill(given.target, given.value, width, given.count)
        elif name.startswith(_NOT_REPLAYABLE):
            raise NotRecorded(f"the program uses {name}")
        else:
            return
        self.streams.add(given.stream)
        self.commands.append(made)

    def restart(self) -> None:
        """Forgets the commands so far, but not the allocations: memory is used again."""
        self.commands.clear()
        self.streams.clear()

    def check(self) -> None:
        """Makes sure that all commands were recorded, and only those of one stream.

        Raises:
          NotRecorded: a command is missing.
          Busy: there are commands of another thread.
        """
        if self._failure is not None:
            raise NotRecorded(str(self._failure)) from self._failure
        if len(self.streams) > 1:
            raise Busy("another thread used the device meanwhile")
        if not self.commands:
            raise NotRecorded("CUPTI saw no commands")


def _parameters(function: int, given: Any) -> tuple[bytes, ...]:
    from cuda.bindings import driver

    found: list[bytes] = []
    while True:
        status, _, size = driver.cuFuncGetParamInfo(driver.CUfunction(function), len(found))
        if status != driver.CUresult.CUDA_SUCCESS:
            return tuple(found)
        found.append(ctypes.string_at(given[len(found)], size))


_lock = threading.Lock()


@contextlib.contextmanager
def recorded() -> Iterator[Recorder]:
    """Records the commands of this process inside the `with` block.

    Raises:
      NotRecorded: CUPTI is not installed.
      Busy: a profiler uses it.
    """
    library = _library()
    recorder = Recorder()
    callback = _CALLBACK(recorder.on_api_call)
    subscriber = ctypes.c_void_p()
    with _lock:
        _checked(library, library.cuptiSubscribe, ctypes.byref(subscriber), callback, None)
        try:
            _checked(library, library.cuptiEnableDomain, 1, subscriber, _DRIVER_API)
            yield recorder
        finally:
            library.cuptiUnsubscribe(subscriber)


def _library() -> Any:
    try:
        return cupti.library()
    except cupti.CuptiError as error:
        raise NotRecorded(str(error)) from error


def _checked(library: Any, function: Callable[..., int], *given: Any) -> None:
    status = function(*given)
    if status:
        message = cupti.message(library, status)
        raise Busy(f"CUPTI refuses ({message}); with TEARDOWN_CUPTI=1 PyTorch's profiler frees it")


def addresses(command: Launch) -> list[tuple[int, int]]:
    """Index and value of each parameter that is an address."""
    return [
        (index, int.from_bytes(data, "little"))
        for index, data in enumerate(command.parameters)
        if len(data) == _POINTER
    ]
