"""Arrays of numpy, PyTorch and JAX to buffer views of iree-runtime, and back.

Host memory is shared instead of copied where iree-runtime can use it: writable, in C order, and
aligned to 64 bytes. Results are views of the buffers that the program wrote.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlirfuse.core import CallError
from mlirfuse.runtime.arrays import (
    ALIGNMENT,
    STORED,
    Kind,
    dtype_name,
    dtype_spelling,
    kind_of,
    numpy_dtype,
    numpy_of,
    torch_of,
)
from mlirfuse.support.signature import TensorSpec

_HOST, _CUDA, _ROCM = 1, 2, 10
"""Device types of DLPack."""

_DLPACK = {"local-task": _HOST, "local-sync": _HOST, "cuda": _CUDA, "hip": _ROCM}
"""Driver of iree-runtime -> device type under which its buffers are exchanged."""

_JAX_PLATFORMS = {"cpu": _HOST, "cuda": _CUDA, "gpu": _CUDA, "rocm": _ROCM}
"""Platform of a JAX device -> device type of DLPack."""

_BYTE = np.dtype(np.uint8)

_ONE_BYTE = np.zeros(1, np.uint8)
"""Backs an array of no elements: CUDA's allocator refuses a buffer of no bytes."""


@dataclasses.dataclass(slots=True)
class Exchange:
    """Passes arrays to one call on one device, and its results back.

    Attributes:
      uri: the device's URI.
      device: its `HalDevice`.
      kind: package of the results' arrays.
      copies: whether a result that overlaps an argument or another result is copied.
      shared: first byte and size in bytes of memory that the caller owns: of arguments and results.
      owners: objects that own that memory. iree-runtime 3.13 drops the owner of imported memory
        together with the Python object of the buffer, though views of it live on.
      home: the torch or JAX device of the arguments.
      dlpack: DLPack's type of the device; None where buffers cannot be exchanged.
    """

    uri: str
    device: Any
    kind: Kind
    copies: bool = True
    shared: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    owners: list[Any] = dataclasses.field(default_factory=list)
    home: Any = None
    dlpack: int | None = dataclasses.field(init=False)
    _synchronized: bool = False

    def __post_init__(self) -> None:
        """Looks up the DLPack type of the device."""
        self.dlpack = _dlpack_type(self.uri)

    def send(self, value: Any) -> Any:
        """The buffer view of an argument."""
        kind = kind_of(value)
        if kind == "torch":
            return self._send_torch(value)
        if kind == "jax":
            return self._send_jax(value)
        return self._send_numpy(np.asarray(value))

    def _send_torch(self, tensor: Any) -> Any:
        import iree.runtime as rt

        torch = sys.modules["torch"]
        if tensor.requires_grad:
            if torch.is_grad_enabled():
                _warn_of_gradients()
            tensor = tensor.detach()
        device = tensor.device
        if self.kind == "torch" and (self.home is None or self.home.type == "cpu"):
            self.home = device
        on_host = device.type == "cpu"
        dlpack = _HOST if on_host else {"cuda": self.dlpack}.get(device.type)
        if self.dlpack is None or dlpack != self.dlpack or not tensor.numel():
            return self._send_numpy(numpy_of(tensor))
        if not on_host and not self._synchronized:
            # Work that torch queued before must be done: IREE uses a stream of its own.
            torch.cuda.current_stream(device).synchronize()
            self._synchronized = True
        # IREE expects the strides of C order even for axes of size 1.
        strides = _c_order_strides(tensor.shape)
        if tensor.stride() != strides:
            tensor = tensor.contiguous().as_strided(tensor.shape, strides)
        address = tensor.data_ptr()
        if address % ALIGNMENT:
            tensor = tensor.clone()
            address = tensor.data_ptr()
        self.shared.append((address, tensor.nbytes))
        self.owners.append(tensor)
        # iree-runtime 3.13 takes no DLPack tensor of eight-bit floats: bytes go, and the type.
        bytewise = _is_float8(dtype_name(tensor))
        raw = tensor.view(torch.uint8) if bytewise else tensor
        view = self.device.from_dlpack_capsule(torch.utils.dlpack.to_dlpack(raw))
        if not bytewise:
            return view
        element_type = _element_type(numpy_dtype(dtype_name(tensor)))
        return rt.HalBufferView(view.get_buffer(), tuple(tensor.shape), element_type)

    def _send_jax(self, array: Any) -> Any:
        if self.kind == "jax" and self.home is None:
            self.home = next(iter(array.devices()))
        devices = array.devices()
        if _is_float8(dtype_name(array)):
            return self._send_numpy(np.asarray(array))
        if (
            array.size
            and len(devices) == 1
            and self.dlpack == _JAX_PLATFORMS.get(next(iter(devices)).platform)
        ):
            array.block_until_ready()
            if array.unsafe_buffer_pointer() % ALIGNMENT == 0:
                self.owners.append(array)
                return self.device.from_dlpack_capsule(array.__dlpack__())
        return self._send_numpy(np.asarray(array))

    def _send_numpy(self, array: Any) -> Any:
        import iree.runtime as rt

        dtype = array.dtype
        flags = array.flags
        if not (flags.c_contiguous and dtype.isnative):
            dtype = dtype.newbyteorder("=")
            array = np.asarray(array, dtype=dtype, order="C")
            flags = array.flags
        shape = array.shape
        raw = array.reshape(-1).view(np.uint8)
        if self.dlpack == _HOST and flags.writeable and raw.size:
            address = _address(raw)
            if address % ALIGNMENT == 0:
                self.shared.append((address, raw.nbytes))
                buffer = self.device.allocator.import_host_allocation(raw, *_imported_flags())
                self.owners.append((raw, buffer))
                return rt.HalBufferView(buffer, shape, _element_type(dtype))
        return self._upload(raw, shape, dtype)

    def _upload(self, raw: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Copies bytes to the device."""
        import iree.runtime as rt

        buffer = self.device.allocator.allocate_buffer_copy(
            memory_type=int(rt.MemoryType.DEVICE_LOCAL),
            allowed_usage=int(rt.BufferUsage.DEFAULT),
            device=self.device,
            buffer=raw if raw.size else _ONE_BYTE,
        )
        return rt.HalBufferView(buffer, shape, _element_type(dtype))

    def receive(self, view: Any, spec: TensorSpec | None) -> Any:
        """The array of a result, on the device and of the kind of the arguments.

        Args:
          view: the result's buffer view.
          spec: its spec from the model; None when it is not known.
        """
        if self.dlpack is None or not self._is_exchangeable() or _holds_float8(view.element_type):
            array = self._numpy(view, spec)
            if self.kind == "torch":
                return torch_of(array).to(self.home)
            if self.kind == "jax":
                return sys.modules["jax"].device_put(array, self.home)
            return array
        if self.kind == "jax":
            import jax.dlpack

            exported = _DlpackView(self.device, view, self.dlpack, self._device_index())
            return jax.device_put(jax.dlpack.from_dlpack(exported), self.home)
        capsule = self.device.create_dlpack_capsule(view, self.dlpack, self._device_index())
        torch = sys.modules["torch"]
        tensor = torch.utils.dlpack.from_dlpack(capsule)
        if spec is not None and (name := _integer_type(spec.dtype)) is not None:
            tensor = tensor.view(getattr(torch, name))
        if self._is_shared(tensor.data_ptr(), tensor.nbytes):
            tensor = tensor.clone()
        return tensor if tensor.device == self.home else tensor.to(self.home)

    def _is_exchangeable(self) -> bool:
        """Whether the package of the arguments takes buffers of this device.

        Where its arrays are on the host, it may be built without support for the device.
        """
        if self.kind == "numpy":
            return False
        if self.kind == "jax" and self.home is not None:
            return _JAX_PLATFORMS.get(self.home.platform) == self.dlpack
        return self.home is None or (self.home.type == "cpu") == (self.dlpack == _HOST)

    def _numpy(self, view: Any, spec: TensorSpec | None) -> Any:
        dtype, shape = _dtype(view.element_type), view.shape
        size = math.prod(shape) * dtype.itemsize
        stated = dtype if spec is None else _stated_type(dtype, spec.dtype)
        if not size:
            return np.empty(shape, stated)
        source = view.get_buffer()
        if self.dlpack != _HOST:
            source = self._to_host(source)
        # With several axes `asarray` of iree-runtime 3.13 returns a view that alone owns the
        # memory; numpy drops it from the bases of slices, which then read freed memory.
        raw = source.map().asarray([source.byte_length()], _BYTE)
        array = raw[:size].view(stated).reshape(shape)
        return array.copy() if self._is_shared(_address(raw), size) else array

    def _to_host(self, source: Any) -> Any:
        """A copy of a device buffer in memory that the host can map."""
        import iree.runtime as rt

        staged = self.device.allocator.allocate_buffer(
            memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
            allocation_size=source.byte_length(),
        )
        semaphore = self.device.create_semaphore(0)
        self.device.queue_copy(
            source,
            staged,
            wait_semaphores=rt.HalFence.create_at(semaphore, 0),
            signal_semaphores=rt.HalFence.create_at(semaphore, 1),
        )
        rt.HalFence.create_at(semaphore, 1).wait()
        return staged

    def _device_index(self) -> int:
        """Index of the device among those of its type."""
        return getattr(self.home, "index", None) or 0

    def _is_shared(self, address: int, size: int) -> bool:
        """Whether a result overlaps an argument or another result.

        A model may return one of its arguments, and IREE computes equal results once.
        """
        if self.copies and any(at < address + size and address < at + n for at, n in self.shared):
            return True
        self.shared.append((address, size))
        return False


def _is_float8(mlir: str) -> bool:
    return mlir.startswith("f8")


@functools.cache
def _holds_float8(element_type: int) -> bool:
    return _dtype(element_type).name.startswith("float8")


class _DlpackView:
    """A buffer view with the methods of the array API's `from_dlpack`."""

    def __init__(self, device: Any, view: Any, kind: int, index: int) -> None:
        self._device = device
        self._view = view
        self._dlpack_device = (kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._dlpack_device

    def __dlpack__(self, **_: Any) -> Any:
        return self._device.create_dlpack_capsule(self._view, *self._dlpack_device)


@functools.cache
def _integer_type(stated: str) -> str | None:
    """PyTorch's name of an integer type of whole bytes; a returned argument has its own."""
    return numpy_dtype(stated).name if re.fullmatch(r"u?i(8|16|32|64)", stated) else None


@functools.lru_cache(maxsize=256)
def _stated_type(found: np.dtype[Any], stated: str) -> np.dtype[Any]:
    """The type of a result by the model, which knows signs and types that are stored as bytes."""
    if found.kind not in "iu" or not (stated in STORED or re.fullmatch(r"u?i\d+", stated)):
        return found
    wanted = numpy_dtype(stated)
    return wanted if wanted.itemsize == found.itemsize else found


@functools.cache
def _dlpack_type(uri: str) -> int | None:
    return _DLPACK.get(uri.partition(":")[0])


@functools.lru_cache(maxsize=1024)
def _c_order_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of C order, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _address(array: Any) -> int:
    """Address of the first byte; `array.ctypes` takes three times as long."""
    address: int = array.__array_interface__["data"][0]
    return address


@functools.cache
def _imported_flags() -> tuple[int, int]:
    """Memory type and buffer usage of imported host memory."""
    import iree.runtime as rt

    return (
        int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING),
    )


@functools.cache
def _warn_of_gradients() -> None:
    """Warns, once in a process."""
    warnings.warn(
        "an argument requires a gradient, and the results of a compiled program have none: call it "
        "under torch.no_grad(), or use torch.compile(backend='mlirfuse')",
        stacklevel=6,
    )


@functools.cache
def _dtype(element_type: int) -> np.dtype[Any]:
    """Numpy's element type for iree-runtime's."""
    import iree.runtime as rt

    found: np.dtype[Any] = np.dtype(rt.HalElementType.map_to_dtype(element_type))
    return found


@functools.cache
def _element_type(dtype: np.dtype[Any]) -> Any:
    from iree.runtime.dtypes import map_dtype_to_hal_element_type

    if dtype_spelling(dtype) in STORED:
        dtype = _BYTE
    found = map_dtype_to_hal_element_type(dtype)
    if found is None:
        raise CallError(f"element type {dtype} has no counterpart in iree-runtime")
    return int(found)
